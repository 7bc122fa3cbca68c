"""Objectives of other libraries: their task and their loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._losses.regression import Expectile, Huber, Quantile, Tweedie
from .library import CLASSIFICATION, REGRESSION, TaskAndLoss

SQUARED_ERROR: TaskAndLoss = (REGRESSION, "squared_error")
ABSOLUTE_ERROR: TaskAndLoss = (REGRESSION, "absolute_error")
POISSON: TaskAndLoss = (REGRESSION, "poisson")
LOG_COSH: TaskAndLoss = (REGRESSION, "log_cosh")
GAMMA: TaskAndLoss = (REGRESSION, "gamma")
CROSS_ENTROPY: TaskAndLoss = (REGRESSION, "cross_entropy")
LOG_LOSS: TaskAndLoss = (CLASSIFICATION, "log_loss")


def same_for_all(task_and_loss: TaskAndLoss, names: str) -> dict[str, TaskAndLoss]:
    """Map several names of one objective to its task and loss."""
    return dict.fromkeys(names.split(), task_and_loss)


def huber(parameter: str, default: float | None = None) -> TaskAndLoss:
    """The Huber loss, whose delta is a parameter of the other library."""
    return REGRESSION, lambda params: Huber(_number(params, parameter, default))


def quantile(parameter: str, default: float | None = None) -> TaskAndLoss:
    """The quantile loss, whose quantile, or list of quantiles, is a parameter of the other library."""

    def loss(params: Mapping[str, Any]) -> Quantile:
        given = params.get(parameter)
        several = given.split(",") if isinstance(given, str) and "," in given else given
        if isinstance(several, Sequence | np.ndarray) and not isinstance(several, str):
            return Quantile([float(level) for level in several])
        return Quantile(_number(params, parameter, default))

    return REGRESSION, loss


def expectile(parameter: str, default: float | None = None) -> TaskAndLoss:
    """The loss of an expectile, which is a parameter of the other library."""
    return REGRESSION, lambda params: Expectile(_number(params, parameter, default))


def tweedie(parameter: str, default: float | None = None) -> TaskAndLoss:
    """The Tweedie loss, whose power is a parameter of the other library."""
    return REGRESSION, lambda params: Tweedie(_number(params, parameter, default))


def _number(params: Mapping[str, Any], name: str, default: float | None) -> float:
    """A parameter's value, or its default; without a default it is required."""
    return float(params[name] if default is None else params.get(name, default))
