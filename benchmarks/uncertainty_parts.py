"""What the parts of uncertainty.py share: contestants, held-out rows, and how features are prepared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from records import OURS, Installed
from suite_contestants import Run
from suite_tables import Array, Problem, Rows, stratified_order

BOTH_OF_NGBOOST = ("NGBoost, 500 iterations", "NGBoost, early stopping")
HELD_OUT = 0.2
"""Share of the rows that a contestant holds out for calibration, and of those for early stopping."""

Predict = Callable[[Problem, Run], Any]


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
        classifies = self.kinds[0] in ("binary", "multiclass")
        defaults = _estimator(classifies)().get_params(deep=False)
        settings = json.dumps({**defaults, **parameters}, sort_keys=True, default=str)
        return Contestant(name, partial(self.ours, **parameters), (OURS,), settings)


def _estimator(classifies: bool) -> Any:
    return getattr(import_module("agbm"), "AGBMClassifier" if classifies else "AGBMRegressor")


def fitted_ours(problem: Problem, run: Run, **parameters: Any) -> Any:
    """A model of agbm, fitted to all rows but the test rows."""
    model = _estimator(problem.classifies)(random_state=run.seed, n_jobs=run.threads).set_params(**parameters)
    return model.fit(problem.both.X, problem.both.y)


def parted(rows: Rows, run: Run, classifies: bool = False) -> tuple[Rows, Rows]:
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


def lightgbm_settings(run: Run, **parameters: Any) -> dict[str, Any]:
    """Parameters of LightGBM: its defaults besides threads, seed and messages."""
    return {"n_jobs": run.threads, "random_state": run.seed, "verbose": -1, **parameters}
