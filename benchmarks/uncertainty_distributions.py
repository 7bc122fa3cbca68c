"""Distributions of the target: the part `distributions` of uncertainty.py.

NGBoost is measured with its defaults (500 iterations of trees with depth 3, learning rate 0.01), and with early
stopping. CatBoost (RMSEWithUncertainty) and XGBoost stop early too, all on the same 20 % of the rows. `XGBoost, normal`
has a custom objective, since XGBoost has none for distributions: the negative log likelihood of a normal distribution
with the Fisher information as the Hessian, for the mean and the logarithm of the standard deviation, as XGBoostLSS has
it, whose dependencies include PyTorch and replace xgboost-cpu. Its learning rate is 0.1, and its steps are limited.
`NGBoost, log-normal` needs positive targets.

Scores are means over test rows of the negative log density (NLL) and of the CRPS. The CRPS is in closed form for normal
distributions. For others it is twice the mean pinball loss of their quantiles at 0.01, 0.02, ..., 0.99. `coverage` is
that of the central interval with probability 0.9, which nothing has calibrated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import catboost
import numpy as np
import xgboost
from ngboost import NGBRegressor
from ngboost.distns import LogNormal, Normal
from scipy.stats import norm

from suite_contestants import PATIENCE, Run, with_text
from suite_tables import Array, Problem, Rows
from uncertainty_parts import BOTH_OF_NGBOOST, Contestant, Part, as_numbers, fitted_ours, parted
from uncertainty_scores import CENTRAL_LEVELS, crps_of_quantiles, normal_crps

SETTINGS_OF_XGBOOST = {"learning_rate": 0.1, "max_delta_step": 0.7}
"""The limit of a step is XGBoost's own for counts. Without it, one outlier can make a deviation far too large."""


@dataclass(frozen=True)
class Forecast:
    """Distributions for the test rows: any object with `logpdf` and `ppf`, and whether it is normal."""

    distribution: Any
    is_normal: bool


def normal(mean: Array, std: Array) -> Forecast:
    """Normal distributions."""
    return Forecast(norm(mean, std), is_normal=True)


def score(forecast: Forecast, test: Rows) -> dict[str, float]:
    """Negative log density, CRPS, and the coverage of the central interval."""
    own, y = forecast.distribution, test.y
    crps = normal_crps(own.mean(), own.std(), y) if forecast.is_normal else crps_of_quantiles(own, y)
    low, high = (np.asarray(own.ppf(level)) for level in CENTRAL_LEVELS)
    return {
        "NLL": float(-np.mean(own.logpdf(y))),
        "CRPS": float(np.mean(crps)),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }


def _as_forecast(predicted: Any) -> Forecast:
    """The distributions of NGBoost."""
    own = predicted.params
    is_normal = "loc" in own
    return normal(own["loc"], own["scale"]) if is_normal else Forecast(predicted.dist, is_normal=False)


def _ngboost(problem: Problem, run: Run, *, kind: Any = Normal) -> Forecast:
    rows, test = problem.both, problem.test
    if kind is LogNormal and min(rows.y.min(), test.y.min()) <= 0.0:
        raise ValueError("log-normal distributions need positive targets")
    adapt = as_numbers(rows.X)
    model = NGBRegressor(Dist=kind, verbose=False, random_state=run.seed).fit(adapt(rows.X), rows.y)
    return _as_forecast(model.pred_dist(adapt(test.X)))


def _ngboost_with_stopping(problem: Problem, run: Run) -> Forecast:
    train, held_out = parted(problem.both, run)
    adapt = as_numbers(train.X)
    model = NGBRegressor(n_estimators=run.iterations, verbose=False, random_state=run.seed)
    model.fit(adapt(train.X), train.y, adapt(held_out.X), held_out.y, early_stopping_rounds=PATIENCE)
    iterations = model.best_val_loss_itr + 1  # pred_dist would use all
    return _as_forecast(model.pred_dist(adapt(problem.test.X), max_iter=iterations))


def _catboost(problem: Problem, run: Run) -> Forecast:
    train, held_out = parted(problem.both, run)
    model = catboost.CatBoostRegressor(
        loss_function="RMSEWithUncertainty", iterations=run.iterations, early_stopping_rounds=PATIENCE,
        thread_count=run.threads, random_seed=run.seed, allow_writing_files=False, logging_level="Silent",
        cat_features=problem.categorical,
    )  # fmt: skip
    model.fit(with_text(train.X), train.y, eval_set=(with_text(held_out.X), held_out.y))
    found = np.asarray(model.predict(with_text(problem.test.X), prediction_type="RMSEWithUncertainty"))
    return normal(found[:, 0], np.sqrt(found[:, 1]))


def _gradient_of_normal(predicted: Array, rows: xgboost.DMatrix) -> tuple[Array, Array]:
    """Gradient and Fisher information of the mean and of the logarithm of the standard deviation."""
    y = rows.get_label().reshape(len(predicted), 2)[:, 0]
    precision = np.exp(-2.0 * predicted[:, 1])
    errors = predicted[:, 0] - y
    gradient = np.column_stack([precision * errors, 1.0 - precision * errors**2])
    return gradient, np.column_stack([precision, np.full(len(y), 2.0)])


def _loss_of_normal(predicted: Array, rows: xgboost.DMatrix) -> tuple[str, float]:
    """The negative log density without its constant."""
    y = rows.get_label().reshape(len(predicted), 2)[:, 0]
    scaled = (y - predicted[:, 0]) * np.exp(-predicted[:, 1])
    return "NLL", float(np.mean(predicted[:, 1] + 0.5 * scaled**2))


def _xgboost(problem: Problem, run: Run) -> Forecast:
    """Fit XGBoost to the standardised target, starting from mean 0 and standard deviation 1."""
    train, held_out = parted(problem.both, run)
    mean, std = np.mean(train.y), np.std(train.y)

    def matrix(rows: Rows) -> xgboost.DMatrix:
        z = (rows.y - mean) / std
        return xgboost.DMatrix(rows.X, np.column_stack([z, z]), enable_categorical=True)

    settings = {
        **SETTINGS_OF_XGBOOST, "base_score": 0.0, "disable_default_eval_metric": True, "nthread": run.threads,
        "seed": run.seed,
    }  # fmt: skip
    model = xgboost.train(
        settings, matrix(train), run.iterations, evals=[(matrix(held_out), "validation")], obj=_gradient_of_normal,
        custom_metric=_loss_of_normal, early_stopping_rounds=PATIENCE, verbose_eval=False,
    )  # fmt: skip
    found = model.predict(matrix(problem.test), iteration_range=(0, model.best_iteration + 1)).astype(np.float64)
    return normal(mean + std * found[:, 0], std * np.exp(found[:, 1]))


def _ours(problem: Problem, run: Run, **parameters: Any) -> Forecast:
    parameters = {"loss": "distribution:normal", **parameters}
    found = fitted_ours(problem, run, **parameters).predict_dist(problem.test.X)
    return Forecast(found, is_normal=parameters["loss"] == "distribution:normal")


PART = Part(
    name="distributions",
    kinds=("regression",),
    peers=(
        Contestant("CatBoost", _catboost, ("catboost",)),
        Contestant("XGBoost, normal", _xgboost, ("xgboost-cpu",), json.dumps(SETTINGS_OF_XGBOOST)),
        Contestant(BOTH_OF_NGBOOST[0], _ngboost, ("ngboost",)),
        Contestant(BOTH_OF_NGBOOST[1], _ngboost_with_stopping, ("ngboost",)),
        Contestant("NGBoost, log-normal", partial(_ngboost, kind=LogNormal), ("ngboost",)),
    ),
    ours=_ours,
    score=score,
)
