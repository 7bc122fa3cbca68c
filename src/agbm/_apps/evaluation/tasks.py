"""Kinds of learning tasks: which estimator learns, how rows are split, what is predicted and how it is evaluated.

Commands, comparisons, searches and reports are written for any of them. Labels y have rows on their first axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.types import AnyArray, Table, Values
from ..._data.hold_out import (
    hold_out,
    hold_out_groups,
    strata_of_numbers,
    strata_of_queries,
    stratified_folds,
    time_folds,
)
from ..._data.rows import some_of
from ..._data.units import Keys, Unit
from ..._estimators.base import BaseAGBM
from ..._estimators.classifier import AGBMClassifier
from ..._estimators.ranker import SCORE, AGBMRanker
from ..._estimators.regressor import AGBMRegressor
from ..._estimators.survival import AGBMSurvival
from ..._labels.base import Numbers
from ..._labels.matrices import LabelSets, SoftClasses
from ..._losses import traits_of
from ..._losses.metrics import RankingMetric
from .metrics import (
    Metric,
    Split,
    losses_of_classes,
    losses_of_quantiles,
    losses_of_shares,
    losses_of_values,
    mean_metric,
    metrics_of_classes,
    metrics_of_quantiles,
    metrics_of_values,
    share_metric,
)
from .survival_metrics import concordance_metric, integrated_brier

# Survival functions are evaluated at about this many times.
MOST_TIMES = 50

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
"""The remaining rows, and those that are held out."""


class KeyedUnit(NamedTuple):
    """What splits must not divide: the keys of the groups or times of rows."""

    kind: Unit
    keys: Keys

    def hold_out(self, share: float, strata: NDArray[Any] | None, of_rankings: bool, seed: int) -> Fold:
        """Hold out whole groups, or the last rows."""
        if self.kind == "time":
            return time_folds(self.keys, share, 1)[0]
        return hold_out_groups(self.keys, share, strata, seed, some_without_effect=of_rankings)

    def folds(self, n_folds: int, strata: NDArray[Any] | None, seed: int) -> list[Fold]:
        """Folds of whole groups, or windows of time after the rows that train."""
        if self.kind == "time":
            return time_folds(self.keys, 1.0 / (n_folds + 1), n_folds)
        strata = np.zeros(len(self.keys)) if strata is None else strata
        return stratified_folds(strata, n_folds, seed, groups=self.keys)


@dataclass(frozen=True, eq=False)
class Whole:
    """Training and validation rows together, for models that hold out rows themselves."""

    X: Table
    y: NDArray[Any]
    keyed: KeyedUnit | None = None
    """What the rows that are held out must not divide."""
    unit: Mapping[str, Values] = field(default_factory=dict)
    """The same as an argument of fit."""


class Task(ABC):
    """A kind of learning task."""

    name: ClassVar[str]
    estimator: ClassVar[type[BaseAGBM]]

    @property
    @abstractmethod
    def loss(self) -> str:
        """The name of the loss of a row, whose mean `evaluate` returns."""

    @property
    def loss_scale(self) -> float:
        """The loss of `evaluate` divided by that of `history_`."""
        return 1.0

    def fit(
        self, model: BaseAGBM, X: Table, y: AnyArray, weight: Values | None = None, offset: Values | None = None,
        **unit: Values,
    ) -> Any:  # fmt: skip
        """Fit a model; `unit` has the groups or times of the rows."""
        return model.fit(X, y, sample_weight=weight, offset=offset, **unit)

    def fit_with(self, model: BaseAGBM, split: Split) -> Any:
        """Fit a model to the training rows of a split; early stopping uses the validation rows."""
        return model.fit(split.X, split.y, X_val=split.X_val, y_val=split.y_val)

    def update(self, model: BaseAGBM, X: Table, y: AnyArray, **options: Any) -> Any:
        """Update a fitted model."""
        return model.update(X, y, **options)

    def predict(self, model: BaseAGBM, X: Table, offset: Values | None = None) -> Array:
        """The predictions that `evaluate` needs."""
        return np.asarray(model.predict(X, offset))

    @abstractmethod
    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        """Metrics of test rows, the first of them the main one, and the loss of each row."""

    def strata(self, y: NDArray[Any]) -> NDArray[Any] | None:
        """The classes by which splits are stratified, as those of estimators are; None if there are no classes."""
        return None

    def hold_out(self, y: NDArray[Any], share: float, seed: int, unit: KeyedUnit | None = None) -> Fold:
        """Split rows at random, or by units; at random, the remaining rows have every class of the strata."""
        if unit is not None and share > 0.0:
            return unit.hold_out(share, self.strata(y), False, seed)
        return hold_out(len(y), share, self.strata(y), seed)

    def sample(self, y: NDArray[Any], n_rows: int, seed: int) -> NDArray[np.intp]:
        """Draw at most n_rows rows at random, in ascending order."""
        return np.sort(np.random.default_rng(seed).choice(len(y), min(n_rows, len(y)), replace=False))

    def folds(self, y: NDArray[Any], n_folds: int, seed: int, unit: KeyedUnit | None = None) -> list[Fold]:
        """The rows of each fold of a cross-validation. Classes of the strata with a single row are never tested."""
        from sklearn.model_selection import KFold

        strata = self.strata(y)
        if unit is not None:
            return unit.folds(n_folds, strata, seed)
        if strata is None:
            return list(KFold(n_folds, shuffle=True, random_state=seed).split(y))
        _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
        rows, alone = np.flatnonzero(counts[codes] > 1), np.flatnonzero(counts[codes] == 1)
        found = stratified_folds(codes[rows], n_folds, seed)
        return [(np.sort(np.concatenate([rows[train], alone])), rows[test]) for train, test in found]

    def check(self, split: Split) -> None:
        """Raise ValueError if the rows of a split cannot be learned or evaluated."""
        return


@dataclass(frozen=True, eq=False)
class Classification(Task):
    """One class per row. Predictions are probabilities (row, class)."""

    classes: NDArray[Any]
    name = "classification"
    estimator = AGBMClassifier
    loss = "log loss"

    def predict(self, model: BaseAGBM, X: Table, offset: Values | None = None) -> Array:
        return np.asarray(model.predict_proba(X, offset))

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        return metrics_of_classes(y, predicted, self.classes), losses_of_classes(y, predicted, self.classes)

    def strata(self, y: NDArray[Any]) -> NDArray[Any]:
        return y

    def check(self, split: Split) -> None:
        """Raise ValueError if validation or test rows have a class that no training row has."""
        for rows, labels in (("validation", split.y_val), ("test", split.y_test)):
            unknown = np.setdiff1d(labels, split.y).tolist()
            if unknown:
                raise ValueError(
                    f"the {rows} rows have labels {some_of(unknown)} that do not occur in the training rows; use "
                    "another seed or split."
                )


@dataclass(frozen=True)
class Regression(Task):
    """One number per row, of which the mean or several quantiles are predicted."""

    levels: Sequence[float] | None = None
    """The quantiles that the columns of predictions are; None: a prediction is one number."""
    name = "regression"
    estimator = AGBMRegressor

    @property
    def loss(self) -> str:
        return "squared error" if self.levels is None else "pinball loss"

    @property
    def loss_scale(self) -> float:
        """2 for the squared error, of which `history_` has half."""
        return 2.0 if self.levels is None else 1.0

    def strata(self, y: NDArray[Any]) -> NDArray[Any] | None:
        return strata_of_numbers(np.asarray(y, dtype=np.float64)[np.newaxis])

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        y = np.asarray(y, dtype=np.float64)
        if self.levels is None:
            return metrics_of_values(y, predicted), losses_of_values(y, predicted)
        losses = losses_of_quantiles(y, predicted, self.levels)
        return metrics_of_quantiles(y, predicted, self.levels), np.asarray(losses.mean(axis=1))


class SeveralOutputs(Task):
    """Several numbers per row, which may have different units. The loss of a row is relative to their variances."""

    name = "regression"
    estimator = AGBMRegressor
    loss = "squared error per variance"

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        y = np.asarray(y, dtype=np.float64)
        squares, variances = losses_of_values(y, predicted), y.var(axis=0)
        losses = np.divide(squares, variances, out=np.zeros_like(squares), where=variances > 0.0).mean(axis=1)
        of_loss = mean_metric("", losses, lower_is_better=True)
        r2 = Metric("mean R²", 1.0 - of_loss.value, 1.0 - of_loss.high, 1.0 - of_loss.low, lower_is_better=False)
        return [r2, mean_metric("MAE", np.abs(y - predicted).mean(axis=1), lower_is_better=True)], losses


class SeveralLabels(Task):
    """Any number of labels per row, as a matrix (row, label) of 0 and 1. Predictions are their probabilities."""

    name = "multi-label classification"
    estimator = AGBMClassifier
    loss = "log loss"

    def predict(self, model: BaseAGBM, X: Table, offset: Values | None = None) -> Array:
        return np.asarray(model.predict_proba(X, offset))

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        found = np.asarray(y) > 0
        losses = losses_of_shares(np.where(found, predicted, 1.0 - predicted)).mean(axis=1)
        right = (predicted > 0.5) == found
        return [
            mean_metric("log loss", losses, lower_is_better=True),
            mean_metric("Hamming loss", 1.0 - right.mean(axis=1), lower_is_better=True),
            share_metric("exact match", right.all(axis=1)),
        ], losses


class Shares(Task):
    """Probabilities of classes as labels and as predictions: (row, class)."""

    name = "classification"
    estimator = AGBMClassifier
    loss = "cross entropy"

    def predict(self, model: BaseAGBM, X: Table, offset: Values | None = None) -> Array:
        return np.asarray(model.predict_proba(X, offset))

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        losses = (y * losses_of_shares(predicted)).sum(axis=1)
        same = y.argmax(axis=1) == predicted.argmax(axis=1)
        return [mean_metric(self.loss, losses, lower_is_better=True), share_metric("accuracy", same)], losses


class Ranking(Task):
    """Labels (relevance, number of the query). Predictions are scores; losses are those of queries."""

    name = "ranking"
    estimator = AGBMRanker
    loss = "1 - NDCG@10"

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        """Metrics and losses of queries; those without relevant documents are left out."""
        relevance, query = y.T
        found = {
            name: RankingMetric(kind, cut).of_queries(relevance, query, predicted)[1]
            for name, kind, cut in (("NDCG@10", SCORE.kind, SCORE.cut), ("NDCG@1", "ndcg", 1), ("MAP", "map", None))
        }
        if not len(found["NDCG@10"]):
            raise ValueError("no query of the test rows has a relevant document; the model cannot be evaluated.")
        return [mean_metric(name, of, lower_is_better=False) for name, of in found.items()], 1.0 - found["NDCG@10"]

    def strata(self, y: NDArray[Any]) -> NDArray[Any]:
        return strata_of_queries(y[:, 0], y[:, 1])

    def hold_out(self, y: NDArray[Any], share: float, seed: int, unit: KeyedUnit | None = None) -> Fold:
        """Split whole queries at random, or by units."""
        if unit is not None and share > 0.0:
            return unit.hold_out(share, self.strata(y), True, seed)
        return hold_out_groups(y[:, 1], share, self.strata(y), seed)

    def sample(self, y: NDArray[Any], n_rows: int, seed: int) -> NDArray[np.intp]:
        """Draw whole queries with at most n_rows rows in total, at least one query."""
        queries, numbers, sizes = np.unique(y[:, 1], return_inverse=True, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(queries))
        n_queries = max(1, int(np.searchsorted(np.cumsum(sizes[order]), n_rows, side="right")))
        return np.flatnonzero(np.isin(numbers, order[:n_queries]))

    def folds(self, y: NDArray[Any], n_folds: int, seed: int, unit: KeyedUnit | None = None) -> list[Fold]:
        """The rows of each fold, which consist of whole queries."""
        if unit is not None:
            return unit.folds(n_folds, self.strata(y), seed)
        return stratified_folds(self.strata(y), n_folds, seed, groups=y[:, 1])


@dataclass(frozen=True, eq=False)
class Survival(Task):
    """Labels (time, event). Predictions are the risk and the probabilities that the event is after some times."""

    times: Sequence[float] = ()
    """The times of these probabilities; empty if the model has no survival functions."""
    name = "survival"
    estimator = AGBMSurvival

    @property
    def loss(self) -> str:
        return "integrated Brier score" if len(self.times) else "discordance"

    def predict(self, model: BaseAGBM, X: Table, offset: Values | None = None) -> Array:
        risk = model.predict(X, offset)
        if not len(self.times):
            return np.asarray(risk[:, np.newaxis])
        probabilities = model.predict_survival_function(X, times=np.array(self.times), offset=offset)
        return np.column_stack([risk, probabilities])

    def evaluate(self, y: NDArray[Any], predicted: Array) -> tuple[list[Metric], Array]:
        time, event = np.asarray(y[:, 0], dtype=np.float64), y[:, 1] > 0
        predicted = predicted.reshape(len(y), -1)  # risks alone may have one dimension
        ordered, discordances = concordance_metric(time, event, predicted[:, 0])
        metrics = [] if ordered is None else [ordered]
        times = np.array(self.times)
        seen = times < time.max()  # later, nothing is known
        if not seen.any():
            return metrics, discordances
        losses = integrated_brier(time, event, predicted[:, 1:][:, seen], times[seen])
        return [mean_metric(self.loss, losses, lower_is_better=True), *metrics], losses

    def strata(self, y: NDArray[Any]) -> NDArray[Any]:
        """The events: rows with and without one are two classes."""
        return y[:, 1]


def task_of(model: BaseAGBM) -> Task:
    """The task of a fitted model."""
    labels = model.model_.labels
    if isinstance(labels, LabelSets):
        return SeveralLabels()
    if isinstance(labels, SoftClasses):
        return Shares()
    if isinstance(labels, Numbers) and labels.shape:
        return SeveralOutputs()
    if isinstance(model, AGBMClassifier):
        return Classification(model.classes_)
    if isinstance(model, AGBMRanker):
        return Ranking()
    if isinstance(model, AGBMSurvival):
        return Survival(_times_of(model))
    return Regression(levels_of(model))


def _times_of(model: AGBMSurvival) -> list[float]:
    """Times, spread over the training events, at which survival functions are evaluated; none if there are no such."""
    if traits_of(model.model_.loss).has_baseline and model.model_.baseline is None:
        return []
    known: Array = model.unique_times_
    places = np.unique(np.linspace(0, len(known) - 1, MOST_TIMES).round().astype(np.intp))
    return [float(time) for time in known[places]]


def levels_of(model: BaseAGBM) -> tuple[float, ...] | None:
    """The quantiles of a model that predicts a list of them for each row; None for all others."""
    return traits_of(model.model_.loss).listed_quantiles or None
