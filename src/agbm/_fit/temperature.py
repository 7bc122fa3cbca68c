"""Temperature scaling: a factor of all trees that minimises the loss of the validation rows.

A model is f = start + trees, and start + factor * trees is calibrated. The temperature is 1 / factor. The start, with
its constants and offsets, is not multiplied: offsets and init models are not part of what is folded, and multiplying it
as well was no better (docs/guides/probabilities.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.learners import V
from .._core.objective import Objective

SMALLEST_FACTOR = 0.0625
LARGEST_FACTOR = 2.0
"""Validation rows without errors would make any model certain."""
_PRECISION = 1e-4
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def scaled(objective: Objective[V], f: V, factor: float) -> V:
    """A function with its trees multiplied by a factor."""
    return objective.mix(1.0 - factor, objective.start, factor, f)


def best_factor(objectives: Sequence[Objective[Any]], functions: Sequence[Any]) -> float:
    """The factor with the lowest mean validation loss of the functions of all members, each on its own rows."""

    def loss(factor: float) -> float:
        losses = [
            objective.validation_loss(scaled(objective, f, factor))
            for objective, f in zip(objectives, functions, strict=True)
        ]
        return sum(losses) / len(losses)

    return lowest(loss, SMALLEST_FACTOR, LARGEST_FACTOR)


def lowest(loss: Callable[[float], float], low: float, high: float) -> float:
    """The minimum of a convex function in an interval, by golden section; elementary arithmetic, for the same bits."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > _PRECISION:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2.0
