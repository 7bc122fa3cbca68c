"""What a fit leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._core.ensemble import Ensemble
from ._core.learners import Model
from ._core.losses import Array, Loss
from ._data.reader import TableReader
from ._labels import Labels
from ._tree import Forest
from ._tree.forest import gain_by_feature


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted model: everything that predictions, files, exports, plots and a resumed run need.

    Scores are raw: (output, row), before the inverse link of the loss.
    """

    reader: TableReader
    """Reads tables with the columns and categories of fit."""
    labels: Labels
    loss: Loss
    start: Any
    """The start function f^0: constants, one per output, or a model."""
    ensemble: Ensemble
    """The learners as fitted, and how the algorithm combined them."""
    folded: Model
    """The best iteration as one model."""
    parameters: Mapping[str, Any]
    """Parameters of the estimator that affect the model, as they were given; the method is an object."""
    fingerprints: Mapping[str, str]
    """Digests of these, except for objects that cannot be identified."""
    resolved: Mapping[str, Any]
    """What "auto" became."""
    seed: int
    held_out: bool
    """Whether rows were held out of the training set for early stopping."""
    history: dict[str, NDArray[Any]]

    @property
    def n_features(self) -> int:
        """Features of the table of fit."""
        return self.reader.n_features

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return self.labels.n_outputs

    @property
    def categories(self) -> dict[int, list[Any]]:
        """The categories of each categorical feature, by their numbers."""
        return self.reader.categories.of

    @property
    def n_iter(self) -> int:
        """Iterations that were run."""
        return len(self.history["iteration"]) - 1

    @property
    def best_iteration(self) -> int:
        """The iteration whose model predicts."""
        return len(self.ensemble)

    @property
    def n_trees(self) -> int:
        """Trees, or other learners, of the best iteration."""
        return self.ensemble.n_learners

    def raw_predict(self, X: Any, n_threads: int) -> Array:
        """Scores of the rows of a table."""
        values = self.folded.predict(self.reader.numbers(X), n_threads)[0]
        return np.asarray(self.start_scores(X) + values)

    def staged_raw_predict(self, X: Any, n_threads: int) -> Iterator[Array]:
        """Scores after each iteration, up to the best one."""
        numbers, start = self.reader.numbers(X), self.start_scores(X)
        start = np.broadcast_to(start, (len(start), numbers.shape[0]))
        return self.ensemble.staged(numbers, start, n_threads)

    def contributions(self, X: Any, n_threads: int) -> Array:
        """What each feature adds to the scores: (row, output, feature + 1); the last place has the expected score."""
        self.check_has_trees("predict_contributions")
        numbers = self.reader.numbers(X)
        total = np.zeros((numbers.shape[0], self.n_outputs, self.n_features + 1))
        if isinstance(self.folded, Forest):  # otherwise there are no trees
            total = self.folded.contributions(numbers, n_threads)[0].transpose(1, 0, 2)
        total[..., self.n_features] += self.start_scores(X).T
        return total

    def start_scores(self, X: Any) -> Array:
        """The start function on the rows of a table: (output, row), or (output, 1) if it is constant."""
        return self.labels.start_scores(self.start, self.loss, X)

    def check_has_trees(self, asked: str) -> None:
        """Raise ValueError if the learners are not trees; `asked` names the method that needs them."""
        if not isinstance(self.folded, Forest) and self.ensemble.models:
            raise ValueError(f"{asked}() exists for trees only, this model has learner={self.parameters['learner']!r}.")

    def gains(self) -> tuple[NDArray[np.int64], Array]:
        """The features that trees split on, and the gain of each, trees times their weights."""
        forests, weights = self._weighted_forests("feature_importances_")
        if not forests:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        return gain_by_feature(forests, [weight.sum() for weight in weights])

    def importances(self) -> Array:
        """The share of each feature in the gain of all splits."""
        features, gains = self.gains()
        total = np.zeros(self.n_features)
        total[features] = gains
        return np.asarray(total / total.sum()) if total.sum() > 0 else total

    def split_counts(self) -> NDArray[np.intp]:
        """Number of splits on each feature, in the trees that have weight."""
        forests, weights = self._weighted_forests("split_counts_")
        used = [forest.nodes["feature"] for forest, weight in zip(forests, weights, strict=True) if weight.any()]
        feature = np.concatenate([np.zeros(0, dtype=np.int32), *used])
        return np.bincount(feature[feature >= 0], minlength=self.n_features)

    def _weighted_forests(self, asked: str) -> tuple[list[Forest], list[Array]]:
        """The forests, and the weights of their functions."""
        if not all(isinstance(model, Forest) for model in self.ensemble.models):
            raise AttributeError(f"{asked} exists for trees only, this model has another learner.")
        return cast(list[Forest], self.ensemble.models), self.ensemble.model_weights()
