"""The libraries that speed.py compares: one small class each, with the same settings of trees.

Each class uses the fastest regular interface of its library, not a wrapper around it. Settings that a library does not
have are omitted; if this changes the trees, its remark says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import packages_distributions, version
from typing import Any, ClassVar

import numpy as np

BINS = 255
RATE = 0.1
MIN_ROWS_IN_LEAF = 20

Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """The settings that are the same for every library."""

    threads: int
    logistic: bool = False
    depth: int = 6
    trees: int = 100
    n_classes: int = 2

    def objective(self, squared: str, two: str, more: str) -> str:
        """A library's name of the loss: squared error, or that of two or more classes."""
        return squared if not self.logistic else two if self.n_classes == 2 else more


class Library:
    """One library. Creating an instance imports it."""

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    remark: ClassVar[str] = ""
    same_trees: ClassVar[bool] = True
    """Whether it can grow trees of the same size, so that a target for the ratio makes sense."""
    takes_sparse: ClassVar[bool] = True

    def __init__(self) -> None:
        self.api: Any = import_module(self.module)

    @property
    def version(self) -> str:
        """Version of the installed package, whatever its distribution is called."""
        return version(packages_distributions().get(self.module.split(".")[0], [self.package])[0])

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """Fit a model, including the binning."""
        raise NotImplementedError

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        """Predictions of a model for squared error."""
        return model.predict(X)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        """A function that grows one more tree per call; None if the library supports only complete fits."""
        return None

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        """A function that only bins X; None if the library does this only within a fit."""
        return None


class Ours(Library):
    """agbm: plain boosting, or another method of the estimators."""

    name = "agbm"
    module = "agbm"
    package = "agbm"

    def fit(self, X: Any, y: np.ndarray, setting: Setting, **parameters: Any) -> Any:
        """See Library; `parameters` replace those of plain boosting."""
        estimator = self.api.AGBMClassifier if setting.logistic else self.api.AGBMRegressor
        parameters = {
            "method": "gbm", "second_order": True, "learning_rate": RATE, "max_iter": setting.trees,
            "max_depth": setting.depth, "min_samples_leaf": MIN_ROWS_IN_LEAF, "max_bins": BINS, "early_stopping": False,
            "n_jobs": setting.threads, "l2_regularization": 0.0,
        } | parameters  # fmt: skip
        return estimator(**parameters).fit(X, y)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting, kind: str = "gbm") -> Work:
        """See Library. `kind` is "gbm", or accelerated boosting with a "shared" tree or two "separate" trees."""
        from agbm import _native
        from agbm._core.boosting import agbm, gbm
        from agbm._core.objective import LocalObjective, of_each_output
        from agbm._core.schedules import PaperSchedule
        from agbm._tree import TreeLearner
        from agbm.losses import HalfSquaredError, LogLoss

        loss = (LogLoss() if setting.logistic else HalfSquaredError()).with_threads(setting.threads)
        start = np.full((1, len(y)), y.mean())
        labels = y[np.newaxis].astype(np.float64)
        problem = LocalObjective(of_each_output(loss), labels, len(y), start, None, setting.logistic, setting.threads)
        _native.begin_run()  # as a fit does
        learner = TreeLearner(
            max_depth=setting.depth, min_samples_leaf=MIN_ROWS_IN_LEAF, max_bins=BINS, n_threads=setting.threads,
            shared_structure=kind == "shared",
        )  # fmt: skip
        fitter = learner.bind(X, len(y), None, start)
        if kind == "gbm":
            steps = gbm(problem, fitter, eta=RATE, max_iter=10**6)
        else:
            steps = agbm(problem, fitter, schedule=PaperSchedule(RATE, 0.02), correction=0.5, length=lambda gamma: 1e6)
        return lambda: next(steps)

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        from agbm._tree.bins import Bins

        return lambda: Bins.from_data(X, BINS, n_threads=setting.threads).encode(X, setting.threads)


class LightGBM(Library):
    """LightGBM's Dataset and Booster."""

    name = "LightGBM"
    module = "lightgbm"
    package = "lightgbm"
    quantised: ClassVar[bool] = False

    def _parameters(self, setting: Setting) -> dict[str, Any]:
        return {
            "objective": setting.objective("regression", "binary", "multiclass"), "max_depth": setting.depth,
            "num_class": setting.n_classes if setting.n_classes > 2 else 1,
            "num_leaves": 2**setting.depth, "max_bin": BINS, "min_data_in_bin": 1, "learning_rate": RATE,
            "min_data_in_leaf": MIN_ROWS_IN_LEAF, "num_threads": setting.threads, "verbose": -1,
            "use_quantized_grad": self.quantised,
        }  # fmt: skip

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """See Library."""
        parameters = self._parameters(setting)
        return self.api.train(parameters, self.api.Dataset(X, y, params=parameters), setting.trees)

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        """See Library."""
        return model.predict(X, num_threads=threads)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        parameters = self._parameters(setting)
        booster = self.api.Booster(parameters, self.api.Dataset(X, y, params=parameters).construct())
        return lambda: booster.update()

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        """See Library."""
        return lambda: self.api.Dataset(X, y, params=self._parameters(setting)).construct()


class QuantisedLightGBM(LightGBM):
    """LightGBM with quantised gradients."""

    name = "LightGBM quantised"
    quantised = True

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> None:
        """See Library. None, since its bins are the same as LightGBM's."""


class XGBoost(Library):
    """XGBoost's `hist` on a QuantileDMatrix."""

    name = "XGBoost"
    module = "xgboost"
    package = "xgboost-cpu"
    remark = "the minimum leaf size is a sum of hessians, not a number of rows"

    def _parameters(self, setting: Setting) -> dict[str, Any]:
        return {
            "objective": setting.objective("reg:squarederror", "binary:logistic", "multi:softprob"),
            "tree_method": "hist",
            **({"num_class": setting.n_classes} if setting.n_classes > 2 else {}),
            "max_depth": setting.depth, "max_bin": BINS, "learning_rate": RATE, "reg_lambda": 0,
            "nthread": setting.threads,
            # A row's hessian is 1 for squared error, at most a quarter for the logistic loss.
            "min_child_weight": MIN_ROWS_IN_LEAF * (0.25 if setting.logistic else 1),
        }  # fmt: skip

    def _matrix(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        return self.api.QuantileDMatrix(X, y, max_bin=BINS, nthread=setting.threads)

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """See Library."""
        return self.api.train(self._parameters(setting), self._matrix(X, y, setting), setting.trees)

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        """See Library."""
        return model.inplace_predict(X)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        matrix = self._matrix(X, y, setting)
        booster = self.api.Booster(self._parameters(setting), [matrix])
        return lambda: booster.update(matrix, booster.num_boosted_rounds())

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        return lambda: self._matrix(X, y, setting)


class HistGradientBoosting(Library):
    """scikit-learn's HistGradientBoosting; the caller limits the threads of OpenMP."""

    name = "HistGradientBoosting"
    module = "sklearn.ensemble"
    package = "scikit-learn"
    takes_sparse = False

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """See Library."""
        kind = "Classifier" if setting.logistic else "Regressor"
        return getattr(self.api, f"HistGradientBoosting{kind}")(
            learning_rate=RATE, max_iter=setting.trees, max_depth=setting.depth, max_leaf_nodes=2**setting.depth,
            min_samples_leaf=MIN_ROWS_IN_LEAF, max_bins=BINS, early_stopping=False,
        ).fit(X, y)  # fmt: skip

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

        # It bins float64 only, so its fit also converts X first.
        return lambda: _BinMapper(n_bins=BINS + 1, random_state=0, n_threads=setting.threads).fit_transform(
            X.astype(np.float64, copy=False)
        )


class CatBoost(Library):
    """CatBoost without the features that make it slower: random scores, bootstrap, ordered boosting."""

    name = "CatBoost"
    module = "catboost"
    package = "catboost"
    remark = "oblivious trees with one split per level; no minimum number of rows per leaf"

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """See Library."""
        return self.api.CatBoost({
            "loss_function": "Logloss" if setting.logistic else "RMSE", "iterations": setting.trees,
            "depth": setting.depth, "learning_rate": RATE, "border_count": BINS - 1, "l2_leaf_reg": 0,
            "bootstrap_type": "No", "random_strength": 0, "boosting_type": "Plain", "leaf_estimation_iterations": 1,
            "score_function": "L2", "metric_period": setting.trees, "thread_count": setting.threads,
            "allow_writing_files": False, "logging_level": "Silent",
        }).fit(self.api.Pool(X, y))  # fmt: skip

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        """See Library."""
        return model.predict(X, thread_count=threads)

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work:
        """See Library."""
        return lambda: self.api.Pool(X, y, thread_count=setting.threads).quantize(border_count=BINS - 1)


class Perpetual(Library):
    """Perpetual, which chooses the size and number of its trees itself, within a budget.

    Without a memory limit it fills gigabytes before the first tree, which takes far longer than growing the trees.
    """

    name = "Perpetual"
    module = "perpetual"
    package = "perpetual"
    remark = (
        "its own trees, without a depth limit; controlled by a budget (1, a learning rate of 0.1) and limits on "
        "iterations and memory (1 GB)"
    )
    same_trees = False
    takes_sparse = False

    def __init__(self) -> None:
        logging.getLogger("perpetual").setLevel(logging.ERROR)  # it warns if it reaches the limit on iterations
        super().__init__()

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """See Library."""
        return self.api.PerpetualBooster(
            objective="LogLoss" if setting.logistic else "SquaredLoss", budget=1.0, iteration_limit=setting.trees,
            max_bin=BINS, num_threads=setting.threads, memory_limit=1.0,
        ).fit(X, y)  # fmt: skip


PEERS: tuple[type[Library], ...] = (
    LightGBM, QuantisedLightGBM, XGBoost, HistGradientBoosting, CatBoost, Perpetual,
)  # fmt: skip


def installed_peers() -> list[Library]:
    """The peers that can be imported; prints the names of the others."""
    peers = []
    for kind in PEERS:
        try:
            peers.append(kind())
        except ImportError:
            print(f"{kind.name} is not installed and is skipped (pip install {kind.package})")
    return peers


def named(name: str) -> Library:
    """The library with this name, which may be agbm."""
    kinds: tuple[type[Library], ...] = (Ours, *PEERS)
    return next(kind for kind in kinds if kind.name == name)()
