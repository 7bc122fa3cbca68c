"""Conformal prediction: intervals and sets of classes, from the errors on rows that a model was not trained on.

A nonconformity score says how badly a label fits to the raw scores of its row. Split conformal prediction compares the
score of a new row with those of calibration rows. CV+ does so for the members of a model, each with the rows that it
has held out (Barber, Candes, Ramdas, Tibshirani, "Predictive inference with the jackknife+", 2021; for classes: Romano,
Sesia, Candes, "Classification with valid and adaptive coverage", 2020). Split conformal prediction is CV+ with one
member, so there is one implementation. Ranks and weights are integers, so every order statistic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .._losses import Loss

Integers = NDArray[np.int64]

ROWS_AT_ONCE = 1 << 14
"""Rows whose intervals are computed together, so that their arrays stay in the cache."""
WEIGHT_UNITS = 1 << 31
"""The largest relative weight as an integer."""
ROUNDING = 1e-10
"""By how much raw scores of training may differ from those of predictions, relative to their size; see worst_score."""
_MOST_STEPS = 8


class Nonconformity(Protocol):
    """How badly labels fit to raw scores."""

    @property
    def n_scores(self) -> int:
        """Raw scores per label."""

    def score(self, y: Array, raw: Array) -> Array:
        """The nonconformity of labels (row), given raw scores (score, row); never NaN, and possibly infinite."""

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        """The largest nonconformity if each raw score may be wrong by `slack` (score, row), or somewhat more.

        In training, trees are added up in another order than in predictions. Where many rows have equal scores, as in
        small models, a difference in the last bit would exclude all of them from an interval.
        """


class IntervalMeasure(Nonconformity, Protocol):
    """A nonconformity whose labels up to a threshold are an interval; intervals of larger thresholds contain it."""

    def summary(self, raw: Array) -> Array:
        """The numbers (any, row) that the bounds of an interval depend on."""

    def lower(self, summary: Array, threshold: Array) -> Array:
        """The lower bounds of the intervals; they do not increase with the threshold, which may be infinite."""

    def upper(self, summary: Array, threshold: Array) -> Array:
        """The upper bounds of the intervals; they do not decrease with the threshold, which may be infinite."""


class SetMeasure(Nonconformity, Protocol):
    """A nonconformity of classes."""

    def scores(self, raw: Array) -> Array:
        """The nonconformity (class, row) of every class."""


@dataclass(frozen=True, eq=False)
class Residual:
    """|y - prediction| / prediction^(power / 2): the distance, or the Pearson residual of a loss with a log link."""

    loss: Loss
    power: float = 0.0
    lowest: float = -math.inf
    """No label is below it, so no interval is."""
    highest: float = math.inf
    n_scores = 1

    def summary(self, raw: Array) -> Array:
        """The prediction, and the unit of distances from it."""
        prediction = np.asarray(self.loss.inverse_link(raw[0]), dtype=np.float64)
        if self.power == 0.0:
            return prediction[np.newaxis]
        return np.stack([prediction, np.maximum(prediction ** (self.power / 2), np.finfo(np.float64).tiny)])

    def lower(self, summary: Array, threshold: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            bound = summary[0] - self._distance(summary, threshold)
        return np.asarray(np.fmin(np.fmax(bound, self.lowest), self.highest))

    def upper(self, summary: Array, threshold: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            bound = summary[0] + self._distance(summary, threshold)
        return np.asarray(np.fmax(np.fmin(bound, self.highest), self.lowest))

    def _distance(self, summary: Array, threshold: Array) -> Array:
        return threshold if self.power == 0.0 else threshold * summary[1]

    def score(self, y: Array, raw: Array) -> Array:
        summary = self.summary(raw)
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(y - summary[0])
            return covering_score(self, y, summary, distance if self.power == 0.0 else distance / summary[1])

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        return largest_score(self, y, raw, slack)


@dataclass(frozen=True, eq=False)
class ClassShare:
    """1 - the probability of the class (Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers", 2019)."""

    loss: Loss
    n_scores: int
    """1 for two classes."""

    def scores(self, raw: Array) -> Array:
        if self.n_scores > 1:
            return np.asarray(1.0 - self.loss.inverse_link(raw))
        second = np.asarray(self.loss.inverse_link(raw[0]))
        return np.stack([second, 1.0 - second])

    def score(self, y: Array, raw: Array) -> Array:
        found = self.scores(raw)[y.astype(np.intp), np.arange(len(y))]
        return np.where(np.isnan(found), np.inf, found)

    def worst_score(self, y: Array, raw: Array, slack: Array) -> Array:
        """The largest nonconformity: probabilities change by at most as much as raw scores; rounding is added."""
        return np.asarray(self.score(y, raw) + slack.max(axis=0, initial=0.0) + ROUNDING)


def covering_score(measure: IntervalMeasure, y: Array, summary: Array, score: Array) -> Array:
    """The scores, increased in their last bits where an interval with this threshold misses its label by rounding."""
    score = np.where(np.isnan(score), np.inf, score)
    for _ in range(_MOST_STEPS):
        missed = (measure.lower(summary, score) > y) | (measure.upper(summary, score) < y)
        if not missed.any():
            return score
        score = np.where(missed, np.nextafter(score, np.inf), score)
    missed = (measure.lower(summary, score) > y) | (measure.upper(summary, score) < y)
    return np.where(missed, np.inf, score)


def largest_score(measure: Nonconformity, y: Array, raw: Array, slack: Array) -> Array:
    """`worst_score` of a measure that is largest where all raw scores are too large, or all are too small."""
    found = [measure.score(y, raw), measure.score(y, raw - slack), measure.score(y, raw + slack)]
    return np.asarray(np.max(found, axis=0))


def scores_of_labels(measure: Nonconformity, y: Array, raw: Array, start: Array | None = None) -> Array:
    """The nonconformity (label, row) of all labels of rows, from raw scores (output, row).

    Raw scores of training come with those of the start function, which show how large the sums are.
    """
    y, n_rows = np.atleast_2d(y), raw.shape[-1]
    of_labels = raw.reshape(len(y), measure.n_scores, n_rows)
    if start is None:
        return np.stack([measure.score(*of_label) for of_label in zip(y, of_labels, strict=True)])
    slack = (ROUNDING * (np.abs(raw) + np.abs(start))).reshape(of_labels.shape)
    return np.stack([measure.worst_score(*of_label) for of_label in zip(y, of_labels, slack, strict=True)])


@dataclass(frozen=True, eq=False)
class SortedScores:
    """The nonconformity of calibration rows, ascending."""

    values: Array
    weights: Integers | None = None
    """None if all weights are 1."""

    @classmethod
    def of(cls, values: Array, weights: Integers | None) -> SortedScores:
        """Sort scores. The result does not depend on the order of the rows."""
        if weights is None:
            return cls(np.sort(values))
        order = np.lexsort((weights, values))
        return cls(values[order], weights[order])

    def sample(self, n: int, seed: int) -> SortedScores:
        """A random sample of n of the rows, or all if there are fewer."""
        if len(self.values) <= n:
            return self
        places = np.sort(np.random.default_rng(seed).choice(len(self.values), n, replace=False))
        return SortedScores(self.values[places], None if self.weights is None else self.weights[places])

    @cached_property
    def sums(self) -> Integers:
        """Cumulative weights."""
        return np.arange(1, len(self.values) + 1) if self.weights is None else np.cumsum(self.weights)

    @property
    def total(self) -> int:
        """The sum of the weights."""
        return int(self.sums[-1]) if len(self.sums) else 0

    @cached_property
    def padded(self) -> Array:
        """The scores, and infinity."""
        return np.append(self.values, np.inf)

    @cached_property
    def sums_padded(self) -> Integers:
        """The cumulative weights, the last one twice."""
        return np.append(self.sums, self.total)

    def reaching(self, weight: Integers) -> Integers:
        """The index of the first score up to which the weights add up to `weight`, or the number of scores."""
        if self.weights is None:
            return np.minimum(weight - 1, len(self.values))
        return np.searchsorted(self.sums, weight, side="left")

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {"values": self.values, "weights": self.weights}


def whole_weights(weights: Array, largest: float) -> Integers:
    """Relative weights as integers; `largest` becomes WEIGHT_UNITS."""
    return np.rint(weights / largest * WEIGHT_UNITS).astype(np.int64)


def exact_coverage(coverage: object) -> Fraction:
    """The coverage as the fraction that its user means: 0.9 is nine tenths, not the nearest double."""
    valid = isinstance(coverage, Real) and not isinstance(coverage, bool) and 0.0 < float(coverage) < 1.0
    found = Fraction(str(coverage)).limit_denominator(10**9) if valid else Fraction(0)
    if not 0 < found < 1:
        raise ValueError(f"coverage={coverage!r} must be a number between 0 and 1, such as 0.9.")
    return found


def wanted_weight(lists: Sequence[SortedScores], test_weight: int, coverage: Fraction) -> int | None:
    """The weight of the scores up to the threshold, with a new row of weight `test_weight` beyond all of them.

    For n scores of weight 1 it is the rank ceil(coverage (n + 1)). None if all scores together do not reach it.
    """
    total = sum(scores.total for scores in lists)
    wanted = math.ceil(coverage * (total + test_weight))
    return wanted if wanted <= total else None


def rows_needed(coverage: Fraction) -> int:
    """The number of calibration rows from which on a threshold is finite, if all rows have the same weight."""
    return math.ceil(coverage / (1 - coverage))


def intervals(
    lists: Sequence[SortedScores], test_weight: int, coverage: Fraction, measure: IntervalMeasure, raws: Sequence[Array]
) -> Array:
    """Lower and upper bounds (row, 2), from the scores and the raw scores (score, row) of each member."""
    n_rows, wanted = raws[0].shape[-1], wanted_weight(lists, test_weight, coverage)
    bounds = np.empty((n_rows, 2))
    for begin in range(0, n_rows, ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        summaries = [measure.summary(raw[:, rows]) for raw in raws]
        if wanted is None:
            everything = np.full(summaries[0].shape[-1], np.inf)
            bounds[rows, 0] = measure.lower(summaries[0], everything)
            bounds[rows, 1] = measure.upper(summaries[0], everything)
            continue

        def falling(k: int, scores: Array, among: Any, summaries: Sequence[Array] = summaries) -> Array:
            return -measure.lower(summaries[k][:, among], scores)

        def rising(k: int, scores: Array, among: Any, summaries: Sequence[Array] = summaries) -> Array:
            return measure.upper(summaries[k][:, among], scores)

        n = summaries[0].shape[-1]
        bounds[rows, 0] = -smallest_reaching(lists, wanted, falling, n)
        bounds[rows, 1] = smallest_reaching(lists, wanted, rising, n)
    return bounds


def class_sets(
    lists: Sequence[SortedScores], test_weight: int, coverage: Fraction, measure: SetMeasure, raws: Sequence[Array]
) -> NDArray[np.bool_]:
    """The classes that belong to the set of each row, (row, class); arguments as for `intervals`."""
    wanted = wanted_weight(lists, test_weight, coverage)
    below: Any = 0
    for scores, raw in zip(lists, raws, strict=True):
        of_classes = measure.scores(raw)
        sums = np.append(0, scores.sums)
        below = below + sums[np.searchsorted(scores.values, of_classes, side="left")]
    return np.ones_like(below.T, dtype=bool) if wanted is None else np.ascontiguousarray((below < wanted).T)


def smallest_reaching(
    lists: Sequence[SortedScores], wanted: int, values: Callable[[int, Array, Any], Array], n_rows: int
) -> Array:
    """For each row, the smallest value such that the values up to it have a weight of at least `wanted`.

    `values(k, scores, rows)` are the values of some rows, each for one score of list k; they increase with the scores.
    Each step looks at the value of every list at which its weight reaches a K-th of what is wanted. Less than what is
    wanted is below the smallest of these values, so the result is not below it, and the list that it belongs to is done
    with all scores up to there. So every step reduces what is wanted by a K-th or more.
    """
    result = np.full(n_rows, -np.inf)
    rows: Any = slice(None)
    left = np.full(n_rows, wanted, dtype=np.int64)
    taken = np.zeros((len(lists), n_rows), dtype=np.int64)
    while len(left):
        step = -(-left // len(lists))
        smallest, first = np.full(len(left), np.inf), np.full(len(left), -1, dtype=np.int32)
        done = np.zeros(len(left), dtype=np.int64)
        for k, scores in enumerate(lists):
            at = scores.reaching(taken[k] + step)  # the last place is that of infinity
            value = values(k, scores.padded[at], rows)
            less = (value < smallest) & (at < len(scores.values))
            smallest, done = np.where(less, value, smallest), np.where(less, scores.sums_padded[at], done)
            first[less] = k
        result[rows] = np.maximum(result[rows], smallest)
        for k in range(len(lists)):
            here = first == k
            left -= np.where(here, done - taken[k], 0)
            taken[k] = np.where(here, done, taken[k])
        active = (left > 0) & (smallest < np.inf)
        if not active.all():
            rows = np.arange(n_rows)[rows][active]
            left, taken = left[active], taken[:, active]
    return result


@dataclass(frozen=True, eq=False)
class Calibration:
    """The scores that intervals or sets of a model are made of."""

    parts: Sequence[Sequence[SortedScores]]
    """For each member or group, or for the whole model, the scores of each label of a row."""
    test_weight: int = 1
    """The weight of a row to predict."""
    of_members: bool = False
    """Whether parts belong to the members, for CV+. Otherwise, they belong to the whole model."""
    starts: Array | None = None
    """The constants (member, output) that the members start from; None if they start from one model."""
    group: int | None = None
    """The column whose values are groups with separate thresholds."""
    groups: Array | None = None
    """The values of this column as numbers, ascending, NaN last; one part each."""

    def pooled(self) -> Calibration:
        """The same scores for a model that has not been trained in parts."""

        def joined(of_members: Sequence[SortedScores]) -> SortedScores:
            weights = [scores.weights for scores in of_members if scores.weights is not None]
            return SortedScores.of(
                np.concatenate([scores.values for scores in of_members]), np.concatenate(weights) if weights else None
            )

        return Calibration([[joined(of_label) for of_label in zip(*self.parts, strict=True)]], self.test_weight)
