"""Nonconformity of labels for models that predict several quantiles, or a whole distribution.

These models know how uncertain each row is, so that their conformal intervals are wide where they have to be; see
conformal.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.sums import Array
from .._losses import exp, log, traits_of
from .conformal import ROUNDING, Nonconformity, covering_score, largest_score

_LEAST_TAIL = math.log(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class NestedQuantiles:
    """How far a label is from the middle, in terms of the quantiles of its row.

    The quantiles are the bounds of nested intervals: the outermost pair, the next one, and so on to the median, or to
    the middle of the innermost pair. Outside of the outermost one, the nonconformity is the distance from it, as in
    conformalized quantile regression (Romano, Patterson, Candes, 2019). Inside, it is negative: the nominal coverage of
    the interval that the label is a bound of, linear between two intervals, less that of the outermost one.
    """

    loss: Any

    @property
    def n_scores(self) -> int:
        """Raw scores per label."""
        return len(traits_of(self.loss).quantiles)

    @property
    def _places(self) -> list[float]:
        """The nonconformity of the bounds of the intervals, from the middle to the outermost one, where it is 0."""
        levels = traits_of(self.loss).quantiles
        coverages = [0.0, *(levels[-1 - pair] - levels[pair] for pair in reversed(range(len(levels) // 2)))]
        return [coverage - coverages[-1] for coverage in coverages]

    def summary(self, raw: Array) -> Array:
        """The quantiles in ascending order, with the middle."""
        quantiles = self.loss.inverse_link(raw)
        n = len(quantiles) // 2
        middle = 0.5 * quantiles[n - 1 if len(quantiles) % 2 == 0 else n] + 0.5 * quantiles[n]
        return np.concatenate([quantiles[:n], middle[np.newaxis], quantiles[len(quantiles) - n :]])

    def lower(self, summary: Array, threshold: Array) -> Array:
        return -self._bound(-summary[: len(summary) // 2 + 1][::-1], threshold)

    def upper(self, summary: Array, threshold: Array) -> Array:
        return self._bound(summary[len(summary) // 2 :], threshold)

    def _bound(self, outwards: Array, threshold: Array) -> Array:
        """The bound on one side, whose quantiles are given from the middle outwards, in ascending order."""
        places = self._places
        with np.errstate(invalid="ignore", over="ignore"):
            bound = outwards[-1] + np.maximum(threshold, 0.0)
            for k in range(len(places) - 1, 0, -1):
                share = (threshold - places[k - 1]) / (places[k] - places[k - 1])
                between = outwards[k - 1] + share * (outwards[k] - outwards[k - 1])
                bound = np.where(threshold < places[k], np.minimum(between, outwards[k]), bound)
        return np.asarray(np.maximum(bound, outwards[0]))

    def score(self, y: Array, raw: Array) -> Array:
        summary = self.summary(raw)
        n = len(summary) // 2
        below, above = self._score(-y, -summary[: n + 1][::-1]), self._score(y, summary[n:])
        return covering_score(self, y, summary, np.maximum(below, above))

    def _score(self, y: Array, outwards: Array) -> Array:
        """The smallest threshold whose bound on one side is at least y."""
        places = self._places
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            score = np.maximum(y - outwards[-1], 0.0)
            for k in range(len(places) - 1, 0, -1):
                share = (y - outwards[k - 1]) / (outwards[k] - outwards[k - 1])
                between = places[k - 1] + share * (places[k] - places[k - 1]) + ROUNDING
                score = np.where(y < outwards[k], np.minimum(between, places[k]), score)
        return np.where(y <= outwards[0], places[0], score)

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        return largest_score(self, y, raw, slack)


@dataclass(frozen=True, eq=False)
class Standardised:
    """The distance of a label, or of its logarithm, from its location, divided by its scale.

    For symmetric distributions with a location and a scale, in the order of their tail probabilities.
    """

    logarithms: bool
    n_scores = 2

    def summary(self, raw: Array) -> Array:
        """The location and the scale."""
        return np.stack([raw[0], exp(raw[1])])

    def lower(self, summary: Array, threshold: Array) -> Array:
        bound = summary[0] - threshold * summary[1]
        return _exp_of_any(bound) if self.logarithms else np.asarray(bound)

    def upper(self, summary: Array, threshold: Array) -> Array:
        bound = summary[0] + threshold * summary[1]
        return _exp_of_any(bound) if self.logarithms else np.asarray(bound)

    def score(self, y: Array, raw: Array) -> Array:
        summary = self.summary(raw)
        with np.errstate(divide="ignore"):
            score = np.abs((log(y) if self.logarithms else y) - summary[0]) / summary[1]
        return covering_score(self, y, summary, score * (1.0 + ROUNDING))

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        return worst_corner(self, y, raw, slack)


@dataclass(frozen=True, eq=False)
class TailProbability:
    """How far out in its distribution a label is: -log(2 t) for the smaller one of its two tail probabilities t.

    Intervals have tails of equal probability (Chernozhukov, Wuthrich, Zhu, "Distributional conformal prediction",
    2021); logarithms keep those far out apart.
    """

    loss: Any
    """A distribution."""

    @property
    def n_scores(self) -> int:
        """Raw scores per label."""
        return traits_of(self.loss).n_scores

    def summary(self, raw: Array) -> Array:
        """The raw scores."""
        return raw

    def lower(self, summary: Array, threshold: Array) -> Array:
        return np.asarray(self.loss.frozen(summary).ppf(_tail(threshold)))

    def upper(self, summary: Array, threshold: Array) -> Array:
        return np.asarray(self.loss.frozen(summary).isf(_tail(threshold)))

    def score(self, y: Array, raw: Array) -> Array:
        frozen = self.loss.frozen(raw)
        tail = np.minimum(frozen.cdf(y), frozen.sf(np.nextafter(y, -np.inf)))  # both contain the label itself
        with np.errstate(divide="ignore"):
            score = np.maximum(-np.log(2.0 * tail), 0.0)
        return covering_score(self, y, raw, score * (1.0 + ROUNDING) + ROUNDING)

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        """The largest nonconformity: probabilities of bins change by a factor of at most exp(2 slack)."""
        if traits_of(self.loss).prediction == "mean_of_bins":
            return np.asarray(self.score(y, raw) + 2.0 * slack.max(axis=0))
        return worst_corner(self, y, raw, slack)


def _tail(threshold: Array) -> Array:
    """The tail probability of a threshold."""
    return np.asarray(0.5 * np.exp(-np.minimum(threshold, -_LEAST_TAIL)) * (threshold < np.inf))


def worst_corner(measure: Nonconformity, y: Array, raw: Array, slack: Array) -> Array:
    """The largest score at the corners of a box: locations and spreads may be too large or too small at once."""
    found = [largest_score(measure, y, raw, slack * signs) for signs in _corners(len(raw))]
    return np.asarray(np.max(found, axis=0))


def _exp_of_any(x: Array) -> Array:
    """The exponential, also of infinite numbers."""
    return np.where(np.isinf(x), np.where(x > 0.0, np.inf, 0.0), exp(np.nan_to_num(x)))


def _corners(n: int) -> list[Array]:
    """Signs (score, 1) of all corners of a box, up to the opposite one."""
    return [
        np.array([[1.0 if k == 0 or corner >> (k - 1) & 1 else -1.0] for k in range(n)])
        for corner in range(2 ** (n - 1))
    ]
