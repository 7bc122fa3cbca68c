"""The built-in losses by name."""

from __future__ import annotations

from collections.abc import Callable

from .classification import Exponential, LogLoss, Multinomial
from .loss import Loss
from .regression import AbsoluteError, Gamma, HalfSquaredError, Huber, Poisson, Quantile, Tweedie

REGRESSION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": HalfSquaredError,
    "squared_error": HalfSquaredError,
    "absolute_error": AbsoluteError,
    "poisson": Poisson,
    "gamma": Gamma,
}
"""Losses by name. Losses with parameters are passed as objects."""

CLASSIFICATION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": LogLoss,
    "log_loss": LogLoss,
    "exponential": Exponential,
}

_BUILT_IN = {
    AbsoluteError, Exponential, Gamma, HalfSquaredError, Huber, LogLoss, Multinomial, Poisson, Quantile, Tweedie,
}  # fmt: skip


def is_built_in(loss: object) -> bool:
    """Whether a loss is a built-in one; a custom loss that is derived from one may have changed anything."""
    return type(loss) in _BUILT_IN
