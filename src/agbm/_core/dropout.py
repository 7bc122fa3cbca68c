"""Dropout of learners (DART: Rashmi and Gilad-Bachrach, 2015), defined for sequences with momentum as well.

Before an iteration, each earlier iteration is dropped with the given probability. With k of them dropped, their
learners keep the share k / (k + 1) of their weight, in f and in h; the residual is taken at g without them; and what
the iteration adds, eta b in f and alpha b in h, is added times 1 / (k + 1). So the new learner and the dropped ones,
which have learned the same, together weigh what the dropped ones weighed. The corrected residual carries its error on
as without dropout: it is about how well learners fit, not about their weights. No weight becomes negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .boosting import Drop
from .ensemble import Ensemble
from .learners import Model
from .losses import Array
from .objective import Problem

_STREAM = 1  # keeps these random numbers apart from those of the learners, which have the same seed


class Dropout:
    """Draws the learners to drop. `values` gives the values of a model's functions on the rows of the problem."""

    def __init__(
        self, rate: float, seed: int, problem: Problem, ensemble: Ensemble, values: Callable[[Model], Sequence[Array]]
    ) -> None:
        self._problem = problem
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
        mix = self._problem.mix
        dropped_f = dropped_h = mix(0, f, 0, h)
        for function in self._ensemble.functions_of(iterations):
            model, number = self._ensemble.function(function)
            values = self._values(model)[number]
            dropped_f = mix(1, dropped_f, a[function], values)
            dropped_h = mix(1, dropped_h, d[function], values)
        share = 1.0 / (len(iterations) + 1.0)
        return Drop(mix(1, f, -share, dropped_f), mix(1, h, -share, dropped_h), dropped_f, dropped_h, share, iterations)
