"""Where the rows of the blocks are in the binned matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.types import AnyArray

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

    def cut(self, rows: AnyArray) -> list[AnyArray]:
        """Split an array over all rows into blocks."""
        return np.split(rows, np.cumsum(self.n_rows)[:-1])

    def of_training_rows(self, ranks: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """For each block, its rows among the training rows with the given ranks, which are in ascending order."""
        rows = self.order[ranks]
        ends = np.cumsum(self.n_rows)
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        return [part - first for part, first in zip(parts, np.append(0, ends[:-1]), strict=True)]

    def training_rows(self, numbers: Array | None) -> list[AnyArray]:
        """Split values of the training rows, in the order of the matrix, into those of each block.

        Rows that are not for training have the value zero. None means 1 for every training row.
        """
        rows = np.zeros(sum(self.n_rows), dtype=bool if numbers is None else np.float64)
        rows[self.order[: self.n_train]] = True if numbers is None else numbers
        return self.cut(rows)
