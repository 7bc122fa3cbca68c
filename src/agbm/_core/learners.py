"""Weak learners: the protocols that the algorithms use, and scikit-learn regressors as weak learners."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .._base import _native
from .._base.sums import Array, empty
from .._base.types import Matrix
from .._base.weights import Weights

V = TypeVar("V")
"""The values of a function on the rows of an objective: an array (output, row), or a handle to one on a cluster."""


class Regressor(Protocol):
    """A regressor with the interface of scikit-learn's."""

    def fit(self, X: Any, y: Any) -> object: ...

    def predict(self, X: Any) -> Any: ...


class DivergedError(ArithmeticError):
    """A residual is not finite: no learner can fit it."""


class Model(Protocol):
    """One or more fitted functions of x, each with one value per output of the objective."""

    @property
    def n_learners(self) -> int:
        """Number of trees, or of other single learners."""

    @property
    def n_functions(self) -> int:
        """Number of functions."""

    def predict(self, X: Matrix, n_threads: int) -> Array:
        """Values (function, output, row)."""


Predict = Callable[[Model, Any, int], Array]
"""Predicts the values (function, output, row) of a model for the rows of a table of numbers."""


def on_threads(model: Model, X: Any, n_threads: int) -> Array:
    """Predict on threads of this process."""
    return model.predict(X, n_threads)


class Newton(NamedTuple, Generic[V]):
    """What learners need for a Newton step besides the residual; values are (output, training row)."""

    hessian: V
    distance: V | None = None
    """Label minus score. Set for losses with a kink: the best value of a leaf is a quantile of the distances."""
    shares: Sequence[float] = ()
    """For each output, the share of the rows at or below that quantile."""


class Fit(NamedTuple, Generic[V]):
    """One function of a fitted model, with its values (output, row) on the rows of the objective."""

    model: Model
    function: int
    values: V
    """b(x) on every row, validation rows included."""
    explained: V
    """The part of the residual that the fit explains, on the training rows: b, or hessian * b after a Newton fit, which
    has the unit of the residual again."""

    def without_values(self) -> Fit[V]:
        """The function alone."""
        return Fit(self.model, self.function, cast(V, None), cast(V, None))


def explained_by(values: Array, n_train: int, newton: Newton[Array] | None, n_threads: int = 1) -> Array:
    """The part of the residual that a function explains, from its values on every row; see Fit."""
    b = values if values.shape[1] == n_train else values[:, :n_train]
    if newton is None:
        return b
    product = empty(newton.hessian.shape)
    _native.multiply(b, newton.hessian, product, n_threads)
    return product


def fit_of(
    model: Model, function: int, values: Array, n_train: int, newton: Newton[Array] | None, n_threads: int = 1
) -> Fit[Array]:
    """A fit from its values on every row."""
    values = np.ascontiguousarray(values)  # the memory layout determines the order of sums, and so their last bits
    return Fit(model, function, values, explained_by(values, n_train, newton, n_threads))


class Fitter(Protocol[V]):
    """A learner bound to the rows of one objective.

    Each call of skip, fit or fit_pair is one iteration. Random draws depend only on the seed and the number of the
    iteration. A residual that is not finite raises DivergedError.
    """

    def skip(self) -> None:
        """Skip an iteration whose fits are known already."""

    def fit(self, r: V, newton: Newton[V] | None) -> Fit[V]:
        """Fit a weak learner to a residual (output, training row)."""

    def fit_pair(self, r: V, c: V, newton: Newton[V] | None, *, second: bool) -> tuple[Fit[V], Fit[V] | None]:
        """Fit weak learners to two residuals.

        `second` is false if nothing will use the learner for c. A learner that fits both with one structure may look at
        c all the same, so that its first fit does not depend on `second`.
        """

    def values(self, model: Model) -> Sequence[V]:
        """The values (output, row) of each function of a fitted model on the rows of the objective."""


class Learner(Protocol):
    """A family of functions that are fitted to residuals."""

    def bind(self, X: Matrix, n_train: int, weights: Weights | None, residual: Array) -> Fitter[Array]:
        """Prepare for fits to residuals (output, row) of the first n_train rows of X.

        `residual` is the residual of the start function.
        """

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        """One model with one function: the sum of all functions, each times its weight."""


@dataclass(frozen=True, eq=False)
class FittedRegressors:
    """Fitted scikit-learn regressors as a model, one per output."""

    regressors: Sequence[Any]
    n_functions = 1

    @property
    def n_learners(self) -> int:
        """Number of regressors."""
        return len(self.regressors)

    def predict(self, X: Matrix, n_threads: int) -> Array:
        """Values (1, output, row)."""
        return np.array([[np.asarray(regressor.predict(X), dtype=np.float64).ravel() for regressor in self.regressors]])


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Models that cannot be merged: their values are summed at prediction."""

    models: Sequence[Model]
    weights: Sequence[Array]
    n_outputs: int
    n_functions = 1

    @property
    def n_learners(self) -> int:
        """Number of learners of all models."""
        return sum(model.n_learners for model in self.models)

    def predict(self, X: Matrix, n_threads: int) -> Array:
        """Values (1, output, row)."""
        total = np.zeros((1, self.n_outputs, X.shape[0]))
        for model, weight in zip(self.models, self.weights, strict=True):
            total[0] += np.einsum("fkn,f->kn", model.predict(X, n_threads), weight)
        return total


class RegressorLearner:
    """Any scikit-learn regressor: cloned and fitted to the residual, with weights if its fit accepts them."""

    def __init__(self, regressor: object, seed: int, n_outputs: int = 1) -> None:
        self._regressor = regressor
        self._seed = seed
        self._n_outputs = n_outputs
        self._weight_argument = _weight_argument(regressor)

    @property
    def takes_weights(self) -> bool:
        """Whether the regressor's fit accepts sample weights."""
        return self._weight_argument is not None

    def bind(self, X: Matrix, n_train: int, weights: Weights | None, residual: Array) -> RegressorFitter:
        if weights is not None and not self.takes_weights:
            warnings.warn(
                f"learner={self._regressor!r} takes no sample_weight: the loss is weighted, its fits are not.",
                UserWarning,
                stacklevel=6,  # the line that called fit
            )
        return RegressorFitter(self, X, n_train, None if weights is None else weights.total)

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Model:
        return WeightedSum(list(models), list(weights), self._n_outputs)

    def random(self, iteration: int) -> np.random.RandomState:
        """The random generator of one iteration."""
        return np.random.RandomState([self._seed, iteration])

    def fit_one(self, X: Matrix, r: Array, weight: Array | None, random: np.random.RandomState) -> Any:
        """Fit a clone to the residual (row) of one output, or to its Newton step."""
        regressor = clone(self._regressor)
        seeds = {
            name: random.randint(np.iinfo(np.int32).max)
            for name, value in sorted(regressor.get_params(deep=True).items())
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        if seeds:
            regressor.set_params(**seeds)
        arguments = {} if weight is None or self._weight_argument is None else {self._weight_argument: weight}
        return regressor.fit(X, r, **arguments)


class RegressorFitter:
    """A scikit-learn regressor bound to the rows of a table."""

    def __init__(self, learner: RegressorLearner, X: Matrix, n_train: int, weight: Array | None) -> None:
        self._learner = learner
        self._X = X
        self._n_train = n_train
        self._weight = weight
        self._iteration = 0

    def skip(self) -> None:
        self._iteration += 1

    def fit(self, r: Array, newton: Newton[Array] | None) -> Fit[Array]:
        return self._fit(r, newton, self._random())

    def fit_pair(
        self, r: Array, c: Array, newton: Newton[Array] | None, *, second: bool
    ) -> tuple[Fit[Array], Fit[Array] | None]:
        random = self._random()
        return self._fit(r, newton, random), self._fit(c, newton, random) if second else None

    def values(self, model: Model) -> Sequence[Array]:
        return list(model.predict(self._X, 1))

    def _random(self) -> np.random.RandomState:
        random = self._learner.random(self._iteration)
        self._iteration += 1
        return random

    def _fit(self, r: Array, newton: Newton[Array] | None, random: np.random.RandomState) -> Fit[Array]:
        """Least squares on the residual; with hessians, weighted least squares on the Newton step r / hessian."""
        if not np.isfinite(r).all():
            raise DivergedError("a residual is not finite")
        rows = self._X[: self._n_train]
        regressors = []
        for k in range(len(r)):
            step, weight = r[k], self._weight
            if newton is not None:
                hessian = newton.hessian[k]
                step, weight = r[k] / hessian, hessian if weight is None else hessian * weight
            regressors.append(self._learner.fit_one(rows, step, weight, random))
        model = FittedRegressors(regressors)
        return fit_of(model, 0, self.values(model)[0], self._n_train, newton)


def _weight_argument(regressor: object) -> str | None:
    """Name of the argument of fit for sample weights; in a pipeline, that of its last step."""
    from sklearn.pipeline import Pipeline  # imported here because it is slow

    if isinstance(regressor, Pipeline):
        name, last = regressor.steps[-1]
        inner = _weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(regressor, "sample_weight") else None
