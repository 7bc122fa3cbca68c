"""The rows of a tree that grows on a device. Native code launches the kernels, with memory and inputs from here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base import _native
from ..._base.sums import Array
from ..._core.ring import RingPart
from ..._tree.leaf_quantiles import quantiles_of_leaves
from .bins import GROUP_COLUMNS, N_THREADS, BinnedRows
from .device import DeviceArray, blocks_for

MOST_NODES = 256
"""Nodes that a kernel takes at once."""
ROWS_PER_BLOCK = 1024
"""A block of the kernels over the rows of nodes gets about this many rows, or more; kRowsPerBlock in native code."""


class TreeInputs(NamedTuple):
    """What a tree is grown on: vectors over the training rows."""

    residuals: Sequence[DeviceArray]
    hessians: Sequence[DeviceArray]
    repeats: DeviceArray | None
    distances: Sequence[DeviceArray] = ()
    shares: Sequence[float] = ()
    steps: DeviceArray | None = None
    """The weights of rows in whole steps; None if the repeats are the weights."""


class DeviceTreeRows:
    """The rows of trees that grow on a device, one after the other."""

    def __init__(self, rows: BinnedRows, monotone: Sequence[int]) -> None:
        device = rows.device
        self._rows = rows
        self._part = RingPart(0)
        self._monotone = device.to_device(np.array(monotone, dtype=np.int32)) if len(monotone) else None
        self._memory: dict[str, DeviceArray] = {}
        self._inputs = TreeInputs([], [], None)
        self._chosen: DeviceArray | None = None
        self._n = 0
        self._native = _native.DeviceRows(
            **device.calls(_native.DEVICE_KERNELS)._asdict(),
            n_processors=device.n_processors,
            n_rows=rows.n_rows,
            n_features=rows.bins.n_features,
            group_columns=GROUP_COLUMNS,
            n_cells=rows.n_cells,
            widest_group=rows.widest_group,
            first_cells=rows.bins.n_bins[0] + 1,
            codes=device.address(rows.codes),
            first_cell=device.address(rows.first_cell),
            n_bins=device.address(rows.n_bins),
            n_categories=device.address(rows.n_categories),
            monotone=device.address(self._monotone),
        )

    def growth(
        self, inputs: TreeInputs, part: RingPart, chosen: NDArray[np.uint32] | None, values: DeviceArray
    ) -> dict[str, Any]:
        """The arguments of a native grower for the next tree of a member.

        It is grown on the chosen rows (None for all that the member trains on), and its values (value, row) on all rows
        are written to `values`.
        """
        device = self._rows.device
        self._inputs, self._part = inputs, part
        self._chosen = None if chosen is None else device.to_device(chosen)
        self._n = part.n_train if chosen is None else len(chosen)
        return {
            "rows": self._native,
            "host": self,
            "stream": device.stream(),
            "residuals": [device.address(x) for x in inputs.residuals],
            "hessians": [device.address(x) for x in inputs.hessians],
            "repeats": device.address(inputs.repeats),
            "chosen": device.address(self._chosen),
            "n_chosen": self._n,
            "n_train": part.n_train,
            "ring": part.native,
            "n_quantiles": len(inputs.distances),
            "values": device.address(values),
        }

    # The methods that native growth calls; see DeviceRows and DeviceSearch.
    def memory(self, name: str, n_words: int, keep: bool, on_host: bool) -> int:
        """The address of a larger buffer of 64-bit words, with those of the smaller one if they are kept."""
        device, old = self._rows.device, self._memory.get(name)
        if on_host:
            self._memory[name] = pinned = device.pinned(n_words)
            return int(pinned.ctypes.data)
        grown = device.empty(n_words, np.int64)
        if keep and old is not None:
            grown[: len(old)] = old
        self._memory[name] = grown
        return device.address(grown)

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
        device, inputs, memory = self._rows.device, self._inputs, self._memory
        tallies = device.zeros((len(leaves), 2**width), np.int64)
        nodes, bits = device.to_device(leaves.astype(np.int64)), device.to_device(known)
        steps = inputs.repeats if inputs.steps is None else inputs.steps
        blocks = blocks_for(device, self._n, ROWS_PER_BLOCK)
        for first in range(0, len(leaves), MOST_NODES):
            some = nodes[first : first + MOST_NODES]
            device.launch(
                "agbm_tally", blocks, N_THREADS, some, len(some), memory["begin"], memory["end"],
                memory["list"].view(np.uint32), inputs.distances[output], steps, *self._part.native,
                bits[first:], shift, width, tallies[first:],
            )  # fmt: skip
        return device.to_host(tallies)
