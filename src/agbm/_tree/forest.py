"""Trees stored as arrays, and forests for prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base import _native
from .._base.sums import Array
from .._base.types import AnyArray, Matrix

# How many values of a sparse matrix are made dense at a time: whole rows of about 32 MB in total, at least one row.
SPARSE_VALUES = 4_000_000


# A node, as in the kernels.
NODE = np.dtype(
    [
        ("threshold", np.float64),  # values at or below it go left
        ("gain", np.float64),
        ("count", np.int64),  # training rows in the node
        ("feature", np.int32),  # -1 in a leaf
        ("bin", np.int32),  # of the threshold
        ("left", np.int32),  # left child, followed by the right child; -1 in a leaf
        ("categories", np.int32),  # index of the set of categories that go left; -1 if the threshold decides
        ("missing_left", np.uint8),
    ],
    align=True,
)


@dataclass(eq=False)  # not frozen: creating a frozen dataclass takes longer than growing a small tree
class Forest:
    """One or more trees as an array of nodes: one or more functions of x, each with the same number of outputs.

    The children of node i are left[i] and left[i] + 1, which are greater than i. The values of a tree are added to
    adjacent columns; column output * n_functions + function has an output of a function.
    """

    n_features: int
    n_outputs: int
    n_functions: int
    roots: NDArray[np.int32]
    first_column: NDArray[np.int32]
    """For each tree, the first column that its values are added to."""
    nodes: NDArray[np.void]
    """NODE records."""
    category_words: NDArray[np.uint64]
    """The sets, one bit per category. Categories after the end of a set are treated as missing."""
    category_start: NDArray[np.int64]
    """The first word of each set; the last entry is the total number of words."""
    value: Array
    """(node, value)."""

    @cached_property
    def _native_forest(self) -> _native.Forest:
        return self._to_native(self.n_features, self.nodes)

    @cached_property
    def _explained(self) -> _Explained:
        return _Explained(self._native_forest, self.n_outputs * self.n_functions)

    @cached_property
    def _used(self) -> NDArray[np.int32]:
        """The features that nodes split on."""
        return np.unique(self.nodes["feature"][self.nodes["feature"] >= 0])

    @cached_property
    def _native_forest_of_used(self) -> _native.Forest:
        """The same trees on the used features only, so that other features of sparse rows need not be made dense."""
        nodes = self.nodes.view(np.uint8).copy().view(NODE)  # as bytes, including padding
        splits = nodes["feature"] >= 0
        nodes["feature"][splits] = np.searchsorted(self._used, nodes["feature"][splits])
        return self._to_native(len(self._used), nodes)

    @cached_property
    def _explained_of_used(self) -> _Explained:
        return _Explained(self._native_forest_of_used, self.n_outputs * self.n_functions)

    def _to_native(self, n_features: int, nodes: NDArray[np.void]) -> _native.Forest:
        return _native.Forest(
            n_features,
            self.n_outputs * self.n_functions,
            self.roots,
            self.first_column,
            nodes.view(np.uint8),
            self.category_words,
            self.category_start,
            self.value,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state without native copies, which are created when needed."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def check(self) -> None:
        """Raise ValueError if the arrays are not a valid forest."""
        _ = self._native_forest

    @property
    def n_learners(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def predict(self, X: Matrix, n_threads: int) -> Array:
        """Sums of the values of all trees (function, output, row); X is float32 or float64, dense or sparse."""
        sums = np.empty((X.shape[0], self.n_outputs, self.n_functions))
        if isinstance(X, np.ndarray):  # faster to test than issparse, which counts for one row
            self._native_forest.predict(X, sums, n_threads)
            return sums.T
        first = 0
        for rows in self._used_values(X):
            self._native_forest_of_used.predict(rows, sums[first : first + len(rows)], n_threads)
            first += len(rows)
        return sums.T

    def predicting(self, start: Array, link: str, n_threads: int) -> _native.RowPredictor:
        """A kernel that adds `start`, one number per output, to the sums and applies an inverse link."""
        return _native.RowPredictor(self._native_forest, start, link, n_threads)

    def leaves(self, X: Any, n_threads: int) -> NDArray[np.int32]:
        """The index of the leaf that each row reaches in each tree, among the leaves of the tree: (row, tree)."""
        if issparse(X):
            forest = self._native_forest_of_used
            nodes = np.concatenate([forest.leaf_nodes(rows, n_threads) for rows in self._used_values(X)])
        else:
            nodes = self._native_forest.leaf_nodes(X, n_threads)
        return np.asarray(self._leaf_numbers[nodes])

    @cached_property
    def _leaf_numbers(self) -> NDArray[np.int32]:
        """For each leaf, its index among the leaves of its tree, in the order of the nodes."""
        is_leaf: NDArray[np.bool_] = self.nodes["feature"] < 0
        before: NDArray[np.intp] = np.cumsum(is_leaf) - is_leaf
        first = before[self.roots]  # the nodes of a tree are contiguous, root first
        of_tree = np.searchsorted(self.roots, np.arange(len(self.nodes)), side="right") - 1
        return np.asarray(before - first[of_tree], dtype=np.int32)

    def values_on(self, matrix: _native.BinnedMatrix, left_codes: NDArray[np.uint64], n_threads: int) -> Array:
        """The same sums on all rows of a matrix of bin codes; see Bins.left_codes. Trees must not share columns."""
        columns = matrix.values(
            self.roots, self.first_column, self.nodes.view(np.uint8), left_codes, self.value,
            self.n_outputs * self.n_functions, n_threads,
        )  # fmt: skip
        return columns.reshape(self.n_outputs, self.n_functions, -1).transpose(1, 0, 2)

    def contributions(self, X: Any, n_threads: int, background: Any = None, *, pairs: bool = False) -> Array:
        """Contributions of the features to the results of `predict`: (function, output, row, feature + 1).

        These are Shapley values, which add up to the result. At a node that splits on an unknown feature, both branches
        are taken, weighted by their shares of the training rows (`count`), or by one half if neither has rows; with
        background rows, unknown features have the values of these instead, and results are means over them. The last
        entry is the base value, the result if no feature is known.

        With pairs=True, these are Shapley interaction values (function, output, row, feature + 1, feature + 1), which
        add up to the contributions, with the base value at the end of the diagonal.
        """
        if background is not None and background.dtype != X.dtype:
            X, background = X.astype(np.float64), background.astype(np.float64)
        if not issparse(X):
            background = background.toarray() if issparse(background) else background
            return self.by_function(self._explained.values(X, background, pairs, n_threads))
        shape = (self.n_features + 1,) * (2 if pairs else 1)
        places: tuple[Any, ...] = np.ix_(*[np.append(self._used, self.n_features)] * len(shape))
        columns, first = np.zeros((X.shape[0], self.n_outputs * self.n_functions, *shape)), 0
        if background is not None:
            background = background[:, self._used]
            background = background.toarray() if issparse(background) else background
        for rows in self._used_values(X):
            found = self._explained_of_used.values(rows, background, pairs, n_threads)
            columns[(slice(first, first + len(rows)), slice(None), *places)] = found
            first += len(rows)
        return self.by_function(columns)

    def passes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], int, Array]:
        """What kernels of devices compute contributions from; see _native.Contributions.passes."""
        return self._explained.contributions.passes()

    def by_function(self, columns: Array) -> Array:
        """Contributions (row, column, feature + 1), or of pairs, as (function, output, row, feature + 1)."""
        split = columns.reshape(-1, self.n_outputs, self.n_functions, *columns.shape[2:])
        return split.swapaxes(0, 2)

    def _used_values(self, X: Any) -> Iterator[AnyArray]:
        """Sparse rows as dense arrays, some rows at a time, with the used features only."""
        rows = X.tocsr()[:, self._used]
        step = max(1, SPARSE_VALUES // max(len(self._used), 1))
        for first in range(0, max(rows.shape[0], 1), step):
            yield rows[first : first + step].toarray()


class _Explained:
    """A native forest, and what contributions are computed from, which is made when it is first needed."""

    def __init__(self, forest: _native.Forest, n_columns: int) -> None:
        self._forest, self._n_columns = forest, n_columns

    @cached_property
    def contributions(self) -> _native.Contributions:
        return _native.Contributions(self._forest)

    @cached_property
    def _interactions(self) -> _native.Interactions:
        return _native.Interactions(self._forest)

    def values(self, X: AnyArray, background: AnyArray | None, pairs: bool, n_threads: int) -> Array:
        """Contributions (row, column, feature + 1), or of pairs; see Forest.contributions."""
        if background is None and not pairs:
            return self.contributions.predict(X, n_threads)
        out = np.empty((len(X), self._n_columns, *[X.shape[1] + 1] * (2 if pairs else 1)))
        if background is None:
            self._interactions.predict(X, out, n_threads)
        else:
            _native.contributions_against(self._forest, X, background, pairs, out, n_threads)
        return out


def one_output_each(trees: Sequence[Forest]) -> Forest:
    """One forest from single trees with one output each; tree k becomes output k."""
    n_functions = trees[0].n_functions
    columns = np.arange(len(trees), dtype=np.int32) * n_functions
    value = np.concatenate([tree.value for tree in trees])
    return Stack.of(trees).joined(trees[0].n_features, len(trees), n_functions, columns, value)


def fold(forests: Sequence[Forest], weights: Sequence[Array]) -> Forest:
    """One forest with one function: the sum of all functions of all forests, each times its weight."""
    value = np.concatenate([_weighted(forest, weight) for forest, weight in zip(forests, weights, strict=True)])
    return Stack.of(forests).folded(forests[0].n_features, forests[0].n_outputs, value)


def _weighted(forest: Forest, weight: Array) -> Array:
    """Values (node, output) of the sum of a forest's functions, each times its weight."""
    if forest.n_functions == 1:
        return forest.value * weight
    by_function = forest.value.reshape(len(forest.value), -1, forest.n_functions)
    total = by_function[..., 0] * weight[0]
    for function in range(1, forest.n_functions):
        total += by_function[..., function] * weight[function]
    return np.asarray(total)


def gain_by_feature(forests: Sequence[Forest], weights: Sequence[float]) -> tuple[NDArray[np.int64], Array]:
    """The features that forests (at least one) split on, and the weighted sum of the gains of each.

    No array here has an entry per feature of the table, since there may be far more features than nodes.
    """
    feature = np.concatenate([forest.nodes["feature"] for forest in forests]).astype(np.int64)
    gain = np.concatenate([forest.nodes["gain"] for forest in forests])
    forest = np.repeat(np.arange(len(forests)), [len(forest.nodes) for forest in forests])
    inner, n_features = feature >= 0, forests[0].n_features
    pairs, place = np.unique(forest[inner] * n_features + feature[inner], return_inverse=True)
    of_pairs = np.bincount(place, gain[inner], len(pairs)) * np.asarray(weights)[pairs // n_features]
    features, place = np.unique(pairs % n_features, return_inverse=True)
    return features, np.asarray(np.bincount(place, of_pairs, len(features)), dtype=np.float64)


class Sizes(NamedTuple):
    """The sizes of the arrays of a forest in a stack."""

    n_functions: int
    n_trees: int
    n_nodes: int
    n_values: int
    """Values per node."""
    n_starts: int
    """Sets of categories plus one: their starts, and the end of the last."""
    n_words: int


@dataclass(frozen=True, eq=False)
class Stack:
    """The concatenated arrays of several forests; indices of nodes and sets are relative to their forest."""

    sizes: NDArray[np.int64]
    """(forest, size)."""
    roots: NDArray[np.int32]
    first_column: NDArray[np.int32]
    nodes: NDArray[np.void]
    category_start: NDArray[np.int64]
    category_words: NDArray[np.uint64]
    value: Array
    """The values of all nodes, one node after the other."""

    @classmethod
    def of(cls, forests: Sequence[Forest]) -> Stack:
        """A stack of forests, at least one."""
        sizes = [
            (f.n_functions, len(f.roots), *f.value.shape, len(f.category_start), len(f.category_words)) for f in forests
        ]
        return cls(
            np.array(sizes, dtype=np.int64),
            np.concatenate([f.roots for f in forests]),
            np.concatenate([f.first_column for f in forests]),
            # As bytes, since NumPy compares record types field by field for every array, which is slow.
            np.concatenate([f.nodes.view(np.uint8) for f in forests]).view(NODE),
            np.concatenate([f.category_start for f in forests]),
            np.concatenate([f.category_words for f in forests]),
            np.concatenate([f.value.ravel() for f in forests]),
        )

    def check(self, n_outputs: int) -> None:
        """Raise ValueError unless the sizes and indices of every forest are valid.

        The structure of trees is checked by Forest.check.
        """
        rows = [Sizes(*row) for row in self.sizes.tolist()]
        for forest, size in enumerate(rows):
            trees = {size.n_functions: n_outputs, size.n_functions * n_outputs: 1}  # number of trees by values per node
            counts = min(size[:-1]) >= 1 and size.n_words >= 0 and size.n_functions <= 2  # functions of r and c
            if not counts or trees.get(size.n_values) != size.n_trees:
                raise ValueError(f"sizes: forest {forest} has invalid sizes {size}")
        wanted = {
            "roots": sum(size.n_trees for size in rows),
            "first_column": sum(size.n_trees for size in rows),
            "nodes": sum(size.n_nodes for size in rows),
            "category_start": sum(size.n_starts for size in rows),
            "category_words": sum(size.n_words for size in rows),
            "value": sum(size.n_nodes * size.n_values for size in rows),
        }
        for name, n in wanted.items():
            if len(getattr(self, name)) != n:
                raise ValueError(f"sizes: {name} must have {n} entries, got {len(getattr(self, name))}")
        self._check_numbers(n_outputs)

    def _check_numbers(self, n_outputs: int) -> None:
        n_nodes, n_trees, n_values = (self._column(name) for name in ("n_nodes", "n_trees", "n_values"))
        n_starts = self._column("n_starts")
        if (self.roots < 0).any() or (self.roots >= np.repeat(n_nodes, n_trees)).any():
            raise ValueError("roots: a node does not exist in its forest")
        if (self.nodes["left"] >= np.repeat(n_nodes, n_nodes) - 1).any():
            raise ValueError("left: a child does not exist in its forest")
        if (self.nodes["categories"] >= np.repeat(n_starts - 1, n_nodes)).any():
            raise ValueError("categories: a set does not exist in its forest")
        place = np.arange(len(self.first_column)) - np.repeat(np.cumsum(n_trees) - n_trees, n_trees)
        if (self.first_column != place * np.repeat(n_values, n_trees)).any():
            raise ValueError(f"first_column: the trees of a forest must cover its {n_outputs} outputs in order")
        firsts = self._first_starts()
        rises = np.diff(self.category_start) >= 0
        rises[firsts[1:] - 1] = True  # at the boundary between two forests
        ends = self.category_start[np.append(firsts[1:], len(self.category_start)) - 1]
        if self.category_start[firsts].any() or not rises.all() or (ends != self._column("n_words")).any():
            raise ValueError("category_start: must increase from 0 to the number of words in every forest")
        if not np.isfinite(self.value).all():
            raise ValueError("value: must be finite")

    def forests(self, n_features: int, n_outputs: int) -> list[Forest]:
        """The forests of the stack."""
        ends = np.cumsum(self._lengths(), axis=0)
        begins = ends - self._lengths()
        shapes = self.sizes[:, [Sizes._fields.index("n_nodes"), Sizes._fields.index("n_values")]].tolist()
        n_functions = self._column("n_functions").tolist()
        return [
            Forest(
                n_features=n_features, n_outputs=n_outputs, n_functions=n_functions[k],
                roots=self.roots[b[0] : e[0]], first_column=self.first_column[b[0] : e[0]],
                nodes=self.nodes[b[1] : e[1]], category_start=self.category_start[b[2] : e[2]],
                category_words=self.category_words[b[3] : e[3]], value=self.value[b[4] : e[4]].reshape(shapes[k]),
            )
            for k, (b, e) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True))
        ]  # fmt: skip

    def folded(self, n_features: int, n_outputs: int, value: Array) -> Forest:
        """All trees as one forest with one function and the given values (node, output)."""
        columns = self.first_column // np.repeat(self._column("n_functions"), self._column("n_trees"))
        return self.joined(n_features, n_outputs, 1, columns.astype(np.int32), value)

    def joined(
        self, n_features: int, n_outputs: int, n_functions: int, first_column: NDArray[np.int32], value: Array
    ) -> Forest:
        """All trees as one forest with the given values; indices of nodes and sets are shifted."""
        n_nodes, n_trees, n_words = (self._column(name) for name in ("n_nodes", "n_trees", "n_words"))
        n_sets = self._column("n_starts") - 1
        nodes = self.nodes.view(np.uint8).copy().view(NODE)  # as bytes, including padding
        for name, counts in (("left", n_nodes), ("categories", n_sets)):
            shift = np.repeat(np.cumsum(counts) - counts, n_nodes)
            nodes[name] += np.where(nodes[name] >= 0, shift, 0).astype(np.int32)
        return Forest(
            n_features=n_features,
            n_outputs=n_outputs,
            n_functions=n_functions,
            roots=(self.roots + np.repeat(np.cumsum(n_nodes) - n_nodes, n_trees)).astype(np.int32),
            first_column=first_column,
            nodes=nodes,
            category_words=self.category_words,
            category_start=np.append(
                0,
                np.delete(self.category_start, self._first_starts()) + np.repeat(np.cumsum(n_words) - n_words, n_sets),
            ),
            value=value,
        )

    def _column(self, name: str) -> NDArray[np.int64]:
        return self.sizes[:, Sizes._fields.index(name)]

    def _first_starts(self) -> NDArray[np.int64]:
        """For each forest, the position of its first entry in category_start."""
        n_starts = self._column("n_starts")
        return np.cumsum(n_starts) - n_starts

    def _lengths(self) -> NDArray[np.int64]:
        """For each forest, the number of its entries in each of the arrays."""
        names = ("n_trees", "n_nodes", "n_starts", "n_words")
        n_values = self._column("n_nodes") * self._column("n_values")
        return np.column_stack([*(self._column(name) for name in names), n_values])
