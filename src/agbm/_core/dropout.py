"""Dropout of learners (DART: Rashmi and Gilad-Bachrach, 2015), extended to momentum.

Before an iteration, each earlier iteration is dropped with the given probability. If k of them are dropped, the weights
of their learners in f and h are multiplied by k / (k + 1); the residual is taken at g without these learners; and the
updates of the iteration, eta b in f and alpha b in h, are multiplied by 1 / (k + 1). Together, the new learner and the
dropped ones, which have fitted the same part of the residual, have the weight that the dropped ones had before. The
error in the corrected residual is not scaled: it measures how well learners fit, not their weights. No weight becomes
negative.
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from .boosting import Drop
from .ensemble import Ensemble
from .learners import Fitter, V
from .objective import Objective

_STREAM = 1  # separates these random numbers from those of the learners, which have the same seed


class Dropout(Generic[V]):
    """Draws the learners to drop, and removes them from f and h."""

    def __init__(self, rate: float, seed: int, objective: Objective[V], ensemble: Ensemble, fitter: Fitter[V]) -> None:
        self._rate = rate
        self._seed = seed
        self._objective = objective
        self._ensemble = ensemble
        self._fitter = fitter

    def __call__(self, f: V, h: V) -> Drop[V]:
        """Dropout for the next iteration. h is f itself at the beginning of a run."""
        n_iterations = len(self._ensemble)
        draws = np.random.default_rng([self._seed, n_iterations, _STREAM]).random(n_iterations)
        return self.leave_out(tuple(np.flatnonzero(draws < self._rate).tolist()), f, h)

    def leave_out(self, iterations: tuple[int, ...], f: V, h: V) -> Drop[V]:
        """Drop the given earlier iterations from f and h."""
        if not iterations:
            return Drop(f, h)
        a, d = self._ensemble.coefficients()
        if h is f:
            d = a
        mix = self._objective.mix
        dropped_f = dropped_h = mix(0, f, 0, h)
        for function in self._ensemble.functions_of(iterations):
            model, number = self._ensemble.function(function)
            values = self._fitter.values(model)[number]
            dropped_f = mix(1, dropped_f, a[function], values)
            dropped_h = mix(1, dropped_h, d[function], values)
        share = 1.0 / (len(iterations) + 1.0)
        return Drop(mix(1, f, -share, dropped_f), mix(1, h, -share, dropped_h), dropped_f, dropped_h, share, iterations)
