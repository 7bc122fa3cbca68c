"""Quantities of the paper's analysis: the cosine angle, the admissible momentum, the bound, the restart length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import SupportsFloat


def cosine(squared_target: SupportsFloat, product: SupportsFloat, squared_fitted: SupportsFloat) -> float:
    """Cosine of the angle between a residual r and its fit b(X), computed from their inner products, exact or rounded.

    The paper's Theta is the smallest such cosine. If both are zero, the fit is exact and the cosine is 1.
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

    The paper's proof gives four times this value: theta_{M-1}^2 / (2 eta gamma) with theta_{M-1} = 2 / (M + 1). This
    function computes the stronger, printed form.
    """
    return distance_squared / (2.0 * eta * gamma * (iterations + 1) ** 2)


def restart_length(eta: float, gamma: float, strong_convexity: float) -> float:
    """Iterations between two restarts, option 1 of AGBMR: M = sqrt(2 / (eta gamma mu))."""
    product = eta * gamma * strong_convexity
    return math.sqrt(2.0 / product) if product > 0.0 else math.inf


@dataclass(frozen=True)
class ErrorTerm:
    """delta_m of the proof: the largest increase of the potential in iteration m, given Theta and gamma of the run."""

    theta: float
    """The minimal cosine angle."""
    gamma: float

    def __call__(self, alpha: float, squared_residual: float, previous_alpha: float, squared_error: float) -> float:
        """Compute it from ||r^m||^2 and ||c^{m-1} - b_{m-1,2}||^2 of the previous iteration (zero in the first)."""
        s = self.gamma / self.theta**2
        t = (1.0 - s) / 2.0
        carried = s * previous_alpha**2 / (2.0 * t) * squared_error
        return carried - (1.0 - s - t) * alpha**2 / (2.0 * s) * squared_residual


def potential(gap: float, alpha: float, theta: float, squared_distance: float) -> float:
    """V^{m+1} of the proof: alpha_m / theta_m (L(f^{m+1}) - L*) + ||f* - h-hat^{m+1}||^2 / 2."""
    return alpha / theta * gap + 0.5 * squared_distance
