"""Text columns whose values are dates or numbers, apart from a few that cannot be read.

`look_at_texts` is called on every block of rows and `joined` combines the results, so that nothing depends on the
blocks: a way to read a column is given up as soon as MOST_UNREAD of its distinct values cannot be read, however many
others follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .dates import FORMS, Range, parse
from .tables import Factors

NUMBER = "number"
"""The form of text that shows numbers; other forms are those of dates."""
PLAIN_NUMBER = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity))"
"""The regular expression of numbers in text."""

_MISSING = {"", "na", "n/a", "nan", "nat", "null", "none"}
_NUMBER = re.compile(PLAIN_NUMBER, re.A)
_CODE = re.compile(r"[+-]?0\d", re.A)  # numbers are not written with leading zeros

# At most so many distinct values may be unreadable, and at most this share of the readable ones, but always one: a mark
# of missing values such as "?". Codes such as "V45" among numbers are more than that.
MOST_UNREAD, UNREAD_SHARE = 100, 0.01
# If some values cannot be read, and for numbers, at least so many distinct ones can. Of the numeric columns of the
# tables of benchmarks/quality, 65 of the 109 with fewer distinct values are codes, and 18 of the 419 with more.
FEWEST_READ = 10
_AT_ONCE = 256


class Reading(NamedTuple):
    """A way to read the text of some rows."""

    unread: Mapping[str, int]
    """Distinct texts that cannot be read, each with the number of its first row."""
    range: Range | None = None
    """The range of the dates; None for numbers."""
    of_integers: bool = False
    """Whether all numbers are integers."""


class TextLook(NamedTuple):
    """The text of a column in some rows."""

    has_missing: bool
    """Whether some text denotes a missing value."""
    distinct: NDArray[np.uint64]
    """Hashes of the distinct texts, in ascending order."""
    readings: Mapping[str, Reading]
    """By form, the ways to read all but at most MOST_UNREAD of the distinct texts."""

    def form(self) -> str | None:
        """The form in which the column is read; None if its values are categories."""
        found = [form for form in FORMS if self._is_read(form)]
        if found:
            return min(found, key=lambda form: len(self.readings[form].unread))
        if self._n_read(NUMBER) < FEWEST_READ or not self._is_read(NUMBER):
            return None
        # Integers that are text for no visible reason are meant to be codes.
        reading = self.readings[NUMBER]
        return NUMBER if reading.unread or self.has_missing or not reading.of_integers else None

    def _is_read(self, form: str) -> bool:
        n_read = self._n_read(form)
        n_unread = len(self.distinct) - n_read
        few = n_read >= FEWEST_READ and n_unread <= max(1.0, UNREAD_SHARE * n_read)
        return n_read > 0 and (n_unread == 0 or few)

    def _n_read(self, form: str) -> int:
        """How many distinct texts can be read."""
        return len(self.distinct) - len(self.readings[form].unread) if form in self.readings else 0


def look_at_texts(column: Factors, rows: NDArray[np.intp]) -> TextLook | None:
    """Look at a column of text, whose rows have these numbers; None if it has other values, or no form fits."""
    places, firsts = np.unique(column.places, return_index=True)
    first_rows = rows[firsts[places >= 0]].tolist()
    values = [as_text(column.distinct[place]) for place in places[places >= 0].tolist()]
    present = [(text, row) for text, row in zip(values, first_rows, strict=True) if text is not None]
    if len(present) < len(values):
        return None
    texts = [(text, row) for text, row in present if not is_missing(text)]
    readings = {form: reading for form in (*FORMS, NUMBER) if (reading := _reading(texts, form)) is not None}
    if not readings:
        return None
    hashes = np.array([_hash(text) for text, _ in texts], dtype=np.uint64)
    return TextLook(len(texts) < len(values), np.unique(hashes), readings)


def joined(looks: Sequence[TextLook], first_rows: Sequence[int]) -> TextLook | None:
    """What is seen in all rows; the rows of each look are counted from a first one. None if no form remains."""
    forms = [form for form in looks[0].readings if all(form in look.readings for look in looks)]
    readings = {form: _joined([look.readings[form] for look in looks], first_rows) for form in forms}
    readings = {form: reading for form, reading in readings.items() if len(reading.unread) <= MOST_UNREAD}
    distinct = reduce(np.union1d, [look.distinct for look in looks])
    return TextLook(any(look.has_missing for look in looks), distinct, readings) if readings else None


def is_missing(value: object) -> bool:
    """Whether a value is text that denotes a missing value."""
    return isinstance(value, str) and value.strip().lower() in _MISSING


def numbers_in(values: Sequence[Any]) -> Array:
    """Values as numbers; NaN for text that is not a number."""
    texts = [as_text(value) or "" for value in values]
    return np.array([float(text) if _NUMBER.fullmatch(text.strip()) else np.nan for text in texts], dtype=np.float64)


def as_text(value: Any) -> str | None:
    """Text and numbers as text; None for other values."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return repr(float(value)) if is_number else None


def _reading(texts: Sequence[tuple[str, int]], form: str) -> Reading | None:
    """How texts are read in a form; None if too many of them cannot be read, or if numbers are codes."""
    unread: dict[str, int] = {}
    of_parts: list[Range] = []
    of_integers = form == NUMBER
    for part in _parts(texts):
        if form == NUMBER:
            if any(_CODE.match(text.strip()) for text, _ in part):
                return None
            numbers = numbers_in([text for text, _ in part])
            readable = ~np.isnan(numbers)
            of_integers &= bool((numbers[readable] == np.floor(numbers[readable])).all())
        else:
            dates = parse([text for text, _ in part], form)
            readable = ~np.isnat(dates)
            of_parts.append(Range.of(dates[readable]))
        unread |= {text: row for (text, row), good in zip(part, readable.tolist(), strict=True) if not good}
        if len(unread) > MOST_UNREAD:
            return None
    return Reading(unread, reduce(Range.joined, of_parts) if of_parts else None, of_integers)


def _parts(texts: Sequence[tuple[str, int]]) -> Iterator[Sequence[tuple[str, int]]]:
    return (texts[begin : begin + _AT_ONCE] for begin in range(0, max(1, len(texts)), _AT_ONCE))


def _joined(readings: Sequence[Reading], first_rows: Sequence[int]) -> Reading:
    unread: dict[str, int] = {}
    for reading, first in zip(readings, first_rows, strict=True):
        for text, row in reading.unread.items():
            unread.setdefault(text, first + row)
    ranges = [reading.range for reading in readings if reading.range is not None]
    of_integers = all(reading.of_integers for reading in readings)
    return Reading(unread, reduce(Range.joined, ranges) if ranges else None, of_integers)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
