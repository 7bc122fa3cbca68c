"""Dropout of learners (DART: Rashmi and Gilad-Bachrach, 2015), defined for sequences with momentum as well.

Before an iteration, each earlier iteration is dropped with the given probability. With k of them dropped, their
learners keep the share k / (k + 1) of their weight, in f and in h; the residual is taken at g without them; and what
the iteration adds, eta b in f and alpha b in h, is added times 1 / (k + 1). So the new learner and the dropped ones,
which have learned the same, together weigh what the dropped ones weighed. The corrected residual carries its error on
as without dropout: it is about how well learners fit, not about their weights. No weight becomes negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .boosting import Drop
from .ensemble import Ensemble
from .learners import Model
from .losses import Array

_STREAM = 1  # keeps these random numbers apart from those of the learners, which have the same seed


class Dropout:
    """Draws the learners to drop. `values` gives a model's values on the rows of the problem."""

    def __init__(self, rate: float, seed: int, ensemble: Ensemble, values: Callable[[Model], Array]) -> None:
        self._rate = rate
        self._seed = seed
        self._ensemble = ensemble
        self._values = values

    def __call__(self, f: Array, h: Array) -> Drop:
        """The next iteration's drop. h is f itself at the beginning of a run."""
        n_iterations = len(self._ensemble)
        lots = np.random.default_rng([self._seed, n_iterations, _STREAM]).random(n_iterations)
        return self.leave_out(tuple(np.flatnonzero(lots < self._rate).tolist()), f, h)

    def leave_out(self, iterations: tuple[int, ...], f: Array, h: Array) -> Drop:
        """F and h without the given earlier iterations."""
        if not iterations:
            return Drop(f, h)
        a, d = self._ensemble.coefficients()
        if h is f:
            d = a
        lost_f, lost_h = np.zeros_like(f), np.zeros_like(h)
        for function in self._ensemble.functions_of(iterations):
            model, number = self._ensemble.function(function)
            values = self._values(model)[number]
            lost_f += a[function] * values
            lost_h += d[function] * values
        share = 1.0 / (len(iterations) + 1.0)
        kept = 1.0 - share
        return Drop(f - share * lost_f, h - share * lost_h, kept * lost_f, kept * lost_h, share, iterations)
