"""Trees whose structure is known: their leaf values are computed again on other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base import _native
from .._base.sums import Array
from .._base.weights import Weights
from .._core.ensemble import Ensemble
from .._core.learners import DivergedError, Fit, Model, Newton, fit_of
from .._losses import enough
from .forest import NODE, Forest
from .learner import TreeLearner, as_forest, weighted
from .sampling import RowSample

Leaves = Callable[[Forest], NDArray[np.int32]]
"""The index of the leaf of every row in each tree of a forest: (tree, row)."""

NOT_SAMPLED = -1
"""Stands for the leaf of rows that an iteration does not use."""

_Pair = tuple[int, int | None]


class RefittingFitter:
    """A Fitter that gives the trees of an earlier run new leaf values, in their order.

    A value is the one that growing the tree on these rows would give, with the same regularisation and the row samples
    of the learner. Each row of the earlier run counts as `old_weight` rows whose best value is the old one. A leaf
    without rows keeps its old value.
    """

    def __init__(
        self,
        earlier: Ensemble,
        iterations: slice,
        learner: TreeLearner,
        leaves: Leaves,
        n_train: int,
        weights: Weights | None,
        old_weight: float,
    ) -> None:
        self._earlier = earlier
        self._pairs: Iterator[_Pair] = iter(earlier.pairs()[iterations])
        self._learner = learner
        self._leaves = leaves
        self._n_train = n_train
        self._weights = weights
        self._old_weight = old_weight
        self._iteration = 0
        self._structures: dict[int, tuple[Forest, Forest]] = {}  # new forests and those they come from

    def skip(self) -> None:
        self._next()

    def _next(self) -> tuple[_Pair, RowSample | None]:
        """The functions of the next iteration, and its sample of rows."""
        sample = RowSample.of(self._learner.shares, self._n_train, self._iteration)
        self._iteration += 1
        return next(self._pairs), sample

    def fit(self, r: Array, newton: Newton[Array] | None) -> Fit[Array]:
        (primary, _), sample = self._next()
        return self._refit([r], newton, [primary], sample)[0]

    def fit_pair(
        self, r: Array, c: Array, newton: Newton[Array] | None, *, second: bool
    ) -> tuple[Fit[Array], Fit[Array] | None]:
        """Fit two residuals.

        If this iteration has no learner for c in the earlier run, that for r gives the structure.
        """
        (primary, momentum), sample = self._next()
        other = primary if momentum is None else momentum
        if self._learner.shared_structure:
            first, last = self._refit([r, c], newton, [primary, other], sample)
            return first, last
        first = self._refit([r], newton, [primary], sample)[0]
        return first, self._refit([c], newton, [other], sample)[0] if second else None

    def values(self, model: Model) -> Sequence[Array]:
        """The values of each function of trees that this fitter has returned."""
        forest, structure = self._structures[id(model)]
        return list(values_of(forest, self._leaves(structure)))

    def _refit(
        self, residuals: list[Array], newton: Newton[Array] | None, old: list[int], sample: RowSample | None
    ) -> list[Fit[Array]]:
        """One function per residual, with the structure of the first of the given functions."""
        if not all(np.isfinite(r).all() for r in residuals):
            raise DivergedError("a residual is not finite")
        structure = as_forest(self._earlier.function(old[0])[0])
        leaves = self._leaves(structure)
        trained = leaves[:, : self._n_train]
        if sample is not None:
            trained = np.full_like(trained, NOT_SAMPLED)
            rows = sample.rows(0, self._n_train)
            trained[:, rows] = leaves[:, rows]
        old_values = [_values_of_function(*self._earlier.function(function)) for function in old]
        trees = [
            self._tree(structure, tree, trained[tree], residuals, newton, old_values)
            for tree in range(len(structure.roots))
        ]
        forest = Forest(
            structure.n_features, structure.n_outputs, len(residuals), structure.roots,
            structure.first_column // structure.n_functions * len(residuals),
            np.concatenate([tree.nodes.view(np.uint8) for tree in trees]).view(NODE),
            structure.category_words, structure.category_start, np.concatenate([tree.value for tree in trees]),
        )  # fmt: skip
        self._structures[id(forest)] = forest, structure
        found = values_of(forest, leaves)
        return [
            fit_of(forest, j, found[j], self._n_train, newton, self._learner.n_threads) for j in range(len(residuals))
        ]

    def _tree(
        self,
        structure: Forest,
        tree: int,
        leaf: NDArray[np.int32],
        residuals: Sequence[Array],
        newton: Newton[Array] | None,
        old_values: Sequence[Array],
    ) -> _Tree:
        """A tree with new values; old_values are (node, output) of the tree's outputs, for each residual."""
        begin, end = _range_of(structure, tree)
        nodes = structure.nodes[begin:end].view(np.uint8).copy().view(NODE)
        first = int(structure.first_column[tree]) // structure.n_functions
        n_outputs = structure.value.shape[1] // structure.n_functions
        inputs = weighted(residuals, newton, range(first, first + n_outputs), self._weights)
        is_leaf = nodes["feature"] < 0
        old = np.stack([values[begin:end][is_leaf] for values in old_values], axis=-1).reshape(is_leaf.sum(), -1)
        min_hessian = 0.0 if newton is None else self._learner.min_hessian_leaf
        statistics = LeafStatistics.of(inputs, leaf, len(old), self._learner.n_threads)
        prior = self._old_weight * nodes["count"][is_leaf]
        value = np.zeros((len(nodes), old.shape[1]))
        value[is_leaf] = statistics.values(
            old, prior, min_hessian, self._learner.l1_regularization, self._l2_of(first, n_outputs, len(residuals))
        )
        _add_counts(nodes, begin, is_leaf, statistics.n_rows + np.rint(prior).astype(np.int64))
        monotone = self._learner.monotone
        for column in range(old.shape[1]) if monotone else ():
            output = first + column // len(residuals) if len(monotone) > 1 else 0
            _order(nodes, begin, value[:, column], monotone[output])
        return _Tree(nodes, value)

    def _l2_of(self, first: int, n_outputs: int, n_residuals: int) -> Array:
        """The regularization of each value of a tree whose outputs begin at `first`."""
        of_outputs = np.broadcast_to(self._learner.l2_of(range(first, first + n_outputs)), n_outputs)
        return np.repeat(of_outputs, n_residuals)


class _Tree(NamedTuple):
    nodes: NDArray[np.void]
    value: Array


class LeafStatistics(NamedTuple):
    """Sums over the rows of each leaf of a tree."""

    n_rows: NDArray[np.int64]
    """Rows, counting repeats."""
    residual: Array
    """(leaf, value)."""
    hessian: Array
    """(leaf, value)."""
    quantile: Array | None
    """(leaf, value) for losses with a kink; NaN for values that are Newton steps."""

    @classmethod
    def of(cls, inputs: dict[str, Any], leaf: NDArray[np.int32], n_leaves: int, n_threads: int) -> LeafStatistics:
        """From the inputs of a grower; see `weighted`. The bits of sums depend on the other rows as well."""
        repeats, residuals, hessians = inputs["repeats"], inputs["residuals"], inputs["hessians"]
        leaf = np.where(leaf == NOT_SAMPLED, n_leaves, leaf)

        def sums(x: Array) -> Array:
            return _native.leaf_sums(np.ascontiguousarray(x), leaf, n_leaves + 1, repeats, n_threads)[:n_leaves]

        count = sums(np.ones(len(leaf))).astype(np.int64)
        by_hessian = [count.astype(np.float64)] if hessians is None else [sums(hessian) for hessian in hessians]
        group = len(residuals) // len(by_hessian)
        return cls(
            count,
            np.column_stack([sums(r) for r in residuals]),
            np.column_stack([by_hessian[k // group] for k in range(len(residuals))]),
            _quantiles(inputs, leaf, n_leaves + 1)[:n_leaves] if inputs["distances"] else None,
        )

    def values(self, old: Array, prior: Array, min_hessian: float, l1: float, l2: Array) -> Array:
        """The values of the leaves; `prior` is the number of rows that each old value stands for; l2 is (value)."""
        n_rows = self.n_rows[:, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = prior[:, np.newaxis] * self.hessian / n_rows
            total = np.maximum(self.hessian, min_hessian) + l2 + weight
            moved = np.copysign(np.maximum(np.abs(self.residual) - l1, 0.0), self.residual)
            value = moved / total
            if self.quantile is not None:
                kept = np.where(moved == self.residual, 1.0, moved / self.residual)
                value = np.where(np.isnan(self.quantile), value, self.hessian / total * self.quantile * kept)
            value += weight * old / total
        return np.where(n_rows == 0, old, np.where(total > 0.0, value, 0.0))


def _quantiles(inputs: dict[str, Any], leaf: NDArray[np.int32], n_leaves: int) -> Array:
    """For the first residual of every output, the quantile of the distances of each leaf."""
    distances, n_values = inputs["distances"], len(inputs["residuals"])
    steps = inputs["repeats"] if inputs["steps"] is None else inputs["steps"]
    weight = np.ones(len(leaf)) if steps is None else steps.astype(np.float64)
    total = np.bincount(leaf, weight, n_leaves)
    found = np.full((n_leaves, n_values), np.nan)
    for k, (distance, share) in enumerate(zip(distances, inputs["shares"], strict=True)):
        wanted = np.array([enough(share, float(of_leaf)) for of_leaf in total], dtype=np.float64)
        order = np.lexsort((distance, leaf))
        before = np.repeat(np.cumsum(total) - total, np.bincount(leaf, minlength=n_leaves))
        reached = np.cumsum(weight[order]) - before >= wanted[leaf[order]]
        leaves, first = np.unique(leaf[order][reached], return_index=True)
        found[leaves, k * n_values // len(distances)] = distance[order][reached][first] + 0.0  # 0 and not -0
    return found


def values_of(forest: Forest, leaves: NDArray[np.int32]) -> Array:
    """Values (function, output, row) of a forest on rows whose leaves (tree, row) are known."""
    out = np.empty((forest.n_outputs * forest.n_functions, leaves.shape[1]))
    for tree, first in enumerate(forest.first_column.tolist()):
        begin, end = _range_of(forest, tree)
        value = forest.value[begin:end][forest.nodes["feature"][begin:end] < 0]
        out[first : first + value.shape[1]] = value.T[:, leaves[tree]]
    return out.reshape(forest.n_outputs, forest.n_functions, -1).transpose(1, 0, 2)


def _values_of_function(model: Model, number: int) -> Array:
    """Values (node, output of the tree) of a function of a forest."""
    forest = as_forest(model)
    return forest.value.reshape(len(forest.value), -1, forest.n_functions)[..., number]


def _range_of(forest: Forest, tree: int) -> tuple[int, int]:
    """The nodes of a tree."""
    end = int(forest.roots[tree + 1]) if tree + 1 < len(forest.roots) else len(forest.nodes)
    return int(forest.roots[tree]), end


def _add_counts(nodes: NDArray[np.void], begin: int, is_leaf: NDArray[np.bool_], of_leaves: NDArray[np.int64]) -> None:
    """Set the number of rows of every node; `begin` is the number of the tree's root."""
    count = nodes["count"]
    count[is_leaf] = of_leaves
    for node in np.flatnonzero(~is_leaf)[::-1].tolist():  # children follow their parents
        left = int(nodes["left"][node]) - begin
        count[node] = count[left] + count[left + 1]


def _order(nodes: NDArray[np.void], begin: int, value: Array, monotone: Sequence[int]) -> None:
    """Bound the values of leaves such that the tree is monotone, as the growth of trees does for quantiles.

    The two sides of a split on a monotone feature are bounded by the middle between their means.
    """
    inner = np.flatnonzero(nodes["feature"] >= 0).tolist()
    left, count, mean = nodes["left"] - begin, np.maximum(nodes["count"], 1), value.copy()
    for node in reversed(inner):
        sides = [left[node], left[node] + 1]
        mean[node] = np.average(mean[sides], weights=count[sides])
    lower, upper = np.full(len(nodes), -np.inf), np.full(len(nodes), np.inf)
    for node in inner:
        sides = [left[node], left[node] + 1]
        lower[sides], upper[sides] = lower[node], upper[node]
        direction = monotone[int(nodes["feature"][node])] if nodes["threshold"][node] < np.inf else 0
        if direction != 0:
            middle = min(max(0.5 * mean[sides].sum(), lower[node]), upper[node])
            upper[sides[0 if direction > 0 else 1]] = middle
            lower[sides[1 if direction > 0 else 0]] = middle
    is_leaf = nodes["feature"] < 0
    value[is_leaf] = np.clip(value, lower, upper)[is_leaf]
