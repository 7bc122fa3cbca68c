"""Converts tables of all supported types to matrices of numbers; categories become codes, the most frequent first.

Data frames (pandas, polars, arrow) with columns that are not numeric are read through narwhals, one column at a time.
scikit-learn reads all other data frames, arrays and sparse matrices.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base.sums import Array, weight_step, whole_weights
from .._base.types import AnyArray, Table

# How many unknown values are compared with the known categories in other forms: enough to see a pattern.
UNKNOWN_TO_LOOK_AT = 1_000
# Up to this number of rows, a value per row is faster than pandas' way to find distinct texts.
FEW_TEXTS = 500


class Derived(NamedTuple):
    """Numbers that are derived from the columns of a table."""

    instead: Mapping[int, Array]
    """Those that take the place of columns."""
    after: Sequence[Array] = ()
    """Those that follow all columns."""


NOTHING_DERIVED = Derived({})
# A column of sentences is warned about if it has more different ones than this, and than half of its rows.
FEWEST_TEXTS = 50
EQUAL_LENGTHS = "lists must have the same length in all rows, and at least one number."
"""What errors about columns of lists say."""


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories of the categorical features, as seen in fit."""

    of: dict[int, list[Any]] = field(default_factory=dict)
    """For each categorical feature, its categories; the code of a category is its position."""

    @classmethod
    def learn(cls, X: Table, features: NDArray[np.bool_], weight: Array | None) -> Categories:
        """The categories in X, by decreasing total weight; rows of weight zero are ignored."""
        if not features.any():
            return cls()
        weights = None if weight is None else whole_weights(weight, weight_step(weight))
        sums = category_sums(X, features, [weights])
        return cls({f: by_weight({value: total for value, (total,) in seen.items()}) for f, seen in sums.items()})

    def warn_of_unique_text(self, n_rows: int, named: NDArray[np.bool_], names: Sequence[Any]) -> None:
        """Warn about columns of text, other than the named ones, of which most rows have a value of their own."""
        for f, known in self.of.items():
            if not named[f] and len(known) > max(FEWEST_TEXTS, n_rows / 2) and _are_sentences(known):
                warnings.warn(
                    f"X: column {names[f]!r} has {len(known):,} different texts in {n_rows:,} rows, which say almost "
                    "nothing as categories. Drop it, or turn the text into numbers, such as by TF-IDF and truncated "
                    "SVD (see 'Long text' in the guide to columns). Name it in categorical_features to keep it.",
                    UserWarning,
                    stacklevel=2,
                )

    def counts(self, n_features: int) -> NDArray[np.intp]:
        """For each feature, the number of its categories; 0 for numeric features."""
        counts = np.zeros(n_features, dtype=np.intp)
        counts[list(self.of)] = [max(1, len(known)) for known in self.of.values()]
        return counts

    def encode(self, X: Table, derived: Derived = NOTHING_DERIVED) -> Any:
        """X as a matrix of numbers. Missing categories are NaN; unknown ones get the code after the last."""
        if issparse(X):
            raise ValueError(
                f"X is sparse, but the model has categorical features ({sorted(self.of)}); pass a dense table."
            )
        columns = Columns(X)
        encoded: list[AnyArray] = []
        for f in range(_n_columns(X)):
            if f in derived.instead:
                encoded.append(derived.instead[f])
            elif f in self.of:
                found = columns.factors(f)
                encoded.append(self._codes(f, found))
                self._warn_of_other_forms(f, columns.names[f], found, encoded[-1])
            else:
                encoded.append(_numbers(*columns.values(f), columns.names[f]))
        encoded += derived.after
        dtype = np.float32 if all(c.dtype == np.float32 or f in self.of for f, c in enumerate(encoded)) else np.float64
        matrix = np.empty((len(encoded[0]), len(encoded)), dtype=dtype, order="F")
        for f, codes in enumerate(encoded):
            matrix[:, f] = codes
        return matrix

    def codes(self, X: Table, f: int) -> Array:
        """The codes of a categorical column of X."""
        return self._codes(f, Columns(X).factors(f))

    def _codes(self, f: int, column: Factors) -> Array:
        number = self._number[f]
        unknown = float(max(1, len(number)))
        codes = [number.get(value, unknown) for value in column.distinct]
        return np.array([*codes, np.nan])[column.places]  # the last one, at -1, is that of missing values

    def code(self, f: int, value: Any) -> float:
        """The code of a single value."""
        found = self._number[f].get(value)
        if found is not None:
            return found
        return np.nan if is_missing(value) else float(max(1, len(self.of[f])))

    @cached_property
    def _number(self) -> dict[int, dict[Any, float]]:
        """For each categorical feature, the code of each category."""
        return {f: {category: float(i) for i, category in enumerate(known)} for f, known in self.of.items()}

    @cached_property
    def _kinds(self) -> dict[int, set[type]]:
        """For each categorical feature, the types of its categories; see _kind."""
        return {f: set(map(_kind, known)) for f, known in self.of.items()}

    @cached_property
    def _warned(self) -> set[int]:
        """Features that have been warned about: one warning per feature is enough, even with many batches."""
        return set()

    def __getstate__(self) -> dict[str, Any]:
        """The state without cached properties."""
        return {"of": self.of}

    def _warn_of_other_forms(self, f: int, name: object, column: Factors, codes: Array) -> None:
        """Warn if categories are unknown because a column has another type than in fit."""
        known = self.of[f]
        unknown = np.flatnonzero(codes == max(1, len(known)))
        if not len(unknown) or not known or f in self._warned:
            return
        here = [column.distinct[place] for place in column.places[unknown[:UNKNOWN_TO_LOOK_AT]].tolist()]
        pair = self._same_in_another_form(f, here)
        if pair is None and not (codes < len(known)).any() and self._kinds[f].isdisjoint(map(_kind, here)):
            pair = here[0], known[0]
        if pair is not None:
            self._warned.add(f)
            value, category = pair
            warnings.warn(
                f"X: column {name!r} has categories in another form than in fit: {value!r} ({type(value).__name__}), "
                f"in fit {category!r} ({type(category).__name__}). They are treated as unknown categories; convert the "
                "column to the type and form that it had in fit.",
                UserWarning,
                stacklevel=2,
            )

    def _same_in_another_form(self, f: int, values: Sequence[Any]) -> tuple[Any, Any] | None:
        """The first value that is a known category in another form, such as text or a number, and that category."""
        for value in values:
            for form in _forms(value):
                if form in self._number[f]:
                    return value, self.of[f][int(self._number[f][form])]
        return None


def _are_sentences(categories: Sequence[Any]) -> bool:
    """Whether the categories are text, with at least three words on average."""
    some = categories[:UNKNOWN_TO_LOOK_AT]
    return all(isinstance(text, str) for text in some) and sum(len(text.split()) for text in some) >= 3 * len(some)


def _forms(value: object) -> Iterator[Any]:
    """Other forms of a value, which it may have had before a file was written or read."""
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif not isinstance(value, str):
        yield str(value)
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))
    else:
        yield value.encode(errors="replace")
        yield value.removesuffix(".0") if value.endswith(".0") else f"{value}.0"
        if value in ("True", "False"):
            yield value == "True"
        with suppress(ValueError):
            yield float(value)  # equal to the integer of this value


def _kind(value: object) -> type:
    """The type of a category; float for all numbers."""
    return float if isinstance(value, (int, float)) else str if isinstance(value, str) else type(value)


def as_table(X: Table) -> Any:
    """X as a table: lists become arrays in which text stays text and numbers stay numbers."""
    if is_on_gpu(X):
        raise TypeError(
            f"X is a {type(X).__name__} on a GPU. fit and predict can read it there with device='cuda'; otherwise, "
            "pass a copy in host memory, such as X.get() (CuPy) or X.cpu() (PyTorch)."
        )
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise TypeError(f"X is a {type(X).__name__}, which is lazy; pass X.collect().")
    if type(X).__module__.partition(".")[0] == "cudf":
        raise TypeError(
            f"X is a {type(X).__name__} of cuDF on a GPU. Pass X.to_cupy() with device='cuda' if all of its columns "
            "are numbers; otherwise, pass X.to_pandas()."
        )
    if not isinstance(X, (list, tuple)):
        return X
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths, which scikit-learn's checks will report
        return X
    if array.dtype.kind == "U" or (array.dtype.kind == "f" and array.ndim == 2 and any(_has_large(row) for row in X)):
        return np.array(X, dtype=object)
    return array


def collected(X: Any) -> Any:
    """X, which is computed if it is a LazyFrame of polars."""
    return X.collect() if is_of(X, "polars", "LazyFrame") else X


def _has_large(row: Any) -> bool:
    """Whether a row has integers that floats would round; as categories, they would merge."""
    return any(isinstance(value, int) and abs(value) > 2**53 for value in row)


# Types of devices in DLPack: CUDA, and memory that CUDA shares with the host.
_CUDA = (2, 13)


def is_on_gpu(array: object) -> bool:
    """Whether an array is in the memory of a GPU."""
    device = getattr(array, "__dlpack_device__", None)
    return hasattr(array, "__cuda_array_interface__") if device is None else device()[0] in _CUDA


def categorical_mask(X: Table, wanted: object) -> NDArray[np.bool_]:
    """A mask of the columns of X that are categorical by the parameter `categorical_features`, or by their type.

    Names and positions add to what the types say; a mask says it for every column.
    """
    named = named_mask(X, wanted)
    if wanted is None or (not isinstance(wanted, str) and np.asarray(wanted).dtype.kind == "b"):
        return named
    return named if issparse(X) else named | _mask_from_types(X, _n_columns(X))


def named_mask(X: Table, wanted: object) -> NDArray[np.bool_]:
    """A mask of the columns of X that the parameter `categorical_features` names."""
    n_features = _n_columns(X)
    if wanted is None or (isinstance(wanted, str) and wanted == "from_dtype"):
        return np.zeros(n_features, dtype=bool)
    if not isinstance(wanted, str) and len({isinstance(w, str) for w in np.asarray(wanted, dtype=object).flat}) > 1:
        raise ValueError(f"categorical_features={wanted!r} must be names or positions, not both.")
    chosen = np.asarray(wanted)
    if issparse(X) and chosen.size:
        raise ValueError(f"categorical_features={wanted!r}: a sparse X contains only numbers; pass a dense table.")
    if chosen.size == 0:
        return np.zeros(n_features, dtype=bool)
    if chosen.ndim != 1:
        raise ValueError(f"categorical_features={wanted!r} must be a flat list; got an array of shape {chosen.shape}.")
    if chosen.dtype.kind == "b":
        if len(chosen) != n_features:
            raise ValueError(
                f"categorical_features is a mask of {len(chosen)} entries, X has {n_features} features; they must "
                "be the same number."
            )
        return chosen
    mask = np.zeros(n_features, dtype=bool)
    if chosen.dtype.kind in "iu":
        unknown = [int(f) for f in chosen if not 0 <= f < n_features]
        if unknown:
            raise ValueError(f"categorical_features={wanted!r}: X has features 0 to {n_features - 1}; got {unknown}.")
        mask[chosen] = True
        return mask
    names = [] if not _is_frame(X) else column_names(X)
    given = np.asarray(wanted, dtype=object).tolist()  # an array of text would drop NULs at the end
    unknown_names = [name for name in given if name not in names]
    if unknown_names:
        known = f"its columns are {names}" if names else "it has no column names; use positions"
        raise ValueError(f"categorical_features={wanted!r}: X has no columns {unknown_names}; {known}.")
    mask[[names.index(name) for name in given]] = True
    return mask


def _mask_from_types(X: Table, n_features: int) -> NDArray[np.bool_]:
    """A mask of the columns with text or categories."""
    frame = as_frame(X)
    if frame is not None:
        import narwhals as nw

        columns = Columns(X)
        return np.array(
            [
                isinstance(dtype, (nw.Categorical, nw.Enum, nw.String))
                or (isinstance(dtype, nw.Object) and _is_text(columns.values(f)[0]))
                for f, dtype in enumerate(frame.schema.values())
            ],
            dtype=bool,
        )
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OU":
        return np.array([_is_text(X[:, f]) for f in range(n_features)], dtype=bool)
    return np.zeros(n_features, dtype=bool)


def missing_columns(X: Table, features: Sequence[int]) -> list[int]:
    """Which of the given features have only missing values."""
    columns = Columns(X)
    return [f for f in features if columns.values(f)[1].all()]


def needs_reading(X: Table) -> bool:
    """Whether scikit-learn's checks would reject X although it can be read (text, NA), or accept dates."""
    frame = as_frame(X)
    if frame is not None:
        return not all(dtype.is_numeric() or str(dtype) == "Boolean" for dtype in frame.schema.values())
    if isinstance(X, np.ndarray) and X.ndim == 2:
        absent = _absent() - {id(None)}  # scikit-learn reads None as NaN
        return X.dtype.kind in "Mm" or (X.dtype.kind == "O" and any(id(v) in absent for v in X.flat))
    return False


def _is_text(column: AnyArray) -> bool:
    if column.dtype.kind == "U":
        return True
    present = column[~missing(column)].tolist()
    return len(present) > 0 and all(isinstance(value, str) for value in present)


def _is_frame(X: Table) -> bool:
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def as_frame(X: Any) -> Any:
    """X as a narwhals data frame; None if it is not a data frame, or if narwhals is not installed and not needed."""
    if not _is_frame(X):
        return None
    try:
        import narwhals as nw
    except ImportError as error:
        kinds = [getattr(dtype, "kind", "f") for dtype in getattr(X, "dtypes", ())]
        if any(kind not in "iufb" for kind in kinds):
            raise ImportError(
                "X has columns that are not numeric, which need narwhals: pip install 'agbm[tables]'."
            ) from error
        return None
    _unique_names(X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _unique_names(X: Any) -> list[Any]:
    names = list(getattr(X, "column_names", X.columns))
    twice = sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"X has several columns named {twice}; column names must be unique.")
    return names


def _n_columns(X: Table) -> int:
    shape = getattr(X, "shape", None)
    if shape is None or len(shape) != 2:
        return 0  # scikit-learn's checks will report what is wrong
    return int(shape[1])


def column_names(X: Table) -> list[Any]:
    """The names of the columns, or their positions if they have none."""
    return Columns(X).names


class Factors(NamedTuple):
    """A column as its distinct values and the place of each row's value among them; -1 for missing values."""

    distinct: list[Any]
    places: NDArray[np.intp]


class Columns:
    """The columns of a table, read one at a time: those of pandas as they are, others through narwhals."""

    def __init__(self, X: Table, names: list[Any] | None = None) -> None:
        self._X: Any = X
        self._is_pandas = is_of_pandas(X, "DataFrame")
        self._names = names

    @cached_property
    def names(self) -> list[Any]:
        """The names of the columns, or their positions if they have none."""
        if self._names is not None:
            return self._names
        if self._is_pandas:
            return _unique_names(self._X)
        return list(range(_n_columns(self._X))) if self._frame is None else list(self._frame.columns)

    def values(self, f: int) -> tuple[AnyArray, NDArray[np.bool_]]:
        """The values of a column, and a mask of the missing ones."""
        if self._is_pandas:
            series = self._X[self.names[f]]
            if series.dtype == object or is_of_pandas(series.dtype, "StringDtype"):
                return series.to_numpy(dtype=object), np.asarray(series.array.isna())
            if isinstance(series.dtype, np.dtype):
                return series.to_numpy(), missing(series.to_numpy())
        if self._frame is None:
            return self._X[:, f], missing(self._X[:, f])
        series = self._frame[:, f]
        values = np.asarray(series.to_numpy())
        if values.ndim > 1:  # arrays of the same shape
            values = np.fromiter(values, dtype=object, count=len(values))
        return values, np.asarray(series.is_null().to_numpy()) | missing(values)

    def has_lists(self, f: int, first: Any) -> bool:
        """Whether a column has lists; `first` is one of its values."""
        kind = "" if self._frame is None else type(self._frame.schema[self._frame.columns[f]]).__name__
        return kind in ("List", "Array") or isinstance(first, (list, np.ndarray))  # tuples may be categories

    def lists(self, f: int, length: int | None = None) -> Array:
        """The numbers of a column of lists: (row, number); NaN for missing lists. `length` is that of fit."""
        values, absent = self.values(f)
        rows, name = np.flatnonzero(~absent), self.names[f]
        try:
            present = [np.asarray(values[row], dtype=None if _is_float(values[row]) else np.float64) for row in rows]
        except (TypeError, ValueError) as error:
            raise ValueError(f"X: column {name!r} has lists, but not all of them are of numbers: {error}.") from error
        shapes = [numbers.shape for numbers in present]
        wanted = (length,) if length is not None else shapes[0]
        other = next((i for i, shape in enumerate(shapes) if shape != wanted or len(shape) != 1 or not shape[0]), None)
        if other is not None:
            where = f"in row {rows[0]:,}" if length is None else "in fit"
            before = "" if shapes[other] == wanted else f", and {wanted} {where}"
            raise ValueError(
                f"X: column {name!r} has the shape {shapes[other]} in row {rows[other]:,}{before}; {EQUAL_LENGTHS}"
            )
        found = np.full((len(values), *wanted), np.nan, dtype=np.result_type(np.float32, *{x.dtype for x in present}))
        found[rows] = present if present else np.nan
        return found

    def dates(self, f: int) -> AnyArray | None:
        """The dates or durations of a column whose type is one of these, in its own time zone; None for others."""
        if self._is_pandas and isinstance(self._X.dtypes.iloc[f], np.dtype):
            return self.values(f)[0] if self._X.dtypes.iloc[f].kind in "Mm" else None
        frame = self._frame
        if frame is not None and getattr(frame.schema[frame.columns[f]], "time_zone", None) is not None:
            return np.asarray(frame[:, f].dt.replace_time_zone(None).to_numpy())
        values = self.values(f)[0]
        return values if values.dtype.kind in "Mm" else None

    def factors(self, f: int) -> Factors:
        """A column as Factors; raises ValueError for values that cannot be categories."""
        if self._is_pandas and (known := _pandas_factors(self._X[self.names[f]])) is not None:
            return known
        values, absent = self.values(f)
        places = np.full(len(values), -1)
        try:
            distinct, places[~absent] = _distinct(values[~absent].tolist())
        except TypeError as error:
            raise ValueError(
                f"X: column {self.names[f]!r} has values that cannot be categories ({error}); use text or numbers."
            ) from error
        return Factors(distinct, places)

    @cached_property
    def _frame(self) -> Any:
        return as_frame(self._X)


def _is_float(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype in (np.float32, np.float64)


def is_of_pandas(value: object, kind: str) -> bool:
    """Whether a value has one of the types of pandas, which is imported if there are such values."""
    return is_of(value, "pandas", kind)


def is_of(value: object, library: str, kind: str) -> bool:
    """Whether a value has one of the types of a library, which is imported if there are such values."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, getattr(module, kind))


def _distinct(values: Sequence[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    place: dict[Any, int] = {}
    places = np.array([place.setdefault(value, len(place)) for value in values], dtype=np.intp)
    return list(place), places


def _pandas_factors(series: Any) -> Factors | None:
    """The distinct values and the codes of a pandas column of categories or of much text, without a value per row."""
    if is_of_pandas(series.dtype, "CategoricalDtype"):
        return Factors(series.dtype.categories.to_numpy().tolist(), series.array.codes.astype(np.intp))
    if len(series) > FEW_TEXTS and is_of_pandas(series.dtype, "StringDtype"):
        codes, texts = sys.modules["pandas"].factorize(series)
        return Factors(texts.to_numpy().tolist(), codes)
    return None


def contents(X: Any) -> Iterator[AnyArray]:
    """All values of a table, as arrays of their own types."""
    if issparse(X):
        rows = X.tocsr()
        yield from (rows.data, rows.indices, rows.indptr)
        return
    frame = as_frame(X)
    if frame is None:
        yield np.asarray(X)
        return
    yield from (series.to_numpy() for series in frame.iter_columns())


def _absent() -> set[int]:
    """The ids of objects that represent missing values; includes those of pandas if it has been imported."""
    pandas = sys.modules.get("pandas")
    return set(map(id, (None,) if pandas is None else (None, pandas.NA, pandas.NaT)))


def missing(values: AnyArray) -> NDArray[np.bool_]:
    """A mask of the missing values: NaN, NaT, None or NA."""
    if values.dtype.kind in "fMm":
        return np.asarray(values != values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    absent, with_nan = _absent(), (float, np.floating, np.datetime64, np.timedelta64)
    return np.array([id(v) in absent or (isinstance(v, with_nan) and v != v) for v in values.tolist()], dtype=bool)


def is_missing(value: Any) -> bool:
    """Whether a single value is missing."""
    one = np.empty(1, dtype=object)
    one[0] = value
    return bool(missing(one)[0])


def category_sums(
    X: Table, features: NDArray[np.bool_], weights: Sequence[Array | None]
) -> dict[int, dict[Any, list[float]]]:
    """For the masked columns of X, the sums of each of the weights per distinct value; None means weights of 1."""
    columns = Columns(X)
    return {f: _sums_by_value(columns.factors(f), weights) for f in np.flatnonzero(features).tolist()}


def _sums_by_value(column: Factors, weights: Sequence[Array | None]) -> dict[Any, list[float]]:
    present = column.places >= 0
    places, n = column.places[present], len(column.distinct)
    sums = [np.bincount(places, None if weight is None else weight[present], n) for weight in weights]
    occurs = np.bincount(places, minlength=n) > 0  # categories of pandas may have no rows
    return {
        value: totals
        for value, totals, any_row in zip(column.distinct, np.column_stack(sums).tolist(), occurs, strict=True)
        if any_row
    }


def by_weight(totals: Mapping[Any, float]) -> list[Any]:
    """Values by decreasing weight; ties are ordered by type and value. Values of weight zero are left out."""
    seen = [(-total, type(value).__name__, value) for value, total in totals.items() if total]
    try:
        return [value for _, _, value in sorted(seen)]
    except TypeError:  # values that cannot be compared
        return [value for _, _, value in sorted(seen, key=lambda entry: (entry[0], entry[1], repr(entry[2])))]


def _numbers(values: AnyArray, absent: NDArray[np.bool_], name: object) -> AnyArray:
    """A column as numbers; an error names the column if this is impossible."""
    if values.dtype.kind == "f":
        return values
    if values.dtype.kind in "Mm":
        raise ValueError(f"X: column {name!r} has dates or times ({values.dtype}); convert them to numbers.")
    numbers = np.full(len(values), np.nan)
    try:
        numbers[~absent] = values[~absent].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X: column {name!r} must contain numbers, or be listed in categorical_features: {error}."
        ) from error
    return numbers


def explain(error: ValueError, X: Any, names: Sequence[Any] | None) -> ValueError:
    """An error of scikit-learn about a table, with more details for the user."""
    text = str(error)
    if "Feature names must be in the same order" in text and names is not None:
        moved = [
            f"column {i} is {given!r}, in fit it was {known!r}"
            for i, (given, known) in enumerate(zip(column_names(X), names, strict=True))
            if given != known
        ]
        more = f"; and {len(moved) - 5} more" if len(moved) > 5 else ""
        return ValueError(f"{text}\nX: {'; '.join(moved[:5])}{more}.")
    if "at least one array or dtype is required" in text or "0 feature(s)" in text:
        return ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required: X has no columns."
        )
    if "could not convert string" in text and "X: column" not in text:
        return ValueError(
            f"X must contain numbers: {text}. Columns of X that contain only text are categorical: list them in "
            "categorical_features, or use 'from_dtype', the default."
        )
    return error


def position_of(column: object, names: Sequence[Any] | AnyArray | None, n_features: int, where: str) -> int:
    """The position of a column that is given by its name or position; `where` is the parameter, for errors."""
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"{where}: X has no column names; use positions from 0 to {n_features - 1}.")
        known = list(names)
        if column in known:
            return known.index(column)
        similar = get_close_matches(column, known, n=3)
        hint = f"; similar names: {', '.join(map(repr, similar))}" if similar else ""
        raise ValueError(f"{where}: X has no column {column!r}{hint}.")
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise ValueError(f"{where}: columns are given by their names or positions; got {column!r}.")
    if not 0 <= int(column) < n_features:
        raise ValueError(f"{where}: X has columns 0 to {n_features - 1}; got [{int(column)}].")
    return int(column)
