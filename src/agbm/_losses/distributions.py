"""Losses that are negative log-likelihoods: the scores of a row are the parameters of the distribution of its label."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._base.collectives import anywhere, largest, smallest
from .._base.sums import Array, ExactSum, exact_mean, exact_means, exact_sum
from .base import BuiltInLoss, Intervals, Prediction, Task, Traits, check_amounts, check_positive, checked
from .constants import quantile_of, weight_in_steps
from .elementary import exp, log, sigmoid

# Newton steps for constants: their largest length, the length of the last one, and their number.
LONGEST_STEP = 1.0
TOLERANCE = 1e-10
MOST_ITERATIONS = 200

# The logarithm of a shape that cannot be estimated, since labels vary no more than without it.
LARGE_LOG_SHAPE = 8.0


class DistributionLoss(BuiltInLoss, family=True):
    """l(y, f) = -log p(y | f), with one score per parameter of the distribution: f is (K, n).

    Hessians are the Fisher information of the scores, the expectation of the second derivatives: a Newton step is the
    natural gradient (Duan et al., "NGBoost", 2020). Predictions are means.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("regression",)
    smoothness = math.inf
    signs: tuple[int, ...] = (1, 0)
    """For each score, whether the mean, or the location, increases (1) or decreases (-1) with it; 0 if neither."""
    prediction: ClassVar[Prediction] = "first"
    intervals: ClassVar[Intervals] = "tails"

    @property
    def traits(self) -> Traits:
        """Several scores per label, whose spread needs more rows than its mean."""
        return Traits(
            prediction=self.prediction, n_scores=len(self.signs), score_signs=self.signs, intervals=self.intervals,
            is_distribution=True, trees="of_spread",
        )  # fmt: skip

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        return exact_sum(self.value(y, f), weight, self.n_threads)

    @abstractmethod
    def check(self, y: Array) -> None:
        """Raise ValueError for labels that are not allowed."""

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """The parameters with the largest likelihood for all rows, (K,)."""
        return self.best_constants(y, weight, None)

    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """The constants with the largest likelihood if offsets (K, row) are added to them; by Newton steps."""
        least = smallest(y)
        if least == largest(y):
            raise ValueError(
                f"y has only one value, {least}; loss={self!r} needs labels that vary, since it estimates how "
                "much they do."
            )
        score = self.moments(y, weight)
        if offset is not None:
            score = score - np.array(exact_means(lambda: offset, weight))
        for _ in range(MOST_ITERATIONS):
            derivatives = partial(self._derivatives, y, score, offset)
            means = np.array(exact_means(derivatives, weight))
            step = means[: len(score)] / means[len(score) :]
            unit = self.units(score)
            step = np.clip(step, -LONGEST_STEP * unit, LONGEST_STEP * unit)
            score = score + step
            if np.abs(step / unit).max() <= TOLERANCE:
                break
        return score

    def _derivatives(self, y: Array, score: Array, offset: Array | None) -> list[Array]:
        """The residuals of all scores, and their hessians, at constants."""
        f = np.broadcast_to(score[:, np.newaxis], (len(score), len(y)))
        f = np.ascontiguousarray(f if offset is None else f + offset)
        return [*self.negative_gradient(y, f), *self.hessian(y, f)]

    @abstractmethod
    def moments(self, y: Array, weight: Array | None) -> Array:
        """A first estimate of the constants."""

    def units(self, score: Array) -> Array:
        """The unit of each score: 1 for logarithms and log-odds."""
        return np.ones(len(score))

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Array:
        return self.best_constants(y, weight, offset)

    def link(self, prediction: Array) -> Array:
        """There is none: a mean does not determine the other parameters."""
        raise ValueError(f"init: a model cannot start a fit with loss={self!r}; use init='prior' or init='zero'.")

    @abstractmethod
    def inverse_link(self, f: Array) -> Array:
        """The mean of the distribution of each row."""

    @abstractmethod
    def frozen(self, f: Array) -> Any:
        """The distributions of all rows, as a frozen distribution of scipy.stats with array parameters."""


class NormalDistribution(DistributionLoss):
    """The normal distribution. The scores are the mean and the logarithm of the standard deviation."""

    names: ClassVar[tuple[str, ...]] = ("distribution:normal",)
    intervals = "standardised"
    _kernel = "normal"

    def check(self, y: Array) -> None:
        """All numbers are allowed."""

    def moments(self, y: Array, weight: Array | None) -> Array:
        """Mean and standard deviation."""
        mean = exact_mean(y, weight)
        return np.array([mean, 0.5 * float(log(exact_mean((y - mean) ** 2, weight)))])

    def units(self, score: Array) -> Array:
        """The mean has the unit of the standard deviation."""
        return np.array([float(exp(score[1])), 1.0])

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        return np.asarray(f[0])

    def frozen(self, f: Array) -> Any:
        from scipy.stats import norm

        return norm(loc=f[0], scale=exp(f[1], self.n_threads))


class LogNormalDistribution(DistributionLoss):
    """The logarithm of the label has a normal distribution, whose mean and log standard deviation are the scores."""

    names: ClassVar[tuple[str, ...]] = ("distribution:lognormal",)
    prediction = "log_normal_mean"
    intervals = "standardised_logarithm"
    _kernel = "log_normal"

    def check(self, y: Array) -> None:
        """Labels must be positive."""
        check_positive(y, self)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """Mean and standard deviation of the logarithms."""
        return NormalDistribution().moments(log(y), weight)

    def units(self, score: Array) -> Array:
        return NormalDistribution().units(score)

    def inverse_link(self, f: Array) -> Array:
        """exp(mean + variance / 2)."""
        return exp(f[0] + 0.5 * exp(2.0 * f[1], self.n_threads), self.n_threads)

    def frozen(self, f: Array) -> Any:
        from scipy.stats import lognorm

        return lognorm(s=exp(f[1], self.n_threads), scale=exp(f[0], self.n_threads))


class StudentTDistribution(DistributionLoss):
    """Student's distribution, for labels with outliers. The scores are the location and the logarithm of the scale.

    df, the degrees of freedom, is the same for all rows; the smaller, the heavier the tails.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:student_t",)
    intervals = "standardised"
    _kernel = "student_t"

    def __init__(self, df: float = 4.0) -> None:
        self.df = checked("df", df, 0.0, math.inf, "; use NormalDistribution in place of an infinite one")

    @property
    def _parameter(self) -> float:
        return self.df

    def check(self, y: Array) -> None:
        """All numbers are allowed."""

    def moments(self, y: Array, weight: Array | None) -> Array:
        """The median, and the median distance from it, or the mean distance if that is zero."""
        steps = weight_in_steps(weight)
        middle = quantile_of(y, 0.5, steps)
        distance = np.abs(y - middle)
        return np.array([middle, float(log(quantile_of(distance, 0.5, steps) or exact_mean(distance, weight)))])

    def units(self, score: Array) -> Array:
        """The location has the unit of the scale."""
        return np.array([float(exp(score[1])), 1.0])

    def inverse_link(self, f: Array) -> Array:
        """The location: the mean if df is above 1, and always the median."""
        return np.asarray(f[0])

    def frozen(self, f: Array) -> Any:
        from scipy.stats import t

        return t(self.df, loc=f[0], scale=exp(f[1], self.n_threads))


class GammaDistribution(DistributionLoss):
    """The gamma distribution, for positive amounts. The scores are the logarithms of the mean and of the shape k.

    The variance is mean^2 / k. The loss Gamma, with one score, has the same k for all rows.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:gamma",)
    prediction = "exp_of_first"
    _kernel = "gamma_distribution"

    def check(self, y: Array) -> None:
        """Labels must be positive."""
        check_positive(y, self)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """Mean and variance."""
        mean = exact_mean(y, weight)
        return np.array([float(log(mean)), -float(log(exact_mean((y / mean - 1.0) ** 2, weight)))])

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        return exp(f[0], self.n_threads)

    def frozen(self, f: Array) -> Any:
        from scipy.stats import gamma

        shape = _shape(f[1], self.n_threads)
        return gamma(shape, scale=exp(f[0], self.n_threads) / shape)


class NegativeBinomialDistribution(DistributionLoss):
    """The negative binomial distribution, for counts. The scores are the logarithms of the mean m and of the size r.

    The variance is m + m^2 / r: larger than that of the Poisson distribution with the same mean.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:negative_binomial",)
    prediction = "exp_of_first"
    _kernel = "negative_binomial"

    def check(self, y: Array) -> None:
        """Labels must be counts."""
        _check_counts(y, self)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """Mean and variance."""
        mean = exact_mean(y, weight)
        excess = exact_mean((y - mean) ** 2, weight) - mean
        log_size = float(log(mean**2 / excess)) if excess > 0.0 else LARGE_LOG_SHAPE
        return np.array([float(log(mean)), min(log_size, LARGE_LOG_SHAPE)])

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        return exp(f[0], self.n_threads)

    def frozen(self, f: Array) -> Any:
        from scipy.stats import nbinom

        mean, size = exp(f[0], self.n_threads), _shape(f[1], self.n_threads)
        return nbinom(size, size / (size + mean))


class ZeroInflatedPoissonDistribution(DistributionLoss):
    """Zero with probability p, and a Poisson count otherwise.

    The scores are the log-odds of p and the logarithm of the mean of the counts.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:zero_inflated_poisson",)
    prediction = "mean_unless_zero"
    _kernel = "zero_inflated_poisson"
    signs = (-1, 1)

    def check(self, y: Array) -> None:
        """Labels must be counts."""
        _check_counts(y, self)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """Half of the zeros, and the mean of the other counts."""
        zeros = exact_mean((y == 0.0).astype(np.float64), weight)
        share = min(max(0.5 * zeros, 1e-3), 0.999)
        return np.array([float(log(share / (1.0 - share))), float(log(exact_mean(y, weight) / (1.0 - share)))])

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        return np.asarray(sigmoid(-f[0], self.n_threads) * exp(f[1], self.n_threads))

    def frozen(self, f: Array) -> Any:
        from scipy.stats import poisson

        from .frozen import ZeroInflated

        return ZeroInflated(sigmoid(f[0], self.n_threads), poisson(exp(f[1], self.n_threads)))


class ZeroInflatedGammaDistribution(DistributionLoss):
    """Zero with probability p, and a gamma distribution otherwise, for amounts that may be zero.

    The scores are the log-odds of p and the two scores of GammaDistribution.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:zero_inflated_gamma",)
    prediction = "mean_unless_zero"
    _kernel = "zero_inflated_gamma"
    signs = (-1, 1, 0)

    def check(self, y: Array) -> None:
        """Labels must not be negative, and not all zero."""
        check_amounts(y, self)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """The share of zeros, and mean and variance of the other labels."""
        positive = y > 0.0
        zeros = 1.0 - exact_mean(positive.astype(np.float64), weight)
        share = min(max(zeros, 1e-3), 0.999)
        amounts, of_amounts = y[positive], None if weight is None else weight[positive]
        least = smallest(amounts)
        varies = least < largest(amounts)
        scores = GammaDistribution().moments(amounts, of_amounts) if varies else [log(least), LARGE_LOG_SHAPE]
        return np.array([float(log(share / (1.0 - share))), *map(float, scores)])

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        return np.asarray(sigmoid(-f[0], self.n_threads) * exp(f[1], self.n_threads))

    def frozen(self, f: Array) -> Any:
        from .frozen import ZeroInflated

        return ZeroInflated(sigmoid(f[0], self.n_threads), GammaDistribution().frozen(f[1:]))


def _shape(score: Array, n_threads: int) -> Array:
    """A shape from its logarithm, clipped as in the kernels."""
    return exp(np.clip(score, -15.0, 15.0), n_threads)


def _check_counts(y: Array, loss: BuiltInLoss) -> None:
    least, most = smallest(y), largest(y)
    if least < 0.0 or most == 0.0 or anywhere(y != np.floor(y)):
        raise ValueError(
            f"y must contain counts (0, 1, 2, ...) for loss {type(loss).__name__}, and not only zeros; got values from "
            f"{least} to {most}."
        )
