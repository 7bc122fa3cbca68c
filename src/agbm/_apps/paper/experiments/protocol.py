"""The protocol of the paper's appendix: five splits, a random search over the grids, a final fit with early stopping.

Choices that the text leaves open:

* Functions start at zero and learners fit the residual itself (gradient steps), as in Algorithms 1 and 2.
* One search serves all numbers of trees, since the model with 30 trees is the start of the one with 100. A candidate
  that diverges is scored by its iteration with the lowest training loss.
* The candidates are the same for all splits and data sets.
* Early stopping uses held-out training rows. The released scripts use the test rows, keep the last model instead of
  the best one, and grow trees with one more level; these are options of `Conventions`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterSampler, ShuffleSplit, check_cv

from ...._estimators.base import BaseAGBM
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.regressor import AGBMRegressor
from ...._losses.base import BuiltInLoss
from ....losses import HalfSquaredError, LogLoss
from ....methods import AGBM, GBM, VAGBM
from ..data_sets import DataSet
from ..printed import TREES

N_SPLITS = 5
TEST_SHARE = 0.2
FOLDS = 5
EARLY_STOPPING_ROUNDS = 5

GRIDS: Mapping[str, Any] = {
    "min_split_gain": [10, 5, 2, 1, 0.5, 0.1, 0.01, 0.001, 1e-4, 1e-5],
    "l2_regularization": [0.01, 0.1, 0.5, 1, 2, 4, 8, 16, 32, 64],
    # From 0.1 to 1, as gamma is at most 1. The appendix writes uniform(0.1, 1), which in SciPy would end at 1.1.
    "momentum": uniform(0.1, 0.9),
}
OF_METHOD = {"momentum"}
"""Parameters of the method object, not of the estimator."""

# Settings that the paper fixes for every method. Thresholds are 100 quantiles of all rows; the released code uses the
# quantiles of the rows of each node.
FIXED: Mapping[str, Any] = {
    "learning_rate": 0.1,
    "init": "zero",
    "min_samples_leaf": 1,
    "l2_regularization": 0.0,
    "colsample_bytree": 1.0,
    "max_bins": 100,
    "n_members": 1,
}


@dataclass(frozen=True)
class Method:
    """A column of the table."""

    title: str
    parameters: Mapping[str, Any]
    tuned: tuple[str, ...]
    """Parameters to search. If empty, the method uses the defaults of the library instead of the paper's settings."""
    printed: str | None = None
    """The corresponding column of the paper's table, if there is one."""

    @property
    def trees_per_iteration(self) -> int:
        """Number of trees that an iteration adds to the model."""
        return trees_per_iteration(self.parameters)


def trees_per_iteration(parameters: Mapping[str, Any]) -> int:
    """Two if an iteration fits two residuals, else one."""
    method = parameters.get("method")
    return 2 if isinstance(method, AGBM) else 1


_TREE = ("min_split_gain", "l2_regularization")

METHODS: Mapping[str, Method] = {
    "gbm": Method("GBM", {"method": GBM()}, _TREE, printed="gbm"),
    "gbm-search": Method("GBM, line search", {"method": GBM(line_search=True)}, _TREE, printed="gbm"),
    "agbm": Method("AGBM", {"method": AGBM()}, (*_TREE, "momentum"), printed="agbm"),
    "agbm-minus": Method(
        "AGBM, sign of the released code", {"method": AGBM(correction=-1.0)}, (*_TREE, "momentum"), printed="agbm"
    ),
    "vagbm": Method("VAGBM", {"method": VAGBM()}, _TREE),
    "default": Method("default of this library, one member", {"n_members": 1}, ()),
}


@dataclass(frozen=True)
class Conventions:
    """Choices for which the text is ambiguous, or the released code differs from it."""

    levels: int = 3
    """Levels of splits in a tree. The released code grows one more than its max_depth."""
    validation: Literal["held-out", "test", "none"] = "held-out"
    """The rows used for early stopping; "none" turns it off."""
    keep: Literal["best", "last"] = "best"
    """The model that early stopping keeps."""
    draws: int = 10
    """Draws of the random search per tuned parameter (the paper: "proportionally more" for more parameters)."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the combination."""
        if self.keep == "last" and self.validation == "held-out":
            raise ValueError(
                "keep='last' needs validation='test' (as in the released scripts) or validation='none', got "
                "validation='held-out': the last model would not have been fitted to all training rows."
            )
        for name in ("levels", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")

    @classmethod
    def released(cls) -> Conventions:
        """The conventions of the released code."""
        return cls(levels=4, validation="test", keep="last")


@dataclass(frozen=True)
class Outcome:
    """The result of one method on one split with a given number of trees."""

    trees: int
    train_loss: float
    test_loss: float
    iterations: int
    """Iterations of the model that was kept."""
    n_trees: int
    """Its trees with weight."""
    diverged: bool
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Parameters chosen by the search."""


def constants() -> str:
    """The constants of the protocol, as a string."""
    grids = {name: grid if isinstance(grid, list) else (grid.dist.name, grid.args) for name, grid in GRIDS.items()}
    return repr((N_SPLITS, TEST_SHARE, FOLDS, EARLY_STOPPING_ROUNDS, grids, dict(FIXED)))


def diverged(caught: Sequence[warnings.WarningMessage]) -> bool:
    """Whether a fit warned that its training loss became infinite or NaN, or rose to 100 times its lowest value."""
    return any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def split(data: DataSet, number: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of one of the five splits, which are the same for all methods."""
    splits = ShuffleSplit(N_SPLITS, test_size=TEST_SHARE, random_state=seed).split(np.zeros(len(data.y)))
    train, test = list(splits)[number]
    return train, test


def run(data: DataSet, number: int, method: Method, conventions: Conventions) -> list[Outcome]:
    """Search parameters and fit one method on one split; return one outcome per number of trees."""
    train, test = split(data, number, conventions.seed)
    chosen = search(data, train, method, conventions)
    return [final(data, train, test, method, trees, chosen[trees], conventions) for trees in TREES]


def estimator(data: DataSet, method: Method, trees: int, conventions: Conventions, **parameters: object) -> Any:
    """The estimator of a method with a given number of trees."""
    fixed = {**FIXED, "max_depth": conventions.levels} if method.tuned else {}
    return estimator_of(data, {**fixed, **method.parameters, **parameters}, trees, conventions.seed)


def estimator_of(data: DataSet, parameters: Mapping[str, Any], trees: int, seed: int) -> Any:
    """An estimator with the given parameters. It uses one thread, since the work is parallel over processes."""
    kind = AGBMClassifier if data.classifies else AGBMRegressor
    model = kind(max_iter=trees // trees_per_iteration(parameters), n_jobs=1, random_state=seed)
    return model.set_params(**{name: clone(value, safe=False) for name, value in parameters.items()})


def search(
    data: DataSet, train: NDArray[np.intp], method: Method, conventions: Conventions
) -> dict[int, dict[str, float]]:
    """The parameters with the lowest cross-validated loss, for each number of trees."""
    if not method.tuned:
        return {trees: {} for trees in TREES}
    grids, draws = {name: GRIDS[name] for name in method.tuned}, conventions.draws * len(method.tuned)
    candidates = list(ParameterSampler(grids, draws, random_state=conventions.seed))
    folds = list(check_cv(FOLDS, data.y[train], classifier=data.classifies).split(train, data.y[train]))
    losses = [
        np.mean(
            [_fold_losses(data, train[rows], train[left_out], method, chosen, conventions) for rows, left_out in folds],
            0,
        )
        for chosen in candidates
    ]
    return {trees: candidates[int(best)] for trees, best in zip(TREES, np.argmin(losses, axis=0), strict=True)}


def _fold_losses(
    data: DataSet,
    train: NDArray[np.intp],
    left_out: NDArray[np.intp],
    method: Method,
    chosen: Mapping[str, float],
    conventions: Conventions,
) -> list[float]:
    """The loss on the rows of a fold for each number of trees. A run that ends before is scored with all it has."""
    model = estimator(data, method, max(TREES), conventions, early_stopping=False, **_of_estimator(chosen))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(data.X[train], data.y[train], X_val=data.X[left_out], y_val=data.y[left_out])
    losses, last = model.history_["validation_loss"], len(model.history_["validation_loss"]) - 1
    if diverged(caught):
        last = int(np.nanargmin(model.history_["train_loss"]))
    return [float(losses[min(trees // method.trees_per_iteration, last)]) for trees in TREES]


def _of_estimator(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's parameters under their names in the estimator."""
    return {f"method__{name}" if name in OF_METHOD else name: value for name, value in parameters.items()}


def final(
    data: DataSet,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    method: Method,
    trees: int,
    chosen: Mapping[str, float],
    conventions: Conventions,
) -> Outcome:
    """Fit the chosen parameters to the training rows of the split, with early stopping, and compute the losses."""
    stopping: dict[str, Any] = {
        "early_stopping": conventions.validation != "none",
        "n_iter_no_change": EARLY_STOPPING_ROUNDS,
    }
    model = estimator(data, method, trees, conventions, **stopping, **_of_estimator(chosen))
    validation = {"X_val": data.X[test], "y_val": data.y[test]} if conventions.validation == "test" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(data.X[train], data.y[train], **validation)
        if conventions.keep == "last" and conventions.validation == "test":
            model.set_params(early_stopping=False, max_iter=max(model.n_iter_, 1)).fit(data.X[train], data.y[train])
    return Outcome(
        trees=trees,
        train_loss=staged_losses(model, data.X[train], data.y[train])[-1],
        test_loss=staged_losses(model, data.X[test], data.y[test])[-1],
        iterations=model.best_iteration_,
        n_trees=int(model.history_["trees"][model.best_iteration_]),
        diverged=diverged(caught),
        parameters={name: float(value) for name, value in chosen.items()},
    )


def staged_losses(model: BaseAGBM, X: Any, y: NDArray[Any]) -> list[float]:
    """The mean loss of f^1, f^2, ... on some rows, or that of the initial function if the model has no iterations."""
    X = X.toarray() if issparse(X) else X  # it is small, and would otherwise be converted again for every tree
    if isinstance(model, AGBMClassifier):
        staged, whole = model.staged_decision_function, model.decision_function
        loss: BuiltInLoss = LogLoss()
        labels = (y == model.classes_[1]).astype(np.float64)
    else:
        staged, whole = model.staged_predict, model.predict
        loss, labels = HalfSquaredError(), y
    scores = list(staged(X)) or [whole(X)]
    return [loss.total(labels, f, None) / len(labels) for f in scores]
