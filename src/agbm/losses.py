"""Loss functions, for the parameter `loss` of the estimators."""

from ._core.losses import (
    AbsoluteError,
    CrossEntropy,
    Exponential,
    Gamma,
    HalfSquaredError,
    Huber,
    LogLoss,
    Loss,
    Multinomial,
    MultinomialCrossEntropy,
    Poisson,
    Quantile,
    Tweedie,
)

__all__ = [
    "AbsoluteError",
    "CrossEntropy",
    "Exponential",
    "Gamma",
    "HalfSquaredError",
    "Huber",
    "LogLoss",
    "Loss",
    "Multinomial",
    "MultinomialCrossEntropy",
    "Poisson",
    "Quantile",
    "Tweedie",
]
