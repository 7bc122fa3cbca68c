"""Calibrated uncertainty of agbm and its peers on the real tables of suite.py.

The folder `--data` is that of suite.py. There are four parts, described below.

Tables with counts are left out: an interval for a rate depends on the exposure of its row, which the peers cannot take.

Every table is split once per seed into 75 % of the rows for fitting, of which `--rows` are used, and 25 % for testing
(at most 25,000). Every contestant gets the rows for fitting and holds out what it needs for calibration and early
stopping. Libraries whose defaults hold out nothing use 20 % of them, chosen at random, the same for all.

Categorical columns are pandas categories for LightGBM, XGBoost, HistGradientBoosting and agbm, texts for CatBoost, and
codes for NGBoost and the nearest neighbours of crepes; these two get medians in place of missing values.

Seconds are those of fitting, calibration and prediction with `--threads` threads, and rough where other processes run.

Every result is appended to `--out`/PART.jsonl as soon as it is measured, so an interrupted benchmark can be resumed. A
result is measured again if the versions of its libraries, the parameters of agbm (including defaults), `--rows` or
`--iterations` change. Use a new folder `--out` after other changes of agbm. Parts may run at the same time.

Part `intervals`: Prediction intervals with coverage 0.9.
MAPIE and crepes calibrate LightGBM with its default settings. Split methods hold out 20 % of the rows for calibration.
`MAPIE, CQR` fits quantiles at 0.05, 0.5 and 0.95 with 100 iterations; its variant with early stopping holds out another
20 % of the remaining rows for it. `MAPIE, CV+` uses 5 folds. crepes uses its own defaults: `normalised` divides
residuals by the standard deviation of the targets of 25 nearest neighbours, `Mondrian` calibrates ten bins of the
predictions, and `predictive system` takes percentiles of a conformal predictive system with both. agbm fits the same
three quantiles; `agbm` uses the rows that its members hold out (CV+), and `agbm, split` those that the others use.

Part `quantiles`: Several quantiles of the target.
All libraries stop early on the same 20 % of the rows, with the same patience. Learning rates are the defaults, besides
XGBoost's, which is 0.1 instead of 0.3. LightGBM and HistGradientBoosting fit one model per level, each of which stops
on its own. CatBoost (MultiQuantile), XGBoost and agbm fit all levels at once. agbm holds out rows as its defaults do.

Part `classes`: Sets of classes with coverage 0.9, and calibration of probabilities.
MAPIE (with its default score, LAC) and crepes (with its defaults: hinge, smoothed) calibrate LightGBM with its default
settings on 20 % of the rows, stratified by class. LightGBM and CatBoost with default settings are references for the
probabilities: they have no sets. The expected calibration error (ECE) is that of the most probable class, in 15 bins
with equal numbers of rows. The log loss tells good probabilities from those that are calibrated but say little.

Part `distributions`: Distributions of the target.
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

import argparse
import json
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from benchmarks.libraries import (
    PATIENCE,
    Array,
    CatBoost,
    Effort,
    HistGradientBoosting,
    Library,
    LightGBM,
    Ours,
    Rows,
    XGBoost,
)
from benchmarks.shared.records import OURS, Installed, append, read
from benchmarks.shared.tables import Problem, Task, all_tasks, loss, split, stratified_order
from benchmarks.tasks.trials import of_ours
from benchmarks.tasks.uncertainty_report import (
    BOTH_OF_NGBOOST,
    CENTRAL_LEVELS,
    COVERAGE,
    Record,
    calibration_error,
    coverage,
    crossing,
    crps_of_quantiles,
    normal_crps,
    of_intervals,
    page,
    pinball,
)

HELD_OUT = 0.2
"""Share of the rows that a contestant holds out for calibration, and of those for early stopping."""

Predict = Callable[[Problem, Effort], Any]


@dataclass(frozen=True)
class Contestant(Installed):
    """A library with settings. `predict` fits it to `problem.both` and predicts for the test rows."""

    name: str
    predict: Predict
    packages: tuple[str, ...]
    settings: str = ""
    """Settings besides those in the code, as text: a result is measured again when they change."""


@dataclass(frozen=True)
class Part:
    """One comparison: its tables, contestants and scores."""

    name: str
    kinds: tuple[str, ...]
    """The kinds of tables it uses."""
    peers: tuple[Contestant, ...]
    ours: Callable[..., Any]
    """Fits agbm to a problem and a run, with further parameters as keywords, and predicts."""
    score: Callable[[Any, Rows], dict[str, float]]
    """Scores of the predictions of a contestant for the test rows."""

    def of_ours(self, name: str = OURS, **parameters: Any) -> Contestant:
        """A contestant of agbm. All parameters are settings, so that changed defaults count as changed settings."""
        task = "values" if self.kinds == ("regression",) else "classes"
        defaults = Ours().estimator(task).get_params(deep=False)
        settings = json.dumps({**defaults, **parameters}, sort_keys=True, default=str)
        return Contestant(name, partial(self.ours, **parameters), (OURS,), settings)


def fitted_ours(problem: Problem, run: Effort, **parameters: Any) -> Any:
    """A model of agbm, fitted to all rows but the test rows."""
    own_defaults = Effort(None, run.seed, run.threads)
    return Ours().train(problem.task, problem.both, None, own_defaults, **parameters).fitted


def parted(rows: Rows, run: Effort, classifies: bool = False) -> tuple[Rows, Rows]:
    """Rows for training, and held-out ones; the same for all contestants."""
    strata = rows.y if classifies else np.zeros(len(rows.y))
    order = stratified_order(strata, np.random.default_rng([run.seed, len(rows.y)]))
    n_held_out = int(HELD_OUT * len(order))
    return rows[order[n_held_out:]], rows[order[:n_held_out]]


def as_numbers(X: pd.DataFrame) -> Callable[[pd.DataFrame], Array]:
    """A function that makes numbers of features: codes of categories, and medians of X for missing values."""

    def codes(other: pd.DataFrame) -> pd.DataFrame:
        encoded = {name: other[name].cat.codes.replace(-1, np.nan) for name in other.select_dtypes("category")}
        return other.assign(**encoded).astype(np.float64)

    medians = codes(X).median().fillna(0.0)
    return lambda other: codes(other).fillna(medians).to_numpy()


def lightgbm_settings(run: Effort, **parameters: Any) -> dict[str, Any]:
    """Parameters of LightGBM: its defaults besides threads, seed and messages."""
    return {"n_jobs": run.threads, "random_state": run.seed, "verbose": -1, **parameters}


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
MEAN_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels whose losses are averaged; the one at 0.9 is reported alone."""


def _score_quantiles(predicted: Array, test: Rows) -> dict[str, float]:
    """Pinball losses, and the share of rows in which a higher level has a lower prediction."""
    losses = {level: float(np.mean(pinball(predicted[:, i], test.y, level))) for i, level in enumerate(LEVELS)}
    return {
        "pinball": float(np.mean([losses[level] for level in MEAN_LEVELS])),
        **{f"pinball {level:g}": loss for level, loss in losses.items()},
        "crossing": crossing(predicted),
    }


def _lightgbm_quantile(train: Rows, held_out: Rows, run: Effort, level: float) -> Any:
    """A fitted model of LightGBM for one level, which stops early."""
    return LightGBM().train("values", train, held_out, run, objective="quantile", alpha=level).fitted


def _quantiles_of_lightgbm(problem: Problem, run: Effort) -> Array:
    train, held_out = parted(problem.both, run)
    models = [_lightgbm_quantile(train, held_out, run, level) for level in LEVELS]
    return np.column_stack([model.predict(problem.test.X) for model in models])


def _quantiles_of_sklearn(problem: Problem, run: Effort) -> Array:
    train, held_out = parted(problem.both, run)
    library = HistGradientBoosting()
    models = (library.train("values", train, held_out, run, loss="quantile", quantile=level) for level in LEVELS)
    return np.column_stack([model(problem.test.X) for model in models])


def _quantiles_of_catboost(problem: Problem, run: Effort) -> Array:
    levels = f"MultiQuantile:alpha={','.join(map(str, LEVELS))}"
    return CatBoost().train("values", *parted(problem.both, run), run, loss_function=levels)(problem.test.X)


def _quantiles_of_xgboost(problem: Problem, run: Effort) -> Array:
    train, held_out = parted(problem.both, run)
    settings: dict[str, Any] = {"objective": "reg:quantileerror", "quantile_alpha": np.array(LEVELS)}
    return XGBoost().train("values", train, held_out, run, **settings)(problem.test.X)


def _quantiles_of_ours(problem: Problem, run: Effort, **parameters: Any) -> Array:
    from agbm.losses import Quantile

    # The loss accepts several levels where the library has them.
    loss: Any = Quantile(list(LEVELS))  # type: ignore[arg-type, unused-ignore]
    return np.asarray(fitted_ours(problem, run, **{"loss": loss, **parameters}).predict(problem.test.X))


QUANTILES = Part(
    name="quantiles",
    kinds=("regression",),
    peers=(
        Contestant("LightGBM", _quantiles_of_lightgbm, ("lightgbm",)),
        Contestant("HistGradientBoosting", _quantiles_of_sklearn, ("scikit-learn",)),
        Contestant("CatBoost", _quantiles_of_catboost, ("catboost",)),
        Contestant("XGBoost", _quantiles_of_xgboost, ("xgboost-cpu",)),
    ),
    ours=_quantiles_of_ours,
    score=_score_quantiles,
)


MOST_ROWS_AT_ONCE = 2_000
"""CV+ compares every test row with every training row; more rows at once need too much memory."""


def _score_intervals(bounds: Array, test: Rows) -> dict[str, float]:
    """Coverage with its counts, mean width and mean Winkler score."""
    return of_intervals(bounds, test.y)


def _learner(run: Effort, **parameters: Any) -> Any:
    return LightGBM().estimator("values", **lightgbm_settings(run, **parameters))


def _bounds(model: Any, X: pd.DataFrame) -> Array:
    """Intervals (row, bound) of a model of MAPIE."""
    starts = range(0, len(X), MOST_ROWS_AT_ONCE)
    return np.concatenate(
        [model.predict_interval(X.iloc[start : start + MOST_ROWS_AT_ONCE])[1][:, :, 0] for start in starts]
    )


def _mapie_cqr(problem: Problem, run: Effort) -> Array:
    from mapie.regression import ConformalizedQuantileRegressor

    train, calibration = parted(problem.both, run)
    learner = _learner(run, objective="quantile", alpha=0.5)
    model = ConformalizedQuantileRegressor(learner, confidence_level=COVERAGE)
    model.fit(train.X, train.y).conformalize(calibration.X, calibration.y)
    return _bounds(model, problem.test.X)


def _mapie_cqr_with_stopping(problem: Problem, run: Effort) -> Array:
    from mapie.regression import ConformalizedQuantileRegressor

    rows, calibration = parted(problem.both, run)
    train, validation = parted(rows, run)
    models = [_lightgbm_quantile(train, validation, run, level) for level in (*CENTRAL_LEVELS, 0.5)]
    model = ConformalizedQuantileRegressor(models, confidence_level=COVERAGE, prefit=True)
    return _bounds(model.conformalize(calibration.X, calibration.y), problem.test.X)


def _mapie_cross(problem: Problem, run: Effort) -> Array:
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(_learner(run), confidence_level=COVERAGE, cv=5, random_state=run.seed)
    return _bounds(model.fit_conformalize(problem.both.X, problem.both.y), problem.test.X)


def _mapie_split(problem: Problem, run: Effort) -> Array:
    from mapie.regression import SplitConformalRegressor

    train, calibration = parted(problem.both, run)
    model = SplitConformalRegressor(_learner(run), confidence_level=COVERAGE, prefit=False)
    return _bounds(model.fit(train.X, train.y).conformalize(calibration.X, calibration.y), problem.test.X)


@dataclass(frozen=True)
class _Difficulty:
    """A difficulty estimator of crepes that makes numbers of the features, since neighbours need numbers."""

    adapt: Callable[[pd.DataFrame], Array]
    estimator: Any

    @classmethod
    def of(cls, rows: Rows) -> _Difficulty:
        from crepes.extras import DifficultyEstimator

        adapt = as_numbers(rows.X)
        return cls(adapt, DifficultyEstimator().fit(adapt(rows.X), y=rows.y, scaler=True))

    def apply(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.estimator.apply(self.adapt(X)))


def _crepes_intervals(problem: Problem, run: Effort, *, normalised: bool, mondrian: bool, system: bool) -> Array:
    from crepes import WrapRegressor
    from crepes.extras import MondrianCategorizer

    train, calibration = parted(problem.both, run)
    model = WrapRegressor(_learner(run))
    model.fit(train.X, train.y)
    difficulty = _Difficulty.of(train) if normalised else None
    categories = MondrianCategorizer().fit(train.X, f=model.predict) if mondrian else None
    model.calibrate(calibration.X, calibration.y, de=difficulty, mc=categories, cps=system, seed=run.seed)
    return np.asarray(model.predict_int(problem.test.X, confidence=COVERAGE))


def _crepes_contestant(
    name: str, *, normalised: bool = False, mondrian: bool = False, system: bool = False
) -> Contestant:
    predict = partial(_crepes_intervals, normalised=normalised, mondrian=mondrian, system=system)
    return Contestant(name, predict, ("crepes", "lightgbm"))


def _intervals_of_ours(problem: Problem, run: Effort, split: bool = False, **parameters: Any) -> Array:
    """Intervals by CV+, or by calibration with 20 % of the rows."""
    parameters = {"loss": "quantile:0.05,0.5,0.95", **parameters}
    train, calibration = parted(problem.both, run)
    model = fitted_ours(replace(problem, both=train) if split else problem, run, **parameters)
    if split:
        model.calibrate(calibration.X, calibration.y)
    return np.asarray(model.predict_interval(problem.test.X, coverage=COVERAGE))


INTERVALS = Part(
    name="intervals",
    kinds=("regression",),
    peers=(
        Contestant("MAPIE, CQR", _mapie_cqr, ("mapie", "lightgbm")),
        Contestant("MAPIE, CQR, early stopping", _mapie_cqr_with_stopping, ("mapie", "lightgbm")),
        Contestant("MAPIE, CV+", _mapie_cross, ("mapie", "lightgbm")),
        Contestant("MAPIE, split", _mapie_split, ("mapie", "lightgbm")),
        _crepes_contestant("crepes"),
        _crepes_contestant("crepes, normalised", normalised=True),
        _crepes_contestant("crepes, Mondrian", mondrian=True),
        _crepes_contestant("crepes, predictive system", normalised=True, mondrian=True, system=True),
        Contestant("agbm, split", partial(_intervals_of_ours, split=True), (OURS,)),
    ),
    ours=_intervals_of_ours,
    score=_score_intervals,
)


@dataclass(frozen=True)
class Classes:
    """Predictions for the test rows, both (row, class). Sets are None if a contestant has none."""

    probabilities: Array
    sets: Array | None = None


def _score_classes(predicted: Classes, test: Rows) -> dict[str, float]:
    """Coverage with its counts and the mean size of sets, if there are some; ECE and log loss."""
    scores: dict[str, float] = {}
    if predicted.sets is not None:
        scores = coverage(predicted.sets[np.arange(len(test.y)), test.y])
        scores["size"] = float(np.mean(np.sum(predicted.sets, axis=1)))
    # The loss of all kinds of classes is the same.
    log_loss = loss("multiclass", predicted.probabilities, test)
    return scores | {"ECE": calibration_error(predicted.probabilities, test.y), "log loss": log_loss}


def _mapie_classes(problem: Problem, run: Effort) -> Classes:
    from mapie.classification import SplitConformalClassifier

    train, calibration = parted(problem.both, run, classifies=True)
    learner = LightGBM().estimator("classes", **lightgbm_settings(run)).fit(train.X, train.y)
    model = SplitConformalClassifier(learner, confidence_level=COVERAGE, random_state=run.seed)
    _, sets = model.conformalize(calibration.X, calibration.y).predict_set(problem.test.X)
    return Classes(learner.predict_proba(problem.test.X), sets[:, :, 0].astype(bool))


def _crepes_classes(problem: Problem, run: Effort) -> Classes:
    from crepes import WrapClassifier

    train, calibration = parted(problem.both, run, classifies=True)
    model = WrapClassifier(LightGBM().estimator("classes", **lightgbm_settings(run)))
    model.fit(train.X, train.y)
    model.calibrate(calibration.X, calibration.y, seed=run.seed)
    sets = model.predict_set(problem.test.X, labels=False, confidence=COVERAGE)
    return Classes(model.predict_proba(problem.test.X), np.asarray(sets).astype(bool))


def _only_probabilities(library: type[Library]) -> Predict:
    def predict(problem: Problem, run: Effort) -> Classes:
        own_defaults = Effort(None, run.seed, run.threads)
        return Classes(library().train("classes", problem.both, None, own_defaults)(problem.test.X))

    return predict


def _classes_of_ours(problem: Problem, run: Effort, **parameters: Any) -> Classes:
    model = fitted_ours(problem, run, **parameters)
    X = problem.test.X
    return Classes(model.predict_proba(X), np.asarray(model.predict_set(X, coverage=COVERAGE)).astype(bool))


CLASSES = Part(
    name="classes",
    kinds=("binary", "multiclass"),
    peers=(
        Contestant("MAPIE, LAC", _mapie_classes, ("mapie", "lightgbm")),
        Contestant("crepes", _crepes_classes, ("crepes", "lightgbm")),
        Contestant("LightGBM", _only_probabilities(LightGBM), ("lightgbm",)),
        Contestant("CatBoost", _only_probabilities(CatBoost), ("catboost",)),
    ),
    ours=_classes_of_ours,
    score=_score_classes,
)


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


def _score_distributions(forecast: Forecast, test: Rows) -> dict[str, float]:
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


def _ngboost(problem: Problem, run: Effort, *, kind: str = "Normal") -> Forecast:
    from ngboost import NGBRegressor, distns

    rows, test = problem.both, problem.test
    if kind == "LogNormal" and min(rows.y.min(), test.y.min()) <= 0.0:
        raise ValueError("log-normal distributions need positive targets")
    adapt = as_numbers(rows.X)
    model = NGBRegressor(Dist=getattr(distns, kind), verbose=False, random_state=run.seed).fit(adapt(rows.X), rows.y)
    return _as_forecast(model.pred_dist(adapt(test.X)))


def _ngboost_with_stopping(problem: Problem, run: Effort) -> Forecast:
    from ngboost import NGBRegressor

    train, held_out = parted(problem.both, run)
    adapt = as_numbers(train.X)
    model = NGBRegressor(n_estimators=run.iterations, verbose=False, random_state=run.seed)
    model.fit(adapt(train.X), train.y, adapt(held_out.X), held_out.y, early_stopping_rounds=PATIENCE)
    iterations = model.best_val_loss_itr + 1  # pred_dist would use all
    return _as_forecast(model.pred_dist(adapt(problem.test.X), max_iter=iterations))


def _distributions_of_catboost(problem: Problem, run: Effort) -> Forecast:
    train, held_out = parted(problem.both, run)
    model = CatBoost().train("values", train, held_out, run, loss_function="RMSEWithUncertainty")
    X = model.adapt(problem.test.X)
    found = np.asarray(model.fitted.predict(X, prediction_type="RMSEWithUncertainty"))
    return normal(found[:, 0], np.sqrt(found[:, 1]))


def _gradient_of_normal(predicted: Array, rows: Any) -> tuple[Array, Array]:
    """Gradient and Fisher information of the mean and of the logarithm of the standard deviation."""
    y = rows.get_label().reshape(len(predicted), 2)[:, 0]
    precision = np.exp(-2.0 * predicted[:, 1])
    errors = predicted[:, 0] - y
    gradient = np.column_stack([precision * errors, 1.0 - precision * errors**2])
    return gradient, np.column_stack([precision, np.full(len(y), 2.0)])


def _loss_of_normal(predicted: Array, rows: Any) -> tuple[str, float]:
    """The negative log density without its constant."""
    y = rows.get_label().reshape(len(predicted), 2)[:, 0]
    scaled = (y - predicted[:, 0]) * np.exp(-predicted[:, 1])
    return "NLL", float(np.mean(predicted[:, 1] + 0.5 * scaled**2))


def _distributions_of_xgboost(problem: Problem, run: Effort) -> Forecast:
    """Fit XGBoost to the standardised target, starting from mean 0 and standard deviation 1."""
    train, held_out = parted(problem.both, run)
    library, mean, std = XGBoost(), np.mean(train.y), np.std(train.y)

    def matrix(rows: Rows) -> Any:
        z = (rows.y - mean) / std
        return library.api.DMatrix(rows.X, np.column_stack([z, z]), enable_categorical=True)

    settings = {
        **SETTINGS_OF_XGBOOST, "base_score": 0.0, "disable_default_eval_metric": True, "nthread": run.threads,
        "seed": run.seed,
    }  # fmt: skip
    model = library.api.train(
        settings, matrix(train), run.iterations, evals=[(matrix(held_out), "validation")], obj=_gradient_of_normal,
        custom_metric=_loss_of_normal, early_stopping_rounds=PATIENCE, verbose_eval=False,
    )  # fmt: skip
    found = model.predict(matrix(problem.test), iteration_range=(0, model.best_iteration + 1)).astype(np.float64)
    return normal(mean + std * found[:, 0], std * np.exp(found[:, 1]))


def _distributions_of_ours(problem: Problem, run: Effort, **parameters: Any) -> Forecast:
    parameters = {"loss": "distribution:normal", **parameters}
    found = fitted_ours(problem, run, **parameters).predict_dist(problem.test.X)
    return Forecast(found, is_normal=parameters["loss"] == "distribution:normal")


DISTRIBUTIONS = Part(
    name="distributions",
    kinds=("regression",),
    peers=(
        Contestant("CatBoost", _distributions_of_catboost, ("catboost",)),
        Contestant("XGBoost, normal", _distributions_of_xgboost, ("xgboost-cpu",), json.dumps(SETTINGS_OF_XGBOOST)),
        Contestant(BOTH_OF_NGBOOST[0], _ngboost, ("ngboost",)),
        Contestant(BOTH_OF_NGBOOST[1], _ngboost_with_stopping, ("ngboost",)),
        Contestant("NGBoost, log-normal", partial(_ngboost, kind="LogNormal"), ("ngboost",)),
    ),
    ours=_distributions_of_ours,
    score=_score_distributions,
)


PARTS = {part.name: part for part in (INTERVALS, QUANTILES, CLASSES, DISTRIBUTIONS)}
SHARE_FOR_TRAINING = 0.8
"""Of the rows that `split` takes for fitting; the others are its validation rows, which are not used as such here."""


def measured(record: Record, part: Part, contestant: Contestant, problem: Problem, run: Effort) -> Record:
    """The record with the scores of a contestant, or with the error that it raised."""
    try:
        began = time.perf_counter()
        with threadpool_limits(run.threads):
            predicted = contestant.predict(problem, run)
        seconds = time.perf_counter() - began
        scores = part.score(predicted, problem.test)
        unknown = [name for name, value in scores.items() if not math.isfinite(value)]
        if unknown:
            return replace(record, error=f"not finite: {', '.join(unknown)}")
    except Exception as error:  # a library that cannot be fitted to a table must not stop the others
        text = next(iter(str(error).splitlines()), "")
        return replace(record, error=f"{type(error).__name__}: {text}"[:300])
    return replace(record, scores=scores, seconds=seconds)


def progress(record: Record) -> str:
    """A line about a record."""
    where = f"{record.part}, {record.task}, split {record.seed}: {record.contestant}"
    if record.scores is None:
        return f"{where} failed: {record.error}"
    figures = ", ".join(f"{name} {value:.5g}" for name, value in record.scores.items())
    return f"{where}: {figures}, {record.seconds:.2f} s"


class Benchmark:
    """The measurements of one part that the arguments ask for."""

    def __init__(self, args: argparse.Namespace, part: Part) -> None:
        self._args = args
        self._part = part
        tasks = all_tasks(args.data)
        unknown = set(args.only or ()) - set(tasks)
        if unknown:
            raise ValueError(f"Unknown tasks: {', '.join(sorted(unknown))}. Tasks: {', '.join(tasks)}.")
        chosen = (tasks[name] for name in args.only or tasks)
        self._tasks = [task for task in chosen if task.kind in part.kinds]
        self._contestants = self._installed()
        self._path: Path = args.out / f"{part.name}.jsonl"
        self._done = {record.key for record in read(self._path, Record) if record.error is None or not args.retry}

    def run(self) -> None:
        """Measure everything that is not stored yet, one fit at a time."""
        for task in self._tasks:
            rows: Rows | None = None
            for seed in range(self._args.splits):
                pending = list(self._pending(task, seed))
                if not pending:
                    continue
                rows = rows or task.load()
                problem = split(task, rows, seed, int(SHARE_FOR_TRAINING * self._args.rows))
                run = Effort(self._args.iterations, seed, self._args.threads)
                for contestant, record in pending:
                    record = measured(record, self._part, contestant, problem, run)
                    append(self._path, record)
                    print(progress(record), flush=True)

    def _installed(self) -> list[tuple[Contestant, str]]:
        """The contestants that were asked for, with their versions."""
        contestants = list(self._part.peers)
        if not self._args.only_peers:
            contestants += [self._part.of_ours(), *(self._part.of_ours(n, **p) for n, p in self._args.ours)]
        names = self._args.contestants
        found = []
        for contestant in contestants:
            version = contestant.version()
            if version is None:
                print(f"{contestant.name} is skipped: {' or '.join(contestant.packages)} is not installed")
            elif names is None or contestant.name in names:
                found.append((contestant, version))
        return found

    def _pending(self, task: Task, seed: int) -> Iterator[tuple[Contestant, Record]]:
        """The records of a split, without results, that are not stored yet."""
        for contestant, version in self._contestants:
            record = Record(
                part=self._part.name, task=task.name, kind=task.kind, seed=seed, contestant=contestant.name,
                is_ours=contestant.is_ours, settings=contestant.settings, version=version, rows=self._args.rows,
                iterations=self._args.iterations, threads=self._args.threads,
            )  # fmt: skip
            if record.key not in self._done:
                yield contestant, record


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with suite/ and large/; needed unless --report is given")
    parser.add_argument("--out", type=Path, default=Path("out/uncertainty"))
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--only", nargs="*", help="names of tables (default: all)")
    parser.add_argument("--contestants", nargs="*", help="names of contestants (default: all)")
    parser.add_argument("--only-peers", action="store_true", help="without agbm")
    parser.add_argument("--ours", action="append", default=[], type=of_ours, help="'name={JSON of parameters}'")
    parser.add_argument("--splits", type=int, default=1, help="number of splits")
    parser.add_argument("--rows", type=int, default=15_000, help="maximum number of rows for fitting")
    parser.add_argument("--iterations", type=int, default=2_000, help="maximum number where there is early stopping")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    if args.data is None and not args.report:
        parser.error("--data is needed, unless --report is given")
    return args


def main() -> None:
    """Measure what is missing and write the page."""
    args = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)  # of MAPIE, for quantiles that cross
    os.environ["LOKY_MAX_CPU_COUNT"] = str(args.threads)  # crepes asks joblib for as many threads as there are
    for name in () if args.report else args.parts:
        Benchmark(args, PARTS[name]).run()
    records = [record for name in PARTS for record in read(args.out / f"{name}.jsonl", Record)]
    path = args.out / "uncertainty.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(records, args.rows, args.iterations))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
