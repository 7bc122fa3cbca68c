"""Functions that return the gradient and the hessian of a loss, as LightGBM and XGBoost call them, as loss objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from .._base.sums import Array, exact_means
from .base import LOSS_METHODS, BuiltInLoss
from .classification import LogLoss, Multinomial
from .constants import newton_crossing
from .regression import HalfSquaredError

LossFunction: TypeAlias = Callable[..., Any]
"""A function (y_true, y_pred) -> (gradient, hessian), (y_true, y_pred, weight), or one that takes (y_pred, data)."""

WEIGHT_NAMES = "weight", "weights", "sample_weight"
"""Names of a third argument of functions of other libraries."""

# The Newton step of a row of a classifier is at most this many log-odds, as for LogLoss.
LONGEST_STEP = 6.0
# Scores beyond this are not tried in the search of the best constant.
LARGEST_CONSTANT = 2.0**100
# The precision of that constant, relative to the range that is known to contain it.
PRECISION = 1e-12


class LabelledRows(NamedTuple):
    """What a function gets in place of the Dataset of LightGBM or the DMatrix of XGBoost."""

    y: Array
    weight: Array

    def get_label(self) -> Array:
        """The labels."""
        return self.y

    def get_weight(self) -> Array:
        """The weights; 1 for rows without weights."""
        return self.weight


def called(function: LossFunction, y: Array, prediction: Array, weight: Array | None, name: str) -> Any:
    """The result of a function (y_true, y_pred), (y_true, y_pred, weight) or (y_pred, data) of another library.

    The last one asks its second argument for labels, which arrays do not have. `name` is the parameter, for errors.
    """
    weight = np.ones(y.shape[-1]) if weight is None else weight
    wanted = len(required_arguments(function) or "..")
    if wanted not in (2, 3):
        raise TypeError(
            f"{name}={function!r} must have the arguments (y_true, y_pred), (y_true, y_pred, weight) or "
            f"(y_pred, data); {wanted} are required."
        )
    try:
        return function(y, prediction, *[weight][: wanted - 2])
    except AttributeError as error:
        if error.name != "get_label" or not isinstance(error.obj, np.ndarray):
            raise
    return function(prediction, LabelledRows(y, weight))


def required_arguments(function: LossFunction) -> list[str] | None:
    """The names of the positional arguments without defaults; None for callables without a signature."""
    try:
        arguments = signature(function).parameters.values()
    except ValueError:
        return None
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in arguments if one.kind in positional and one.default is Parameter.empty]


def is_function(loss: object) -> TypeGuard[LossFunction]:
    """Whether a value of the parameter `loss` is a function, not a name or a loss object."""
    if isinstance(loss, type):
        raise TypeError(f"loss={loss.__name__} is a class; pass an instance of it, such as {loss.__name__}().")
    return callable(loss) and not all(hasattr(loss, method) for method in LOSS_METHODS)


@dataclass(frozen=True, repr=False)
class FunctionLoss:
    """A loss of which only a function is known that returns the gradient and the hessian of each row.

    Scores are predictions of a regressor. For a classifier they are log-odds, and each hessian is at least a sixth of
    the gradient, as for LogLoss. The derivatives of a row must depend on the label and the scores of this row only.
    """

    function: LossFunction
    n_classes: int
    """0 for a regressor."""

    smoothness = math.inf
    constant_hessian = False
    row_wise = True

    @property
    def min_hessian_leaf(self) -> float:
        """As for LogLoss."""
        return LogLoss().traits.min_hessian_leaf if self.n_classes else 0.0

    def for_classes(self, n_classes: int) -> FunctionLoss:
        """The loss for this number of classes."""
        return replace(self, n_classes=n_classes)

    def __repr__(self) -> str:
        """The function, and what is assumed about it."""
        name = getattr(self.function, "__name__", repr(self.function))
        scores = "log-odds" if self.n_classes else "predictions"
        return f"<loss of the function {name}; scores are {scores}, the value of the loss is unknown>"

    def check(self, y: Array) -> None:
        """All labels are allowed."""

    def value(self, y: Array, f: Array) -> Array:
        """NaN for each row."""
        return np.full(f.shape[-1], np.nan)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The negative gradient that the function returns."""
        return self._checked(y, f)[0]

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The hessian that the function returns. Weights are applied to its result, so it does not see them."""
        return self._checked(y, f)[1]

    def best_constant(self, y: Array, weight: Array | None) -> float | Array:
        """Where the mean gradient is zero; for several classes, the logarithms of their frequencies."""
        if self.n_classes > 2:
            return Multinomial(self.n_classes).best_constant(y, weight)

        def at(constant: float) -> tuple[float, float]:
            with np.errstate(all="ignore"):
                residual, hessian = self._derivatives(y, np.full(len(y), constant))
                mean, curvature = exact_means(lambda: [residual, hessian], weight)
            return mean, -curvature

        must_rise = at(0.0)[0] > 0.0
        known, tried = 0.0, 1.0 if must_rise else -1.0
        while (at(tried)[0] > 0.0) is must_rise:
            known, tried = tried, 2.0 * tried
            if abs(tried) > LARGEST_CONSTANT:
                raise ValueError(
                    f"loss={self.function!r}: the mean gradient has the same sign for all constant scores from 0 to "
                    f"{known:.3g}, so that none is the best. The gradient is the derivative with respect to y_pred: "
                    "negative where y_pred is too low. Correct its sign or the order of the arguments (y_true, "
                    "y_pred), or use init='zero'."
                )
        low, high = sorted((known, tried))
        return newton_crossing(at, low, high, PRECISION * (high - low))

    def link(self, prediction: Array) -> Array:
        """The scores of predictions or probabilities."""
        return self._like.link(prediction)

    def inverse_link(self, f: Array) -> Array:
        """Predictions are scores; probabilities follow from log-odds."""
        return self._like.inverse_link(f)

    @property
    def _like(self) -> BuiltInLoss:
        """The loss that has the same link."""
        if not self.n_classes:
            return HalfSquaredError()
        return LogLoss() if self.n_classes == 2 else Multinomial(self.n_classes)

    def _checked(self, y: Array, f: Array) -> tuple[Array, Array]:
        residual, hessian = self._derivatives(y, f)
        for name, found in (("gradient", residual), ("hessian", hessian)):
            wrong = np.count_nonzero(~np.isfinite(found))
            if wrong:
                raise ValueError(
                    f"loss={self.function!r}: the {name} has {wrong} numbers that are not finite, at scores from "
                    f"{f.min():.4g} to {f.max():.4g}. If scores are too large, lower learning_rate."
                )
        if hessian.min(initial=0.0) < 0.0 or (residual.any() and not hessian.any()):
            raise ValueError(
                f"loss={self.function!r}: the hessian has {np.count_nonzero(hessian < 0.0)} negative numbers and "
                f"{np.count_nonzero(hessian)} that are not zero; it must be positive where the gradient is not zero. "
                "Return an upper bound of the second derivative, such as np.maximum(hessian, 1e-6)."
            )
        return residual, hessian

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array]:
        """The negative gradient and the hessian (score, row), from a function of scores (row, score)."""
        scores = np.array(f.T, order="C")  # a copy, which the function may change
        found = called(self.function, y, scores, None, "loss")
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise TypeError(
                f"loss={self.function!r} must return two arrays, the gradient and the hessian; it returned "
                f"{type(found).__name__}."
            )
        for name, one in zip(("gradient", "hessian"), found, strict=True):
            if np.shape(one) != f.T.shape:
                raise ValueError(
                    f"loss={self.function!r}: the {name} has the shape {np.shape(one)}; it must be that of y_pred, "
                    f"{f.T.shape}."
                )
        gradient, hessian = (np.ascontiguousarray(np.asarray(one, dtype=np.float64).T) for one in found)
        if self.n_classes:
            hessian = np.maximum(hessian, np.abs(gradient) / LONGEST_STEP)
        return -gradient, hessian
