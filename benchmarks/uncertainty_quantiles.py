"""Several quantiles of the target: the part `quantiles` of uncertainty.py.

All libraries stop early on the same 20 % of the rows, with the same patience. Learning rates are the defaults, besides
XGBoost's, which is 0.1 instead of 0.3. LightGBM and HistGradientBoosting fit one model per level, each of which stops
on its own. CatBoost (MultiQuantile), XGBoost and agbm fit all levels at once. agbm holds out rows as its defaults do.
"""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

from suite_contestants import PATIENCE, Run, merging, with_text
from suite_tables import Array, Problem, Rows
from uncertainty_parts import Contestant, Part, fitted_ours, lightgbm_settings, parted
from uncertainty_scores import crossing, pinball

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
MEAN_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels whose losses are averaged; the one at 0.9 is reported alone."""


def score(predicted: Array, test: Rows) -> dict[str, float]:
    """Pinball losses, and the share of rows in which a higher level has a lower prediction."""
    losses = {level: float(np.mean(pinball(predicted[:, i], test.y, level))) for i, level in enumerate(LEVELS)}
    return {
        "pinball": float(np.mean([losses[level] for level in MEAN_LEVELS])),
        **{f"pinball {level:g}": loss for level, loss in losses.items()},
        "crossing": crossing(predicted),
    }


def lightgbm_quantile(train: Rows, held_out: Rows, run: Run, level: float) -> Any:
    """A fitted model of LightGBM for one level, which stops early."""
    parameters = lightgbm_settings(run, objective="quantile", alpha=level, n_estimators=run.iterations)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.LGBMRegressor(**parameters)
    return model.fit(train.X, train.y, eval_set=[(held_out.X, held_out.y)], callbacks=[stop])


def _lightgbm(problem: Problem, run: Run) -> Array:
    train, held_out = parted(problem.both, run)
    models = [lightgbm_quantile(train, held_out, run, level) for level in LEVELS]
    return np.column_stack([model.predict(problem.test.X) for model in models])


def _sklearn(problem: Problem, run: Run) -> Array:
    """Fit HistGradientBoosting; the iterations after the best one are removed, as they are for the others."""
    train, held_out = parted(problem.both, run)
    adapt = merging(train.X)
    X, X_val, X_test = (adapt(rows.X) for rows in (train, held_out, problem.test))
    columns = []
    for level in LEVELS:
        model = HistGradientBoostingRegressor(
            loss="quantile", quantile=level, early_stopping=True, max_iter=run.iterations, n_iter_no_change=PATIENCE,
            random_state=run.seed,
        )  # fmt: skip
        model.fit(X, train.y, X_val=X_val, y_val=held_out.y)
        del model._predictors[int(np.argmax(model.validation_score_)) :]  # the first score is that of no trees
        columns.append(model.predict(X_test))
    return np.column_stack(columns)


def _catboost(problem: Problem, run: Run) -> Array:
    train, held_out = parted(problem.both, run)
    model = catboost.CatBoostRegressor(
        loss_function=f"MultiQuantile:alpha={','.join(map(str, LEVELS))}", iterations=run.iterations,
        early_stopping_rounds=PATIENCE, thread_count=run.threads, random_seed=run.seed, allow_writing_files=False,
        logging_level="Silent", cat_features=problem.categorical,
    )  # fmt: skip
    model.fit(with_text(train.X), train.y, eval_set=(with_text(held_out.X), held_out.y))
    return np.asarray(model.predict(with_text(problem.test.X)))


def _xgboost(problem: Problem, run: Run) -> Array:
    train, held_out = parted(problem.both, run)
    model = xgboost.XGBRegressor(
        objective="reg:quantileerror", quantile_alpha=np.array(LEVELS), n_estimators=run.iterations, learning_rate=0.1,
        early_stopping_rounds=PATIENCE, n_jobs=run.threads, random_state=run.seed, enable_categorical=True,
    )  # fmt: skip
    model.fit(train.X, train.y, eval_set=[(held_out.X, held_out.y)], verbose=False)
    return np.asarray(model.predict(problem.test.X))


def _ours(problem: Problem, run: Run, **parameters: Any) -> Array:
    from agbm.losses import Quantile

    # The loss accepts several levels where the library has them.
    loss: Any = Quantile(list(LEVELS))  # type: ignore[arg-type, unused-ignore]
    return np.asarray(fitted_ours(problem, run, **{"loss": loss, **parameters}).predict(problem.test.X))


PART = Part(
    name="quantiles",
    kinds=("regression",),
    peers=(
        Contestant("LightGBM", _lightgbm, ("lightgbm",)),
        Contestant("HistGradientBoosting", _sklearn, ("scikit-learn",)),
        Contestant("CatBoost", _catboost, ("catboost",)),
        Contestant("XGBoost", _xgboost, ("xgboost-cpu",)),
    ),
    ours=_ours,
    score=score,
)
