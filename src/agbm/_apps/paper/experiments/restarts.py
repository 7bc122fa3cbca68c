"""AGBM with restarts (AGBMR) and Theorem 4.2: what restarts are worth, and how often to restart.

The losses are strongly convex: the squared error, whose condition number sigma / mu is 1, and the logistic loss with a
ridge mu f^2 / 2 on the scores, whose condition number is 1 + 1 / (4 mu). Their optima are known (see proof.py). Gaps
L(f) - L* are relative to that of the start function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import newton
from scipy.special import expit

from ...._base.sums import Array
from ...._base.types import AnyArray
from ...._core import boosting
from ...._core.boosting import Step
from ...._core.objective import Outputs
from ...._core.schedules import PaperSchedule
from ...._core.theory import admissible_momentum, restart_length
from ....losses import HalfSquaredError, LogLoss
from ..data_sets import DataSet
from . import proof, units

CONDITIONS: Mapping[str, tuple[float, ...]] = {"housing": (1.0,), "diabetes": (10.0, 100.0, 1000.0)}
"""Condition numbers by data set; 1 is the squared error."""
LEVELS: tuple[int | None, ...] = (proof.LEVELS, None)
"""Trees as in the experiments of the paper, and trees that fit every residual exactly."""
MOMENTA = (1.0, 0.1)
"""Besides the momentum that the theorem admits."""
PERIODS = (5, 10, 20, 40, 80, 160, 320, 640)
PERIOD_MOMENTUM = 0.1
TOLERANCES = (1e-2, 1e-4, 1e-6)
MOST_ITERATIONS = 2000
WORST_GAP = 1e3
"""A run with such a gap diverges."""
MOST_POINTS = 80


class Setting(NamedTuple):
    """A problem and its weak learner."""

    data: str
    condition: float
    levels: int | None
    """None for trees that fit every residual exactly."""


@dataclass(frozen=True, eq=False)
class Ridge(Outputs):
    """The logistic loss plus mu f^2 / 2 for every row."""

    mu: float = 0.0

    @property
    def smoothness(self) -> float:
        """The constant sigma."""
        return float(self.loss.smoothness + self.mu)

    def value(self, y: Array, f: Array) -> Array:
        return np.asarray(super().value(y, f) + 0.5 * self.mu * f[0] ** 2)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        return super().negative_gradient(y, f) - self.mu * f

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        return super().hessian(y, f, weight) + self.mu

    def best_score(self, mean: Array) -> Array:
        """The score with the smallest loss for rows with this mean label."""

        def slope(f: Array) -> Array:
            return np.asarray(expit(f) - mean + self.mu * f)

        def curvature(f: Array) -> Array:
            return np.asarray(expit(f) * expit(-f) + self.mu)

        return np.asarray(newton(slope, np.zeros_like(mean), curvature, maxiter=200))


def strong_convexity(condition: float) -> float:
    """The constant mu of the loss with a condition number: 1 for the squared error, else that of the ridge."""
    return 1.0 if condition == 1.0 else 0.25 / (condition - 1.0)


def problem(setting: Setting, data: DataSet) -> proof.Known:
    """The problem of a setting, with its optimum."""
    learner = proof.learner_of(setting.levels)
    if setting.condition == 1.0:
        squared = HalfSquaredError()
        return proof.solved(data, squared, data.y.astype(np.float64), squared.smoothness, squared.link, learner)
    ridge = Ridge(LogLoss(), strong_convexity(setting.condition))
    y = (data.y > 0).astype(np.float64)
    return proof.solved(data, ridge, y, ridge.smoothness, ridge.best_score, learner)


@dataclass(frozen=True)
class Run:
    """One method on one problem."""

    setting: Setting
    method: str
    """"gbm", "agbm", "option 1", "option 2" or "period"."""
    gamma: float
    admitted: bool
    """Whether the theorem admits gamma for the smallest cosine of this run."""
    period: float
    """Iterations between restarts; infinite without fixed restarts."""
    smallest_cosine: float
    n_restarts: int
    diverged: bool
    needed: list[int | None]
    """Trees until the gap is below each of TOLERANCES; None if it never is."""
    ratios: list[float]
    """The gap at the end of each period, relative to that at its start."""
    trees: list[int]
    gaps: list[float]


def settings(data_sets: Mapping[str, DataSet]) -> list[Setting]:
    """All problems with each of the learners."""
    return [
        Setting(name, condition, levels)
        for name in CONDITIONS
        if name in data_sets
        for condition in CONDITIONS[name]
        for levels in LEVELS
    ]


def run(data_sets: Mapping[str, DataSet], folder: Path, n_jobs: int, progress: units.Progress) -> list[Run]:
    """Compute all runs."""
    parts = [unit(setting, data_sets[setting.data]) for setting in settings(data_sets)]
    return [from_stored(stored) for found in units.run(parts, folder, n_jobs, progress) for stored in found]


def unit(setting: Setting, data: DataSet) -> units.Unit:
    """The part of the experiment that computes the runs of a setting."""
    decides = [setting, data.checksum, MOMENTA, PERIODS, PERIOD_MOMENTUM, TOLERANCES, MOST_ITERATIONS, MOST_POINTS]
    name = f"restarts-{setting.data}-{setting.condition:g}-{setting.levels or 'exact'}"
    return units.Unit(name, decides, partial(as_stored, setting, data))


def as_stored(setting: Setting, data: DataSet) -> list[dict[str, Any]]:
    """Compute the runs of a setting, as JSON can write them."""
    return [to_stored(run) for run in runs(setting, problem(setting, data))]


def to_stored(run: Run) -> dict[str, Any]:
    """A run as JSON can write it."""
    period = run.period if math.isfinite(run.period) else None
    return asdict(run) | {"setting": run.setting._asdict(), "period": period}


def from_stored(stored: Mapping[str, Any]) -> Run:
    """The run that was stored."""
    period = math.inf if stored["period"] is None else stored["period"]
    return Run(**{**stored, "setting": Setting(**stored["setting"]), "period": period})


def runs(setting: Setting, known: proof.Known) -> Iterator[Run]:
    """All methods on one problem: with momenta as in the paper's experiments, with the admitted one, and by period."""
    yield measured(setting, known, "gbm", 0.0)
    for gamma in MOMENTA:
        for method in ("agbm", "option 1", "option 2"):
            yield measured(setting, known, method, gamma)
    admitted = admitted_run(setting, known)
    yield admitted
    for method in ("agbm", "option 2"):
        yield measured(setting, known, method, admitted.gamma)
    for period in PERIODS:
        yield measured(setting, known, "period", PERIOD_MOMENTUM, period)


def admitted_run(setting: Setting, known: proof.Known) -> Run:
    """AGBMR with option 1 and a momentum that its own cosines admit, found by trying smaller and smaller values."""
    gamma = admissible_momentum(1.0)
    while not (found := measured(setting, known, "option 1", gamma)).admitted:
        gamma = min(0.99 * gamma, admissible_momentum(found.smallest_cosine))
    return found


def measured(setting: Setting, known: proof.Known, method: str, gamma: float, period: float = math.inf) -> Run:
    """Run a method until its gap is below the smallest tolerance."""
    mu = strong_convexity(setting.condition)
    if method == "option 1":
        period = math.ceil(restart_length(known.eta, gamma, mu))
    n, cosines, trees, restarts = known.problem.n_train, [1.0], [0], []
    gaps = [known.problem.train_loss(known.problem.start) * n - known.lowest]
    for m, step in enumerate(_steps(known, method, gamma, period)):
        trees.append(trees[-1] + _n_trees(step))
        gaps.append(step.train_loss * n - known.lowest)
        cosines += [c for c in (step.cosine_residual, step.cosine_corrected) if not math.isnan(c)]
        restarts += [m] if step.restart else []
        if not TOLERANCES[-1] * gaps[0] < gaps[-1] < WORST_GAP * gaps[0]:
            break
    relative = np.array(gaps) / gaps[0]
    kept = np.unique(np.geomspace(1, len(gaps), MOST_POINTS).astype(int)) - 1
    starts = [0, *restarts]
    whole = [(a, b) for a, b in pairwise(starts) if b - a == period]
    return Run(
        setting, method, gamma, gamma <= admissible_momentum(min(cosines)), period, min(cosines), len(restarts),
        diverged=not relative[-1] < WORST_GAP,
        needed=[_first(trees, relative <= tolerance) for tolerance in TOLERANCES],
        ratios=[_rounded(relative[b] / relative[a]) for a, b in whole],
        trees=[trees[k] for k in kept],
        gaps=[_rounded(relative[k]) for k in kept],
    )  # fmt: skip


def _steps(known: proof.Known, method: str, gamma: float, period: float) -> Iterator[Step[Array]]:
    objective, fitter = known.problem, known.fitter()
    if method == "gbm":
        return boosting.gbm(objective, fitter, eta=known.eta, max_iter=2 * MOST_ITERATIONS)  # as many trees
    schedule = PaperSchedule(known.eta, gamma)
    if method == "agbm":
        return boosting.agbm(objective, fitter, schedule=schedule, correction=1.0, length=lambda _: MOST_ITERATIONS)
    # Option 1 takes mu: with this one, the period is what M = sqrt(2 / (eta gamma mu)) is rounded up to.
    rule = boosting.loss_rises if method == "option 2" else 2.0 / (known.eta * gamma * (period - 0.5) ** 2)
    return boosting.agbmr(objective, fitter, schedule=schedule, correction=1.0, max_iter=MOST_ITERATIONS, restart=rule)


def _n_trees(step: Step[Array]) -> int:
    return 1 if step.momentum is None or step.momentum is step.primary else 2


def _first(trees: Sequence[int], reached: AnyArray) -> int | None:
    return int(trees[int(np.argmax(reached))]) if reached.any() else None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
