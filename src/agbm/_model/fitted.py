"""The result of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._core.ensemble import Ensemble, fold
from .._core.learners import Model, Predict, WeightedSum, on_threads
from .._core.methods import Method
from .._core.spread_level import SPREAD_LEVEL, spread_of, with_level
from .._data.digest import RowDigest
from .._data.profile import Profile
from .._data.reader import TableReader
from .._labels.base import Labels, Result
from .._losses import Loss
from .._tree import Forest
from .._tree.forest import fold as fold_forests
from .._tree.forest import gain_by_feature
from .._tree.partial_dependence import partial_dependence
from .._uncertainty.conformal import Calibration


class Origin(NamedTuple):
    """What a model was trained with, besides parameters and seed."""

    version: str
    """Of the library."""
    data: RowDigest


FindLeaves = Callable[[Forest, Any, int], NDArray[np.int32]]
"""Finds the leaves (row, tree) of a forest that the rows of a table of numbers reach."""


FindContributions = Callable[..., Array]
"""Computes contributions of a forest for the rows of a table of numbers, with the arguments of Forest.contributions."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted model: everything needed for predictions, model files, exports, plots and warm starts.

    Scores are raw: (output, row), before the inverse link of the loss.
    """

    reader: TableReader
    """Reads tables with the columns and categories seen in fit."""
    labels: Labels
    loss: Loss
    start: Any
    """The start function f^0: constants, one per output, or a model."""
    ensembles: Sequence[Ensemble]
    """For each member, the fitted learners and the updates that combine them; scores are means over the members."""
    folded: Model
    """The model of the best iteration, as a single model."""
    parameters: Mapping[str, Any]
    """Parameters of the estimator that affect the model, as passed by the user; the method is an object."""
    fingerprints: Mapping[str, str]
    """Digests of the parameters, except for objects that have none."""
    resolved: Mapping[str, Any]
    """The values used for parameters that may be "auto"."""
    seed: int
    held_out: bool
    """Whether validation rows were held out of the given rows."""
    history: dict[str, AnyArray]
    updates: Sequence[tuple[str, int]] = ()
    """For each update since the fit, its mode and the iteration that it began at."""
    calibration: Calibration | None = None
    """The errors on rows that the model was not trained on, for intervals and sets of classes."""
    baseline: Array | None = None
    """For Cox's loss, the cumulative hazard of a row with score 0 at the times of the labels."""
    origin: Origin | None = None
    """None if the model is not that of a single fit."""
    profile: Profile | None = None
    """How the columns of the rows were distributed that the model was last fitted to or updated with; None if unknown.
    Nothing that is predicted depends on it."""

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_columns(self) -> int:
        """Number of columns seen in fit."""
        return self.reader.n_columns

    @property
    def n_features(self) -> int:
        """Number of features that trees see; dates have several."""
        return self.reader.n_features

    @property
    def feature_names(self) -> AnyArray:
        """Names of the columns; missing if the table of fit had none, as scikit-learn's feature_names_in_ is."""
        if self.reader.names is None:
            raise AttributeError("the table that the model was fitted to has no column names")
        return self.reader.names

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return self.labels.n_outputs

    @property
    def categories(self) -> dict[int, list[Any]]:
        """The categories of each categorical feature, ordered by code."""
        return self.reader.categories.of

    @property
    def listed_values(self) -> dict[int, list[Any]]:
        """The values of columns that have a list of them: the categories, ordered ones included."""
        return {**self.reader.derivation.ordered, **self.categories}

    @property
    def n_iter(self) -> int:
        """Number of iterations that were run."""
        return len(self.history["iteration"]) - 1

    @property
    def best_iteration(self) -> int:
        """The iteration whose model is used for predictions."""
        return len(self.ensembles[0])

    @property
    def n_trees(self) -> int:
        """Number of trees, or other learners, in the model of the best iteration."""
        return sum(ensemble.n_learners for ensemble in self.ensembles)

    @property
    def models(self) -> list[Model]:
        """The fitted models of all members."""
        return [model for ensemble in self.ensembles for model in ensemble.models]

    def raw_predict(
        self, X: Table, n_threads: int, offset: Values | None = None, predict: Predict = on_threads
    ) -> Array:
        """Scores of the rows of a table, plus offsets if there are any; `predict` computes those of the trees."""
        numbers = self.reader.numbers(X)
        scores = np.asarray(self.start_scores(X) + predict(self.folded, numbers, n_threads)[0])
        return self._plus(scores, offset, numbers.shape[0])

    def results(self, X: Table, n_threads: int, offset: Values | None, kind: Result) -> AnyArray:
        """The results of a kind for the rows of a table."""
        return self.labels.results(kind, self.loss, self.raw_predict(X, n_threads, offset))

    def staged(
        self, X: Table, n_threads: int, offset: Values | None, finish: Callable[[Loss, Array], AnyArray]
    ) -> Iterator[AnyArray]:
        """The results of `finish` after each iteration."""
        return (finish(self.loss, raw) for raw in self.staged_raw_predict(X, n_threads, offset))

    def staged_raw_predict(
        self, X: Table, n_threads: int, offset: Values | None = None, predict: Predict = on_threads
    ) -> Iterator[Array]:
        """Scores after each iteration, up to the best one, plus offsets if there are any."""
        numbers = self.reader.numbers(X)
        start = self._plus(self.start_scores(X), offset, numbers.shape[0])
        start = np.broadcast_to(start, (len(start), numbers.shape[0]))
        stages = [ensemble.staged(numbers, start, n_threads, predict) for ensemble in self.ensembles]
        whole = stages[0] if len(stages) == 1 else (np.mean(scores, axis=0) for scores in zip(*stages, strict=True))
        if self.spread_level is None:
            return whole
        return (scores + self._level_change(m)[:, np.newaxis] for m, scores in enumerate(whole, 1))

    @property
    def spread_level(self) -> float | None:
        """The part of the constant of the spread that comes from validation rows; None if there is none."""
        known = spread_of(self.loss) is not None and SPREAD_LEVEL in self.history
        return float(self.history[SPREAD_LEVEL][self.best_iteration]) if known else None

    def _level_change(self, iteration: int) -> Array:
        """The constants of an iteration minus those of the best one, which differ in the level of the spread."""
        levels = self.history[SPREAD_LEVEL]
        return with_level(np.zeros(self.n_outputs), levels[iteration] - levels[self.best_iteration], self.loss)

    def raw_predict_of_members(
        self, X: Table, n_threads: int, starts: Array | None, offset: Values | None = None
    ) -> list[Array]:
        """Scores of each member; `starts` are their constants (member, output), None if they start from one model."""
        numbers = self.reader.numbers(X)
        first = self.start_scores(X) if starts is None else None
        found = []
        for k, member in enumerate(self._folded_members):
            start = cast(Array, starts)[k][:, np.newaxis] if first is None else first
            scores = np.asarray(start + member.predict(numbers, n_threads)[0])
            found.append(self._plus(scores, offset, numbers.shape[0]))
        return found

    @cached_property
    def _folded_members(self) -> list[Model]:
        """Each member as a single model; made when it is needed, since it takes the memory of the model again."""
        return [fold([ensemble], self._combined, self.n_outputs) for ensemble in self.ensembles]

    def _combined(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        if all(isinstance(model, Forest) for model in models):
            return fold_forests(cast(list[Forest], models), weights)
        return WeightedSum(models, weights, self.n_outputs)

    def _plus(self, scores: Array, offset: Values | None, n_rows: int) -> Array:
        found = self.labels.encode_offset(offset, n_rows)
        return scores if found is None else scores + found

    def at_iteration(self, iteration: int) -> FittedModel:
        """The model of an iteration up to the best one."""
        ensembles = [Ensemble(of.models, of.functions, of.updates) for of in self.ensembles]
        for ensemble in ensembles:
            ensemble.truncate(iteration)
        folded = fold(ensembles, self._combined, self.n_outputs)
        start = self.start if self.spread_level is None else self.start + self._level_change(iteration)
        return replace(self, start=start, ensembles=ensembles, folded=folded, calibration=None, baseline=None)

    def contributions(
        self,
        X: Table,
        n_threads: int,
        background: Table | None = None,
        *,
        pairs: bool = False,
        find: FindContributions = Forest.contributions,
    ) -> Array:
        """Contributions of the columns to the scores: (row, output, column + 1); the last one is the base value.

        With pairs=True, those of pairs of columns (row, output, column + 1, column + 1); see Forest.contributions.
        """
        self.check_has_trees("predict_interactions" if pairs else "predict_contributions")
        numbers = self.reader.numbers(X)
        others = None if background is None else self.reader.numbers(background)
        n_axes = 2 if pairs else 1
        total = np.zeros((numbers.shape[0], self.n_outputs, *[self.n_features + 1] * n_axes))
        if isinstance(self.folded, Forest):  # otherwise the model has no trees
            total = find(self.folded, numbers, n_threads, others, pairs=pairs)[0].swapaxes(0, 1)
        base = total[..., -1, -1] if pairs else total[..., -1]
        base += self.start_scores(X).T
        for _ in range(n_axes if self.n_features > self.n_columns else 0):
            total = np.append(self.reader.by_column(total[..., :-1]), total[..., -1:], axis=-1)
            total = total.swapaxes(2, -1)
        return total

    def leaves(self, X: Table, n_threads: int, find: FindLeaves = Forest.leaves) -> NDArray[np.int32]:
        """The index of the leaf that each row reaches in each tree of the best iteration: (row, tree)."""
        self.check_has_trees("apply")
        numbers = self.reader.numbers(X)
        if not isinstance(self.folded, Forest):  # the model has no trees
            return np.zeros((numbers.shape[0], 0), dtype=np.int32)
        return find(self.folded, numbers, n_threads)

    def partial_dependence(self, features: Sequence[int], grid: Array) -> Array:
        """Mean scores (output, point) over the training rows if some features have the values of a grid.

        The grid (point, feature) has codes for categories. Means are those of the trees: see partial_dependence in
        _tree.
        """
        self.check_has_trees("partial_dependence")
        crossed = {column for cross in self.reader.crosses for column in (cross.left, cross.right)}
        if crossed & set(features):
            raise ValueError(
                f"method='recursion' cannot vary columns {sorted(crossed & set(features))}, which the model also uses "
                "in crosses; use method='brute', or fit with views=None."
            )
        if not isinstance(self.start, np.ndarray):
            raise ValueError(
                f"method='recursion' needs init='prior' or init='zero'; the model has init={self.start!r}."
            )
        total = np.zeros((self.n_outputs, len(grid)))
        if isinstance(self.folded, Forest):  # otherwise the model has no trees
            total = partial_dependence(self.folded, features, grid)
        return np.asarray(total + self.start[:, np.newaxis])

    def start_scores(self, X: Table) -> Array:
        """The start function on the rows of a table: (output, row), or (output, 1) if it is constant."""
        return self.labels.start_scores(self.start, self.loss, X)

    @property
    def method(self) -> Method:
        """The algorithm of the fit."""
        return cast(Method, self.parameters["method"])

    @property
    def has_trees(self) -> bool:
        """Whether the model has trees, rather than other learners or none."""
        return isinstance(self.folded, Forest)

    def check_has_trees(self, name: str) -> None:
        """Raise ValueError if the learners are not trees; `name` is the method that needs trees."""
        if not self.has_trees and self.models:
            raise ValueError(f"{name}() works with trees only; this model has learner={self.method.learner!r}.")

    def gains(self) -> tuple[NDArray[np.int64], Array]:
        """The columns that trees split on, and the total gain of each; trees are multiplied by their weights.

        Each column of a cross gets half of its gain.
        """
        forests, weights = self._weighted_forests("feature_importances_")
        if not forests:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        features, gains = gain_by_feature(forests, [weight.sum() for weight in weights])
        columns, places = np.unique(self.reader.columns_of(features), return_inverse=True)
        return columns.astype(np.int64), np.bincount(places.ravel(), np.repeat(gains / 2, 2)).astype(np.float64)

    def importances(self) -> Array:
        """The share of each column in the total gain of all splits."""
        columns, gains = self.gains()
        total = np.zeros(self.n_columns)
        total[columns] = gains
        return np.asarray(total / total.sum()) if total.sum() > 0 else total

    def split_counts(self) -> NDArray[np.intp]:
        """Number of splits on each column, in trees with nonzero weight; one on a cross counts for both columns."""
        forests, weights = self._weighted_forests("split_counts_")
        used = [forest.nodes["feature"] for forest, weight in zip(forests, weights, strict=True) if weight.any()]
        feature = np.concatenate([np.zeros(0, dtype=np.int32), *used])
        left, right = self.reader.columns_of(feature[feature >= 0]).T
        counts = np.bincount(left, minlength=self.n_columns)
        return counts + np.bincount(right[left != right], minlength=self.n_columns)

    def _weighted_forests(self, name: str) -> tuple[list[Forest], list[Array]]:
        """The forests, and the weights of their functions."""
        if not all(isinstance(model, Forest) for model in self.models):
            raise AttributeError(f"{name} is defined for trees only; this model has another learner.")
        weights = [weight for ensemble in self.ensembles for weight in ensemble.model_weights()]
        return cast(list[Forest], self.models), [weight / len(self.ensembles) for weight in weights]
