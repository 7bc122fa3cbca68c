"""Losses against the number of trees: every method with a range of steps and momenta, on the paper's splits.

The paper's figures show some of these runs. The stored curves are thinned; their summaries come from all iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...._base.types import AnyArray
from ...._core.methods import Method
from ....methods import AGBM, GBM, VAGBM
from ..data_sets import DataSet
from ..printed import SETS
from ..printed import TREES as TABLE_TREES
from . import units
from .protocol import FIXED, N_SPLITS, diverged, estimator_of, split

STEPS = (1.0, 0.3, 0.1, 0.03, 0.01)
MOMENTA = (1.0, 0.3, 0.1, 0.03, 0.01)
"""From far above what the theorem admits to the smallest that the text may mean by "between (0, 1)"."""
LEVELS = 3
TREES: Mapping[str, int] = {name: 600 if name == "housing" else 200 for name in SETS}
"""Long enough on housing to see which methods diverge."""
STUMPS = "a1a"
"""The set on which the paper repeats its figure with trees of one level."""
MOST_POINTS = 60

TITLES = {
    "gbm": "GBM",
    "gbm-search": "GBM, line search",
    "vagbm": "VAGBM",
    "agbm": "AGBM",
    "agbm-minus": "AGBM, sign of the released code",
}
SIGNS = {"agbm": 1.0, "agbm-minus": -1.0}


class Line(NamedTuple):
    """A method with its settings on one data set."""

    data: str
    levels: int
    method: str
    """A key of TITLES."""
    step: float | None
    """eta; None for the line search, which chooses it."""
    gamma: float | None = None

    @property
    def title(self) -> str:
        """The method and its momentum."""
        return TITLES[self.method] + ("" if self.gamma is None else f", γ = {self.gamma:g}")

    def parameters(self) -> dict[str, Any]:
        """The parameters of the estimator."""
        asked = {"method": self._method(), "max_depth": self.levels, "early_stopping": False}
        return {**FIXED, **asked} | ({} if self.step is None else {"learning_rate": self.step})

    def _method(self) -> Method:
        if self.gamma is not None:
            return AGBM(momentum=self.gamma, correction=SIGNS[self.method])
        return VAGBM() if self.method == "vagbm" else GBM(line_search=self.step is None)


def lines() -> list[Line]:
    """All lines that are computed."""
    of_sets = [(name, LEVELS) for name in SETS] + [(STUMPS, 1)]
    found = []
    for data, levels in of_sets:
        found.append(Line(data, levels, "gbm-search", None))
        for step in STEPS:
            found += [Line(data, levels, method, step) for method in ("gbm", "vagbm")]
            found += [Line(data, levels, method, step, g) for method in SIGNS for g in MOMENTA]
    return found


@dataclass(frozen=True)
class Curve:
    """Mean losses of a line over the splits, until the first split diverged."""

    line: Line
    trees: list[int]
    train: list[float]
    test: list[float]
    diverged: int
    """Number of splits that diverged."""
    lowest_test: float
    """The smallest mean test loss."""
    trees_at_lowest: int
    last_train: float


def run(
    data_sets: Mapping[str, DataSet], seed: int, folder: Path, n_jobs: int, progress: units.Progress
) -> list[Curve]:
    """Compute all lines of these data sets."""
    parts = [unit(line, data_sets[line.data], seed) for line in lines() if line.data in data_sets]
    return [from_stored(result) for result in units.run(parts, folder, n_jobs, progress)]


def unit(line: Line, data: DataSet, seed: int) -> units.Unit:
    """The part of the experiment that computes a line."""
    decides = [line, data.checksum, seed, repr(dict(FIXED)), TREES[line.data], MOST_POINTS]
    return units.Unit(f"curve-{line.data}", decides, partial(as_stored, line, data, seed))


def as_stored(line: Line, data: DataSet, seed: int) -> dict[str, Any]:
    """Compute a line, as JSON can write it."""
    return to_stored(curve(line, data, seed))


def to_stored(curve: Curve) -> dict[str, Any]:
    """A curve as JSON can write it."""
    return asdict(curve) | {"line": curve.line._asdict()}


def from_stored(stored: Mapping[str, Any]) -> Curve:
    """The curve that was stored."""
    return Curve(**{**stored, "line": Line(**stored["line"])})


def points(curve: Curve) -> list[dict[str, Any]]:
    """One flat record per point, for CSV."""
    losses = zip(curve.trees, curve.train, curve.test, strict=True)
    return [{**curve.line._asdict(), "trees": n, "train": train, "test": test} for n, train, test in losses]


def curve(line: Line, data: DataSet, seed: int) -> Curve:
    """Compute a line over all splits."""
    runs = [_run(line, data, number, seed) for number in range(N_SPLITS)]
    length = min(len(run["trees"]) for run in runs)
    mean = {name: np.mean([run[name][:length] for run in runs], axis=0) for name in ("train_loss", "validation_loss")}
    train, test, trees = mean["train_loss"], mean["validation_loss"], runs[0]["trees"][:length]
    best, kept = int(np.argmin(test)), _thinned(trees)
    return Curve(
        line,
        trees=[int(n) for n in trees[kept]],
        train=[_rounded(loss) for loss in train[kept]],
        test=[_rounded(loss) for loss in test[kept]],
        diverged=sum(run["diverged"] for run in runs),
        lowest_test=_rounded(test[best]),
        trees_at_lowest=int(trees[best]),
        last_train=_rounded(train[-1]),
    )


def _thinned(trees: AnyArray) -> list[int]:
    """Iterations to store: dense at the beginning, and those with the numbers of trees of the paper's table."""
    last = len(trees) - 1
    spaced = np.rint(np.geomspace(1, max(last, 1), MOST_POINTS)).astype(int)
    of_table = np.searchsorted(trees, TABLE_TREES, side="right") - 1
    return sorted({0, *np.minimum(spaced, last).tolist(), *of_table.tolist()})


def _rounded(loss: float) -> float:
    return float(f"{loss:.6g}")


def _run(line: Line, data: DataSet, number: int, seed: int) -> dict[str, Any]:
    train, test = split(data, number, seed)
    model = estimator_of(data, line.parameters(), TREES[data.name], seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(data.X[train], data.y[train], X_val=data.X[test], y_val=data.y[test])
    finite = np.isfinite(model.history_["train_loss"]) & np.isfinite(model.history_["validation_loss"])
    end = len(finite) if finite.all() else int(np.argmin(finite))
    history = {name: values[:end] for name, values in model.history_.items()}
    return {**history, "diverged": diverged(caught)}
