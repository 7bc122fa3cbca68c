"""scikit-learn's HistGradientBoosting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from .base import (
    BINS,
    MIN_ROWS_IN_LEAF,
    PATIENCE,
    RATE,
    Effort,
    Library,
    Model,
    Rows,
    Setting,
    Work,
    given,
    timed,
)

MAX_CATEGORIES = 255


class HistGradientBoosting(Library):
    """HistGradientBoosting; for times and predictions, the caller limits the threads of OpenMP."""

    name = "HistGradientBoosting"
    module = "sklearn.ensemble"
    package = "scikit-learn"
    classes: ClassVar[dict[str, str]] = {
        "classes": "HistGradientBoostingClassifier", "values": "HistGradientBoostingRegressor",
        "counts": "HistGradientBoostingRegressor",
    }  # fmt: skip
    takes_sparse = False

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        """Rare categories are merged; it has neither offsets nor rankings.

        After early stopping it would predict with all iterations. Those after the best one are removed.
        """
        settings: dict[str, Any] = {"random_state": effort.seed}
        settings |= given(max_iter=effort.iterations, loss="poisson" if kind == "counts" else None)
        keywords = given(sample_weight=rows.weight)
        adapt = merging(rows.X)
        if held_out is not None:
            settings |= {"n_iter_no_change": PATIENCE, "early_stopping": True}
            keywords |= given(X_val=adapt(held_out.X), y_val=held_out.y, sample_weight_val=held_out.weight)
        model = self.estimator(kind, **(settings | parameters))
        X = adapt(rows.X)
        with threadpool_limits(effort.threads):
            seconds = timed(model.fit, X, rows.y, **keywords)
        if held_out is not None:
            del model._predictors[int(np.argmax(model.validation_score_)) :]  # the first score is that of no trees
        iterations = len(model._predictors)
        predict = model.predict_proba if kind == "classes" else model.predict
        return Model(model, predict, seconds, iterations, iterations * model.n_trees_per_iteration_, adapt)

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        return self.estimator(
            "classes" if setting.logistic else "values", learning_rate=RATE, max_iter=setting.trees,
            max_depth=setting.depth, max_leaf_nodes=2**setting.depth, min_samples_leaf=MIN_ROWS_IN_LEAF, max_bins=BINS,
            early_stopping=False,
        ).fit(X, y)  # fmt: skip

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

        # It bins float64 only, so its fit also converts X first.
        return lambda: _BinMapper(n_bins=BINS + 1, random_state=0, n_threads=setting.threads).fit_transform(
            X.astype(np.float64, copy=False)
        )


def merging(X: Any, most: int = MAX_CATEGORIES) -> Callable[[Any], Any]:
    """A function that merges the rarest categories of X, so that no column has more than `most`."""
    if not isinstance(X, pd.DataFrame):
        return lambda other: other
    kept = {
        name: X[name].value_counts().index[: most - 1]
        for name in X.select_dtypes("category")
        if len(X[name].cat.categories) > most
    }

    def merge(column: pd.Series, frequent: pd.Index) -> pd.Series:
        codes = pd.Series(frequent.get_indexer(column.astype(frequent.dtype)), index=column.index)
        return codes.where(codes >= 0, most - 1).where(column.notna()).astype("category")

    def adapt(other: pd.DataFrame) -> pd.DataFrame:
        return other.assign(**{name: merge(other[name], frequent) for name, frequent in kept.items()})

    return adapt
