"""Fits of models to the training rows, and their losses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ...._base.sums import Array
from ...._core.training import Record
from ...._estimators.base import BaseAGBM
from ....methods import Fading
from ..metrics import Metric, Split
from ..tasks import Task, task_of


class Fits:
    """Fits models to the training rows of a split."""

    def __init__(self, split: Split, task: Task, fixed: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self.split = split
        self._task = task
        self.fixed = fixed
        self._shared = {**fixed, **shared}

    def resolved(self) -> dict[str, Any]:
        """All parameters of the default, with numbers in place of "auto"."""
        model = self({"max_iter": 1})
        names = ("learning_rate", "max_leaf_nodes", "min_samples_leaf", "l2_regularization", "colsample_bynode")
        automatic = {name: model.resolved_params_[name] for name in names}
        return {**model.set_params(**self._shared).get_params(), **automatic}

    def __call__(self, parameters: Mapping[str, Any], watcher: Callable[[Record], None] | None = None) -> BaseAGBM:
        callbacks = [] if watcher is None else [watcher]
        model = self._task.estimator(method=Fading(), callbacks=callbacks).set_params(**{**self._shared, **parameters})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # expected for some parameters of a search
            self._task.fit_with(model, self.split)
        model.set_params(callbacks=None)
        return model

    def scaled(self, loss: float) -> float:
        """Convert the loss of a record to that of the task."""
        return self._task.loss_scale * loss

    def loss(self, model: BaseAGBM) -> float:
        """The validation loss of a fitted model."""
        return self.scaled(float(model.history_["validation_loss"][model.best_iteration_]))

    def evaluate(self, model: BaseAGBM) -> tuple[list[Metric], Array]:
        """Metrics, and the loss of each test row."""
        task = task_of(model)
        return task.evaluate(self.split.y_test, task.predict(model, self.split.X_test))

    @property
    def loss_name(self) -> str:
        """The name of the loss."""
        return self._task.loss
