"""The rows of a tree that grows on a device: which node each belongs to, histograms, and the best splits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.losses import Array
from .._tree.tallies import quantiles_of_leaves
from .bins import GROUP_COLUMNS
from .device import DeviceArray, blocks_for
from .rows import N_THREADS, BinnedRows

CHANNELS_AT_ONCE = 4
"""Channels of a row that a thread of a kernel adds at a time."""
PLACES = 256
"""Threads of the blocks that scan histograms."""
MOST_NODES = 256
"""Nodes that a kernel takes at once, at least as many as a batch of growth has."""
SPLIT_WORDS, FAMILY_WORDS, RECORD_WORDS = 7, 5, 8
"""Words of messages; see native/device_grower.hpp."""
HISTOGRAM_BYTES = 100_000
"""Shared memory of a block of the histogram kernel, at most; two blocks fit a multiprocessor."""
SCAN_BYTES = 48_000
"""Shared memory of a block that scans histograms, at most; what needs more uses other memory."""
ROWS_PER_BLOCK = 4096
"""A block of the kernels over the rows of nodes gets about this many rows, or more."""


class TreeInputs(NamedTuple):
    """What a tree is grown on: vectors over the training rows."""

    residuals: Sequence[DeviceArray]
    hessians: Sequence[DeviceArray]
    repeats: DeviceArray | None
    distances: Sequence[DeviceArray] = ()
    shares: Sequence[float] = ()
    steps: DeviceArray | None = None
    """The weights of rows in whole steps; None if the repeats are the weights."""

    @property
    def numbers(self) -> list[DeviceArray]:
        """Residuals, then hessians."""
        return [*self.residuals, *self.hessians]


class DeviceTreeRows:
    """The rows of a tree that grows, and the histograms of its nodes: what native growth asks of a device."""

    def __init__(self, rows: BinnedRows, n_train: int, monotone: Sequence[int]) -> None:
        device = rows.device
        self._rows = rows
        self._n_train = n_train
        self._monotone = device.to_device(np.array(monotone, dtype=np.int32)) if len(monotone) else None
        self._list = device.empty(n_train, np.uint32)
        self._sorted = device.empty(n_train, np.uint32)
        self._begin = device.empty(MOST_NODES, np.int64)
        self._end = device.empty(MOST_NODES, np.int64)
        self._counters = device.empty(2 * MOST_NODES, np.int64)
        self._packed: DeviceArray = None
        self._histograms: DeviceArray = None
        self._records: DeviceArray = None
        self._spill: DeviceArray = None
        self._root = device.to_device(np.array([0, 0, -1, -1, -1], dtype=np.int64))
        self._inputs = TreeInputs([], [], None)
        self._chosen: DeviceArray | None = None

    def take(self, inputs: TreeInputs, chosen: NDArray[np.uint32] | None) -> None:
        """The inputs of the next tree, and the rows that it is grown on (None for all)."""
        self._inputs = inputs
        self._chosen = None if chosen is None else self._rows.device.to_device(chosen)
        self._n = self._n_train if chosen is None else len(chosen)

    # The methods that native growth calls; see DeviceSearch.
    def start(self, form: tuple[int, int, int, int, float], exponents: Sequence[int]) -> NDArray[np.int64]:
        """Begin a tree: its rows as integers, and the histogram of the root. Returns the sums of the root."""
        device, rows = self._rows.device, self._rows
        self._n_channels, self._count_bits, self._min_rows, self._min_category_rows, self._least_gain = form
        self._size = rows.n_cells * self._n_channels
        self._pack(exponents)
        self._histograms = self._at_least(self._histograms, self._size, np.int64)
        blocks = blocks_for(device, self._n, N_THREADS)
        device.launch("agbm_first_rows", blocks, N_THREADS, self._chosen, self._list, self._n, self._begin, self._end)
        self._clear(self._root, 1, 0)
        self._build(self._root, 1)
        total = device.empty(self._n_channels, np.int64)
        n_cells = rows.bins.n_bins[0] + 1
        device.launch("agbm_totals", 1, N_THREADS, self._histograms, n_cells, self._n_channels, total)
        return device.to_host(total)

    def search(
        self, message: NDArray[np.int64], n_splits: int, n_families: int, n_candidates: int, n_slots: int,
        has_bounds: bool, has_masks: bool,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Split nodes, build the histograms of children, and return the records of the best splits."""
        device, rows, inputs = self._rows.device, self._rows, self._inputs
        n_features, n_residuals, n_hessians = rows.bins.n_features, len(inputs.residuals), len(inputs.hessians)
        n_words = -(-n_features // 64)
        sizes = [
            1 + max(1, n_hessians) + self._n_channels + n_residuals,
            n_splits * SPLIT_WORDS,
            max(1, n_families) * FAMILY_WORDS,
            n_candidates,
            n_candidates * self._n_channels,
            n_candidates * 2 * n_residuals * has_bounds,
            n_candidates * n_words * has_masks,
        ]
        on_device, ends = device.to_device(message), np.cumsum(sizes).tolist()
        numbers, splits, families, slots, totals, bounds, masks = (
            on_device[end - size : end] for end, size in zip(ends, sizes, strict=True)
        )
        self._histograms = self._at_least(self._histograms, n_slots * self._size, np.int64, keep=True)
        self._clear(families, n_families, n_splits)
        if n_splits > 0:
            self._split(splits, message[ends[0] : ends[1]].reshape(-1, SPLIT_WORDS))
        if n_families > 0:
            self._build(families, n_families)
        self._records = self._at_least(self._records, n_candidates * n_features * RECORD_WORDS, np.int64)
        n_tasks, scratch = max(1, n_families) * n_features, 8 * self._n_channels * (PLACES + 1)
        spills = scratch > SCAN_BYTES
        n_blocks = min(n_tasks, 4 * device.n_processors) if spills else n_tasks
        if spills:
            self._spill = self._at_least(self._spill, n_blocks * scratch // 8, np.int64)
        device.launch(
            self._scan_kernel(), n_blocks, PLACES, families, max(1, n_families), n_features, totals,
            bounds.view(np.float64) if has_bounds else None, masks.view(np.uint64) if has_masks else None, n_words,
            rows.first_cell, rows.n_bins, rows.n_categories, self._monotone, n_residuals, n_hessians, self._n_channels,
            self._count_bits, numbers.view(np.float64), self._min_rows, self._min_category_rows, self._histograms,
            self._size, self._spill if spills else None, self._records, shared=0 if spills else scratch,
        )  # fmt: skip
        reply = device.empty((n_candidates, RECORD_WORDS + self._n_channels), np.int64)
        device.launch(
            "agbm_best_splits", n_candidates, PLACES, slots, n_features, float(self._least_gain), rows.first_cell,
            rows.n_bins, self._histograms, self._size, self._n_channels, self._records, reply,
        )  # fmt: skip
        return device.to_host(reply).ravel()

    def noise(self, exponents: Sequence[int]) -> NDArray[np.int64]:
        """Sums of hessians, then of squares of residuals; see noise_sums in the native code."""
        device, inputs = self._rows.device, self._inputs
        sums = device.zeros(len(exponents), np.int64)
        numbers = [(x, 1) for x in inputs.hessians] + [(x, 2) for x in inputs.residuals]
        for k, ((x, power), exponent) in enumerate(zip(numbers, exponents, strict=True)):
            blocks = blocks_for(device, self._n_train, N_THREADS)
            device.launch(
                "agbm_sum_of_powers", blocks, N_THREADS, x, 2.0**exponent, power, inputs.repeats, self._n_train,
                sums[k : k + 1],
            )  # fmt: skip
        return device.to_host(sums)

    def leaf_sums(
        self, splits: NDArray[np.int64], leaves: NDArray[np.int32], exponents: Sequence[int]
    ) -> NDArray[np.int64]:
        """Sums over the rows of leaves, (leaf, residual or hessian), flat."""
        device, inputs = self._rows.device, self._inputs
        if len(splits) > 0:
            self._clear(None, 0, len(splits))
            self._split(device.to_device(splits), splits)
        sums = device.zeros((len(leaves), len(exponents)), np.int64)
        nodes = device.to_device(leaves.astype(np.int64))
        for first in range(0, len(leaves), MOST_NODES):
            some = nodes[first : first + MOST_NODES]
            for k, (x, exponent) in enumerate(zip(inputs.numbers, exponents, strict=True)):
                device.launch(
                    "agbm_leaf_sums", self._blocks_over_rows(), N_THREADS, some, len(some), self._begin, self._end,
                    self._list, x, 2.0**exponent, inputs.repeats, k, len(exponents), sums[first:],
                )  # fmt: skip
        return device.to_host(sums).ravel()

    def leaf_quantiles(self, leaves: NDArray[np.int32]) -> Array:
        """The quantiles of the distances of the rows of leaves, (leaf, output), flat."""
        shares = self._inputs.shares
        found = [
            quantiles_of_leaves(len(leaves), share, partial(self._tally, leaves, output))
            for output, share in enumerate(shares)
        ]
        return np.stack(found, axis=1).ravel()

    def _tally(
        self, leaves: NDArray[np.int32], output: int, known: NDArray[np.uint64], shift: int, width: int
    ) -> NDArray[np.int64]:
        """See Tally."""
        device, inputs = self._rows.device, self._inputs
        tallies = device.zeros((len(leaves), 2**width), np.int64)
        nodes, bits = device.to_device(leaves.astype(np.int64)), device.to_device(known)
        steps = inputs.repeats if inputs.steps is None else inputs.steps
        for first in range(0, len(leaves), MOST_NODES):
            some = nodes[first : first + MOST_NODES]
            device.launch(
                "agbm_tally", self._blocks_over_rows(), N_THREADS, some, len(some), self._begin, self._end, self._list,
                inputs.distances[output], steps, bits[first:], shift, width, tallies[first:],
            )  # fmt: skip
        return device.to_host(tallies)

    def _pack(self, exponents: Sequence[int]) -> None:
        """Write the integers of all training rows."""
        device, inputs = self._rows.device, self._inputs
        numbers = inputs.numbers
        scales = np.zeros(self._n_channels)
        scales[: len(numbers)] = [2.0**exponent for exponent in exponents[: len(numbers)]]
        numbers += [numbers[0]] * (self._n_channels - len(numbers))  # a channel of counts alone
        self._packed = self._at_least(self._packed, self._n_train * self._n_channels, np.int64)
        on_device, blocks = device.to_device(scales), blocks_for(device, self._n_train, N_THREADS)
        for first in range(0, self._n_channels, CHANNELS_AT_ONCE):
            here = numbers[first : first + CHANNELS_AT_ONCE]
            padded = here + [here[0]] * (CHANNELS_AT_ONCE - len(here))
            device.launch(
                "agbm_pack", blocks, N_THREADS, *padded, on_device, len(here), first, self._n_channels,
                self._count_bits, inputs.repeats, self._packed, self._n_train,
            )  # fmt: skip

    def _clear(self, families: DeviceArray | None, n_families: int, n_splits: int) -> None:
        """Set the histograms of the first nodes of families, and the counters of splits, to zero."""
        device = self._rows.device
        blocks = blocks_for(device, max(1, n_families * self._size), N_THREADS)
        device.launch(
            "agbm_clear", blocks, N_THREADS, families, n_families, self._histograms, self._size, self._counters,
            2 * n_splits,
        )  # fmt: skip

    def _split(self, splits: DeviceArray, on_host: NDArray[np.int64]) -> None:
        """Send the rows of nodes to their children."""
        device, rows, n = self._rows.device, self._rows, len(on_host)
        n_nodes = int(on_host[:, 1].max()) + 2
        self._begin = self._at_least(self._begin, n_nodes, np.int64, keep=True)
        self._end = self._at_least(self._end, n_nodes, np.int64, keep=True)
        blocks = self._blocks_over_rows()
        device.launch(
            "agbm_partition", blocks, N_THREADS, splits, n, self._begin, self._end, self._list, rows.codes,
            rows.n_rows, self._sorted, self._counters,
        )  # fmt: skip
        device.launch(
            "agbm_settle", blocks, N_THREADS, splits, n, self._begin, self._end, self._sorted, self._list,
            self._counters,
        )  # fmt: skip

    def _build(self, families: DeviceArray, n: int) -> None:
        """The histograms of the first nodes of families."""
        device, rows = self._rows.device, self._rows
        n_features, n_groups = rows.bins.n_features, -(-rows.bins.n_features // GROUP_COLUMNS)
        at_once = min(self._n_channels, CHANNELS_AT_ONCE, max(1, HISTOGRAM_BYTES // (8 * rows.widest_group)))
        n_parts = max(1, min(self._blocks_over_rows(), 2 * device.n_processors // n_groups))
        blocks = n_parts * n_groups * -(-self._n_channels // at_once)
        device.launch(
            "agbm_histograms", blocks, 2 * N_THREADS, families, n, self._begin, self._end, self._list, rows.codes,
            rows.n_rows, n_features, rows.first_cell, self._packed, self._n_channels, at_once, self._histograms,
            self._size, n_parts, shared=8 * rows.widest_group * at_once,
        )  # fmt: skip

    def _blocks_over_rows(self) -> int:
        return blocks_for(self._rows.device, self._n, ROWS_PER_BLOCK)

    def _scan_kernel(self) -> str:
        n_residuals, n_hessians = len(self._inputs.residuals), len(self._inputs.hessians)
        usual = n_residuals <= 2 and n_hessians <= 1 and self._n_channels == n_residuals + n_hessians
        return f"agbm_scan_{n_residuals if usual else 'any'}{'_hessian' if n_hessians > 0 else ''}"

    def _at_least(self, array: DeviceArray | None, size: int, dtype: Any, keep: bool = False) -> DeviceArray:
        """The array, or a larger one, with the numbers of the old one if they are to be kept."""
        if array is not None and len(array) >= size:
            return array
        grown = self._rows.device.empty(size if array is None else max(size, 2 * len(array)), dtype)
        if keep and array is not None:
            grown[: len(array)] = array
        return grown
