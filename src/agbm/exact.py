"""Sums with the same bits in every order: of whole numbers, which float64 adds exactly."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .losses import Array


def whole_steps(values: Array, total: float, rounded: Callable[[Array], Array] = np.rint) -> tuple[Array, float]:
    """Values as whole numbers of steps, and the step: a power of two, so that sums of them are exact.

    `total` is what the sizes of all values that are added come to. Whole numbers stay what they are, unless they are
    too many for float64.
    """
    step = math.ldexp(1.0, max(math.frexp(total)[1] - 51, -1000)) if math.isfinite(total) else 1.0
    return rounded(values / step), step


def whole_weights(weight: Array) -> tuple[Array, float]:
    """Weights in steps, as above; one that is not zero is one step at least."""
    return whole_steps(weight, float(np.sum(weight)), np.ceil)
