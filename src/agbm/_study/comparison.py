"""All methods of this library, and other boosting libraries, on the same rows: `agbm compare`.

Each contender is trained on the same rows with the same number of threads and stops early by the same validation rows,
with the same patience and at most as many iterations; everything else is the default of its library. All are judged by
the same test rows. They run one after the other in this process. Seconds are of a whole fit: a library is imported
before, and other libraries than this one get their categories as numbers, which is not counted, while ours looks them
up within its own seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _threads
from .._core.losses import Array
from .._estimators import AUTO_ITERATIONS, AGBMClassifier, AGBMRegressor
from .evaluation import Split, Tried, check_labels, judged
from .peers import PEERS, Effort, Fitted, Numbers, installed_peers, matrices

METHODS = ("fading", "gbm", "vagbm", "agbm", "agbmr")
PATIENCE = 20

# Parameters that are the same for all contenders, or say what is compared.
_SHARED = {
    "method", "max_iter", "n_iter_no_change", "early_stopping", "random_state", "n_jobs", "loss", "callbacks",
}  # fmt: skip


def compare(
    split: Split,
    classifies: bool,
    contenders: Sequence[str],
    *,
    seed: int,
    threads: int | None,
    max_iter: int = AUTO_ITERATIONS,
    patience: int = PATIENCE,
    parameters: Mapping[str, Any] | None = None,
) -> Iterator[Tried]:
    """Train and judge contenders, in the order given: methods of this library (`METHODS`) or `installed_peers()`.

    What a contender refuses, or stumbles over, is the `failure` of its record; the others go on. `parameters` are those
    of our methods; `categorical_features` among them is for all. The losses of curves are log losses, and mean squared
    errors for values (not half of them, as in `history_`); curves of ours and of HistGradientBoosting begin with the
    start function.
    """
    parameters = dict(parameters or {})
    _check(split, classifies, contenders, parameters)
    effort = Effort(max_iter, patience, seed, _threads.resolve(threads))
    classes = np.unique(split.y) if classifies else None

    @cache
    def numbers() -> Numbers:
        return _numbers(split, classes, parameters.get("categorical_features", "from_dtype"))

    def run(name: str) -> Tried:
        try:
            if name in METHODS:
                return _tried(name, _fit_ours(split, classifies, name, effort, parameters), split, classes)
            return _tried(name, PEERS[name].fit(numbers(), effort), split, classes)
        except Exception as error:  # whatever a library may raise; the others are to run
            return Tried(name, failure=_in_one_line(error))

    return map(run, contenders)


def _check(split: Split, classifies: bool, contenders: Sequence[str], parameters: Mapping[str, Any]) -> None:
    """What would be wrong for all contenders, said once."""
    known = [*METHODS, *PEERS]
    if not contenders:
        raise ValueError(f"contenders=[]: name at least one of {known}.")
    unknown = [name for name in contenders if name not in known]
    if unknown:
        raise ValueError(f"contenders={list(contenders)}: {unknown} are none of {known}.")
    absent = [name for name in contenders if name in PEERS and name not in installed_peers()]
    if absent:
        packages = " ".join(PEERS[name].package for name in absent)
        raise ImportError(f"contenders={list(contenders)}: {absent} are not installed: pip install {packages}")
    shared = sorted(_SHARED & set(parameters))
    if shared:
        raise ValueError(f"parameters has {shared}, which are the same for all contenders; leave them out.")
    if classifies:
        check_labels(split)


def _numbers(split: Split, classes: NDArray[Any] | None, categorical_features: Any) -> Numbers:
    (X, X_val, X_test), mask = matrices([split.X, split.X_val, split.X_test], categorical_features)
    labels = (split.y, split.y_val)
    y, y_val = (np.asarray(y, dtype=np.float64) if classes is None else np.searchsorted(classes, y) for y in labels)
    return Numbers(X, y, X_val, y_val, X_test, mask, 0 if classes is None else len(classes))


def _fit_ours(split: Split, classifies: bool, method: str, effort: Effort, parameters: Mapping[str, Any]) -> Fitted:
    changed = {"max_iter": effort.max_iter, "n_iter_no_change": effort.patience, **parameters}
    if method != "fading":
        changed["method"] = method
    kind = AGBMClassifier if classifies else AGBMRegressor
    model = kind(**changed, random_state=effort.seed, n_jobs=effort.threads)
    began = time.perf_counter()
    model.fit(split.X, split.y, X_val=split.X_val, y_val=split.y_val)
    seconds = time.perf_counter() - began
    return Fitted(
        model.predict_proba(split.X_test) if isinstance(model, AGBMClassifier) else model.predict(split.X_test),
        seconds,
        model.best_iteration_,
        _curve(model, seconds),
        changed,
        model,
    )


def _curve(model: AGBMClassifier | AGBMRegressor, seconds: float) -> dict[str, list[float]]:
    """What is known of every iteration, in seconds since the fit began."""
    history = model.history_
    scale = 1.0 if isinstance(model, AGBMClassifier) else 2.0  # ours is half the square
    columns: dict[str, Array] = {
        "trees": history["trees"],
        "seconds": history["seconds"] + (seconds - history["seconds"][-1]),
        "train_loss": scale * history["train_loss"],
        "validation_loss": scale * history["validation_loss"],
    }
    return {name: column.tolist() for name, column in columns.items()}


def _tried(name: str, fitted: Fitted, split: Split, classes: NDArray[Any] | None) -> Tried:
    metrics, losses = judged(split.y_test, fitted.predicted, classes)
    return Tried(
        name,
        fitted.seconds,
        int(fitted.curve["trees"][fitted.best]),
        fitted.best,
        fitted.curve,
        metrics,
        fitted.parameters,
        losses=losses,
        model=fitted.model,
    )


def _in_one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
