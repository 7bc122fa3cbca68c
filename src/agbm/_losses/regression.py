"""Losses of regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from .._base import _native
from .._base.collectives import anywhere, largest, smallest
from .._base.sums import Array, ExactSum, exact_mean, exact_means
from .base import Argument, BuiltInLoss, Task, Traits, check_amounts, check_positive, checked
from .constants import log_factor, quantile_of, quantiles_of, weight_in_steps, zero_crossing
from .elementary import exp, log


class _Identity(BuiltInLoss, family=True):
    """Losses whose score is the prediction itself."""

    tasks: ClassVar[tuple[Task, ...]] = ("regression",)

    def check(self, y: Array) -> None:
        """All numbers are allowed."""

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Any:
        """The loss depends on y - f alone, so offsets are taken from the labels."""
        return self.best_constant(y - offset, weight)

    def link(self, prediction: Array) -> Array:
        """The prediction."""
        return prediction

    def inverse_link(self, f: Array) -> Array:
        """The score."""
        return f


class HalfSquaredError(_Identity):
    """l(y, f) = (y - f)^2 / 2."""

    names: ClassVar[tuple[str, ...]] = ("squared_error",)
    _kernel = "squared_error"
    smoothness = 1.0
    constant_hessian = True

    @property
    def traits(self) -> Traits:
        """What other parts of the library ask of the loss."""
        return Traits(trees="larger", shown_as="RMSE")

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The mean."""
        return exact_mean(y, weight)


class Quantile(_Identity):
    """l(y, f) = q (y - f) above f and (1 - q) (f - y) below: the score estimates the q-quantile of y.

    The loss has no second derivative. Trees are grown with the curvature 1 / (2 |y - f|) of the parabola that touches
    the loss at f and lies above it (Hunter and Lange, "Quantile regression via an MM algorithm", 2000), and so do not
    depend on the unit of y. Distances below the median distance are replaced by it; otherwise, the few rows with the
    best fit would dominate all others. The median ignores distances of zero, since more than half of the labels may be
    equal. The value of a leaf is then the q-quantile of y - f over its rows, which is their best constant; steps from
    the curvature alone would be far too short if q is near 0 or 1. Gradient steps (second_order=False) change scores by
    at most the learning rate, in the unit of y.

    With a list of quantiles, a row has one score for each, f as (K, n), and the losses add up. Predictions are sorted,
    so that quantiles do not cross; this never increases the loss (Chernozhukov, Fernandez-Val, Galichon, "Quantile and
    probability curves without crossing", 2010).
    """

    names: ClassVar[tuple[str, ...]] = ("quantile:0.9", "quantile:0.05,0.5,0.95")
    argument: ClassVar[Argument] = "numbers"
    _kernel = "quantile"
    _distance_unit = 2.0  # the loss of the median is half the distance
    smoothness = math.inf
    constant_hessian = False

    def __init__(self, quantile: float | Sequence[float] = 0.5) -> None:
        several = isinstance(quantile, Sequence | np.ndarray)
        self.quantile: Any = _checked_levels(quantile) if several else checked("quantile", quantile, 0.0, 1.0)  # type: ignore[arg-type]
        """A number, or a tuple of numbers in ascending order."""

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles, one per score."""
        return self.quantile if isinstance(self.quantile, tuple) else (self.quantile,)

    @property
    def traits(self) -> Traits:
        """The predictions of a list are sorted and increase with their scores; a list has intervals."""
        one = Traits(
            quantiles=self.levels, intervals="distance" if self.levels == (0.5,) else "none",
            lightgbm=f"quantile alpha:{self.quantile!r}",
        )  # fmt: skip
        if not self.several:
            return one
        n = len(self.levels)
        return replace(one, prediction="sorted", n_scores=n, score_signs=(1,) * n, intervals="quantiles")

    @property
    def several(self) -> bool:
        """Whether there is a list of quantiles, with labels (row) and scores (quantile, row)."""
        return isinstance(self.quantile, tuple)

    @property
    def _parameter(self) -> float:
        return self.levels[0]

    @property
    def row_kernel(self) -> tuple[str, float] | None:
        """Name and parameter of the kernels of one quantile; None for a list, whose quantiles have one kernel each."""
        return None if self.several else super().row_kernel

    @property
    def each(self) -> list[Quantile]:
        """The losses of the quantiles of a list."""
        return [Quantile(level).with_threads(self.n_threads) for level in self.levels]

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        if not self.several:
            return super().value(y, f)
        total = np.zeros(f.shape[1:])
        for loss, scores in zip(self.each, f, strict=True):
            total += loss.value(y, scores)
        return total

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        if not self.several:
            return super().exact_total(y, f, weight)
        of_levels = [loss.exact_total(y, scores, weight) for loss, scores in zip(self.each, f, strict=True)]
        return sum(of_levels, start=ExactSum())

    def negative_gradient(self, y: Array, f: Array) -> Array:
        if not self.several:
            return super().negative_gradient(y, f)
        return np.stack([loss.negative_gradient(y, scores) for loss, scores in zip(self.each, f, strict=True)])

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """1 / (2 distance), with distances below the median distance replaced by it."""
        if self.several:
            return np.stack([loss.hessian(y, scores, weight) for loss, scores in zip(self.each, f, strict=True)])
        if np.ndim(y) == np.ndim(f) == 2:
            return np.stack([self.hessian(labels, scores, weight) for labels, scores in zip(y, f, strict=True)])
        distance, steps = self.distance(y, f), weight_in_steps(weight)
        apart = distance > 0.0
        middle = quantile_of(distance[apart], 0.5, None if steps is None else steps[apart]) if anywhere(apart) else 0.0
        return self.hessian_beyond(middle, y, f)

    def distance(self, y: Array, f: Array) -> Array:
        """The distance from the label to the score of each row."""
        return np.asarray(self._fill(_native.loss_value, y, f, 0.5) * self._distance_unit)

    def hessian_beyond(self, middle: float, y: Array, f: Array) -> Array:
        """The hessian for a given median of the nonzero distances, which is 0 if all distances are zero."""
        return self._fill(_native.loss_hessian, y, f, middle if middle > 0.0 else 1.0)

    def best_constant(self, y: Array, weight: Array | None) -> float | Array:
        """The weighted quantile, or those of a list."""
        steps = weight_in_steps(weight)
        found = quantiles_of(y, self.levels, steps)
        return np.array(found) if self.several else found[0]

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Any:
        """The quantiles of y - offset, with one offset per quantile of a list."""
        if not self.several:
            return super().best_constant_with(y, weight, offset)
        of_levels = zip(self.each, offset, strict=True)
        return np.array([one.best_constant(y - of_level, weight) for one, of_level in of_levels])

    def inverse_link(self, f: Array) -> Array:
        """The score; the scores of a list of quantiles in ascending order."""
        return np.sort(f, axis=0) if self.several else f


def _checked_levels(given: Any) -> tuple[float, ...]:
    """A list of quantiles in ascending order."""
    try:
        levels = tuple(checked("quantile", float(level), 0.0, 1.0) for level in given)
    except (TypeError, ValueError):
        raise ValueError(f"quantile={given!r} must be a number between 0 and 1, or a list of such numbers.") from None
    if not levels or any(low >= high for low, high in pairwise(levels)):
        raise ValueError(f"quantile={given!r} must have at least one number, in ascending order and all different.")
    return levels


class AbsoluteError(Quantile):
    """l(y, f) = |y - f|, twice the loss of the median."""

    names: ClassVar[tuple[str, ...]] = ("absolute_error",)
    argument: ClassVar[Argument] = "none"
    _kernel = "absolute_error"
    _distance_unit = 1.0
    quantile = 0.5

    @property
    def traits(self) -> Traits:
        """Those of the median."""
        return replace(super().traits, shown_as="MAE", lightgbm="regression_l1")

    def __init__(self) -> None:
        """No parameter."""


class _Convex(_Identity, family=True):
    """Losses without a formula for the best constant."""

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The score at which the slope crosses zero."""

        def falls(f: float) -> bool:
            return exact_means(lambda: [self.negative_gradient(y, np.full(len(y), f))], weight)[0] > 0.0

        return zero_crossing(falls, smallest(y), largest(y))


class Huber(_Convex):
    """l(y, f) = (y - f)^2 / 2 up to a distance of delta, and linear beyond. delta is in the unit of y.

    Newton steps use the curvature of the parabola that touches the loss and lies above it: 1 near the label, delta /
    distance far from it.
    """

    names: ClassVar[tuple[str, ...]] = ("huber:1.5",)
    argument: ClassVar[Argument] = "number"
    _kernel = "huber"
    smoothness = 1.0
    constant_hessian = False

    def __init__(self, delta: float) -> None:
        self.delta = checked("delta", delta, 0.0, math.inf, "; use the squared error in place of an infinite one")

    @property
    def traits(self) -> Traits:
        """What other parts of the library ask of the loss."""
        return Traits(lightgbm="huber")

    @property
    def _parameter(self) -> float:
        return float(self.delta)


class Expectile(_Convex):
    """l(y, f) = tau (y - f)^2 above f and (1 - tau) (f - y)^2 below: the score estimates the tau-expectile of y.

    Expectiles are to the mean what quantiles are to the median (Newey and Powell, "Asymmetric least squares estimation
    and testing", 1987). With tau = 0.5, the loss is the squared error.
    """

    names: ClassVar[tuple[str, ...]] = ("expectile:0.8",)
    argument: ClassVar[Argument] = "number"
    _kernel = "expectile"

    def __init__(self, tau: float) -> None:
        self.tau = checked("tau", tau, 0.0, 1.0)

    @property
    def traits(self) -> Traits:
        """Intervals around the mean only."""
        return Traits(intervals="distance" if self.tau == 0.5 else "none")

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """Twice the larger one of tau and 1 - tau."""
        return 2.0 * max(self.tau, 1.0 - self.tau)

    @property
    def _parameter(self) -> float:
        return self.tau


class LogCosh(_Convex):
    """l(y, f) = scale^2 log(cosh((y - f) / scale)): squared near the label, linear far from it, smooth everywhere.

    scale is in the unit of y. Newton steps use the curvature of the parabola that touches the loss and lies above it,
    tanh(d) / d with d = (y - f) / scale.
    """

    names: ClassVar[tuple[str, ...]] = ("log_cosh", "log_cosh:2.0")
    argument: ClassVar[Argument] = "number"
    _kernel = "log_cosh"
    smoothness = 1.0

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = checked("scale", scale, 0.0, math.inf, "; use the squared error in place of an infinite one")

    @property
    def _parameter(self) -> float:
        return self.scale


class Tweedie(BuiltInLoss):
    """Half the deviance of a Tweedie distribution with power p between 1 and 2, log link; for amounts with many zeros.

    l(y, f) = exp((2 - p) f) / (2 - p) - y exp((1 - p) f) / (1 - p), up to a constant. The hessian is the second
    derivative, or half the residual if that is larger: the Newton step of a row changes a prediction by a factor of at
    most e^2. The same holds for Poisson and Gamma.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("regression",)
    names: ClassVar[tuple[str, ...]] = ("tweedie:1.5",)
    argument: ClassVar[Argument] = "number"
    _kernel = "tweedie"
    smoothness = math.inf
    constant_hessian = False

    def __init__(self, power: float = 1.5) -> None:
        self.power = checked("power", power, 1.0, 2.0, "; use Poisson for 1 and Gamma for 2")

    @property
    def traits(self) -> Traits:
        """Labels are not negative, and their variance grows with a power of their mean."""
        return Traits(
            prediction="exp", label_range=(0.0, math.inf), variance_power=self.power,
            lightgbm=f"tweedie tweedie_variance_power:{self.power!r}",
        )  # fmt: skip

    @property
    def _parameter(self) -> float:
        return float(self.power)

    def check(self, y: Array) -> None:
        """Labels must not be negative, and not all zero."""
        check_amounts(y, self)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The logarithm of the mean."""
        return float(log(exact_mean(y, weight)))

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Any:
        """The logarithm of the best common factor of exp(offset)."""
        return log_factor(self.power, y, weight, offset)

    def link(self, prediction: Array) -> Array:
        """The logarithm; it is not finite for predictions that are not positive."""
        return log(prediction, self.n_threads)

    def inverse_link(self, f: Array) -> Array:
        """The expected label."""
        return exp(f, self.n_threads)


class Poisson(Tweedie):
    """l(y, f) = exp(f) - y f, log link; for counts."""

    names: ClassVar[tuple[str, ...]] = ("poisson",)
    argument: ClassVar[Argument] = "none"
    _kernel = "poisson"
    power = 1.0

    @property
    def traits(self) -> Traits:
        """Those of power 1; counts have a Poisson distribution."""
        return replace(super().traits, lightgbm="poisson", is_distribution=True)

    def frozen(self, f: Array) -> Any:
        """Poisson distributions with the predicted means."""
        from scipy.stats import poisson

        return poisson(self.inverse_link(f[0]))

    def __init__(self) -> None:
        """No parameter."""


class Gamma(Tweedie):
    """l(y, f) = f + y exp(-f), log link; for positive amounts."""

    names: ClassVar[tuple[str, ...]] = ("gamma",)
    argument: ClassVar[Argument] = "none"
    _kernel = "gamma"
    power = 2.0

    @property
    def traits(self) -> Traits:
        """Those of power 2."""
        return replace(super().traits, lightgbm="gamma")

    def __init__(self) -> None:
        """No parameter."""

    def check(self, y: Array) -> None:
        """Labels must be positive."""
        check_positive(y, self)
