"""Columns of a model and their values, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._data.dates import from_days
from ..._data.reader import TableReader
from ...export._view import category_text
from .markup import number

DIGITS = 5
MOST_LISTED = 5
MIDNIGHT = "T00:00:00"


@dataclass(frozen=True, eq=False)
class Wording:
    """The words for the columns that a reader gives as numbers: codes for categories, days for dates."""

    reader: TableReader

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.reader.feature_names[: self.reader.n_columns]

    def is_category(self, column: int) -> bool:
        """Whether the numbers of a column are codes."""
        return column in self.reader.categories.of

    def kind(self, column: int) -> str:
        """The kind of a column."""
        if column in self.reader.derivation.dates:
            return "date"
        return "category" if self.is_category(column) or column in self.reader.derivation.ordered else "number"

    def category(self, column: int, code: int) -> str:
        """The category with a code."""
        known = self.reader.categories.of[column]
        return category_text(known[code]) if code < len(known) else "(new category)"

    def value(self, column: int, value: float) -> str:
        """A number as a number, a date or an ordered category."""
        if column in self.reader.derivation.ordered:
            return category_text(self.reader.derivation.ordered[column][int(value)])
        if column not in self.reader.derivation.dates or not np.isfinite(value):
            return number(value, DIGITS)
        date = np.datetime_as_string(from_days(np.array([value]))[0], unit="s")
        return str(date.removesuffix(MIDNIGHT).replace("T", " "))

    def numbers(self, column: int, low: float, high: float) -> str:
        """The rule that the numbers of a column are above one number and not above another."""
        name = self.names[column]
        ordered = self.reader.derivation.ordered.get(column)
        if ordered is not None:
            inside = [category_text(value) for place, value in enumerate(ordered) if low < place <= high]
            return f"{name} {listed(inside)}"
        if np.isinf(low):
            return f"{name} ≤ {self.value(column, high)}"
        if np.isinf(high):
            return f"{name} > {self.value(column, low)}"
        return f"{self.value(column, low)} < {name} ≤ {self.value(column, high)}"

    def codes(self, column: int, codes: Sequence[int], all_codes: Sequence[int]) -> str:
        """The rule that a column has some of all codes that occur; by those that it has not, if these are fewer."""
        name, others = self.names[column], [code for code in all_codes if code not in codes]
        if len(others) < len(codes):
            texts = [self.category(column, code) for code in others]
            return f"{name} ≠ {texts[0]}" if len(texts) == 1 else f"{name} not {listed(texts)}"
        return f"{name} {listed([self.category(column, code) for code in codes])}"

    def bins(self, column: int, edges: Array, values: NDArray[Any]) -> list[str]:
        """The names of the bins between edges; if all values are integers, or days, by those that they contain."""
        edges = whole_below(values, edges)
        step = 1.0 if _are_whole(values) else 0.0
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        ordered = self.reader.derivation.ordered.get(column)
        if ordered is not None:
            inside = [
                [category_text(v) for k, v in enumerate(ordered) if a < k <= b] for a, b in pairwise(ends.tolist())
            ]
            return [", ".join(names) for names in inside]
        if not len(edges):
            return ["all"]
        texts = [self.value(column, edge) for edge in edges.tolist()]
        starts = [self.value(column, edge + step) for edge in edges.tolist()]
        between = [low if low == high else f"{low} – {high}" for low, high in zip(starts, texts[1:], strict=False)]
        return [f"≤ {texts[0]}", *between, f"> {texts[-1]}"]


def whole_below(values: NDArray[Any], thresholds: Array) -> Array:
    """Thresholds, rounded down to integers if all values are integers: these separate the same values."""
    return np.floor(thresholds) if _are_whole(values) else thresholds


def _are_whole(values: NDArray[Any]) -> bool:
    present = values[np.isfinite(values)]
    return len(present) > 0 and bool((present == np.floor(present)).all())


def listed(names: Sequence[str]) -> str:
    """A value, or a list of values of which at most a few are named."""
    if len(names) == 1:
        return f"= {names[0]}"
    more = len(names) - MOST_LISTED
    shown = list(names[:MOST_LISTED]) + ([f"{more:,} more"] if more > 0 else [])
    return f"in ({', '.join(shown)})"
