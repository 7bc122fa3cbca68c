"""Trees as arrays, and forests that predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .. import _native
from .._core.losses import Array

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
        return self._to_native(self.n_features, self.nodes)

    @cached_property
    def _native_contributions(self) -> _native.Contributions:
        return _native.Contributions(self._native_forest)

    @cached_property
    def _used(self) -> NDArray[np.int32]:
        """The features that nodes split on."""
        return np.unique(self.nodes["feature"][self.nodes["feature"] >= 0])

    @cached_property
    def _native_forest_of_used(self) -> _native.Forest:
        """The same trees, of these features alone: of sparse rows, the others need not be made dense."""
        nodes = self.nodes.view(np.uint8).copy().view(NODE)  # as bytes, with those that belong to no field
        splits = nodes["feature"] >= 0
        nodes["feature"][splits] = np.searchsorted(self._used, nodes["feature"][splits])
        return self._to_native(len(self._used), nodes)

    @cached_property
    def _native_contributions_of_used(self) -> _native.Contributions:
        return _native.Contributions(self._native_forest_of_used)

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
        """Everything but the native copies, which are made again when they are needed."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def check(self) -> None:
        """Raise a ValueError if the arrays make no forest."""
        _ = self._native_forest

    @property
    def n_learners(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def predict(self, X: Any, n_threads: int) -> Array:
        """Sum of the trees' values (function, output, row); X is float32 or float64, dense or sparse."""
        if issparse(X):
            forest = self._native_forest_of_used
            columns = np.concatenate([forest.predict(rows, n_threads) for rows in self._used_values(X)])
        else:
            columns = self._native_forest.predict(X, n_threads)
        return columns.reshape(-1, self.n_outputs, self.n_functions).T

    def values_on(self, matrix: _native.BinnedMatrix, left_codes: NDArray[np.uint64], n_threads: int) -> Array:
        """The same values on all rows of a matrix of codes; see Bins.left_codes. Trees must not share columns."""
        columns = matrix.values(
            self.roots, self.first_column, self.nodes.view(np.uint8), left_codes, self.value,
            self.n_outputs * self.n_functions, n_threads,
        )  # fmt: skip
        return columns.reshape(self.n_outputs, self.n_functions, -1).transpose(1, 0, 2)

    def contributions(self, X: Any, n_threads: int) -> Array:
        """What each feature adds to these sums (function, output, row, feature + 1); they add up to them.

        These are Shapley values. A node that splits on an unknown feature takes both ways, each with its share of the
        training rows (`count`), or half where no rows went either way. The last place has the sums where no feature is
        known.
        """
        if issparse(X):
            columns = np.zeros((X.shape[0], self.n_outputs * self.n_functions, self.n_features + 1))
            places, first = np.append(self._used, self.n_features), 0
            for rows in self._used_values(X):
                found = self._native_contributions_of_used.predict(rows, n_threads)
                columns[first : first + len(rows), :, places] = found
                first += len(rows)
        else:
            columns = self._native_contributions.predict(X, n_threads)
        by_function = columns.reshape(-1, self.n_outputs, self.n_functions, self.n_features + 1)
        return by_function.transpose(2, 1, 0, 3)

    def _used_values(self, X: Any) -> Iterator[NDArray[Any]]:
        """Sparse rows, some at a time, dense: the values of the features that nodes split on."""
        rows = X.tocsr()[:, self._used]
        step = max(1, SPARSE_VALUES // max(len(self._used), 1))
        for first in range(0, max(rows.shape[0], 1), step):
            yield rows[first : first + step].toarray()


def one_output_each(trees: Sequence[Forest]) -> Forest:
    """One forest of single trees with one output: the k-th gives output k."""
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
    """The features that some forests, at least one, split on, and the gain of each: sums over forests, times weights.

    Nothing here has a place for every feature of the table, of which there may be far more than nodes.
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
    """What a forest in a stack has of each."""

    n_functions: int
    n_trees: int
    n_nodes: int
    n_values: int
    """Of a node."""
    n_starts: int
    """Of sets of categories, and the end of the last."""
    n_words: int


@dataclass(frozen=True, eq=False)
class Stack:
    """The arrays of some forests, each behind that of the forest before; numbers of nodes and sets are the forest's."""

    sizes: NDArray[np.int64]
    """(forest, size)."""
    roots: NDArray[np.int32]
    first_column: NDArray[np.int32]
    nodes: NDArray[np.void]
    category_start: NDArray[np.int64]
    category_words: NDArray[np.uint64]
    value: Array
    """Those of one node behind those of the node before."""

    @classmethod
    def of(cls, forests: Sequence[Forest]) -> Stack:
        """Some forests, at least one."""
        sizes = [
            (f.n_functions, len(f.roots), *f.value.shape, len(f.category_start), len(f.category_words)) for f in forests
        ]
        return cls(
            np.array(sizes, dtype=np.int64),
            np.concatenate([f.roots for f in forests]),
            np.concatenate([f.first_column for f in forests]),
            # As bytes: NumPy compares the types of records field by field, for every array.
            np.concatenate([f.nodes.view(np.uint8) for f in forests]).view(NODE),
            np.concatenate([f.category_start for f in forests]),
            np.concatenate([f.category_words for f in forests]),
            np.concatenate([f.value.ravel() for f in forests]),
        )

    def check(self, n_outputs: int) -> None:
        """Raise a ValueError where the arrays are not those of forests, each within itself.

        What the nodes of one forest say of each other is checked by it, or by the forest that all are joined to.
        """
        rows = [Sizes(*row) for row in self.sizes.tolist()]
        for forest, size in enumerate(rows):
            trees = {size.n_functions: n_outputs, size.n_functions * n_outputs: 1}  # by the values of a node
            counts = min(size[:-1]) >= 1 and size.n_words >= 0 and size.n_functions <= 2  # of r and of c
            if not counts or trees.get(size.n_values) != size.n_trees:
                raise ValueError(f"sizes: forest {forest} has {size}")
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
                raise ValueError(f"sizes: {name} has {len(getattr(self, name))} entries, the forests have {n}")
        self._check_numbers(n_outputs)

    def _check_numbers(self, n_outputs: int) -> None:
        n_nodes, n_trees, n_values = (self._column(name) for name in ("n_nodes", "n_trees", "n_values"))
        n_starts = self._column("n_starts")
        if (self.roots < 0).any() or (self.roots >= np.repeat(n_nodes, n_trees)).any():
            raise ValueError("roots: there are no such nodes in their forests")
        if (self.nodes["left"] >= np.repeat(n_nodes, n_nodes) - 1).any():
            raise ValueError("left: there are no such children in their forests")
        if (self.nodes["categories"] >= np.repeat(n_starts - 1, n_nodes)).any():
            raise ValueError("categories: there are no such sets in their forests")
        place = np.arange(len(self.first_column)) - np.repeat(np.cumsum(n_trees) - n_trees, n_trees)
        if (self.first_column != place * np.repeat(n_values, n_trees)).any():
            raise ValueError(
                f"first_column: the trees of a forest must give its {n_outputs} outputs, one after the other"
            )
        firsts = self._first_starts()
        rises = np.diff(self.category_start) >= 0
        rises[firsts[1:] - 1] = True  # from one forest to the next
        ends = self.category_start[np.append(firsts[1:], len(self.category_start)) - 1]
        if self.category_start[firsts].any() or not rises.all() or (ends != self._column("n_words")).any():
            raise ValueError("category_start: must rise from 0 to the number of words in every forest")
        if not np.isfinite(self.value).all():
            raise ValueError("value: some are not finite")

    def forests(self, n_features: int, n_outputs: int) -> list[Forest]:
        """The forests, one by one."""
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
        """All trees as one forest with one function, with other values (node, output)."""
        columns = self.first_column // np.repeat(self._column("n_functions"), self._column("n_trees"))
        return self.joined(n_features, n_outputs, 1, columns.astype(np.int32), value)

    def joined(
        self, n_features: int, n_outputs: int, n_functions: int, first_column: NDArray[np.int32], value: Array
    ) -> Forest:
        """All trees as one forest, with other values: numbers of nodes and sets are shifted to their new places."""
        n_nodes, n_trees, n_words = (self._column(name) for name in ("n_nodes", "n_trees", "n_words"))
        n_sets = self._column("n_starts") - 1
        nodes = self.nodes.view(np.uint8).copy().view(NODE)  # as bytes, with those that belong to no field
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
        """For each forest, where its first set begins."""
        n_starts = self._column("n_starts")
        return np.cumsum(n_starts) - n_starts

    def _lengths(self) -> NDArray[np.int64]:
        """For each forest, the entries that it has in the arrays."""
        names = ("n_trees", "n_nodes", "n_starts", "n_words")
        n_values = self._column("n_nodes") * self._column("n_values")
        return np.column_stack([*(self._column(name) for name in names), n_values])
