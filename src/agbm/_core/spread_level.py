"""The level of the spread: a constant of its score that minimises the loss of the validation rows.

The spread of a distribution is learned from the residuals of training rows, which are smaller than those of other rows,
the more so the longer a model is trained. Without a correction, the spread becomes too small long before the location
is learned, and early stopping ends the run there. So the constant of the spread, which all rows share, is estimated
from validation rows, iteration by iteration. It affects the losses that early stopping sees and the model that is
returned, but not the trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._base.sums import Array
from .._losses import is_built_in, traits_of
from .objective import Objective

LARGEST_LEVEL = 3.0
"""Levels are clipped to this distance from 0: a factor of 20."""


SPREAD_LEVEL = "spread_level"
"""The column of the history with the mean levels of the members."""


def spread_of(loss: object) -> int | None:
    """The score of a loss that gets a level; None if there is none."""
    return traits_of(loss).spread if is_built_in(loss) else None


def with_level(start: Array, level: float, loss: object) -> Array:
    """Constants of all scores, with a level added to that of the spread."""
    constants = start.copy()
    constants[spread_of(loss)] += level
    return constants


class SpreadLevels:
    """The levels of the members of a run, iteration by iteration; each is one Newton step from the one before."""

    def __init__(self, objectives: Sequence[Objective[Any]], spread: int) -> None:
        """`spread` is the score of the spread."""
        self.spread = spread
        self.found: list[list[float]] = []
        """For each iteration, that of each member."""
        self._objectives = objectives
        self._units = [objective.unit(spread) for objective in objectives]

    def levelled(self, functions: Sequence[Any]) -> list[Any]:
        """The functions of the members at the next iteration, with its levels."""
        before = self.found[-1] if self.found else [0.0] * len(functions)
        self.found.append([])
        return [self._levelled(k, f, level) for k, (f, level) in enumerate(zip(functions, before, strict=True))]

    def _levelled(self, member: int, f: Any, level: float) -> Any:
        objective, unit = self._objectives[member], self._units[member]
        step = objective.level_step(objective.mix(1.0, f, level, unit), self.spread)
        if math.isfinite(step):  # otherwise, the run has diverged
            level = min(max(level + step, -LARGEST_LEVEL), LARGEST_LEVEL)
        self.found[-1].append(level)
        return objective.mix(1.0, f, level, unit)
