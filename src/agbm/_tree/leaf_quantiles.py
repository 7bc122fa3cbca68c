"""Quantiles of the rows of leaves, where the rows are not in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array, of_ordered_bits
from .._losses import enough

TALLY_BITS = 8
"""Bits of the quantiles that one tally determines; it has two to this power numbers per leaf."""

Tally = Callable[[NDArray[np.uint64], int, int], NDArray[np.int64]]
"""The weights of the distances that begin with the known bits of each leaf, by the bits that follow: (leaf, next bits),
flat. Arguments are the known bits, the number of bits after those that follow, and the number of these."""


def quantiles_of_leaves(n_leaves: int, share: float, tally: Tally) -> Array:
    """The quantiles of the distances of all leaves at once: a tally determines the next bits, from the highest on."""
    known, wanted = np.zeros(n_leaves, dtype=np.uint64), np.zeros(n_leaves)
    for shift in range(64 - TALLY_BITS, -1, -TALLY_BITS):
        total = np.cumsum(tally(known, shift, TALLY_BITS).reshape(n_leaves, -1), axis=1)
        if shift == 64 - TALLY_BITS:
            wanted = np.array([enough(share, float(of_leaf)) for of_leaf in total[:, -1]])
        digit = (total < wanted[:, np.newaxis]).sum(axis=1)  # the first one with enough at or below it
        before = np.where(digit > 0, total[np.arange(n_leaves), digit - 1], 0)
        known, wanted = known << np.uint64(TALLY_BITS) | digit.astype(np.uint64), wanted - before
    return of_ordered_bits(known)
