"""XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .base import (
    BINS,
    MIN_ROWS_IN_LEAF,
    PATIENCE,
    RATE,
    Array,
    Effort,
    Library,
    Model,
    Rows,
    Setting,
    Work,
    given,
    listed,
    timed,
)


class XGBoost(Library):
    """XGBoost's estimators; for times, `hist` on a QuantileDMatrix."""

    name = "XGBoost"
    module = "xgboost"
    package = "xgboost-cpu"
    classes: ClassVar[dict[str, str]] = {
        "classes": "XGBClassifier", "values": "XGBRegressor", "counts": "XGBRegressor", "ranking": "XGBRanker",
    }  # fmt: skip
    remark = "the minimum leaf size is a sum of hessians, not a number of rows"

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        """With early stopping the learning rate is 0.1 instead of 0.3."""
        settings = {"n_jobs": effort.threads, "random_state": effort.seed, "enable_categorical": True}
        settings |= given(
            n_estimators=effort.iterations, objective={"counts": "count:poisson", "ranking": "rank:ndcg"}.get(kind)
        )
        keywords = given(sample_weight=rows.weight, base_margin=rows.offset, qid=rows.qid)
        if held_out is not None:
            settings |= given(
                learning_rate=RATE, early_stopping_rounds=PATIENCE, eval_metric="ndcg@10" if kind == "ranking" else None
            )
            keywords |= given(
                eval_set=[(held_out.X, held_out.y)], sample_weight_eval_set=listed(held_out.weight),
                base_margin_eval_set=listed(held_out.offset), eval_qid=listed(held_out.qid),
            )  # fmt: skip
        model = self.estimator(kind, **(settings | parameters))
        seconds = timed(model.fit, rows.X, rows.y, verbose=False, **keywords)
        iterations = model.get_booster().num_boosted_rounds() if held_out is None else model.best_iteration + 1
        per_iteration = model.n_classes_ if kind == "classes" and model.n_classes_ > 2 else 1
        predict = model.predict_proba if kind == "classes" else model.predict
        return Model(model, predict, seconds, iterations, iterations * per_iteration)

    def expected_counts(self, model: Model, rows: Rows) -> Array:
        return np.asarray(model.fitted.predict(rows.X, base_margin=rows.offset))

    def parameters(self, setting: Setting) -> dict[str, Any]:
        """The parameters of trees of a given size."""
        return {
            "objective": setting.objective("reg:squarederror", "binary:logistic", "multi:softprob"),
            "tree_method": "hist",
            **({"num_class": setting.n_classes} if setting.n_classes > 2 else {}),
            "max_depth": setting.depth, "max_bin": BINS, "learning_rate": RATE, "reg_lambda": 0,
            "nthread": setting.threads,
            # A row's hessian is 1 for squared error, at most a quarter for the logistic loss.
            "min_child_weight": MIN_ROWS_IN_LEAF * (0.25 if setting.logistic else 1),
        }  # fmt: skip

    def matrix(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """The binned table."""
        return self.api.QuantileDMatrix(X, y, max_bin=BINS, nthread=setting.threads)

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        return self.api.train(self.parameters(setting), self.matrix(X, y, setting), setting.trees)

    def fit_on_dask(self, X: Any, y: Any, setting: Setting) -> Callable[[np.ndarray], np.ndarray]:
        import distributed
        from xgboost import dask as xgboost_dask

        client = distributed.get_client()
        parameters = {name: value for name, value in self.parameters(setting).items() if name != "nthread"}
        with self.api.config_context(verbosity=0):
            matrix = xgboost_dask.DaskQuantileDMatrix(client, X, y, max_bin=BINS)
            booster = xgboost_dask.train(client, parameters, matrix, num_boost_round=setting.trees)["booster"]
        return lambda rows: np.asarray(booster.inplace_predict(rows))

    def fit_on_gpu(self, matrix: Any, depth: int, trees: int) -> Any:
        """Fit with defaults besides the depth, to a QuantileDMatrix in the memory of a GPU."""
        parameters = {"device": "cuda", "tree_method": "hist", "max_bin": 256, "max_depth": depth, "verbosity": 0}
        return self.api.train(parameters | {"objective": "binary:logistic"}, matrix, trees)

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        return model.inplace_predict(X)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        matrix = self.matrix(X, y, setting)
        booster = self.api.Booster(self.parameters(setting), [matrix])
        return lambda: booster.update(matrix, booster.num_boosted_rounds())

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        return lambda: self.matrix(X, y, setting)
