"""Compare the defaults of agbm, LightGBM, XGBoost, CatBoost and scikit-learn by cross-validation.

python examples/compare_libraries.py

Libraries that are not installed are left out. The table is small, so the result says little about others:
docs/quality.md has 36 larger tables, and `agbm compare` compares the libraries on your own.
"""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # of HistGradientBoosting, before it is imported; the others take an argument

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_score

from agbm import AGBMRegressor

OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "LightGBM": ("lightgbm", "LGBMRegressor", {"n_jobs": 1, "verbose": -1}),
    "XGBoost": ("xgboost", "XGBRegressor", {"n_jobs": 1}),
    "CatBoost": ("catboost", "CatBoostRegressor", {"thread_count": 1, "verbose": False, "allow_writing_files": False}),
}
"""Module and class of each, and arguments for one thread and no output; all other settings are defaults."""


def estimators() -> dict[str, Any]:
    """Return the default estimator of every library that is installed."""
    found: dict[str, Any] = {"agbm": AGBMRegressor(n_jobs=1), "HistGradientBoosting": HistGradientBoostingRegressor()}
    for name, (module, regressor, arguments) in OTHERS.items():
        try:
            found[name] = getattr(import_module(module), regressor)(**arguments)
        except ImportError:
            print(f"{name} is not installed: pip install {module}")
    return found


def main() -> None:
    """Print the error of every library, and how it differs from that of agbm on the same folds."""
    X, y = load_diabetes(return_X_y=True)
    print("RMSE on diabetes, 5 folds")
    ours = None
    for name, estimator in estimators().items():
        began = time.perf_counter()
        errors = -cross_val_score(estimator, X, y, scoring="neg_root_mean_squared_error", cv=5)
        seconds = time.perf_counter() - began
        ours = errors if ours is None else ours
        more = errors - ours
        margin = more.std(ddof=1) / np.sqrt(len(more))
        print(f"{name:21} {errors.mean():6.2f}, agbm's plus {more.mean():5.2f} ± {margin:.2f}, {seconds:5.2f} s")


if __name__ == "__main__":
    main()
