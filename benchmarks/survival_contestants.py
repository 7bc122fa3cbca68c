"""The contestants of survival.py. Each returns risks and survival curves of the test rows.

* agbm gets training and validation rows together, of which each member holds out its own part for early stopping.
* XGBoost stops early by the validation rows, with the learning rate 0.1. `survival:cox` gets a Breslow baseline from
  its training rows. `survival:aft` has a normal distribution with the scale of SCALES that has the lowest validation
  loss; seconds are those of all these fits.
* scikit-survival's gradient boosting: its default (100 trees), and with early stopping (at most 500 trees; it holds out
  20 % of training and validation rows). Its random survival forest has 100 trees with at least 15 rows per leaf.
* lifelines' Cox model has the penalizer 0.01, without which it fails on collinear columns, and the first of STEP_SIZES
  with which it converges: its default diverges on some splits of flchain.

scikit-survival and lifelines get one-hot encoded categories (those with fewer than 20 rows together), medians in place
of missing numbers and a column that marks these. scikit-survival gets at most ROWS_OF_SKSURV training and validation
rows: its exact trees take minutes with twice as many, and its forest keeps a curve per leaf.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from records import OURS
from survival_scores import as_outcomes, curves_of_cox
from survival_tables import Lives, Problem
from trials import PATIENCE, Array, Contestant, Fitted, Run, settings_of, timed

RATE = 0.1
SCALES = (0.5, 0.75, 1.0, 1.5)
ROWS_OF_SKSURV = 2_500
STEP_SIZES = (0.95, 0.5, 0.1)
"""Of Newton's method in lifelines, whose default is the first."""


@dataclass(frozen=True)
class Predicted:
    """Risks (higher: earlier) and survival probabilities (row, time) of the test rows."""

    risk: Array
    curves: Array


def fit_ours(problem: Problem, run: Run, **parameters: Any) -> Fitted:
    """Fit agbm."""
    from agbm import AGBMSurvival

    rows = problem.both
    model = AGBMSurvival(
        max_iter=run.iterations, n_iter_no_change=PATIENCE, early_stopping=True, random_state=run.seed,
        n_jobs=run.threads,
    ).set_params(**parameters)  # fmt: skip
    seconds = timed(model.fit, rows.X, as_outcomes(rows.time, rows.event))
    functions = model.predict_survival_function(problem.test.X)
    curves = np.vstack([function(problem.times) for function in functions])
    return Fitted(Predicted(model.predict(problem.test.X), curves), seconds, model.n_trees_)


def fit_xgboost_cox(problem: Problem, run: Run) -> Fitted:
    """Fit XGBoost's Cox model."""
    import xgboost

    def labels(rows: Lives) -> Array:
        return np.where(rows.event, rows.time, -rows.time)

    train, held_out = problem.train, problem.validation
    model = xgboost.XGBRegressor(
        objective="survival:cox", n_estimators=run.iterations, learning_rate=RATE, early_stopping_rounds=PATIENCE,
        enable_categorical=True, n_jobs=run.threads, random_state=run.seed,
    )  # fmt: skip
    held_out_rows = [(held_out.X, labels(held_out))]
    seconds = timed(model.fit, train.X, labels(train), eval_set=held_out_rows, verbose=False)
    own, risk = (model.predict(rows.X, output_margin=True).astype(np.float64) for rows in (train, problem.test))
    curves = curves_of_cox(train.time, train.event, own, risk, problem.times)
    return Fitted(Predicted(risk, curves), seconds, model.best_iteration + 1)


def _matrix_with_bounds(rows: Lives) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(rows.X, enable_categorical=True)
    matrix.set_float_info("label_lower_bound", rows.time)
    matrix.set_float_info("label_upper_bound", np.where(rows.event, rows.time, np.inf))
    return matrix


def fit_xgboost_aft(problem: Problem, run: Run) -> Fitted:
    """Fit XGBoost's AFT model with the best of several scales."""
    import xgboost
    from scipy.stats import norm

    train, held_out = (_matrix_with_bounds(rows) for rows in (problem.train, problem.validation))
    found, seconds = [], 0.0
    for scale in SCALES:
        parameters = {
            "objective": "survival:aft", "eval_metric": "aft-nloglik", "aft_loss_distribution": "normal",
            "aft_loss_distribution_scale": scale, "learning_rate": RATE, "nthread": run.threads, "seed": run.seed,
        }  # fmt: skip
        kept: list[Any] = []

        def fit(parameters: dict[str, Any] = parameters, kept: list[Any] = kept) -> None:
            kept.append(
                xgboost.train(
                    parameters, train, run.iterations, evals=[(held_out, "validation")], verbose_eval=False,
                    early_stopping_rounds=PATIENCE,
                )
            )  # fmt: skip

        seconds += timed(fit)
        found.append((kept[0].best_score, scale, kept[0]))
    _, scale, model = min(found, key=lambda one: one[0])
    matrix = xgboost.DMatrix(problem.test.X, enable_categorical=True)
    time = model.predict(matrix, iteration_range=(0, model.best_iteration + 1)).astype(np.float64)
    location = np.log(time)
    curves = norm.sf((np.log(problem.times)[np.newaxis] - location[:, np.newaxis]) / scale)
    return Fitted(Predicted(-location, curves), seconds, model.best_iteration + 1)


def encoder(X: pd.DataFrame, drop: str | None = None) -> Any:
    """One-hot encodings of categories, and standardised numbers with medians in place of missing ones."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categorical = list(X.select_dtypes("category"))
    numeric = [name for name in X if name not in categorical]
    one_hot = OneHotEncoder(
        min_frequency=20, handle_unknown="infrequent_if_exist", sparse_output=False, drop=drop, dtype=np.float64
    )
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    return make_column_transformer((make_pipeline(imputer, StandardScaler()), numeric), (one_hot, categorical))


def _capped(rows: Lives, most: int) -> Lives:
    """The first rows, whose order is random."""
    return rows[np.arange(min(most, len(rows.time)))]


def _curves_of(functions: Any, times: Array) -> Array:
    """The values of scikit-survival's step functions, which start at 1 before their domain and stay after it."""
    last = functions[0].x[-1]
    inside = np.clip(times, functions[0].x[0], last)
    values = np.vstack([function(inside) for function in functions])
    return np.asarray(np.where(times < functions[0].x[0], 1.0, values))


def fit_sksurv(problem: Problem, run: Run, make: Callable[[Run], Any]) -> Fitted:
    """Fit an estimator of scikit-survival."""
    rows = _capped(problem.both, ROWS_OF_SKSURV)
    encoded = encoder(rows.X).fit(rows.X)
    model = make(run)
    seconds = timed(model.fit, encoded.transform(rows.X), as_outcomes(rows.time, rows.event))
    X = encoded.transform(problem.test.X)
    curves = _curves_of(model.predict_survival_function(X), problem.times)
    trees = getattr(model, "n_estimators_", model.n_estimators)
    return Fitted(Predicted(model.predict(X), curves), seconds, trees)


def _boosting(run: Run, **parameters: Any) -> Any:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    return GradientBoostingSurvivalAnalysis(random_state=run.seed, **parameters)


def _forest(run: Run) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    return RandomSurvivalForest(n_estimators=100, min_samples_leaf=15, n_jobs=run.threads, random_state=run.seed)


STOPPING: dict[str, Any] = {"n_estimators": 500, "n_iter_no_change": 20, "validation_fraction": 0.2}


def _fit_converging(model: Any, known: pd.DataFrame) -> None:
    """Fit lifelines' Cox model with a step size that converges; raises ConvergenceWarning if there is none."""
    from lifelines.exceptions import ConvergenceError, ConvergenceWarning

    for step_size in STEP_SIZES:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*failed to converge", category=ConvergenceWarning)
            try:
                model.fit(known, "time", "event", fit_options={"step_size": step_size, "max_steps": 1_000})
                return
            except (ConvergenceWarning, ConvergenceError):
                if step_size == STEP_SIZES[-1]:
                    raise


def fit_lifelines(problem: Problem, run: Run) -> Fitted:
    """Fit lifelines' Cox model."""
    from lifelines import CoxPHFitter

    rows = problem.both
    encoded = encoder(rows.X, drop="first").fit(rows.X)

    def frame(X: pd.DataFrame) -> pd.DataFrame:
        values = encoded.transform(X)
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])

    known = frame(rows.X)
    known = known.loc[:, known.std() > 0.0].assign(time=rows.time, event=rows.event.astype(int))
    model = CoxPHFitter(penalizer=0.01)
    seconds = timed(_fit_converging, model, known)
    X = frame(problem.test.X)[[name for name in known if name not in ("time", "event")]]
    curves = model.predict_survival_function(X, times=problem.times).to_numpy().T
    return Fitted(Predicted(model.predict_log_partial_hazard(X).to_numpy(), curves), seconds)


def contestants(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """All contestants; `more` are names and parameters of further ones of agbm."""
    import agbm

    for name, parameters in [(OURS, {}), *more] if hasattr(agbm, "AGBMSurvival") else ():
        settings = settings_of(agbm.AGBMSurvival(), parameters)
        yield Contestant(name, partial(fit_ours, **parameters), (OURS,), settings)
    yield Contestant("XGBoost, Cox", fit_xgboost_cox, ("xgboost-cpu",))
    yield Contestant("XGBoost, AFT", fit_xgboost_aft, ("xgboost-cpu",))
    of_sksurv: dict[str, Callable[[Run], Any]] = {
        "scikit-survival": _boosting,
        "scikit-survival, early stopping": partial(_boosting, **STOPPING),
        "random survival forest": _forest,
    }
    for name, make in of_sksurv.items():
        settings = f"at most {ROWS_OF_SKSURV} rows"
        yield Contestant(name, partial(fit_sksurv, make=make), ("scikit-survival",), settings)
    yield Contestant("lifelines, Cox", fit_lifelines, ("lifelines",), f"step sizes {STEP_SIZES}")
