"""Dates, durations and ordered categories: as features, from every kind of table, the same at prediction."""

import pickle
import warnings
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import treelite
from hypothesis import given
from hypothesis import strategies as st

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches
from agbm._data import dates
from agbm._data.derivation import Derivation, look

FAST = {"max_iter": 15, "n_members": 1, "early_stopping": False}
ALL_PARTS = ("day of year", "day of month", "weekday", "hour")


def forms_of(texts):
    """The forms in which all of the texts are dates or times of day."""
    return [form for form in dates.FORMS if not np.isnat(dates.parse(texts, form)).any()]


def derivation_of(model):
    return model.model_.reader.derivation


def dated(n=600, seed=0):
    """Rows whose label depends on the hour, the weekday and the elapsed time."""
    rng = np.random.default_rng(seed)
    when = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900 * 24, n), unit="h")
    y = np.sin(when.hour / 24 * 6.28) + (when.day_of_week >= 5) + (when - when.min()).days / 300
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "when": when,
            "size": pd.Categorical(rng.choice(["s", "m", "l"], n), categories=["s", "m", "l"], ordered=True),
            "colour": rng.choice(["red", "blue"], n),
        }
    )
    return frame, np.asarray(y) + frame["size"].cat.codes.to_numpy() * 0.5


class TestForms:
    when = st.datetimes(datetime(1971, 1, 1), datetime(2068, 12, 31))

    @given(when=when)
    @pytest.mark.parametrize(
        ("pattern", "form"),
        [
            ("%Y-%m-%d %H:%M:%S", "year-month-day"),
            ("%Y/%m/%dT%H:%M", "year-month-day"),
            ("%Y-%m-%d", "year-month-day"),
            ("%m/%d/%Y %I:%M %p", "month/day/year"),
            ("%d/%m/%Y", "day/month/year"),
            ("%d.%m.%y %H:%M", "day.month.year"),
            ("%d-%b-%Y", "day month year"),
            ("%B %d, %Y", "month day year"),
            ("%a, %d %b %Y %H:%M:%S GMT", "day month year"),
            ("%Y-%m", "year-month"),
            ("%b %Y", "month year"),
            ("%Y%m%dT%H%M%S", "yearmonthdayThourminutesecond"),
            ("%H:%M", "hour:minute"),
        ],
    )
    def test_are_read_as_strptime_reads_them(self, when, pattern, form):
        text = when.strftime(pattern)
        expected = datetime.strptime(text, pattern)
        if form == "hour:minute":
            expected = expected.replace(year=1970)
        assert form in forms_of([text])
        assert dates.parse([text], form)[0] == np.datetime64(expected)

    @pytest.mark.parametrize("text", ["12", "2020", "1-2-3", "20240131", "2024-02-30", "25:00", "13:00 PM", "red", ""])
    def test_other_text_is_not_a_date(self, text):
        assert forms_of([text]) == []

    def test_day_or_month_is_decided_by_all_texts(self):
        assert forms_of(["03/04/2024"])[0] == "month/day/year"
        assert forms_of(["03/04/2024", "13/04/2024"]) == ["day/month/year"]

    def test_the_clock_that_the_text_shows_counts(self):
        assert dates.parse(["2024-01-31T10:00+02:00"], "year-month-day")[0] == np.datetime64("2024-01-31T10:00")


class TestParts:
    @given(when=st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)))
    def test_parts_equal_those_of_datetime(self, when):
        array = np.array([when], dtype="datetime64[us]")
        found = [float(part.of(array)[0]) for part in dates.PARTS.values()]
        hour = (when - datetime.combine(when.date(), time())) / timedelta(hours=1)
        assert found == [when.timetuple().tm_yday, when.day, when.weekday(), hour]
        assert dates.days(array)[0] == (when - datetime(1970, 1, 1)) / timedelta(days=1)
        assert abs(dates.from_days(dates.days(array))[0] - array[0]) <= np.timedelta64(8, "us")  # a float has no more

    def test_missing_dates_are_missing_numbers(self):
        array = np.array(["NaT"], dtype="datetime64[us]")
        assert all(np.isnan(part.of(array)[0]) for part in dates.PARTS.values())
        assert np.isnan(dates.days(array)[0])

    @pytest.mark.parametrize(
        ("last", "frequency", "parts"),
        [
            ("2021-01-01 20:00", "h", ()),
            ("2021-01-05", "h", ("hour",)),
            ("2021-01-20", "D", ("weekday",)),
            ("2021-04-01", "7D", ("day of month",)),
            ("2022-12-30", "D", ("day of month", "weekday")),
            ("2022-12-31", "D", ("day of year", "day of month", "weekday")),
        ],
    )
    def test_a_part_needs_two_cycles_and_several_values(self, last, frequency, parts):
        table = pd.DataFrame({"t": pd.date_range("2021-01-01", last, freq=frequency)})
        assert Derivation.of([look(table)]).dates[0].parts == parts


class TestTables:
    def variants(self, frame):
        """The same dates in other forms and other kinds of tables."""
        text = frame.assign(when=frame["when"].dt.strftime("%d.%m.%Y %H:%M"))
        yield "text", text
        yield "category", text.assign(when=text["when"].astype("category"))
        yield "seconds", frame.assign(when=frame["when"].astype("datetime64[s]"))
        yield "objects", frame.assign(when=frame["when"].dt.to_pydatetime().astype(object))
        plain = frame.assign(size=frame["size"].astype(str))
        yield "polars", pl.from_pandas(plain)
        yield "arrow", pa.Table.from_pandas(plain)
        yield "array", plain.to_numpy(dtype=object)

    def test_predictions_are_the_same_from_all(self):
        frame, y = dated()
        model = AGBMRegressor(**FAST).fit(frame, y)
        expected = model.predict(frame)
        assert derivation_of(model).dates[1].parts == ALL_PARTS
        assert derivation_of(model).ordered == {2: ["s", "m", "l"]}
        for name, table in self.variants(frame):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                assert np.array_equal(model.predict(table), expected), name

    def test_fits_are_the_same_from_all(self):
        frame, y = dated()
        expected = AGBMRegressor(**FAST).fit(frame, y).predict(frame)
        for name, table in self.variants(frame):
            if name not in ("category", "polars", "arrow", "array"):  # these are categories, or have no order of them
                assert np.array_equal(AGBMRegressor(**FAST).fit(table, y).predict(frame), expected), name

    def test_models_learn_from_dates(self):
        frame, y = dated(2000)
        model = AGBMRegressor(n_members=1, max_iter=60, early_stopping=False).fit(frame[:1500], y[:1500])
        assert model.score(frame[1500:], y[1500:]) > 0.95
        assert model.n_features_in_ == len(model.feature_importances_) == len(model.split_counts_) == 4
        assert model.feature_importances_.argmax() == 1

    def test_contributions_are_those_of_columns(self):
        frame, y = dated()
        model = AGBMRegressor(**FAST).fit(frame, y)
        found = model.predict_contributions(frame)
        assert found.shape == (len(frame), 5)
        assert np.allclose(found.sum(axis=1), model.predict(frame))

    def test_all_kinds_of_time(self):
        n = 300
        when = pd.date_range("2020-01-01", periods=n, freq="3D")
        table = pl.DataFrame(
            {
                "moment": when.to_numpy(), "day": [moment.date() for moment in when],
                "span": when.to_numpy() - when.to_numpy()[0], "clock": [time(i % 24, 30) for i in range(n)],
            }
        )  # fmt: skip
        model = AGBMRegressor(**FAST).fit(table, np.arange(n) % 24)
        assert [column.parts for column in derivation_of(model).dates.values()] == [
            ALL_PARTS[:3],
            ALL_PARTS[:3],
            (),
            (),
        ]
        assert model.feature_importances_.argmax() == 3  # the label is the clock
        zoned = pd.DataFrame({"t": when.tz_localize("Europe/Paris")})
        assert np.array_equal(
            AGBMRegressor(**FAST).fit(zoned, np.arange(n)).predict(zoned),
            AGBMRegressor(**FAST).fit(pd.DataFrame({"t": when}), np.arange(n)).predict(zoned),
        )

    def test_an_array_of_dates(self):
        when = np.arange("2020-01-01", "2022-12-31", dtype="datetime64[D]")[:, np.newaxis]
        y = (when[:, 0].astype(int) + 3) % 7 >= 5
        assert AGBMClassifier(**FAST).fit(when, y).score(when, y) == 1.0

    def test_missing_dates_are_missing_values(self):
        frame, y = dated()
        frame.loc[::3, "when"] = pd.NaT
        assert np.isfinite(AGBMRegressor(**FAST).fit(frame, y).predict(frame)).all()

    @pytest.mark.filterwarnings("ignore:.*cannot be read as dates of the form")
    def test_rows_of_weight_zero_do_not_count(self):
        frame, y = dated()
        weight = np.ones(len(y), dtype=int)
        weight[:200] = 0
        with_text = frame.assign(when=frame["when"].dt.strftime("%d/%m/%Y %H:%M"))
        with_text.loc[:199, "when"] = "unknown"
        for table in (frame, with_text):
            whole = AGBMRegressor(**FAST).fit(table, y, sample_weight=weight)
            rest = AGBMRegressor(**FAST).fit(table[200:], y[200:])
            assert derivation_of(whole).dates == derivation_of(rest).dates != {}
            assert np.array_equal(whole.predict(table[200:]), rest.predict(table[200:]))

    def test_categorical_dtype_makes_a_categorical_feature(self):
        frame, y = dated()
        for when in (frame["when"].dt.strftime("%Y-%m"), frame["when"].dt.normalize()):
            model = AGBMRegressor(**FAST).fit(frame.assign(when=when.astype("category")), y)
            assert not derivation_of(model).dates
            assert 1 in model.model_.categories

    def test_text_that_is_categorical_by_name_stays_so(self):
        frame, y = dated()
        text = frame.assign(when=frame["when"].dt.strftime("%Y-%m"))
        model = AGBMRegressor(**FAST, categorical_features=["when", "size"]).fit(text, y)
        assert not derivation_of(model)
        assert sorted(model.model_.categories) == [1, 2, 3]  # the types say the last one


class TestBlocks:
    def test_bits_do_not_depend_on_batches(self):
        frame, y = dated()
        text = frame.assign(when=frame["when"].dt.strftime("%d/%m/%Y %H:%M"))
        for table in (frame, text):
            expected = AGBMRegressor(**FAST).fit(table, y).predict(table)
            parts = [(table[a:b], y[a:b]) for a, b in pairwise([0, 5, 250, 600])]
            found = AGBMRegressor(**FAST).fit(Batches(partial(iter, parts)))
            assert np.array_equal(found.predict(table), expected)

    def test_a_dataset(self, tmp_path):
        frame, y = dated()
        table = pa.Table.from_pandas(frame.assign(size=frame["size"].astype(str), y=y))
        pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
        found = AGBMRegressor(**FAST).fit(pa.dataset.dataset(tmp_path), "y")
        features = table.drop_columns("y")
        assert np.array_equal(found.predict(features), AGBMRegressor(**FAST).fit(features, y).predict(features))

    def test_orders_must_be_the_same(self):
        frame, y = dated()
        other = frame.assign(size=frame["size"].cat.reorder_categories(["l", "m", "s"]))
        batches = Batches(lambda: iter([(frame, y), (other, y)]))
        with pytest.raises(ValueError, match="ordered categories, in another order"):
            AGBMRegressor(**FAST).fit(batches)


class TestModel:
    def test_files_keep_everything(self, tmp_path):
        frame, y = dated()
        text = frame.assign(when=frame["when"].dt.strftime("%d/%m/%Y %H:%M"))
        for table in (frame, text):
            model = AGBMRegressor(**FAST).fit(table, y)
            model.save(tmp_path / "m.agbm")
            loaded = agbm.load(tmp_path / "m.agbm")
            assert np.array_equal(loaded.predict(frame), model.predict(frame))
            assert vars(derivation_of(loaded)).items() >= {"dates": derivation_of(model).dates}.items()

    def test_exports_take_what_encode_returns(self):
        from agbm.export import encode, export_text, to_treelite

        frame, y = dated()
        model = AGBMRegressor(**FAST).fit(frame, y)
        numbers = encode(model, frame)
        assert numbers.shape == (len(frame), 8)
        assert "when: hour" in "".join(export_text(model, tree=tree) for tree in range(5))
        found = treelite.gtil.predict(to_treelite(model), numbers).ravel()
        assert np.allclose(found, model.predict(frame))

    def test_warm_start_goes_on(self):
        frame, y = dated()
        once = AGBMRegressor(**FAST | {"max_iter": 10}).fit(frame, y)
        twice = AGBMRegressor(**FAST | {"max_iter": 4}, warm_start=True).fit(frame, y)
        assert np.array_equal(twice.set_params(max_iter=10).fit(frame, y).predict(frame), once.predict(frame))

    def test_values_that_are_no_dates(self):
        frame, y = dated()
        text = frame.assign(when=frame["when"].dt.strftime("%d/%m/%Y %H:%M"))
        model = AGBMRegressor(**FAST).fit(text, y)
        with pytest.warns(UserWarning, match=r"1 of \d+ values of column 'when' cannot be read as dates of the form"):
            model.predict(text.assign(when=["soon", *text["when"][1:]]))
        with pytest.raises(ValueError, match="column 'when' has dates in other rows, but none here that can be read"):
            model.predict(text.assign(when=1.0))
        with pytest.warns(UserWarning, match="ordered categories that were not there in fit, such as 'xl'"):
            model.predict(text.assign(size="xl"))

    def test_predictor_of_rows_by_name(self):
        frame, y = dated()
        frame = frame.assign(text=frame["when"].dt.strftime("%d/%m/%Y %H:%M"))
        frame.loc[3:5, ["when", "text"]] = None
        model = AGBMRegressor(**FAST).fit(frame, y)
        predictor, expected = model.predictor(), model.predict(frame)
        records = frame.to_dict("records")
        assert np.array_equal(predictor(records), expected)
        assert [predictor(record) for record in records[:20]] == expected[:20].tolist()
        assert pickle.loads(pickle.dumps(predictor))(records[7]) == expected[7]
        with pytest.raises(ValueError, match="column 'text' has dates in other rows, but none here that can be read"):
            predictor({**records[0], "text": "soon"})
        with pytest.raises(
            TypeError, match=r"columns \['when', 'size', 'colour', 'text'\] are categories or dates; got an array"
        ):
            predictor(np.zeros(frame.shape))
        unnamed = AGBMRegressor(**FAST).fit(frame.to_numpy(dtype=object), y)
        with pytest.raises(TypeError, match=r"columns \[\d.*\] of the model are dates, ordered categories or lists"):
            unnamed.predictor()(np.zeros(frame.shape))

    def test_what_needs_numbers_says_so(self):
        frame, y = dated()
        model = AGBMRegressor(**FAST).fit(frame[["a", "when"]], y)
        with pytest.raises(ValueError, match="method='recursion' cannot vary dates"):
            agbm.plot.partial_dependence(model, frame, ["when"], method="recursion")
        with pytest.raises(ValueError, match="dates have panels of their own"):
            agbm.plot.partial_dependence(model, frame, [("a", "when")])
        with pytest.raises(ValueError, match="are dates, of which parts repeat"):
            AGBMRegressor(monotonic_cst={"when": 1}).fit(frame, y)

    def test_interactions_of_parts_go_with_their_column(self):
        frame, y = dated()
        model = AGBMRegressor(**FAST, interaction_cst=[[0], [1], [2, 3]]).fit(frame, y)
        forest, reader = model.model_.folded, model.model_.reader
        for tree in range(len(forest.roots)):
            begin = forest.roots[tree]
            end = forest.roots[tree + 1] if tree + 1 < len(forest.roots) else len(forest.nodes)
            features = forest.nodes["feature"][begin:end]
            columns = set(reader.columns_of(features[features >= 0]).ravel().tolist())
            assert any(columns <= group for group in ({0}, {1}, {2, 3}))

    def test_a_monotone_order(self):
        frame, y = dated()
        model = AGBMRegressor(**FAST, monotonic_cst={"size": 1}).fit(frame, -y)
        sizes = [model.predict(frame.assign(size=size)) for size in ["s", "m", "l"]]
        assert (np.diff(sizes, axis=0) >= 0).all()

    def test_date_objects_are_dates(self):
        table = pd.DataFrame({"d": [date(2020, 1, 1) + timedelta(days=i) for i in range(100)]})
        assert derivation_of(AGBMRegressor(**FAST).fit(table, np.arange(100.0))).dates[0].form == ""
