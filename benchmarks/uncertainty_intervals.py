"""Prediction intervals with coverage 0.9: the part `intervals` of uncertainty.py.

MAPIE and crepes calibrate LightGBM with its default settings. Split methods hold out 20 % of the rows for calibration.
`MAPIE, CQR` fits quantiles at 0.05, 0.5 and 0.95 with 100 iterations; its variant with early stopping holds out another
20 % of the remaining rows for it. `MAPIE, CV+` uses 5 folds. crepes uses its own defaults: `normalised` divides
residuals by the standard deviation of the targets of 25 nearest neighbours, `Mondrian` calibrates ten bins of the
predictions, and `predictive system` takes percentiles of a conformal predictive system with both. agbm fits the same
three quantiles; `agbm` uses the rows that its members hold out (CV+), and `agbm, split` those that the others use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from crepes import WrapRegressor
from crepes.extras import DifficultyEstimator, MondrianCategorizer
from mapie.regression import ConformalizedQuantileRegressor, CrossConformalRegressor, SplitConformalRegressor

from records import OURS
from suite_contestants import Run
from suite_tables import Array, Problem, Rows
from uncertainty_parts import Contestant, Part, as_numbers, fitted_ours, lightgbm_settings, parted
from uncertainty_quantiles import lightgbm_quantile
from uncertainty_scores import CENTRAL_LEVELS, COVERAGE, of_intervals

MOST_ROWS_AT_ONCE = 2_000
"""CV+ compares every test row with every training row; more rows at once need too much memory."""


def score(bounds: Array, test: Rows) -> dict[str, float]:
    """Coverage with its counts, mean width and mean Winkler score."""
    return of_intervals(bounds, test.y)


def _learner(run: Run, **parameters: Any) -> Any:
    return lightgbm.LGBMRegressor(**lightgbm_settings(run, **parameters))


def _bounds(model: Any, X: pd.DataFrame) -> Array:
    """Intervals (row, bound) of a model of MAPIE."""
    starts = range(0, len(X), MOST_ROWS_AT_ONCE)
    return np.concatenate(
        [model.predict_interval(X.iloc[start : start + MOST_ROWS_AT_ONCE])[1][:, :, 0] for start in starts]
    )


def _mapie_cqr(problem: Problem, run: Run) -> Array:
    train, calibration = parted(problem.both, run)
    learner = _learner(run, objective="quantile", alpha=0.5)
    model = ConformalizedQuantileRegressor(learner, confidence_level=COVERAGE)
    model.fit(train.X, train.y).conformalize(calibration.X, calibration.y)
    return _bounds(model, problem.test.X)


def _mapie_cqr_with_stopping(problem: Problem, run: Run) -> Array:
    rows, calibration = parted(problem.both, run)
    train, validation = parted(rows, run)
    models = [lightgbm_quantile(train, validation, run, level) for level in (*CENTRAL_LEVELS, 0.5)]
    model = ConformalizedQuantileRegressor(models, confidence_level=COVERAGE, prefit=True)
    return _bounds(model.conformalize(calibration.X, calibration.y), problem.test.X)


def _mapie_cross(problem: Problem, run: Run) -> Array:
    model = CrossConformalRegressor(_learner(run), confidence_level=COVERAGE, cv=5, random_state=run.seed)
    return _bounds(model.fit_conformalize(problem.both.X, problem.both.y), problem.test.X)


def _mapie_split(problem: Problem, run: Run) -> Array:
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
        adapt = as_numbers(rows.X)
        return cls(adapt, DifficultyEstimator().fit(adapt(rows.X), y=rows.y, scaler=True))

    def apply(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.estimator.apply(self.adapt(X)))


def _crepes(problem: Problem, run: Run, *, normalised: bool, mondrian: bool, system: bool) -> Array:
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
    predict = partial(_crepes, normalised=normalised, mondrian=mondrian, system=system)
    return Contestant(name, predict, ("crepes", "lightgbm"))


def _ours(problem: Problem, run: Run, split: bool = False, **parameters: Any) -> Array:
    """Intervals by CV+, or by calibration with 20 % of the rows."""
    parameters = {"loss": "quantile:0.05,0.5,0.95", **parameters}
    train, calibration = parted(problem.both, run)
    model = fitted_ours(replace(problem, both=train) if split else problem, run, **parameters)
    if split:
        model.calibrate(calibration.X, calibration.y)
    return np.asarray(model.predict_interval(problem.test.X, coverage=COVERAGE))


PART = Part(
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
        Contestant("agbm, split", partial(_ours, split=True), (OURS,)),
    ),
    ours=_ours,
    score=score,
)
