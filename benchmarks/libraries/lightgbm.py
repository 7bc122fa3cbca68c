"""LightGBM."""

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


class LightGBM(Library):
    """LightGBM's estimators; for times, its Dataset and Booster."""

    name = "LightGBM"
    module = "lightgbm"
    package = "lightgbm"
    classes: ClassVar[dict[str, str]] = {
        "classes": "LGBMClassifier", "values": "LGBMRegressor", "counts": "LGBMRegressor", "ranking": "LGBMRanker",
    }  # fmt: skip
    quantised: ClassVar[bool] = False

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        settings = {"n_jobs": effort.threads, "random_state": effort.seed, "verbose": -1}
        settings |= given(n_estimators=effort.iterations, objective="poisson" if kind == "counts" else None)
        keywords = given(sample_weight=rows.weight, init_score=rows.offset, group=rows.sizes)
        if held_out is not None:
            keywords |= given(
                eval_set=[(held_out.X, held_out.y)], eval_sample_weight=listed(held_out.weight),
                eval_init_score=listed(held_out.offset), eval_group=listed(held_out.sizes),
                eval_at=[10] if kind == "ranking" else None,
                callbacks=[self.api.early_stopping(PATIENCE, verbose=False)],
            )  # fmt: skip
        model = self.estimator(kind, **(settings | parameters))
        seconds = timed(model.fit, rows.X, rows.y, **keywords)
        iterations = model.n_estimators_ if held_out is None else model.best_iteration_
        per_iteration = model.n_classes_ if kind == "classes" and model.n_classes_ > 2 else 1
        predict = model.predict_proba if kind == "classes" else model.predict
        return Model(model, predict, seconds, iterations, iterations * per_iteration)

    def expected_counts(self, model: Model, rows: Rows) -> Array:
        """A model with offsets does not know those of other rows."""
        return np.asarray(np.exp(model.fitted.predict(rows.X, raw_score=True) + rows.offset))

    def parameters(self, setting: Setting) -> dict[str, Any]:
        """The parameters of trees of a given size."""
        return {
            "objective": setting.objective("regression", "binary", "multiclass"), "max_depth": setting.depth,
            "num_class": setting.n_classes if setting.n_classes > 2 else 1,
            "num_leaves": 2**setting.depth, "max_bin": BINS, "min_data_in_bin": 1, "learning_rate": RATE,
            "min_data_in_leaf": MIN_ROWS_IN_LEAF, "num_threads": setting.threads, "verbose": -1,
            "use_quantized_grad": self.quantised,
        }  # fmt: skip

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        parameters = self.parameters(setting)
        return self.api.train(parameters, self.api.Dataset(X, y, params=parameters), setting.trees)

    def fit_on_dask(self, X: Any, y: Any, setting: Setting) -> Callable[[np.ndarray], np.ndarray]:
        """Fit with distributed rows (data parallel)."""
        from lightgbm.dask import DaskLGBMClassifier

        model = DaskLGBMClassifier(
            tree_learner="data", n_estimators=setting.trees, max_depth=setting.depth, num_leaves=2**setting.depth,
            max_bin=BINS, min_data_in_bin=1, learning_rate=RATE, min_child_samples=MIN_ROWS_IN_LEAF,
            min_child_weight=0.0, verbose=-1,
        ).fit(X, y)  # fmt: skip
        return lambda rows: np.asarray(model.booster_.predict(rows))

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        return model.predict(X, num_threads=threads)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        parameters = self.parameters(setting)
        booster = self.api.Booster(parameters, self.api.Dataset(X, y, params=parameters).construct())
        return lambda: booster.update()

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        return lambda: self.api.Dataset(X, y, params=self.parameters(setting)).construct()


class QuantisedLightGBM(LightGBM):
    """LightGBM with quantised gradients."""

    name = "LightGBM quantised"
    quantised = True

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> None:
        """None, since its bins are the same as LightGBM's."""
