"""Numbers in text columns: recognising and parsing them.

A dot is always a decimal point. A comma is a decimal comma, unless every comma of the column may also separate
thousands: "1,234" may be 1.234 or 1234.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import Any

# Numbers as Arrow reads them; numbers with a comma; those of them in which it may separate thousands.
_PLAIN = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"

# A text column with at least so many numbers, and at least such a share of them, is probably meant to be numbers.
FEWEST_NUMBERS, SMALLEST_SHARE = 10, 0.9
# A column with so many values that are not numbers, if they are the majority, is text; the rest of it is not looked
# at. Otherwise a file of a million rows with eight text columns took four times as long to open.
ENOUGH_TEXT = 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class Tally:
    """Counts of the values of a text column by kind, without missing and blank ones."""

    plain: int = 0
    commas: int = 0
    """Numbers with a decimal comma."""
    unclear: int = 0
    """Numbers with a comma that may separate thousands."""
    others: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def looks_like_numbers(self) -> bool:
        """Whether nearly all values, and more than a handful, look like numbers."""
        return self._numbers >= FEWEST_NUMBERS and self._numbers >= SMALLEST_SHARE * (self._numbers + self.others)

    @property
    def is_surely_text(self) -> bool:
        """Whether so many values are not numbers that the rest of the column need not be looked at."""
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
    """How many of them are not numbers; those with a comma are numbers only if the column has decimal commas."""
    examples: tuple[str, ...]
    """The most frequent values that are not numbers."""
    categories: int
    """Number of different values; 0 if the column is read as numbers."""


def tally(column: Any) -> Tally:
    """Count the values of a text column."""
    import pyarrow.compute as pc

    counted = pc.value_counts(column)
    kinds = _kinds(counted.field("values"))
    sums = (pc.sum(counted.field("counts").filter(mask)).as_py() or 0 for mask in kinds)
    return Tally(*sums)


class Details:
    """Collects what is in a text column, piece by piece."""

    def __init__(self, read_as_numbers: bool, decimal_commas: bool) -> None:
        self._read_as_numbers, self._decimal_commas = read_as_numbers, decimal_commas
        self._n_values = 0
        self._odd: Counter[str] = Counter()
        self._distinct: set[str] = set()

    def add(self, column: Any) -> None:
        """Add a piece of the column."""
        import pyarrow.compute as pc

        counted = pc.value_counts(column)
        values, counts = counted.field("values"), counted.field("counts")
        plain, commas, unclear, others = _kinds(values)
        present = _any(plain, commas, unclear, others)
        odd = pc.and_not(present, _any(plain, commas, unclear) if self._decimal_commas else plain)
        self._n_values += pc.sum(counts.filter(present)).as_py() or 0
        self._odd.update(dict(zip(values.filter(odd).to_pylist(), counts.filter(odd).to_pylist(), strict=True)))
        if not self._read_as_numbers:
            self._distinct.update(values.filter(present).to_pylist())

    def result(self) -> Mixed:
        """What was found in all pieces."""
        examples = tuple(value for value, _ in self._odd.most_common(EXAMPLES))
        return Mixed(self._n_values, self._odd.total(), examples, len(self._distinct))


def to_numbers(column: Any, decimal_commas: bool) -> Any:
    """Parse a text column; values that are not numbers become missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    if decimal_commas:
        with_comma = _matches(trimmed, _COMMA)
        trimmed = pc.if_else(with_comma, pc.replace_substring(trimmed, ",", "."), trimmed)
    return pc.if_else(_matches(trimmed, _PLAIN), trimmed, pa.scalar(None, trimmed.type)).cast(pa.float64())


def _kinds(values: Any) -> tuple[Any, Any, Any, Any]:
    """Masks of the values of each kind, in the order of the fields of `Tally`."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(values)
    plain, unclear = _matches(trimmed, _PLAIN), _matches(trimmed, _THOUSANDS)
    commas = pc.and_not(_matches(trimmed, _COMMA), unclear)
    return plain, commas, unclear, pc.and_not(_matches(trimmed, "."), _any(plain, commas, unclear))


def _any(*masks: Any) -> Any:
    import pyarrow.compute as pc

    return reduce(pc.or_, masks)


def _matches(values: Any, pattern: str) -> Any:
    """Mask of the values that match a pattern; missing values do not."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(values, pattern), False)
