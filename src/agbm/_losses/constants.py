"""Constants that minimise a loss, with and without offsets: quantiles, zeros of slopes, minima of convex functions.

All sums over rows are exact, so that no result depends on the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._base.collectives import count, has_all_rows, largest, ranked, smallest
from .._base.sums import (
    Array,
    exact_means,
    exact_sum,
    of_ordered_bits,
    ordered_bits,
    weight_step,
    whole_weights,
)
from .elementary import exp, log

# Newton steps: their number, the length up to which they are not checked, and the length of the last one.
MOST_STEPS = 200
SMALL = 1e-3
TOLERANCE = 1e-9

# Scores of classes: the range of the last step, and the range up to which steps are not damped.
CLASSES_TOLERANCE = 1e-12
CLASSES_SMALL = 1e-3


def quantile_of(x: Array, share: float, steps: Array | None) -> float:
    """The smallest number in x with at least that share of the weight, given in whole steps, at or below it."""
    return quantiles_of(x, [share], steps)[0]


def quantiles_of(x: Array, shares: Sequence[float], steps: Array | None) -> list[float]:
    """The same for several shares."""
    total = float(count(len(x))) if steps is None else float(exact_sum(steps))
    wanted = [enough(share, total) for share in shares]
    found = ranked(x, wanted, steps) if has_all_rows() else of_ordered_bits(ranked(ordered_bits(x), wanted, steps))
    return [float(number) + 0.0 for number in found]  # -0 becomes 0


def weight_in_steps(weight: Array | None) -> Array | None:
    """Weights as integers, in multiples of a power of two."""
    return None if weight is None else whole_weights(weight, weight_step(weight))


def enough(share: float, total: float) -> int:
    """The smallest number of rows, or of steps of weight, that is at least a given share of a total.

    A share such as 0.1 is rounded to a double, possibly upwards; the tolerance makes sure that a tenth of the rows is
    enough.
    """
    return max(1, math.ceil(share * (1.0 - 2.0**-50) * total))


def zero_crossing(falls: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number from low to high at which a function no longer falls; only the sign of its slope is used.

    Bisects the bits of the numbers rather than their distance: 64 steps find the result to the last bit, in any unit
    and for any range.
    """
    lowest, highest = ordered_bits(np.array([low, high])).tolist()
    below, at = lowest - 1, highest
    while at - below > 1:
        middle = (below + at) // 2
        below, at = (middle, at) if falls(_of_bits(middle)) else (below, middle)
    return _of_bits(at)


def newton_crossing(at: Callable[[float], tuple[float, float]], low: float, high: float, tolerance: float) -> float:
    """Where a decreasing function is zero, by Newton steps between low and high.

    `at` returns the function and its slope. The interval is halved instead if a step would leave it, or is more than
    half as long as the one before.
    """
    x, length = 0.5 * (low + high), high - low
    for _ in range(MOST_STEPS):
        value, slope = at(x)
        low, high = (x, high) if value > 0.0 else (low, x)
        step = -value / slope if slope < 0.0 else math.inf
        if not low <= x + step <= high or abs(step) > 0.5 * length:
            step = 0.5 * (low + high) - x
        x, length = x + step, abs(step)
        if length <= tolerance:
            break
    return x


class Derivatives(NamedTuple):
    """A function of two numbers at a point."""

    value: float
    gradient: Array
    curvature: Array
    """The second derivatives, (2, 2)."""


def convex_minimum(at: Callable[[Array], Derivatives], x: Array, least: float) -> Array:
    """Where a convex function of two numbers is smallest, by Newton steps from x; the second is at least `least` > 0.

    Steps are halved until the function falls, except short ones, whose decrease may be less than rounding errors. The
    length of the second part of a step is relative to the number.
    """
    here = at(x)
    for _ in range(MOST_STEPS):
        step = _newton_step(here, float(x[1]), least)
        length = float(max(abs(step[0]), abs(step[1]) / x[1]))
        there = at(x + step)
        while length > SMALL and not there.value < here.value:
            step, length = 0.5 * step, 0.5 * length
            there = at(x + step)
        x, here = x + step, there
        if length <= TOLERANCE:
            break
    return x


def _newton_step(here: Derivatives, second: float, least: float) -> Array:
    """The step from a point, at most down to a quarter of the second number, and to `least`."""
    _, gradient, curvature = here
    step = solved(curvature, -gradient)
    if step is None:  # nearly singular, but for rounding errors
        step = solved(curvature + np.diag(np.diagonal(curvature)), -gradient)
    if step is None or (step[1] < 0.0 and second <= least * (1.0 + TOLERANCE)):
        return np.array([-gradient[0] / curvature[0, 0], 0.0])
    most = min(0.75 * second, second - least)
    return step if -step[1] <= most else step * (most / -step[1])


def _of_bits(bits: int) -> float:
    return float(of_ordered_bits(np.array([bits], dtype=np.uint64))[0])


def log_factor(power: float, y: Array, weight: Array | None, offset: Array) -> float:
    """The logarithm of the best common factor of predictions exp(offset): the slope of a Tweedie loss is zero there.

    It is sum(w y exp((1 - p) offset)) / sum(w exp((2 - p) offset)). The largest terms are scaled to 1, so that neither
    sum overflows.
    """
    least, most = smallest(offset[y > 0.0]), largest(offset)
    claims = exact_sum(y * exp((1.0 - power) * (offset - least)), weight)
    expected = exact_sum(exp((2.0 - power) * (offset - most)), weight)
    return float(log(claims / expected)) + (1.0 - power) * least - (2.0 - power) * most


def zero_slope(loss: Any, y: Array, weight: Array | None, offset: Array) -> float:
    """The constant at which the slope of a convex loss crosses zero.

    If all scores are at most the best constant without offsets, the loss falls; if all are at least that, it rises.
    """
    without = float(loss.best_constant(y, weight))

    def falls(constant: float) -> bool:
        return exact_means(lambda: [np.asarray(loss.negative_gradient(y, constant + offset))], weight)[0] > 0.0

    return zero_crossing(falls, without - largest(offset), without - smallest(offset))


def class_scores(loss: Any, y: Array, weight: Array | None, offset: Array) -> Array:
    """The scores of classes that make their expected shares equal to their actual shares, by damped Newton steps.

    The third derivative of the loss along a step is at most the range of the step times the second. A step of range b,
    times log(1 + b) / b, therefore never increases the loss (Sun and Tran-Dinh, "Generalized self-concordant
    functions", 2019).
    """
    score: Array = loss.best_constant(y, weight)
    share = loss.inverse_link(score[:, np.newaxis])[:, 0]  # positive, even for a class without rows
    for _ in range(MOST_STEPS):
        expected, curvature = _class_derivatives(loss, score, weight, offset)
        step = solved(curvature, share - expected)
        if step is None:  # all rows are certain of their class: shift the odds instead
            step = loss.link(share) - loss.link(expected)
        length = float(step.max() - step.min())
        score = score + step * (float(log(1.0 + length)) / length if length > CLASSES_SMALL else 1.0)
        if length <= CLASSES_TOLERANCE:
            break
    return score


def _class_derivatives(loss: Any, score: Array, weight: Array | None, offset: Array) -> tuple[Array, Array]:
    """The mean probabilities, and the mean second derivatives, made regular: the loss ignores the sum of scores."""
    n_classes = len(score)
    pairs = np.tril_indices(n_classes)

    def vectors() -> Iterator[Array]:
        probability = loss.inverse_link(score[:, np.newaxis] + offset)
        yield from probability
        yield from (probability[j] * probability[k] for j, k in zip(*pairs, strict=True))

    means = np.array(exact_means(vectors, weight))
    expected, curvature = means[:n_classes], np.empty((n_classes, n_classes))
    curvature[pairs] = curvature.T[pairs] = -means[n_classes:]
    np.fill_diagonal(curvature, np.diagonal(curvature) + expected)
    return expected, np.asarray(curvature + np.diagonal(curvature).max() / n_classes)


def solved(matrix: Array, right: Array) -> Array | None:
    """Solve equations with a positive definite matrix, without BLAS; None if it is singular."""
    n = len(right)
    rows = np.column_stack([matrix, right])
    for i in range(n):
        if not rows[i, i] > 0.0:
            return None
        rows[i] = rows[i] / rows[i, i]
        others = np.arange(n) != i
        rows[others] = rows[others] - rows[others, i][:, np.newaxis] * rows[i]
    return rows[:, n] if np.isfinite(rows[:, n]).all() else None
