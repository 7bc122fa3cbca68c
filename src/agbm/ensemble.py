"""The ensemble: learners as they were fitted, and how the algorithm combined them.

An accelerated step rescales every earlier learner, so a model at an earlier iteration is a re-weighting of the first
learners and not a prefix of the last weights. The ensemble therefore keeps unscaled learners and the coefficients of
the steps; the weights a of f and d of h at any iteration follow from replaying the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from .boosting import Step
from .learners import Fit, Learner, Model, WeightedSum
from .losses import Array


@dataclass(frozen=True, eq=False)
class Update:
    """The coefficients of one step; learners are named by their place among the ensemble's functions."""

    theta: float
    eta: float
    primary: int
    alpha: float
    momentum: int | None
    restart: bool


class Ensemble:
    """Functions (outputs of fitted models) and the updates that combine them."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.models: list[Model] = []
        self._functions: list[tuple[int, int]] = []  # (model, output)
        self._updates: list[Update] = []

    def __len__(self) -> int:
        return len(self._updates)

    @property
    def n_models(self) -> int:
        """Models that have weight in f: all but those that only the last momentum update uses."""
        return self._sizes_without_idle_momentum()[1]

    def pairs(self) -> list[tuple[int, int | None]]:
        """For each iteration, the functions that f and h gained."""
        return [(update.primary, update.momentum) for update in self._updates]

    def function(self, function: int) -> tuple[Model, int]:
        """The model and the output that a function is."""
        model, output = self._functions[function]
        return self.models[model], output

    def append(self, step: Step) -> None:
        """Take in one iteration of an algorithm."""
        if step.restart:
            self._drop_idle_momentum()
        primary = self._add(step.primary)
        if step.momentum is None:
            momentum = None
        else:
            momentum = primary if step.momentum is step.primary else self._add(step.momentum)
        self._updates.append(Update(step.theta, step.eta, primary, step.alpha, momentum, step.restart))

    def truncate(self, iteration: int) -> None:
        """Forget what came after an iteration, and the momentum learner that carries no weight in it."""
        del self._updates[iteration:]
        used = [i for u in self._updates for i in (u.primary, u.momentum) if i is not None]
        del self._functions[max(used, default=-1) + 1 :]
        del self.models[max((model for model, _ in self._functions), default=-1) + 1 :]
        self._drop_idle_momentum()

    def coefficients(self, iteration: int | None = None) -> tuple[Array, Array]:
        """Weights (a, d) of all functions in f and h after an iteration (the last by default)."""
        none = np.zeros(len(self._functions))

        def unit(function: int) -> Array:
            vector = np.zeros(len(self._functions))
            vector[function] = 1.0
            return vector

        last = deque(islice(self._replay(unit, none), iteration), maxlen=1)
        return last[0] if last else (none, none)

    def model_weights(self) -> list[Array]:
        """For each model, the weights of its outputs in f."""
        a, _ = self.coefficients()
        weights: list[list[float]] = [[] for _ in self.models]
        for (model, _), weight in zip(self._functions, a.tolist(), strict=True):
            weights[model].append(weight)  # outputs of a model are taken in with the first of them first
        return [np.array(w) for w in weights]

    def fold(self) -> Model:
        """The model of the last iteration as one model: weights folded into the learners."""
        return self._learner.combine(self.models, self.model_weights()) if self.models else WeightedSum([], [])

    def staged(self, X: Array, start: Array, n_threads: int) -> Iterator[Array]:
        """f^1, f^2, ... on the rows of X, from f^0 = start; each model is evaluated once."""
        evaluated, outputs = -1, start  # the outputs of one model are all that is kept

        def values(function: int) -> Array:
            nonlocal evaluated, outputs
            model, output = self._functions[function]
            if model != evaluated:
                evaluated, outputs = model, self.models[model].predict(X, n_threads)
            return outputs[:, output]

        return (f for f, _ in self._replay(values, start))

    def _replay(self, values: Callable[[int], Array], start: Array) -> Iterator[tuple[Array, Array]]:
        """The steps once more, on any vectors that stand for the functions: (f, h) after each."""
        f = h = start
        for update in self._updates:
            if update.restart:
                h = f
            f = (1 - update.theta) * f + update.theta * h + update.eta * values(update.primary)
            if update.momentum is not None:
                h = h + update.alpha * values(update.momentum)
            yield f, h

    def _add(self, fit: Fit) -> int:
        if not self.models or self.models[-1] is not fit.model:
            self.models.append(fit.model)
        self._functions.append((len(self.models) - 1, fit.output))
        return len(self._functions) - 1

    def _sizes_without_idle_momentum(self) -> tuple[int, int]:
        """(functions, models) left without the learner of the last momentum update, if it is a model of its own."""
        idle = bool(self._updates) and self._updates[-1].momentum not in (None, self._updates[-1].primary)
        alone = idle and self._functions[-1][0] != self._functions[self._updates[-1].primary][0]
        dropped = 1 if alone else 0
        return len(self._functions) - dropped, len(self.models) - dropped

    def _drop_idle_momentum(self) -> None:
        n_functions, n_models = self._sizes_without_idle_momentum()
        if n_functions < len(self._functions):
            del self._functions[n_functions:]
            del self.models[n_models:]
            self._updates[-1] = replace(self._updates[-1], momentum=None, alpha=0.0)
