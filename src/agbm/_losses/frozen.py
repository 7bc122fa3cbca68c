"""Predicted distributions that scipy.stats does not have, with the methods of its frozen distributions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._base.sums import Array
from .elementary import log

Random: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"
"""A seed or generator of random numbers, as scipy.stats takes it."""


class Frozen(ABC):
    """The methods that follow from others; there is one distribution per row."""

    @abstractmethod
    def var(self) -> Array:
        """The variances."""

    @abstractmethod
    def pdf(self, x: ArrayLike) -> Array:
        """The density."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Array:
        """The quantiles q."""

    @abstractmethod
    def isf(self, q: ArrayLike) -> Array:
        """The numbers that are exceeded with probability q."""

    def std(self) -> Array:
        """The standard deviations."""
        return np.sqrt(np.maximum(self.var(), 0.0))

    def median(self) -> Array:
        """The medians."""
        return self.ppf(0.5)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def interval(self, confidence: float) -> tuple[Array, Array]:
        """Lower and upper bounds of the central numbers with this probability."""
        return self.ppf(0.5 - 0.5 * confidence), self.isf(0.5 - 0.5 * confidence)


def _generator(random_state: Random) -> Any:
    """The generator of a seed."""
    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)


@dataclass(frozen=True, eq=False)
class ZeroInflated(Frozen):
    """Zero with a probability, one per row, and otherwise a number of another distribution, which is not negative."""

    zero: Array
    """The probability of the additional zeros."""
    other: Any
    """A frozen distribution of scipy.stats: counts, or positive numbers."""

    @property
    def _counts(self) -> bool:
        return hasattr(self.other, "pmf")

    def mean(self) -> Array:
        """The means."""
        return np.asarray((1.0 - self.zero) * self.other.mean())

    def var(self) -> Array:
        """The variances."""
        return np.asarray((1.0 - self.zero) * (self.other.var() + self.zero * self.other.mean() ** 2))

    def pmf(self, x: ArrayLike) -> Array:
        """The probability of x for counts; for amounts, the probability at zero and the density above it."""
        x = np.asarray(x, dtype=np.float64)
        of_other = self.other.pmf(x) if self._counts else np.where(x > 0.0, self.other.pdf(x), 0.0)
        return np.asarray(np.where(x == 0.0, self.zero, 0.0) + (1.0 - self.zero) * of_other)

    pdf = pmf

    logpmf = Frozen.logpdf

    def cdf(self, x: ArrayLike) -> Array:
        """The probability of at most x."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(np.where(x >= 0.0, self.zero, 0.0) + (1.0 - self.zero) * self.other.cdf(x))

    def sf(self, x: ArrayLike) -> Array:
        """The probability of more than x."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(np.where(x < 0.0, self.zero, 0.0) + (1.0 - self.zero) * self.other.sf(x))

    def ppf(self, q: ArrayLike) -> Array:
        """The quantiles q."""
        share = np.asarray((np.asarray(q, dtype=np.float64) - self.zero) / (1.0 - self.zero))
        return np.where(share <= 0.0, 0.0, self.other.ppf(np.clip(share, 0.0, 1.0)))

    def isf(self, q: ArrayLike) -> Array:
        """The numbers that are exceeded with probability q."""
        share = np.asarray(np.asarray(q, dtype=np.float64) / (1.0 - self.zero))
        return np.where(share >= 1.0, 0.0, self.other.isf(np.clip(share, 0.0, 1.0)))

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Random = None) -> Array:
        """Random numbers; `size` must end with the number of rows."""
        random = _generator(random_state)
        size = np.shape(self.zero) if size is None else size
        drawn = self.other.rvs(size=size, random_state=random)
        return np.where(random.uniform(size=size) < self.zero, 0.0, drawn)


class Piece(NamedTuple):
    """A part of a bin: an atom (low == high), a tail (one bound is infinite), or an interval.

    In a tail, the distance from the finite bound has an exponential distribution. In an interval, the density is
    uniform below the mean and uniform above it, with the shares that give this mean.
    """

    bin: int
    low: float
    high: float
    mean: float
    share: float
    """The probability of the piece within its bin."""

    @property
    def is_atom(self) -> bool:
        """Whether the piece is a single number."""
        return self.low == self.high

    @property
    def is_tail(self) -> bool:
        """Whether one bound is infinite."""
        return math.isinf(self.low) or math.isinf(self.high)

    @property
    def scale(self) -> float:
        """The mean distance from the finite bound of a tail; otherwise the width."""
        if self.is_tail:
            return self.high - self.mean if math.isinf(self.low) else self.mean - self.low
        return self.high - self.low

    def segments(self) -> list[Piece]:
        """The two parts of an interval, with one density each; other pieces have one part."""
        if self.is_atom or self.is_tail:
            return [self]
        above = (self.mean - self.low) / self.scale
        parts = (self.low, self.mean, 1.0 - above), (self.mean, self.high, above)
        return [Piece(self.bin, low, high, 0.5 * low + 0.5 * high, self.share * part) for low, high, part in parts]


class Bins:
    """Bins of numbers, and how numbers are distributed within each bin, which is the same for all rows.

    The place of a number is that of its bin, 0, 1, 2, ..., plus the probability within the bin of at most this number.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """`pieces` are in ascending order; there may be gaps between them."""
        segments = [segment for piece in pieces for segment in piece.segments()]
        self._bin = np.array([segment.bin for segment in segments])
        self._low, self._high, self._mean, self._share = np.array([segment[1:] for segment in segments]).T
        self._scale = np.array([segment.scale for segment in segments])
        self._falling, self._rising = np.isinf(self._high), np.isinf(self._low)
        """Whether a segment is the upper tail, and the lower one."""
        self.n = int(self._bin[-1]) + 1
        self.means = _sums_of([piece.bin for piece in pieces], [piece.share * piece.mean for piece in pieces])
        before = np.cumsum(self._share) - self._share
        self._begin = self._bin + np.maximum(before - before[np.diff(self._bin, prepend=-1) > 0][self._bin], 0.0)
        """The places where segments begin."""
        after_atom = (self._low[:-1] == self._high[:-1]) & (self._high[:-1] == self._low[1:])
        self._first = np.where(np.append(False, after_atom), np.nextafter(self._low, np.inf), self._low)
        """The smallest numbers of segments: an atom at the bound of a segment is not a part of it."""

    @cached_property
    def variances(self) -> Array:
        """The variances of the bins."""
        of_segment = self._scale**2 / np.where(self._falling | self._rising, 1.0, 12.0)
        off = self._mean - self.means[self._bin]
        return _sums_of(self._bin, self._share * (of_segment + off**2))

    def _segment(self, x: Array) -> NDArray[np.intp]:
        """The last segment that does not begin after x."""
        return np.maximum(np.searchsorted(self._first, x, side="right") - 1, 0)

    def _nearest(self, x: Array) -> NDArray[np.intp]:
        """The segment that contains x, or the nearest one."""
        at = self._segment(x)
        after = np.minimum(at + 1, len(self._low) - 1)
        return np.where(self._low[after] - x < x - self._high[at], after, at)

    def _excess(self, x: Array, at: NDArray[np.intp]) -> Array:
        """The distance of each number from the finite bound of its tail, in mean distances; 0 in other segments."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            below, above = (self._high[at] - x) / self._scale[at], (x - self._low[at]) / self._scale[at]
        return np.where(self._rising[at], below, np.where(self._falling[at], above, 0.0))

    def codes(self, x: Array) -> NDArray[np.intp]:
        """The bin that contains each number, or the nearest one."""
        return self._bin[self._nearest(x)]

    def contain(self, x: Array) -> NDArray[np.bool_]:
        """Whether a bin contains each number."""
        at = self._segment(x)
        return np.asarray((self._low[at] <= x) & (x <= self._high[at]))

    def log_density(self, x: Array) -> Array:
        """The logarithm of the density of each number within its bin, or of its probability if it is an atom.

        For a number that no bin contains, that of the nearest number that a bin contains.
        """
        at = self._nearest(x)
        density = log(self._share) - log(np.where(self._scale > 0.0, self._scale, 1.0))
        return np.asarray(density[at] - self._excess(x, at))

    def place(self, x: Array) -> Array:
        """The place of each number."""
        at = self._segment(x)
        excess = self._excess(x, at)
        with np.errstate(invalid="ignore", divide="ignore"):
            within = np.where(self._scale[at] > 0.0, (x - self._low[at]) / self._scale[at], x >= self._low[at])
        within = np.where(self._rising[at], np.exp(-excess), np.clip(within, 0.0, 1.0))
        within = np.where(self._falling[at], -np.expm1(-excess), within)
        return np.asarray(np.minimum(self._begin[at] + self._share[at] * within, self._bin[at] + 1.0))

    def number(self, place: Array) -> Array:
        """The smallest number with at least this place."""
        at = np.maximum(np.searchsorted(self._begin, place, side="left") - 1, 0)
        low, high, scale = self._low[at], self._high[at], self._scale[at]
        within = np.clip((place - self._begin[at]) / self._share[at], 0.0, 1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.where(self._falling[at], low - scale * np.log1p(-within), np.minimum(low + scale * within, high))
            return np.asarray(np.where(self._rising[at], high + scale * np.log(within), found))


def _sums_of(bins: ArrayLike, x: ArrayLike) -> Array:
    """The sum of the numbers of each bin."""
    return np.bincount(bins, x).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Binned(Frozen):
    """Distributions over bins, one per row, with the methods of scipy.stats."""

    bins: Bins
    shares: Array
    """The probabilities (row, bin)."""

    @cached_property
    def _below(self) -> Array:
        """The probability below each bin, and 1: (row, bin)."""
        total = np.concatenate([np.zeros((len(self.shares), 1)), np.cumsum(self.shares, axis=1)], axis=1)
        return np.asarray(total / total[:, -1:])

    def mean(self) -> Array:
        """The means."""
        return np.asarray((self.shares * self.bins.means).sum(axis=1))

    def var(self) -> Array:
        """The variances."""
        off = self.bins.means - self.mean()[:, np.newaxis]
        return np.asarray((self.shares * (self.bins.variances + off**2)).sum(axis=1))

    def pdf(self, x: ArrayLike) -> Array:
        """The density; the probability of an atom, and zero outside all bins."""
        with np.errstate(over="ignore"):
            return np.exp(self.logpdf(x))

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of `pdf`."""
        x = np.asarray(x, dtype=np.float64)
        at = self.bins.codes(x)
        with np.errstate(divide="ignore"):
            density = np.log(self.shares[_rows(self.shares, at), at]) + self.bins.log_density(x)
        return np.where(self.bins.contain(x), density, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        """The probability of at most x."""
        place = self.bins.place(np.asarray(x, dtype=np.float64))
        at = np.minimum(place.astype(np.intp), self.bins.n - 1)
        rows = _rows(self.shares, at)
        below = self._below
        return np.asarray(below[rows, at] + (place - at) * (below[rows, at + 1] - below[rows, at]))

    def sf(self, x: ArrayLike) -> Array:
        """The probability of more than x."""
        return np.asarray(1.0 - self.cdf(x))

    def ppf(self, q: ArrayLike) -> Array:
        """The quantiles q; minus infinity for 0, since labels may be outside of the bins, and infinity for 1."""
        q = np.asarray(q, dtype=np.float64)
        wanted = np.broadcast_to(q, np.broadcast_shapes(q.shape, (len(self.shares),)))
        at = np.minimum((self._below[:, 1:-1] < wanted[..., np.newaxis]).sum(axis=-1), self.bins.n - 1)
        rows = _rows(self.shares, at)
        share = self._below[rows, at + 1] - self._below[rows, at]
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.where(share > 0.0, (wanted - self._below[rows, at]) / share, 0.0)
        found = self.bins.number(at + np.clip(within, 0.0, 1.0))
        return np.where(wanted <= 0.0, -np.inf, np.where(wanted >= 1.0, np.inf, found))

    def isf(self, q: ArrayLike) -> Array:
        """The numbers that are exceeded with probability q."""
        return self.ppf(1.0 - np.asarray(q, dtype=np.float64))

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Random = None) -> Array:
        """Random numbers; `size` must end with the number of rows."""
        return self.ppf(_generator(random_state).uniform(1e-300, 1.0, size=len(self.shares) if size is None else size))


def _rows(shares: Array, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of the row of each entry."""
    return np.broadcast_to(np.arange(len(shares)), np.broadcast_shapes(at.shape, (len(shares),)))
