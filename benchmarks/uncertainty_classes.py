"""Sets of classes with coverage 0.9, and calibration of probabilities: the part `classes` of uncertainty.py.

MAPIE (with its default score, LAC) and crepes (with its defaults: hinge, smoothed) calibrate LightGBM with its default
settings on 20 % of the rows, stratified by class. LightGBM and CatBoost with default settings are references for the
probabilities: they have no sets. The expected calibration error (ECE) is that of the most probable class, in 15 bins
with equal numbers of rows. The log loss tells good probabilities from those that are calibrated but say little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np
from crepes import WrapClassifier
from mapie.classification import SplitConformalClassifier

from suite_contestants import OUT_OF_THE_BOX, Fit, Run, fit_catboost, fit_lightgbm
from suite_tables import Array, Problem, Rows, loss
from uncertainty_parts import Contestant, Part, Predict, fitted_ours, lightgbm_settings, parted
from uncertainty_scores import COVERAGE, calibration_error, coverage


@dataclass(frozen=True)
class Classes:
    """Predictions for the test rows, both (row, class). Sets are None if a contestant has none."""

    probabilities: Array
    sets: Array | None = None


def score(predicted: Classes, test: Rows) -> dict[str, float]:
    """Coverage with its counts and the mean size of sets, if there are some; ECE and log loss."""
    scores: dict[str, float] = {}
    if predicted.sets is not None:
        scores = coverage(predicted.sets[np.arange(len(test.y)), test.y])
        scores["size"] = float(np.mean(np.sum(predicted.sets, axis=1)))
    # The loss of all kinds of classes is the same.
    log_loss = loss("multiclass", predicted.probabilities, test)
    return scores | {"ECE": calibration_error(predicted.probabilities, test.y), "log loss": log_loss}


def _mapie(problem: Problem, run: Run) -> Classes:
    train, calibration = parted(problem.both, run, classifies=True)
    learner = lightgbm.LGBMClassifier(**lightgbm_settings(run)).fit(train.X, train.y)
    model = SplitConformalClassifier(learner, confidence_level=COVERAGE, random_state=run.seed)
    _, sets = model.conformalize(calibration.X, calibration.y).predict_set(problem.test.X)
    return Classes(learner.predict_proba(problem.test.X), sets[:, :, 0].astype(bool))


def _crepes(problem: Problem, run: Run) -> Classes:
    train, calibration = parted(problem.both, run, classifies=True)
    model = WrapClassifier(lightgbm.LGBMClassifier(**lightgbm_settings(run)))
    model.fit(train.X, train.y)
    model.calibrate(calibration.X, calibration.y, seed=run.seed)
    sets = model.predict_set(problem.test.X, labels=False, confidence=COVERAGE)
    return Classes(model.predict_proba(problem.test.X), np.asarray(sets).astype(bool))


def _only_probabilities(fit: Fit) -> Predict:
    def predict(problem: Problem, run: Run) -> Classes:
        return Classes(fit(problem, replace(run, protocol=OUT_OF_THE_BOX)).predicted)

    return predict


def _ours(problem: Problem, run: Run, **parameters: Any) -> Classes:
    model = fitted_ours(problem, run, **parameters)
    X = problem.test.X
    return Classes(model.predict_proba(X), np.asarray(model.predict_set(X, coverage=COVERAGE)).astype(bool))


PART = Part(
    name="classes",
    kinds=("binary", "multiclass"),
    peers=(
        Contestant("MAPIE, LAC", _mapie, ("mapie", "lightgbm")),
        Contestant("crepes", _crepes, ("crepes", "lightgbm")),
        Contestant("LightGBM", _only_probabilities(fit_lightgbm), ("lightgbm",)),
        Contestant("CatBoost", _only_probabilities(fit_catboost), ("catboost",)),
    ),
    ours=_ours,
    score=score,
)
