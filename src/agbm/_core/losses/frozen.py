"""Predicted distributions that scipy.stats does not have, with the methods of its frozen distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..sums import Array


class Frozen(ABC):
    """The methods that follow from others; there is one distribution per row."""

    @abstractmethod
    def var(self) -> Array:
        """The variances."""

    @abstractmethod
    def pdf(self, x: Any) -> Array:
        """The density."""

    @abstractmethod
    def ppf(self, q: Any) -> Array:
        """The quantiles q."""

    @abstractmethod
    def isf(self, q: Any) -> Array:
        """The numbers that are exceeded with probability q."""

    def std(self) -> Array:
        """The standard deviations."""
        return np.sqrt(np.maximum(self.var(), 0.0))

    def median(self) -> Array:
        """The medians."""
        return self.ppf(0.5)

    def logpdf(self, x: Any) -> Array:
        """The logarithm of the density."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x))

    def interval(self, confidence: float) -> tuple[Array, Array]:
        """Lower and upper bounds of the central numbers with this probability."""
        return self.ppf(0.5 - 0.5 * confidence), self.isf(0.5 - 0.5 * confidence)


def _generator(random_state: Any) -> Any:
    """The random numbers of a seed, as scipy.stats takes it."""
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

    def pmf(self, x: Any) -> Array:
        """The probability of x for counts; for amounts, the probability at zero and the density above it."""
        x = np.asarray(x, dtype=np.float64)
        of_other = self.other.pmf(x) if self._counts else np.where(x > 0.0, self.other.pdf(x), 0.0)
        return np.asarray(np.where(x == 0.0, self.zero, 0.0) + (1.0 - self.zero) * of_other)

    pdf = pmf

    logpmf = Frozen.logpdf

    def cdf(self, x: Any) -> Array:
        """The probability of at most x."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(np.where(x >= 0.0, self.zero, 0.0) + (1.0 - self.zero) * self.other.cdf(x))

    def sf(self, x: Any) -> Array:
        """The probability of more than x."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(np.where(x < 0.0, self.zero, 0.0) + (1.0 - self.zero) * self.other.sf(x))

    def ppf(self, q: Any) -> Array:
        """The quantiles q."""
        share = np.asarray((np.asarray(q, dtype=np.float64) - self.zero) / (1.0 - self.zero))
        return np.where(share <= 0.0, 0.0, self.other.ppf(np.clip(share, 0.0, 1.0)))

    def isf(self, q: Any) -> Array:
        """The numbers that are exceeded with probability q."""
        share = np.asarray(np.asarray(q, dtype=np.float64) / (1.0 - self.zero))
        return np.where(share >= 1.0, 0.0, self.other.isf(np.clip(share, 0.0, 1.0)))

    def rvs(self, size: Any = None, random_state: Any = None) -> Array:
        """Random numbers; `size` must end with the number of rows."""
        random = _generator(random_state)
        size = np.shape(self.zero) if size is None else size
        drawn = self.other.rvs(size=size, random_state=random)
        return np.where(random.uniform(size=size) < self.zero, 0.0, drawn)


@dataclass(frozen=True, eq=False)
class Binned(Frozen):
    """Distributions with uniform densities in bins, one per row, with the methods of scipy.stats."""

    edges: Array
    shares: Array
    """The probabilities (row, bin)."""

    @cached_property
    def _below(self) -> Array:
        """The probability below each edge, (row, edge)."""
        total = np.concatenate([np.zeros((len(self.shares), 1)), np.cumsum(self.shares, axis=1)], axis=1)
        return np.asarray(total / total[:, -1:])

    def mean(self) -> Array:
        """The means."""
        return np.asarray((self.shares * (0.5 * (self.edges[:-1] + self.edges[1:]))).sum(axis=1))

    def var(self) -> Array:
        """The variances."""
        low, high = self.edges[:-1], self.edges[1:]
        return np.asarray((self.shares * ((low**2 + low * high + high**2) / 3.0)).sum(axis=1) - self.mean() ** 2)

    def _bin(self, x: Array) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)

    def pdf(self, x: Any) -> Array:
        """The density; zero outside of the bins."""
        x = np.asarray(x, dtype=np.float64)
        at = self._bin(x)
        density = self.shares[_rows(self.shares, at), at] / np.diff(self.edges)[at]
        return np.where((x >= self.edges[0]) & (x <= self.edges[-1]), density, 0.0)

    def cdf(self, x: Any) -> Array:
        """The probability of at most x."""
        x = np.asarray(x, dtype=np.float64)
        at = self._bin(x)
        within = np.clip((x - self.edges[at]) / np.diff(self.edges)[at], 0.0, 1.0)
        rows = _rows(self.shares, at)
        below = self._below
        return np.asarray(below[rows, at] + within * (below[rows, at + 1] - below[rows, at]))

    def sf(self, x: Any) -> Array:
        """The probability of more than x."""
        return np.asarray(1.0 - self.cdf(x))

    def ppf(self, q: Any) -> Array:
        """The quantiles q; minus infinity for 0, since labels may be outside of the bins, and infinity for 1."""
        below = self._below
        q = np.asarray(q, dtype=np.float64)
        wanted = np.broadcast_to(q, np.broadcast_shapes(q.shape, (len(below),)))
        at = np.minimum((below[:, 1:-1] < wanted[..., np.newaxis]).sum(axis=-1), len(self.edges) - 2)
        rows = _rows(self.shares, at)
        width = below[rows, at + 1] - below[rows, at]
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.clip(np.where(width > 0.0, (wanted - below[rows, at]) / width, 0.0), 0.0, 1.0)
        found = self.edges[at] + within * np.diff(self.edges)[at]
        return np.where(wanted <= 0.0, -np.inf, np.where(wanted >= 1.0, np.inf, found))

    def isf(self, q: Any) -> Array:
        """The numbers that are exceeded with probability q."""
        return self.ppf(1.0 - np.asarray(q, dtype=np.float64))

    def rvs(self, size: Any = None, random_state: Any = None) -> Array:
        """Random numbers; `size` must end with the number of rows."""
        return self.ppf(_generator(random_state).uniform(1e-300, 1.0, size=len(self.shares) if size is None else size))


def _rows(shares: Array, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of the row of each entry."""
    return np.broadcast_to(np.arange(len(shares)), np.broadcast_shapes(at.shape, (len(shares),)))
