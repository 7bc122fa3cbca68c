"""Constants that minimize a loss: weighted quantiles, and where a derivative crosses zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..sums import Array, exact_sum, of_ordered_bits, ordered_bits, weight_step, whole_weights
from ..together import count, has_all_rows, ranked


def quantile_of(x: Array, share: float, steps: Array | None) -> float:
    """The smallest number in x with at least that share of the weight, given in whole steps, at or below it."""
    return quantiles_of(x, [share], steps)[0]


def quantiles_of(x: Array, shares: Sequence[float], steps: Array | None) -> list[float]:
    """The same for several shares."""
    total = float(count(len(x))) if steps is None else float(exact_sum(steps))
    wanted = [enough(share, total) for share in shares]
    found = ranked(x, wanted, steps) if has_all_rows() else of_ordered_bits(ranked(ordered_bits(x), wanted, steps))
    return [float(number) + 0.0 for number in found]  # -0 becomes 0


def weight_in_steps(weight: Array | None) -> Array | None:
    """Weights as integers, in multiples of a power of two."""
    return None if weight is None else whole_weights(weight, weight_step(weight))


def enough(share: float, total: float) -> int:
    """The smallest number of rows, or of steps of weight, that is at least a given share of a total.

    A share such as 0.1 is rounded to a double, possibly upwards; the tolerance makes sure that a tenth of the rows is
    enough.
    """
    return max(1, math.ceil(share * (1.0 - 2.0**-50) * total))


def zero_crossing(falls: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number from low to high at which a function no longer falls; only the sign of its slope is used.

    Bisects the bits of the numbers rather than their distance: 64 steps find the result to the last bit, in any unit
    and for any range.
    """
    lowest, highest = ordered_bits(np.array([low, high])).tolist()
    below, at = lowest - 1, highest
    while at - below > 1:
        middle = (below + at) // 2
        below, at = (middle, at) if falls(_of_bits(middle)) else (below, middle)
    return _of_bits(at)


def _of_bits(bits: int) -> float:
    return float(of_ordered_bits(np.array([bits], dtype=np.uint64))[0])
