"""agbm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .base import BINS, MIN_ROWS_IN_LEAF, PATIENCE, RATE, Array, Effort, Library, Model, Rows, Setting, Work, timed


class Ours(Library):
    """agbm: its default, plain boosting, or another method of the estimators."""

    name = "agbm"
    module = "agbm"
    package = "agbm"
    classes: ClassVar[dict[str, str]] = {
        "classes": "AGBMClassifier", "values": "AGBMRegressor", "counts": "AGBMRegressor", "ranking": "AGBMRanker",
        "survival": "AGBMSurvival",
    }  # fmt: skip

    def train(self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any) -> Model:
        """Train the default; a model without validation rows holds out its own if it stops early."""
        settings: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.threads}
        if effort.iterations is not None:
            settings |= {"max_iter": effort.iterations, "n_iter_no_change": PATIENCE}
        if kind == "counts":
            settings["loss"] = "poisson"
        columns = ["sample_weight", "offset", "qid"]
        keywords = dict(zip(columns, (rows.weight, rows.offset, rows.qid), strict=True))
        if held_out is not None:
            keywords |= {"X_val": held_out.X, "y_val": held_out.y}
            of_held_out = (held_out.weight, held_out.offset, held_out.qid)
            keywords |= dict(zip([f"{name}_val" for name in columns], of_held_out, strict=True))
        model = self.estimator(kind, **settings).set_params(**parameters)
        seconds = timed(model.fit, rows.X, rows.y, **{k: v for k, v in keywords.items() if v is not None})
        predict = model.predict_proba if kind == "classes" else model.predict
        return Model(model, predict, seconds, model.best_iteration_, model.n_trees_)

    def expected_counts(self, model: Model, rows: Rows) -> Array:
        return np.asarray(model.fitted.predict(rows.X, offset=rows.offset))

    def fit(self, X: Any, y: np.ndarray, setting: Setting, **parameters: Any) -> Any:
        """Fit plain boosting to the columns as they are; `parameters` replace its own."""
        parameters = {
            "method": "gbm", "method__second_order": True, "learning_rate": RATE, "max_iter": setting.trees,
            "max_depth": setting.depth, "min_samples_leaf": MIN_ROWS_IN_LEAF, "max_bins": BINS, "early_stopping": False,
            "n_jobs": setting.threads, "l2_regularization": 0.0,
        } | parameters  # fmt: skip
        return self.estimator("classes" if setting.logistic else "values").set_params(**parameters).fit(X, y)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting, kind: str = "gbm") -> Work:
        """`kind` is "gbm", or accelerated boosting with a "shared" tree or two "separate" trees."""
        from agbm._base import _native
        from agbm._core.boosting import agbm, gbm
        from agbm._core.objective import LocalObjective, of_each_output
        from agbm._core.schedules import PaperSchedule
        from agbm._tree import TreeLearner
        from agbm.losses import HalfSquaredError, LogLoss

        loss = (LogLoss() if setting.logistic else HalfSquaredError()).with_threads(setting.threads)
        start = np.full((1, len(y)), y.mean())
        labels = y[np.newaxis].astype(np.float64)
        problem = LocalObjective(of_each_output(loss), labels, len(y), start, None, setting.logistic, setting.threads)
        _native.begin_run()  # as a fit does
        learner = TreeLearner(
            max_depth=setting.depth, min_samples_leaf=MIN_ROWS_IN_LEAF, max_bins=BINS, n_threads=setting.threads,
            shared_structure=kind == "shared",
        )  # fmt: skip
        fitter = learner.bind(X, len(y), None, start)
        if kind == "gbm":
            steps = gbm(problem, fitter, eta=RATE, max_iter=10**6)
        else:
            steps = agbm(problem, fitter, schedule=PaperSchedule(RATE, 0.02), correction=0.5, length=lambda gamma: 1e6)
        return lambda: next(steps)

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        from agbm._tree.bins import Bins

        return lambda: Bins.from_data(X, BINS, n_threads=setting.threads).encode(X, setting.threads)
