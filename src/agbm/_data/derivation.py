"""Columns that trees do not see as they are: dates, durations, ordered categories, lists and numbers in text.

The number of the feature is that of the column; the parts of dates, and the numbers of lists after the first, are
features after those of all columns. `look` is called on every block of rows, and `Derivation.of` combines the results,
so that it does not depend on the blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._base.sums import Array
from .._base.types import AnyArray, Table
from .dates import DATES, DURATIONS, PARTS, Range, days, duration_in_days, from_objects, likely_form, parse
from .tables import EQUAL_LENGTHS, NOTHING_DERIVED, Columns, Derived, as_frame, is_of_pandas, missing
from .text_columns import NUMBER, TextLook, as_text, is_missing, joined, look_at_texts, numbers_in

# The form of columns whose type is one of dates.
TYPED = ""


class DateColumn(NamedTuple):
    """A column of dates, times of day or durations."""

    form: str
    """The format of dates in text; TYPED if they are not text."""
    parts: tuple[str, ...]
    """The parts that become additional features."""
    unread: tuple[str, ...] = ()
    """Text in the rows of fit that is not a date; it counts as missing."""


class Look(NamedTuple):
    """What the columns of some rows have that are not numbers."""

    n_rows: int
    dates: Mapping[int, Range]
    """For columns whose type is one of dates, the ranges of their dates."""
    texts: Mapping[int, TextLook]
    """For columns of text that may be dates or numbers, what it looks like."""
    ordered: Mapping[int, list[Any]]
    """For columns of ordered categories, these in their order."""
    lists: Mapping[int, int]
    """For columns of lists of numbers, the length of these."""
    others: frozenset[int]
    """Columns with other text or objects."""


def look(X: Table, weights: AnyArray | None = None) -> Look:
    """Look at the columns of a table, before anything is known about them; rows of weight zero do not count."""
    n_rows = _n_rows(X)
    if not has_more_than_numbers(X):
        return Look(n_rows, {}, {}, {}, {}, frozenset())
    rows = np.arange(n_rows)
    if weights is not None and not weights.all():
        rows = np.flatnonzero(weights)
        X = _safe_indexing(X, rows)
    ordered, columns = _ordered_categories(X), Columns(X)
    dates: dict[int, Range] = {}
    texts: dict[int, TextLook] = {}
    lists: dict[int, int] = {}
    others = set()
    for f in _more_than_numbers(X):
        value = None if f in ordered else _first_value(X, f)
        if value is None:
            continue
        if _is_categorical(X, f):  # by its type
            others.add(f)
        elif columns.has_lists(f, value):
            lists[f] = columns.lists(f).shape[1]
        elif isinstance(value, (*DATES, *DURATIONS)) and _all_dates(X, f):
            dates[f] = _range(X, f)
        elif _has_text(X, f, value) and (seen := look_at_texts(columns.factors(f), rows)) is not None:
            texts[f] = seen
        else:
            others.add(f)
    return Look(n_rows, dates, texts, ordered, lists, frozenset(others))


@dataclass(frozen=True, eq=False)
class Derivation:
    """How columns of dates, durations, ordered categories, lists and numbers in text become numbers."""

    dates: Mapping[int, DateColumn] = field(default_factory=dict)
    ordered: Mapping[int, list[Any]] = field(default_factory=dict)
    numbers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """For columns of text that are numbers, the text of the rows of fit that is none, which counts as missing."""
    lists: Mapping[int, int] = field(default_factory=dict)
    """For columns of lists of numbers, such as embeddings, the length of all lists."""

    @classmethod
    def of(cls, looks: Sequence[Look], categorical: NDArray[np.bool_] | None = None) -> Derivation:
        """The derivation for all rows that were looked at; columns that are categorical by name are left alone."""
        others = set().union(*(found.others for found in looks))
        if categorical is not None:
            others |= set(np.flatnonzero(categorical).tolist())
        typed, texts, ordered = (_columns(looks, kind) - others for kind in ("dates", "texts", "ordered"))
        dates = {
            f: DateColumn(TYPED, tuple(reduce(Range.joined, seen).useful_parts()))
            for f in typed - texts - ordered
            if (seen := [found.dates[f] for found in looks if f in found.dates])
        }
        numbers = {}
        for f in texts - typed - ordered:
            text = _text_in(looks, f)
            form = None if text is None else text.form()
            if text is None or form is None:
                continue
            reading = text.readings[form]
            unread = tuple(sorted(reading.unread))
            if reading.range is None:
                numbers[f] = unread
            else:
                dates[f] = DateColumn(form, tuple(reading.range.useful_parts()), unread)
        orders = {f: _one_order([found.ordered[f] for found in looks if f in found.ordered], f) for f in ordered}
        lengths = [(f, [of.lists[f] for of in looks if f in of.lists]) for f in _columns(looks, "lists") - others]
        lists = {f: _one_length(of_column, f) for f, of_column in sorted(lengths)}
        return cls(dict(sorted(dates.items())), dict(sorted(orders.items())), dict(sorted(numbers.items())), lists)

    def unread(self, looks: Sequence[Look]) -> Iterator[tuple[int, str]]:
        """Columns with text that counts as missing in the rows of fit, and a sentence about it, without its subject."""
        read_as = {f: ("dates", column.form) for f, column in self.dates.items() if column.unread}
        read_as |= {f: ("numbers", NUMBER) for f, unread in self.numbers.items() if unread}
        for f, (what, form) in read_as.items():
            unread = cast(TextLook, _text_in(looks, f)).readings[form].unread
            first = min(unread, key=unread.__getitem__)
            more = len(unread) - 1
            others = f" and {more:,} other value{'s' if more > 1 else ''}" if more else ""
            count = "count" if more else "counts"
            where = f"{first!r} in row {unread[first]:,}{others}"
            yield f, f"is read as {what}; {where} cannot be read and {count} as missing."

    def warn_of_unread(self, looks: Sequence[Look], names: Sequence[Any]) -> None:
        """Warn about text of the rows of fit that counts as missing."""
        for f, unread in self.unread(looks):
            warnings.warn(f"X: column {names[f]!r} {unread} Name it in categorical_features to keep all values as "
                          "categories.", UserWarning, stacklevel=2)  # fmt: skip

    def others(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of columns without those that are derived from."""
        kept = mask.copy()
        kept[[*self.dates, *self.ordered, *self.numbers, *self.lists]] = False
        return kept

    def __bool__(self) -> bool:
        return bool(self.dates or self.ordered or self.numbers or self.lists)

    @property
    def several(self) -> set[int]:
        """The columns that become several features."""
        return {*self.dates, *self.lists}

    @cached_property
    def parts(self) -> list[tuple[int, str]]:
        """The column of each feature that follows those of the columns, and what its name has after the column's."""
        of_dates = [(f, f": {part}") for f, column in self.dates.items() for part in column.parts]
        return of_dates + [(f, f"[{i}]") for f, length in self.lists.items() for i in range(1, length)]

    def feature_names(self, names: Sequence[Any]) -> list[str]:
        """Names of all features, from those of the columns."""
        of_columns = [f"{name}[0]" if f in self.lists else str(name) for f, name in enumerate(names)]
        return [*of_columns, *(f"{names[f]}{part}" for f, part in self.parts)]

    def apply(self, X: Table, names: list[Any] | None = None) -> Derived:
        """Numbers in place of all columns that are derived from, and the parts of dates and lists at the end.

        `names`: of the columns of an array, for errors.
        """
        if not self:
            return NOTHING_DERIVED
        columns = Columns(X, names)
        names = columns.names
        new: dict[int, Array] = {f: self._positions(columns, f) for f in self.ordered}
        new |= {f: self._numbers(columns, f) for f in self.numbers}
        after: list[Array] = []
        for f, column in self.dates.items():
            dates = self._dates(X, columns, f)
            new[f] = duration_in_days(dates) if dates.dtype.kind == "m" else days(dates)
            after += [PARTS[part].of(dates) for part in column.parts]
        for f, length in self.lists.items():
            new[f], *others = columns.lists(f, length).T
            after += others
        features = self.feature_names(names)
        made = {*features[len(names) :], *(features[f] for f in self.lists)}
        if twice := sorted(made & set(names)):
            raise ValueError(f"X has columns named {twice}, which are the names of parts of others; rename them.")
        return Derived(new, after)

    def _dates(self, X: Table, columns: Columns, f: int) -> AnyArray:
        typed = columns.dates(f)
        if typed is not None:
            return typed
        form = self.dates[f].form
        if not isinstance(_first_value(X, f), str):  # dates may be text in fit only
            form = TYPED
        elif form == TYPED:  # or text at prediction only
            form = likely_form([text for text in columns.factors(f).distinct if isinstance(text, str)])
        dates = _date_values(columns, f, form)
        _check_read(columns, f, np.isnat(dates), self.dates[f].unread, "dates", form)
        return dates

    def _numbers(self, columns: Columns, f: int) -> Array:
        values, absent = columns.values(f)
        if values.dtype.kind in "biuf":  # it may be text in fit only
            return np.where(absent, np.nan, values.astype(np.float64))
        column = columns.factors(f)
        numbers = np.append(numbers_in(column.distinct), np.nan)[column.places]
        _check_read(columns, f, np.isnan(numbers), self.numbers[f], "numbers")
        return numbers

    def _positions(self, columns: Columns, f: int) -> Array:
        place, name = {value: float(i) for i, value in enumerate(self.ordered[f])}, columns.names[f]
        column = columns.factors(f)
        unknown = [value for value in column.distinct if value not in place]
        if unknown and np.isin(column.places, [column.distinct.index(value) for value in unknown]).any():
            warnings.warn(f"X: column {name!r} has ordered categories that were not there in fit, such as "
                          f"{unknown[0]!r}; they are missing values now.", UserWarning, stacklevel=2)  # fmt: skip
        return np.array([*(place.get(value, np.nan) for value in column.distinct), np.nan])[column.places]


NO_DERIVATION = Derivation()


def _columns(looks: Sequence[Look], kind: str) -> set[int]:
    return {f for found in looks for f in getattr(found, kind)}


def _text_in(looks: Sequence[Look], f: int) -> TextLook | None:
    """The text of a column in all rows that were looked at."""
    first_rows = np.cumsum([0, *(found.n_rows for found in looks)]).tolist()
    seen = [(found.texts[f], first) for found, first in zip(looks, first_rows, strict=False) if f in found.texts]
    return joined(*zip(*seen, strict=True))


def _check_read(
    columns: Columns, f: int, unread: NDArray[np.bool_], known: Sequence[str], what: str, form: str = ""
) -> None:
    """Warn about values of a column that cannot be read, and raise ValueError if there are no others.

    Missing values and `known` text cause neither.
    """
    if not unread.any():
        return
    name, column, expected_texts = columns.names[f], columns.factors(f), {*known}
    expected = [i for i, value in enumerate(column.distinct) if is_missing(value) or value in expected_texts]
    rows = np.flatnonzero(unread & (column.places >= 0) & ~np.isin(column.places, expected))
    if len(rows) == len(unread) > 0:
        raise ValueError(f"X: column {name!r} has {what} in other rows, but none here that can be read; pass {what}.")
    if len(rows):
        of_form = f" of the form {form!r}" if form else ""
        example = column.distinct[column.places[rows[0]]]
        warnings.warn(
            f"X: {len(rows):,} of {len(unread):,} values of column {name!r} cannot be read as {what}{of_form}; "
            f"they count as missing, such as {example!r} in row {rows[0]:,}.",
            UserWarning,
            stacklevel=2,
        )


def _one_order(orders: Sequence[list[Any]], f: int) -> list[Any]:
    """The order of categories that all blocks have."""
    if any(order != orders[0] for order in orders):
        raise ValueError(
            f"X: column {f} has ordered categories, in another order in some blocks: {orders[0]} and "
            f"{next(order for order in orders if order != orders[0])}; use one order for all."
        )
    return orders[0]


def _one_length(lengths: Sequence[int], f: int) -> int:
    """The length that the lists of all blocks have."""
    if len(set(lengths)) > 1:
        raise ValueError(f"X: column {f} has lists of {sorted(set(lengths))} numbers; {EQUAL_LENGTHS}")
    return lengths[0]


def _n_rows(X: Table) -> int:
    """Number of rows; 0 for objects that are not tables, which scikit-learn's checks report."""
    try:
        return int(_num_samples(X))
    except TypeError:
        return 0


def has_more_than_numbers(X: Table) -> bool:
    """Whether a table has columns of other types than numbers."""
    return len(_more_than_numbers(X)) > 0


def _more_than_numbers(X: Table) -> Sequence[int]:
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


def _present(values: AnyArray) -> Iterator[Any]:
    """The values that are not missing, one after the other; looks at a few first."""
    for begin in range(0, len(values), 1024):
        some = values[begin : begin + 1024]
        yield from some[~missing(some)]


def _is_categorical(X: Table, f: int) -> bool:
    frame = as_frame(X)
    if frame is None:
        return False
    import narwhals as nw

    return isinstance(frame.schema[frame.columns[f]], (nw.Categorical, nw.Enum))


def _ordered_categories(X: Any) -> dict[int, list[Any]]:
    """The columns of pandas whose categories have an order."""
    if not is_of_pandas(X, "DataFrame"):
        return {}
    return {
        f: dtype.categories.to_numpy().tolist()
        for f, dtype in enumerate(X.dtypes)
        if is_of_pandas(dtype, "CategoricalDtype") and dtype.ordered
    }


def _range(X: Table, f: int) -> Range:
    """The range of the dates of a column whose type is one of dates."""
    dates = _date_values(Columns(X), f, TYPED)
    dates = dates if dates.dtype.kind == "M" else dates[:0].astype("datetime64[us]")  # durations have no parts
    return Range.of(dates[~np.isnat(dates)])


def _has_text(X: Table, f: int, first: Any) -> bool:
    """Whether a column has text, maybe beside numbers; `first` is one of its values."""
    if isinstance(first, str) or as_text(first) is None:
        return isinstance(first, str)
    return any(isinstance(value, str) for value in Columns(X).values(f)[0].tolist())


def _all_dates(X: Table, f: int) -> bool:
    values, absent = Columns(X).values(f)
    if values.dtype.kind != "O":
        return True
    return all(isinstance(value, (*DATES, *DURATIONS)) for value in values[~absent].tolist())


def _date_values(columns: Columns, f: int, form: str) -> AnyArray:
    """The dates or durations of a column."""
    if form != TYPED:
        column = columns.factors(f)
        dates = parse([text if isinstance(text, str) else "" for text in column.distinct], form)
        return np.append(dates, np.datetime64("NaT", "us"))[column.places]
    typed = columns.dates(f)
    if typed is not None:
        return typed
    values, absent = columns.values(f)
    present = values[~absent].tolist()
    if present and isinstance(present[0], DURATIONS):
        dates = np.full(len(values), np.timedelta64("NaT", "us"), dtype="timedelta64[us]")
        dates[~absent] = np.array(present, dtype="timedelta64[us]")
        return dates
    dates = np.full(len(values), np.datetime64("NaT", "us"), dtype="datetime64[us]")
    readable = [isinstance(value, DATES) for value in present]
    dates[np.flatnonzero(~absent)[readable]] = from_objects(
        [v for v, good in zip(present, readable, strict=True) if good]
    )
    return dates
