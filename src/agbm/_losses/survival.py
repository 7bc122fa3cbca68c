"""Losses of survival analysis: Cox's partial likelihood, accelerated failure time, piecewise exponential times.

Labels are (2, row): lower and upper bounds of the time of a row. The bounds of an event are equal; the upper bound of a
row that is censored at its lower bound (right-censored) is infinite, and the lower bound of one that is only known to
be before its upper bound (left-censored) is 0.
"""

from __future__ import annotations

import math
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._base import _native
from .._base.collectives import anywhere, count, largest, smallest
from .._base.sums import Array, ExactSum, exact_means, exact_sum, rows_together
from .base import Argument, BuiltInLoss, JointLoss, Prediction, Task, Traits, checked
from .constants import TOLERANCE, Derivatives, convex_minimum, newton_crossing, quantiles_of, weight_in_steps
from .elementary import exp, log

# Best constants of accelerated failure time: the largest scale, in ranges of the logarithms of bounds; the largest
# distance of a location from all bounds, in scales; the step of x for second derivatives.
WIDEST = 10.0
FARTHEST = 1000.0
STEP = 2.0**-17

MOST_INTERVALS = 100
_DISTRIBUTIONS = ("normal", "logistic", "extreme")


def _log_bounds(y: Array) -> Array:
    """The logarithms of the bounds; minus infinity for a lower bound of 0, infinity for an infinite upper bound."""
    return np.where(np.isfinite(y), log(y), y)


def has_event(y: Array) -> Any:
    """Whether the time of each row is known."""
    return y[0] == y[1]


def check_right_censored(y: Array, loss: BuiltInLoss) -> None:
    """Raise ValueError for labels other than events and right-censored times, of which some are events."""
    wrong = np.flatnonzero(~has_event(y) & np.isfinite(y[1]))
    if len(wrong):
        raise ValueError(
            f"y: loss={loss!r} supports events and right-censored times only; a row is known to be between "
            f"{y[0, wrong[0]]:g} and {y[1, wrong[0]]:g}. Use loss='aft:normal', 'aft:logistic' or 'aft:extreme'."
        )
    check_events(has_event(y))
    if not anywhere(y[0] > 0.0):
        raise ValueError(f"y: all times are 0; loss={loss!r} needs some that are positive.")


def check_events(known: Any) -> None:
    """Raise ValueError if there is no event, known exactly or within bounds."""
    if not anywhere(known):
        raise ValueError(
            "y has no event: all rows are right-censored, which does not say when events happen. If there are events, "
            "check their column: 1 (True) means an event, 0 (False) a censored row."
        )


class LifetimeLoss(BuiltInLoss, family=True):
    """l(y, f) = -log of the likelihood of a time that is known or censored; the scores of a row are (score, row)."""

    tasks: ClassVar[tuple[Task, ...]] = ("survival",)
    smoothness = math.inf
    prediction: ClassVar[Prediction]

    @property
    def traits(self) -> Traits:
        """Scores of times, of which censored rows say little."""
        signs = self.risk_signs
        return Traits(
            "times", prediction=self.prediction, n_scores=len(signs), score_signs=signs if len(signs) > 1 else (),
            intervals="none", l2="times",
        )  # fmt: skip

    @property
    def row_kernel(self) -> None:
        """None, since labels have two parts."""

    @property
    @abstractmethod
    def risk_signs(self) -> tuple[int, ...]:
        """Whether the predicted risk increases (1) or decreases (-1) with each score; 0 if neither."""

    @abstractmethod
    def check(self, y: Array) -> None:
        """Raise ValueError for labels that are not allowed."""

    @abstractmethod
    def _write(self, quantity: str, y: Array, f: Array, out: Array) -> None:
        """Call the kernel."""

    def _of(self, quantity: str, y: Array, f: Array) -> Array:
        y, f = rows_together(y), rows_together(f)
        out = _native.empty(f.shape[1:] if quantity == "value" else f.shape)
        self._write(quantity, y, f, out)
        return out

    def value(self, y: Array, f: Array) -> Array:
        return self._of("value", y, f)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        return self._of("negative_gradient", y, f)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        return self._of("hessian", y, f)

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        return exact_sum(self.value(y, f), weight, self.n_threads)

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """The scores with the largest likelihood for all rows, (K,)."""
        return self.best_constants(y, weight, None)

    @abstractmethod
    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """The constants with the largest likelihood if offsets (K, row) are added to them."""

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Array:
        return self.best_constants(y, weight, offset)

    def link(self, prediction: Array) -> Array:
        """There is none: a risk does not determine the scores."""
        raise ValueError(f"init: a model cannot start a fit with loss={self!r}; use init='prior' or init='zero'.")

    @abstractmethod
    def inverse_link(self, f: Array) -> Array:
        """The risk of each row: the higher, the earlier its event."""

    @abstractmethod
    def cumulative_hazard(self, f: Array, times: Array) -> Array:
        """The cumulative hazards of all rows at times, (row, time): -log P(T > t)."""

    @abstractmethod
    def quantile(self, f: Array, share: float) -> Array:
        """The time by which each row has had its event with probability `share`."""


class AcceleratedFailureTime(LifetimeLoss):
    """The logarithm of the time is a location plus a scale times an error; for left, right and interval censoring.

    `distribution` is that of the errors: "normal" (times are log-normal), "logistic" (log-logistic) or "extreme"
    (Weibull). The scores are the location and the logarithm of the scale. If `scale` is a number, it is the scale of
    all rows, and the location is the only score. The loss is convex in the location.
    """

    names: ClassVar[tuple[str, ...]] = tuple(f"aft:{name}" for name in _DISTRIBUTIONS)
    argument: ClassVar[Argument] = "word"
    prediction = "minus_first"

    def __init__(self, distribution: str = "normal", scale: float | None = None) -> None:
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(f"distribution={distribution!r} must be one of {', '.join(map(repr, _DISTRIBUTIONS))}.")
        self.distribution = distribution
        self.scale = None if scale is None else checked("scale", scale, 0.0, math.inf, "; None learns it")

    @property
    def risk_signs(self) -> tuple[int, ...]:
        """The risk falls with the location."""
        return (-1, 0) if self.scale is None else (-1,)

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """1 / scale^2 for errors that are normal, half of that for logistic ones; otherwise infinite."""
        bound = {"normal": 1.0, "logistic": 0.5}.get(self.distribution, math.inf)
        return math.inf if self.scale is None else bound / self.scale**2

    def _write(self, quantity: str, y: Array, f: Array, out: Array) -> None:
        log_scale = 0.0 if self.scale is None else float(log(self.scale))
        _native.lifetimes(self.distribution, log_scale, quantity, y, f, out, self.n_threads)

    def check(self, y: Array) -> None:
        """Times of events must be positive, some times must have an upper bound, and some a lower one."""
        if anywhere((has_event(y) & (y[0] <= 0.0)) | (y[1] <= 0.0)):
            raise ValueError(
                f"y has events at time 0, which loss={self!r} does not allow: it models the logarithm of the time. Add "
                "half of the smallest time unit to them, or use loss='cox' or 'piecewise_exponential'."
            )
        check_events(np.isfinite(y[1]))
        if not anywhere(y[0] > 0.0):
            raise ValueError(
                f"y: all rows are left-censored, so that loss={self!r} finds no time too early for their events; add "
                "rows with an event or with a lower bound above 0."
            )

    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """The constants with the largest likelihood.

        The scale is at most WIDEST times the range of the logarithms of all bounds.
        """
        logs = _log_bounds(y) if offset is None else _log_bounds(y) - offset[0]
        if self.scale is None and largest(logs[0]) <= smallest(logs[1]):
            self._refuse_one_time(y, offset)
        known = logs[np.isfinite(logs)]
        low, high = smallest(known), largest(known)
        means = partial(self._means, y, weight, offset)
        if self.scale is not None:
            return np.array([_best_location(means, self.scale, low, high)])
        before = [np.isneginf(logs[0]).astype(np.float64), np.isfinite(logs[1]).astype(np.float64)]
        share = 0.5 * sum(exact_means(lambda: before, weight))
        return _best_pair(means, low, high, share, 0.0 if offset is None else smallest(offset[1]))

    def _refuse_one_time(self, y: Array, offset: Array | None) -> None:
        time, n = largest(y[0]) or smallest(y[1]), count(y.shape[-1])
        one = f"the time {time:g}" if offset is None else "one time, relative to the offsets,"
        raise ValueError(
            f"y: {one} agrees with the events and bounds of all rows (n_samples={n}), so that loss={self!r} cannot "
            f"estimate how much times vary. Fix the scale: loss=AcceleratedFailureTime({self.distribution!r}, scale=1)."
        )

    def _means(self, y: Array, weight: Array | None, offset: Array | None, points: Sequence[Sequence[float]]) -> Array:
        """The mean loss at the first of several constants, and the mean residuals at all of them."""

        def vectors() -> Iterator[Array]:
            for i, scores in enumerate(points):
                f = np.repeat(np.array(scores)[:, np.newaxis], y.shape[-1], axis=1)
                if offset is not None:
                    f += offset
                if i == 0:
                    yield self.value(y, f)
                yield from self.negative_gradient(y, f)

        return np.array(exact_means(vectors, weight, self.n_threads))

    def inverse_link(self, f: Array) -> Array:
        """Minus the location."""
        return np.asarray(-f[0])

    def _scales(self, f: Array) -> Array:
        return exp(f[1], self.n_threads) if self.scale is None else np.full(f.shape[1], self.scale)

    def cumulative_hazard(self, f: Array, times: Array) -> Array:
        n, bounds = f.shape[1], np.empty((2, f.shape[1]))
        hazards = np.zeros((n, len(times)))
        bounds[1] = math.inf
        for k, time in enumerate(times.tolist()):
            if time > 0.0:
                bounds[0] = time
                hazards[:, k] = self.value(bounds, f)
        return hazards

    def quantile(self, f: Array, share: float) -> Array:
        return exp(f[0] + self._scales(f) * self._error_quantile(share), self.n_threads)

    def _error_quantile(self, share: float) -> float:
        if self.distribution == "normal":
            from scipy.special import ndtri

            return float(ndtri(share))
        if self.distribution == "logistic":
            return math.log(share) - math.log1p(-share)
        return math.log(-math.log1p(-share))


Means = Callable[[Sequence[Sequence[float]]], Array]
"""A function that returns the mean loss at the first of several constants, and the mean residuals at all of them."""


def _best_location(means: Means, scale: float, low: float, high: float) -> float:
    """The constant location for a given scale, if logarithms of bounds are from low to high."""
    step, reach = STEP * scale, FARTHEST * scale

    def at(location: float) -> tuple[float, float]:
        _, here, there = means([[location], [location + step]])
        return here, (there - here) / step

    return newton_crossing(at, low - reach, high + reach, TOLERANCE * scale)


def _best_pair(means: Means, low: float, high: float, share: float, least_offset: float) -> Array:
    """The constant location and log scale, if logarithms of bounds are from low to high.

    The loss is convex in x = (location / scale, 1 / scale), see Burridge, "A note on maximum likelihood estimation for
    regression models using grouped data", 1981. Here, the location is relative to the middle of the bounds, and the
    scale is that of the row with the least offset, in units of their range. So no error is large at 1 / scale = 1,
    where Newton steps begin, with a location that has about the right share of times below it.
    """
    middle, extent = 0.5 * (low + high), high - low
    unit = float(log(extent)) - least_offset

    def scores(x: Array) -> list[float]:
        return [middle + extent * x[0] / x[1], unit - float(log(x[1]))]

    def gradient(x: Array, residual: Array) -> Array:
        location, spread = extent * residual[0], residual[1]
        return np.array([-location / x[1], (location * x[0] / x[1] + spread) / x[1]])

    def at(x: Array) -> Derivatives:
        """The second derivatives are differences of the first."""
        points = [x, x + np.array([STEP, 0.0]), x * np.array([1.0, 1.0 + STEP])]
        value, *residuals = means([scores(point) for point in points])
        here, *there = map(gradient, points, np.reshape(residuals, (3, 2)))
        change = (np.array(there) - here) / np.array([[STEP], [STEP * x[1]]])
        return Derivatives(value, here, 0.5 * (change + change.T))

    start = np.array([float(log((1.0 - share) / share)), 1.0])
    return np.array(scores(convex_minimum(at, start, 1.0 / WIDEST)))


class PiecewiseExponential(LifetimeLoss):
    """Times with a hazard that is constant in each of several intervals; for events and right-censored times.

    The logarithm of a hazard is the sum of the first score, which all intervals share, and of a score of its own, so
    that survival curves of rows may cross. `intervals` is the number of intervals, which fit divides at quantiles of
    the times of events, or a list of the times where they begin, 0 first. The hazard of the last interval continues.
    The loss is convex.
    """

    names: ClassVar[tuple[str, ...]] = ("piecewise_exponential",)
    prediction = "log_of_hazards"

    def __init__(self, intervals: int | Sequence[float] = 10) -> None:
        self.intervals: Any = _checked_intervals(intervals)

    @property
    def risk_signs(self) -> tuple[int, ...]:
        """The risk grows with the common hazard and with that of every interval."""
        return (1,) * (1 + (self.intervals if isinstance(self.intervals, int) else len(self.intervals)))

    @property
    def traits(self) -> Traits:
        """The beginnings of intervals are learned from the labels."""
        return replace(super().traits, learns_from_labels=True)

    @property
    def is_learned(self) -> bool:  # type: ignore[override]
        """Whether the beginnings of the intervals are known."""
        return not isinstance(self.intervals, int)

    @cached_property
    def _edges(self) -> Array:
        return np.array(self.intervals, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {name: value for name, value in vars(self).items() if name != "_edges"}

    def __repr__(self) -> str:
        return f"PiecewiseExponential(intervals={self.intervals!r})"

    def learned_from(self, y: Array, weight: Array | None) -> Self:
        """The loss with intervals that have about as many events each."""
        if not isinstance(self.intervals, int):
            return self
        self.check(y)
        events = has_event(y)
        times, steps = y[0, events], weight_in_steps(None if weight is None else weight[events])
        inner = quantiles_of(times, [k / self.intervals for k in range(1, self.intervals)], steps)
        latest = largest(times)
        edges = [0.0, *sorted({edge for edge in inner if 0.0 < edge < latest})]
        return type(self)(edges).with_threads(self.n_threads)

    def _write(self, quantity: str, y: Array, f: Array, out: Array) -> None:
        _native.hazards(self._edges, quantity, y, f, out, self.n_threads)

    def check(self, y: Array) -> None:
        check_right_censored(y, self)

    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """The constants of the hazards: the events of each interval, divided by the time that rows spend in it.

        The first constant is the mean of their logarithms.
        """
        f = np.zeros((len(self.risk_signs), y.shape[-1])) if offset is None else offset
        expected = exp(_log_hazards(f), self.n_threads) * self.exposure(y[0])
        last = np.clip(np.searchsorted(self._edges, y[0]) - 1, 0, None)
        happened = [(has_event(y) & (last == k)).astype(np.float64) for k in range(len(self._edges))]
        events = exact_means(lambda: happened, weight)
        least = 0.5 * min(found for found in events if found > 0.0)  # for an interval without an event
        total = exact_means(lambda: expected, weight)
        longest = max(total)
        logs = [float(log(max(d, least) / (of if of > 0.0 else longest))) for d, of in zip(events, total, strict=True)]
        common = sum(logs) / len(logs)
        return np.array([common, *(of_interval - common for of_interval in logs)])

    def exposure(self, times: Array) -> Array:
        """The time that is spent in each interval up to some times, (interval, time)."""
        ends = np.append(self._edges[1:], math.inf)
        spent = [np.clip(times, low, high) - low for low, high in zip(self._edges, ends, strict=True)]
        return np.stack(spent)

    def inverse_link(self, f: Array) -> Array:
        """The logarithm of the mean cumulative hazard at the ends of the intervals, the last as long as all others."""
        common, own = f[0], f[1:]
        largest = own.max(axis=0)
        total = np.zeros(f.shape[1])
        for of_interval, weight in zip(own, self.risk_weights(), strict=True):  # in this order, for the same bits
            total += exp(of_interval - largest, self.n_threads) * weight
        return np.asarray(common + (largest + log(total, self.n_threads)))

    def risk_weights(self) -> list[float]:
        """For each interval, the factor of its hazard in the mean cumulative hazard."""
        reach = np.append(self._edges[1:], 2.0 * self._edges[-1] or 1.0)
        return [sum(spent) / len(reach) for spent in self.exposure(reach).tolist()]

    def cumulative_hazard(self, f: Array, times: Array) -> Array:
        spent, total = self.exposure(times), np.zeros((f.shape[1], len(times)))
        for of_interval, time in zip(exp(_log_hazards(f), self.n_threads), spent, strict=True):
            total += of_interval[:, np.newaxis] * time
        return total

    def quantile(self, f: Array, share: float) -> Array:
        hazards, left = exp(_log_hazards(f), self.n_threads), np.full(f.shape[1], -math.log1p(-share))
        found = np.full(f.shape[1], self._edges[-1])
        done = np.zeros(f.shape[1], dtype=bool)
        for k, (low, high) in enumerate(pairwise(self._edges.tolist())):
            reached = ~done & (hazards[k] * (high - low) >= left)
            found[reached] = low + left[reached] / hazards[k, reached]
            done |= reached
            left = np.where(done, left, left - hazards[k] * (high - low))
        found[~done] += left[~done] / hazards[-1, ~done]
        return found


def _log_hazards(f: Array) -> Array:
    """The logarithms of the hazards (interval, row), from the scores of PiecewiseExponential."""
    return np.asarray(f[0] + f[1:])


def _checked_intervals(intervals: object) -> int | tuple[float, ...]:
    if isinstance(intervals, int | np.integer) and not isinstance(intervals, bool):
        if 1 <= intervals <= MOST_INTERVALS:
            return int(intervals)
    elif isinstance(intervals, Sequence | np.ndarray) and not isinstance(intervals, str):
        try:
            edges = tuple(float(edge) for edge in intervals)
        except (TypeError, ValueError):
            edges = ()
        ascending = all(low < high for low, high in pairwise(edges))
        if 1 <= len(edges) <= MOST_INTERVALS and ascending and edges[0] == 0.0 and math.isfinite(edges[-1]):
            return edges
    raise ValueError(
        f"intervals={intervals!r} must be a number of intervals from 1 to {MOST_INTERVALS}, or a list of the times "
        "where intervals begin, in ascending order, 0 first."
    )


_TIES = ("breslow", "efron")


class TimeOrder(NamedTuple):
    """Rows by time, the latest first; times are numbered in this order."""

    rows: NDArray[np.uint32]
    first: NDArray[np.uint32]
    """For each time, the position of its first row; then the number of rows."""
    time_of: NDArray[np.uint32]
    """The number of the time of each row."""
    times: Array

    @classmethod
    def of(cls, time: Array) -> TimeOrder:
        """The order of some times."""
        times, number = np.unique(time, return_inverse=True)
        time_of = (len(times) - 1 - number.ravel()).astype(np.uint32)
        rows = np.argsort(time_of, kind="stable").astype(np.uint32)
        first = np.append(0, np.cumsum(np.bincount(time_of, minlength=len(times))))
        return cls(rows, first.astype(np.uint32), time_of, times[::-1].copy())


_known: dict[tuple[int, ...], TimeOrder] = {}
"""The orders of labels that cannot change, by their memory; an entry lives as long as its labels."""


def order_of(y: Array) -> TimeOrder:
    """The order of the rows of labels; kept for labels that are read-only, as those of a fit are."""
    owner = y if y.base is None else y.base
    if y.flags.writeable or not isinstance(owner, np.ndarray):
        return TimeOrder.of(y[0])
    key = (id(owner), y.ctypes.data, *y.shape, *y.strides)
    found = _known.get(key)
    if found is None:
        found = _known[key] = TimeOrder.of(y[0])
        weakref.finalize(owner, _known.pop, key, None)
    return found


class Cox(JointLoss):
    """Cox's proportional hazards: the negative logarithm of the partial likelihood, per row.

    The score is the logarithm of the hazard ratio. An event is compared with the rows at risk: those with an event, or
    censored, at its time or later. `ties` says how events at the same time count: "breslow" compares each with all rows
    at risk; "efron" leaves out a part of the others. With "efron", sample weights multiply the terms of rows, but a row
    of weight 2 is not the same as two rows. The loss is convex. A constant that is added to all scores does not change
    it.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("survival",)
    names: ClassVar[tuple[str, ...]] = ("cox", "cox:breslow", "cox:efron")
    argument: ClassVar[Argument] = "word"
    smoothness = math.inf

    @property
    def traits(self) -> Traits:
        """Every row is compared with all rows at risk; survival functions need a baseline hazard."""
        return Traits(
            "times", rows="all", prediction="first", intervals="none", trees="of_events", has_baseline=True,
            shown_as="partial likelihood loss",
        )  # fmt: skip

    def __init__(self, ties: str = "breslow") -> None:
        if ties not in _TIES:
            raise ValueError(f"ties={ties!r} must be one of {', '.join(map(repr, _TIES))}.")
        self.ties = ties

    def _of(self, quantity: str, y: Array, f: Array, weight: Array | None) -> Array:
        order = order_of(y)
        y, f = rows_together(y), np.atleast_2d(rows_together(f))
        out = _native.empty((len(order.times),) if quantity == "baseline" else (f.shape[1],))
        weight = None if weight is None else rows_together(weight)
        _native.cox(*order[:3], self.ties == "efron", quantity, y, f, weight, out, self.n_threads)
        return out

    def value(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The term of each row; zero for rows without an event."""
        return self._of("value", y, f, weight)

    def negative_gradient(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """Events minus expected events of each row."""
        return self._of("negative_gradient", y, f, weight).reshape(np.shape(f))

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The second derivative for one repetition of a row, and at least half of the residual, which bounds steps."""
        return self._of("hessian", y, f, weight).reshape(np.shape(f))

    def baseline(self, y: Array, f: Array, weight: Array | None) -> tuple[Array, Array]:
        """Times in ascending order, and the cumulative hazards of a row with score 0 (Breslow's estimate)."""
        order = order_of(y)
        increases = self._of("baseline", y, f, weight)[::-1]
        return order.times[::-1], np.cumsum(increases)

    def check(self, y: Array) -> None:
        check_right_censored(y, self)

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """Zero: the loss does not depend on it."""
        return np.zeros(1)

    def link(self, prediction: Array) -> Array:
        """The identity."""
        return np.asarray(prediction)

    def inverse_link(self, f: Array) -> Array:
        """The logarithm of the hazard ratio."""
        return np.asarray(f[0])
