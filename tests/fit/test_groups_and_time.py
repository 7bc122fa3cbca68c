"""groups and time: what is held out together, and later rows that validate earlier ones."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival, Batches
from agbm._data.hold_out import held_out_rows, time_windows
from agbm._data.units import keys_of
from agbm.methods import Fading

FAST = {"max_iter": 6, "max_leaf_nodes": 4, "n_jobs": 1}
N_GROUPS, ROWS = 40, 10


def customers(n_groups=N_GROUPS, seed=0):
    """Rows of customers, most of whose labels follow from who they are."""
    rng = np.random.default_rng(seed)
    customer = np.repeat(np.arange(n_groups), ROWS)
    traits, effect = rng.normal(size=(n_groups, 4)), rng.normal(scale=1.5, size=n_groups)
    X = np.column_stack([traits[customer], rng.normal(size=(len(customer), 2))])
    return X, traits[customer, 0] + effect[customer] + X[:, 4] + 0.5 * rng.normal(size=len(customer)), customer


def drifting(n=600, seed=0):
    """Rows whose level rises with time, which no column shows."""
    rng = np.random.default_rng(seed)
    X, time = rng.normal(size=(n, 3)), np.sort(rng.integers(0, n // 2, n))
    return X, X[:, 0] + 4.0 * time / n + 0.3 * rng.normal(size=n), time


def bytes_of(model, path):
    model.save(path)
    return path.read_bytes()


class TestKeys:
    @pytest.mark.parametrize("values", [
        [3, 1, 3, 2], [3.0, 1.5, 3.0, -0.0], ["c", "a", "c", "b"], [True, False, True, True],
        pd.Categorical(["c", "a", "c", "b"]),
        np.array(["2024-01-03", "2024-01-01", "2024-01-03", "2024-01-02"], "M8[D]"),
        [("a", 1), ("b", 1), ("a", 1), ("b", 2)],
    ], ids=str)  # fmt: skip
    def test_equal_groups_have_equal_keys(self, values):
        if isinstance(values, list) and isinstance(values[0], tuple):
            given = np.empty(4, dtype=object)
            given[:] = values
        else:
            given = values
        keys, listed = keys_of("groups", given, 4), list(given)
        assert [[a == b for a in keys] for b in keys] == [[a == b for a in listed] for b in listed]

    @pytest.mark.parametrize("values", [
        [3, -1, 2**60], [3.5, -1.0, np.inf], np.array(["2024-03-01", "1960-01-01", "2024-03-02"], "M8[ns]"),
        ["2024-03-01", "1960-01-01 12:30", "2024-03-01T10:00"],
        pd.to_datetime(["2024-03-01", "1960-01-01", "2030-01-01"]),
        [datetime.date(2024, 3, 1), datetime.date(1960, 1, 1), datetime.date(2025, 1, 1)],
        np.array([3, 1, 9], "m8[h]"), np.array([3, 1, 2**64 - 1], np.uint64),
        pd.Series(pd.to_datetime(["2024-03-01 01:00+02:00", "2024-02-29 22:30Z", "2024-03-01 00:00Z"], utc=True)),
    ], ids=str)  # fmt: skip
    def test_keys_of_times_have_their_order(self, values):
        assert np.argsort(keys_of("time", values, 3)).tolist() == [1, 0, 2]

    @given(arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=False)))
    def test_order_of_numbers(self, x):
        keys = keys_of("time", x, len(x))
        assert ((keys[:, np.newaxis] < keys) == (x[:, np.newaxis] < x)).all()

    def test_errors(self):
        X, y, customer = customers()
        for name in ("groups", "time"):
            with pytest.raises(ValueError, match=rf"{name} has shape \(3,\), X has 400 rows"):
                AGBMRegressor(**FAST).fit(X, y, **{name: [1, 2, 3]})
            with pytest.raises(ValueError, match=f"{name} has missing values"):
                AGBMRegressor(**FAST).fit(X, y, **{name: np.where(customer == 0, np.nan, customer)})
            with pytest.raises(ValueError, match=f"{name} and X_val both say"):
                AGBMRegressor(**FAST).fit(X, y, X_val=X, y_val=y, **{name: customer})
            with pytest.raises(TypeError, match=f"{name}='who': names of columns work with"):
                AGBMRegressor(**FAST).fit(X, y, **{name: "who"})
            with pytest.raises(ValueError, match=f"{name}='who': X has no such column; its columns are"):
                AGBMRegressor(**FAST).fit(pd.DataFrame(X, columns=list("abcdef")), y, **{name: "who"})
        with pytest.raises(ValueError, match="groups and time are both given"):
            AGBMRegressor(**FAST).fit(X, y, groups=customer, time=customer)
        with pytest.raises(ValueError, match="text such as 'x', which is not a date like"):
            AGBMRegressor(**FAST).fit(X, y, time=["x"] * len(y))
        with pytest.raises(TypeError, match="time must contain numbers, dates or ISO dates as text; got int, str"):
            AGBMRegressor(**FAST).fit(X, y, time=np.array([1, "a"] * 200, dtype=object))
        with pytest.raises(ValueError, match="time has one value only"):
            AGBMRegressor(**FAST).fit(X, y, time=np.zeros(len(y)))
        with pytest.raises(ValueError, match="1 groups of rows are too few"):
            AGBMRegressor(**FAST).fit(X, y, groups=np.zeros(len(y)))
        with pytest.raises(ValueError, match="warm_start=True does not work with time"):
            AGBMRegressor(**FAST, warm_start=True).fit(X, y, time=customer)


class TestGroups:
    def test_whole_groups_are_held_out(self):
        _, _, customer = customers()
        keys = keys_of("groups", customer, len(customer))
        drawn = held_out_rows(len(customer), 0.1, 5, None, 0, keys)
        parts = [drawn.rows(number) for number in range(5)]
        assert np.sum(parts, axis=0).max() == 1
        for part in parts:
            assert set(customer[part]).isdisjoint(customer[~part])
            assert len(set(customer[part])) == N_GROUPS // 10

    def test_losses_and_intervals_are_those_of_new_groups(self):
        X, y, customer = customers(150)
        X_new, y_new, _ = customers(400, seed=1)
        found = {}
        for name, groups in (("rows", None), ("groups", customer)):
            model = AGBMRegressor(n_jobs=1, max_iter=60).fit(X, y, groups=groups)
            bounds = model.predict_interval(X_new, 0.9)
            covered = np.mean((bounds[:, 0] <= y_new) & (y_new <= bounds[:, 1]))
            test = np.mean((model.predict(X_new) - y_new) ** 2) / 2
            found[name] = model.history_["validation_loss"][model.best_iteration_] / test, covered
        assert found["rows"][0] < 0.5
        assert found["rows"][1] < 0.8
        assert 0.75 < found["groups"][0] < 1.3
        assert 0.85 < found["groups"][1] < 0.95
        assert model.resolved_params_["held_out_by"] == "groups"

    @pytest.mark.parametrize("kind", ["numbers", "text", "column", "threads"])
    def test_same_bits(self, kind, tmp_path):
        X, y, customer = customers()
        frame = pd.DataFrame(X).assign(who=customer).rename(columns=str)
        expected = AGBMRegressor(**FAST).fit(frame, y, groups=customer)
        model = AGBMRegressor(**FAST)
        if kind == "numbers":
            model.fit(frame, y, groups=customer.astype(np.int32))
        elif kind == "text":  # other groups are drawn, since their order is another one
            model.fit(frame, y, groups=customer.astype(str))
            again = AGBMRegressor(**FAST).fit(frame, y, groups=pl.Series(customer.astype(str)))
            assert bytes_of(model, tmp_path / "a") == bytes_of(again, tmp_path / "b")
            return
        elif kind == "column":
            model.fit(frame, y, groups="who")
        else:
            model.set_params(n_jobs=3).fit(frame, y, groups=customer)
        assert bytes_of(model.set_params(n_jobs=1), tmp_path / "a") == bytes_of(expected, tmp_path / "b")

    @pytest.mark.parametrize("time", [False, True])
    def test_batches_and_datasets(self, time, tmp_path):
        X, y, customer = customers()
        table = pa.table({**{f"x{i}": X[:, i] for i in range(6)}, "who": customer, "y": y})
        name = "time" if time else "groups"
        frame = table.drop(["y"]).to_pandas()
        expected = bytes_of(AGBMRegressor(**FAST).fit(frame, y, **{name: customer}), tmp_path / "table")
        batches = Batches(lambda: ((frame[i : i + 90], y[i : i + 90]) for i in range(0, len(y), 90)))
        model = AGBMRegressor(**FAST).fit(batches, **{name: customer})
        assert bytes_of(model, tmp_path / "batches") == expected
        model = AGBMRegressor(**FAST).fit(ds.dataset(table), "y", **{name: "who"})
        assert bytes_of(model, tmp_path / "dataset") == expected

    def test_classes_of_groups(self):
        """The few customers with a rare class are spread over the members."""
        X, _, customer = customers(60)
        y = (customer < 5).astype(int)
        model = AGBMClassifier(**FAST, scoring="roc_auc").fit(X, y, groups=customer)
        assert np.isfinite(model.history_["validation_roc_auc"]).all()

    def test_other_estimators(self):
        X, y, customer = customers()
        found = AGBMSurvival(**FAST).fit(X, (np.exp(y), y < 1.0), groups=customer).resolved_params_
        assert found["held_out_by"] == "groups"
        query = np.arange(len(y)) // 5
        ranker = AGBMRanker(**FAST, early_stopping=True)
        assert (
            ranker.fit(X, np.digitize(y, [-1, 1]), qid=query, groups=customer).resolved_params_["held_out_by"]
            == "groups"
        )
        with pytest.raises(ValueError, match=r"groups differs between the documents of query 0, which are held out"):
            ranker.fit(X, np.digitize(y, [-1, 1]), qid=query, groups=np.arange(len(y)))

    def test_custom_learners(self):
        X, y, customer = customers()
        model = AGBMRegressor(method=Fading(learner=LinearRegression()), max_iter=3, n_members=2)
        assert model.fit(X, y, groups=customer).resolved_params_["held_out_by"] == "groups"

    def test_few_groups(self):
        X, y, customer = customers()
        model = AGBMRegressor(**FAST).fit(X, y, groups=customer % 3)
        assert model.resolved_params_["held_out_by"] == "groups"

    def test_verification_needs_the_same_groups(self):
        X, y, customer = customers()
        model = AGBMRegressor(**FAST).fit(X, y, groups=customer)
        assert model.verify(X, y, groups=customer)
        assert not model.verify(X, y)

    def test_update(self):
        X, y, customer = customers()
        model = AGBMRegressor(**FAST).fit(X, y, groups=customer)
        model.update(X, y, mode="trees", groups=customer)
        assert model.resolved_params_["held_out_by"] == "groups"
        with pytest.raises(ValueError, match="groups has no effect with mode='leaves'"):
            model.update(X, y, mode="leaves", groups=customer)

    def test_metadata_is_routed(self):
        X, y, customer = customers()
        with sklearn.config_context(enable_metadata_routing=True):
            model = AGBMRegressor(**FAST).set_fit_request(groups=True)
            pipeline = make_pipeline(StandardScaler(), model).fit(X, y, groups=customer)
            assert pipeline[-1].resolved_params_["held_out_by"] == "groups"
            search = GridSearchCV(model, {"max_leaf_nodes": [3, 4]}, cv=GroupKFold(3)).fit(X, y, groups=customer)
            assert search.best_estimator_.resolved_params_["held_out_by"] == "groups"


def expected_windows(time, share, n_parts, least=0.5):
    """The same by sorting."""
    ordered, n = np.sort(time), len(time)
    size = min(max(1, int(np.ceil(share * n))), n - 1)
    first = max(n - n_parts * size, min(int(least * n), n - size)) if n_parts > 1 else n - size
    found = []
    for origin in np.linspace(first, n - size, n_parts).astype(int):
        begin = ordered[origin] if ordered[origin] > ordered[0] else np.unique(ordered)[1]
        later = time >= begin
        end = ordered[origin + size] if origin + size < n else np.inf
        found.append((time < begin, later & ((time < end) | (time == begin))))
    return found


class TestTime:
    @settings(max_examples=200)
    @given(
        time=arrays(np.uint64, st.integers(2, 40), elements=st.integers(0, 12)).filter(lambda x: len(set(x)) > 1),
        share=st.floats(0.01, 0.9), n_parts=st.integers(1, 6), least=st.sampled_from([0.1, 0.5]),
    )  # fmt: skip
    def test_windows(self, time, share, n_parts, least):
        windows = time_windows(time, share, n_parts, least)
        for (begin, end), (train, test) in zip(windows, expected_windows(time, share, n_parts, least), strict=True):
            before, inside = time < begin, (time >= begin) & (time < end)
            assert before.any()
            assert (before == train).all()
            assert (inside == test).all() or not test.any()

    def test_windows_follow_each_other(self):
        windows = time_windows(np.arange(100, dtype=np.uint64), 0.1, 5)
        assert windows == [(50, 60), (60, 70), (70, 80), (80, 90), (90, 100)]
        assert time_windows(np.arange(100, dtype=np.uint64), 0.3, 3) == [(50, 80), (60, 90), (70, 100)]

    @pytest.mark.parametrize("n_members", [1, 3])
    def test_later_rows_validate_and_all_rows_train(self, n_members):
        X, y, time = drifting(1200)
        order = np.random.default_rng(0).permutation(len(y))
        model = AGBMRegressor(n_members=n_members, n_jobs=1, learning_rate=0.3).fit(
            X[order], y[order], time=time[order]
        )
        random = AGBMRegressor(n_members=n_members, n_jobs=1, learning_rate=0.3).fit(X[order], y[order])
        assert model.resolved_params_["held_out_by"] == "time"
        last = [of.history_["validation_loss"][of.best_iteration_] for of in (model, random)]
        assert last[0] > 1.5 * last[1]  # the level of later rows is not known
        final = AGBMRegressor(
            n_members=n_members, n_jobs=1, early_stopping=False, max_iter=model.best_iteration_, learning_rate=0.3
        ).fit(X[order], y[order])
        assert final.predict(X).tobytes() == model.predict(X).tobytes()

    def test_losses_are_those_of_earlier_fits(self):
        """The trial's losses are those of models of the first rows, measured on the rows that follow."""
        X, y, time = drifting()
        X = X.round(0)  # the thresholds are those of all rows
        model = AGBMRegressor(**FAST, n_members=1, validation_fraction=0.25).fit(X, y, time=time)
        ((begin, end),) = time_windows(keys_of("time", time, len(y)), 0.25, 1)
        keys = keys_of("time", time, len(y))
        train, test = keys < begin, (keys >= begin) & (keys < end)
        assert train.sum() + test.sum() == len(y)
        early = AGBMRegressor(
            **FAST, n_members=1, min_samples_leaf=model.resolved_params_["min_samples_leaf"], early_stopping=True,
        ).fit(X[train], y[train], X_val=X[test], y_val=y[test])  # fmt: skip
        expected = early.history_["validation_loss"][: model.n_iter_ + 1]
        np.testing.assert_array_equal(model.history_["validation_loss"], expected)

    def test_intervals(self):
        X, y, time = drifting(2000)
        train = time < np.quantile(time, 0.8)
        model = AGBMRegressor(n_jobs=1).fit(X[train], y[train], time=time[train])
        random = AGBMRegressor(n_jobs=1).fit(X[train], y[train])
        covered = []
        for of in (model, random):
            bounds = of.predict_interval(X[~train], 0.9)
            covered.append(np.mean((bounds[:, 0] <= y[~train]) & (y[~train] <= bounds[:, 1])))
        assert covered[0] > covered[1] + 0.1

    def test_weights_offsets_and_watched_rows(self):
        X, y, time = drifting()
        order = np.random.default_rng(0).permutation(len(y))
        weight, offset = np.random.default_rng(1).integers(1, 4, len(y)), X[:, 1]
        models = [
            AGBMRegressor(**FAST).fit(
                X[rows], y[rows], weight[rows], time=time[rows], offset=offset[rows],
                watch={"w": (X, y, weight, offset)},
            )
            for rows in (np.arange(len(y)), order)
        ]  # fmt: skip
        for name in ("validation_loss", "w_loss", "train_loss"):
            first, second = (model.history_[name] for model in models)
            assert np.isfinite(first).all()
            np.testing.assert_allclose(first, second, rtol=0.05)

    @pytest.mark.parametrize("loss", ["distribution:normal", "absolute_error", "quantile:0.1,0.9"])
    def test_losses_that_learn_from_held_out_rows(self, loss):
        X, y, time = drifting()
        model = AGBMRegressor(**FAST, loss=loss).fit(X, y, time=time)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.history_["validation_loss"]).all()
        if loss == "distribution:normal":
            assert model.model_.spread_level != 0.0

    def test_temperature(self):
        X, y, time = drifting()
        model = AGBMClassifier(**FAST, method=Fading(temperature_scaling=True)).fit(X, y > 1.0, time=time)
        assert model.resolved_params_["temperature"] != 1.0
        plain = AGBMClassifier(**FAST).fit(X, y > 1.0, time=time)
        base = model.model_.start
        ratio = (model.decision_function(X) - base) / (plain.decision_function(X) - base)
        np.testing.assert_allclose(ratio, 1.0 / model.resolved_params_["temperature"])

    def test_other_estimators(self):
        X, y, time = drifting()
        model = AGBMSurvival(**FAST).fit(X, (np.exp(y), y < 2.0), time=time)
        assert np.isfinite(model.predict_survival_function(X[:3], [1.0])).all()
        query = np.repeat(np.arange(60), 10)
        ranker = AGBMRanker(**FAST, early_stopping=True).fit(
            X, np.digitize(y, [1, 2]), qid=query, time=time[query * 10]
        )
        assert ranker.resolved_params_["held_out_by"] == "time"

    def test_verification_and_files(self, tmp_path):
        X, y, time = drifting()
        model = AGBMRegressor(**FAST).fit(X, y, time=time)
        assert model.verify(X, y, time=time)
        assert model.verify(X, y, time=time, iterations=3)
        assert model.verify(X, y, time=time, iterations=[2])
        assert not model.verify(X, y)
        loaded = agbm.load(bytes_of(model, tmp_path / "a") and tmp_path / "a")
        assert loaded.predict_interval(X).tobytes() == model.predict_interval(X).tobytes()

    def test_update(self):
        X, y, time = drifting()
        model = AGBMRegressor(**FAST).fit(X[:300], y[:300], time=time[:300])
        model.update(X[300:], y[300:], mode="trees", time=time[300:])
        assert model.resolved_params_["held_out_by"] == "time"

    def test_checkpoints(self, tmp_path):
        X, y, time = drifting()
        expected = AGBMRegressor(**FAST).fit(X, y, time=time)
        checkpoint = agbm.Checkpoint(tmp_path / "run", every=1)
        for _ in range(2):
            model = AGBMRegressor(**FAST, callbacks=[checkpoint]).fit(X, y, time=time)
            assert model.predict(X).tobytes() == expected.predict(X).tobytes()


class TestCrossValidation:
    def test_groups(self):
        X, y, customer = customers()
        for labels, estimator in ((y, AGBMRegressor(**FAST)), (y > 0, AGBMClassifier(**FAST))):
            result = agbm.cv(estimator, X, labels, cv=4, groups=customer)
            for train, test in result.splits:
                assert set(customer[train]).isdisjoint(customer[test])
            assert sorted(np.concatenate([test for _, test in result.splits])) == list(range(len(y)))

    def test_time(self):
        X, y, time = drifting()
        result = agbm.cv(AGBMRegressor(**FAST), X, y, cv=4, time=time)
        assert len(result.splits) == 4
        for train, test in result.splits:
            assert time[train].max() < time[test].min()
        assert [len(test) for _, test in result.splits] == pytest.approx([120] * 4, abs=5)
        assert np.isnan(result.predictions[time == 0]).all()
        with pytest.raises(ValueError, match="time decides the folds, and so does cv=GroupKFold"):
            agbm.cv(AGBMRegressor(**FAST), X, y, cv=GroupKFold(3), time=time)


class TestCopies:
    def test_oversampled_rows(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 4))
        y = (X[:, 0] + rng.normal(size=300) > 1.5).astype(int)
        rows = np.concatenate([np.flatnonzero(y == 0), rng.choice(np.flatnonzero(y == 1), 200)])
        n_copies = len(rows) - len(np.unique(rows))
        with pytest.warns(UserWarning, match=f"^{n_copies} of {len(rows)} rows are copies of others") as caught:
            AGBMClassifier(**FAST).fit(X[rows], y[rows])
        assert caught[0].filename == __file__
        AGBMClassifier(**FAST).fit(X[rows], y[rows], groups=rows)  # without a warning

    @pytest.mark.parametrize("kind", ["rounded", "categories", "repeated measurements", "few copies"])
    def test_rows_that_are_equal_by_chance(self, kind):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3))
        y = X[:, 0] + rng.normal(size=400)
        if kind == "rounded":
            X = X.round(0)
        elif kind == "categories":
            X, y = rng.integers(0, 4, size=(400, 3)).astype(float), X[:, 0]
        elif kind == "repeated measurements":
            X = X[np.arange(400) // 4]
        else:
            X[0], y[0] = X[1], y[1]
        AGBMRegressor(**FAST).fit(X, y)
