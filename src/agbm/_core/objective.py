"""The objective that an algorithm minimises: the loss of weighted rows, and operations on functions of the rows."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from .._base import _native
from .._base.collectives import largest
from .._base.sums import Array, ExactSum, empty, exact_sum, inner_sums, rounded_inner_sums, rows_together, weight_sum
from .._base.weights import Weights
from .._losses import BuiltInLoss, JointLoss, Loss, has_kernels, is_built_in, traits_of
from .._uncertainty.conformal import Nonconformity, scores_of_labels
from .learners import Fit, Model, Newton, V, explained_by, fit_of
from .theory import cosine

# The squares of smaller residuals underflow: no split would gain anything.
SMALLEST_RESIDUAL = 1e-140


class Objective(Protocol[V]):
    """L(f) = sum over the training rows of w_i l(y_i, f(x_i)), and what algorithms do with functions.

    A function is represented by its values V on the rows of the objective: an array (output, row) on one machine, a
    handle to such an array on a cluster. Validation rows follow the training rows, so that every update of a function
    is written once for both. Residuals cover the training rows only.
    """

    @property
    def start(self) -> V:
        """The start function f^0."""

    @property
    def has_validation(self) -> bool:
        """Whether there are validation rows."""

    @property
    def has_loss(self) -> bool:
        """Whether losses are known; if only derivatives are, they are NaN."""

    def iteration(self) -> AbstractContextManager[None]:
        """Surrounds an iteration, which is complete at the end and does not wait for those of other objectives."""

    def residual(self, f: V) -> V:
        """Pseudo-residual: the negative gradient of the loss at f."""

    def newton(self, f: V) -> Newton[V] | None:
        """What a Newton step at f needs besides the residual; None for gradient steps."""

    def derivatives(self, f: V) -> tuple[V, Newton[V] | None]:
        """`residual` and `newton` at f, which may take less time together."""

    def zero_residual(self) -> V:
        """A residual that is zero on every row."""

    def mix(self, a: float, x: V, b: float, y: V) -> V:
        """The function a x + b y."""

    def train_loss(self, f: V) -> float:
        """Mean loss over the training rows."""

    def validation_loss(self, f: V) -> float:
        """Mean loss over the validation rows; NaN if there are none."""

    def measure(self, f: V, *fits: tuple[V, Fit[V]]) -> tuple[tuple[float, float], list[float]]:
        """Training and validation loss of f, and the cosine between each residual and its fit."""

    def cosine(self, r: V, fit: Fit[V]) -> float:
        """Cosine of the angle between a residual and its fit."""

    def inner(self, r: V, b: V) -> float:
        """Weighted sum over the training rows of a residual times a function."""

    def slope(self, f: V, b: V) -> float:
        """Derivative of L along b at f."""

    def fit_of(self, model: Model, function: int, values: V, newton: Newton[V] | None) -> Fit[V]:
        """A function of a known model as a fit, from its values."""

    def unit(self, output: int) -> V:
        """The function that is 1 for one output and 0 for the others."""

    def level_step(self, f: V, output: int) -> float:
        """The Newton step of a constant that is added to one output of f, by the loss of the validation rows."""

    def to_keep(self, f: V) -> V:
        """The part of a function that `held_out_scores` needs, which does not keep the rest in memory."""

    def held_out_scores(self, kept: V, measure: Nonconformity) -> tuple[Array, Array | None]:
        """The nonconformity (label, row) of the validation rows at a function, in any order, and their weights."""

    @property
    def counts_rows(self) -> bool:
        """Whether the weights of rows are numbers of repetitions."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """A user-defined loss with one score per row, applied to every output: the losses of the outputs add up.

    Labels and scores are (output, row). The loss itself sees one output at a time, as vectors over rows.
    """

    loss: Loss

    @property
    def constant_hessian(self) -> bool:
        return self.loss.constant_hessian

    @property
    def has_value(self) -> bool:
        """Whether the loss of a row is known."""
        return traits_of(self.loss).has_value

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        total = self.loss.value(y[0], f[0])
        for k in range(1, len(f)):
            total = total + self.loss.value(y[k], f[k])
        return total

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo-residuals (output, row)."""
        return np.stack([self.loss.negative_gradient(y[k], f[k]) for k in range(len(f))])

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The second derivatives (output, row)."""
        return np.stack([self.loss.hessian(y[k], f[k], weight) for k in range(len(f))])


def of_each_output(loss: Loss) -> Loss | Outputs:
    """A loss with one score per row for labels and scores (output, row), which built-in losses accept as they are."""
    return loss if is_built_in(loss) else Outputs(loss)


@dataclass(frozen=True, eq=False)
class LocalObjective:
    """An objective whose rows are in memory: functions are arrays (output, row); see Objective."""

    loss: Loss | Outputs
    """The loss of labels and scores (output, row), or one that sees a label and all scores of a row at once."""
    y: Array
    n_train: int
    start: Array
    """The start function f^0 on every row."""
    train_weights: Weights | None = None
    """The weights of the training rows; None if all are 1."""
    second_order: bool = False
    """Whether learners make Newton steps."""
    n_threads: int = 1
    """Threads for operations on functions; results do not depend on their number."""
    validation_weight: Array | None = None
    """The weight of each validation row; None if all are 1."""
    n_watched: int = 0
    """Number of rows after the validation rows. They affect neither training nor the validation loss."""

    @cached_property
    def n_rows(self) -> int:
        """Number of all rows."""
        return int(self.start.shape[-1])

    @cached_property
    def _kernels(self) -> tuple[bool, bool]:
        """Whether single calls of kernels compute mean losses, and both derivatives."""
        if not is_built_in(self.loss):
            return False, False
        sums, derivatives = has_kernels(self.loss)
        return sums, derivatives and self.second_order and not self.loss.constant_hessian

    @cached_property
    def train_y(self) -> Array:
        """The labels of the training rows."""
        return self.y[..., : self.n_train]

    @cached_property
    def train_weight(self) -> Array | None:
        """The weight of each training row."""
        return None if self.train_weights is None else self.train_weights.total

    @cached_property
    def validation_y(self) -> Array:
        """The labels of the validation rows."""
        return self.y[..., self.validation_rows]

    @cached_property
    def has_validation(self) -> bool:
        return self.n_rows > self.n_train + self.n_watched

    @cached_property
    def has_loss(self) -> bool:
        return self.loss.has_value if isinstance(self.loss, Outputs) else traits_of(self.loss).has_value

    @cached_property
    def validation_rows(self) -> slice:
        """The validation rows among all rows."""
        return slice(self.n_train, self.n_rows - self.n_watched)

    @cached_property
    def _is_joint(self) -> bool:
        """Whether the derivatives of a row depend on other rows, and on their weights."""
        return traits_of(self.loss).rows != "apart"

    def iteration(self) -> AbstractContextManager[None]:
        return nullcontext()

    def residual(self, f: Array) -> Array:
        f = self._on_training_rows(f)
        if self._is_joint:
            joint = cast(JointLoss, self.loss)
            return self._checked(joint.negative_gradient(self.train_y, f, self.train_weight), "negative_gradient")
        return self._checked(self.loss.negative_gradient(self.train_y, f), "negative_gradient")

    def derivatives(self, f: Array) -> tuple[Array, Newton[Array] | None]:
        if not self._kernels[1]:
            return self.residual(f), self.newton(f)
        residual, hessian = cast(BuiltInLoss, self.loss).derivatives(self.train_y, self._on_training_rows(f))
        return residual, Newton(hessian)

    def hessian(self, f: Array) -> Array | None:
        """Second derivative of the loss at f on the training rows; None for gradient steps."""
        if not self.second_order or self.loss.constant_hessian:
            return None
        hessian = self.loss.hessian(self.train_y, self._on_training_rows(f), self.train_weight)
        return self._checked(hessian, "hessian")

    def newton(self, f: Array) -> Newton[Array] | None:
        hessian = self.hessian(f)
        if hessian is None:
            return None
        return Newton(hessian, self.distance(f), self.quantiles) if self.quantiles else Newton(hessian)

    @cached_property
    def quantiles(self) -> tuple[float, ...]:
        """For losses with a kink, the quantile that is the value of a leaf, for each output; empty for others."""
        levels = traits_of(self.loss).quantiles if is_built_in(self.loss) else ()
        return levels * (len(self.start) // len(levels)) if levels else ()

    def distance(self, f: Array) -> Array:
        """Label minus score on the training rows."""
        return np.ascontiguousarray(self.train_y - self._on_training_rows(f))

    @cached_property
    def train_weight_sum(self) -> ExactSum:
        """What L is divided by for the mean: the sum of the weights of the training rows."""
        return self._weight_sum(self.train_y, self.train_weight)

    @cached_property
    def validation_weight_sum(self) -> ExactSum:
        """The same for the validation rows."""
        return self._weight_sum(self.validation_y, self.validation_weight)

    def train_loss_sum(self, f: Array) -> ExactSum:
        """L(f): the sum of the losses of the training rows."""
        return self._loss_sum(self.train_y, self._on_training_rows(f), self.train_weight)

    def validation_loss_sum(self, f: Array) -> ExactSum:
        """The sum of the losses of the validation rows."""
        return self._loss_sum(self.validation_y, f[..., self.validation_rows], self.validation_weight)

    def mean_loss(self, y: Array, f: Array, weight: Array | None) -> float:
        """Mean loss over any rows with labels y and scores f."""
        return self._loss_sum(y, f, weight) / self._weight_sum(y, weight)

    def level_sums(self, kept: Array, output: int) -> tuple[ExactSum, ExactSum]:
        """The sums of the residuals and hessians of one output over the validation rows, from the result of to_keep."""
        y, weight = self.validation_y, self.validation_weight
        derivatives = self.loss.negative_gradient(y, kept), self.loss.hessian(y, kept, weight)
        residual, hessian = (exact_sum(of[output], weight, self.n_threads) for of in derivatives)
        return residual, hessian

    def train_loss(self, f: Array) -> float:
        if self.train_weight is None and self._kernels[0]:
            return cast(BuiltInLoss, self.loss).mean(self.train_y, self._on_training_rows(f))
        return self.train_loss_sum(f) / self.train_weight_sum

    def validation_loss(self, f: Array) -> float:
        if not self.has_validation:
            return math.nan
        if self.validation_weight is None and self._kernels[0]:
            return cast(BuiltInLoss, self.loss).mean(self.validation_y, f[..., self.validation_rows])
        return self.validation_loss_sum(f) / self.validation_weight_sum

    def mix(self, a: float, x: Array, b: float, y: Array) -> Array:
        """The function a x + b y, with the same bits as NumPy's, on several threads."""
        out = empty(x.shape)
        _native.mix(a, rows_together(x), b, rows_together(y), out, self.n_threads)
        return out

    def zero_residual(self) -> Array:
        return np.zeros((len(self.start), self.n_train))

    def explained_by(self, values: Array, newton: Newton[Array] | None) -> Array:
        """The part of the residual that a function explains; see Fit."""
        return explained_by(values, self.n_train, newton, self.n_threads)

    def fit_of(self, model: Model, function: int, values: Array, newton: Newton[Array] | None) -> Fit[Array]:
        return fit_of(model, function, values, self.n_train, newton, self.n_threads)

    def measure(self, f: Array, *fits: tuple[Array, Fit[Array]]) -> tuple[tuple[float, float], list[float]]:
        return (self.train_loss(f), self.validation_loss(f)), [self.cosine(r, fit) for r, fit in fits]

    def cosine(self, r: Array, fit: Fit[Array]) -> float:
        return cosine(*rounded_inner_sums(r, fit.explained, self.train_weight, self.n_threads))

    def slope(self, f: Array, b: Array) -> float:
        return -self.inner(self.residual(f), b)

    def inner_sums(self, r: Array, b: Array) -> tuple[ExactSum, ExactSum, ExactSum]:
        """<r, r>, <r, b> and <b, b>: weighted sums over the training rows, of a residual and a function."""
        return inner_sums(r, b[..., : self.n_train], self.train_weight, self.n_threads)

    def inner(self, r: Array, b: Array) -> float:
        return float(self.inner_sums(r, b)[1])

    @property
    def local(self) -> LocalObjective:
        """The objective itself; for objectives elsewhere, one with the same rows in memory."""
        return self

    def to_host(self, f: Array) -> Array:
        """The values of a function as an array in memory."""
        return f

    def unit(self, output: int) -> Array:
        function = np.zeros((len(self.start), self.n_rows))
        function[output] = 1.0
        return function

    def level_step(self, f: Array, output: int) -> float:
        residual, hessian = self.level_sums(self.to_keep(f), output)
        return residual / hessian

    def to_keep(self, f: Array) -> Array:
        return f[..., self.validation_rows].copy()

    def held_out_scores(self, kept: Array, measure: Nonconformity) -> tuple[Array, Array | None]:
        rows = self.validation_rows
        return scores_of_labels(measure, self.y[..., rows], kept, self.start[..., rows]), self.validation_weight

    @property
    def counts_rows(self) -> bool:
        return self.train_weights is None or self.train_weights.relative is None

    def _checked(self, given: Any, name: str) -> Array:
        """The result of a loss, which may be user-defined, in the layout of the kernels."""
        if is_built_in(self.loss):
            return cast(Array, given)
        array = np.ascontiguousarray(given, dtype=np.float64)
        if array.shape != (len(self.start), self.n_train):
            raise ValueError(
                f"loss: {name} must give one number for each of {self.n_train} rows"
                + (f" and {len(self.start)} scores" if len(self.start) > 1 else "")
                + f", got an array of shape {np.shape(given)[-1:] if len(self.start) == 1 else np.shape(given)}."
            )
        return array

    def _on_training_rows(self, f: Array) -> Array:
        return f if self.n_rows == self.n_train else f[..., : self.n_train]

    def _loss_sum(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        if is_built_in(self.loss):
            return self.loss.exact_total(y, f, weight)
        return exact_sum(self.loss.value(y, f), weight, self.n_threads)

    def _weight_sum(self, y: Array, weight: Array | None) -> ExactSum:
        if self._is_joint:
            return cast(JointLoss, self.loss).total_weight(y, weight)
        return weight_sum(weight, y.shape[-1], self.n_threads)


def start_function(constants: Array, scores: Array | None, n_rows: int) -> Array:
    """Constants, one per output, as a function of the rows; plus scores of each row if there are any."""
    column = constants[:, np.newaxis]
    return np.broadcast_to(column, (len(constants), n_rows)) if scores is None else column + scores


def start_residual(objective: LocalObjective) -> Array:
    """The residual of the start function; raises ValueError if its squares underflow."""
    residual = objective.residual(objective.start)
    most = largest(np.abs(residual), 0.0)
    if 0.0 < most < SMALLEST_RESIDUAL:
        raise ValueError(
            f"y: residuals of the start function are at most {most:.3g}, and their squares vanish; scale y up."
        )
    return residual
