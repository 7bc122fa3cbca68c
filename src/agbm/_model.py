"""The result of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._core.ensemble import Ensemble, fold
from ._core.learners import Model, WeightedSum
from ._core.losses import Array, Loss
from ._data.reader import TableReader
from ._labels import Labels
from ._tree import Forest
from ._tree.forest import fold as fold_forests
from ._tree.forest import gain_by_feature
from ._tree.partial_dependence import partial_dependence


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
    history: dict[str, NDArray[Any]]

    @property
    def n_features(self) -> int:
        """Number of features seen in fit."""
        return self.reader.n_features

    @property
    def feature_names(self) -> NDArray[Any]:
        """Names of the features; missing if the table of fit had none, as scikit-learn's feature_names_in_ is."""
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

    def raw_predict(self, X: Any, n_threads: int) -> Array:
        """Scores of the rows of a table."""
        values = self.folded.predict(self.reader.numbers(X), n_threads)[0]
        return np.asarray(self.start_scores(X) + values)

    def staged_raw_predict(self, X: Any, n_threads: int) -> Iterator[Array]:
        """Scores after each iteration, up to the best one."""
        numbers, start = self.reader.numbers(X), self.start_scores(X)
        start = np.broadcast_to(start, (len(start), numbers.shape[0]))
        stages = [ensemble.staged(numbers, start, n_threads) for ensemble in self.ensembles]
        if len(stages) == 1:
            return stages[0]
        return (np.mean(scores, axis=0) for scores in zip(*stages, strict=True))

    def at_iteration(self, iteration: int) -> FittedModel:
        """The model of an iteration up to the best one."""
        ensembles = [Ensemble(of.models, of.functions, of.updates) for of in self.ensembles]
        for ensemble in ensembles:
            ensemble.truncate(iteration)

        def combine(models: Sequence[Model], weights: Sequence[Array]) -> Model:
            if all(isinstance(model, Forest) for model in models):
                return fold_forests(cast(list[Forest], models), weights)
            return WeightedSum(models, weights, self.n_outputs)

        return replace(self, ensembles=ensembles, folded=fold(ensembles, combine, self.n_outputs))

    def contributions(self, X: Any, n_threads: int) -> Array:
        """Contributions of the features to the scores: (row, output, feature + 1); the last one is the base value."""
        self.check_has_trees("predict_contributions")
        numbers = self.reader.numbers(X)
        total = np.zeros((numbers.shape[0], self.n_outputs, self.n_features + 1))
        if isinstance(self.folded, Forest):  # otherwise the model has no trees
            total = self.folded.contributions(numbers, n_threads)[0].transpose(1, 0, 2)
        total[..., self.n_features] += self.start_scores(X).T
        return total

    def partial_dependence(self, features: Sequence[int], grid: Array) -> Array:
        """Mean scores (output, point) over the training rows if some features have the values of a grid.

        The grid (point, feature) has codes for categories. Means are those of the trees: see partial_dependence in
        _tree.
        """
        self.check_has_trees("partial_dependence")
        if not isinstance(self.start, np.ndarray):
            raise ValueError(
                f"method='recursion' needs init='prior' or init='zero'; the model has init={self.start!r}."
            )
        total = np.zeros((self.n_outputs, len(grid)))
        if isinstance(self.folded, Forest):  # otherwise the model has no trees
            total = partial_dependence(self.folded, features, grid)
        return np.asarray(total + self.start[:, np.newaxis])

    def start_scores(self, X: Any) -> Array:
        """The start function on the rows of a table: (output, row), or (output, 1) if it is constant."""
        return self.labels.start_scores(self.start, self.loss, X)

    def check_has_trees(self, name: str) -> None:
        """Raise ValueError if the learners are not trees; `name` is the method that needs trees."""
        if not isinstance(self.folded, Forest) and self.models:
            raise ValueError(f"{name}() works with trees only; this model has learner={self.parameters['learner']!r}.")

    def gains(self) -> tuple[NDArray[np.int64], Array]:
        """The features that trees split on, and the total gain of each; trees are multiplied by their weights."""
        forests, weights = self._weighted_forests("feature_importances_")
        if not forests:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        return gain_by_feature(forests, [weight.sum() for weight in weights])

    def importances(self) -> Array:
        """The share of each feature in the total gain of all splits."""
        features, gains = self.gains()
        total = np.zeros(self.n_features)
        total[features] = gains
        return np.asarray(total / total.sum()) if total.sum() > 0 else total

    def split_counts(self) -> NDArray[np.intp]:
        """Number of splits on each feature, in trees with nonzero weight."""
        forests, weights = self._weighted_forests("split_counts_")
        used = [forest.nodes["feature"] for forest, weight in zip(forests, weights, strict=True) if weight.any()]
        feature = np.concatenate([np.zeros(0, dtype=np.int32), *used])
        return np.bincount(feature[feature >= 0], minlength=self.n_features)

    def _weighted_forests(self, name: str) -> tuple[list[Forest], list[Array]]:
        """The forests, and the weights of their functions."""
        if not all(isinstance(model, Forest) for model in self.models):
            raise AttributeError(f"{name} is defined for trees only; this model has another learner.")
        weights = [weight for ensemble in self.ensembles for weight in ensemble.model_weights()]
        return cast(list[Forest], self.models), [weight / len(self.ensembles) for weight in weights]
