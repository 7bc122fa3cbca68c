"""The proof of Theorem 4.1 along a run: what it assumes, what it bounds, and what happens where it does not hold.

The problems have an optimum that is known: rows that differ in some bin can be told apart by sums of trees
(`spans_rows` shows it), so the best function has the best constant in each group of equal rows. Labels of the logistic
problem are softened, 0.05 and 0.95, since the optimum would lie at infinity otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.boosting import Step, agbm, gbm
from .._core.losses import Array, HalfSquaredError, LogLoss
from .._core.objective import LocalObjective
from .._core.schedules import PaperSchedule
from .._core.theory import ErrorTerm, admissible_momentum, potential, rate_bound
from .._tree import TreeLearner
from .._tree.bins import Bins
from .._tree.learner import TreeFitter
from .data_sets import DataSet

ITERATIONS = 200
LEVELS = 3
SOFT = 0.05
INADMISSIBLE = (0.1, 0.5)
"""Values of gamma that the paper's experiments use."""
NOT_FAR = 10.0
"""Times the admitted gamma: beyond the theorem, while the error terms are still defined (gamma < Theta^2)."""


@dataclass(frozen=True, eq=False)
class Known:
    """A problem, its best function, and how its trees are grown."""

    name: str
    problem: LocalObjective
    optimum: Array
    lowest: float
    """L*, a sum over rows."""
    smoothness: float
    spans: bool
    """Whether sums of trees reach the optimum."""
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
        """For one run."""
        return self.learner.bind(self.X, self.problem.n_train, None, self.problem.residual(self.problem.start))


@dataclass(frozen=True, eq=False)
class Track:
    """One run; the columns have an entry for each iteration."""

    problem: str
    gamma: float
    eta: float
    admissible: bool
    """Whether gamma is one that the theorem admits for the smallest cosine of this run."""
    smallest_cosine: float
    start_potential: float
    """V^0 = ||f* - f^0||^2 / 2."""
    columns: Mapping[str, list[float]]
    """cosine_residual, cosine_corrected, admitted (by the cosines so far), gap, gap_of_gbm (with as many iterations and
    half the trees), bound, bound_of_proof, potential, and error_terms, the sum of delta so far."""

    @property
    def n_above_bound(self) -> int:
        """Iterations with a gap above the bound that the theorem prints."""
        return sum(not gap <= bound for gap, bound in zip(self.columns["gap"], self.columns["bound"], strict=True))


def known_problem(data: DataSet, n_threads: int = 1) -> Known:
    """The problem of a data set, with its optimum."""
    X = np.ascontiguousarray(data.X, dtype=np.float64)
    learner = TreeLearner(max_depth=LEVELS, min_samples_leaf=1, max_bins=255, n_threads=n_threads)
    codes = Bins.from_data(X, learner.max_bins).encode(X, n_threads).codes()
    loss: Any = LogLoss() if data.classifies else HalfSquaredError()
    y = np.where(data.y > 0, 1.0 - SOFT, SOFT) if data.classifies else data.y.astype(np.float64)
    _, group = np.unique(codes, axis=0, return_inverse=True)
    means = np.bincount(group, weights=y) / np.bincount(group)
    optimum = np.asarray(loss.link(means))[group][np.newaxis]
    problem = LocalObjective(
        loss.with_threads(n_threads), y[np.newaxis], len(y), np.zeros((1, len(y))), n_threads=n_threads
    )
    lowest = problem.train_loss(optimum) * len(y)
    spans = spans_rows(codes, int(group.max()) + 1)
    return Known(data.name, problem, optimum, lowest, loss.smoothness, spans, X, learner)


def spans_rows(codes: Any, n_groups: int) -> bool:
    """Whether sums of stumps alone, and so of trees, can have any value in every group of equal rows."""
    rows = np.unique(codes, axis=0)
    cuts = [rows[:, [j]] <= np.unique(rows[:, j])[:-1] for j in range(rows.shape[1])]
    design = np.hstack([np.ones((len(rows), 1)), *cuts])
    return int(np.linalg.matrix_rank(design)) == n_groups


def tracks(known: Known, iterations: int = ITERATIONS) -> Iterator[Track]:
    """With a momentum that the theorem admits, then with some that it does not."""
    of_gbm = plain_gaps(known, iterations)
    admissible = admissible_track(known, iterations)
    yield _beside(admissible, of_gbm)
    for gamma in (NOT_FAR * admissible.gamma, *INADMISSIBLE):
        yield _beside(track(known, gamma, iterations), of_gbm)


def plain_gaps(known: Known, iterations: int) -> list[float]:
    """L(f^m) - L* of gradient boosting with the same step."""
    steps = gbm(known.problem, known.fitter(), eta=known.eta, max_iter=iterations)
    return [step.train_loss * known.problem.n_train - known.lowest for step in steps]


def _beside(found: Track, of_gbm: list[float]) -> Track:
    return replace(found, columns={**found.columns, "gap_of_gbm": of_gbm[: len(found.columns["gap"])]})


def admissible_track(known: Known, iterations: int) -> Track:
    """A run with a constant gamma that the cosines of the same run admit: smaller ones are tried until one is."""
    gamma = admissible_momentum(1.0)
    while not (found := track(known, gamma, iterations)).admissible:
        gamma = min(0.99 * gamma, admissible_momentum(found.smallest_cosine))
    return found


def track(known: Known, gamma: float, iterations: int) -> Track:
    """One run of Algorithm 2, and the quantities of the proof."""
    steps: list[Step[Array]] = []
    for step in agbm(
        known.problem, known.fitter(), schedule=PaperSchedule(known.eta, gamma), correction=1.0,
        length=lambda _: iterations,
    ):  # fmt: skip
        steps.append(step)
        if not np.isfinite(step.train_loss) or step.train_loss > 1e6 * steps[0].train_loss:
            break  # it diverges: more of it says nothing
    cosines = [min(c for c in (s.cosine_residual, s.cosine_corrected) if c == c) for s in steps]
    smallest = min(cosines)
    columns = _columns(known, steps, gamma, smallest)
    columns["admitted"] = [admissible_momentum(c) for c in np.minimum.accumulate(cosines).tolist()]
    admissible = gamma <= admissible_momentum(smallest)
    return Track(known.name, gamma, known.eta, admissible, smallest, known.distance_squared / 2.0, columns)


def _columns(known: Known, steps: list[Step[Array]], gamma: float, smallest: float) -> dict[str, list[float]]:
    n, eta = known.problem.n_train, known.eta
    error_term = ErrorTerm(smallest, gamma) if smallest > 0.0 and gamma < smallest**2 else None
    h_hat = known.problem.start
    total, previous_alpha, squared_error = 0.0, 0.0, 0.0
    columns: dict[str, list[float]] = {
        "cosine_residual": [s.cosine_residual for s in steps],
        "cosine_corrected": [s.cosine_corrected for s in steps],
        "gap": [], "bound": [], "bound_of_proof": [], "potential": [], "error_terms": [],
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
        columns["bound_of_proof"].append(4.0 * bound)
        columns["potential"].append(potential(gap, step.alpha, step.theta, _squared(known.optimum - h_hat)))
        columns["error_terms"].append(total)
        previous_alpha = step.alpha
        squared_error = 0.0 if step.momentum is None else _squared(step.c - step.momentum.explained)
    return columns


def _squared(x: Array) -> float:
    return float(np.add.reduce(np.square(x), axis=None))
