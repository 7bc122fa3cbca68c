"""Text columns that are dates or numbers, apart from a few values that count as missing."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import agbm
from agbm import AGBMRegressor
from agbm._data.derivation import Derivation, look
from agbm._data.text_columns import MOST_UNREAD, numbers_in

FAST = {"max_iter": 10, "n_members": 2, "n_jobs": 1}
RNG = np.random.default_rng(0)
N = 300
DECIMALS = [f"{number:.3f}" for number in RNG.normal(size=N)]
INTEGERS = [str(number) for number in RNG.integers(1, 100_000, N)]
DAYS = pd.date_range("2021-01-03 10:30", periods=N, freq="29h").strftime("%Y-%m-%d %H:%M").tolist()


def read_as(texts):
    """How a column is read, and what counts as missing."""
    found = Derivation.of([look(pd.DataFrame({"a": pd.Series(texts, dtype=object)}))])
    if found.dates:
        return found.dates[0].form, list(found.dates[0].unread)
    return ("number", list(found.numbers[0])) if found.numbers else ("category", [])


def with_values(texts, *others):
    """The texts, some of which are replaced."""
    return [*others, *texts[len(others) :]]


@pytest.mark.parametrize(
    ("texts", "form", "unread"),
    [
        (DAYS, "year-month-day", []),
        (with_values(DAYS, "0000-00-00", "2021-02-30", ""), "year-month-day", ["0000-00-00", "2021-02-30"]),
        (with_values(DAYS, "a", "b", "c", "d"), "category", []),  # more than 1 %
        (["2021-01", "2021-02", "unknown"] * 9, "category", []),  # too few dates
        (["13/02/2021", "01/02/2021", *(f"{day}/03/2021" for day in range(1, 32)), "soon"], "day/month/year", ["soon"]),
        (DECIMALS, "number", []),
        (with_values(DECIMALS, "?"), "number", ["?"]),
        (with_values(DECIMALS, *["?"] * 200), "number", ["?"]),  # a mark of missing values may be frequent
        (with_values(DECIMALS, "?", "n/a", " NA ", "NaN"), "number", ["?"]),
        (with_values(DECIMALS, "A17", "A18", "B2", "C"), "category", []),
        (with_values(DECIMALS, "1,5", "2,5", "3,5", "4,5"), "category", []),  # decimal commas
        ([1.5, 2, np.float32(3.5), *DECIMALS], "number", []),  # numbers and text
        (INTEGERS, "category", []),  # text without need: codes
        (with_values(INTEGERS, "?"), "number", ["?"]),
        (with_values(INTEGERS, ""), "number", []),
        (with_values(INTEGERS, "?", "02139"), "category", []),  # numbers have no leading zeros
        (["1", "2", "3", "x"] * 20, "category", []),  # few values
        ([*map(str, range(10)), "?"] * 20, "number", ["?"]),
        ([*map(str, range(9)), "?"] * 20, "category", []),
        (["", " ", "NA"] * 5, "category", []),  # nothing at all
        (["red", "green"] * 20, "category", []),
    ],
)
def test_the_rule(texts, form, unread):
    assert read_as(texts) == (form, unread)


def test_numbers():
    expected = [1.0, -2.5, 0.5, 3.0, 1e5, np.inf, -np.inf]
    assert numbers_in([" 1", "-2.5", ".5", "3.", "1E5", "inf", "-Infinity"]).tolist() == expected
    assert np.isnan(numbers_in(["", "1_000", "1,5", "0x1f", "nan", "1e", "²", True])).all()


def test_the_rule_does_not_depend_on_blocks():
    """In particular where one block has unreadable values only, or none, or more than are kept."""
    codes = [f"A{i}" for i in range(MOST_UNREAD + 5)]
    many = [f"{i}.5" for i in range(12_000)]
    columns = [
        with_values(DAYS, "x", "y"), with_values(DECIMALS, "?", "?"), with_values(INTEGERS, "?"), INTEGERS,
        [*many, *codes], [*many, *codes[:MOST_UNREAD]], [*many[:6000], *codes[:80]],
    ]  # fmt: skip
    for texts in columns:
        table = pd.DataFrame({"a": texts})
        expected = Derivation.of([look(table)])
        for cuts in ([1], [2, 2, 40], [len(texts) - 60], [len(texts) // 2]):
            parts = np.split(np.arange(len(texts)), cuts)
            found = Derivation.of([look(table.iloc[part]) for part in parts])
            assert (found.dates, found.numbers) == (expected.dates, expected.numbers)


@pytest.fixture(params=["numbers", "dates"])
def rows(request):
    texts = {"numbers": DECIMALS, "dates": DAYS}[request.param]
    clean = pd.DataFrame({"a": texts, "b": np.random.default_rng(1).normal(size=N)})
    y = np.arange(N) % 20 + clean["b"]
    return clean, clean.assign(a=with_values(texts, *[texts[0]] * 7, "?", texts[8], "?")), y, request.param


def fitted(*rows, **parameters):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X: column .* is read as")
        return AGBMRegressor(**FAST | parameters).fit(*rows)


def test_unread_values_are_missing_values(rows):
    _, dirty, y, kind = rows
    message = f"X: column 'a' is read as {kind}; '?' in row 7 cannot be read and counts as missing. Name it in categ"
    with pytest.warns(UserWarning, match=re.escape(message)) as seen:
        model = AGBMRegressor(**FAST).fit(dirty, y)
    assert len(seen) == 1
    other = AGBMRegressor(**FAST).fit(dirty.assign(a=dirty["a"].where(dirty["a"] != "?")), y)
    np.testing.assert_array_equal(model.predict(dirty), other.predict(dirty.assign(a=dirty["a"].replace("?", "NA"))))
    named = AGBMRegressor(**FAST, categorical_features=["a"]).fit(dirty, y)  # without a warning
    assert "?" in named.model_.reader.categories.of[0]


def test_the_same_bits_for_every_kind_of_table(rows, tmp_path):
    _, dirty, y, _ = rows
    expected = fitted(dirty, y).predict(dirty)
    weight = np.append(np.ones(N, dtype=int), 0)
    zero = pd.concat([dirty, pd.DataFrame({"a": ["soon"], "b": [0.0]})], ignore_index=True)
    with pytest.warns(UserWarning, match="1 of 301 values of column 'a' cannot be read as .*'soon' in row 300"):
        of_weights = fitted(zero, np.append(y, 0.0), weight)
    assert np.array_equal(of_weights.predict(dirty), expected)
    assert np.array_equal(fitted(pl.from_pandas(dirty), y).predict(dirty), expected)
    assert np.array_equal(fitted(dirty.to_numpy(dtype=object), y).predict(dirty.to_numpy(dtype=object)), expected)
    pieces = [dirty.iloc[:3], dirty.iloc[3:8], dirty.iloc[8:]]
    batches = agbm.Batches(lambda: ((piece, y[piece.index]) for piece in pieces))
    with pytest.warns(UserWarning, match=r"'\?' in row 7 cannot be read") as seen:
        model = AGBMRegressor(**FAST).fit(batches)
    assert len(seen) == 1
    assert np.array_equal(model.predict(dirty), expected)
    model.save(tmp_path / "model.agbm")
    loaded = agbm.load(tmp_path / "model.agbm")
    assert np.array_equal(loaded.predict(dirty), expected)  # a value that is known to be missing needs no warning
    assert vars(loaded.model_.reader.derivation) == vars(model.model_.reader.derivation)


def test_other_values_at_prediction(rows):
    clean, dirty, y, kind = rows
    model = fitted(dirty, y)
    with pytest.warns(UserWarning, match=f"2 of 300 values of column 'a' cannot be read as {kind}.*'x' in row 4"):
        found = model.predict(clean.assign(a=with_values(clean["a"].tolist(), *clean["a"][:4], "x", "y")))
    np.testing.assert_array_equal(found[4:6], model.predict(clean[4:6].assign(a=None)))
    np.testing.assert_array_equal(found[6:], model.predict(clean)[6:])
    np.testing.assert_array_equal(model.predict(clean[:2].assign(a="?")), model.predict(clean[:2].assign(a=None)))
    with pytest.raises(ValueError, match=f"column 'a' has {kind} in other rows, but none here that can be read"):
        model.predict(clean.assign(a="x"))


def test_a_column_of_numbers_is_one():
    """Types, constraints and fast predictions: as if the column had never been text."""
    table = pd.DataFrame({"a": with_values(DECIMALS, "?"), "b": RNG.normal(size=N)})
    numbers = table.assign(a=numbers_in(table["a"].tolist()))
    y = np.nan_to_num(numbers["a"]) + numbers["b"]
    model = fitted(table, y, monotonic_cst={"a": 1})
    expected = AGBMRegressor(**FAST, monotonic_cst={"a": 1}).fit(numbers, y).predict(numbers)
    assert np.array_equal(model.predict(table), expected)
    assert np.array_equal(model.predict(numbers), expected)
    assert np.array_equal(model.predictor()(numbers.to_numpy()), expected)
    model.update(table, y, mode="leaves")


def test_some_batches_have_numbers():
    """As pandas.read_csv reads a file in pieces, of which one has a mark of missing values."""
    y = np.arange(N, dtype=float)
    clean, dirty = pd.DataFrame({"a": y}), pd.DataFrame({"a": with_values(DECIMALS, "?")})
    with pytest.warns(UserWarning, match=r"'\?' in row 300 cannot be read"):
        model = AGBMRegressor(**FAST).fit(agbm.Batches(lambda: [(clean, y), (dirty, y)]))
    whole = pd.DataFrame({"a": [*map(str, y), *dirty["a"]]})
    assert np.array_equal(model.predict(whole), fitted(whole, np.append(y, y)).predict(whole))


def test_damaged_files(tmp_path):
    from toys import rewrite

    table = pd.DataFrame({"a": with_values(DECIMALS, "?"), "b": DAYS})
    fitted(table, np.arange(N)).save(tmp_path / "m.agbm")
    for wrong in ([0, "number", []], [0, "number", ["hour"], []], [0, "number", [], [1]], [0, "words", [], []]):

        def change(description, arrays, wrong=wrong):
            description["derivation"][0] = wrong

        rewrite(tmp_path / "m.agbm", change)
        with pytest.raises(agbm.ModelFileError, match="derivation"):
            agbm.load(tmp_path / "m.agbm")
