"""Trees as arrays, and forests that predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .. import _native
from ..losses import Array

# Values of a sparse matrix that are made dense at a time: whole rows, 32 MB or one row.
SPARSE_VALUES = 4_000_000


# A node, as the kernels write and read it.
NODE = np.dtype(
    [
        ("threshold", np.float64),  # values at or below go left
        ("gain", np.float64),
        ("count", np.int64),  # training rows in the node
        ("feature", np.int32),  # -1 in a leaf
        ("bin", np.int32),  # the threshold's
        ("left", np.int32),  # child, the other one is behind it; -1 in a leaf
        ("categories", np.int32),  # number of the set of categories that go left; -1 where the threshold decides
        ("missing_left", np.uint8),
    ],
    align=True,
)


@dataclass(eq=False)  # not frozen: there is one for each tree, and frozen ones take longer to make than small trees
class Forest:
    """One or more trees as an array of nodes: one or more functions of x, each with the same number of outputs.

    Children of node i are left[i] and left[i] + 1, behind their parent. The values of a tree are added to neighbouring
    columns; column output * n_functions + function is an output of a function.
    """

    n_features: int
    n_outputs: int
    n_functions: int
    roots: NDArray[np.int32]
    first_column: NDArray[np.int32]
    """For each tree, where its values are added."""
    nodes: NDArray[np.void]
    """NODE records."""
    category_words: NDArray[np.uint64]
    """The sets, one bit a category. What is beyond the end of a set is missing."""
    category_start: NDArray[np.int64]
    """First word of each set; the last entry is the total."""
    value: Array
    """(node, value)."""

    @cached_property
    def _native_forest(self) -> _native.Forest:
        return _native.Forest(
            self.n_features,
            self.n_outputs * self.n_functions,
            self.roots,
            self.first_column,
            self.nodes.view(np.uint8),
            self.category_words,
            self.category_start,
            self.value,
        )

    @cached_property
    def _native_contributions(self) -> _native.Contributions:
        return _native.Contributions(self._native_forest)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the native copies, which are made again when they are needed."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_native")}

    def check(self) -> None:
        """Raise a ValueError if the arrays make no forest."""
        _ = self._native_forest

    @property
    def n_learners(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def predict(self, X: Any, n_threads: int) -> Array:
        """Sum of the trees' values (function, output, row); X is float32 or float64, dense or sparse."""
        columns = _of_rows(X, lambda rows: self._native_forest.predict(rows, n_threads))
        return columns.reshape(-1, self.n_outputs, self.n_functions).T

    def contributions(self, X: Any, n_threads: int) -> Array:
        """What each feature adds to these sums (function, output, row, feature + 1); they add up to them.

        These are Shapley values. A node that splits on an unknown feature takes both ways, each with its share of the
        training rows (`count`), or half where no rows went either way. The last place has the sums where no feature is
        known.
        """
        columns = _of_rows(X, lambda rows: self._native_contributions.predict(rows, n_threads))
        by_function = columns.reshape(-1, self.n_outputs, self.n_functions, self.n_features + 1)
        return by_function.transpose(2, 1, 0, 3)

    def gain_by_feature(self) -> Array:
        """Total gain of the splits on each feature."""
        splits = self.nodes[self.nodes["feature"] >= 0]
        total = np.bincount(splits["feature"], weights=splits["gain"], minlength=self.n_features)
        return np.asarray(total, dtype=np.float64)

    def splits_by_feature(self) -> NDArray[np.intp]:
        """Number of splits on each feature."""
        feature = self.nodes["feature"]
        return np.bincount(feature[feature >= 0], minlength=self.n_features)


def _of_rows(X: Any, of_dense: Callable[[Array], Array]) -> Array:
    """What a function of dense rows gives; sparse ones are made dense a part at a time."""
    if not issparse(X):
        return of_dense(X)
    rows = X.tocsr()
    step = max(1, SPARSE_VALUES // max(rows.shape[1], 1))
    starts = range(0, max(rows.shape[0], 1), step)
    return np.concatenate([of_dense(rows[i : i + step].toarray()) for i in starts])


def one_output_each(trees: Sequence[Forest]) -> Forest:
    """One forest of single trees with one output: the k-th gives output k."""
    n_functions = trees[0].n_functions
    columns = np.arange(len(trees), dtype=np.int32) * n_functions
    return _join(trees, [tree.value for tree in trees], columns, len(trees), n_functions)


def fold(forests: Sequence[Forest], weights: Sequence[Array]) -> Forest:
    """One forest with one function: the sum of all functions of all forests, each times its weight."""
    columns = [forest.first_column // forest.n_functions for forest in forests]
    values = [_weighted(forest, weight) for forest, weight in zip(forests, weights, strict=True)]
    return _join(forests, values, np.concatenate(columns), forests[0].n_outputs, 1)


def _weighted(forest: Forest, weight: Array) -> Array:
    """Values (node, output) of the sum of a forest's functions, each times its weight."""
    if forest.n_functions == 1:
        return forest.value * weight
    by_function = forest.value.reshape(len(forest.value), -1, forest.n_functions)
    total = by_function[..., 0] * weight[0]
    for function in range(1, forest.n_functions):
        total += by_function[..., function] * weight[function]
    return np.asarray(total)


def _join(
    forests: Sequence[Forest],
    values: Sequence[Array],
    first_column: NDArray[np.int32],
    n_outputs: int,
    n_functions: int,
) -> Forest:
    """All trees of some forests as one forest: numbers of nodes and sets are shifted to their new places."""
    n_nodes = np.array([len(forest.nodes) for forest in forests])
    n_sets = np.array([len(forest.category_start) - 1 for forest in forests])
    # As bytes: NumPy compares the types of records field by field, for every array.
    nodes = np.concatenate([forest.nodes.view(np.uint8) for forest in forests]).view(NODE)
    for name, sizes in (("left", n_nodes), ("categories", n_sets)):
        shift = np.repeat(np.cumsum(sizes) - sizes, n_nodes)
        nodes[name] += np.where(nodes[name] >= 0, shift, 0).astype(np.int32)
    n_trees = [len(forest.roots) for forest in forests]
    roots = np.concatenate([forest.roots for forest in forests])
    starts = [forest.category_start[1:] for forest in forests]
    words_before = np.cumsum([0, *(len(forest.category_words) for forest in forests)])[:-1]
    return Forest(
        n_features=forests[0].n_features,
        n_outputs=n_outputs,
        n_functions=n_functions,
        roots=(roots + np.repeat(np.cumsum(n_nodes) - n_nodes, n_trees)).astype(np.int32),
        first_column=first_column,
        nodes=nodes,
        category_words=np.concatenate([forest.category_words for forest in forests]),
        category_start=np.concatenate([[0], np.concatenate(starts) + np.repeat(words_before, n_sets)]),
        value=np.concatenate(values),
    )
