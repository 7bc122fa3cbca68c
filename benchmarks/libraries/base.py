"""What the wrappers of all libraries share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import packages_distributions, version
from typing import Any, ClassVar

import numpy as np
import pandas as pd

BINS = 255
RATE = 0.1
MIN_ROWS_IN_LEAF = 20
PATIENCE = 50
"""Iterations without a lower validation loss after which a fit stops."""

Array = np.ndarray[Any, Any]
Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """The size of trees that is the same for every library, to compare times."""

    threads: int
    logistic: bool = False
    depth: int = 6
    trees: int = 100
    n_classes: int = 2

    def objective(self, squared: str, two: str, more: str) -> str:
        """A library's name of the loss: squared error, or that of two or more classes."""
        return squared if not self.logistic else two if self.n_classes == 2 else more


@dataclass(frozen=True)
class Rows:
    """Features and target; classes are the integers from 0."""

    X: Any
    y: Array
    weight: Array | None = None
    offset: Array | None = None
    """Raw scores that the model is added to."""
    qid: Array | None = None
    """Queries of the documents of a ranking; those of a query are consecutive."""

    def __getitem__(self, chosen: Array) -> Rows:
        """The chosen rows, given by position."""
        X = self.X.iloc[chosen].reset_index(drop=True) if isinstance(self.X, pd.DataFrame) else self.X[chosen]
        more = (None if column is None else column[chosen] for column in (self.weight, self.offset, self.qid))
        return Rows(X, self.y[chosen], *more)

    @property
    def sizes(self) -> Array | None:
        """The number of documents of every query."""
        if self.qid is None:
            return None
        starts = np.flatnonzero(np.r_[True, self.qid[1:] != self.qid[:-1]])
        return np.asarray(np.diff(np.r_[starts, len(self.qid)]))

    @property
    def categorical(self) -> list[str]:
        """Names of the categorical columns."""
        return list(self.X.select_dtypes("category")) if isinstance(self.X, pd.DataFrame) else []


@dataclass(frozen=True)
class Effort:
    """How to train with defaults: a seed, threads, and a number of iterations, or None for the library's own."""

    iterations: int | None
    seed: int
    threads: int


@dataclass(frozen=True)
class Model:
    """A trained model."""

    fitted: Any
    predict: Callable[[Any], Array]
    """Predictions for adapted features: probabilities (row, class), values, expected counts or scores."""
    seconds: float
    """Time of the fit, including iterations that early stopping discards."""
    iterations: int
    """Of the model that predicts."""
    trees: int
    adapt: Callable[[Any], Any] = lambda X: X
    """Features in the form that the library takes."""

    def __call__(self, X: Any) -> Array:
        """Predictions for features as they are."""
        return np.asarray(self.predict(self.adapt(X)))


class Library:
    """One library. Creating an instance imports it."""

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    classes: ClassVar[dict[str, str]] = {}
    """Names of the estimators by kind of task: "classes", "values", "counts", "ranking"."""
    remark: ClassVar[str] = ""
    """How its trees differ from those of the others if times are compared."""
    same_trees: ClassVar[bool] = True
    """Whether it can grow trees of the same size, so that a target for the ratio makes sense."""
    takes_sparse: ClassVar[bool] = True

    def __init__(self) -> None:
        self.api: Any = import_module(self.module)

    @property
    def version(self) -> str:
        """Version of the installed package, whatever its distribution is called."""
        return version(packages_distributions().get(self.module.split(".")[0], [self.package])[0])

    def estimator(self, kind: str, **parameters: Any) -> Any:
        """The estimator for a kind of task."""
        return getattr(self.api, self.classes[kind])(**parameters)

    def train(
        self, kind: str, rows: Rows, held_out: Rows | None, effort: Effort, **parameters: Any
    ) -> Model:  # fmt: skip
        """Train a model with the defaults of the library, except for `parameters`.

        With validation rows, the fit stops after PATIENCE iterations without improvement, and the model that predicts
        is that of the best iteration.
        """
        raise NotImplementedError

    def expected_counts(self, model: Model, rows: Rows) -> Array:
        """Expected counts of rows with offsets, from a model of counts."""
        raise NotImplementedError

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        """Fit trees of a given size with the fastest regular interface, including the binning."""
        raise NotImplementedError

    def fit_on_dask(self, X: Any, y: Any, setting: Setting) -> Callable[[np.ndarray], np.ndarray]:
        """Fit trees of a given size on a Dask cluster; a function from rows to probabilities of the second class."""
        raise NotImplementedError

    def predict(self, model: Any, X: np.ndarray, threads: int) -> Any:
        """Predictions of a model for squared error that `fit` has returned."""
        return model.predict(X)

    def grower(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        """A function that grows one more tree per call; None if the library supports only complete fits."""
        return None

    def binner(self, X: np.ndarray, y: np.ndarray, setting: Setting) -> Work | None:
        """A function that only bins X; None if the library does this only within a fit."""
        return None


def timed(fit: Callable[..., object], *args: Any, **keywords: Any) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    fit(*args, **keywords)
    return time.perf_counter() - began


def given(**keywords: Any) -> dict[str, Any]:
    """The keywords that are not None."""
    return {name: value for name, value in keywords.items() if value is not None}


def listed(value: Any) -> list[Any] | None:
    """A list of one value, or None."""
    return None if value is None else [value]


def with_text(X: Any) -> Any:
    """Categories as text, missing ones as "missing"."""
    if not isinstance(X, pd.DataFrame):
        return X
    texts = {
        name: X[name].astype(object).where(X[name].notna(), "missing").astype(str).astype(object)
        for name in X.select_dtypes("category")
    }
    return X.assign(**texts)
