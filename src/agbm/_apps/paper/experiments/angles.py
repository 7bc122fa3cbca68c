"""The cosine between a residual and its tree, by depth of the trees: how weak the weak learners are.

The paper's Theta is the smallest cosine over all residuals. For trees as they are grown, the residuals of a run give an
upper bound, and so does pure noise, which every residual approaches when only noise is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...._base.sums import Array
from ...._core import boosting
from ...._core.boosting import Step
from ...._core.learners import Fitter
from ...._core.objective import LocalObjective
from ...._core.schedules import PaperSchedule
from ...._losses.base import BuiltInLoss
from ...._tree import TreeLearner
from ....losses import HalfSquaredError, LogLoss
from ..data_sets import DataSet
from . import units

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8)
ITERATIONS = 100
ETA = 0.1
GAMMA = 0.1
N_NOISES = 10


class Sample(NamedTuple):
    """Rows of a data set, and the share of the columns that each tree may use."""

    data: str
    n_rows: int | None
    """None for all rows."""
    columns: float = 1.0


SAMPLES = (
    Sample("housing", None),
    Sample("housing", None, columns=0.3),
    Sample("a1a", None),
    Sample("a1a", None, columns=0.3),
    Sample("a9a", 500),
    Sample("a9a", 4000),
    Sample("a9a", None),
)
SETS = tuple(dict.fromkeys(sample.data for sample in SAMPLES))


@dataclass(frozen=True)
class Angles:
    """Cosines for trees of one depth."""

    sample: Sample
    n_rows: int
    depth: int
    noise: float
    """Mean over random residuals without structure."""
    smallest_gbm: float
    median_gbm: float
    smallest_agbm: float
    """Of r and c along a run of AGBM."""
    median_agbm: float


def run(data_sets: Mapping[str, DataSet], folder: Path, n_jobs: int, progress: units.Progress) -> list[Angles]:
    """Compute all cosines."""
    parts = [
        unit(sample, depth, data_sets[sample.data], seed=0)
        for sample in SAMPLES
        if sample.data in data_sets
        for depth in DEPTHS
    ]
    return [from_stored(found) for found in units.run(parts, folder, n_jobs, progress)]


def unit(sample: Sample, depth: int, data: DataSet, seed: int) -> units.Unit:
    """The part of the experiment with one sample and depth."""
    decides = [sample, depth, data.checksum, seed, ITERATIONS, ETA, GAMMA, N_NOISES]
    return units.Unit(f"angles-{sample.data}-{depth}", decides, partial(as_stored, sample, depth, data, seed))


def as_stored(sample: Sample, depth: int, data: DataSet, seed: int) -> dict[str, Any]:
    """Measure the cosines of a sample, as JSON can write them."""
    return to_stored(measured(sample, depth, data, seed))


def to_stored(angles: Angles) -> dict[str, Any]:
    """Cosines as JSON can write them."""
    return asdict(angles) | {"sample": angles.sample._asdict()}


def from_stored(stored: Mapping[str, Any]) -> Angles:
    """The cosines that were stored."""
    return Angles(**{**stored, "sample": Sample(**stored["sample"])})


def measured(sample: Sample, depth: int, data: DataSet, seed: int) -> Angles:
    """Measure the cosines along a run of GBM and one of AGBM, and those of noise."""
    rng = np.random.default_rng(seed)
    n_rows = sample.n_rows or len(data.y)
    rows = rng.permutation(len(data.y))[:n_rows]
    X = data.X[rows]
    loss: BuiltInLoss = LogLoss() if data.classifies else HalfSquaredError()
    y = (data.y[rows] > 0).astype(np.float64) if data.classifies else data.y[rows].astype(np.float64)
    objective = LocalObjective(loss, y[np.newaxis], n_rows, np.zeros((1, n_rows)))
    learner = TreeLearner(max_depth=depth, min_samples_leaf=1, max_bins=100, colsample_bytree=sample.columns, seed=seed)

    def fitter() -> Fitter[Array]:
        return learner.bind(X, n_rows, None, objective.residual(objective.start))

    noises, bound = rng.standard_normal((N_NOISES, 1, n_rows)), fitter()
    of_noise = [objective.cosine(noise, bound.fit(noise, None)) for noise in noises]
    of_gbm = _cosines(boosting.gbm(objective, fitter(), eta=ETA, max_iter=ITERATIONS))
    of_agbm = _cosines(
        boosting.agbm(
            objective, fitter(), schedule=PaperSchedule(ETA, GAMMA), correction=1.0, length=lambda _: ITERATIONS
        )
    )
    figures = (np.mean(of_noise), np.min(of_gbm), np.median(of_gbm), np.min(of_agbm), np.median(of_agbm))
    return Angles(sample, n_rows, depth, *(float(f"{figure:.6g}") for figure in figures))


def _cosines(steps: Iterable[Step[Array]]) -> Array:
    found: Array = np.array([(step.cosine_residual, step.cosine_corrected) for step in steps])
    return np.extract(np.isfinite(found), found)
