"""Dates and times of day: how text shows them, and the numbers that trees see.

A date becomes the days since 1970-01-01, and parts of it that repeat: day of the year, day of the month, weekday, hour.
The clock is the one that the data shows: time zones and offsets are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array

_DAY = np.timedelta64(1, "D")
_UNIT = "datetime64[us]"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
_NAME += r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )?"
_CLOCK = r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?(?: ?(?P<half>[ap])\.?m\.?)?"
_ZONE = r" ?(?:z|utc|gmt|[+-]\d{2}:?\d{2}|[+-]\d{2})?"
_Y, _YY, _M, _D = r"(?P<y>\d{4})", r"(?P<y>\d{4}|\d{2})", r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"

ISO, TIME_OF_DAY = "year-month-day", "hour:minute"

# The forms of dates in text, those first that win if several fit. Where day and month may be either, a slash means
# month first, as in the United States, and other separators day first.
_DATES = {
    ISO: rf"{_Y}(?P<s>[-/.]){_M}(?P=s){_D}",
    "month/day/year": rf"{_M}/{_D}/{_YY}",
    "day/month/year": rf"{_D}/{_M}/{_YY}",
    "day.month.year": rf"{_D}(?P<s>[-.]){_M}(?P=s){_YY}",
    "month-day-year": rf"{_M}(?P<s>[-.]){_D}(?P=s){_YY}",
    "day month year": rf"{_WEEKDAY}{_D}(?:st|nd|rd|th)?[- ]{_NAME}[-, ]+{_YY}",
    "month day year": rf"{_WEEKDAY}{_NAME} {_D}(?:st|nd|rd|th)?,? {_Y}",
    "year-month": rf"{_Y}[-/]{_M}",
    "month year": rf"{_NAME}[- ]{_Y}",
}
FORMS: Mapping[str, re.Pattern[str]] = {
    **{name: re.compile(rf"{text}(?:[t ,]+{_CLOCK}{_ZONE})?", re.I | re.A) for name, text in _DATES.items()},
    "yearmonthdayThourminutesecond": re.compile(
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)T(?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d)Z?"
    ),
    TIME_OF_DAY: re.compile(_CLOCK, re.I | re.A),
}
"""The regular expression of each form of text."""


def likely_form(texts: Sequence[str]) -> str:
    """The form that most of the texts have; looks at some of them."""
    some = texts[:100]
    return max(FORMS, key=lambda form: sum(_date(text, form) is not None for text in some))


def parse(texts: Sequence[str], form: str) -> NDArray[np.datetime64]:
    """Texts as dates; NaT where a text does not have the form. Times of day are on 1970-01-01."""
    values = [_date(text, form) for text in texts]
    return np.array([np.datetime64("NaT", "us") if value is None else value for value in values], dtype=_UNIT)


def _date(text: str, form: str) -> datetime | None:
    """A text as a date; None if it does not have the form, or names no day of the calendar."""
    if form == ISO and text[4:5] == "-":  # the most frequent form, much faster
        with suppress(ValueError):
            return datetime.fromisoformat(text).replace(tzinfo=None)
    found = FORMS[form].fullmatch(text.strip())
    if found is None:
        return None
    part = found.groupdict()
    try:
        hour, fraction = int(part["H"] or 0), (part.get("f") or "0")[:6].ljust(6, "0")
        if part.get("half"):
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if part["half"].lower() == "p" else 0)
        clock = time(hour, int(part["M"] or 0), int(part["S"] or 0), int(fraction))
        return datetime.combine(_day(part), clock)
    except ValueError:
        return None


def _day(part: Mapping[str, str | None]) -> date:
    if not part.get("y"):
        return date(1970, 1, 1)
    year = int(part["y"] or 0)
    if len(part["y"] or "") == 2:  # as POSIX has it: 69 to 99 are in the last century
        year += 1900 if year >= 69 else 2000
    name = part.get("name")
    month = int(part["m"] or 0) if name is None else 1 + _MONTHS.index(name[:3].lower())
    return date(year, month, int(part.get("d") or 1))


def from_objects(values: Sequence[Any]) -> NDArray[np.datetime64]:
    """Objects of Python or pandas as dates; times of day are on 1970-01-01."""
    plain = []
    for value in values:
        if isinstance(value, np.datetime64):
            plain.append(value.astype(_UNIT))
        elif isinstance(value, datetime):
            plain.append(np.datetime64(value.replace(tzinfo=None), "us"))
        elif isinstance(value, date):
            plain.append(np.datetime64(value, "us"))
        else:
            plain.append(np.datetime64(datetime.combine(date(1970, 1, 1), value.replace(tzinfo=None)), "us"))
    return np.array(plain, dtype=_UNIT)


DATES = (date, time, np.datetime64)
DURATIONS = (timedelta, np.timedelta64)


def days(dates: NDArray[np.datetime64]) -> Array:
    """Days since 1970-01-01, with the time of day as a fraction; NaN for missing dates."""
    return _elapsed(dates.astype(_UNIT) - np.datetime64(0, "us"))


def from_days(elapsed: Array) -> NDArray[np.datetime64]:
    """The inverse of `days`."""
    known = np.isfinite(elapsed)
    dates = np.full(len(elapsed), np.datetime64("NaT", "us"), dtype=_UNIT)
    dates[known] = np.rint(elapsed[known] * 86_400e6).astype(np.int64).astype(_UNIT)
    return dates


def duration_in_days(durations: NDArray[np.timedelta64]) -> Array:
    """Durations in days; NaN for missing ones."""
    return _elapsed(durations.astype("timedelta64[us]"))


def _elapsed(durations: NDArray[np.timedelta64]) -> Array:
    return np.asarray(durations / _DAY, dtype=np.float64)


def _hour(dates: NDArray[np.datetime64]) -> Array:
    return np.asarray((dates - dates.astype("datetime64[D]")) / np.timedelta64(1, "h"), dtype=np.float64)


def _weekday(dates: NDArray[np.datetime64]) -> Array:
    return (_whole(dates, "D") + 3) % 7  # 1970-01-01 was a Thursday, which is 3


def _day_of_month(dates: NDArray[np.datetime64]) -> Array:
    return _since(dates, "M")


def _day_of_year(dates: NDArray[np.datetime64]) -> Array:
    return _since(dates, "Y")


def _since(dates: NDArray[np.datetime64], unit: str) -> Array:
    first = dates.astype(f"datetime64[{unit}]").astype("datetime64[D]")
    return np.asarray((dates.astype("datetime64[D]") - first) / _DAY + 1.0, dtype=np.float64)


def _whole(dates: NDArray[np.datetime64], unit: str) -> Array:
    number = dates.astype(f"datetime64[{unit}]").astype(np.int64).astype(np.float64)
    number[np.isnat(dates)] = np.nan
    return number


class Part(NamedTuple):
    """A part of a date that repeats."""

    of: Callable[[NDArray[np.datetime64]], Array]
    cycle: float
    """Days after which it repeats."""


PARTS: Mapping[str, Part] = {
    "day of year": Part(_day_of_year, 365.0),
    "day of month": Part(_day_of_month, 30.5),
    "weekday": Part(_weekday, 7.0),
    "hour": Part(_hour, 1.0),
}
# A part is of use if the dates cover at least so many cycles; within fewer it only repeats what the elapsed days say.
CYCLES = 2.0


class Range(NamedTuple):
    """The range of the days and of each part of some dates, as (smallest, largest)."""

    days: tuple[float, float]
    parts: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, dates: NDArray[np.datetime64]) -> Range:
        """The range of dates, none of which is missing."""
        return cls(_ends(days(dates)), {name: _ends(part.of(dates)) for name, part in PARTS.items()})

    def joined(self, other: Range) -> Range:
        """The range of the dates of both."""
        parts = {name: _union(ends, other.parts[name]) for name, ends in self.parts.items()}
        return Range(_union(self.days, other.days), parts)

    def useful_parts(self) -> list[str]:
        """The parts that vary and repeat within the range."""
        covered = self.days[1] - self.days[0] + 1.0  # the last day included
        return [
            name
            for name, (smallest, largest) in self.parts.items()
            if smallest < largest and covered >= CYCLES * PARTS[name].cycle
        ]


def _ends(values: Array) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if len(values) else (np.inf, -np.inf)


def _union(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])
