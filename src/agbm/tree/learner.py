"""Histogram trees as a weak learner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..learners import DivergedError, Fit, Model, fit_of, mean_repeats
from ..losses import Array
from .bins import Bins
from .forest import NODE, Forest, fold, one_output_each

_LARGEST = int(np.iinfo(np.int32).max)  # number that the kernels take; no tree reaches it
_FIRST = np.zeros(1, dtype=np.int32)  # root and column of a single tree


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """Regression trees: how to bin the data, what a tree may see, and when to stop splitting."""

    max_depth: int | None = 6
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 20
    min_leaf_hessian: float = 0.0
    """Sum of hessians in a leaf, at least, after a Newton fit."""
    l2_regularization: float = 0.0
    min_split_gain: float = 0.0
    max_bins: int = 255
    shared_structure: bool = False
    """Whether the two residuals of an accelerated iteration get one tree with two values a leaf."""
    vector_leaves: bool = False
    """Whether all outputs get one tree, with a value a leaf for each, instead of a tree each."""
    categorical: NDArray[np.bool_] | None = None
    """Which features have numbers of categories for values; None for none."""
    monotone: Sequence[int] = ()
    """For each feature 1 (increasing), -1 (decreasing) or 0; empty where no feature is constrained."""
    interactions: Sequence[Sequence[int]] = ()
    """Groups of features that may meet on a path; empty where all may."""
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bynode: float = 1.0
    seed: int = 0
    n_threads: int = 1

    @property
    def min_category_rows(self) -> int:
        """Rows that a category needs for a mean residual."""
        # As few as the kernels ask of a category, but two: one row's residual would be its label.
        return max(2, min(10, self.min_samples_leaf))

    def bind(self, X: Any, n_train: int, weight: Array | None, residual: Array) -> TreeFitter:
        """See Learner."""
        bins = Bins.from_data(
            X[:n_train], self.max_bins, weight, self.categorical, residual, self.min_category_rows, self.n_threads
        )
        return self.bind_codes(bins, bins.encode(X, self.n_threads), n_train, weight)

    def bind_codes(self, bins: Bins, matrix: _native.BinnedMatrix, n_train: int, weight: Array | None) -> TreeFitter:
        """The same for rows that are in bins already."""
        grower = _native.Grower(
            matrix,
            bins.flat_thresholds,
            max_depth=_native.MAX_DEPTH if self.max_depth is None else min(self.max_depth, _native.MAX_DEPTH),
            max_leaf_nodes=min(self.max_leaf_nodes or 0, _LARGEST),
            min_samples_leaf=min(self.min_samples_leaf, _LARGEST),
            l2_regularization=self.l2_regularization,
            min_split_gain=self.min_split_gain,
            monotone=list(self.monotone),
            interactions=[list(group) for group in self.interactions],
            n_threads=self.n_threads,
        )
        if weight is not None and mean_repeats(weight):  # gives exactly the trees of the repeated rows
            return TreeFitter(self, bins, grower, n_train, None, weight.astype(np.int64))
        return TreeFitter(self, bins, grower, n_train, weight, None)

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Forest:
        """See Learner."""
        return fold([cast(Forest, model) for model in models], weights)


class TreeFitter:
    """Trees bound to the binned rows of one problem."""

    def __init__(
        self,
        learner: TreeLearner,
        bins: Bins,
        grower: _native.Grower,
        n_train: int,
        weight: Array | None,
        repeats: NDArray[np.int64] | None,
    ) -> None:
        self._learner = learner
        self._bins = bins
        self._grower = grower
        self._n_train = n_train
        self._weight = weight
        self._repeats = repeats
        self._iteration = 0

    def skip(self) -> None:
        """See Fitter."""
        self._iteration += 1

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """See Fitter."""
        return self._fit_all([target], hessian, self._draw())[0]

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        sample = self._draw()
        if self._learner.shared_structure:
            first, other = self._fit_all([r, c], hessian, sample)
            return first, other
        first = self._fit_all([r], hessian, sample)[0]
        return first, self._fit_all([c], hessian, sample)[0] if second else None

    def _draw(self) -> _Sample:
        """What the trees of this iteration see. It follows from the seed and the iteration alone."""
        sample = _Sample(self._learner, self._n_train, self._bins.n_features, self._iteration)
        self._iteration += 1
        return sample

    def _fit_all(self, targets: Sequence[Array], hessian: Array | None, sample: _Sample) -> list[Fit]:
        """One function for each target, all with one structure: a tree with vector leaves, or a tree an output."""
        n_outputs = len(targets[0])
        if self._learner.vector_leaves or n_outputs == 1:
            model, values = self._grow(targets, hessian, sample)
        else:
            grown = [
                self._grow(
                    [target[k : k + 1] for target in targets], None if hessian is None else hessian[k : k + 1], sample
                )
                for k in range(n_outputs)
            ]
            model, values = one_output_each([tree for tree, _ in grown]), np.concatenate([v for _, v in grown])
        return [
            fit_of(model, j, values[:, j], self._n_train, hessian, self._learner.n_threads) for j in range(len(targets))
        ]

    def _grow(self, targets: Sequence[Array], hessian: Array | None, sample: _Sample) -> tuple[Forest, Array]:
        """A tree for targets (output, row) of one function each, and its values (output, function, row) on all rows.

        Residuals and hessians go to the kernel times the sample weights.
        """
        n_outputs, n_functions = len(targets[0]), len(targets)
        gradients, weights = [target[k] for k in range(n_outputs) for target in targets], hessian
        if self._weight is not None:
            gradients = [gradient * self._weight for gradient in gradients]
            weights = self._weight[np.newaxis] if hessian is None else hessian * self._weight
        try:
            records, left_codes, value, row_values = self._grower.grow(
                gradients=gradients,
                hessians=weights,
                repeats=self._repeats,
                rows=sample.rows,
                features=sample.draw_features(),
                node_share=self._learner.colsample_bynode,
                seed=sample.draw_seed(),
                min_hessian_leaf=0.0 if hessian is None else self._learner.min_leaf_hessian,
            )
        except OverflowError as error:
            raise DivergedError("a residual is not finite") from error
        nodes = np.frombuffer(records, NODE)
        tree = Forest(
            self._bins.n_features, n_outputs, n_functions, _FIRST, _FIRST, nodes,
            *self._bins.category_sets(nodes, left_codes), value,
        )  # fmt: skip
        return tree, row_values.reshape(n_outputs, n_functions, -1)


class _Sample:
    """Rows of one iteration, and features of one tree after the other."""

    def __init__(self, learner: TreeLearner, n_train: int, n_features: int, iteration: int) -> None:
        self._learner = learner
        self._n_features = n_features
        self._iteration = iteration
        self.rows: NDArray[np.uint32] | None = None
        if learner.subsample < 1.0:
            # Each row by itself, so that a row's luck does not depend on the others; one row at least.
            lots = self._random.random(n_train)
            self.rows = np.flatnonzero(lots < max(learner.subsample, np.nextafter(lots.min(), 1.0))).astype(np.uint32)

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self._learner.seed, self._iteration])

    def draw_features(self) -> NDArray[np.uint8] | None:
        """Which features a tree may use; None for all."""
        if self._learner.colsample_bytree >= 1.0:
            return None
        n = math.ceil(self._learner.colsample_bytree * self._n_features)  # not down: of few columns all may matter
        chosen = np.zeros(self._n_features, dtype=np.uint8)
        chosen[self._random.choice(self._n_features, n, replace=False)] = 1
        return chosen

    def draw_seed(self) -> int:
        """For the choices at the nodes of a tree."""
        return int(self._random.integers(2**63)) if self._learner.colsample_bynode < 1.0 else 0
