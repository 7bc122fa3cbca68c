"""Quantities of the paper's analysis: the cosine angle, the admissible momentum, the bound, the restart length.

And the schedules of momentum: the paper's, and the one that the estimators use by default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from .sums import ExactSum


def cosine(squared_target: ExactSum, product: ExactSum, squared_fitted: ExactSum) -> float:
    """Cosine of the angle between a residual and its fit, cos(r, b(X)) of the paper's Theta, from inner products.

    A residual that is zero is fitted exactly: 1.
    """
    target_norm, fitted_norm = math.sqrt(float(squared_target)), math.sqrt(float(squared_fitted))
    if target_norm == 0.0 or fitted_norm == 0.0:
        return 1.0 if target_norm == fitted_norm else 0.0
    return min(1.0, max(-1.0, float(product) / target_norm / fitted_norm))


def admissible_momentum(theta: float) -> float:
    """Largest gamma that Theorem 4.1 admits for the minimal cosine angle Theta: Theta^4 / (4 + Theta^2)."""
    theta = max(theta, 0.0)
    return theta**4 / (4.0 + theta**2)


def rate_bound(distance_squared: float, eta: float, gamma: float, iterations: int) -> float:
    """Bound on L(f^M) - L(f*) as Theorem 4.1 prints it: ||f* - f^0||^2 / (2 eta gamma (M + 1)^2).

    The paper's own proof gives four times this: theta_{M-1}^2 / (2 eta gamma) with theta_{M-1} = 2 / (M + 1). (Its last
    line has M^2 in the place of the whole.) The printed, stronger form is the one computed here.
    """
    return distance_squared / (2.0 * eta * gamma * (iterations + 1) ** 2)


def restart_length(eta: float, gamma: float, strong_convexity: float) -> float:
    """Iterations between two restarts, option 1 of AGBMR: M = sqrt(2 / (eta gamma mu))."""
    product = eta * gamma * strong_convexity
    return math.sqrt(2.0 / product) if product > 0.0 else math.inf


# A smaller gamma is none: its learners would have no visible weight, while the corrected residual, which carries errors
# on times alpha_{m-1} / alpha_m, would grow without bound.
SMALLEST_MOMENTUM = 1e-6


class Schedule(Protocol):
    """The coefficients of accelerated iterations m = 0, 1, ..., counted from the last restart."""

    def eta(self, m: int) -> float:
        """Weight with which a learner enters f."""

    def gamma(self, m: int) -> float:
        """The momentum parameter, as far as fits have been observed."""

    def theta(self, m: int) -> float:
        """Share of h in g."""

    def alpha(self, m: int) -> float:
        """Weight with which a learner enters h, and which it comes to have in f."""

    def observe(self, *cosines: float) -> None:
        """Take note of how well residuals were fitted."""


class Momentum:
    """The paper's schedule: theta_m = 2 / (m + 2), alpha_m = gamma eta / theta_m, with gamma a number, or "theory".

    "theory": the largest value that Theorem 4.1 admits for the smallest cosine observed so far. It falls as worse
    fits are seen, so the ratio alpha_{m-1} / alpha_m of the corrected residual is no longer (m + 1) / (m + 2).
    Where residuals hold much that no learner can fit, it falls to zero and boosting goes on without momentum.
    """

    def __init__(self, eta: float, gamma: float | str) -> None:
        self._eta = eta
        self._fixed = None if isinstance(gamma, str) else float(gamma)
        self._smallest_cosine = 1.0

    def eta(self, m: int) -> float:
        """See Schedule. It does not change with m."""
        return self._eta

    def gamma(self, m: int) -> float:
        """See Schedule. A number does not change with m."""
        if self._fixed is not None:
            return self._fixed
        admissible = admissible_momentum(self._smallest_cosine)
        return admissible if admissible >= SMALLEST_MOMENTUM else 0.0

    def theta(self, m: int) -> float:
        """See Schedule."""
        return 2 / (m + 2)

    def alpha(self, m: int) -> float:
        """See Schedule."""
        return self.gamma(m) * self._eta / self.theta(m)

    def observe(self, *cosines: float) -> None:
        """See Schedule."""
        self._smallest_cosine = min(self._smallest_cosine, *cosines)


@dataclass(frozen=True)
class Fading:
    """Learners enter f with a large weight, and all of it but alpha_m fades away.

    theta is constant, which bounds the memory: what a learner has in f beyond its alpha_m shrinks to the share
    1 - theta in every iteration. alpha_m grows linearly as the paper's does, but from `rate` instead of nearly zero,
    and not beyond the weight at entry.
    """

    rate: float
    """alpha_0."""
    entry: float
    """Weight with which a learner enters the look-ahead point, where the rate is not larger."""
    fade: float
    """theta."""
    growth: float
    """Of alpha in an iteration, as a share of `rate`."""
    look_ahead: float = 0.0
    """The look-ahead point is this many times as far beyond f as f is beyond h."""

    def eta(self, m: int) -> float:
        """See Schedule. From f to the look-ahead point, what is beyond alpha_m becomes 1 + look_ahead times as much."""
        return self.alpha(m) + (self._largest - self.alpha(m)) / (1 + self.look_ahead)

    def gamma(self, m: int) -> float:
        """See Schedule."""
        return self.alpha(m) * self.theta(m) / self.eta(m)

    def theta(self, m: int) -> float:
        """See Schedule."""
        return self.fade

    def alpha(self, m: int) -> float:
        """See Schedule."""
        return min(self.rate * (1 + self.growth * m), self._largest)

    def observe(self, *cosines: float) -> None:
        """See Schedule. They change nothing."""

    @property
    def _largest(self) -> float:
        return max(self.entry, self.rate)


@dataclass(frozen=True)
class ErrorTerm:
    """delta_m of the proof: by how much the potential may rise in an iteration, with Theta and gamma of the run."""

    theta: float
    """The minimal cosine angle."""
    gamma: float

    def __call__(self, alpha: float, squared_residual: float, previous_alpha: float, squared_error: float) -> float:
        """From ||r^m||^2, and ||c^{m-1} - b_{m-1,2}||^2 of the iteration before (zero in the first)."""
        s = self.gamma / self.theta**2
        t = (1.0 - s) / 2.0
        carried = s * previous_alpha**2 / (2.0 * t) * squared_error
        return carried - (1.0 - s - t) * alpha**2 / (2.0 * s) * squared_residual


def potential(gap: float, alpha: float, theta: float, squared_distance: float) -> float:
    """V^{m+1} of the proof: alpha_m / theta_m (L(f^{m+1}) - L*) + ||f* - h-hat^{m+1}||^2 / 2."""
    return alpha / theta * gap + 0.5 * squared_distance
