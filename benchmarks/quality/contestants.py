"""The contestants of suite.py: default settings of agbm and of other libraries, under two protocols.

Under both, every contestant gets the same rows: training and validation rows of the split, four to one.

`early stopping`: the same patience and the same maximum number of iterations. Single models are trained on the training
rows and stop on the validation rows. Averages of five models hold out further rows for each model: the default of agbm
a tenth, by its own rule, those of other libraries ("five LightGBMs") one of five folds. Each of their models thus
trains on 90 and 80 % of the rows, and all five together have seen all of them. `agbm, one hold-out set` has five models
as well, but all of them are trained on the training rows of the single models. Everything else is the default of each
library, except that XGBoost's learning rate is 0.1 instead of 0.3.

`out of the box`: `fit(X, y)` on all of the rows with the defaults of the constructor.

Under both, the loss for counts, the number of threads and the seed are set, and categorical columns are passed as each
library expects them. Differences between libraries that remain:

* HistGradientBoosting accepts at most 255 categories per column. The 254 most frequent are kept; the others are merged.
* HistGradientBoosting would predict with all iterations after early stopping, the others with those up to the best
  one. Its later iterations are removed.
* The exposures of validation rows are not known to ChimeraBoost, whose validation rows have weight 1.
* CatBoost chooses its learning rate from the numbers of rows and iterations, but not for counts (0.03).
* `agbm, plain` is plain boosting with the trees of agbm's default: the same sizes, l2, column sampling and crosses.
* CatBoost and ChimeraBoost grow one tree per iteration for all classes, the others one per class.
* agbm averages scores before the link function, averages of other libraries predictions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from agbm._core.methods import Method
from agbm.methods import GBM
from benchmarks.libraries import (
    Array,
    CatBoost,
    ChimeraBoost,
    Effort,
    HistGradientBoosting,
    Library,
    LightGBM,
    Model,
    Ours,
    XGBoost,
)
from benchmarks.shared.measure import clocked
from benchmarks.shared.tables import Problem, loss, stratified_order

EARLY_STOPPING, OUT_OF_THE_BOX = "early stopping", "out of the box"
PROTOCOLS = (EARLY_STOPPING, OUT_OF_THE_BOX)
FOLDS = 5
RATES = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)


def crossing(kind: type[Method]) -> Any:
    """A method that looks for crosses, as the default does, so that nothing but the algorithm differs."""
    return type(kind.__name__, (kind,), {"crosses": True})


PLAIN: dict[str, Any] = {"method": crossing(GBM)(second_order=True), "colsample_bynode": 0.5}
"""Plain boosting with the trees and the crosses of the default."""


@dataclass(frozen=True)
class Run:
    """How to fit: a protocol, the maximum number of iterations for early stopping, a seed and a number of threads."""

    protocol: str
    iterations: int
    seed: int
    threads: int

    @property
    def stops_early(self) -> bool:
        """Whether training stops early."""
        return self.protocol == EARLY_STOPPING

    @property
    def effort(self) -> Effort:
        """The same for a library."""
        return Effort(self.iterations if self.stops_early else None, self.seed, self.threads)


@dataclass(frozen=True)
class Outcome:
    """The result of a fit."""

    predicted: Array
    """Predictions for the test rows: probabilities (row, class), values or rates."""
    trees: int
    iterations: int
    """Trees and iterations of the model that predicts."""
    seconds: float
    """Time of the fit, including the iterations that early stopping discards."""
    prediction_seconds: float
    """Time of the predictions for the test rows."""
    validation_loss: float
    """NaN if the validation rows were used for training."""
    models: int = 1
    """Number of models whose average predicts."""
    staged_losses: tuple[float, ...] = ()
    """Test losses after each iteration, if they were measured."""


Fit = Callable[[Problem, Run], Outcome]


@dataclass(frozen=True)
class Contestant:
    """A library with settings."""

    name: str
    fit: Fit
    package: str
    settings: str = ""
    """Settings besides the defaults, as text: a result is measured again when they change."""
    protocols: tuple[str, ...] = PROTOCOLS

    def version(self) -> str | None:
        """The version of the package; None if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


def _outcome(problem: Problem, model: Model, validated: bool) -> Outcome:
    """The outcome of a model; whether it did not see the validation rows."""
    X = model.adapt(problem.test.X)
    prediction_seconds = clocked(lambda: model.predict(X), least=3, seconds=0.05)()
    validation = float("nan")
    if validated:
        validation = loss(problem.kind, model(problem.validation.X), problem.validation)
    predicted = np.asarray(model.predict(X))
    return Outcome(predicted, int(model.trees), int(model.iterations), model.seconds, prediction_seconds, validation)


def fit_defaults(library: type[Library], problem: Problem, run: Run) -> Outcome:
    """Fit a library under a protocol."""
    held_out = problem.validation if run.stops_early else None
    rows = problem.train if run.stops_early else problem.both
    # HistGradientBoosting has no parameter for threads.
    with threadpool_limits(run.threads) if library is HistGradientBoosting else nullcontext():
        return _outcome(problem, library().train(problem.task, rows, held_out, run.effort), run.stops_early)


def fit_ours(
    problem: Problem, run: Run, *, staged: bool = False, one_hold_out: bool = False, **parameters: Any
) -> Outcome:
    """Fit agbm.

    `staged`: measure the test loss after each iteration. `one_hold_out`: several members stop on the validation rows,
    as a single model does, instead of on rows that each of them holds out.
    """
    library = Ours()
    models = _n_members(library.estimator(problem.task).set_params(**parameters), len(problem.both.y))
    own_rows = models > 1 and not one_hold_out
    if run.stops_early and own_rows:
        parameters = {**parameters, "early_stopping": True}
    rows = problem.train if run.stops_early and not own_rows else problem.both
    held_out = problem.validation if run.stops_early and not own_rows else None
    model = library.train(problem.task, rows, held_out, run.effort, **parameters)
    outcome = replace(_outcome(problem, model, held_out is not None), models=models)
    if not staged:
        return outcome
    fitted = model.fitted
    predictions = (fitted.staged_predict_proba if problem.classifies else fitted.staged_predict)(problem.test.X)
    return replace(outcome, staged_losses=tuple(loss(problem.kind, p, problem.test) for p in predictions))


def _n_members(model: Any, n_rows: int) -> int:
    from agbm._core.methods import method_of
    from agbm._fit.auto import n_members

    return n_members(model.n_members, method_of(model.method), n_rows)


def fit_ours_with_best_rate(problem: Problem, run: Run, **parameters: Any) -> Outcome:
    """The fit with the lowest validation loss of those with the learning rates RATES; seconds are those of all fits."""
    found = [fit_ours(problem, run, **{**parameters, "learning_rate": rate}) for rate in RATES]
    best = min(found, key=lambda outcome: outcome.validation_loss)
    return replace(best, seconds=sum(outcome.seconds for outcome in found))


def cross_fitted(fit: Fit) -> Fit:
    """Five models, each of which stops on another fifth of all rows and is trained on the others, averaged.

    In other words:

        folds = KFold(5, shuffle=True).split(X)
        models = [LGBMRegressor(...).fit(X[a], y[a], eval_set=[(X[b], y[b])], ...) for a, b in folds]
        predicted = np.mean([model.predict(X_test) for model in models], axis=0)
    """

    def fit_them(problem: Problem, run: Run) -> Outcome:
        found = [fit(fold, replace(run, seed=run.seed + i)) for i, fold in enumerate(_folds(problem, run.seed))]

        def total(field: str) -> Any:
            return sum(getattr(outcome, field) for outcome in found)

        return Outcome(
            total("predicted") / FOLDS, total("trees"), total("iterations") // FOLDS, total("seconds"),
            total("prediction_seconds"), total("validation_loss") / FOLDS, FOLDS,
        )  # fmt: skip

    return fit_them


def _folds(problem: Problem, seed: int) -> Iterator[Problem]:
    """The problem with each fifth of training and validation rows as validation rows, stratified by class."""
    both = problem.both
    strata = both.y if problem.classifies else np.zeros(len(both.y))
    order = stratified_order(strata, np.random.default_rng(seed))
    for held_out in np.array_split(order, FOLDS):
        rest = np.setdiff1d(order, held_out)
        yield replace(problem, train=both[rest], validation=both[np.sort(held_out)])


REFERENCE = LightGBM.name
"""Figures of the report are divided by its figures."""
OURS = Ours.name
ONE_HOLD_OUT = "agbm, one hold-out set"
ONE_OF_OURS = "agbm, one model"
NO_CROSSES = "agbm, no crosses"
PLAIN_OURS = "agbm, plain"
TUNED_PLAIN = "agbm, plain, best rate"


def ours(name: str, protocols: tuple[str, ...] = PROTOCOLS, fit: Any = fit_ours, **parameters: Any) -> Contestant:
    """A contestant of agbm with the given parameters of the constructor."""

    def fit_it(problem: Problem, run: Run) -> Outcome:
        return fit(problem, run, **parameters)  # type: ignore[no-any-return]

    return Contestant(name, fit_it, "agbm", _settings(parameters), protocols)


def _settings(parameters: dict[str, Any]) -> str:
    """All parameters as text, so that changed defaults also count as changed settings."""
    from agbm import AGBMClassifier

    defaults = AGBMClassifier().get_params(deep=False)
    return json.dumps({**defaults, **parameters}, sort_keys=True, default=str)


def built_in() -> Iterator[Contestant]:
    """The contestants that are always there."""
    yield ours(OURS)
    yield ours(ONE_HOLD_OUT, (EARLY_STOPPING,), partial(fit_ours, one_hold_out=True))
    yield ours(ONE_OF_OURS, fit=partial(fit_ours, staged=True), n_members=1)
    yield ours(NO_CROSSES, views=None)
    yield ours(PLAIN_OURS, **PLAIN)
    yield ours(TUNED_PLAIN, (EARLY_STOPPING,), fit_ours_with_best_rate, **PLAIN)
    for library in (LightGBM, XGBoost, CatBoost, HistGradientBoosting, ChimeraBoost):
        fit = partial(fit_defaults, library)
        yield Contestant(library.name, fit, library.package)
        if library in (LightGBM, XGBoost, CatBoost):
            yield Contestant(f"five {library.name}s", cross_fitted(fit), library.package, protocols=(EARLY_STOPPING,))


def from_text(text: str) -> Contestant:
    """A contestant of agbm from 'name={"parameter": value, ...}'."""
    name, equals, parameters = text.partition("=")
    if not equals:
        raise ValueError(f"--ours must be 'name={{\"parameter\": value}}'; got {text!r}.")
    return ours(name.strip(), **json.loads(parameters))
