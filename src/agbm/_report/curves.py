"""Data for the charts of a report, thinned to keep the file small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.losses import Array
from .._study.evaluation import Tried

# A chart is about 1,000 pixels wide. Longer runs are divided into this many parts, each of which keeps its lowest and
# highest points.
PARTS = 250
DIGITS = 6


def curve(tried: Tried) -> dict[str, Any]:
    """Return the losses of a run by iteration, trees and seconds; unknown columns are omitted."""
    columns = {name: _numbers(tried.curve[name]) for name in _COLUMNS if name in tried.curve}
    columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    n = max((len(values) for values in columns.values()), default=0)
    columns = {name: values for name, values in columns.items() if len(values) == n}
    if "iteration" not in columns:
        first = 0 if n and columns.get("trees", np.ones(1))[0] == 0 else 1  # 0 if the first point has no trees
        columns["iteration"] = np.arange(first, first + n, dtype=np.float64)
    best = min(max(tried.best, 0), n - 1)
    kept = thinned([columns[name] for name in ("train_loss", "validation_loss") if name in columns], {best})
    return {
        "name": tried.name,
        "best": int(np.searchsorted(kept, best)),
        "points": n,
        **{name: numbers(values[kept]) for name, values in columns.items()},
    }


_COLUMNS = ("iteration", "trees", "seconds", "train_loss", "validation_loss")


def has_curve(tried: Tried) -> bool:
    """Return whether there is a loss to plot."""
    return any(np.isfinite(_numbers(tried.curve.get(name, ()))).any() for name in ("train_loss", "validation_loss"))


def tracks(history: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the quantities of the theory by iteration; columns that are all NaN or zero are omitted."""
    columns = {name: _numbers(history[name]) for name in ("cosine_residual", "cosine_corrected", "momentum", "theta")}
    columns = {name: values for name, values in columns.items() if np.nan_to_num(values).any()}
    restarts = np.flatnonzero(np.asarray(history["restart"], dtype=bool))
    iterations = _numbers(history["iteration"])
    kept = thinned(list(columns.values()), set(restarts.tolist()))
    return {
        "iteration": numbers(iterations[kept]),
        "restarts": numbers(iterations[restarts]),
        "columns": {name: numbers(values[kept]) for name, values in columns.items()},
    }


def thinned(columns: Sequence[Array], always: set[int]) -> NDArray[np.intp]:
    """Return the indices of the points to plot.

    A long run keeps its ends, the points in `always`, and the lowest and highest point of each column in each part.
    """
    n = len(columns[0]) if columns else 0
    if n <= 2 * PARTS:
        return np.arange(n)
    kept = {0, n - 1, *always}
    for part in np.array_split(np.arange(n), PARTS):
        for column in columns:
            finite = part[np.isfinite(column[part])]
            if len(finite):
                kept |= {int(finite[column[finite].argmin()]), int(finite[column[finite].argmax()])}
    return np.array(sorted(kept))


def numbers(values: Iterable[float]) -> list[float | None]:
    """Round values for JSON; NaN and infinity, which JSON does not have, become None."""
    return [_rounded(value) if math.isfinite(value) else None for value in values]


def _rounded(value: float) -> float:
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _numbers(values: Iterable[float]) -> Array:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
