"""Proposals since 2018 to accelerate or regularise boosting, with the same learners on the same rows.

A method is a generator of `State`s, one per iteration. Most are the library's own loops with other schedules. The
others are written here: the sequence of Biau, Cadre and Rouvière, Boulevard, gradient-regularised Newton steps, and the
hybrid of Schalk, Bischl and Rügamer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ...._base.sums import Array
from ...._core import boosting
from ...._core.boosting import Step
from ...._core.dropout import Dropout
from ...._core.ensemble import Ensemble
from ...._core.learners import Fit, Model, Newton, V
from ...._core.methods import METHODS, Method
from ...._core.objective import LocalObjective
from ...._tree.learner import TreeFitter
from ....methods import AGBM, VAGBM

DROPOUT = 0.1
"""The probability with which DART drops an earlier tree."""
SUBSAMPLE = 0.8
"""The share of the rows that a tree of Boulevard is fitted to."""
BOULEVARD_DROPOUT = 0.6
PATIENCE = 5
"""Iterations without improvement after which the hybrid switches to plain boosting."""
LIPSCHITZ_OF_LOG_LOSS = 1.0 / (6.0 * math.sqrt(3.0))
"""The Lipschitz constant of p (1 - p), the second derivative of the log loss."""


class State(NamedTuple):
    """The model after an iteration."""

    f: Any
    """The scores of all rows, or what else the test loss is computed from."""
    train_loss: float
    validation_loss: float
    trees: int
    """Number of trees grown so far."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The rows and the learner of a run."""

    objective: LocalObjective
    fitter: Callable[[float], TreeFitter]
    """Returns a new fitter for a share of the rows per tree."""
    iterations: int
    """Maximum number of iterations."""
    seed: int


@dataclass(frozen=True)
class Rival:
    """A method with its source."""

    title: str
    source: str
    states: Callable[[Trial, float], Iterator[State]]
    """Runs the method with a learning rate."""
    kinds: Sequence[str] = ("binary", "regression")
    """The kinds of tables that the method is for."""


def of_method(method: Method, trial: Trial, rate: float) -> Iterator[State]:
    """Run one of the library's methods."""
    return _states(method.steps(trial.objective, trial.fitter(1.0), learning_rate=rate, max_iter=trial.iterations))


def _states(steps: Iterator[Step[Array]], trees: int = 0) -> Iterator[State]:
    """The states of the steps, after `trees` earlier trees."""
    for step in steps:
        trees += 1 if step.momentum is None or step.momentum is step.primary else 2
        yield State(step.f, step.train_loss, step.validation_loss, trees)


class _Remembered:
    """A fitter that keeps the values of its trees, so that dropout does not evaluate them again."""

    def __init__(self, fitter: TreeFitter) -> None:
        self._fitter = fitter
        self._values: dict[int, Sequence[Array]] = {}
        self._models: list[Model] = []  # keeps the models alive, so that no other has the same id

    def skip(self) -> None:
        self._fitter.skip()

    def fit(self, r: Array, newton: Newton[Array] | None) -> Fit[Array]:
        return self._kept(self._fitter.fit(r, newton))

    def fit_pair(
        self, r: Array, c: Array, newton: Newton[Array] | None, *, second: bool
    ) -> tuple[Fit[Array], Fit[Array] | None]:
        first, other = self._fitter.fit_pair(r, c, newton, second=second)
        return self._kept(first), None if other is None else self._kept(other)

    def values(self, model: Model) -> Sequence[Array]:
        return self._values[id(model)]

    def _kept(self, fit: Fit[Array]) -> Fit[Array]:
        self._models.append(fit.model)
        self._values[id(fit.model)] = [fit.values]
        return fit


class _WithWeights(Ensemble):
    """An ensemble that keeps the weights of its learners, which dropout needs in every iteration, up to date."""

    def __init__(self) -> None:
        super().__init__()
        self._a = self._d = np.zeros(0)

    def append(self, step: Step[V]) -> None:
        super().append(step)
        update, added = self.updates[-1], np.zeros(len(self.functions) - len(self._a))
        a, d = np.append(self._a, added), np.append(self._d, added)
        if update.dropped:
            dropped = self.functions_of(update.dropped)
            a[dropped] *= 1.0 - 1.0 / (len(update.dropped) + 1.0)
            d[dropped] *= 1.0 - 1.0 / (len(update.dropped) + 1.0)
        a = (1 - update.theta) * a + update.theta * d
        a[update.primary] += update.eta
        if update.momentum is not None:
            d[update.momentum] += update.alpha
        self._a, self._d = a, d

    def coefficients(self, iteration: int | None = None) -> tuple[Array, Array]:
        return (self._a, self._d) if iteration is None else super().coefficients(iteration)


def with_dropout(method: Method, trial: Trial, rate: float) -> Iterator[State]:
    """Run one of the library's methods with dropout."""
    objective, fitter, ensemble = trial.objective, _Remembered(trial.fitter(1.0)), _WithWeights()
    drop = Dropout(DROPOUT, trial.seed, objective, ensemble, fitter)

    def appended(steps: Iterator[Step[Array]]) -> Iterator[Step[Array]]:
        for step in steps:
            ensemble.append(step.without_vectors())
            yield step

    return _states(appended(method.steps(objective, fitter, learning_rate=rate, max_iter=trial.iterations, drop=drop)))


def dart(trial: Trial, rate: float) -> Iterator[State]:
    """DART with the weights of XGBoost and LightGBM, which are made for small learning rates.

    If k trees are dropped, their weights are multiplied by k / (k + rate), and the new tree has the weight
    rate / (k + rate). The library's dropout has 1 in place of the rate, and the new weight is multiplied by the rate.
    """
    objective, fitter = trial.objective, trial.fitter(1.0)
    f, weights = objective.start, np.zeros(trial.iterations)
    grown = np.empty((trial.iterations, objective.n_rows))
    for m in range(trial.iterations):
        dropped = np.flatnonzero(np.random.default_rng([trial.seed, m]).random(m) < DROPOUT)
        lost = np.add.reduce(weights[dropped, np.newaxis] * grown[dropped], axis=0, keepdims=True)
        grown[m] = fitter.fit(*objective.derivatives(objective.mix(1, f, -1, lost))).values[0]
        share = rate / (len(dropped) + rate) if len(dropped) else rate
        if len(dropped):
            f = objective.mix(1, f, -share, lost)
            weights[dropped] *= 1.0 - share
        weights[m] = share
        f = objective.mix(1, f, share, grown[[m]])
        losses, _ = objective.measure(f)
        yield State(f, *losses, m + 1)


class FistaSchedule:
    """The sequence of Biau, Cadre and Rouvière: theta_m = 1 / l_m, with l_0 = 1 and l_m = (1 + sqrt(1 + 4 l²)) / 2.

    With alpha_m = eta / theta_m, VAGBM is f <- g + eta b, g <- f + (l_m - 1) / l_{m+1} (f - previous f). The paper
    starts with l = 0, with which the first tree would be grown twice.
    """

    def __init__(self, eta: float) -> None:
        self._eta = eta
        self._lengths = [1.0]

    def eta(self, m: int) -> float:
        """The learning rate, for all m."""
        return self._eta

    def gamma(self, m: int) -> float:
        """1, for all m."""
        return 1.0

    def theta(self, m: int) -> float:
        while len(self._lengths) <= m:
            self._lengths.append((1.0 + math.sqrt(1.0 + 4.0 * self._lengths[-1] ** 2)) / 2.0)
        return 1.0 / self._lengths[m]

    def alpha(self, m: int) -> float:
        return self._eta / self.theta(m)

    def observe(self, *cosines: float) -> None:
        """Ignore the fits: they do not affect this schedule."""


def agb(trial: Trial, rate: float) -> Iterator[State]:
    """Accelerated gradient boosting of Biau, Cadre and Rouvière: VAGBM with another sequence."""
    schedule = FistaSchedule(rate)
    steps = boosting.vagbm(trial.objective, trial.fitter(1.0), schedule=schedule, max_iter=trial.iterations)
    return _states(steps)


def boulevard(dropout: float, trial: Trial, rate: float) -> Iterator[State]:
    """Boulevard: the model is a mean of trees, each fitted to what the mean of the earlier ones leaves.

    With u the mean of the first b - 1 trees times lambda, tree b is fitted to y - u on a random part of the rows. u
    converges to lambda / (1 + lambda) of the signal, so the prediction is u (1 + lambda) / lambda. With dropout
    probability p (BRAT-D), trees are left out of u in the residual, and the limit is lambda / (1 + lambda (1 - p)).
    """
    objective, fitter = trial.objective, trial.fitter(SUBSAMPLE)
    start, u = objective.start, np.zeros(objective.start.shape)
    scale = (1.0 + rate * (1.0 - dropout)) / rate
    grown = np.empty((trial.iterations, objective.n_train)) if dropout > 0.0 else np.empty((0, 0))
    for b in range(1, trial.iterations + 1):
        seen = objective.mix(1, start, 1, u)
        if dropout > 0.0 and b > 1:
            dropped = np.random.default_rng([trial.seed, b]).random(b - 1) < dropout
            lost = np.add.reduce(grown[: b - 1][dropped], axis=0)
            seen = seen[:, : objective.n_train] - rate / (b - 1) * lost
        values = fitter.fit(*objective.derivatives(seen)).values
        if dropout > 0.0:
            grown[b - 1] = values[0, : objective.n_train]
        u = objective.mix((b - 1) / b, u, rate / b, values)
        f = objective.mix(1, start, scale, u)
        losses, _ = objective.measure(f)
        yield State(f, *losses, b)


@dataclass(frozen=True, eq=False)
class GradientRegularised(LocalObjective):
    """An objective whose hessians are increased by sqrt(M ‖r‖), with ‖r‖ the root mean square of the residual."""

    lipschitz: float = LIPSCHITZ_OF_LOG_LOSS
    """M: the Lipschitz constant of the second derivative of the loss."""

    def derivatives(self, f: Array) -> tuple[Array, Newton[Array] | None]:
        r, newton = super().derivatives(f)
        if newton is None:
            raise ValueError("The hessian of the loss is constant, so there is nothing to regularise.")
        norm = math.sqrt(float(self.inner_sums(r, r)[0]) / self.n_train)
        return r, newton._replace(hessian=newton.hessian + math.sqrt(self.lipschitz * norm))


def regularised_newton(trial: Trial, rate: float) -> Iterator[State]:
    """Gradient-regularised Newton boosting of Zozoulenko, Falkowski, Cass and Gonon."""
    given = trial.objective
    objective = GradientRegularised(**{field.name: getattr(given, field.name) for field in fields(given)})
    return of_method(METHODS["gbm"], replace(trial, objective=objective), rate)


def hybrid(trial: Trial, rate: float) -> Iterator[State]:
    """Accelerated boosting until the validation loss stops improving, then plain boosting from the best model.

    Schalk, Bischl and Rügamer proposed it for componentwise boosting; the accelerated part is VAGBM here.
    """
    objective, fitter = trial.objective, trial.fitter(1.0)
    best = State(objective.start, math.nan, objective.validation_loss(objective.start), 0)
    steps = VAGBM().steps(objective, fitter, learning_rate=rate, max_iter=trial.iterations)
    waited, trees = 0, 0
    for state in _states(steps):
        yield state
        trees = state.trees
        best, waited = (state, 0) if state.validation_loss < best.validation_loss else (best, waited + 1)
        if waited == PATIENCE:
            break
    plain = METHODS["gbm"].steps(
        replace(objective, start=best.f), fitter, learning_rate=rate, max_iter=trial.iterations - trees
    )
    yield from _states(plain, trees)


def gpboost_states(
    given: dict[str, Any], rows: Sequence[tuple[Array, Array]], classifies: bool, rate: float
) -> Iterator[State]:
    """Run GPBoost with some parameters on training, validation and test rows; the `f` of a state is the test loss."""
    gpboost = import_module("gpboost")  # optional; see rivals.py
    objective = {"objective": "binary", "metric": "binary_logloss"}
    parameters = {
        **(objective if classifies else {"objective": "regression", "metric": "l2"}), "learning_rate": rate,
        "num_threads": 1, "verbose": -1, **given,
    }  # fmt: skip
    train = gpboost.Dataset(*rows[0], params=parameters)
    booster = gpboost.Booster(parameters, train)
    for name, (X, y) in zip(("validation", "test"), rows[1:], strict=True):
        booster.add_valid(gpboost.Dataset(X, y, reference=train, params=parameters), name)
    factor = 1.0 if classifies else 0.5  # GPBoost reports the squared error, the library half of it
    for trees in count(1):
        booster.update()
        ((_, _, train_loss, _),) = booster.eval_train()
        validation, test = (factor * found[2] for found in booster.eval_valid())
        yield State(test, factor * train_loss, validation, trees)


def _of(method: Method) -> Callable[[Trial, float], Iterator[State]]:
    return partial(of_method, method)


_LU = "Lu, Karimireddy, Ponomareva and Mirrokni (2020)"
PLAIN, DEFAULT = "plain", "fading"

RIVALS: dict[str, Rival] = {
    PLAIN: Rival("plain boosting", "Friedman (2001)", _of(METHODS["gbm"])),
    "dart": Rival("DART", "Rashmi and Gilad-Bachrach (2015)", dart),
    "dropout": Rival("plain, this library's dropout", "this library", partial(with_dropout, METHODS["gbm"])),
    DEFAULT: Rival("Fading", "this library's default", _of(METHODS["fading"])),
    "fading-dart": Rival("Fading, this library's dropout", "this library", partial(with_dropout, METHODS["fading"])),
    "vagbm": Rival("VAGBM, γ = 1", _LU, _of(VAGBM())),
    "vagbm-0.1": Rival("VAGBM, γ = 0.1", _LU, _of(VAGBM(momentum=0.1))),
    "agbm": Rival("AGBM", _LU, _of(AGBM())),
    "agbm-released": Rival("AGBM, sign of the released code", _LU, _of(AGBM(correction=-1.0))),
    "agbmr": Rival("AGBMR", _LU, _of(AGBM(restart="loss_rise"))),
    "agb": Rival("AGB", "Biau, Cadre and Rouvière (2018)", agb),
    "hybrid": Rival("VAGBM, then plain", "after Schalk, Bischl and Rügamer (2022), who begin with AGBM", hybrid),
    "newton": Rival(
        "gradient-regularised Newton", "Zozoulenko, Falkowski, Cass and Gonon (2026)", regularised_newton, ("binary",)
    ),
    "boulevard": Rival("Boulevard", "Zhou and Hooker (2022)", partial(boulevard, 0.0), ("regression",)),
    "boulevard-dropout": Rival(
        "Boulevard with dropout", "Fang, Tan and Hooker (2025)", partial(boulevard, BOULEVARD_DROPOUT), ("regression",)
    ),
}  # fmt: skip

GPBOOST_PLAIN = "gpboost"
GPBOOST: dict[str, tuple[str, dict[str, Any]]] = {
    GPBOOST_PLAIN: ("GPBoost, plain", {}),
    "gpboost-nesterov": ("GPBoost, use_nesterov_acc", {"use_nesterov_acc": True}),
}
"""Titles and parameters of the runs with GPBoost, whose other parameters have their default values."""
