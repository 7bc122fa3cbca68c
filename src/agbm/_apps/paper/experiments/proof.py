"""The quantities of the proof of Theorem 4.1 in each iteration of a run, with admissible and inadmissible momentum.

The optimum of the problems is known. Rows that differ in some bin can be told apart by sums of trees (checked by
`spans_rows`), so the optimal function is the best constant in each group of equal rows. The labels of the logistic
problem are softened to 0.05 and 0.95, since otherwise the optimum would be at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...._base.sums import Array
from ...._base.types import AnyArray
from ...._core.boosting import Step, agbm, gbm
from ...._core.objective import LocalObjective, Outputs
from ...._core.schedules import PaperSchedule
from ...._core.theory import ErrorTerm, admissible_momentum, potential, rate_bound
from ...._losses.base import BuiltInLoss, Loss
from ...._tree import TreeLearner
from ...._tree.bins import Bins
from ...._tree.learner import TreeFitter
from ....losses import HalfSquaredError, LogLoss
from ..data_sets import DataSet
from . import units

SETS = ("housing", "diabetes")
ITERATIONS = 200
LEVELS = 3
SOFT = 0.05
INADMISSIBLE = (0.1, 0.5)
"""Values of gamma as in the paper's experiments, far above what the theorem admits."""
NOT_FAR = 10.0
"""Multiple of the admitted gamma that the theorem excludes, but for which the error terms are still defined
(gamma < Theta^2)."""


@dataclass(frozen=True, eq=False)
class Known:
    """A problem with a known optimum, and its tree learner."""

    name: str
    problem: LocalObjective
    optimum: Array
    lowest: float
    """L*, the smallest sum of losses over rows."""
    smoothness: float
    spans: bool
    """Whether sums of stumps are known to reach the optimum."""
    X: Array
    learner: TreeLearner

    @property
    def eta(self) -> float:
        """The largest step that the theorem admits."""
        return 1.0 / self.smoothness

    @property
    def distance_squared(self) -> float:
        """||f* - f^0||^2."""
        return _squared(self.optimum - self.problem.start)

    def fitter(self) -> TreeFitter:
        """Return a new fitter for one run."""
        return self.learner.bind(self.X, self.problem.n_train, None, self.problem.residual(self.problem.start))


@dataclass(frozen=True, eq=False)
class Track:
    """One run, with columns of one entry per iteration."""

    problem: str
    spans: bool
    """Whether sums of stumps are known to reach the optimum."""
    gamma: float
    eta: float
    admissible: bool
    """Whether the theorem admits gamma for the smallest cosine of this run."""
    smallest_cosine: float
    start_potential: float
    """V^0 = ||f* - f^0||^2 / 2."""
    n_above_bound: int
    """Number of iterations with a gap above the printed bound of the theorem."""
    n_above_sum: int | None
    """Number of iterations with a potential above V^0 plus the sum of delta; None if that is not defined."""
    columns: Mapping[str, list[float]]
    """cosine_residual, cosine_corrected, admitted (gamma for the cosines so far), gap, gap_of_gbm (after as many
    iterations, with half the trees), bound, potential, and error_terms (the sum of delta so far)."""


def known_problem(data: DataSet, n_threads: int = 1) -> Known:
    """Create the problem of a data set and its optimum."""
    loss: BuiltInLoss = LogLoss() if data.classifies else HalfSquaredError()
    y = np.where(data.y > 0, 1.0 - SOFT, SOFT) if data.classifies else data.y.astype(np.float64)
    return solved(data, loss.with_threads(n_threads), y, loss.smoothness, loss.link, learner_of(LEVELS, n_threads))


def learner_of(levels: int | None, n_threads: int = 1) -> TreeLearner:
    """Trees of some number of levels; without a limit, every row that can be told apart gets a leaf of its own."""
    return TreeLearner(max_depth=levels, min_samples_leaf=1, max_bins=255, n_threads=n_threads)


def solved(
    data: DataSet,
    loss: Loss | Outputs,
    y: Array,
    smoothness: float,
    best_score: Callable[[Array], Array],
    learner: TreeLearner,
) -> Known:
    """The problem of a loss, whose optimal score for equal rows depends on their mean label."""
    X = np.ascontiguousarray(data.X, dtype=np.float64)
    codes = Bins.from_data(X, learner.max_bins).encode(X, learner.n_threads).codes()
    _, group = np.unique(codes, axis=0, return_inverse=True)
    means = np.bincount(group, weights=y) / np.bincount(group)
    optimum = np.asarray(best_score(means))[group][np.newaxis]
    problem = LocalObjective(loss, y[np.newaxis], len(y), np.zeros((1, len(y))), n_threads=learner.n_threads)
    lowest = problem.train_loss(optimum) * len(y)
    spans = spans_rows(codes, int(group.max()) + 1)
    return Known(data.name, problem, optimum, lowest, smoothness, spans, X, learner)


def spans_rows(codes: AnyArray, n_groups: int) -> bool:
    """Whether sums of stumps, and therefore of trees, can take arbitrary values in all groups of equal rows."""
    rows = np.unique(codes, axis=0)
    cuts = [rows[:, [j]] <= np.unique(rows[:, j])[:-1] for j in range(rows.shape[1])]
    design = np.hstack([np.ones((len(rows), 1)), *cuts])
    return int(np.linalg.matrix_rank(design)) == n_groups


def run(data_sets: Mapping[str, DataSet], folder: Path, n_jobs: int, progress: units.Progress) -> list[Track]:
    """Compute the runs on all problems."""
    parts = [unit(data_sets[name]) for name in SETS if name in data_sets]
    return [from_stored(stored) for found in units.run(parts, folder, n_jobs, progress) for stored in found]


def unit(data: DataSet) -> units.Unit:
    """The part of the experiment with one data set."""
    decides = [data.name, data.checksum, ITERATIONS, LEVELS, SOFT, INADMISSIBLE, NOT_FAR]
    return units.Unit(f"theory-{data.name}", decides, partial(as_stored, data))


def as_stored(data: DataSet) -> list[dict[str, Any]]:
    """Compute the runs on a problem, as JSON can write them."""
    return [to_stored(track) for track in tracks(known_problem(data))]


def to_stored(track: Track) -> dict[str, Any]:
    """A run as JSON can write it: rounded, with None for numbers that are not defined."""
    columns = {name: [_rounded(x) for x in column] for name, column in track.columns.items()}
    return asdict(track) | {"columns": columns}


def _rounded(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None


def from_stored(stored: Mapping[str, Any]) -> Track:
    """The run that was stored."""
    columns = {name: [math.nan if x is None else x for x in column] for name, column in stored["columns"].items()}
    return Track(**{**stored, "columns": columns})


def tracks(known: Known, iterations: int = ITERATIONS) -> Iterator[Track]:
    """Yield a run with a momentum that the theorem admits, then runs with larger ones."""
    of_gbm = plain_gaps(known, iterations)
    admissible = admissible_track(known, iterations)
    yield _beside(admissible, of_gbm)
    for gamma in (NOT_FAR * admissible.gamma, *INADMISSIBLE):
        yield _beside(track(known, gamma, iterations), of_gbm)


def plain_gaps(known: Known, iterations: int) -> list[float]:
    """L(f^m) - L* of gradient boosting with the same step size."""
    steps = gbm(known.problem, known.fitter(), eta=known.eta, max_iter=iterations)
    return [step.train_loss * known.problem.n_train - known.lowest for step in steps]


def _beside(found: Track, of_gbm: list[float]) -> Track:
    return replace(found, columns={**found.columns, "gap_of_gbm": of_gbm[: len(found.columns["gap"])]})


def admissible_track(known: Known, iterations: int) -> Track:
    """A run whose constant gamma is admitted by its own cosines, found by trying smaller and smaller values."""
    gamma = admissible_momentum(1.0)
    while not (found := track(known, gamma, iterations)).admissible:
        gamma = min(0.99 * gamma, admissible_momentum(found.smallest_cosine))
    return found


def track(known: Known, gamma: float, iterations: int) -> Track:
    """Run Algorithm 2 and compute the quantities of the proof."""
    steps: list[Step[Array]] = []
    for step in agbm(
        known.problem, known.fitter(), schedule=PaperSchedule(known.eta, gamma), correction=1.0,
        length=lambda _: iterations,
    ):  # fmt: skip
        steps.append(step)
        if not np.isfinite(step.train_loss) or step.train_loss > 1e6 * steps[0].train_loss:
            break  # the run diverges
    cosines = [min(c for c in (s.cosine_residual, s.cosine_corrected) if c == c) for s in steps]
    smallest = min(cosines)
    columns = _columns(known, steps, gamma, smallest)
    columns["admitted"] = [admissible_momentum(c) for c in np.minimum.accumulate(cosines).tolist()]
    admissible = gamma <= admissible_momentum(smallest)
    above = sum(not gap <= bound for gap, bound in zip(columns["gap"], columns["bound"], strict=True))
    start_potential, above_sum = known.distance_squared / 2.0, None
    if not math.isnan(columns["error_terms"][-1]):
        limits = [start_potential + total for total in columns["error_terms"]]
        # A tolerance for rounding: these are sums of squares over all rows.
        above_sum = sum(v > limit * (1 + 1e-9) for v, limit in zip(columns["potential"], limits, strict=True))
    return Track(
        known.name, known.spans, gamma, known.eta, admissible, smallest, start_potential, above, above_sum, columns
    )


def _columns(known: Known, steps: list[Step[Array]], gamma: float, smallest: float) -> dict[str, list[float]]:
    n, eta = known.problem.n_train, known.eta
    error_term = ErrorTerm(smallest, gamma) if smallest > 0.0 and gamma < smallest**2 else None
    h_hat = known.problem.start
    total, previous_alpha, squared_error = 0.0, 0.0, 0.0
    columns: dict[str, list[float]] = {
        "cosine_residual": [s.cosine_residual for s in steps],
        "cosine_corrected": [s.cosine_corrected for s in steps],
        "gap": [], "bound": [], "potential": [], "error_terms": [],
    }  # fmt: skip
    for m, step in enumerate(steps):
        assert step.r is not None
        assert step.c is not None
        gap = step.train_loss * n - known.lowest
        h_hat = h_hat + step.alpha * step.r
        bound = rate_bound(known.distance_squared, eta, gamma, m + 1)
        total += error_term(step.alpha, _squared(step.r), previous_alpha, squared_error) if error_term else float("nan")
        columns["gap"].append(gap)
        columns["bound"].append(bound)
        columns["potential"].append(potential(gap, step.alpha, step.theta, _squared(known.optimum - h_hat)))
        columns["error_terms"].append(total)
        previous_alpha = step.alpha
        squared_error = 0.0 if step.momentum is None else _squared(step.c - step.momentum.explained)
    return columns


def _squared(x: Array) -> float:
    return float(np.add.reduce(np.square(x), axis=None))
