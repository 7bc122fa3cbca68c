"""Columns that trees do not see as they are: dates, durations and ordered categories become numbers.

The number of the feature is that of the column; the parts of dates are features after those of all columns. `look` is
called on every block of rows, and `Derivation.of` combines the results, so that it does not depend on the blocks.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from .._core.losses import Array
from .dates import DATES, DURATIONS, PARTS, Range, days, duration_in_days, forms_of, from_objects, likely_form, parse
from .tables import as_frame, column_names, columns_of, factors_of, missing

# The form of columns whose type says that they are dates.
TYPED = ""


class DateColumn(NamedTuple):
    """A column of dates, times of day or durations."""

    form: str
    """How text shows its dates; TYPED if they are no text."""
    parts: tuple[str, ...]
    """The parts that are features of their own."""


class Look(NamedTuple):
    """What the columns of some rows have that are not numbers."""

    dates: Mapping[int, Mapping[str, Range]]
    """For columns of dates, the forms that they may have, with the ranges of their dates."""
    ordered: Mapping[int, list[Any]]
    """For columns of ordered categories, these in their order."""
    others: frozenset[int]
    """Columns with other text or objects."""


NOTHING_SEEN = Look({}, {}, frozenset())


def look(X: Any, weights: NDArray[Any] | None = None) -> Look:
    """Look at the columns of a table, before anything is known about them; rows of weight zero do not count."""
    if not has_more_than_numbers(X):
        return NOTHING_SEEN
    if weights is not None and not weights.all():
        X = _safe_indexing(X, np.flatnonzero(weights))
    ordered, dates, others = _ordered_categories(X), {}, set()
    for f in _more_than_numbers(X):
        value = None if f in ordered else _first_value(X, f)
        if value is None:
            continue
        ranges = {} if _is_categorical(X, f) else _ranges(X, f, value)  # a type that says categories is believed
        if ranges:
            dates[f] = ranges
        else:
            others.add(f)
    return Look(dates, ordered, frozenset(others))


@dataclass(frozen=True, eq=False)
class Derivation:
    """How columns of dates, durations and ordered categories become numbers."""

    dates: Mapping[int, DateColumn] = field(default_factory=dict)
    ordered: Mapping[int, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, looks: Sequence[Look], categorical: NDArray[np.bool_] | None = None) -> Derivation:
        """The derivation for all rows that were looked at; columns that are categorical by name are left alone."""
        others = set().union(*(found.others for found in looks))
        if categorical is not None:
            others |= set(np.flatnonzero(categorical).tolist())
        dates = {f: column for f in _columns(looks, "dates") - others if (column := _date_column(looks, f))}
        ordered = {f: _one_order([found.ordered[f] for found in looks if f in found.ordered], f)
                   for f in sorted(_columns(looks, "ordered") - others)}  # fmt: skip
        return cls({f: dates[f] for f in sorted(dates)}, ordered)

    def others(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of columns without those that are derived from."""
        kept = mask.copy()
        kept[[*self.dates, *self.ordered]] = False
        return kept

    def __bool__(self) -> bool:
        return bool(self.dates or self.ordered)

    @cached_property
    def parts(self) -> list[tuple[int, str]]:
        """The column and the part of each feature that follows those of the columns."""
        return [(f, part) for f, column in self.dates.items() for part in column.parts]

    def feature_names(self, names: Sequence[Any]) -> list[str]:
        """Names of all features, from those of the columns."""
        return [*map(str, names), *(f"{names[f]}: {part}" for f, part in self.parts)]

    def apply(self, X: Any) -> Any:
        """The table with numbers in place of dates and ordered categories, and with the parts of dates at the end."""
        if not self:
            return X
        names = column_names(X)
        new: dict[int, Array] = {f: self._positions(X, f, names[f]) for f in self.ordered}
        after: list[Array] = []
        for f, column in self.dates.items():
            dates = self._dates(X, f, names[f])
            new[f] = duration_in_days(dates) if dates.dtype.kind == "m" else days(dates)
            after += [PARTS[part].of(dates) for part in column.parts]
        after_names = self.feature_names(names)[len(names) :]
        twice = sorted(set(after_names) & set(names))
        if twice:
            raise ValueError(f"X has columns named {twice}, which are the names of parts of its dates; rename them.")
        return _with_columns(X, names, new, after, after_names)

    def _dates(self, X: Any, f: int, name: Any) -> NDArray[Any]:
        form = self.dates[f].form
        if not isinstance(_first_value(X, f), str):  # dates may be text in fit only
            form = TYPED
        elif form == TYPED:  # or text at prediction only
            form = likely_form([text for text in factors_of(X)(f).distinct if isinstance(text, str)])
        dates, absent = _date_values(X, f, form)
        unread = int((np.isnat(dates) & ~absent).sum())
        if unread == len(dates) > 0:
            raise ValueError(f"X: column {name!r} has dates in other rows, but none here that can be read; pass dates.")
        if unread:
            warnings.warn(f"X: column {name!r} has {unread:,} values that are no dates of the form {form!r}; they are "
                          "missing values now.", UserWarning, stacklevel=2)  # fmt: skip
        return dates

    def _positions(self, X: Any, f: int, name: Any) -> Array:
        place = {value: float(i) for i, value in enumerate(self.ordered[f])}
        column = factors_of(X)(f)
        unknown = [value for value in column.distinct if value not in place]
        if unknown and np.isin(column.places, [column.distinct.index(value) for value in unknown]).any():
            warnings.warn(f"X: column {name!r} has ordered categories that were not there in fit, such as "
                          f"{unknown[0]!r}; they are missing values now.", UserWarning, stacklevel=2)  # fmt: skip
        return np.array([*(place.get(value, np.nan) for value in column.distinct), np.nan])[column.places]


NO_DERIVATION = Derivation()


def _columns(looks: Sequence[Look], kind: str) -> set[int]:
    return {f for found in looks for f in getattr(found, kind)}


def _date_column(looks: Sequence[Look], f: int) -> DateColumn | None:
    """The column of dates, if one form fits all rows."""
    seen = [found.dates[f] for found in looks if f in found.dates]
    forms = [form for form in seen[0] if all(form in ranges for ranges in seen)]
    if not forms or any(f in found.ordered for found in looks):
        return None
    joined = seen[0][forms[0]]
    for ranges in seen[1:]:
        joined = joined.joined(ranges[forms[0]])
    return DateColumn(forms[0], tuple(joined.useful_parts()))


def _one_order(orders: Sequence[list[Any]], f: int) -> list[Any]:
    """The order of categories that all blocks have."""
    if any(order != orders[0] for order in orders):
        raise ValueError(
            f"X: column {f} has ordered categories, in another order in some blocks: {orders[0]} and "
            f"{next(order for order in orders if order != orders[0])}; use one order for all."
        )
    return orders[0]


def has_more_than_numbers(X: Any) -> bool:
    """Whether a table has columns of other types than numbers."""
    return len(_more_than_numbers(X)) > 0


def _more_than_numbers(X: Any) -> Sequence[int]:
    """The columns of other types than numbers."""
    frame = as_frame(X)
    if frame is not None:
        types = enumerate(frame.schema.values())
        return [f for f, dtype in types if not (dtype.is_numeric() or str(dtype) == "Boolean")]
    return range(X.shape[1]) if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OMmU" else ()


def _first_value(X: Any, f: int) -> Any:
    """A value of a column that is not missing; None if there is none."""
    frame = as_frame(X)
    if frame is None:
        return next(_present(X[:, f]), None)
    present = frame[:, f].drop_nulls()
    return present[0] if len(present) else None


def _present(values: NDArray[Any]) -> Iterator[Any]:
    """The values that are not missing, one after the other; looks at a few first."""
    for begin in range(0, len(values), 1024):
        some = values[begin : begin + 1024]
        yield from some[~missing(some)]


def _is_categorical(X: Any, f: int) -> bool:
    frame = as_frame(X)
    if frame is None:
        return False
    import narwhals as nw

    return isinstance(frame.schema[frame.columns[f]], (nw.Categorical, nw.Enum))


def _ordered_categories(X: Any) -> dict[int, list[Any]]:
    """The columns of pandas whose categories have an order."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return {}
    return {
        f: dtype.categories.to_numpy().tolist()
        for f, dtype in enumerate(X.dtypes)
        if isinstance(dtype, pandas.CategoricalDtype) and dtype.ordered
    }


def _ranges(X: Any, f: int, first: Any) -> dict[str, Range]:
    """The forms that a column of dates may have, with the ranges of the dates; empty if it has no dates."""
    if isinstance(first, str):
        if not forms_of([first]):
            return {}
        forms = forms_of([text if isinstance(text, str) else "" for text in factors_of(X)(f).distinct])
    else:
        forms = [TYPED] if isinstance(first, (*DATES, *DURATIONS)) and _all_dates(X, f) else []
    ranges = {}
    for form in forms:
        dates, _ = _date_values(X, f, form)
        dates = dates if dates.dtype.kind == "M" else dates[:0].astype("datetime64[us]")  # durations have no parts
        ranges[form] = Range.of(dates[~np.isnat(dates)])
    return ranges


def _all_dates(X: Any, f: int) -> bool:
    values, absent = columns_of(X)(f)
    if values.dtype.kind != "O":
        return True
    return all(isinstance(value, (*DATES, *DURATIONS)) for value in values[~absent].tolist())


def _date_values(X: Any, f: int, form: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The dates or durations of a column, and a mask of its missing values."""
    if form != TYPED:
        column = factors_of(X)(f)
        dates = parse([text if isinstance(text, str) else "" for text in column.distinct], form)
        return np.append(dates, np.datetime64("NaT", "us"))[column.places], column.places < 0
    frame = as_frame(X)
    if frame is not None and getattr(frame.schema[frame.columns[f]], "time_zone", None) is not None:
        values = np.asarray(frame[:, f].dt.replace_time_zone(None).to_numpy())
        return values, np.isnat(values)
    values, absent = columns_of(X)(f)
    if values.dtype.kind in "Mm":
        return values, absent
    present = values[~absent].tolist()
    if present and isinstance(present[0], DURATIONS):
        dates = np.full(len(values), np.timedelta64("NaT", "us"), dtype="timedelta64[us]")
        dates[~absent] = np.array(present, dtype="timedelta64[us]")
        return dates, absent
    dates = np.full(len(values), np.datetime64("NaT", "us"), dtype="datetime64[us]")
    readable = [isinstance(value, DATES) for value in present]
    dates[np.flatnonzero(~absent)[readable]] = from_objects(
        [v for v, good in zip(present, readable, strict=True) if good]
    )
    return dates, absent


def _with_columns(
    X: Any, names: Sequence[Any], new: Mapping[int, Array], after: Sequence[Array], after_names: Sequence[str]
) -> Any:
    """X with some columns replaced and others at the end."""
    frame = as_frame(X)
    if frame is not None:
        import narwhals as nw

        columns = [(names[f], values) for f, values in new.items()] + list(zip(after_names, after, strict=True))
        made = [nw.new_series(name, values, nw.Float64, backend=frame.implementation) for name, values in columns]
        return frame.with_columns(made).to_native()
    wide = np.empty((len(X), X.shape[1] + len(after)), dtype=object)
    wide[:, : X.shape[1]] = X
    for f, values in [*new.items(), *enumerate(after, X.shape[1])]:
        wide[:, f] = values
    return wide.astype(np.float64) if len(new) == X.shape[1] else wide
