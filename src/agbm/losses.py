"""Loss functions, for the parameter `loss` of the estimators."""

from ._core.losses import (
    AbsoluteError,
    Exponential,
    Gamma,
    HalfSquaredError,
    Huber,
    LogLoss,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    Tweedie,
)

__all__ = [
    "AbsoluteError",
    "Exponential",
    "Gamma",
    "HalfSquaredError",
    "Huber",
    "LogLoss",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Tweedie",
]
