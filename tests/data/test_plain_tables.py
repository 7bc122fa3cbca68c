"""Tables of plain numbers are read without scikit-learn's checks, and nobody can tell."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from agbm._data import reader as reading
from agbm._data.plain_tables import plain_numbers
from agbm._data.reader import TableReader
from agbm._data.tables import Categories

NAMES = ["a", "b", "c"]
NUMPY_TYPES = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", ">f8", "c16", "O", "M8[ns]", "m8[s]", "U3"]
PANDAS_TYPES = [
    *NUMPY_TYPES[:-1], "g", "str", "category", "Int8", "Int64", "Float32", "Float64", "boolean", "Sparse[float]",
]  # fmt: skip
POLARS_TYPES = [
    pl.Boolean, pl.Int8, pl.Int64, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64, pl.Int128, pl.Decimal(10, 2), pl.Date,
    pl.Datetime, pl.Duration, pl.String, pl.Categorical, pl.Null,
]  # fmt: skip
LARGE = [0, 1, 2**24 + 1, 2**53 + 1, 2**63 - 1]


def reader_of(names):
    return TableReader(
        "AGBMRegressor", len(NAMES), None if names is None else np.array(names, dtype=object), Categories()
    )


def outcome(reader, X):
    """What happens when X is read: the matrix or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = reader.numbers(X)
            found = (
                (found.dtype, found.shape, np.ascontiguousarray(found).tobytes())
                if isinstance(found, np.ndarray)
                else found.dtype
            )
        except Exception as error:
            found = type(error), str(error)
    return found, [(w.category, str(w.message)) for w in caught]


def check_same(names, X):
    """Whether X is read without checks, and that the outcome is the same with them."""
    reader = reader_of(names)
    quick = outcome(reader, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "plain_numbers", lambda *_: None)
        assert outcome(reader, X) == quick
    return plain_numbers(X, len(NAMES), reader.names) is not None


@st.composite
def columns(draw, kinds, n_columns=3):
    """The types of columns: often all the same, and often numbers."""
    usual = st.sampled_from(kinds[:8])
    if draw(st.booleans()):
        return [draw(usual)] * n_columns
    return draw(
        st.lists(draw(st.sampled_from([usual, st.sampled_from(kinds)])), min_size=n_columns, max_size=n_columns)
    )


def values(kind, n_rows, random):
    """Whole numbers, some of which no float has."""
    numbers = random.choice(LARGE, n_rows)
    large = ("i8", "u8", "f8", "f4", "O", "Int64", pl.Int64, pl.UInt64, pl.Float64)
    return numbers if kind in large else numbers % (2 if kind == "boolean" else 100)


names_in_fit = st.sampled_from([None, NAMES, NAMES, NAMES, ["a", "b", "d"], ["a", "c", "b"]])
names_given = st.sampled_from([NAMES, NAMES, NAMES, ["b", "a", "c"], [0, 1, 2], ["a", "b", 2], ["a", "a", "c"]])


@given(
    st.sampled_from(NUMPY_TYPES),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from("CFS"),
    names_in_fit,
)
def test_arrays(kind, n_rows, n_columns, n_axes, layout, names):
    random = np.random.default_rng(n_rows)
    X = values(kind, n_rows * n_columns * 2, random).astype(kind)
    X = X.reshape((n_rows, 2 * n_columns, 1)[:n_axes] if n_axes > 1 else (-1,), order="F" if layout == "F" else "C")
    X = X[:, ::2] if n_axes > 1 else X
    with np.errstate(invalid="ignore"):
        quick = check_same(names, X)
    assert quick == (kind in ("f4", "f8") and n_rows > 0 and n_columns == 3 and n_axes == 2 and names is None)


@given(columns(PANDAS_TYPES), st.integers(0, 4), names_in_fit, names_given, st.booleans())
def test_pandas(kinds, n_rows, in_fit, given_names, missing):
    random = np.random.default_rng(n_rows)
    series = [pd.Series(values(kind, n_rows, random)).astype(kind) for kind in kinds]
    if missing and n_rows:
        series = [
            s.mask(np.arange(n_rows) == 0) if str(s.dtype)[:5] in ("float", "Int64", "Float") else s for s in series
        ]
    X = pd.concat(series, axis=1, keys=range(3)) if n_rows else pd.DataFrame(dict(enumerate(series)))
    X.columns = given_names
    quick = check_same(in_fit, X)
    numbers = set(kinds) == {"f4"} or set(kinds) <= {"?", "i1", "u1", "i4", "i8", "u8", "f8"}
    assert quick == (in_fit == given_names == NAMES and n_rows > 0 and numbers)


@given(columns(POLARS_TYPES), st.integers(0, 4), names_in_fit, names_given, st.booleans())
def test_polars(kinds, n_rows, in_fit, given_names, missing):
    random = np.random.default_rng(n_rows)
    if any(not isinstance(name, str) for name in given_names) or len(set(given_names)) < 3:
        given_names = NAMES
    series = []
    for name, kind in zip(given_names, kinds, strict=True):
        whole = values(kind, n_rows, random).tolist()
        numbers = pl.Series(name, [None, *whole[1:]] if missing and whole else whole, dtype=pl.Int64)
        numbers = numbers.cast(pl.String).cast(kind) if kind == pl.Categorical else numbers.cast(kind, strict=False)
        series.append(numbers)
    quick = check_same(in_fit, pl.DataFrame(series))
    numbers = {pl.Boolean, pl.Int8, pl.Int64, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64}
    assert quick == (in_fit == given_names == NAMES and n_rows > 0 and set(kinds) <= numbers)


def test_names_that_are_not_plain_text():
    class Text(str):
        pass

    assert not check_same(NAMES, pd.DataFrame(np.ones((2, 3)), columns=pd.Index(list(map(Text, NAMES)), dtype=object)))


@pytest.mark.parametrize("X", [
    None, "text", 3.0, [1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]], [["1", "2", "x"]], csr_array(np.eye(3)), np.ones((2, 4)),
    np.ma.masked_array(np.ones((2, 3)), True), np.ones((2, 3)).view(np.memmap), pd.Series([1.0, 2.0, 3.0]),
    pl.Series([1.0, 2.0]), pl.LazyFrame({"a": [1.0]}), pd.DataFrame({"shape": [1.0]}), {"a": [1.0]},
], ids=lambda X: type(X).__name__)  # fmt: skip
@pytest.mark.parametrize("names", [None, NAMES])
def test_other_tables(names, X):
    assert not check_same(names, X)


def test_subclasses_of_frames():
    class Frame(pd.DataFrame):
        pass

    assert not check_same(NAMES, Frame(np.ones((2, 3)), columns=NAMES))


@pytest.mark.parametrize("X", [np.ones((1, 3)), np.ones((1, 3), dtype=np.float32)])
def test_arrays_are_not_copied(X):
    assert reader_of(None).numbers(X) is X
