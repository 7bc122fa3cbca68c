"""Losses: what boosting minimises.

A loss is a function of the label y and the raw score f of each row. Every method works on whole vectors.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

Array = NDArray[np.float64]


class Loss(Protocol):
    """What the algorithms need to know of a loss."""

    @property
    def smoothness(self) -> float:
        """The paper's sigma: the largest second derivative. Theorem 4.1 admits steps up to 1 / sigma."""

    @property
    def constant_hessian(self) -> bool:
        """Whether the second derivative is 1 everywhere, so that gradient and Newton steps are the same."""

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo residual of each row, -dl/df."""

    def hessian(self, y: Array, f: Array) -> Array:
        """The second derivative at each row."""

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The constant score with the smallest total loss."""


class HalfSquaredError:
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


class LogLoss:
    """l(y, f) = log(1 + exp(f)) - y f, with y in {0, 1} and f the log-odds: the paper's logistic loss."""

    smoothness = 0.25
    constant_hessian = False

    # A row that is certainly right has almost no curvature; this much keeps the Newton step r / hessian finite.
    _min_hessian = 1e-12

    def value(self, y: Array, f: Array) -> Array:
        """Cross entropy, written with exp(-|f|), which does not overflow."""
        return np.asarray(np.maximum(f, 0.0) - y * f + np.log1p(np.exp(-np.abs(f))))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The difference y - P(y = 1)."""
        with np.errstate(over="ignore"):  # exp(-f) = inf gives P = 0, which is right
            return np.asarray(y - 1.0 / (1.0 + np.exp(-f)))

    def hessian(self, y: Array, f: Array) -> Array:
        """The variance P (1 - P), written so that it does not cancel."""
        e = np.exp(-np.abs(f))
        return np.asarray(np.maximum(e / (1.0 + e) ** 2, self._min_hessian))

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The log-odds of the mean; kept finite where all labels are equal."""
        mean = float(np.average(y, weights=weight))
        bound = 1e-12
        return float(logit(min(max(mean, bound), 1.0 - bound)))
