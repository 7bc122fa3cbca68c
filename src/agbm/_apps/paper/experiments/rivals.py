"""Runs of the methods of rival_methods.py: losses and seconds at given numbers of trees.

A unit has the runs of one method with all rates on one split of one table, with one kind of trees. Its result has the
same bits in every run, except for seconds of processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...._core.learners import DivergedError
from ...._core.objective import LocalObjective
from ...._core.training import Divergence, Record
from ...._losses.base import BuiltInLoss
from ...._tree import TreeLearner
from ...._tree.learner import TreeFitter
from ....losses import HalfSquaredError, LogLoss
from .rival_methods import GPBOOST, RIVALS, State, Trial, gpboost_states
from .rival_roles import CHECKPOINTS, RATES, Curve, Run, Trace, from_json, summarise, to_json
from .tables import Split, Table, split
from .units import Progress, Unit
from .units import run as run_units

__all__ = ["Run", "compute", "from_json", "has_gpboost", "learners_of", "run", "to_json", "units"]

SPLITS = 3
DIGITS = 7
"""Significant digits of the results."""

_ALIKE: dict[str, Any] = {"min_samples_leaf": 20, "l2_regularization": 1.0, "max_bins": 255}
LEARNERS = {
    "31 leaves": TreeLearner(max_depth=None, max_leaf_nodes=31, **_ALIKE),
    "depth 3": TreeLearner(max_depth=3, **_ALIKE),
}
"""The trees, which are the same for all methods."""
GPBOOST_LEARNER = "31 leaves"
_GPBOOST_TREES = {"num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 1.0, "max_bin": 255}


def learners_of(runs: Sequence[Run]) -> list[str]:
    """The kinds of trees of some runs, in the order of LEARNERS."""
    return [learner for learner in LEARNERS if any(run.learner == learner for run in runs)]


def has_gpboost() -> bool:
    """Whether GPBoost can be imported."""
    try:
        import_module("gpboost")
    except ImportError:  # it is missing, or something that it needs
        return False
    return True


def run(
    tables: Sequence[Table],
    folder: Path,
    n_jobs: int,
    progress: Progress,
    learners: Mapping[str, TreeLearner] = LEARNERS,
    splits: int = SPLITS,
) -> list[Run]:
    """Run all methods. Results that are already in the folder are read instead of computed again."""
    results = run_units(units(tables, learners, splits), folder, n_jobs, progress)
    return summarise(from_stored(found) for of_unit in results for found in of_unit)


def from_stored(found: Mapping[str, Any]) -> Trace:
    """A trace from the result of a unit."""
    return Trace(**{**found, "curve": Curve(**found["curve"])})


def units(tables: Sequence[Table], learners: Mapping[str, TreeLearner] = LEARNERS, splits: int = SPLITS) -> list[Unit]:
    """The units of the comparison; those of GPBoost only if it is installed."""
    checksums = [table.checksum for table in tables]
    return [
        _unit(table, checksum, number, name, learner, method)
        for name, learner in learners.items()
        for number in range(splits)
        for table, checksum in zip(tables, checksums, strict=True)
        for method in _methods(table, name)
    ]


def _methods(table: Table, learner: str) -> list[str]:
    methods = [method for method, rival in RIVALS.items() if table.kind in rival.kinds]
    return [*methods, *GPBOOST] if learner == GPBOOST_LEARNER and has_gpboost() else methods


def _unit(table: Table, checksum: str, number: int, name: str, learner: TreeLearner, method: str) -> Unit:
    title = f"{table.name}-{number}-{name}-{method}".replace(" ", "-")
    package = version("gpboost") if method in GPBOOST else ""
    decides = [table.name, table.kind, checksum, number, name, asdict(learner), method, package]
    return Unit(title, decides, partial(compute, table, number, name, learner, method))


def compute(table: Table, number: int, name: str, learner: TreeLearner, method: str) -> list[dict[str, Any]]:
    """The runs of a method with all rates on one split, as JSON can write them."""
    rows = split(table, number)
    objective, fitter = problem(table, rows, learner)
    scale = 1.0 if table.classifies else 2.0 / float(np.var(rows.y[: rows.n_train]))
    start = objective.start
    begin = State(start, objective.train_loss(start), objective.validation_loss(start), 0)

    def test_loss(f: Any) -> float:
        first = rows.n_train + rows.n_validation
        return objective.mean_loss(objective.y[:, first:], f[:, first:], None)

    runs = []
    for rate in RATES:
        if method in GPBOOST:
            begin = begin._replace(f=test_loss(start))
            curve = measured(begin, _gpboost(table, rows, method, rate), float, scale)
        else:
            trial = Trial(objective, fitter, CHECKPOINTS[-1], number)
            curve = measured(begin, RIVALS[method].states(trial, rate), test_loss, scale)
        runs.append(asdict(Trace(table.name, table.kind, name, number, method, rate, curve)))
    return runs


def problem(table: Table, rows: Split, learner: TreeLearner) -> tuple[LocalObjective, Callable[[float], TreeFitter]]:
    """The objective of a split, and a function that makes fitters; see Trial."""
    loss: BuiltInLoss = (LogLoss() if table.classifies else HalfSquaredError()).with_threads(1)
    y, n = rows.y[np.newaxis], rows.n_train
    start = np.full(y.shape, loss.best_constant(rows.y[:n], None))
    objective = LocalObjective(loss, y, n, start, second_order=True, n_watched=rows.n_test)
    bound = learner.bind(rows.X, n, None, objective.residual(start))
    return objective, lambda share: bound.with_learner(replace(learner, subsample=share))


def _gpboost(table: Table, rows: Split, method: str, rate: float) -> Iterator[State]:
    ends = [rows.n_train, rows.n_train + rows.n_validation]
    parts = list(zip(np.split(rows.X, ends), np.split(rows.y, ends), strict=True))
    return gpboost_states({**_GPBOOST_TREES, **GPBOOST[method][1]}, parts, table.classifies, rate)


def measured(start: State, states: Iterator[State], test_loss: Callable[[Any], float], scale: float = 1.0) -> Curve:
    """Run a method up to the last checkpoint and measure it; losses are multiplied by `scale`.

    At a checkpoint, the model has at most that many trees. A run that diverges has no further checkpoints.
    """
    recorder = _Recorder(start, test_loss, scale)
    seconds = 0.0
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected as divergence
            while recorder.current.trees < CHECKPOINTS[-1]:
                began = time.process_time()
                state = next(states, None)
                seconds += time.process_time() - began
                if state is None:
                    break
                recorder.enter(state, seconds)
        recorder.record_until(CHECKPOINTS[-1])
    except DivergedError:
        recorder.curve.diverged = True
    return recorder.curve


class _Recorder:
    """Keeps the current and the best state of a run, and measures them at checkpoints."""

    def __init__(self, start: State, test_loss: Callable[[Any], float], scale: float) -> None:
        self.curve = Curve()
        self.current = self._best = start
        self._seconds = self._best_seconds = 0.0
        self._test_loss = test_loss
        self._scale = scale
        self._best_test = test_loss(start.f)
        self._has_best_test = True
        self._divergence = Divergence()
        self._divergence(Record(0, 0, start.train_loss, start.validation_loss))

    def enter(self, state: State, seconds: float) -> None:
        """Continue with the next state; raises DivergedError if it has diverged by the rule of the estimators."""
        over = self._divergence(Record(0, state.trees, state.train_loss, state.validation_loss))
        if over or not np.isfinite(state.validation_loss):
            raise DivergedError("the loss has diverged")
        self.record_until(state.trees - 1)
        self.current, self._seconds = state, seconds
        if state.validation_loss < self._best.validation_loss:
            self._best, self._best_seconds, self._has_best_test = state, seconds, False

    def record_until(self, trees: int) -> None:
        """Measure the current state at all checkpoints up to a number of trees that are not measured yet."""
        while len(self.curve.train) < len(CHECKPOINTS) and CHECKPOINTS[len(self.curve.train)] <= trees:
            self._record()

    def _record(self) -> None:
        if not self._has_best_test:
            self._best_test, self._has_best_test = self._test_loss(self._best.f), True
        test = self._best_test if self.current is self._best else self._test_loss(self.current.f)
        losses = {
            "train": self.current.train_loss, "validation": self.current.validation_loss, "test": test,
            "best_validation": self._best.validation_loss, "best_test": self._best_test,
        }  # fmt: skip
        for name, loss in losses.items():
            getattr(self.curve, name).append(_rounded(self._scale * loss, DIGITS))
        self.curve.best_trees.append(self._best.trees)
        self.curve.seconds.append(_rounded(self._seconds, 4))
        self.curve.best_seconds.append(_rounded(self._best_seconds, 4))


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
