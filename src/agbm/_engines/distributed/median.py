"""The weighted median of numbers that are spread over shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._base.sums import Array, whole_weights
from ..._losses import enough


@dataclass(frozen=True)
class MedianSearch:
    """A search for the weighted median of positive numbers; the median of no numbers is 0.

    The bits of positive numbers have the order of the numbers. Each step determines the next `bits` bits of the median,
    starting at the highest, by counting over all shards the numbers that agree with the bits known so far.
    """

    weight_step: float | None
    step: int = 0
    known: int = 0
    """The bits determined so far."""
    wanted: float = 0
    """The number of rows, or the weight, up to the median, among the numbers that start with these bits."""

    bits = 16
    steps = 4

    @property
    def _shift(self) -> int:
        return 64 - self.bits * (self.step + 1)

    def tally(self, numbers: Array, weight: Array | None) -> Array:
        """The number of rows, or the weight, for each value of the next bits."""
        bits = numbers.view(np.uint64)
        if self.step > 0:
            agrees = (bits >> np.uint64(self._shift + self.bits)) == np.uint64(self.known)
            bits, weight = bits[agrees], None if weight is None else weight[agrees]
        next_bits = ((bits >> np.uint64(self._shift)) & np.uint64(2**self.bits - 1)).astype(np.intp)
        whole = None
        if weight is not None and self.weight_step is not None:
            whole = whole_weights(weight, self.weight_step)
        return np.bincount(next_bits, whole, 2**self.bits).astype(np.float64)

    def after(self, tally: Array) -> MedianSearch:
        """The search after a step, from the sum of the tallies of all shards."""
        wanted, total = self.wanted, np.cumsum(tally)
        if self.step == 0:
            wanted = enough(0.5, float(total[-1])) if total[-1] > 0.0 else 0.0
        digit = int(np.searchsorted(total, wanted))
        before = float(total[digit - 1]) if digit > 0 else 0.0
        return MedianSearch(self.weight_step, self.step + 1, self.known << self.bits | digit, wanted - before)

    @property
    def found(self) -> float:
        """The median."""
        return float(np.uint64(self.known).view(np.float64))
