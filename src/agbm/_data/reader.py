"""Checks and reads tables: columns, their names, and categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_y, check_consistent_length, validate_data

from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .crosses import Cross, sees_all, with_crosses
from .derivation import NO_DERIVATION, Derivation
from .plain_tables import has_columns, plain_numbers
from .rows import RemoteMatrix, plain
from .tables import NOTHING_DERIVED, Categories, Derived, as_table, collected, explain, is_missing, needs_reading

_OPTIONS: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": False,  # trees accept NaN and infinity, other learners check X themselves
    "accept_sparse": "csr",
}


class _Columns(BaseEstimator):  # type: ignore[misc]
    """Replaces the estimator in scikit-learn's checks: has the columns seen in fit, and a class name for errors."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@cache
def _named_like(estimator: str) -> type[_Columns]:
    return type(estimator, (_Columns,), {})


@dataclass(frozen=True, eq=False)
class TableReader:
    """Reads tables in the same way as the table of fit. It can be pickled."""

    estimator: str
    """The class name of the estimator, for error messages."""
    n_columns: int
    names: AnyArray | None
    """Names of the columns; None if the table of fit had none."""
    categories: Categories
    derivation: Derivation = NO_DERIVATION
    """How dates and ordered categories become numbers."""
    crosses: tuple[Cross, ...] = ()
    """The last features."""

    @classmethod
    def of_columns(cls, estimator: str, X: Table) -> TableReader:
        """A reader of tables with the columns of X, all of them numeric."""
        columns = _named_like(estimator)()
        validate_data(columns, X, skip_check_array=True)
        if not hasattr(columns, "n_features_in_"):  # X is not a table; the checks of arrays report it
            validate_data(columns, X, **_OPTIONS)
        names = getattr(columns, "feature_names_in_", None)
        return cls(estimator, columns.n_features_in_, names, Categories())

    def with_categories(self, categories: Categories) -> TableReader:
        """The same columns, some of which are categorical."""
        return replace(self, categories=categories)

    def with_derivation(self, derivation: Derivation) -> TableReader:
        """The same columns, some of which are dates or ordered categories."""
        return replace(self, derivation=derivation)

    def with_crosses(self, crosses: Iterable[Cross]) -> TableReader:
        """The same columns, and features that are crosses of them."""
        return replace(self, crosses=tuple(crosses))

    @property
    def n_features(self) -> int:
        """Number of features that trees see: those of the columns, then parts of dates and lists, then crosses."""
        return self.n_columns + len(self.derivation.parts) + len(self.crosses)

    def n_seen_by(self, member: int) -> int:
        """Number of features, from the first on, that a member of the model sees."""
        hides = not sees_all(member) and not all(cross.for_all for cross in self.crosses)
        return self.n_features - len(self.crosses) if hides else self.n_features

    @property
    def feature_names(self) -> list[str]:
        """The names of all features; x0, x1 and so on if the columns have none."""
        names = [f"x{f}" for f in range(self.n_columns)] if self.names is None else [str(name) for name in self.names]
        return [*self.derivation.feature_names(names), *(cross.name(names) for cross in self.crosses)]

    def columns_of(self, features: AnyArray) -> NDArray[np.int64]:
        """The two columns that features come from: (feature, 2); the same one twice, except for crosses."""
        columns = np.repeat(features.astype(np.int64)[:, np.newaxis], 2, axis=1)
        derived = features >= self.n_columns
        columns[derived] = self._sources[features[derived] - self.n_columns]
        return columns

    @cached_property
    def _sources(self) -> NDArray[np.int64]:
        """The columns of the features that follow those of the columns."""
        pairs = [(column, column) for column, _ in self.derivation.parts]
        pairs += [(cross.left, cross.right) for cross in self.crosses]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def by_column(self, values: Array) -> Array:
        """Values (..., feature) added up by column; each column of a cross gets half of its value."""
        if self.n_features == self.n_columns:
            return values
        total = values[..., : self.n_columns].copy()
        for feature, (left, right) in enumerate(self._sources.tolist(), self.n_columns):
            if left == right:
                total[..., left] += values[..., feature]
            else:
                total[..., left] += values[..., feature] / 2
                total[..., right] += values[..., feature] / 2
        return total

    def with_parts(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        """Groups of columns as groups of features: parts of dates and lists go with their columns."""
        parts = [(feature, column) for feature, (column, _) in enumerate(self.derivation.parts, self.n_columns)]
        return [[*group, *(feature for feature, column in parts if column in group)] for group in groups]

    @property
    def derived(self) -> list[int]:
        """The columns with derived numbers: dates, ordered categories and lists."""
        return sorted([*self.derivation.dates, *self.derivation.ordered, *self.derivation.lists])

    @property
    def numeric(self) -> list[int]:
        """The columns of numbers, read from text or not."""
        others = {*self.categories.of, *self.derived}
        return [f for f in range(self.n_columns) if f not in others]

    def check_columns(self, X: Table) -> None:
        """Raise ValueError if X has different columns."""
        validate_data(self.columns, X, reset=False, skip_check_array=True)

    def numbers(self, X: Table) -> Any:
        """X as a matrix of numbers for the kernels, with codes for categories."""
        X = collected(X)
        read = None if self.categories.of or self.derivation else plain_numbers(X, self.n_columns, self.names)
        checked = _checked(X, "no_validation", self, False) if read is None else read
        return plain(with_crosses(checked, self.crosses))

    def numbers_and_labels(self, X: Any, y: Any, numeric_y: bool) -> tuple[Any, AnyArray]:
        """X as a matrix of numbers, with codes for categories, and the checked y."""
        X, y = _checked(X, y, self, numeric_y)
        return with_crosses(X, self.crosses), y

    def of_records(self, records: Sequence[Mapping[Any, Any]]) -> Array:
        """Rows, each a mapping of the names of all columns to values, as a matrix for the kernels, without crosses."""
        rows = [self._values_of(record, i) for i, record in enumerate(records)]
        X, categorical, derived = np.empty((len(rows), self.n_columns)), self.categories.of, self._derived_of(rows)
        columns: Any = (
            [f for f in range(self.n_columns) if f not in derived.instead] if derived.instead else slice(None)
        )
        for i, values in enumerate(rows):
            X[i, columns] = [
                value if type(value) is float and f not in categorical else self._number_of(f, value, i)
                for f, value in enumerate(values)
                if f not in derived.instead
            ]
        for f, numbers in derived.instead.items():
            X[:, f] = numbers
        return np.column_stack([X, *derived.after]) if derived.after else X

    def _values_of(self, record: Mapping[Any, Any], row: int) -> list[Any]:
        """The values of a record in the order of the columns."""
        if self.names is None:
            raise TypeError("X must be an array of type float32 or float64: the columns of the model have no names.")
        names = self._names
        try:
            values = [record[name] for name in names]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"X: row {row} must be a mapping with a value for each of {names}; got {record!r}."
            ) from error
        if len(record) > len(names):
            raise ValueError(f"X: row {row} has columns {sorted(set(record).difference(names))}, which fit had not.")
        return values

    @cached_property
    def _names(self) -> list[Any]:
        return [] if self.names is None else self.names.tolist()

    def _derived_of(self, rows: Sequence[Sequence[Any]]) -> Derived:
        """Numbers that are derived from rows of values."""
        if not self.derivation:
            return NOTHING_DERIVED
        table = np.empty((len(rows), self.n_columns), dtype=object)
        for i, values in enumerate(rows):
            table[i] = np.fromiter(values, dtype=object, count=len(values))  # lists would be read as an axis
        return self.derivation.apply(table, self._names)

    def _number_of(self, f: int, value: Any, row: int) -> float:
        """A value of a record as a number, with a code for a category."""
        try:
            if f in self.categories.of:
                return self.categories.code(f, value)
            if isinstance(value, (int, float, np.number, np.bool_)):
                return float(value)
            if is_missing(value):
                return np.nan
        except TypeError:  # it cannot be a category
            pass
        kind = "text or a number" if f in self.categories.of else "a number"
        raise ValueError(f"X: row {row}, column {self.feature_names[f]!r} must be {kind}; got {value!r}.")

    @property
    def columns(self) -> _Columns:
        """The columns in the form that scikit-learn's checks need."""
        columns = _named_like(self.estimator)()
        columns.n_features_in_ = self.n_columns
        if self.names is not None:
            columns.feature_names_in_ = self.names
        return columns


def _checked_columns(X: RemoteMatrix, columns: _Columns) -> RemoteMatrix:
    validate_data(columns, X, reset=False, skip_check_array=True)
    return X


def _checked_remote(X: RemoteMatrix, y: Any, columns: _Columns, numeric_y: bool) -> tuple[RemoteMatrix, AnyArray]:
    """The same checks as scikit-learn's for X and y."""
    y = _check_y(y, multi_output=numeric_y, y_numeric=numeric_y, estimator=columns)
    check_consistent_length(X, y)
    return _checked_columns(X, columns), y


def _checked(X: Table, y: Values, reader: TableReader, numeric_y: bool) -> Any:
    """X, or X and y, after scikit-learn's checks."""
    columns, categories, derivation = reader.columns, reader.categories, reader.derivation
    has_y = not (isinstance(y, str) and y == "no_validation")
    labels = {"y_numeric": numeric_y, "multi_output": numeric_y} if has_y else {}
    if isinstance(X, RemoteMatrix):
        if not categories.of and not derivation:
            return _checked_remote(X, y, columns, numeric_y) if has_y else _checked_columns(X, columns)
        X = np.asarray(X)
    try:
        table = as_table(X)
        if not categories.of and not derivation and not needs_reading(table):
            return validate_data(columns, X, y, reset=False, **_OPTIONS, **labels)
        usual = reader.names is not None and has_columns(table, reader.names)
        if not usual:
            validate_data(columns, X, reset=False, skip_check_array=True)  # names and number of features
        encoded = categories.encode(table, derivation.apply(table))
        if has_y:
            return check_X_y(encoded, y, estimator=columns, **_OPTIONS, **labels)
        return encoded if usual else check_array(encoded, estimator=columns, input_name="X", **_OPTIONS)
    except ValueError as error:
        explained = explain(error, X, getattr(columns, "feature_names_in_", None))
        if explained is error:  # an error must not be its own cause
            raise
        raise explained from error
