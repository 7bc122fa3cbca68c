"""Bin codes of tables on a device, in the layout of tree growth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._core.ring import RingPart
from ..._tree import Forest
from ..._tree.bins import Bins
from .device import Device, DeviceArray, blocks_for
from .matrix import DeviceMatrix, blocks_on, check_table, rounded_down, table_arguments

GROUP_COLUMNS = 16
"""Columns whose codes of one row are adjacent bytes; kGroupColumns in the kernels."""
N_THREADS = 256
NODE_WORDS = 6
"""Words of a node of a tree in agbm_tree_values."""


class _Search(NamedTuple):
    """Arguments of the kernels; see BinSearch in bin_kernels.hpp."""

    trees: DeviceArray
    n_levels: int
    category_start: DeviceArray
    category_codes: DeviceArray


class DeviceBins:
    """Bins on a device. Codes are those of Bins.encode, as an array (group of 16 columns, row, column in its group).

    The columns after the last feature have code 0.
    """

    def __init__(self, device: Device, bins: Bins) -> None:
        self._device, self._bins = device, bins
        self._searches: dict[np.dtype[Any], _Search] = {}
        self.n_groups = -(-bins.n_features // GROUP_COLUMNS)

    def empty(self, n_rows: int) -> DeviceArray:
        """Uninitialised codes, to be filled."""
        return self._device.empty((self.n_groups, n_rows, GROUP_COLUMNS), np.uint8)

    def encode(self, X: NDArray[Any] | DeviceMatrix, order: NDArray[np.intp] | None = None) -> DeviceArray:
        """The codes of the rows of a matrix (float32 or float64), as they are or in another order.

        If it is in host memory, some rows at a time are copied.
        """
        codes, first = self.empty(len(X)), 0
        for block in blocks_on(self._device, X, order):
            self.fill(codes, first, block)
            first += block.shape[0]
        return codes

    def fill(self, codes: DeviceArray, first_row: int, X: DeviceArray) -> None:
        """Write the codes of a table on the device, starting at row first_row."""
        check_table(X, self._bins.n_features)
        n_rows = X.shape[0]
        if n_rows == 0 or self.n_groups == 0:
            return
        search = self._search(X.dtype)
        tiles = -(-n_rows // N_THREADS)
        blocks_per_group = min(tiles, -(-blocks_for(self._device, tiles * self.n_groups, 1) // self.n_groups))
        self._device.launch(
            f"agbm_encode_{X.dtype}", blocks_per_group * self.n_groups, N_THREADS,
            *table_arguments(X), n_rows, self._bins.n_features, *search, codes[:, first_row:], codes.shape[1],
            shared=GROUP_COLUMNS * (2**search.n_levels + N_THREADS) * X.itemsize,
        )  # fmt: skip

    def _search(self, dtype: np.dtype[Any]) -> _Search:
        if dtype not in self._searches:
            n_levels = int(max(self._bins.n_bins) - 1).bit_length()
            start, codes = _category_codes(self._bins)
            to_device = self._device.to_device
            self._searches[dtype] = _Search(
                to_device(_search_trees(self._bins, n_levels, dtype)), n_levels, to_device(start), to_device(codes)
            )
        return self._searches[dtype]


def _search_trees(bins: Bins, n_levels: int, dtype: DTypeLike) -> NDArray[Any]:
    """For each feature, the code of missing values and a search tree of its thresholds, level by level.

    The thresholds that a search of many rows compares with are then adjacent: in different banks of shared memory.
    """
    sorted_thresholds = np.full((bins.n_features, 2**n_levels - 1), np.inf, dtype=dtype)
    for padded, thresholds in zip(sorted_thresholds, bins.thresholds, strict=True):
        padded[: len(thresholds)] = rounded_down(thresholds, dtype)
    levels = [sorted_thresholds[:, 2**height - 1 :: 2 ** (height + 1)] for height in reversed(range(n_levels))]
    return np.concatenate([np.array(bins.n_bins, dtype=dtype)[:, np.newaxis], *levels], axis=1)


def _category_codes(bins: Bins) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the categories of each feature start in the second array, which has the code of each of them."""
    codes = [np.zeros(0, dtype=np.uint8)] * bins.n_features
    for f, grouped in bins.grouped.items():
        codes[f] = np.where(grouped.bins < 0, bins.n_bins[f], grouped.bins).astype(np.uint8)
    return np.cumsum([0, *map(len, codes)], dtype=np.int64), np.concatenate(codes)


class BinnedRows(NamedTuple):
    """The codes of rows on a device, and a description of the columns, which are the features."""

    device: Device
    bins: Bins
    codes: DeviceArray
    """(group of columns, row, column of the group)."""
    n_rows: int
    first_cell: DeviceArray
    """For each column, its first cell in a histogram; the last entry is the number of cells."""
    n_bins: DeviceArray
    n_categories: DeviceArray
    n_cells: int
    widest_group: int
    """The most cells that a group of columns has."""
    order: NDArray[np.intp] | None = None
    """The numbers of the rows on the ring, see Ring; None if they are in the order of their numbers."""

    @classmethod
    def of(
        cls, device: Device, bins: Bins, codes: DeviceArray, n_rows: int, order: NDArray[np.intp] | None = None
    ) -> BinnedRows:
        """Describe the columns of codes."""
        first_cell = np.append(0, np.cumsum(np.array(bins.n_bins) + 1)).astype(np.int32)
        told_apart = [bins.grouped[f].n_told_apart if f in bins.grouped else 0 for f in range(bins.n_features)]
        groups = range(0, bins.n_features, GROUP_COLUMNS)
        widest = max(
            int(first_cell[min(first + GROUP_COLUMNS, bins.n_features)] - first_cell[first]) for first in groups
        )
        cells, n_bins, n_categories = (
            device.to_device(np.array(x, dtype=np.int32)) for x in (first_cell, bins.n_bins, told_apart)
        )
        return cls(device, bins, codes, n_rows, cells, n_bins, n_categories, int(first_cell[-1]), widest, order)

    def values(self, forest: Forest, left_codes: NDArray[np.uint64], part: RingPart) -> DeviceArray:
        """Values (column, row of a member) of a forest in which every column has the values of one tree."""
        device, nodes = self.device, np.empty((len(forest.nodes), NODE_WORDS), dtype=np.int64)
        nodes[:, 0], nodes[:, 1] = forest.nodes["left"], forest.nodes["feature"]
        nodes[:, 2:] = left_codes.view(np.int64)
        out = device.empty((forest.n_outputs * forest.n_functions, self.n_rows), np.float64)
        device.launch(
            "agbm_tree_values", blocks_for(device, self.n_rows, N_THREADS), N_THREADS, device.to_device(nodes),
            device.to_device(forest.value), forest.value.shape[1], device.to_device(forest.roots),
            device.to_device(forest.first_column), len(forest.roots), self.codes, self.n_rows, *part.native, out,
        )  # fmt: skip
        return out
