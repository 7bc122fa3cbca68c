"""The order of rows in which members of a model share vectors and bin codes although they hold out different rows.

Rows that some member holds out are a ring, on which those of each member are neighbours. In the vectors of a member,
the ring begins with the row after those that it holds out, so that its training rows come first. See row_ring.hpp. If
later rows validate earlier ones, the shared order is that of time, and the last rows are unseen by most members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base.types import AnyArray


class RingPart(NamedTuple):
    """The rows of a member: some that no member holds out, those on the ring, and others, such as validation rows."""

    n_train: int
    """Number of training rows, which come first."""
    begin: int = 0
    end: int = 0
    """The rows on the ring, in the shared order; none if the vectors of the member have this order."""
    first: int = 0
    """The row with which the ring begins in the vectors of the member."""
    n_unseen: int = 0
    """Number of rows after those that are held out, which the member neither trains on nor holds out."""

    @property
    def native(self) -> tuple[int, int, int]:
        """The ring, as kernels take it."""
        return self.begin, self.end, self.first

    def turned(self, shared: AnyArray) -> AnyArray:
        """Values (..., row) in the order of the member, from those in the shared order."""
        if self.begin == self.end:
            return shared
        cuts = self.begin, self.first, self.end
        before, start, rest, after = np.split(shared, cuts, axis=-1)
        return np.concatenate([before, rest, start, after], axis=-1)

    def training_rows(self, order: NDArray[np.intp]) -> NDArray[np.uint32]:
        """The places of the training rows in the shared order, by the numbers of the rows, which `order` has."""
        n = len(order)
        position = np.empty(n, dtype=np.int64)
        position[self.turned(np.arange(n))] = np.arange(n)
        places = np.empty(n, dtype=np.int64)
        places[order] = np.arange(n)
        return places[position[places] < self.n_train].astype(np.uint32)


class Ring(NamedTuple):
    """The shared order of rows."""

    order: NDArray[np.intp]
    """The numbers of the rows."""
    parts: Sequence[RingPart]
    """The rows of each member."""

    @classmethod
    def of(cls, piece: NDArray[np.intp], arcs: Sequence[tuple[int, int]], n_pieces: int) -> Ring:
        """From the pieces that members hold out; see HeldOut."""
        ends = np.cumsum(np.bincount(piece, minlength=n_pieces + 1)).tolist()
        begin, end = ends[0], ends[-1]
        parts = []
        for first, n in arcs:
            last = (first - 1 + n - 1) % n_pieces + 1  # the last piece, after which the next one begins
            held_out = sum(ends[i] - ends[i - 1] for i in ((first - 1 + np.arange(n)) % n_pieces + 1).tolist())
            parts.append(RingPart(end - held_out, begin, end, ends[last] if last < n_pieces else begin))
        return cls(np.argsort(piece, kind="stable"), parts)

    @classmethod
    def of_time(cls, time: NDArray[np.uint64], windows: Sequence[tuple[int, int]]) -> Ring:
        """From the times of rows, and the window of each member, (begin, end): it trains on the rows before it."""
        order = np.argsort(time, kind="stable")
        cuts = np.searchsorted(time[order], np.array(windows, dtype=np.uint64))
        return cls(order, [RingPart(begin, n_unseen=len(order) - end) for begin, end in cuts.tolist()])
