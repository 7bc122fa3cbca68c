"""The parameters that are searched, and the points at which trials with different ones can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from ...._core.training import Record

if TYPE_CHECKING:
    import optuna

Space = Mapping[str, "optuna.distributions.BaseDistribution"]

# Parameters that are neither searched nor set by the user: a search uses the default method and its losses.
SET_BY_SEARCH = {
    "method", "loss", "early_stopping", "callbacks", "warm_start", "verbose", "random_state", "n_jobs",
}  # fmt: skip


def search_space(l2: float, leave_out: Container[str]) -> Space:
    """The search space: ranges that contain the default.

    It excludes parameters that have little effect (fade, look_ahead), have the same effect as another one
    (max_depth, colsample_bytree), or have no scale (min_split_gain): see docs/acceleration.md.
    """
    from optuna.distributions import FloatDistribution, IntDistribution

    l2 = l2 or 1.0  # zero only if the user has fixed it
    space = {
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
        "method__entry": FloatDistribution(1.0, 12.0, log=True),
        "method__growth": FloatDistribution(0.0, 0.03),
        "max_leaf_nodes": IntDistribution(4, 128, log=True),
        "min_samples_leaf": IntDistribution(1, 100, log=True),
        "l2_regularization": FloatDistribution(l2 / 100.0, l2 * 30.0, log=True),
        "subsample": FloatDistribution(0.5, 1.0, step=0.05),
        "colsample_bynode": FloatDistribution(0.2, 1.0, step=0.05),
    }
    if "max_depth" in leave_out:  # it limits the size of trees
        del space["max_leaf_nodes"]
    return {name: distribution for name, distribution in space.items() if name not in leave_out}


class Points:
    """A callback that reports the lowest validation loss so far whenever the sum of the weights has doubled."""

    def __init__(self, parameters: Mapping[str, Any], report: Callable[[int, float], None]) -> None:
        self._rate, self._growth = parameters["learning_rate"], parameters["method__growth"]
        self._largest = min(parameters["method__entry"] * self._rate, 1.0)
        self._report = report
        self._sum, self._point, self._lowest = 0.0, 0, math.inf

    def __call__(self, record: Record) -> None:
        """Add the weight of an iteration (see `boosting.fading`) and report the points that have been reached."""
        self._lowest = min(self._lowest, record.validation_loss)
        if record.iteration > 0:
            self._sum += min(self._rate * (1.0 + self._growth * (record.iteration - 1)), max(self._largest, self._rate))
        while self._sum >= 2.0**self._point:
            self._report(self._point, self._lowest)
            self._point += 1
