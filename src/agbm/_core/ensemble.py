"""The ensemble: the fitted learners, and the coefficients with which the algorithm combined them.

An accelerated step rescales every earlier learner, so a model at an earlier iteration is a re-weighting of the first
learners and not a prefix of the last weights. The ensemble therefore keeps unscaled learners and the coefficients of
the steps; the weights a of f and d of h at any iteration follow from replaying the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from .._base.sums import Array
from .._base.types import Matrix
from .boosting import Step
from .learners import Fit, Model, Predict, V, WeightedSum, on_threads

Combine = Callable[[Sequence[Model], Sequence[Array]], Model]
"""Makes one model of the sum of all functions of models, each times its weight."""


class Update(NamedTuple):
    """The coefficients of one step; learners are identified by their index in Ensemble.functions."""

    theta: float
    eta: float
    primary: int
    alpha: float
    momentum: int | None
    restart: bool
    dropped: tuple[int, ...]
    """Earlier iterations whose learners were dropped. If there are k, their weights are multiplied by k / (k + 1)."""


class Ensemble:
    """Functions (one or more per fitted model) and the updates that combine them."""

    def __init__(
        self,
        models: Iterable[Model] = (),
        functions: Iterable[tuple[int, int]] = (),
        updates: Iterable[Update] = (),
    ) -> None:
        self.models = list(models)
        self.functions = list(functions)
        """Pairs of the index of a model and the index of one of its functions."""
        self.updates = list(updates)

    def __len__(self) -> int:
        return len(self.updates)

    @property
    def n_learners(self) -> int:
        """Number of trees, or other learners, with weight in f, without those of the last momentum update alone."""
        if not self.models:
            return 0
        return self._sizes_without_idle_momentum()[1] * self.models[0].n_learners  # all models have the same number

    def pairs(self) -> list[tuple[int, int | None]]:
        """For each iteration, the functions that were added to f and h."""
        return [(update.primary, update.momentum) for update in self.updates]

    def function(self, function: int) -> tuple[Model, int]:
        """The model of a function, and the index of the function in the model."""
        model, number = self.functions[function]
        return self.models[model], number

    def functions_of(self, iterations: Iterable[int]) -> list[int]:
        """The functions that were added to f or h in some iterations, each once."""
        updates = [self.updates[i] for i in iterations]
        found = [function for u in updates for function in (u.primary, u.momentum) if function is not None]
        return list(dict.fromkeys(found))

    def append(self, step: Step[V]) -> None:
        """Append one iteration of an algorithm."""
        if step.restart:
            self._drop_idle_momentum()
        primary = self._add(step.primary)
        if step.momentum is None:
            momentum = None
        else:
            momentum = primary if step.momentum is step.primary else self._add(step.momentum)
        self.updates.append(Update(step.theta, step.eta, primary, step.alpha, momentum, step.restart, step.dropped))

    def truncate(self, iteration: int) -> None:
        """Remove everything after an iteration, and its momentum learner if that has no weight."""
        del self.updates[iteration:]
        used = [i for u in self.updates for i in (u.primary, u.momentum) if i is not None]
        del self.functions[max(used, default=-1) + 1 :]
        del self.models[max((model for model, _ in self.functions), default=-1) + 1 :]
        self._drop_idle_momentum()

    def followed_by(self, other: Ensemble) -> Ensemble:
        """These iterations, then a restart, then those of another ensemble, which started from these."""
        n_models, n_functions, n_updates = len(self.models), len(self.functions), len(self.updates)
        later = [
            update._replace(
                primary=update.primary + n_functions,
                momentum=None if update.momentum is None else update.momentum + n_functions,
                restart=update.restart or i == 0,
                dropped=tuple(iteration + n_updates for iteration in update.dropped),
            )
            for i, update in enumerate(other.updates)
        ]
        functions = [(model + n_models, number) for model, number in other.functions]
        return Ensemble([*self.models, *other.models], [*self.functions, *functions], [*self.updates, *later])

    def scaled(self, scales: Sequence[float]) -> Ensemble:
        """The same learners, those of each iteration times a number, in f and h of this and of all later iterations."""
        updates = [
            update._replace(eta=update.eta * scale, alpha=update.alpha * scale)
            for update, scale in zip(self.updates, scales, strict=True)
        ]
        return Ensemble(self.models, self.functions, updates)

    def coefficients(self, iteration: int | None = None) -> tuple[Array, Array]:
        """Weights (a, d) of all functions in f and h after an iteration (the last by default)."""
        return deque(islice(self._weights(), None if iteration is None else iteration + 1), maxlen=1)[0]

    def model_weights(self) -> list[Array]:
        """For each model, the weights of its functions in f."""
        return self._by_model(self._last_weights())

    def _last_weights(self) -> Array:
        """Weights of all functions in f after the last step, equal to those of `coefficients` up to rounding.

        One backward pass: `of_f` and `of_h` are the weights of f and h of a step in the last f. `coefficients` takes
        time that is quadratic in the number of steps, too much for a model file from an untrusted source.
        """
        weights = np.zeros(len(self.functions))
        kept = np.ones(len(self.functions))
        of_f, of_h = 1.0, 0.0
        for update in reversed(self.updates):
            weights[update.primary] += of_f * update.eta * kept[update.primary]
            if update.momentum is not None:
                weights[update.momentum] += of_h * update.alpha * kept[update.momentum]
            of_f, of_h = of_f * (1 - update.theta), of_h + of_f * update.theta
            if update.dropped:
                kept[self.functions_of(update.dropped)] *= 1.0 - 1.0 / (len(update.dropped) + 1.0)
            if update.restart:
                of_f, of_h = of_f + of_h, 0.0
        return weights

    def _by_model(self, a: Array) -> list[Array]:
        weights = [np.zeros(model.n_functions) for model in self.models]
        for (model, number), weight in zip(self.functions, a.tolist(), strict=True):
            weights[model][number] += weight
        return weights

    def folded_weights(self) -> list[Array]:
        """For each model, the weights of its functions in the last f, in the order of the steps."""
        return self._by_model(self.coefficients()[0])

    def staged(self, X: Matrix, start: Array, n_threads: int, predict: Predict = on_threads) -> Iterator[Array]:
        """f^1, f^2, ... (output, row) on the rows of X, from f^0 = start; each model is evaluated once.

        After dropout, each model is evaluated again whenever it was dropped.
        """
        evaluated, functions = -1, start  # keeps the values of one model at a time

        def values(function: int) -> Array:
            nonlocal evaluated, functions
            model, number = self.functions[function]
            if model != evaluated:
                evaluated, functions = model, predict(self.models[model], X, n_threads)
            return np.asarray(functions[number])

        return (f for f, _ in self.replay(values, start))

    def _weights(self) -> Iterator[tuple[Array, Array]]:
        """Weights of all functions in f and h: before the first step, and after each."""
        a = d = np.zeros(len(self.functions))
        yield a, d
        for update in self.updates:
            if update.restart:
                d = a
            if update.dropped:
                kept = np.ones(len(a))
                kept[self.functions_of(update.dropped)] -= 1.0 / (len(update.dropped) + 1.0)
                a, d = a * kept, d * kept
            a = (1 - update.theta) * a + update.theta * d if update.theta else a.copy()
            a[update.primary] += update.eta
            if update.momentum is not None:
                d = d.copy()
                d[update.momentum] += update.alpha
            yield a, d

    def replay(self, values: Callable[[int], Array], start: Array) -> Iterator[tuple[Array, Array]]:
        """Replay the steps on the values (output, row) of the functions, given by index: (f, h) after each."""
        f = h = start
        none = np.zeros(0)
        drops = any(update.dropped for update in self.updates)
        weights = self._weights() if drops else repeat((none, none))  # needed for dropout only
        for update, (a, d) in zip(self.updates, weights, strict=False):
            if update.restart:
                h, d = f, a
            for function in self.functions_of(update.dropped):
                lost = values(function) / (len(update.dropped) + 1.0)
                f, h = f - a[function] * lost, h - d[function] * lost
            with np.errstate(over="ignore", invalid="ignore"):  # the weights may come from a changed file
                f = (1 - update.theta) * f + update.theta * h + update.eta * values(update.primary)
                if update.momentum is not None:
                    h = h + update.alpha * values(update.momentum)
            yield f, h

    def _add(self, fit: Fit[V]) -> int:
        if not self.models or self.models[-1] is not fit.model:
            self.models.append(fit.model)
        self.functions.append((len(self.models) - 1, fit.function))
        return len(self.functions) - 1

    def _sizes_without_idle_momentum(self) -> tuple[int, int]:
        """Numbers of functions and models without the last momentum update, if its learner is a separate model."""
        n_functions, n_models = len(self.functions), len(self.models)
        last = self.updates[-1] if self.updates else None
        if last is None or last.momentum is None or last.momentum == last.primary:
            return n_functions, n_models
        alone = self.functions[-1][0] != self.functions[last.primary][0]
        return (n_functions - 1, n_models - 1) if alone else (n_functions, n_models)

    def _drop_idle_momentum(self) -> None:
        n_functions, n_models = self._sizes_without_idle_momentum()
        if n_functions < len(self.functions):
            del self.functions[n_functions:]
            del self.models[n_models:]
            self.updates[-1] = self.updates[-1]._replace(momentum=None, alpha=0.0)


def fold(ensembles: Sequence[Ensemble], combine: Combine, n_outputs: int) -> Model:
    """The mean of the ensembles at their last iteration as one model; `combine` makes one model of several."""
    models = [model for ensemble in ensembles for model in ensemble.models]
    if not models:
        return WeightedSum([], [], n_outputs)
    weights = [weight / len(ensembles) for ensemble in ensembles for weight in ensemble.folded_weights()]
    return combine(models, weights)
