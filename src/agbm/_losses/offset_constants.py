"""Constants that minimize a loss of rows that start from an offset each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from .._base.equations import solved
from .._base.sums import Array, exact_means, exact_sum
from .._base.together import anywhere, largest, smallest
from .best_constants import zero_crossing
from .classification import Multinomial
from .cox import Cox
from .distributions import DistributionLoss
from .elementary import exp, log
from .lifetimes import LifetimeLoss
from .loss import Loss
from .names import is_built_in
from .ranking import RankingLoss
from .regression import HalfSquaredError, Huber, Quantile, Tweedie

# Scores of classes: the range of the last step, the range up to which steps are not damped, and the number of steps.
TOLERANCE = 1e-12
SMALL = 1e-3
MOST_ITERATIONS = 200


def best_constant_with(loss: Loss, y: Array, weight: Array | None, offset: Array | None) -> float | Array:
    """The constant c with the smallest total loss of the scores c + offset; (K,) for offsets (K, row).

    All sums over rows are exact, so the result does not depend on the order of the rows.
    """
    if offset is None or not anywhere(offset):
        return loss.best_constant(y, weight)
    if isinstance(loss, RankingLoss):
        return loss.best_constant(y, weight)
    if offset.ndim == 2:
        if not is_built_in(loss):
            raise ValueError(
                f"init='prior' with offsets: the best constants of loss={loss!r}, which has several scores per row, "
                "are unknown; use init='zero', or add them to the offsets."
            )
        if isinstance(loss, Cox):  # a constant does not change it
            return loss.best_constant(y, weight)
        if isinstance(loss, DistributionLoss | LifetimeLoss):
            return loss.best_constants(y, weight, offset)
        if isinstance(loss, Quantile):
            of_levels = zip(loss.each, offset, strict=True)
            return np.array([one.best_constant(y - of_level, weight) for one, of_level in of_levels])
        return _class_scores(cast(Multinomial, loss), y, weight, offset)
    if is_built_in(loss) and isinstance(loss, HalfSquaredError | Huber | Quantile):  # these depend on y - f alone
        return loss.best_constant(y - offset, weight)
    if is_built_in(loss) and isinstance(loss, Tweedie):
        return _log_factor(loss.power, y, weight, offset)
    return _zero_slope(loss, y, weight, offset)


def _log_factor(power: float, y: Array, weight: Array | None, offset: Array) -> float:
    """The logarithm of the best common factor of predictions exp(offset): the slope of a Tweedie loss is zero there.

    It is sum(w y exp((1 - p) offset)) / sum(w exp((2 - p) offset)). The largest terms are scaled to 1, so that neither
    sum overflows.
    """
    least, most = smallest(offset[y > 0.0]), largest(offset)
    claims = exact_sum(y * exp((1.0 - power) * (offset - least)), weight)
    expected = exact_sum(exp((2.0 - power) * (offset - most)), weight)
    return float(log(claims / expected)) + (1.0 - power) * least - (2.0 - power) * most


def _zero_slope(loss: Loss, y: Array, weight: Array | None, offset: Array) -> float:
    """The constant at which the slope of a convex loss crosses zero.

    If all scores are at most the best constant without offsets, the loss falls; if all are at least that, it rises.
    """
    without = float(loss.best_constant(y, weight))

    def falls(constant: float) -> bool:
        return exact_means(lambda: [np.asarray(loss.negative_gradient(y, constant + offset))], weight)[0] > 0.0

    return zero_crossing(falls, without - largest(offset), without - smallest(offset))


def _class_scores(loss: Multinomial, y: Array, weight: Array | None, offset: Array) -> Array:
    """The scores of classes that make their expected shares equal to their actual shares, by damped Newton steps.

    The third derivative of the loss along a step is at most the range of the step times the second. A step of range b,
    times log(1 + b) / b, therefore never increases the loss (Sun and Tran-Dinh, "Generalized self-concordant
    functions", 2019).
    """
    score = loss.best_constant(y, weight)
    share = loss.inverse_link(score[:, np.newaxis])[:, 0]  # positive, even for a class without rows
    for _ in range(MOST_ITERATIONS):
        expected, curvature = _derivatives(loss, score, weight, offset)
        step = solved(curvature, share - expected)
        if step is None:  # all rows are certain of their class: shift the odds instead
            step = loss.link(share) - loss.link(expected)
        length = float(step.max() - step.min())
        score = score + step * (float(log(1.0 + length)) / length if length > SMALL else 1.0)
        if length <= TOLERANCE:
            break
    return score


def _derivatives(loss: Multinomial, score: Array, weight: Array | None, offset: Array) -> tuple[Array, Array]:
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
