"""How good models are on rows they have not seen: metrics with intervals, and what is kept of a model that was tried.

Intervals are of 95 %, for the sampling of the rows alone: normal approximations of means over rows, Wilson's for
shares, DeLong's for the area under the ROC curve. They say nothing of other splits or seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata

from .._core.losses import Array
from .._data.rows import some_of

Z = 1.959963984540054  # of a normal distribution, 95 % of which are within ± Z


@dataclass(frozen=True)
class Metric:
    """A figure on test rows, and its interval."""

    name: str
    value: float
    low: float
    high: float
    lower_is_better: bool

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Split:
    """Rows to train on, to stop early by, and to judge by; tables of any kind that `fit` takes."""

    X: Any
    y: NDArray[Any]
    X_val: Any
    y_val: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


@dataclass(frozen=True)
class Tried:
    """A model that was trained and judged, or why it was not."""

    name: str
    seconds: float = math.nan
    """Of the whole fit."""
    trees: int = 0
    """Of the model that predicts."""
    best: int = 0
    """Where in the curve that model is."""
    curve: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Columns of `history_`, as far as they are known; at least trees, seconds and validation_loss."""
    metrics: Sequence[Metric] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not the defaults of its library."""
    failure: str = ""
    """Why there is no model, in one line."""
    losses: Array | None = field(default=None, compare=False, repr=False)
    """Of each test row: log losses, or squared errors."""
    model: Any = field(default=None, compare=False, repr=False)
    """The fitted estimator, where it is one of ours."""


def reached(tried: Tried, loss: float) -> tuple[int, float] | None:
    """The trees and seconds after which a model has a validation loss, if it ever has."""
    for trees, seconds, found in zip(
        *(tried.curve[name] for name in ("trees", "seconds", "validation_loss")), strict=True
    ):
        if found <= loss:
            return int(trees), seconds
    return None


def check_labels(split: Split) -> None:
    """Classes of validation and test rows that no training row has are an error, which is better said early."""
    for name, labels in (("y_val", split.y_val), ("y_test", split.y_test)):
        strange = np.setdiff1d(labels, split.y).tolist()
        if strange:
            raise ValueError(
                f"{name} has labels {some_of(strange)} that no training row has; split the rows otherwise."
            )


def losses_of_classes(y: NDArray[Any], probabilities: Array, classes: NDArray[Any]) -> Array:
    """The log loss of each row. A label of no known class is an error."""
    unknown = sorted(set(np.unique(y).tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(
            f"the test rows have labels {some_of(unknown)}, which the model does not know; it knows "
            f"{some_of(classes.tolist())}."
        )
    smallest = np.finfo(probabilities.dtype).eps  # as scikit-learn's log_loss
    return -np.log(np.maximum(probabilities[np.arange(len(y)), np.searchsorted(classes, y)], smallest))


def losses_of_values(y: Array, predictions: Array) -> Array:
    """The squared error of each row."""
    return (y - predictions) ** 2


def paired_difference(name: str, losses: Array, others: Array) -> Metric:
    """How much higher the mean of losses is than that of others, those of another model on the same rows.

    What both models find hard cancels out, so that the interval is mostly narrower than those of the two means.
    """
    differences = losses - others
    mean, half = float(differences.mean()), Z * float(differences.std()) / math.sqrt(len(differences))
    return Metric(name, mean, mean - half, mean + half, lower_is_better=False)


def metrics_of_classes(y: NDArray[Any], probabilities: Array, classes: NDArray[Any]) -> list[Metric]:
    """Log loss, accuracy and, for two classes, the area under the ROC curve. A label of no known class is an error."""
    losses = losses_of_classes(y, probabilities, classes)
    codes = np.searchsorted(classes, y)
    right = probabilities.argmax(axis=1) == codes
    found = [_mean("log loss", losses, lower_is_better=True), _share("accuracy", right)]
    if len(classes) == 2 and 0 < codes.sum() < len(codes):
        found.append(_area_under_roc(codes == 1, probabilities[:, 1]))
    return found


def metrics_of_values(y: Array, predictions: Array) -> list[Metric]:
    """Root mean squared error, mean absolute error, and the share of the variance that is explained (R²)."""
    squares = losses_of_values(y, predictions)
    mse = _mean("", squares, lower_is_better=True)
    rmse = Metric("RMSE", math.sqrt(mse.value), math.sqrt(mse.low), math.sqrt(mse.high), lower_is_better=True)
    found = [rmse, _mean("MAE", np.abs(y - predictions), lower_is_better=True)]
    distances = (y - y.mean()) ** 2
    variance = float(distances.mean())
    if variance > 0.0:
        # The delta method: what each row adds to 1 - mse / variance.
        influence = -squares / variance + mse.value * distances / variance**2
        r2 = 1.0 - mse.value / variance
        half = Z * float(influence.std()) / math.sqrt(len(y))
        found.append(Metric("R²", r2, r2 - half, min(1.0, r2 + half), lower_is_better=False))
    return found


def judged(y: NDArray[Any], predicted: Array, classes: NDArray[Any] | None) -> tuple[list[Metric], Array]:
    """Metrics, and the loss of each row, of probabilities of classes, or of values where `classes` is None."""
    if classes is not None:
        return metrics_of_classes(y, predicted, classes), losses_of_classes(y, predicted, classes)
    y = np.asarray(y, dtype=np.float64)
    return metrics_of_values(y, predicted), losses_of_values(y, predicted)


def _mean(name: str, values: Array, lower_is_better: bool) -> Metric:
    mean, half = float(values.mean()), Z * float(values.std()) / math.sqrt(len(values))
    return Metric(name, mean, max(0.0, mean - half), mean + half, lower_is_better)


def _share(name: str, right: NDArray[np.bool_]) -> Metric:
    found = binomtest(int(right.sum()), len(right))
    interval = found.proportion_ci(method="wilson")
    return Metric(name, float(found.statistic), float(interval.low), float(interval.high), lower_is_better=False)


def _area_under_roc(positive: NDArray[np.bool_], scores: Array) -> Metric:
    """Share of the pairs of a positive and a negative row in which the positive scores higher; ties count half."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(scores)
    # DeLong's placements: of each positive row among the negative ones, and of each negative among the positive.
    above = (ranks[positive] - rankdata(scores[positive])) / n_negative
    below = 1.0 - (ranks[~positive] - rankdata(scores[~positive])) / n_positive
    area = float(above.mean())
    half = Z * math.sqrt(float(above.var()) / n_positive + float(below.var()) / n_negative)
    return Metric("ROC AUC", area, max(0.0, area - half), min(1.0, area + half), lower_is_better=False)
