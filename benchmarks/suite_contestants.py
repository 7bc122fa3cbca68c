"""The contestants of suite.py: default settings of agbm and of other libraries, under two protocols.

Under both, every contestant gets the same rows: training and validation rows of the split, four to one.

`early stopping`: the same patience and the same maximum number of iterations. Single models are trained on the training
rows and stop on the validation rows. Averages of five models hold out further rows for each model: the default of agbm
a tenth, by its own rule, `five LightGBMs` and `five XGBoosts` one of five folds. Each of their models thus trains on 90
and 80 % of the rows, and all five together have seen all of them. `agbm, one hold-out set` has five models as well, but
all of them are trained on the training rows of the single models. Everything else is the default of each library,
except that XGBoost's learning rate is 0.1 instead of 0.3.

`out of the box`: `fit(X, y)` on all of the rows with the defaults of the constructor.

Under both, the loss for counts, the number of threads and the seed are set, and categorical columns are passed as each
library expects them. Differences between libraries that remain:

* HistGradientBoosting accepts at most 255 categories per column. The 254 most frequent are kept; the others are merged.
* HistGradientBoosting would predict with all iterations after early stopping, the others with those up to the best
  one. Under `early stopping` its later iterations are removed, since the patience is not its own.
* The exposures of validation rows are not known to ChimeraBoost, whose validation rows have weight 1.
* CatBoost chooses its learning rate from the numbers of rows and iterations, but not for counts (0.03).
* `agbm, plain` is plain boosting with the trees of agbm's default: the same sizes, l2 and column sampling.
* CatBoost and ChimeraBoost grow one tree per iteration for all classes, the others one per class.
* agbm averages scores before the link function, `five LightGBMs` and `five XGBoosts` predictions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from measure import clocked
from suite_tables import Array, Problem, Rows, loss, stratified_order

EARLY_STOPPING, OUT_OF_THE_BOX = "early stopping", "out of the box"
PROTOCOLS = (EARLY_STOPPING, OUT_OF_THE_BOX)
PATIENCE = 50
FOLDS = 5
RATES = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)
PLAIN: dict[str, Any] = {"method": "gbm", "second_order": True, "colsample_bynode": 0.5}
"""Plain boosting with the trees of the default."""
MAX_CATEGORIES_OF_SKLEARN = 255


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


def _outcome(
    problem: Problem, run: Run, seconds: float, predict: Callable[[pd.DataFrame], Array], trees: int, iterations: int,
    adapt: Callable[[pd.DataFrame], pd.DataFrame] = lambda X: X,
) -> Outcome:  # fmt: skip
    """The outcome of a fitted model; `adapt` prepares features for its library."""
    X = adapt(problem.test.X)
    prediction_seconds = clocked(lambda: predict(X), least=3, seconds=0.05)()
    validation = float("nan")
    if run.stops_early:
        validation = loss(problem.kind, predict(adapt(problem.validation.X)), problem.validation)
    return Outcome(predict(X), int(trees), int(iterations), seconds, prediction_seconds, validation)


def _timed(fit: Callable[..., object], *args: Any, **keywords: Any) -> float:
    began = time.perf_counter()
    fit(*args, **keywords)
    return time.perf_counter() - began


def _rows(problem: Problem, run: Run) -> Rows:
    """The rows that the protocol passes as training rows."""
    return problem.train if run.stops_early else problem.both


def _method(problem: Problem, model: Any) -> Callable[[pd.DataFrame], Array]:
    """The method for probabilities, or for values."""
    return model.predict_proba if problem.classifies else model.predict  # type: ignore[no-any-return]


def _of_kind(problem: Problem, module: str, name: str) -> Any:
    """The classifier or regressor of a library whose names differ only in this."""
    return getattr(import_module(module), name + ("Classifier" if problem.classifies else "Regressor"))


def fit_ours(
    problem: Problem, run: Run, *, staged: bool = False, one_hold_out: bool = False, **parameters: Any
) -> Outcome:
    """Fit agbm.

    `staged`: measure the test loss after each iteration. `one_hold_out`: several members stop on the validation rows,
    as a single model does, instead of on rows that each of them holds out.
    """
    if run.stops_early:
        parameters = {"max_iter": run.iterations, "n_iter_no_change": PATIENCE, **parameters}
    if problem.kind == "count":
        parameters = {"loss": "poisson", **parameters}
    model = _of_kind(problem, "agbm", "AGBM")(random_state=run.seed, n_jobs=run.threads).set_params(**parameters)
    rows, held_out, models = _rows(problem, run), {}, _n_members(model)
    if run.stops_early and models > 1 and not one_hold_out:
        rows = problem.both
        model.set_params(early_stopping=True)
    elif run.stops_early:
        validation = problem.validation
        held_out = {"X_val": validation.X, "y_val": validation.y, "sample_weight_val": validation.weight}
    seconds = _timed(model.fit, rows.X, rows.y, sample_weight=rows.weight, **held_out)
    outcome = _outcome(problem, run, seconds, _method(problem, model), model.n_trees_, model.best_iteration_)
    outcome = replace(outcome, models=models, validation_loss=outcome.validation_loss if held_out else float("nan"))
    if not staged:
        return outcome
    predictions = (model.staged_predict_proba if problem.classifies else model.staged_predict)(problem.test.X)
    return replace(outcome, staged_losses=tuple(loss(problem.kind, p, problem.test) for p in predictions))


def _n_members(model: Any) -> int:
    from agbm._core.methods import method_of
    from agbm._fit.auto import n_members

    return n_members(model.n_members, method_of(model.method), uses_trees=True)


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


def fit_lightgbm(problem: Problem, run: Run) -> Outcome:
    """Fit LightGBM."""
    import lightgbm

    parameters: dict[str, Any] = {"n_jobs": run.threads, "random_state": run.seed, "verbose": -1}
    if problem.kind == "count":
        parameters["objective"] = "poisson"
    rows, keywords = _rows(problem, run), {}
    if run.stops_early:
        parameters["n_estimators"] = run.iterations
        held_out = problem.validation
        keywords = {
            "eval_set": [(held_out.X, held_out.y)],
            "eval_sample_weight": None if held_out.weight is None else [held_out.weight],
            "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
        }
    model = _of_kind(problem, "lightgbm", "LGBM")(**parameters)
    seconds = _timed(model.fit, rows.X, rows.y, sample_weight=rows.weight, **keywords)
    iterations = model.best_iteration_ if run.stops_early else model.n_estimators_
    return _outcome(problem, run, seconds, _method(problem, model), iterations * problem.n_outputs, iterations)


def fit_xgboost(problem: Problem, run: Run) -> Outcome:
    """Fit XGBoost."""
    parameters: dict[str, Any] = {"n_jobs": run.threads, "random_state": run.seed, "enable_categorical": True}
    if problem.kind == "count":
        parameters["objective"] = "count:poisson"
    rows, keywords = _rows(problem, run), {}
    if run.stops_early:
        parameters |= {"n_estimators": run.iterations, "learning_rate": 0.1, "early_stopping_rounds": PATIENCE}
        held_out = problem.validation
        keywords = {
            "eval_set": [(held_out.X, held_out.y)],
            "sample_weight_eval_set": None if held_out.weight is None else [held_out.weight],
        }
    model = _of_kind(problem, "xgboost", "XGB")(**parameters)
    seconds = _timed(model.fit, rows.X, rows.y, sample_weight=rows.weight, verbose=False, **keywords)
    iterations = model.best_iteration + 1 if run.stops_early else model.get_booster().num_boosted_rounds()
    return _outcome(problem, run, seconds, _method(problem, model), iterations * problem.n_outputs, iterations)


def with_text(X: pd.DataFrame) -> pd.DataFrame:
    """Categories as text, missing ones as "missing"."""
    texts = {
        name: X[name].astype(object).where(X[name].notna(), "missing").astype(str).astype(object)
        for name in X.select_dtypes("category")
    }
    return X.assign(**texts)


def fit_catboost(problem: Problem, run: Run) -> Outcome:
    """Fit CatBoost."""
    import catboost

    parameters: dict[str, Any] = {
        "thread_count": run.threads, "random_seed": run.seed, "allow_writing_files": False, "logging_level": "Silent",
    }  # fmt: skip
    if problem.kind == "count":
        parameters["loss_function"] = "Poisson"
    if run.stops_early:
        parameters |= {"iterations": run.iterations, "early_stopping_rounds": PATIENCE}

    def pool(rows: Rows) -> Any:
        return catboost.Pool(with_text(rows.X), rows.y, weight=rows.weight, cat_features=problem.categorical)

    model = _of_kind(problem, "catboost", "CatBoost")(**parameters)
    keywords = {"eval_set": pool(problem.validation)} if run.stops_early else {}
    seconds = _timed(model.fit, pool(_rows(problem, run)), **keywords)
    form = "Probability" if problem.classifies else "Exponent" if problem.kind == "count" else "RawFormulaVal"

    def predict(X: pd.DataFrame) -> Array:
        return model.predict(X, prediction_type=form, thread_count=run.threads)  # type: ignore[no-any-return]

    return _outcome(problem, run, seconds, predict, model.tree_count_, model.tree_count_, with_text)


def merging(X: pd.DataFrame, most: int = MAX_CATEGORIES_OF_SKLEARN) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function that merges the rarest categories of X, so that no column has more than `most`."""
    kept = {
        name: X[name].value_counts().index[: most - 1]
        for name in X.select_dtypes("category")
        if len(X[name].cat.categories) > most
    }

    def merge(column: pd.Series, frequent: pd.Index) -> pd.Series:
        codes = pd.Series(frequent.get_indexer(column.astype(frequent.dtype)), index=column.index)
        return codes.where(codes >= 0, most - 1).where(column.notna()).astype("category")

    def adapt(other: pd.DataFrame) -> pd.DataFrame:
        return other.assign(**{name: merge(other[name], frequent) for name, frequent in kept.items()})

    return adapt


def fit_sklearn(problem: Problem, run: Run) -> Outcome:
    """Fit scikit-learn's HistGradientBoosting."""
    parameters: dict[str, Any] = {"random_state": run.seed}
    if problem.kind == "count":
        parameters["loss"] = "poisson"
    rows, held_out, keywords = _rows(problem, run), problem.validation, {}
    adapt = merging(rows.X)
    if run.stops_early:
        parameters |= {"max_iter": run.iterations, "n_iter_no_change": PATIENCE, "early_stopping": True}
        keywords = {"X_val": adapt(held_out.X), "y_val": held_out.y, "sample_weight_val": held_out.weight}
    model = _of_kind(problem, "sklearn.ensemble", "HistGradientBoosting")(**parameters)
    X = adapt(rows.X)
    with threadpool_limits(run.threads):
        seconds = _timed(model.fit, X, rows.y, sample_weight=rows.weight, **keywords)
        if run.stops_early:
            del model._predictors[int(np.argmax(model.validation_score_)) :]  # the first score is that of no trees
        trees = model.n_iter_ * model.n_trees_per_iteration_
        return _outcome(problem, run, seconds, _method(problem, model), trees, model.n_iter_, adapt)


@cache
def _compile_chimeraboost() -> None:
    import_module("chimeraboost").warmup()


def fit_chimeraboost(problem: Problem, run: Run) -> Outcome:
    """Fit ChimeraBoost. A short fit before the timed one compiles kernels for types that its warm-up does not use."""
    _compile_chimeraboost()
    parameters: dict[str, Any] = {"thread_count": run.threads, "random_state": run.seed}
    if problem.kind == "count":
        parameters["loss"] = "Poisson"
    rows, held_out = _rows(problem, run), problem.validation
    keywords: dict[str, Any] = {"sample_weight": rows.weight, "cat_features": problem.categorical}
    if run.stops_early:
        parameters |= {"n_estimators": run.iterations, "early_stopping_rounds": PATIENCE}
        keywords["eval_set"] = (with_text(held_out.X), held_out.y)
    kind = _of_kind(problem, "chimeraboost", "ChimeraBoost")
    X = with_text(rows.X)
    kind(**{**parameters, "n_estimators": 2}).fit(X, rows.y, **keywords)
    model = kind(**parameters)
    seconds = _timed(model.fit, X, rows.y, **keywords)
    trees = len(model.model_.trees_)
    return _outcome(problem, run, seconds, _method(problem, model), trees, trees, with_text)


REFERENCE = "LightGBM"
"""Figures of the report are divided by its figures."""
OURS = "agbm"
ONE_HOLD_OUT = "agbm, one hold-out set"
ONE_OF_OURS = "agbm, one model"
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
    yield ours(PLAIN_OURS, **PLAIN)
    yield ours(TUNED_PLAIN, (EARLY_STOPPING,), fit_ours_with_best_rate, **PLAIN)
    yield Contestant(REFERENCE, fit_lightgbm, "lightgbm")
    yield Contestant("five LightGBMs", cross_fitted(fit_lightgbm), "lightgbm", protocols=(EARLY_STOPPING,))
    yield Contestant("XGBoost", fit_xgboost, "xgboost-cpu")
    yield Contestant("five XGBoosts", cross_fitted(fit_xgboost), "xgboost-cpu", protocols=(EARLY_STOPPING,))
    yield Contestant("CatBoost", fit_catboost, "catboost")
    yield Contestant("HistGradientBoosting", fit_sklearn, "scikit-learn")
    yield Contestant("ChimeraBoost", fit_chimeraboost, "chimeraboost")


def from_text(text: str) -> Contestant:
    """A contestant of agbm from 'name={"parameter": value, ...}'."""
    name, equals, parameters = text.partition("=")
    if not equals:
        raise ValueError(f"--ours must be 'name={{\"parameter\": value}}'; got {text!r}.")
    return ours(name.strip(), **json.loads(parameters))
