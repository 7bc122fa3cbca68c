"""Weak learners: what an algorithm asks of them, and any scikit-learn regressor as one of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .losses import Array


def mean_repeats(weight: Array) -> bool:
    """Whether weights say how often a row is repeated: whole numbers, and not so many that sums would not hold them."""
    return bool(weight.max() <= 2**31 and weight.sum() <= 2**38 and not np.any(weight % 1.0))


class Model(Protocol):
    """A fitted function of x with one or more outputs."""

    def predict(self, X: Array, n_threads: int) -> Array:
        """Values (row, output)."""


@dataclass(frozen=True, eq=False)
class Fit:
    """One output of a fitted model, with its values on the rows of the problem."""

    model: Model
    output: int
    values: Array
    """b(x) on every row, validation rows included."""
    explained: Array
    """The part of the target that the fit explains, on the training rows: b, or hessian * b after a Newton fit, which
    is again in the units of the gradient."""


def fit_of(model: Model, output: int, values: Array, n_train: int, hessian: Array | None) -> Fit:
    """A fit from its values on every row."""
    explained = values[:n_train]
    return Fit(model, output, values, explained if hessian is None else explained * hessian)


class Fitter(Protocol):
    """A learner bound to the rows of one problem."""

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """The best weak learner for a residual of the training rows."""

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """The best weak learners for two residuals.

        `second` is false where nothing will use the learner for c. A learner that fits both with one structure may look
        at c all the same, so that its first fit does not depend on `second`.
        """


class Learner(Protocol):
    """A family of functions that residuals are fitted with."""

    def bind(self, X: Array, n_train: int, weight: Array | None) -> Fitter:
        """Prepare for residuals of the first n_train rows of X."""

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        """One model with a single output: the sum of all outputs, each times its weight."""


@dataclass(frozen=True, eq=False)
class FittedRegressor:
    """A fitted scikit-learn regressor as a model."""

    regressor: Any

    def predict(self, X: Array, n_threads: int) -> Array:
        """Values (row, 1)."""
        return np.asarray(self.regressor.predict(X), dtype=np.float64).reshape(len(X), 1)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Models that cannot be merged: their outputs are summed at prediction."""

    models: Sequence[Model]
    weights: Sequence[Array]

    def predict(self, X: Array, n_threads: int) -> Array:
        """Values (row, 1)."""
        total = np.zeros((len(X), 1))
        for model, weight in zip(self.models, self.weights, strict=True):
            total[:, 0] += np.einsum("nk,k->n", model.predict(X, n_threads), weight)
        return total


class RegressorLearner:
    """Any scikit-learn regressor: cloned, fitted to the residual, given weights where it takes them."""

    def __init__(self, regressor: Any, random_state: np.random.RandomState) -> None:
        self._regressor = regressor
        self._random_state = random_state
        self._weight_argument = _weight_argument(regressor)

    @property
    def takes_weights(self) -> bool:
        """Whether the regressor's fit accepts sample weights."""
        return self._weight_argument is not None

    def bind(self, X: Array, n_train: int, weight: Array | None) -> RegressorFitter:
        """See Learner."""
        if weight is not None and not self.takes_weights:
            warnings.warn(
                f"learner={self._regressor!r} takes no sample_weight: the loss is weighted, its fits are not.",
                UserWarning,
                stacklevel=5,  # the line that called fit
            )
        return RegressorFitter(self, X, n_train, weight)

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        """See Learner."""
        return WeightedSum(list(models), list(weights))

    def fit_one(self, X: Array, target: Array, weight: Array | None) -> FittedRegressor:
        """A fresh clone fitted to the target."""
        regressor = clone(self._regressor)
        seeds = {
            name: self._random_state.randint(np.iinfo(np.int32).max)
            for name, value in sorted(regressor.get_params(deep=True).items())
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        if seeds:
            regressor.set_params(**seeds)
        arguments = {} if weight is None or self._weight_argument is None else {self._weight_argument: weight}
        return FittedRegressor(regressor.fit(X, target, **arguments))


@dataclass(frozen=True, eq=False)
class RegressorFitter:
    """A scikit-learn regressor bound to rows."""

    learner: RegressorLearner
    X: Array
    n_train: int
    weight: Array | None

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """Least squares on the target; with hessians, weighted least squares on the Newton step target / hessian."""
        rows = self.X[: self.n_train]
        if hessian is None:
            model = self.learner.fit_one(rows, target, self.weight)
        else:
            weight = hessian if self.weight is None else hessian * self.weight
            model = self.learner.fit_one(rows, target / hessian, weight)
        return fit_of(model, 0, model.predict(self.X, 1)[:, 0], self.n_train, hessian)

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        return self.fit(r, hessian), self.fit(c, hessian) if second else None


def _weight_argument(regressor: Any) -> str | None:
    """Name of the fit argument for sample weights; in a pipeline, that of its last step."""
    from sklearn.pipeline import Pipeline  # here, not above: it takes long to import

    if isinstance(regressor, Pipeline):
        name, last = regressor.steps[-1]
        inner = _weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(regressor, "sample_weight") else None
