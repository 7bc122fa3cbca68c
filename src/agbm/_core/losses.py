"""Losses: what boosting minimises.

A loss is a function of the label y and the raw score f of each row. Every method works on whole vectors. Any object
with the methods of `Loss` can be used. The built-in losses leave what training calls again and again to the kernels.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Real
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import _native
from .sums import Array as Array
from .sums import (
    ExactSum,
    exact_mean,
    exact_sum,
    of_ordered_bits,
    ordered_bits,
    rows_together,
    weight_step,
    whole_weights,
)


class Loss(Protocol):
    """What the algorithms need to know of a loss.

    Rows are on the last axis. Scores f are a vector with one score a row; a loss of K > 2 classes sees f as (K, n), and
    gives derivatives of that shape, with the loss of a row still one number. Labels y are a vector, for classes their
    codes 0 to K - 1.
    """

    @property
    def smoothness(self) -> float:
        """The largest second derivative, the paper's sigma. Theorem 4.1 admits steps up to 1 / sigma.

        Infinite where there is no bound: the theorem does not cover such a loss.
        """

    @property
    def constant_hessian(self) -> bool:
        """Whether the second derivative is 1 everywhere, so that gradient and Newton steps are the same."""

    def check(self, y: Array) -> None:
        """Raise a ValueError that says which labels are allowed, if some of y are not."""

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo residual of each row, -dl/df."""

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The second derivative at each row, or the curvature of a parabola above the loss where it has a kink.

        The weights of the rows (None: all 1) are for losses whose curvature depends on the other rows.
        """

    def best_constant(self, y: Array, weight: Array | None) -> float | Array:
        """The constant score with the smallest total loss; (K,) where a row has K scores."""

    def link(self, prediction: Array) -> Array:
        """The raw score for a prediction."""

    def inverse_link(self, f: Array) -> Array:
        """The prediction for a raw score: the expected label, or for losses with kinks the quantile."""


# Keeps probabilities off the ends of their range.
_TINY = 1e-12


def exp(x: ArrayLike, n_threads: int = 1) -> Array:
    """The exponential, with x held between -700 and 700. The kernel's: NumPy's last bits differ between platforms."""
    return _elementwise(_native.exp, x, n_threads)


def log(x: ArrayLike, n_threads: int = 1) -> Array:
    """The logarithm, with the same bits on every platform; -inf of zero, NaN of negative numbers."""
    return _elementwise(_native.log, x, n_threads)


def _crossing(falls: Callable[[float], bool], low: float, high: float) -> float:
    """The least number from low to high at which a function no longer falls, by its sign alone.

    Halves the bits between the two rather than their distance: 64 steps find it to the last bit, whatever the units
    and however far the ends are apart.
    """
    lowest, highest = ordered_bits(np.array([low, high])).tolist()
    below, at = lowest - 1, highest
    while at - below > 1:
        middle = (below + at) // 2
        below, at = (middle, at) if falls(_of_bits(middle)) else (below, middle)
    return _of_bits(at)


def _of_bits(bits: int) -> float:
    return float(of_ordered_bits(np.array([bits], dtype=np.uint64))[0])


def _elementwise(kernel: Callable[[Array, Array, int], None], x: ArrayLike, n_threads: int) -> Array:
    numbers = np.ascontiguousarray(x, dtype=np.float64)
    out = np.empty(numbers.shape)
    kernel(numbers, out, n_threads)
    return out.reshape(np.shape(x))


def _sigmoid(f: ArrayLike, n_threads: int) -> Array:
    return np.asarray(1.0 / (1.0 + exp(np.negative(f), n_threads)))


def _checked(name: str, value: float, low: float, high: float, instead: str = "") -> float:
    """A parameter of a loss as a float of Python: it is printed, compared and saved as such."""
    if not isinstance(value, Real) or not low < value < high:
        allowed = f"a number between {low:g} and {high:g}" if math.isfinite(high) else "a positive, finite number"
        raise ValueError(f"{name}={value!r} must be {allowed}{instead}.")
    return float(value)


def _quantile(x: Array, share: float, steps: Array | None) -> float:
    """The smallest number with at least that share of the weight, in whole steps, at or below it."""
    if steps is None:
        place = enough(share, len(x)) - 1
        return float(np.partition(x, place)[place])
    order = np.argsort(x)
    total = np.cumsum(steps[order])
    return float(x[order[np.searchsorted(total, enough(share, float(total[-1])))]])


def _steps(weight: Array | None) -> Array | None:
    return None if weight is None else whole_weights(weight, weight_step(weight))


def enough(share: float, total: float) -> int:
    """How much of a total, of rows or of weight in whole steps, is at least that share of it.

    A share such as 0.1 is no double, and may lie a little above what it stands for: rows that make up a tenth suffice.
    """
    return max(1, math.ceil(share * (1.0 - 2.0**-50) * total))


class BuiltInLoss:
    """Losses whose value and derivatives are kernels. They print as they were made.

    Those of one score a row also take labels and scores (output, row): the losses of the outputs add up.
    """

    n_threads: int = 1
    """Threads of the kernels. Results have the same bits for every number."""

    min_leaf_hessian = 0.0
    """Sum of hessians that a leaf needs after a Newton fit, at least; what sure and right rows still have to say is
    mostly noise. (A loss of the user's may have it, too.)"""

    _kernel: ClassVar[str]

    @property
    def _parameter(self) -> float:
        return 0.0

    def __repr__(self) -> str:
        made_of = {name: value for name, value in vars(self).items() if name != "n_threads"}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in made_of.items())})"

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses so many threads."""
        loss = copy.copy(self)
        loss.n_threads = n_threads
        return loss

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        return self._fill(_native.loss_value, y, f, one_a_row=True)

    def total(self, y: Array, f: Array, weight: Array | None) -> float:
        """The losses of all rows, times their weights, together."""
        return float(self.exact_total(y, f, weight))

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        """The same before it is rounded: totals of parts of the rows add up to that of all."""
        y, f = rows_together(y), rows_together(f)
        return ExactSum.of_native(_native.loss_sum(self._kernel, self._parameter, y, f, weight, self.n_threads))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo residual of each row, -dl/df."""
        return self._fill(_native.loss_negative_gradient, y, f)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The second derivative at each row, or what the loss has in its place."""
        return self._fill(_native.loss_hessian, y, f)

    def _fill(
        self, kernel: Callable[..., None], y: Array, f: Array, parameter: float | None = None, one_a_row: bool = False
    ) -> Array:
        y, f = rows_together(y), rows_together(f)
        out = _native.empty(y.shape if one_a_row else f.shape)
        kernel(self._kernel, self._parameter if parameter is None else parameter, y, f, out, self.n_threads)
        return out


def is_built_in(loss: object) -> bool:
    """Whether a loss is one of this module. One of the user's that is derived from one may have changed anything."""
    return isinstance(loss, BuiltInLoss) and type(loss).__module__ == __name__


class _Identity(BuiltInLoss):
    """Losses whose score is the prediction itself."""

    def check(self, y: Array) -> None:
        """Every number is allowed."""

    def link(self, prediction: Array) -> Array:
        """The prediction."""
        return prediction

    def inverse_link(self, f: Array) -> Array:
        """The score."""
        return f


class HalfSquaredError(_Identity):
    """l(y, f) = (y - f)^2 / 2."""

    _kernel = "squared_error"
    smoothness = 1.0
    constant_hessian = True

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The mean."""
        return exact_mean(y, weight)


class Quantile(_Identity):
    """l(y, f) = q (y - f) above f and (1 - q) (f - y) below: the score estimates the q-quantile of y.

    The loss has no second derivative. Trees are grown with the curvature 1 / (2 |y - f|) of the parabola that touches
    the loss at f and lies above it (Hunter and Lange, "Quantile regression via an MM algorithm", 2000), and so do not
    depend on the unit of y. The median distance stands for distances below it: without it, the few rows that are
    fitted best would hold all others back. Distances of zero do not count in it, since more than half of the labels may
    be equal. A leaf then takes the q-quantile of y - f over its rows, which is the best constant for them; steps by the
    curvature alone would be far too short where q is near 0 or 1. Gradient steps (second_order=False) move by at most
    the learning rate, in the unit of y.
    """

    _kernel = "quantile"
    _distance_unit = 2.0  # the loss of the median is half the distance
    smoothness = math.inf
    constant_hessian = False

    def __init__(self, quantile: float = 0.5) -> None:
        self.quantile = _checked("quantile", quantile, 0.0, 1.0)

    @property
    def _parameter(self) -> float:
        return float(self.quantile)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """One over twice the distance, or over twice the median distance where that is larger."""
        if np.ndim(y) == np.ndim(f) == 2:
            return np.stack([self.hessian(labels, scores, weight) for labels, scores in zip(y, f, strict=True)])
        distance, steps = self.distance(y, f), _steps(weight)
        apart = distance > 0.0
        middle = _quantile(distance[apart], 0.5, None if steps is None else steps[apart]) if apart.any() else 0.0
        return self.hessian_beyond(middle, y, f)

    def distance(self, y: Array, f: Array) -> Array:
        """From the labels to the scores."""
        return np.asarray(self._fill(_native.loss_value, y, f, 0.5) * self._distance_unit)

    def hessian_beyond(self, middle: float, y: Array, f: Array) -> Array:
        """The hessian with the given median of the distances that are not zero; 0 if all are."""
        return self._fill(_native.loss_hessian, y, f, middle if middle > 0.0 else 1.0)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The weighted quantile."""
        return _quantile(y, self.quantile, _steps(weight))


class AbsoluteError(Quantile):
    """l(y, f) = |y - f|, twice the loss of the median."""

    _kernel = "absolute_error"
    _distance_unit = 1.0
    quantile = 0.5

    def __init__(self) -> None:
        """No parameter."""


class Huber(_Identity):
    """l(y, f) = (y - f)^2 / 2 up to a distance of delta, and a straight line beyond. delta is in the units of y.

    Newton steps use the curvature of the parabola that touches the loss and lies above it: 1 near the label, delta /
    distance far from it.
    """

    _kernel = "huber"
    smoothness = 1.0
    constant_hessian = False

    def __init__(self, delta: float) -> None:
        self.delta = _checked("delta", delta, 0.0, math.inf, "; use the squared error in place of an infinite one")

    @property
    def _parameter(self) -> float:
        return float(self.delta)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Where the slope crosses zero."""

        def falls(f: float) -> bool:
            return exact_mean(self.negative_gradient(y, np.full(len(y), f)), weight) > 0.0

        return _crossing(falls, float(y.min()), float(y.max()))


class Tweedie(BuiltInLoss):
    """Half the deviance of a Tweedie distribution with power p between 1 and 2, log link: amounts with many zeros.

    l(y, f) = exp((2 - p) f) / (2 - p) - y exp((1 - p) f) / (1 - p), up to a constant. The hessian is the second
    derivative, or half the residual where that is larger: a row's Newton step changes a prediction by a factor of e^2
    at most. The same holds for Poisson and Gamma.
    """

    _kernel = "tweedie"
    smoothness = math.inf
    constant_hessian = False

    def __init__(self, power: float = 1.5) -> None:
        self.power = _checked("power", power, 1.0, 2.0, "; use Poisson for 1 and Gamma for 2")

    @property
    def _parameter(self) -> float:
        return float(self.power)

    def check(self, y: Array) -> None:
        """No label is negative, and not all are zero."""
        if y.min() < 0.0 or not y.any():
            raise ValueError(
                f"y must have no negative value and a positive one for loss {type(self).__name__}, got values from "
                f"{y.min()} to {y.max()}."
            )

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The logarithm of the mean."""
        return float(log(exact_mean(y, weight)))

    def link(self, prediction: Array) -> Array:
        """The logarithm; that of a prediction of zero or below is no finite number."""
        return log(prediction, self.n_threads)

    def inverse_link(self, f: Array) -> Array:
        """The expected label."""
        return exp(f, self.n_threads)


class Poisson(Tweedie):
    """l(y, f) = exp(f) - y f: counts, log link."""

    _kernel = "poisson"
    power = 1.0

    def __init__(self) -> None:
        """No parameter."""


class Gamma(Tweedie):
    """l(y, f) = f + y exp(-f): positive amounts, log link."""

    _kernel = "gamma"
    power = 2.0

    def __init__(self) -> None:
        """No parameter."""

    def check(self, y: Array) -> None:
        """All labels are positive."""
        if y.min() <= 0.0:
            raise ValueError(f"y must be positive for loss Gamma, got values from {y.min()} to {y.max()}.")


class _Binary(BuiltInLoss):
    """Losses of labels 0 and 1."""

    def check(self, y: Array) -> None:
        """Labels are encoded: nothing to check."""


class LogLoss(_Binary):
    """l(y, f) = log(1 + exp(f)) - y f, with y in {0, 1} and f the log-odds: the paper's logistic loss.

    The hessian is the second derivative P (1 - P), or a sixth of the residual where that is larger: a row's Newton step
    is then at most 6 log-odds, as in LogitBoost, which cuts it (Friedman, Hastie, Tibshirani, "Additive logistic
    regression", 2000). Rows that the model is wrong about, and sure, would tear everything along otherwise.
    """

    _kernel = "logistic"
    smoothness = 0.25
    min_leaf_hessian = 0.1
    constant_hessian = False

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The log-odds of the mean; kept finite where all labels are equal."""
        return float(self.link(np.asarray(exact_mean(y, weight))))

    def link(self, prediction: Array) -> Array:
        """The log-odds."""
        share = np.clip(prediction, _TINY, 1.0 - _TINY)
        return log(share / (1.0 - share), self.n_threads)

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return _sigmoid(f, self.n_threads)


class Exponential(_Binary):
    """l(y, f) = exp(-f) for label 1 and exp(f) for label 0, the loss of AdaBoost; f is half the log-odds."""

    _kernel = "exponential"
    smoothness = math.inf
    constant_hessian = False

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Half the log-odds of the mean."""
        return float(self.link(np.asarray(exact_mean(y, weight))))

    def link(self, prediction: Array) -> Array:
        """Half the log-odds."""
        return 0.5 * LogLoss().link(prediction)

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return _sigmoid(2.0 * f, self.n_threads)


class Multinomial(BuiltInLoss):
    """l(y, f) = log(sum over k of exp(f_k)) - f_y for class codes y from 0 to K - 1, with the scores f as (K, n).

    The negative gradient of score k is (1 if y = k else 0) - p_k with the probabilities p. The hessian is its second
    derivative p_k (1 - p_k) times K / (K - 1), Friedman's factor ("Greedy function approximation", 2001): the scores of
    all classes move at once, and Newton steps by the second derivatives alone would be too long. As for LogLoss, it is
    at least a sixth of the residual.
    """

    _kernel = "multinomial"
    smoothness = 0.5  # the largest eigenvalue of diag(p) - p p^T
    min_leaf_hessian = 0.2
    constant_hessian = False

    def __init__(self, n_classes: int) -> None:
        if n_classes < 2 or n_classes != int(n_classes):
            raise ValueError(f"n_classes={n_classes!r} must be a whole number of at least 2.")
        self.n_classes = int(n_classes)

    @property
    def _parameter(self) -> float:
        return float(self.n_classes)

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        """See BuiltInLoss."""
        return exact_sum(self.value(y, f), weight, self.n_threads)

    def check(self, y: Array) -> None:
        """All labels are codes of classes."""
        if y.min() < 0 or y.max() >= self.n_classes or np.any(y != np.floor(y)):
            raise ValueError(
                f"y must hold whole numbers from 0 to {self.n_classes - 1} for loss Multinomial, got values from "
                f"{y.min()} to {y.max()}."
            )

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """The logarithms of the classes' shares, (K,); kept finite where a class has none."""
        whole = None if weight is None else whole_weights(weight, weight_step(weight))
        share = np.bincount(y.astype(np.intp), whole, self.n_classes)
        return self.link(share / share.sum())

    def link(self, prediction: Array) -> Array:
        """The logarithms of the probabilities, less their mean over the classes."""
        score = log(np.maximum(prediction, _TINY), self.n_threads)
        return np.asarray(score - _over_classes(score) / len(score))

    def inverse_link(self, f: Array) -> Array:
        """The probabilities of the classes."""
        e = exp(f - f.max(axis=0), self.n_threads)
        return np.asarray(e / _over_classes(e))


def _over_classes(scores: Array) -> Array:
    """Sums over classes, in their order: NumPy adds those of one row in another order than those of several."""
    total = np.array(scores[0])
    for of_class in scores[1:]:
        total = total + of_class
    return total


REGRESSION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": HalfSquaredError,
    "squared_error": HalfSquaredError,
    "absolute_error": AbsoluteError,
    "poisson": Poisson,
    "gamma": Gamma,
}
"""Losses by name. Those with parameters are given as objects."""

CLASSIFICATION_LOSSES: dict[str, Callable[[], Loss]] = {
    "auto": LogLoss,
    "log_loss": LogLoss,
    "exponential": Exponential,
}

LOSS_METHODS = ["check", "value", "negative_gradient", "hessian", "best_constant", "link", "inverse_link"]
