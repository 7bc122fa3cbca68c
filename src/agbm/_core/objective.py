"""The problem that an algorithm solves: rows, labels, weights and a loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from .. import _native
from .learners import Fit, Model, Newton, fit_of
from .losses import BuiltInLoss, Loss, Quantile, is_built_in
from .sums import Array, ExactSum, exact_sum, inner_sums, rows_together, weight_sum
from .theory import cosine
from .weights import Weights


@dataclass(frozen=True, eq=False)
class Outputs:
    """A loss of the user's of one score a row, for every output: the losses of the outputs add up.

    Labels and scores are (output, row). The loss itself sees one output at a time, as vectors over rows.
    """

    loss: Loss

    @property
    def constant_hessian(self) -> bool:
        """See Loss."""
        return self.loss.constant_hessian

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        total = self.loss.value(y[0], f[0])
        for k in range(1, len(f)):
            total = total + self.loss.value(y[k], f[k])
        return total

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo residuals (output, row)."""
        return np.stack([self.loss.negative_gradient(y[k], f[k]) for k in range(len(f))])

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The second derivatives (output, row)."""
        return np.stack([self.loss.hessian(y[k], f[k], weight) for k in range(len(f))])


def of_each_output(loss: Loss) -> Loss | Outputs:
    """A loss of one score a row for labels and scores (output, row); built-in losses take these as they are."""
    return loss if is_built_in(loss) else Outputs(loss)


# Residuals below it have squares that vanish: no split would gain anything.
SMALLEST_RESIDUAL = 1e-140


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise L(f) = sum over the training rows of w_i l(y_i, f(x_i)).

    Functions are arrays (output, row). Rows, always on the last axis, have the training rows first and behind them rows
    that are only watched (validation rows), so that every update of a function is written once for both.
    """

    loss: Loss | Outputs
    """Of labels and scores (output, row), or one that sees a label and all scores of a row at once."""
    y: Array
    n_train: int
    start: Array
    """The start function f^0 on every row."""
    weights: Weights | None = None
    """Weights of every row; None where all are 1."""
    second_order: bool = False
    """Whether learners make Newton steps."""
    n_threads: int = 1
    """Threads for what is done with functions. Results have the same bits for every number."""

    @property
    def n_rows(self) -> int:
        """Training and validation rows."""
        return int(self.start.shape[-1])

    @cached_property
    def train_y(self) -> Array:
        """The labels of the training rows."""
        return self.y[..., : self.n_train]

    @cached_property
    def train_weights(self) -> Weights | None:
        """The weights of the training rows."""
        return None if self.weights is None else self.weights[: self.n_train]

    @cached_property
    def train_weight(self) -> Array | None:
        """What each training row weighs."""
        return None if self.train_weights is None else self.train_weights.total

    @cached_property
    def has_validation(self) -> bool:
        """Whether there are rows behind the training rows."""
        return self.n_rows > self.n_train

    def residual(self, f: Array) -> Array:
        """Pseudo residual on the training rows: the negative gradient of the loss at f."""
        return self._checked(self.loss.negative_gradient(self.train_y, self._on_training_rows(f)), "negative_gradient")

    def hessian(self, f: Array) -> Array | None:
        """Second derivative of the loss at f on the training rows, for Newton steps; None for gradient steps."""
        if not self.second_order or self.loss.constant_hessian:
            return None
        hessian = self.loss.hessian(self.train_y, self._on_training_rows(f), self.train_weight)
        return self._checked(hessian, "hessian")

    def newton(self, f: Array) -> Newton | None:
        """What a Newton step at f needs besides the residual; None for gradient steps."""
        hessian = self.hessian(f)
        if hessian is None:
            return None
        return Newton(hessian) if self.quantile is None else Newton(hessian, self.distance(f), self.quantile)

    @property
    def quantile(self) -> float | None:
        """The quantile that the loss is smallest at, for losses with a kink: leaves take it of their rows."""
        return self.loss.quantile if isinstance(self.loss, Quantile) and is_built_in(self.loss) else None

    def distance(self, f: Array) -> Array:
        """From f to the labels of the training rows."""
        return np.ascontiguousarray(self.train_y - self._on_training_rows(f))

    @cached_property
    def train_weight_sum(self) -> ExactSum:
        """The sum of the weights of the training rows."""
        return weight_sum(self.train_weight, self.n_train, self.n_threads)

    @cached_property
    def validation_weight_sum(self) -> ExactSum:
        """The sum of the weights of the validation rows."""
        return weight_sum(self._validation_weight, self.n_rows - self.n_train, self.n_threads)

    def train_loss_sum(self, f: Array) -> ExactSum:
        """L(f): the loss of the training rows together."""
        return self._loss_sum(self.train_y, self._on_training_rows(f), self.train_weight)

    def validation_loss_sum(self, f: Array) -> ExactSum:
        """The loss of the validation rows together."""
        return self._loss_sum(self.y[..., self.n_train :], f[..., self.n_train :], self._validation_weight)

    def train_loss(self, f: Array) -> float:
        """Mean loss over the training rows."""
        return self.train_loss_sum(f) / self.train_weight_sum

    def validation_loss(self, f: Array) -> float:
        """Mean loss over the validation rows; NaN where there are none."""
        return self.validation_loss_sum(f) / self.validation_weight_sum if self.has_validation else float("nan")

    def mix(self, a: float, x: Array, b: float, y: Array) -> Array:
        """The function a x + b y: as NumPy computes it, on several threads."""
        out = _native.empty(x.shape)
        _native.mix(a, rows_together(x), b, rows_together(y), out, self.n_threads)
        return out

    def zero_residual(self) -> Array:
        """A residual that is zero everywhere."""
        return np.zeros((len(self.start), self.n_train))

    def fit_of(self, model: Model, function: int, values: Array, newton: Newton | None) -> Fit:
        """A function of a model that is known already, as a fit."""
        return fit_of(model, function, values, self.n_train, newton, self.n_threads)

    def measure(self, f: Array, *fits: tuple[Array, Fit]) -> tuple[tuple[float, float], list[float]]:
        """Training and validation loss of f, and the cosines of residuals and their fits."""
        return (self.train_loss(f), self.validation_loss(f)), [self.cosine(r, fit) for r, fit in fits]

    def cosine(self, r: Array, fit: Fit) -> float:
        """Of the angle between a residual and its fit."""
        return cosine(*self.inner_sums(r, fit.explained))

    def slope(self, f: Array, b: Array) -> float:
        """Derivative of L along b at f."""
        return -self.inner(self.residual(f), b)

    def inner_sums(self, r: Array, b: Array) -> tuple[ExactSum, ExactSum, ExactSum]:
        """<r, r>, <r, b> and <b, b>: weighted sums over the training rows, of a residual and a function."""
        return inner_sums(r, b[..., : self.n_train], self.train_weight, self.n_threads)

    def inner(self, r: Array, b: Array) -> float:
        """Weighted sum over the training rows of a residual times a function."""
        return float(self.inner_sums(r, b)[1])

    def _checked(self, given: Any, name: str) -> Array:
        """What a loss gave, as the kernels take it; losses may be the user's."""
        array = np.ascontiguousarray(given, dtype=np.float64)
        if array.shape != (len(self.start), self.n_train):
            raise ValueError(
                f"loss: {name} must give one number for each of {self.n_train} rows"
                + (f" and {len(self.start)} scores" if len(self.start) > 1 else "")
                + f", got an array of shape {np.shape(given)[-1:] if len(self.start) == 1 else np.shape(given)}."
            )
        return array

    def _on_training_rows(self, f: Array) -> Array:
        return f[..., : self.n_train] if self.has_validation else f

    @cached_property
    def _validation_weight(self) -> Array | None:
        return None if self.weights is None else self.weights.total[self.n_train :]

    def _loss_sum(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        if is_built_in(self.loss):
            return cast(BuiltInLoss, self.loss).exact_total(y, f, weight)
        return exact_sum(self.loss.value(y, f), weight, self.n_threads)


def start_residual(problem: Problem) -> Array:
    """The residual of the start function; an error where its numbers are too small to compute with."""
    residual = problem.residual(problem.start)
    largest = float(np.abs(residual).max(initial=0.0))
    if 0.0 < largest < SMALLEST_RESIDUAL:
        raise ValueError(
            f"y: residuals of the start function are at most {largest:.3g}, and their squares vanish; scale y up."
        )
    return residual
