"""Weak learners: what an algorithm asks of them, and any scikit-learn regressor as one of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .. import _native
from .losses import Array
from .weights import Weights


class DivergedError(ArithmeticError):
    """A residual has left the range of floating point numbers: no learner can fit it."""


class Model(Protocol):
    """One or more fitted functions of x, each with one value for every output of the problem."""

    @property
    def n_learners(self) -> int:
        """Trees, or other single learners, that it is made of."""

    @property
    def n_functions(self) -> int:
        """Functions that it holds."""

    def predict(self, X: Any, n_threads: int) -> Array:
        """Values (function, output, row)."""


class Newton(NamedTuple):
    """What learners need for Newton steps besides a residual; arrays are (output, training row)."""

    hessian: Array
    distance: Array | None = None
    """From scores to labels, where a leaf is best fitted by a quantile of these: losses with a kink."""
    share: float = 0.0
    """Of the rows at or below that quantile."""


class Fit(NamedTuple):
    """One function of a fitted model, with its values (output, row) on the rows of the problem."""

    model: Model
    function: int
    values: Array
    """b(x) on every row, validation rows included."""
    explained: Array
    """The part of the target that the fit explains, on the training rows: b, or hessian * b after a Newton fit, which
    is again in the units of the gradient."""


def fit_of(model: Model, function: int, values: Array, n_train: int, newton: Newton | None, n_threads: int = 1) -> Fit:
    """A fit from its values on every row."""
    values = np.ascontiguousarray(values)  # the order of sums over them, and so their last bits, follow the layout
    explained = values[:, :n_train]
    if newton is not None:
        product = _native.empty(newton.hessian.shape)
        _native.multiply(explained, newton.hessian, product, n_threads)
        explained = product
    return Fit(model, function, values, explained)


class Fitter(Protocol):
    """A learner bound to the rows of one problem. Each call is one iteration; what it draws depends on nothing else.

    A residual that is not finite is a DivergedError.
    """

    def skip(self) -> None:
        """Pass over an iteration whose learners are known already."""

    def fit(self, target: Array, newton: Newton | None) -> Fit:
        """The best weak learner for a residual (output, training row)."""

    def fit_pair(self, r: Array, c: Array, newton: Newton | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """The best weak learners for two residuals.

        `second` is false where nothing will use the learner for c. A learner that fits both with one structure may look
        at c all the same, so that its first fit does not depend on `second`.
        """


class Learner(Protocol):
    """A family of functions that residuals are fitted with."""

    def bind(self, X: Any, n_train: int, weights: Weights | None, residual: Array) -> Fitter:
        """Prepare for residuals (output, row) of the first n_train rows of X.

        `residual` is that of the start function.
        """

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        """One model with one function: the sum of all functions, each times its weight."""


@dataclass(frozen=True, eq=False)
class FittedRegressors:
    """Fitted scikit-learn regressors as a model, one for each output."""

    regressors: Sequence[Any]
    n_functions = 1

    @property
    def n_learners(self) -> int:
        """Number of regressors."""
        return len(self.regressors)

    def predict(self, X: Any, n_threads: int) -> Array:
        """Values (1, output, row)."""
        return np.array([[np.asarray(regressor.predict(X), dtype=np.float64).ravel() for regressor in self.regressors]])


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Models that cannot be merged: their outputs are summed at prediction."""

    models: Sequence[Model]
    weights: Sequence[Array]
    n_outputs: int
    n_functions = 1

    @property
    def n_learners(self) -> int:
        """Learners of all models."""
        return sum(model.n_learners for model in self.models)

    def predict(self, X: Any, n_threads: int) -> Array:
        """Values (1, output, row)."""
        total = np.zeros((1, self.n_outputs, X.shape[0]))
        for model, weight in zip(self.models, self.weights, strict=True):
            total[0] += np.einsum("fkn,f->kn", model.predict(X, n_threads), weight)
        return total


class RegressorLearner:
    """Any scikit-learn regressor: cloned, fitted to the residual, given weights where it takes them."""

    def __init__(self, regressor: Any, seed: int, n_outputs: int = 1) -> None:
        self._regressor = regressor
        self._seed = seed
        self._n_outputs = n_outputs
        self._weight_argument = _weight_argument(regressor)

    @property
    def takes_weights(self) -> bool:
        """Whether the regressor's fit accepts sample weights."""
        return self._weight_argument is not None

    def bind(self, X: Any, n_train: int, weights: Weights | None, residual: Array) -> RegressorFitter:
        """See Learner."""
        if weights is not None and not self.takes_weights:
            warnings.warn(
                f"learner={self._regressor!r} takes no sample_weight: the loss is weighted, its fits are not.",
                UserWarning,
                stacklevel=6,  # the line that called fit
            )
        return RegressorFitter(self, X, n_train, None if weights is None else weights.total)

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        """See Learner."""
        return WeightedSum(list(models), list(weights), self._n_outputs)

    def lots(self, iteration: int) -> np.random.RandomState:
        """Random numbers of one iteration."""
        return np.random.RandomState([self._seed, iteration])

    def fit_one(self, X: Any, target: Array, weight: Array | None, lots: np.random.RandomState) -> Any:
        """A fresh clone fitted to the target."""
        regressor = clone(self._regressor)
        seeds = {
            name: lots.randint(np.iinfo(np.int32).max)
            for name, value in sorted(regressor.get_params(deep=True).items())
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        if seeds:
            regressor.set_params(**seeds)
        arguments = {} if weight is None or self._weight_argument is None else {self._weight_argument: weight}
        return regressor.fit(X, target, **arguments)


class RegressorFitter:
    """A scikit-learn regressor bound to rows."""

    def __init__(self, learner: RegressorLearner, X: Any, n_train: int, weight: Array | None) -> None:
        self._learner = learner
        self._X = X
        self._n_train = n_train
        self._weight = weight
        self._iteration = 0

    def skip(self) -> None:
        """See Fitter."""
        self._iteration += 1

    def fit(self, target: Array, newton: Newton | None) -> Fit:
        """See Fitter."""
        return self._fit(target, newton, self._lots())

    def fit_pair(self, r: Array, c: Array, newton: Newton | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        lots = self._lots()
        return self._fit(r, newton, lots), self._fit(c, newton, lots) if second else None

    def _lots(self) -> np.random.RandomState:
        lots = self._learner.lots(self._iteration)
        self._iteration += 1
        return lots

    def _fit(self, target: Array, newton: Newton | None, lots: np.random.RandomState) -> Fit:
        """Least squares on the target; with hessians, weighted least squares on the Newton step target / hessian."""
        if not np.isfinite(target).all():
            raise DivergedError("a residual is not finite")
        rows = self._X[: self._n_train]
        regressors = []
        for k in range(len(target)):
            aim, weight = target[k], self._weight
            if newton is not None:
                hessian = newton.hessian[k]
                aim, weight = target[k] / hessian, hessian if weight is None else hessian * weight
            regressors.append(self._learner.fit_one(rows, aim, weight, lots))
        model = FittedRegressors(regressors)
        return fit_of(model, 0, model.predict(self._X, 1)[0], self._n_train, newton)


def _weight_argument(regressor: Any) -> str | None:
    """Name of the fit argument for sample weights; in a pipeline, that of its last step."""
    from sklearn.pipeline import Pipeline  # here, not above: it takes long to import

    if isinstance(regressor, Pipeline):
        name, last = regressor.steps[-1]
        inner = _weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(regressor, "sample_weight") else None
