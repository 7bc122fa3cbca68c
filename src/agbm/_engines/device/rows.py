"""Binned rows of a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._core.ring import RingPart
from ..._tree import Forest
from ..._tree.bins import Bins
from .bins import GROUP_COLUMNS
from .device import Device, DeviceArray, blocks_for

NODE_WORDS = 6
"""Words of a node of a tree in agbm_tree_values."""
N_THREADS = 256


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
