"""Numbers in columns of text: which values are numbers, and what they are.

A comma is a decimal comma, unless it may separate thousands in all values of a column that have one: "1,234" alone may
be 1.234 or 1234. A dot is always a decimal point.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import Any

# What Arrow reads as numbers; numbers with a comma; of these, those in which it may separate thousands.
_PLAIN = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"

# A text column with so many numbers, and such a share of them, is probably a column of numbers.
FEWEST_NUMBERS, SMALLEST_SHARE = 10, 0.9
# A column in which so many values are text, and most, is taken for text before all of it is seen: a file of a million
# rows with eight such columns took four times as long to open otherwise.
ENOUGH_TEXT = 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class Tally:
    """How many values of a text column are what; missing and blank ones do not count."""

    plain: int = 0
    commas: int = 0
    """With a comma that separates decimals."""
    unclear: int = 0
    """With a comma that may separate thousands."""
    others: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def looks_like_numbers(self) -> bool:
        """Whether nearly all values look like numbers, and more than a handful."""
        return self._numbers >= FEWEST_NUMBERS and self._numbers >= SMALLEST_SHARE * (self._numbers + self.others)

    @property
    def is_surely_text(self) -> bool:
        """Whether so few of so many values look like numbers that the rest of the column need not be looked at."""
        return self.others >= ENOUGH_TEXT and self.others > self._numbers

    @property
    def _numbers(self) -> int:
        return self.plain + self.commas + self.unclear


@dataclass(frozen=True)
class Mixed:
    """A column with numbers and with other values."""

    values: int
    """All that are not missing or blank."""
    not_numbers: int
    """Those that are not numbers; with a comma only if commas are decimal in this column."""
    examples: tuple[str, ...]
    """The most frequent of these."""
    categories: int
    """Different values, where it is read as text."""


def tally(column: Any) -> Tally:
    """Count the values of a text column."""
    import pyarrow.compute as pc

    counted = pc.value_counts(column)
    kinds = _kinds(counted.field("values"))
    sums = (pc.sum(counted.field("counts").filter(mask)).as_py() or 0 for mask in kinds)
    return Tally(*sums)


class Details:
    """What is found in a text column, piece by piece."""

    def __init__(self, read_as_numbers: bool, decimal_commas: bool) -> None:
        self._read_as_numbers, self._decimal_commas = read_as_numbers, decimal_commas
        self._n_values = 0
        self._odd: Counter[str] = Counter()
        self._distinct: set[str] = set()

    def add(self, column: Any) -> None:
        """Look at a piece of the column."""
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
        """Of all pieces."""
        examples = tuple(value for value, _ in self._odd.most_common(EXAMPLES))
        return Mixed(self._n_values, self._odd.total(), examples, len(self._distinct))


def to_numbers(column: Any, decimal_commas: bool) -> Any:
    """A text column as numbers; what is none is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    if decimal_commas:
        with_comma = _matches(trimmed, _COMMA)
        trimmed = pc.if_else(with_comma, pc.replace_substring(trimmed, ",", "."), trimmed)
    return pc.if_else(_matches(trimmed, _PLAIN), trimmed, pa.scalar(None, trimmed.type)).cast(pa.float64())


def _kinds(values: Any) -> tuple[Any, Any, Any, Any]:
    """Which values are plain numbers, have a decimal comma, an unclear one, or are something else."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(values)
    plain, unclear = _matches(trimmed, _PLAIN), _matches(trimmed, _THOUSANDS)
    commas = pc.and_not(_matches(trimmed, _COMMA), unclear)
    return plain, commas, unclear, pc.and_not(_matches(trimmed, "."), _any(plain, commas, unclear))


def _any(*masks: Any) -> Any:
    import pyarrow.compute as pc

    return reduce(pc.or_, masks)


def _matches(values: Any, pattern: str) -> Any:
    """Where a pattern is found; not in missing values."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(values, pattern), False)
