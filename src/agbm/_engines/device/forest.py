"""Forests on a device: predictions with the same bits as on the CPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._tree.forest import Forest
from .device import Argument, Device, DeviceArray, blocks_for
from .matrix import check_table, rounded_down, table_arguments

MOST_THREADS = 256
FEWEST_THREADS = 32
SHARED_BYTES = 2**16
"""The maximum of shared memory per block, which every GPU supports."""
WALK_THREADS = 128
"""Threads per block of contributions."""
WALK_BYTES = 2**28
"""The maximum of memory for the walks of all threads, of which a block is the least."""
POINTS = 4
"""kMaxPoints in the kernels."""
NARROW_COLUMNS = 2**10
"""Narrow nodes have fewer columns; see NarrowNode in predict_kernels.hpp."""
NARROW_DISTANCE = 2**20
"""Children of narrow nodes are fewer nodes away."""


class _Nodes(NamedTuple):
    """The nodes of a forest for tables of one type, and how the kernels read these tables."""

    kernel: str
    """The suffix of the kernel names."""
    n_threads: int
    columns: DeviceArray | None
    """The columns of a table that are copied to shared memory; None if they are too many."""
    n_columns: int
    nodes: DeviceArray
    """NarrowNode or WideNode of predict_kernels.hpp."""


class _Walks(NamedTuple):
    """The passes of contributions; see shapley.hpp."""

    edges: DeviceArray
    weights: DeviceArray
    passes: DeviceArray
    n_passes: int
    n_levels: int
    expected: DeviceArray


class _Trees(NamedTuple):
    """The trees of a forest in some order."""

    roots: DeviceArray
    depths: DeviceArray
    first_columns: DeviceArray


class DeviceForest:
    """A forest on a device."""

    def __init__(self, device: Device, forest: Forest) -> None:
        self._device, self._forest = device, forest
        self._nodes_of: dict[np.dtype[Any], _Nodes] = {}

    def predict(self, X: DeviceArray) -> DeviceArray:
        """Sums of the values of all trees (function, output, row), as Forest.predict; X is float32 or float64."""
        forest = self._forest
        out = self._device.zeros((forest.n_outputs * forest.n_functions, X.shape[0]), np.float64)
        trees = self._trees_for_sums
        self._launch("predict", X, trees, self._value, forest.value.shape[1], trees.first_columns, out)
        return out.reshape(forest.n_outputs, forest.n_functions, X.shape[0]).transpose(1, 0, 2)

    def leaves(self, X: DeviceArray) -> DeviceArray:
        """The index of the leaf that each row reaches in each tree, as Forest.leaves: (row, tree)."""
        out = self._device.empty((X.shape[0], self._forest.n_learners), np.int32)
        self._launch("leaves", X, self._trees_in_order, self._leaf_numbers, out)
        return out

    def contributions(self, X: DeviceArray) -> DeviceArray:
        """Contributions (column, feature + 1, row), as Forest.contributions."""
        forest, walks, n_rows = self._forest, self._walks, X.shape[0]
        check_table(X, forest.n_features)
        n_columns, n_values = forest.n_outputs * forest.n_functions, forest.value.shape[1]
        out = self._device.zeros((n_columns, forest.n_features + 1, n_rows), np.float64)
        if n_rows == 0:
            return out
        n_numbers, n_flags = walks.n_levels * POINTS * (1 + n_values), walks.n_levels * 2
        most_blocks = WALK_BYTES // (8 * (n_numbers + n_flags) * WALK_THREADS)
        n_blocks = min(blocks_for(self._device, n_rows, WALK_THREADS), max(1, most_blocks))
        n_threads = n_blocks * WALK_THREADS
        self._device.launch(
            f"agbm_contributions_{X.dtype}", n_blocks, WALK_THREADS, *table_arguments(X), n_rows, forest.n_features,
            walks.edges, walks.weights, walks.passes, walks.n_passes, *self._categories, self._value, n_values,
            walks.expected, n_columns, walks.n_levels, self._device.empty(n_numbers * n_threads, np.float64),
            self._device.empty(n_flags * n_threads, np.int64), out,
        )  # fmt: skip
        return out

    def _launch(self, what: str, X: DeviceArray, trees: _Trees, *args: Argument) -> None:
        check_table(X, self._forest.n_features)
        n_rows = X.shape[0]
        if n_rows == 0 or self._forest.n_learners == 0:
            return
        if X.dtype not in self._nodes_of:
            self._nodes_of[X.dtype] = self._nodes(X.dtype)
        nodes = self._nodes_of[X.dtype]
        # Several times as many blocks as run at once, so that all processors are busy to the end.
        per_processor = 4 * 2048 // nodes.n_threads
        self._device.launch(
            f"agbm_{what}_{nodes.kernel}",
            blocks_for(self._device, n_rows, nodes.n_threads, per_processor),
            nodes.n_threads,
            *table_arguments(X), n_rows, nodes.columns, nodes.n_columns, nodes.nodes,
            trees.roots, trees.depths, self._forest.n_learners, *self._categories, *args,
            shared=nodes.n_columns * nodes.n_threads * X.itemsize,
        )  # fmt: skip

    def _nodes(self, dtype: np.dtype[Any]) -> _Nodes:
        used = np.unique(self._forest.nodes["feature"][self._forest.nodes["feature"] >= 0])
        n_threads = MOST_THREADS
        while n_threads > FEWEST_THREADS and len(used) * n_threads * dtype.itemsize > SHARED_BYTES:
            n_threads //= 2
        fits = len(used) * n_threads * dtype.itemsize <= SHARED_BYTES
        columns = used.astype(np.int32) if fits else np.arange(self._forest.n_features, dtype=np.int32)
        distance = np.where(self._is_leaf, 0, self._forest.nodes["left"] - np.arange(len(self._forest.nodes)))
        narrow = len(columns) < NARROW_COLUMNS and distance.max(initial=0) < NARROW_DISTANCE
        kernel, pack = ("narrow", _narrow) if narrow and dtype == np.float32 else (str(dtype), _wide)
        packed = pack(self._closed_nodes, np.searchsorted(columns, self._closed_nodes["feature"]), distance)
        return _Nodes(
            kernel,
            n_threads if fits else MOST_THREADS,
            self._device.to_device(columns) if fits else None,
            len(columns) if fits else 0,
            self._device.to_device(packed),
        )

    @property
    def _is_leaf(self) -> NDArray[np.bool_]:
        return np.asarray(self._forest.nodes["feature"] < 0)

    @cached_property
    def _closed_nodes(self) -> NDArray[np.void]:
        """The nodes, with leaves that send all numbers to the left, so that kernels need not check for them."""
        nodes = self._forest.nodes.copy()
        splits = nodes["feature"][nodes["feature"] >= 0]
        nodes["feature"][self._is_leaf] = splits[0] if len(splits) else 0
        nodes["threshold"][self._is_leaf] = np.inf
        nodes["missing_left"][self._is_leaf] = 1
        nodes["categories"][self._is_leaf] = -1
        return nodes

    @cached_property
    def _walks(self) -> _Walks:
        edges, weights, passes, n_levels, expected = self._forest.passes()
        n_passes, to_device = len(passes), self._device.to_device
        return _Walks(to_device(edges), to_device(weights), to_device(passes), n_passes, n_levels, to_device(expected))

    @cached_property
    def _value(self) -> DeviceArray:
        return self._device.to_device(self._forest.value)

    @cached_property
    def _leaf_numbers(self) -> DeviceArray:
        return self._device.to_device(self._forest._leaf_numbers)

    @cached_property
    def _categories(self) -> tuple[DeviceArray, DeviceArray]:
        forest = self._forest
        return self._device.to_device(forest.category_words), self._device.to_device(forest.category_start)

    @cached_property
    def _trees_in_order(self) -> _Trees:
        return self._trees(np.arange(self._forest.n_learners))

    @cached_property
    def _trees_for_sums(self) -> _Trees:
        """Ordered by their columns if leaves have one value. Trees that share a column stay in order, as sums need it.

        With several values, columns of trees may overlap, so that no other order is possible.
        """
        if self._forest.value.shape[1] > 1:
            return self._trees_in_order
        return self._trees(np.argsort(self._forest.first_column, kind="stable"))

    def _trees(self, order: NDArray[np.intp]) -> _Trees:
        forest = self._forest
        arrays = forest.roots, _depths(forest), forest.first_column
        return _Trees(*(self._device.to_device(array[order].astype(np.int32)) for array in arrays))


def _depths(forest: Forest) -> NDArray[np.int32]:
    """The depth of each tree."""
    level = np.zeros(len(forest.nodes), dtype=np.int32)
    parents = forest.roots
    while len(parents := parents[forest.nodes["feature"][parents] >= 0]):
        left = forest.nodes["left"][parents]
        for children in (left, left + 1):
            level[children] = level[parents] + 1
        parents = np.concatenate([left, left + 1])
    return np.asarray(np.maximum.reduceat(level, forest.roots) if len(forest.roots) else level)


def _narrow(nodes: NDArray[np.void], column: NDArray[np.intp], distance: NDArray[np.int64]) -> NDArray[np.uint32]:
    by_category = nodes["categories"] >= 0
    threshold = rounded_down(nodes["threshold"], np.float32).view(np.uint32)
    first = np.where(by_category, nodes["categories"].view(np.uint32), threshold)
    return np.column_stack([first, _flags(nodes) | column.astype(np.uint32) << 20 | distance.astype(np.uint32)])


def _wide(nodes: NDArray[np.void], column: NDArray[np.intp], distance: NDArray[np.int64]) -> NDArray[np.uint32]:
    by_category = nodes["categories"] >= 0
    threshold = np.ascontiguousarray(nodes["threshold"]).view(np.uint64)
    first = np.where(by_category, nodes["categories"].astype(np.uint64), threshold)
    halves = first.view(np.uint32).reshape(-1, 2)  # little-endian
    return np.column_stack([halves, _flags(nodes) | column.astype(np.uint32), distance.astype(np.uint32)])


def _flags(nodes: NDArray[np.void]) -> NDArray[np.uint32]:
    """The flags of nodes, which predict_kernels.hpp reads with by_category and missing_left."""
    by_category = (nodes["categories"] >= 0).astype(np.uint32)
    return np.asarray(by_category << 31 | nodes["missing_left"].astype(np.uint32) << 30)
