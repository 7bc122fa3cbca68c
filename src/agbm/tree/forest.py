"""Trees as arrays, and forests that predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..losses import Array


@dataclass(frozen=True, eq=False)
class Forest:
    """One or more trees as node arrays. Children of node i are left[i] and left[i] + 1, behind their parent."""

    n_features: int
    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    """-1 in a leaf."""
    threshold: Array
    """Values at or below go left."""
    left: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    value: Array
    """(node, output)."""
    gain: Array
    count: NDArray[np.int64]
    """Training rows in the node."""

    @cached_property
    def _native_forest(self) -> _native.Forest:
        return _native.Forest(
            self.n_features, self.roots, self.feature, self.threshold, self.left, self.missing_left, self.value
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the native copy, which is made again when it is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "_native_forest"}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def predict(self, X: Array, n_threads: int) -> Array:
        """Sum of the trees' values (row, output); X is float32 or float64."""
        return self._native_forest.predict(X, n_threads)

    def gain_by_feature(self) -> Array:
        """Total gain of the splits on each feature."""
        split = self.feature >= 0
        return np.asarray(
            np.bincount(self.feature[split], weights=self.gain[split], minlength=self.n_features), dtype=np.float64
        )


def fold(trees: Sequence[Forest], weights: Sequence[Array]) -> Forest:
    """One forest with a single output: every leaf value times its weight, the outputs of a tree added up."""
    sizes = np.array([len(tree.feature) for tree in trees], dtype=np.int32)
    starts = np.cumsum(sizes, dtype=np.int32) - sizes

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees], dtype=dtype)

    left = joined("left", np.int32)
    left[left >= 0] += np.repeat(starts, sizes)[left >= 0]
    values = [tree.value[:, : len(weight)] @ weight for tree, weight in zip(trees, weights, strict=True)]
    return Forest(
        n_features=trees[0].n_features,
        roots=starts,
        feature=joined("feature", np.int32),
        threshold=joined("threshold", np.float64),
        left=left,
        missing_left=joined("missing_left", np.uint8),
        value=np.concatenate(values)[:, np.newaxis],
        gain=joined("gain", np.float64),
        count=joined("count", np.int64),
    )
