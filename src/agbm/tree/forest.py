"""Trees as arrays, and forests that predict."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, eq=False)
class Forest:
    """One or more trees as node arrays: one or more functions of x, each with the same number of outputs.

    Children of node i are left[i] and left[i] + 1, behind their parent. The values of a tree are added to neighbouring
    columns; column output * n_functions + function is an output of a function.
    """

    n_features: int
    n_outputs: int
    n_functions: int
    roots: NDArray[np.int32]
    first_column: NDArray[np.int32]
    """For each tree, where its values are added."""
    feature: NDArray[np.int32]
    """-1 in a leaf."""
    threshold: Array
    """Values at or below go left."""
    left: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    categories: NDArray[np.int32]
    """Number of the set of categories that go left; -1 where the threshold decides."""
    category_words: NDArray[np.uint64]
    """The sets, one bit a category. What is beyond the end of a set is missing."""
    category_start: NDArray[np.int64]
    """First word of each set; the last entry is the total."""
    value: Array
    """(node, value)."""
    gain: Array
    count: NDArray[np.int64]
    """Training rows in the node."""

    @cached_property
    def _native_forest(self) -> _native.Forest:
        return _native.Forest(
            self.n_features,
            self.n_outputs * self.n_functions,
            self.roots,
            self.first_column,
            self.feature,
            self.threshold,
            self.left,
            self.missing_left,
            self.categories,
            self.category_words,
            self.category_start,
            self.value,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the native copy, which is made again when it is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "_native_forest"}

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
            rows = X.tocsr()
            step = max(1, SPARSE_VALUES // max(rows.shape[1], 1))
            starts = range(0, max(rows.shape[0], 1), step)
            parts = [self._columns(rows[i : i + step].toarray(), n_threads) for i in starts]
            columns = np.concatenate(parts)
        else:
            columns = self._columns(X, n_threads)
        return columns.reshape(-1, self.n_outputs, self.n_functions).T

    def _columns(self, X: Array, n_threads: int) -> Array:
        return self._native_forest.predict(X, n_threads)

    def gain_by_feature(self) -> Array:
        """Total gain of the splits on each feature."""
        split = self.feature >= 0
        return np.asarray(
            np.bincount(self.feature[split], weights=self.gain[split], minlength=self.n_features), dtype=np.float64
        )


def one_output_each(trees: Sequence[Forest]) -> Forest:
    """One forest of single trees with one output: the k-th gives output k."""
    n_functions = trees[0].n_functions
    columns = np.arange(len(trees), dtype=np.int32) * n_functions
    return _join(trees, [tree.value for tree in trees], columns, len(trees), n_functions)


def fold(forests: Sequence[Forest], weights: Sequence[Array]) -> Forest:
    """One forest with one function: the sum of all functions of all forests, each times its weight."""
    n_functions = [forest.n_functions for forest in forests]
    values = [
        np.einsum("nkf,f->nk", forest.value.reshape(len(forest.value), -1, forest.n_functions), weight)
        for forest, weight in zip(forests, weights, strict=True)
    ]
    columns = [forest.first_column // n for forest, n in zip(forests, n_functions, strict=True)]
    return _join(forests, values, np.concatenate(columns), forests[0].n_outputs, 1)


def _join(
    forests: Sequence[Forest],
    values: Sequence[Array],
    first_column: NDArray[np.int32],
    n_outputs: int,
    n_functions: int,
) -> Forest:
    """All trees of some forests as one forest."""

    def joined(name: str, shift: Sequence[int] | None = None) -> NDArray[Any]:
        """Arrays behind each other; numbers of nodes or sets are shifted to their new places."""
        arrays = [getattr(forest, name) for forest in forests]
        if shift is not None:
            arrays = [np.where(a >= 0, a + by, a).astype(np.int32) for a, by in zip(arrays, shift, strict=True)]
        return np.concatenate(arrays)

    nodes_before = np.cumsum([0, *(len(forest.feature) for forest in forests)]).tolist()[:-1]
    sets_before = np.cumsum([0, *(len(forest.category_start) - 1 for forest in forests)]).tolist()[:-1]
    set_sizes = np.concatenate([np.diff(forest.category_start) for forest in forests])
    return Forest(
        n_features=forests[0].n_features,
        n_outputs=n_outputs,
        n_functions=n_functions,
        roots=joined("roots", nodes_before),
        first_column=first_column,
        feature=joined("feature"),
        threshold=joined("threshold"),
        left=joined("left", nodes_before),
        missing_left=joined("missing_left"),
        categories=joined("categories", sets_before),
        category_words=joined("category_words"),
        category_start=np.cumsum(np.append(0, set_sizes), dtype=np.int64),
        value=np.ascontiguousarray(np.concatenate(values)),
        gain=joined("gain"),
        count=joined("count"),
    )
