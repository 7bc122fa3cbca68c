"""Losses: what boosting minimises.

A loss is a function of the label y and the raw score f of each row. Every method works on whole vectors. Any object
with the methods of `Loss` can be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

Array = NDArray[np.float64]


class Loss(Protocol):
    """What the algorithms need to know of a loss."""

    @property
    def smoothness(self) -> float:
        """The paper's sigma: the largest second derivative. Theorem 4.1 admits steps up to 1 / sigma.

        Infinite where there is no bound: the theorem does not cover such a loss.
        """

    @property
    def constant_hessian(self) -> bool:
        """Whether the second derivative is 1 everywhere, so that gradient and Newton steps are the same."""

    def check(self, y: Array) -> None:
        """Raise a ValueError that says which labels are allowed, if some of y are not."""

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo residual of each row, -dl/df."""

    def hessian(self, y: Array, f: Array) -> Array:
        """The second derivative at each row, or the curvature of a parabola above the loss where it has a kink."""

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The constant score with the smallest total loss."""

    def link(self, prediction: Array) -> Array:
        """The raw score for a prediction."""

    def inverse_link(self, f: Array) -> Array:
        """The prediction for a raw score: the expected label, or for losses with kinks the quantile."""


# Keeps Newton steps r / hessian finite where a row has almost no curvature, and means off the ends of their range.
_TINY = 1e-12

# exp() of a larger score is no number; training that gets there has diverged, and is noticed by its loss.
_LARGEST_EXPONENT = 700.0


def _exp(f: Array) -> Array:
    return np.asarray(np.exp(np.minimum(f, _LARGEST_EXPONENT)))


class _Named:
    """Losses print as they were made."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class _Identity(_Named):
    """Losses whose score is the prediction itself."""

    def check(self, y: Array) -> None:
        """Every number is allowed."""

    def link(self, prediction: Array) -> Array:
        """The prediction."""
        return prediction

    def inverse_link(self, f: Array) -> Array:
        """The score."""
        return f


class HalfSquaredError(_Identity):
    """l(y, f) = (y - f)^2 / 2."""

    smoothness = 1.0
    constant_hessian = True

    def value(self, y: Array, f: Array) -> Array:
        """Half the squared difference."""
        return 0.5 * (y - f) ** 2

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The difference y - f."""
        return y - f

    def hessian(self, y: Array, f: Array) -> Array:
        """One everywhere."""
        return np.ones_like(f)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The mean."""
        return float(np.average(y, weights=weight))


class Quantile(_Identity):
    """l(y, f) = q (y - f) above f and (1 - q) (f - y) below: the score estimates the q-quantile of y.

    The loss has no second derivative. Newton steps use the curvature 1 / (2 |y - f|) of the parabola that touches the
    loss at f and lies above it (Hunter and Lange, "Quantile regression via an MM algorithm", 2000), which makes them
    independent of the scale of y. Gradient steps (second_order=False) move by at most the learning rate, in units of y.
    """

    smoothness = math.inf
    constant_hessian = False

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(f"quantile={quantile!r} must be between 0 and 1.")
        self.quantile = quantile

    def value(self, y: Array, f: Array) -> Array:
        """The pinball loss."""
        return np.maximum(self.quantile * (y - f), (self.quantile - 1.0) * (y - f))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The quantile q above the score, q - 1 below, and between them at it."""
        return self.quantile - 0.5 + 0.5 * np.sign(y - f)

    def hessian(self, y: Array, f: Array) -> Array:
        """One over twice the distance, or over twice the mean distance where that is larger.

        Without the mean, the few rows that are fitted best would hold all others back.
        """
        distance = np.abs(y - f)
        mean = float(distance.mean())
        return np.asarray(0.5 / np.maximum(distance, mean if mean > 0.0 else 1.0))

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The weighted quantile."""
        order = np.argsort(y, kind="stable")
        total = np.cumsum(np.ones(len(y)) if weight is None else weight[order])
        return float(y[order[np.searchsorted(total, self.quantile * total[-1])]])


class AbsoluteError(Quantile):
    """l(y, f) = |y - f|, twice the loss of the median."""

    quantile = 0.5

    def __init__(self) -> None:
        """No parameter."""

    def value(self, y: Array, f: Array) -> Array:
        """The distance."""
        return np.abs(y - f)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The sign of y - f."""
        return np.sign(y - f)

    def hessian(self, y: Array, f: Array) -> Array:
        """One over the distance, bounded as for quantiles."""
        return 2.0 * super().hessian(y, f)


class Huber(_Identity):
    """l(y, f) = (y - f)^2 / 2 up to a distance of delta, and a straight line beyond. delta is in the units of y.

    Newton steps use the curvature of the parabola that touches the loss and lies above it.
    """

    smoothness = 1.0
    constant_hessian = False

    def __init__(self, delta: float) -> None:
        if not delta > 0.0:
            raise ValueError(f"delta={delta!r} must be positive.")
        self.delta = delta

    def value(self, y: Array, f: Array) -> Array:
        """Square near the label, line far from it."""
        distance = np.abs(y - f)
        near = np.minimum(distance, self.delta)
        return np.asarray(near * (distance - 0.5 * near))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The difference y - f, cut at delta."""
        return np.clip(y - f, -self.delta, self.delta)

    def hessian(self, y: Array, f: Array) -> Array:
        """One near the label, delta / distance far from it."""
        return np.asarray(self.delta / np.maximum(np.abs(y - f), self.delta))

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Where the slope crosses zero."""

        def slope(f: float) -> float:
            return float(np.average(self.negative_gradient(y, np.full(len(y), f)), weights=weight))

        low, high = float(y.min()), float(y.max())
        return low if low == high else float(brentq(slope, low, high))


class Tweedie(_Named):
    """Half the deviance of a Tweedie distribution with power p between 1 and 2, log link: amounts with many zeros.

    l(y, f) = exp((2 - p) f) / (2 - p) - y exp((1 - p) f) / (1 - p), up to a constant.
    """

    smoothness = math.inf
    constant_hessian = False

    def __init__(self, power: float = 1.5) -> None:
        if not 1.0 < power < 2.0:
            raise ValueError(f"power={power!r} must be between 1 and 2; use Poisson for 1 and Gamma for 2.")
        self.power = power

    def check(self, y: Array) -> None:
        """No label is negative, and not all are zero."""
        if y.min() < 0.0 or not y.any():
            raise ValueError(
                f"y must have no negative value and a positive one for loss {type(self).__name__}, got values from "
                f"{y.min()} to {y.max()}."
            )

    def value(self, y: Array, f: Array) -> Array:
        """Half the deviance."""
        p = self.power
        return np.asarray(_exp((2.0 - p) * f) / (2.0 - p) - y * _exp((1.0 - p) * f) / (1.0 - p))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """Its negative derivative."""
        return np.asarray(y * _exp((1.0 - self.power) * f) - _exp((2.0 - self.power) * f))

    def hessian(self, y: Array, f: Array) -> Array:
        """Its second derivative."""
        p = self.power
        return np.maximum((2.0 - p) * _exp((2.0 - p) * f) - (1.0 - p) * y * _exp((1.0 - p) * f), _TINY)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The logarithm of the mean."""
        return float(np.log(max(float(np.average(y, weights=weight)), _TINY)))

    def link(self, prediction: Array) -> Array:
        """The logarithm."""
        return np.asarray(np.log(np.maximum(prediction, _TINY)))

    def inverse_link(self, f: Array) -> Array:
        """The expected label."""
        return _exp(f)


class Poisson(Tweedie):
    """l(y, f) = exp(f) - y f: counts, log link."""

    power = 1.0

    def __init__(self) -> None:
        """No parameter."""

    def value(self, y: Array, f: Array) -> Array:
        """Half the deviance, up to a constant."""
        return np.asarray(_exp(f) - y * f)


class Gamma(Tweedie):
    """l(y, f) = f + y exp(-f): positive amounts, log link."""

    power = 2.0

    def __init__(self) -> None:
        """No parameter."""

    def check(self, y: Array) -> None:
        """All labels are positive."""
        if y.min() <= 0.0:
            raise ValueError(f"y must be positive for loss Gamma, got values from {y.min()} to {y.max()}.")

    def value(self, y: Array, f: Array) -> Array:
        """Half the deviance, up to a constant."""
        return np.asarray(f + y * _exp(-f))


class _Binary(_Named):
    """Losses of labels 0 and 1."""

    def check(self, y: Array) -> None:
        """Labels are encoded: nothing to check."""


class LogLoss(_Binary):
    """l(y, f) = log(1 + exp(f)) - y f, with y in {0, 1} and f the log-odds: the paper's logistic loss."""

    smoothness = 0.25
    constant_hessian = False

    def value(self, y: Array, f: Array) -> Array:
        """Cross entropy, written with exp(-|f|), which does not overflow."""
        return np.asarray(np.maximum(f, 0.0) - y * f + np.log1p(np.exp(-np.abs(f))))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The difference y - P(y = 1)."""
        return np.asarray(y - 1.0 / (1.0 + _exp(-f)))

    def hessian(self, y: Array, f: Array) -> Array:
        """The variance P (1 - P), written so that it does not cancel."""
        e = np.exp(-np.abs(f))
        return np.asarray(np.maximum(e / (1.0 + e) ** 2, _TINY))

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The log-odds of the mean; kept finite where all labels are equal."""
        return float(self.link(np.asarray(np.average(y, weights=weight))))

    def link(self, prediction: Array) -> Array:
        """The log-odds."""
        return np.asarray(logit(np.clip(prediction, _TINY, 1.0 - _TINY)))

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return np.asarray(expit(f))


class Exponential(_Binary):
    """l(y, f) = exp(-f) for label 1 and exp(f) for label 0, the loss of AdaBoost; f is half the log-odds."""

    smoothness = math.inf
    constant_hessian = False

    def value(self, y: Array, f: Array) -> Array:
        """The exponential of the margin."""
        return np.asarray(y * _exp(-f) + (1.0 - y) * _exp(f))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """Its negative derivative."""
        return np.asarray(y * _exp(-f) - (1.0 - y) * _exp(f))

    def hessian(self, y: Array, f: Array) -> Array:
        """Its second derivative, which is the loss itself."""
        return np.maximum(self.value(y, f), _TINY)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Half the log-odds of the mean."""
        return float(self.link(np.asarray(np.average(y, weights=weight))))

    def link(self, prediction: Array) -> Array:
        """Half the log-odds."""
        return 0.5 * LogLoss().link(prediction)

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return np.asarray(expit(2.0 * f))


REGRESSION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": HalfSquaredError,
    "squared_error": HalfSquaredError,
    "absolute_error": AbsoluteError,
    "poisson": Poisson,
    "gamma": Gamma,
}
"""Losses by name. Those with parameters are given as objects."""

CLASSIFICATION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": LogLoss,
    "log_loss": LogLoss,
    "exponential": Exponential,
}

LOSS_METHODS = ["check", "value", "negative_gradient", "hessian", "best_constant", "link", "inverse_link"]
