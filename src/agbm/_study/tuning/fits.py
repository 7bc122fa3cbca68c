"""Fits of models to the training rows, and their losses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..._core.losses import Array
from ..._core.training import Record
from ..._estimators import AGBMClassifier, AGBMRegressor
from ...methods import Fading
from ..evaluation import Metric, Split, levels_of, score_predictions
from .results import Model


class Fits:
    """Fits models to the training rows of a split."""

    def __init__(self, split: Split, classifies: bool, fixed: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self.split = split
        self._kind: type[Model] = AGBMClassifier if classifies else AGBMRegressor
        self.fixed = fixed
        self._shared = {**fixed, **shared}
        self._scale = 1.0 if classifies else 2.0  # the loss of the model is half the squared error

    def resolved(self) -> dict[str, Any]:
        """All parameters of the default, with numbers in place of "auto"."""
        model = self({"max_iter": 1})
        names = ("max_leaf_nodes", "min_samples_leaf", "l2_regularization", "colsample_bynode")
        automatic = {name: model.resolved_params_[name] for name in names}
        return {**model.set_params(**self._shared).get_params(), **automatic}

    def __call__(self, parameters: Mapping[str, Any], watcher: Callable[[Record], None] | None = None) -> Model:
        callbacks = [] if watcher is None else [watcher]
        model = self._kind(method=Fading(), callbacks=callbacks).set_params(**{**self._shared, **parameters})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # expected for some parameters of a search
            model.fit(self.split.X, self.split.y, X_val=self.split.X_val, y_val=self.split.y_val)
        model.set_params(callbacks=None)
        return model

    def scaled(self, loss: float) -> float:
        """Convert the loss of a record to log loss or mean squared error."""
        return self._scale * loss

    def loss(self, model: Model) -> float:
        """The validation loss of a fitted model."""
        return self.scaled(float(model.history_["validation_loss"][model.best_iteration_]))

    def evaluate(self, model: Model) -> tuple[list[Metric], Array]:
        """Metrics, and the loss of each test row."""
        if isinstance(model, AGBMClassifier):
            return score_predictions(self.split.y_test, model.predict_proba(self.split.X_test), model.classes_)
        return score_predictions(self.split.y_test, model.predict(self.split.X_test), None, levels_of(model))

    @property
    def loss_name(self) -> str:
        """The name of the loss."""
        return "log loss" if self._kind is AGBMClassifier else "squared error"
