"""CatBoost."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from .base import BINS, PATIENCE, RATE, Array, Effort, Library, Model, Rows, Setting, Work, given, timed, with_text


class CatBoost(Library):
    """CatBoost; for times, without what makes it slower: random scores, bootstrap, ordered boosting."""

    name = "CatBoost"
    module = "catboost"
    package = "catboost"
    classes: ClassVar[dict[str, str]] = {
        "classes": "CatBoostClassifier", "values": "CatBoostRegressor", "counts": "CatBoostRegressor",
        "ranking": "CatBoostRanker",
    }  # fmt: skip
    remark = "oblivious trees with one split per level; no minimum number of rows per leaf"

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        """One tree per iteration, also for several classes."""
        settings: dict[str, Any] = {
            "thread_count": effort.threads, "random_seed": effort.seed, "allow_writing_files": False,
            "logging_level": "Silent",
        }  # fmt: skip
        settings |= given(
            iterations=effort.iterations, loss_function={"counts": "Poisson", "ranking": "YetiRank"}.get(kind)
        )
        keywords = {}
        if held_out is not None:
            metric = "NDCG:top=10;type=Exp" if kind == "ranking" else None
            settings |= given(early_stopping_rounds=PATIENCE, eval_metric=metric)
            keywords["eval_set"] = self._pool(held_out)
        model = self.estimator(kind, **(settings | parameters))
        seconds = timed(model.fit, self._pool(rows), **keywords)
        predict = partial(model.predict, thread_count=effort.threads)
        form = {"classes": "Probability", "counts": "Exponent", "values": "RawFormulaVal"}.get(kind)
        if form is not None and "loss_function" not in parameters:
            predict = partial(predict, prediction_type=form)
        return Model(model, predict, seconds, model.tree_count_, model.tree_count_, with_text)

    def _pool(self, rows: Rows) -> Any:
        columns = given(weight=rows.weight, baseline=rows.offset, group_id=rows.qid)
        return self.api.Pool(with_text(rows.X), rows.y, cat_features=rows.categorical, **columns)

    def expected_counts(self, model: Model, rows: Rows) -> Array:
        """A model with offsets does not know those of other rows."""
        raw = model.fitted.predict(with_text(rows.X), prediction_type="RawFormulaVal")
        return np.asarray(np.exp(raw + rows.offset))

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        return self.api.CatBoost({
            "loss_function": "Logloss" if setting.logistic else "RMSE", "iterations": setting.trees,
            "depth": setting.depth, "learning_rate": RATE, "border_count": BINS - 1, "l2_leaf_reg": 0,
            "bootstrap_type": "No", "random_strength": 0, "boosting_type": "Plain", "leaf_estimation_iterations": 1,
            "score_function": "L2", "metric_period": setting.trees, "thread_count": setting.threads,
            "allow_writing_files": False, "logging_level": "Silent",
        }).fit(self.api.Pool(X, y))  # fmt: skip

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        return model.predict(X, thread_count=threads)

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        return lambda: self.api.Pool(X, y, thread_count=setting.threads).quantize(border_count=BINS - 1)
