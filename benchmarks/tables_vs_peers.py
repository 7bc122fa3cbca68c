"""Test losses on real data with categories, missing values and many classes, for agbm, LightGBM and scikit-learn.

Reads public data sets as CSV files (xz) with a header from a folder: adult, covertype, diabetes130, diamonds,
beijing_air_quality, kddcup99_10pct, nycflights13 and shuttle. Missing files are skipped. Every library gets the same
data frame with categorical columns, 100 iterations, depth 6, 70 % of the rows (of at most 60,000 if there are more than
two classes), and no early stopping. Prints the log loss or half the mean squared error on the other rows, the time of
the fit, and the loss relative to LightGBM's with the same learning rate.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier, AGBMRegressor
from tables import classifies as are_classes
from tables import read

MOST_ROWS = 60_000

SETS = (
    "adult", "flights (delayed)", "diabetes-130", "covertype", "shuttle", "kddcup99", "diamonds (log)",
    "Beijing air (log)",
)  # fmt: skip


def contestants(classifies: bool) -> dict[str, Any]:
    """Estimators by name; the number is the learning rate."""
    ours = AGBMClassifier if classifies else AGBMRegressor
    theirs = lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor
    hist = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    plain: dict[str, Any] = {"method": "gbm", "second_order": True, "l2_regularization": 0.0, "early_stopping": False}
    trees = {"n_estimators": 100, "max_depth": 6, "num_leaves": 64, "verbose": -1}
    return {
        "LightGBM 0.1": theirs(learning_rate=0.1, **trees),
        "scikit-learn 0.1": hist(max_depth=6, max_leaf_nodes=64, early_stopping=False),
        "gbm 0.1": ours(learning_rate=0.1, **plain),
        "LightGBM 0.3": theirs(learning_rate=0.3, **trees),
        "gbm 0.3": ours(learning_rate=0.3, **plain),
        "default": ours(early_stopping=False),
    }


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=list(SETS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.only:
        data = read(args.folder, name)
        if data is None:
            print(f"{name}: file not found")
            continue
        X, y = data
        classifies = are_classes(y)
        if classifies and len(np.unique(y)) > 2 and len(y) > MOST_ROWS:
            X = X.sample(MOST_ROWS, random_state=0)
            X, y = X.reset_index(drop=True), y[X.index]
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=0, stratify=y if classifies else None
        )
        largest = max((X[c].nunique() for c in X.select_dtypes("category")), default=0)
        classes = f"{len(np.unique(y))} classes" if classifies else "regression"
        print(f"\n{name}: {len(train)} rows, {X.shape[1]} features, up to {largest} categories, {classes}")
        reference: dict[str, float] = {}
        for who, model in contestants(classifies).items():
            began = time.perf_counter()
            try:
                model.fit(X.iloc[train], y[train])
            except ValueError as error:
                print(f"  {who:18} failed: {str(error)[:70]}")
                continue
            seconds = time.perf_counter() - began
            if classifies:
                loss = log_loss(y[test], model.predict_proba(X.iloc[test]), labels=model.classes_)
            else:
                loss = float(np.mean((model.predict(X.iloc[test]) - y[test]) ** 2) / 2)
            step = "0.3" if who.endswith("0.3") else "0.1"
            reference.setdefault(step, loss)
            print(f"  {who:18}{loss:10.5f}{seconds:8.1f} s{loss / reference[step]:10.3f}")


if __name__ == "__main__":
    main()
