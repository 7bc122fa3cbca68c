"""Momentum schedules: the coefficients of the accelerated algorithms in every iteration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from .theory import admissible_momentum

# A smaller gamma is replaced by 0. Its learners would have a negligible weight, while the corrected residual, which
# multiplies earlier errors by alpha_{m-1} / alpha_m, would grow without bound.
SMALLEST_MOMENTUM = 1e-6


class Schedule(Protocol):
    """The coefficients of accelerated iterations m = 0, 1, ..., counted from the last restart."""

    def eta(self, m: int) -> float:
        """Weight with which a learner enters f."""

    def gamma(self, m: int) -> float:
        """The momentum parameter, given the fits observed so far."""

    def theta(self, m: int) -> float:
        """Weight of h in g."""

    def alpha(self, m: int) -> float:
        """Weight with which a learner enters h; its weight in f tends to this value."""

    def observe(self, *cosines: float) -> None:
        """Record how well residuals were fitted."""


class PaperSchedule:
    """The paper's schedule: theta_m = 2 / (m + 2), alpha_m = gamma eta / theta_m, with gamma a number or "theory".

    "theory": the largest value that Theorem 4.1 admits for the smallest cosine observed so far. It decreases as worse
    fits are observed, so the ratio alpha_{m-1} / alpha_m of the corrected residual is no longer (m + 1) / (m + 2).
    If the learners fit only a small part of the residual, it falls to zero and boosting continues without momentum.
    """

    def __init__(self, eta: float, gamma: float | str) -> None:
        self._eta = eta
        self._fixed = None if isinstance(gamma, str) else float(gamma)
        self._smallest_cosine = 1.0

    def eta(self, m: int) -> float:
        """The learning rate, for all m."""
        return self._eta

    def gamma(self, m: int) -> float:
        """The given number for all m, or the largest admissible one for the fits observed so far."""
        if self._fixed is not None:
            return self._fixed
        admissible = admissible_momentum(self._smallest_cosine)
        return admissible if admissible >= SMALLEST_MOMENTUM else 0.0

    def theta(self, m: int) -> float:
        return 2 / (m + 2)

    def alpha(self, m: int) -> float:
        return self.gamma(m) * self._eta / self.theta(m)

    def observe(self, *cosines: float) -> None:
        self._smallest_cosine = min(self._smallest_cosine, *cosines)


@dataclass(frozen=True)
class FadingSchedule:
    """The schedule of `Fading`: learners enter f with a large weight, which decays to alpha_m.

    theta is constant, which bounds the memory: in every iteration, the excess of a learner's weight in f over its
    alpha_m is multiplied by 1 - theta. alpha_m grows linearly as in the paper, but from `rate` instead of nearly zero,
    and not beyond the weight at entry.
    """

    rate: float
    """alpha_0."""
    entry: float
    """Weight with which a learner enters the look-ahead point, unless the rate is larger."""
    fade: float
    """theta."""
    growth: float
    """Growth of alpha per iteration, as a fraction of `rate`."""
    look_ahead: float = 0.0
    """The look-ahead point is f + look_ahead * (f - h)."""

    def eta(self, m: int) -> float:
        """Weight in f: at the look-ahead point, its excess over alpha_m is 1 + look_ahead times as large."""
        alpha = self.alpha(m)
        return alpha + (self._largest - alpha) / (1 + self.look_ahead)

    def gamma(self, m: int) -> float:
        return self.alpha(m) * self.theta(m) / self.eta(m)

    def theta(self, m: int) -> float:
        return self.fade

    def alpha(self, m: int) -> float:
        return min(self.rate * (1 + self.growth * m), self._largest)

    def observe(self, *cosines: float) -> None:
        """Ignore the fits: they do not affect this schedule."""

    @cached_property
    def _largest(self) -> float:
        return max(self.entry, self.rate)
