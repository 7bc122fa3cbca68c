"""Recognise and parse numbers in text columns.

A dot is always a decimal point. A comma is a decimal comma, unless every comma of the column could also be a thousands
separator: "1,234" may mean 1.234 or 1234.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from ...._data.text_columns import PLAIN_NUMBER

if TYPE_CHECKING:
    import pyarrow

ArrowColumn: TypeAlias = "pyarrow.Array | pyarrow.ChunkedArray"

# Numbers as Arrow parses them; numbers with a comma; numbers whose comma may be a thousands separator.
_PLAIN = rf"^{PLAIN_NUMBER}$"
_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"

# A text column looks numeric if it has at least this many numbers and at least this share of its values are numbers.
FEWEST_NUMBERS, SMALLEST_SHARE = 10, 0.9
# A column is text if it has this many values that are not numbers and they are the majority. Scanning such columns to
# the end made opening a file with a million rows and eight text columns four times as slow.
ENOUGH_TEXT = 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class Tally:
    """Counts of the values of a text column by kind; missing and blank values are not counted."""

    plain: int = 0
    commas: int = 0
    """Numbers with a decimal comma."""
    unclear: int = 0
    """Numbers whose comma may be a thousands separator."""
    others: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def looks_like_numbers(self) -> bool:
        """Whether nearly all values look like numbers, and there are enough of them."""
        return self._numbers >= FEWEST_NUMBERS and self._numbers >= SMALLEST_SHARE * (self._numbers + self.others)

    @property
    def is_surely_text(self) -> bool:
        """Whether so many values are not numbers that the rest of the column need not be scanned."""
        return self.others >= ENOUGH_TEXT and self.others > self._numbers

    @property
    def _numbers(self) -> int:
        return self.plain + self.commas + self.unclear


@dataclass(frozen=True)
class Mixed:
    """A text column with numbers and other values."""

    values: int
    """Number of values that are not missing or blank."""
    not_numbers: int
    """Number of these that are not numbers; values with a comma are numbers only if the column has decimal commas."""
    examples: tuple[str, ...]
    """The most frequent values that are not numbers."""
    categories: int
    """Number of distinct values; 0 if the column is read as numbers."""


def tally(column: ArrowColumn) -> Tally:
    """Count the values of a text column by kind."""
    import pyarrow.compute as pc

    counted = pc.value_counts(column)
    kinds = _kinds(counted.field("values"))
    sums = (pc.sum(counted.field("counts").filter(mask)).as_py() or 0 for mask in kinds)
    return Tally(*sums)


class Details:
    """Collects statistics of a text column, batch by batch; `decimal` is ".", "," or "both"."""

    def __init__(self, decimal: str, read_as_numbers: bool) -> None:
        self._decimal, self._read_as_numbers = decimal, read_as_numbers
        self._n_values = 0
        self._odd: Counter[str] = Counter()
        self._distinct: set[str] = set()

    def add(self, column: ArrowColumn) -> None:
        """Add a batch of the column."""
        import pyarrow.compute as pc

        counted = pc.value_counts(column)
        values, counts = counted.field("values"), counted.field("counts")
        plain, commas, unclear, others = _kinds(values)
        present = _any(plain, commas, unclear, others)
        if self._decimal == ",":
            plain = pc.and_not(plain, _matches(values, r"\."))
        odd = pc.and_not(present, plain if self._decimal == "." else _any(plain, commas, unclear))
        self._n_values += pc.sum(counts.filter(present)).as_py() or 0
        self._odd.update(dict(zip(values.filter(odd).to_pylist(), counts.filter(odd).to_pylist(), strict=True)))
        if not self._read_as_numbers:
            self._distinct.update(values.filter(present).to_pylist())

    def result(self) -> Mixed:
        """Return the statistics of all batches."""
        examples = tuple(value for value, _ in self._odd.most_common(EXAMPLES))
        return Mixed(self._n_values, self._odd.total(), examples, len(self._distinct))


def to_numbers(column: ArrowColumn, decimal_commas: bool) -> Any:
    """Convert a text column to floats; values that are not numbers become missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    if decimal_commas:
        with_comma = _matches(trimmed, _COMMA)
        trimmed = pc.if_else(with_comma, pc.replace_substring(trimmed, ",", "."), trimmed)
    return pc.if_else(_matches(trimmed, _PLAIN), trimmed, pa.scalar(None, trimmed.type)).cast(pa.float64())


def _kinds(values: ArrowColumn) -> tuple[Any, Any, Any, Any]:
    """Return a mask for each kind of value, in the order of the fields of `Tally`."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(values)
    plain, unclear = _matches(trimmed, _PLAIN), _matches(trimmed, _THOUSANDS)
    commas = pc.and_not(_matches(trimmed, _COMMA), unclear)
    return plain, commas, unclear, pc.and_not(_matches(trimmed, "."), _any(plain, commas, unclear))


def _any(*masks: ArrowColumn) -> Any:
    import pyarrow.compute as pc

    return reduce(pc.or_, masks)


def _matches(values: ArrowColumn, pattern: str) -> Any:
    """Return a mask of the values that match a pattern; missing values do not match."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(values, pattern), False)
