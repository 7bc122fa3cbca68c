"""The contestants of counts.py.

Boosting libraries get the same validation rows for early stopping, with the same patience and the same maximum number
of iterations; everything else is their default, except that XGBoost's learning rate is 0.1 instead of 0.3.

* agbm: `offset=log(exposure)`. Its default has several members, each of which holds out its own part of training and
  validation rows together. `agbm, one model` gets the validation rows as such.
* LightGBM (`init_score`), XGBoost (`base_margin`) and CatBoost (`baseline`) do not estimate a start where they get
  offsets. The offset is the logarithm of the exposure plus that of the mean rate of the training rows.
* HistGradientBoosting has no offsets: it gets rates, weighted by exposure, which is the same Poisson model. Iterations
  after the best one are removed, as the others do.
* The Poisson GLM of scikit-learn also gets weighted rates. Numbers become cubic splines with 6 knots at quantiles,
  categories are one-hot encoded (those with fewer than 50 rows together), and the l2 penalty with the lowest validation
  deviance of ALPHAS is used. Seconds are those of all these fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from records import OURS
from suite_contestants import merging, with_text
from trials import PATIENCE, Array, Contestant, Fitted, Run, settings_of, timed

ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
TOLERANCE = 1e-8
"""Of the gradient of the GLM: rates are small, so the default of 1e-4 stops after three steps."""
SMALLEST = 1e-15
"""Expected counts are clipped below at this value."""


@dataclass(frozen=True)
class Claims:
    """Features, counts, and exposures."""

    X: pd.DataFrame
    y: Array
    exposure: Array

    def __getitem__(self, rows: Array) -> Claims:
        """The chosen rows, given by position."""
        return Claims(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.exposure[rows])

    @property
    def offset(self) -> Array:
        """The logarithm of the exposure."""
        return np.asarray(np.log(self.exposure))

    @property
    def rate(self) -> Array:
        """Counts per unit of exposure."""
        return np.asarray(self.y / self.exposure)


@dataclass(frozen=True)
class Problem:
    """One table, split once."""

    train: Claims
    validation: Claims
    test: Claims

    @property
    def both(self) -> Claims:
        """Training and validation rows together."""
        parts = self.train, self.validation
        X = pd.concat([part.X for part in parts], ignore_index=True)
        return Claims(X, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "exposure")))

    @property
    def start(self) -> float:
        """The logarithm of the mean rate of the training rows."""
        return float(np.log(self.train.y.sum() / self.train.exposure.sum()))


def deviance_per_exposure(y: Array, expected: Array, exposure: Array) -> float:
    """The total Poisson deviance of counts, given their expectations, per unit of exposure."""
    expected = np.maximum(np.asarray(expected, np.float64), SMALLEST)
    deviance = 2.0 * (y * np.log(np.where(y > 0, y, 1.0) / expected) - y + expected)
    return float(np.sum(deviance) / np.sum(exposure))


def fit_ours(problem: Problem, run: Run, **parameters: Any) -> Fitted:
    """Fit agbm with its members, or with the validation rows if there is only one."""
    from agbm import AGBMRegressor

    model = AGBMRegressor(
        loss="poisson", max_iter=run.iterations, n_iter_no_change=PATIENCE, random_state=run.seed, n_jobs=run.threads
    ).set_params(**parameters)
    rows, held_out = problem.both, problem.validation
    keywords: dict[str, Any] = {}
    if parameters.get("n_members") == 1:
        rows = problem.train
        keywords = {"X_val": held_out.X, "y_val": held_out.y, "offset_val": held_out.offset}
    else:
        model.set_params(early_stopping=True)
    seconds = timed(model.fit, rows.X, rows.y, offset=rows.offset, **keywords)
    return Fitted(model.predict(problem.test.X, offset=problem.test.offset), seconds, model.n_trees_)


def fit_lightgbm(problem: Problem, run: Run) -> Fitted:
    """Fit LightGBM."""
    import lightgbm

    train, held_out, start = problem.train, problem.validation, problem.start
    model = lightgbm.LGBMRegressor(
        objective="poisson", n_estimators=run.iterations, n_jobs=run.threads, random_state=run.seed, verbose=-1
    )
    seconds = timed(
        model.fit, train.X, train.y, init_score=train.offset + start, eval_set=[(held_out.X, held_out.y)],
        eval_init_score=[held_out.offset + start], callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    raw = model.predict(problem.test.X, raw_score=True) + problem.test.offset + start
    return Fitted(np.exp(raw), seconds, model.best_iteration_)


def fit_xgboost(problem: Problem, run: Run) -> Fitted:
    """Fit XGBoost."""
    import xgboost

    train, held_out, start = problem.train, problem.validation, problem.start
    model = xgboost.XGBRegressor(
        objective="count:poisson", n_estimators=run.iterations, learning_rate=0.1, early_stopping_rounds=PATIENCE,
        enable_categorical=True, n_jobs=run.threads, random_state=run.seed,
    )  # fmt: skip
    seconds = timed(
        model.fit, train.X, train.y, base_margin=train.offset + start, eval_set=[(held_out.X, held_out.y)],
        base_margin_eval_set=[held_out.offset + start], verbose=False,
    )  # fmt: skip
    predicted = model.predict(problem.test.X, base_margin=problem.test.offset + start)
    return Fitted(predicted, seconds, model.best_iteration + 1)


def fit_catboost(problem: Problem, run: Run) -> Fitted:
    """Fit CatBoost."""
    import catboost

    start, categorical = problem.start, list(problem.train.X.select_dtypes("category"))

    def pool(rows: Claims) -> Any:
        return catboost.Pool(with_text(rows.X), rows.y, baseline=rows.offset + start, cat_features=categorical)

    model = catboost.CatBoostRegressor(
        loss_function="Poisson", iterations=run.iterations, early_stopping_rounds=PATIENCE, thread_count=run.threads,
        random_seed=run.seed, allow_writing_files=False, logging_level="Silent",
    )  # fmt: skip
    seconds = timed(model.fit, pool(problem.train), eval_set=pool(problem.validation))
    raw = model.predict(with_text(problem.test.X), prediction_type="RawFormulaVal")
    return Fitted(np.exp(raw + problem.test.offset + start), seconds, model.tree_count_)


def fit_sklearn(problem: Problem, run: Run) -> Fitted:
    """Fit scikit-learn's HistGradientBoosting to weighted rates."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    train, held_out, adapt = problem.train, problem.validation, merging(problem.train.X)
    model = HistGradientBoostingRegressor(
        loss="poisson", max_iter=run.iterations, n_iter_no_change=PATIENCE, early_stopping=True, random_state=run.seed
    )
    held_out_rows = {"X_val": adapt(held_out.X), "y_val": held_out.rate, "sample_weight_val": held_out.exposure}
    seconds = timed(model.fit, adapt(train.X), train.rate, sample_weight=train.exposure, **held_out_rows)
    del model._predictors[int(np.argmax(model.validation_score_)) :]  # the first score is that of no trees
    return Fitted(problem.test.exposure * model.predict(adapt(problem.test.X)), seconds, len(model._predictors))


def glm(X: pd.DataFrame, alpha: float) -> Any:
    """A Poisson GLM with splines and one-hot encodings."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    categorical = list(X.select_dtypes("category"))
    numeric = [name for name in X if name not in categorical]
    encoder = make_column_transformer(
        (SplineTransformer(n_knots=6, knots="quantile", extrapolation="constant"), numeric),
        (OneHotEncoder(min_frequency=50, handle_unknown="infrequent_if_exist"), categorical),
    )
    return make_pipeline(encoder, PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=TOLERANCE, max_iter=100))


def fit_glm(problem: Problem, run: Run) -> Fitted:
    """Fit a Poisson GLM to weighted rates, with the best of several penalties."""
    train, held_out, seconds = problem.train, problem.validation, 0.0
    found = []
    for alpha in ALPHAS:
        model = glm(train.X, alpha)
        seconds += timed(model.fit, train.X, train.rate, poissonregressor__sample_weight=train.exposure)
        expected = held_out.exposure * model.predict(held_out.X)
        found.append((deviance_per_exposure(held_out.y, expected, held_out.exposure), model))
    best = min(found, key=lambda pair: pair[0])[1]
    return Fitted(problem.test.exposure * best.predict(problem.test.X), seconds)


def contestants(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """All contestants; `more` are names and parameters of further ones of agbm."""
    from agbm import AGBMRegressor

    for name, parameters in [(OURS, {}), (f"{OURS}, one model", {"n_members": 1}), *more]:
        settings = settings_of(AGBMRegressor(), parameters)
        yield Contestant(name, partial(fit_ours, **parameters), (OURS,), settings)
    yield Contestant("LightGBM", fit_lightgbm, ("lightgbm",))
    yield Contestant("XGBoost", fit_xgboost, ("xgboost-cpu",))
    yield Contestant("CatBoost", fit_catboost, ("catboost",))
    yield Contestant("HistGradientBoosting", fit_sklearn, ("scikit-learn",))
    yield Contestant("Poisson GLM", fit_glm, ("scikit-learn",), f"alphas {ALPHAS}, tolerance {TOLERANCE}")
