"""Evaluation on test rows: metrics with confidence intervals, and the record of a model that was evaluated.

The 95 % intervals cover the sampling of the test rows only, not other splits or seeds. They use normal approximations
for means over rows (of the log-odds for the average precision), Wilson's interval for proportions, and DeLong's for
the area under the ROC curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..._base.sums import Array
from ..._base.types import Table
from ..._data.rows import some_of
from ..._fit.progress import readable

Z = 1.959963984540054  # 95 % of a standard normal distribution are within ± Z


@dataclass(frozen=True)
class Metric:
    """The value of a metric on the test rows, with its interval."""

    name: str
    value: float
    low: float
    high: float
    lower_is_better: bool

    def __str__(self) -> str:
        return f"{readable(self.value)} [{readable(self.low)}, {readable(self.high)}]"


@dataclass(frozen=True)
class Split:
    """Training, validation and test rows, as tables of any kind that `fit` accepts."""

    X: Table
    y: NDArray[Any]
    X_val: Table
    y_val: NDArray[Any]
    X_test: Table
    y_test: NDArray[Any]


@dataclass(frozen=True)
class Tried:
    """A model that was trained and evaluated, or the reason why it was not."""

    name: str
    seconds: float = math.nan
    """Duration of the whole fit."""
    trees: int = 0
    """Number of trees of the model that predicts."""
    best: int = 0
    """Index of that model in the curve."""
    curve: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Columns as in `history_`: at least trees, seconds and validation_loss."""
    metrics: Sequence[Metric] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the defaults of its library."""
    failure: str = ""
    """The error, in one line, if there is no model."""
    losses: Array | None = field(default=None, compare=False, repr=False)
    """Log loss or squared error of each test row."""
    predicted: Array | None = field(default=None, compare=False, repr=False)
    """The predictions for the test rows that the metrics are of."""
    model: Any = field(default=None, compare=False, repr=False)
    """The fitted estimator, if it is one of this library."""


def reached(tried: Tried, loss: float) -> tuple[int, float] | None:
    """Number of trees and seconds after which the validation loss is at most `loss`; None if it never is."""
    for trees, seconds, found in zip(
        *(tried.curve[name] for name in ("trees", "seconds", "validation_loss")), strict=True
    ):
        if found <= loss:
            return int(trees), seconds
    return None


def losses_of_classes(y: NDArray[Any], probabilities: Array, classes: NDArray[Any]) -> Array:
    """The log loss of each row. Raises ValueError for a label that is not in `classes`."""
    unknown = sorted(set(np.unique(y).tolist()) - set(classes.tolist()))
    if unknown:
        raise ValueError(
            f"the test rows have labels {some_of(unknown)} that the model was not trained on; its classes are "
            f"{some_of(classes.tolist())}."
        )
    return losses_of_shares(probabilities[np.arange(len(y)), np.searchsorted(classes, y)])


def losses_of_shares(probabilities: Array) -> Array:
    """The log losses for the probabilities of what occurred."""
    return -np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).eps))  # as in scikit-learn's log_loss


def losses_of_values(y: Array, predictions: Array) -> Array:
    """The squared error of each row."""
    return (y - predictions) ** 2


def paired_difference(name: str, losses: Array, others: Array) -> Metric:
    """The mean of `losses` minus that of `others`, the losses of another model on the same rows.

    Rows that are hard for both models cancel out, so the interval is usually narrower than those of the two means.
    """
    return Metric(name, *mean_interval(losses - others), lower_is_better=False)


def metrics_of_classes(y: NDArray[Any], probabilities: Array, classes: NDArray[Any]) -> list[Metric]:
    """Log loss, accuracy and, for two classes, the area under the ROC curve.

    Raises ValueError for a label that is not in `classes`.
    """
    losses = losses_of_classes(y, probabilities, classes)
    codes = np.searchsorted(classes, y)
    right = probabilities.argmax(axis=1) == codes
    found = [mean_metric("log loss", losses, lower_is_better=True), share_metric("accuracy", right)]
    if len(classes) == 2 and 0 < codes.sum() < len(codes):
        found.append(_area_under_roc(codes == 1, probabilities[:, 1]))
    return found


def metrics_of_values(y: Array, predictions: Array) -> list[Metric]:
    """Root mean squared error, mean absolute error, and the fraction of the variance that is explained (R²)."""
    squares = losses_of_values(y, predictions)
    mse = mean_metric("", squares, lower_is_better=True)
    rmse = Metric("RMSE", math.sqrt(mse.value), math.sqrt(mse.low), math.sqrt(mse.high), lower_is_better=True)
    found = [rmse, mean_metric("MAE", np.abs(y - predictions), lower_is_better=True)]
    distances = (y - y.mean()) ** 2
    variance = float(distances.mean())
    if variance > 0.0:
        # The delta method: the influence of each row on 1 - mse / variance.
        influence = -squares / variance + mse.value * distances / variance**2
        r2 = 1.0 - mse.value / variance
        half = Z * float(influence.std()) / math.sqrt(len(y))
        found.append(Metric("R²", r2, r2 - half, min(1.0, r2 + half), lower_is_better=False))
    return found


def losses_of_quantiles(y: Array, predicted: Array, levels: Sequence[float]) -> Array:
    """The pinball loss of each row and quantile, for predictions (row, quantile)."""
    above = y[:, np.newaxis] - predicted
    return np.maximum(np.asarray(levels) * above, (np.asarray(levels) - 1.0) * above)


def metrics_of_quantiles(y: Array, predicted: Array, levels: Sequence[float]) -> list[Metric]:
    """The pinball loss, averaged over the quantiles, and the mean absolute error of the median if there is one."""
    losses = losses_of_quantiles(y, predicted, levels)
    found = [mean_metric("pinball loss", losses.mean(axis=1), lower_is_better=True)]
    return found + [
        mean_metric("MAE", np.abs(y - values), lower_is_better=True)
        for level, values in zip(levels, predicted.T, strict=True)
        if level == 0.5
    ]


def mean_metric(name: str, values: Array, lower_is_better: bool) -> Metric:
    """The mean of numbers that are not negative, one per row or query."""
    mean, low, high = mean_interval(values)
    return Metric(name, mean, max(0.0, low), high, lower_is_better)


def share_metric(name: str, right: NDArray[np.bool_]) -> Metric:
    """The share of rows that are right."""
    low, high = wilson(right.sum(), len(right))
    return Metric(name, float(right.mean()), float(low), float(high), lower_is_better=False)


def wilson(successes: Any, n: Any) -> tuple[Array, Array]:
    """Wilson's intervals of shares: of successes among n rows."""
    share, spread = successes / n, Z * Z / n
    middle = share + spread / 2.0
    half = np.sqrt(spread * (share * (1.0 - share) + spread / 4.0))
    return np.maximum(0.0, (middle - half) / (1.0 + spread)), np.minimum(1.0, (middle + half) / (1.0 + spread))


def mean_interval(values: Array) -> tuple[float, float, float]:
    """The mean of numbers, one per row, and its interval."""
    mean, half = float(values.mean()), Z * float(values.std()) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def average_precision(positive: NDArray[np.bool_], scores: Array) -> Metric:
    """The area under the precision-recall curve, as a sum over its steps.

    The interval is that of the log-odds, whose variance is about 1 / (n a (1 - a)) for n positive rows and an area a
    (Boyd, Eng and Page, "Area under the precision-recall curve: point estimates and confidence intervals", 2013).
    """
    from sklearn.metrics import average_precision_score

    area = float(average_precision_score(positive, scores))
    if not 0.0 < area < 1.0:
        return Metric("average precision", area, area, area, lower_is_better=False)
    odds, half = math.log(area / (1.0 - area)), Z / math.sqrt(positive.sum() * area * (1.0 - area))
    low, high = (1.0 / (1.0 + math.exp(-end)) for end in (odds - half, odds + half))
    return Metric("average precision", area, low, high, lower_is_better=False)


def _area_under_roc(positive: NDArray[np.bool_], scores: Array) -> Metric:
    """Fraction of pairs of a positive and a negative row in which the positive one scores higher; ties count half."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(scores)
    # DeLong's placements of each positive row among the negative ones, and of each negative row among the positive.
    above = (ranks[positive] - rankdata(scores[positive])) / n_negative
    below = 1.0 - (ranks[~positive] - rankdata(scores[~positive])) / n_positive
    area = float(above.mean())
    half = Z * math.sqrt(float(above.var()) / n_positive + float(below.var()) / n_negative)
    return Metric("ROC AUC", area, max(0.0, area - half), min(1.0, area + half), lower_is_better=False)
