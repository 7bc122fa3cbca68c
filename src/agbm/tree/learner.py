"""Histogram trees as a weak learner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..learners import Fit, Model, fit_of, mean_repeats
from ..losses import Array
from .bins import Bins
from .forest import Forest, fold

# Newton leaves divide by the sum of hessians. A leaf must have at least this much of it, in units of the largest that
# the loss can have (or that a row has now, where there is no bound). With less, steps get too large: one positive row
# among ten thousand, say, would get a score in the hundreds.
MIN_HESSIAN_LEAF = 0.4

_LARGEST = int(np.iinfo(np.int32).max)  # number that the kernels take; no tree reaches it


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """Regression trees: how to bin the data and when to stop splitting."""

    max_depth: int | None = 6
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    min_split_gain: float = 0.0
    max_bins: int = 255
    shared_structure: bool = False
    """Whether the two residuals of an accelerated iteration get one tree with two values a leaf."""
    largest_hessian: float = math.inf
    """The bound on the hessians that the loss has."""
    n_threads: int = 1

    def bind(self, X: NDArray[Any], n_train: int, weight: Array | None) -> TreeFitter:
        """See Learner."""
        bins = Bins.from_data(X[:n_train], self.max_bins, weight)
        grower = _native.Grower(
            bins.encode(X, self.n_threads),
            max_depth=_LARGEST if self.max_depth is None else min(self.max_depth, _LARGEST),
            max_leaf_nodes=min(self.max_leaf_nodes or 0, _LARGEST),
            min_samples_leaf=min(self.min_samples_leaf, _LARGEST),
            l2_regularization=self.l2_regularization,
            min_split_gain=self.min_split_gain,
            n_threads=self.n_threads,
        )
        if weight is not None and mean_repeats(weight):  # gives exactly the trees of the repeated rows
            return TreeFitter(self, bins, grower, n_train, None, weight.astype(np.int64))
        return TreeFitter(self, bins, grower, n_train, weight, None)

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Forest:
        """See Learner."""
        trees = [cast(Forest, model) for model in models]
        return fold(trees, weights)


@dataclass(frozen=True, eq=False)
class TreeFitter:
    """Trees bound to the binned rows of one problem."""

    learner: TreeLearner
    bins: Bins
    grower: _native.Grower
    n_train: int
    weight: Array | None
    repeats: NDArray[np.int64] | None

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """See Fitter."""
        return self._grow([target], hessian)[0]

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        if self.learner.shared_structure:
            first, other = self._grow([r, c], hessian)
            return first, other
        return self.fit(r, hessian), self.fit(c, hessian) if second else None

    def _grow(self, targets: Sequence[Array], hessian: Array | None) -> list[Fit]:
        """One tree for all targets: residuals and hessians go to the kernel times the sample weights."""
        gradients = targets[0][np.newaxis] if len(targets) == 1 else np.stack(targets)
        weights = hessian
        if self.weight is not None:
            gradients = gradients * self.weight
            weights = self.weight if hessian is None else hessian * self.weight
        min_hessian = 0.0
        if hessian is not None:
            bound = self.learner.largest_hessian
            min_hessian = MIN_HESSIAN_LEAF * (bound if math.isfinite(bound) else float(hessian.max()))
        grown = self.grower.grow(gradients, weights, self.repeats, min_hessian)
        tree = Forest(
            n_features=len(self.bins.thresholds),
            roots=np.zeros(1, dtype=np.int32),
            feature=grown["feature"],
            threshold=self.bins.threshold(grown["feature"], grown["bin"]),
            left=grown["left"],
            missing_left=grown["missing_left"],
            value=grown["value"],
            gain=grown["gain"],
            count=grown["count"],
        )
        values = grown["row_values"]
        return [fit_of(tree, k, values[k], self.n_train, hessian) for k in range(len(targets))]
