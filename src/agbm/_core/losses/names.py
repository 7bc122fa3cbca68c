"""The built-in losses by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .classification import CrossEntropy, Exponential, LogLoss, Multinomial, MultinomialCrossEntropy
from .loss import Loss
from .regression import AbsoluteError, Gamma, HalfSquaredError, Huber, Poisson, Quantile, Tweedie

_REGRESSION: dict[str, Callable[[], Loss]] = {
    "auto": HalfSquaredError,
    "squared_error": HalfSquaredError,
    "absolute_error": AbsoluteError,
    "poisson": Poisson,
    "gamma": Gamma,
    "cross_entropy": CrossEntropy,
}
_WITH_A_NUMBER: dict[str, Callable[[float], Loss]] = {"quantile": Quantile, "huber": Huber, "tweedie": Tweedie}
"""Losses whose name is followed by a number, as in "quantile:0.9"."""

_CLASSIFICATION: dict[str, Callable[[], Loss]] = {
    "auto": LogLoss,
    "log_loss": LogLoss,
    "exponential": Exponential,
    "cross_entropy": CrossEntropy,
}


def regression_loss(name: str) -> Loss:
    """The loss of a regressor with a name such as "poisson" or "quantile:0.9"."""
    if name in _REGRESSION:
        return _REGRESSION[name]()
    kind, _, number = name.partition(":")
    if kind not in _WITH_A_NUMBER:
        raise ValueError(f"loss={name!r} must be one of {_listed(_REGRESSION)}, {_examples()}, or a loss object.")
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"loss={name!r} needs a number after a colon, as in {_examples()}.") from None
    return _WITH_A_NUMBER[kind](value)


def classification_loss(name: str) -> Loss:
    """The loss of a classifier of two classes with a name."""
    if name not in _CLASSIFICATION:
        raise ValueError(f"loss={name!r} must be one of {_listed(_CLASSIFICATION)}, or a loss object.")
    return _CLASSIFICATION[name]()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _examples() -> str:
    return _listed(("quantile:0.9", "huber:1.5", "tweedie:1.5"))


_BUILT_IN = {
    AbsoluteError, CrossEntropy, Exponential, Gamma, HalfSquaredError, Huber, LogLoss, Multinomial,
    MultinomialCrossEntropy, Poisson, Quantile, Tweedie,
}  # fmt: skip


def is_built_in(loss: object) -> bool:
    """Whether a loss is a built-in one; a custom loss that is derived from one may have changed anything."""
    return type(loss) in _BUILT_IN
