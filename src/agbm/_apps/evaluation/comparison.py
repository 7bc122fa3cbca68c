"""A comparison of models of this library and other boosting libraries on the same rows: `agbm compare`.

All contenders see the same training and validation rows and are evaluated on the same test rows, with the same number
of threads, patience of early stopping and maximum number of iterations; all other settings are the defaults of each
library. The default of this library and five averaged models of LightGBM hold out rows themselves, for every model
others; all other contenders stop by the validation rows. They run one after the other in this process. The time is
that of the whole fit, without importing the library. Other libraries receive categories that are already encoded as
numbers, which is not counted; our time includes the encoding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.threads import resolve
from ..._base.types import Table
from ..._estimators.base import BaseAGBM
from ..._fit.auto import ITERATIONS
from ..._model.settings import CategoricalFeatures
from .contenders import DEFAULT, FIVE, ONE_MODEL, OURS, PACKAGES, PAPER, installed_peers
from .metrics import Split, Tried
from .peers import FITS, Effort, Fitted, PeerRows, matrices
from .tasks import Classification, Ranking, Regression, Survival, Task, Whole

PATIENCE = 20

SHARED = {
    "method", "max_iter", "n_iter_no_change", "early_stopping", "random_state", "n_jobs", "loss", "callbacks",
}  # fmt: skip
"""Parameters that must be the same for all contenders, or define the contenders."""


def compare(
    split: Split,
    whole: Whole,
    task: Task,
    contenders: Sequence[str],
    *,
    seed: int,
    threads: int | None,
    max_iter: int = ITERATIONS,
    patience: int = PATIENCE,
    parameters: Mapping[str, Any] | None = None,
) -> Iterator[Tried]:
    """Train and evaluate contenders in the given order: models of this library (`OURS`), `FIVE` or `installed_peers()`.

    `whole` has the training and validation rows of the split, for contenders that hold out rows themselves. If a
    contender fails, its record contains the error as `failure`, and the others still run. `parameters` are passed
    to the models of this library; `categorical_features` among them applies to all contenders. The losses of the
    curves are log losses, mean squared errors (not half of them, as in `history_`), 1 - NDCG@10, or Cox's loss per
    row. Curves of this library and of HistGradientBoosting start with the initial prediction.
    """
    parameters = dict(parameters or {})
    _check(split, task, contenders, parameters)
    effort = Effort(max_iter, patience, seed, resolve(threads))

    categorical = parameters.get("categorical_features", "from_dtype")

    @cache
    def numbers() -> PeerRows:
        return _numbers(split, task, categorical)

    def fit(name: str) -> Fitted:
        if name in OURS:
            return _fit_ours(split, whole, task, name, effort, parameters)
        if name == FIVE:
            return _fit_five(split.X_test, whole, task, effort, categorical)
        return FITS[name](numbers(), effort)

    def run(name: str) -> Tried:
        try:
            return _tried(name, fit(name), split, task)
        except Exception as error:  # a library may raise anything, and the others should still run
            return Tried(name, failure=_in_one_line(error))

    return map(run, contenders)


def _check(split: Split, task: Task, contenders: Sequence[str], parameters: Mapping[str, Any]) -> None:
    """Raise errors that concern all contenders, before any of them runs."""
    known = [*OURS, FIVE, *PACKAGES]
    if not contenders:
        raise ValueError(f"contenders=[]: name at least one of {known}.")
    unknown = [name for name in contenders if name not in known]
    if unknown:
        raise ValueError(f"contenders={list(contenders)}: {unknown} are unknown; known are {known}.")
    needed = dict.fromkeys("LightGBM" if name == FIVE else name for name in contenders)
    absent = [name for name in needed if name in PACKAGES and name not in installed_peers()]
    if absent:
        packages = " ".join(PACKAGES[name][1] for name in absent)
        raise ImportError(f"contenders={list(contenders)}: {absent} are not installed: pip install {packages}")
    shared = sorted(SHARED & set(parameters))
    if shared:
        raise ValueError(f"parameters has {shared}, which are the same for all contenders; remove them.")
    task.check(split)


def _numbers(split: Split, task: Task, categorical_features: CategoricalFeatures) -> PeerRows:
    if isinstance(task, Ranking):
        return _rankings(split, categorical_features)
    if isinstance(task, Survival):
        return _lifetimes(split, categorical_features)
    (X, X_val, X_test), mask = matrices([split.X, split.X_val, split.X_test], categorical_features)
    (y, n_classes), (y_val, _) = _coded(task, split.y), _coded(task, split.y_val)
    return PeerRows(X, y, X_val, y_val, X_test, mask, n_classes)


def _coded(task: Task, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Numbers, or classes as 0, 1, ...; and the number of classes."""
    if isinstance(task, Classification):
        return np.searchsorted(task.classes, y), len(task.classes)
    return np.asarray(y, dtype=np.float64), 0


def _rankings(split: Split, categorical_features: CategoricalFeatures) -> PeerRows:
    """The rows of a ranking, in the order of their queries, as the other libraries need them.

    Validation queries without a relevant document are left out: the other libraries count them as perfect.
    """
    (X, X_val, X_test), mask = matrices([split.X, split.X_val, split.X_test], categorical_features)
    relevant = np.isin(split.y_val[:, 1], split.y_val[split.y_val[:, 0] > 0.0, 1])
    order, order_val = np.argsort(split.y[:, 1], kind="stable"), np.argsort(split.y_val[:, 1], kind="stable")
    order_val = order_val[relevant[order_val]]
    sizes, sizes_val = (np.unique(y, return_counts=True)[1] for y in (split.y[:, 1], split.y_val[relevant, 1]))
    relevance, relevance_val = split.y[order, 0], split.y_val[order_val, 0]
    return PeerRows(X[order], relevance, X_val[order_val], relevance_val, X_test, mask, 0, sizes, sizes_val)


def _lifetimes(split: Split, categorical_features: CategoricalFeatures) -> PeerRows:
    """The rows of survival analysis, with censored times as negative numbers, as the other libraries need them."""
    (X, X_val, X_test), mask = matrices([split.X, split.X_val, split.X_test], categorical_features)
    y, y_val = (
        np.where(of[:, 1] > 0.0, 1.0, -1.0) * np.maximum(of[:, 0], np.finfo(np.float32).tiny)  # 0 has no sign
        for of in (split.y, split.y_val)
    )
    return PeerRows(X, y, X_val, y_val, X_test, mask, 0, censored=True)


def _fit_ours(
    split: Split, whole: Whole, task: Task, name: str, effort: Effort, parameters: Mapping[str, Any]
) -> Fitted:
    changed: dict[str, Any] = {"max_iter": effort.max_iter, "n_iter_no_change": effort.patience, **parameters}
    if name == ONE_MODEL:
        changed |= {"n_members": 1}
    elif name != DEFAULT:
        method = next(method for method, title in PAPER.items() if title == name)
        changed |= {"method": method, "method__second_order": True}
    model = task.estimator(random_state=effort.seed, n_jobs=effort.threads).set_params(**changed)
    began = time.perf_counter()
    if name == DEFAULT:
        task.fit(model, whole.X, whole.y, **whole.unit)
    else:
        task.fit_with(model, split)
    seconds = time.perf_counter() - began
    return Fitted(
        task.predict(model, split.X_test),
        seconds,
        model.best_iteration_,
        _curve(model, task.loss_scale, seconds),
        changed,
        model,
    )


def _fit_five(
    X_test: Table, whole: Whole, task: Task, effort: Effort, categorical_features: CategoricalFeatures
) -> Fitted:
    """Five models of LightGBM, each of which stops by another fifth of the rows, and the mean of their predictions."""
    if not isinstance(task, Classification | Regression):
        raise ValueError(f"five models are averaged in classification and regression only, not in {task.name}")
    (X, X_test), mask = matrices([whole.X, X_test], categorical_features)
    y, n_classes = _coded(task, whole.y)
    fitted = []
    for train, held_out in task.folds(whole.y, 5, effort.seed, whole.keyed):
        rows = PeerRows(X[train], y[train], X[held_out], y[held_out], X_test, mask, n_classes)
        fitted.append(FITS["LightGBM"](rows, effort))
    seconds = sum(one.seconds for one in fitted)
    curve = {
        "trees": [sum(one.curve["trees"][one.best] for one in fitted)],
        "seconds": [seconds],
        "validation_loss": [float(np.mean([one.curve["validation_loss"][one.best] for one in fitted]))],
    }
    predicted = np.mean([one.predicted for one in fitted], axis=0)
    return Fitted(predicted, seconds, 0, curve, fitted[0].parameters)


def _curve(model: BaseAGBM, scale: float, seconds: float) -> dict[str, list[float]]:
    """The columns of `history_`, with the seconds since the start of the fit."""
    history = model.history_
    columns: dict[str, Array] = {
        "trees": history["trees"],
        "seconds": history["seconds"] + (seconds - history["seconds"][-1]),
        "train_loss": scale * history["train_loss"],
        "validation_loss": scale * history["validation_loss"],
    }
    return {name: column.tolist() for name, column in columns.items()}


def _tried(name: str, fitted: Fitted, split: Split, task: Task) -> Tried:
    metrics, losses = task.evaluate(split.y_test, fitted.predicted)
    return Tried(
        name,
        fitted.seconds,
        int(fitted.curve["trees"][fitted.best]),
        fitted.best,
        fitted.curve,
        metrics,
        fitted.parameters,
        losses=losses,
        predicted=fitted.predicted,
        model=fitted.model,
    )


def _in_one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
