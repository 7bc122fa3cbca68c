"""Where the rows of the blocks are in the binned matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.losses import Array
from ..._tree.bins import sample_of

UNUSED = np.uint32(2**32 - 1)
"""The place of a row that is not in the matrix."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of the blocks are in the binned matrix: training rows first, then validation rows."""

    n_rows: list[int]
    """Number of rows per block."""
    order: NDArray[np.intp]
    """The indices of the rows, counted over all blocks, in the order of the matrix; some may be left out.

    The indices of training rows are increasing, and so are those of validation rows.
    """
    n_train: int

    def of_blocks(self) -> list[NDArray[np.uint32]]:
        """For each block, the places of its rows in the matrix; UNUSED for rows that are left out."""
        place = np.full(sum(self.n_rows), UNUSED, dtype=np.uint32)
        place[self.order] = np.arange(len(self.order), dtype=np.uint32)
        return self.cut(place)

    def cut(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Split an array over all rows into blocks."""
        return np.split(rows, np.cumsum(self.n_rows)[:-1])

    def sample(self) -> list[NDArray[np.intp]]:
        """For each block, the training rows in it that thresholds are computed from; increasing, as in the matrix."""
        chosen = sample_of(self.n_train)
        rows = self.order[: self.n_train] if chosen is None else self.order[chosen]
        ends = np.cumsum(self.n_rows)
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        return [part - first for part, first in zip(parts, np.append(0, ends[:-1]), strict=True)]

    def training_rows(self, numbers: Array | None) -> list[NDArray[Any]]:
        """Split values of the training rows, in the order of the matrix, into those of each block.

        Rows that are not for training have the value zero. None means 1 for every training row.
        """
        rows = np.zeros(sum(self.n_rows), dtype=bool if numbers is None else np.float64)
        rows[self.order[: self.n_train]] = True if numbers is None else numbers
        return self.cut(rows)
