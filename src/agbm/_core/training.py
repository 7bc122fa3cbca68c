"""Between iterations: history, early stopping, divergence, callbacks.

`watch` runs an algorithm to its end. Watchers receive a `Record` after every iteration and may end the run; they never
change what the algorithm computes. If a model has several members, these are runs of the same algorithm on different
rows that advance together: an iteration is one step of each, and a record is about all of them.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import reduce
from itertools import count
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._base import _native
from .._base.types import AnyArray
from .boosting import Step
from .ensemble import Ensemble
from .learners import DivergedError
from .objective import Objective
from .spread_level import SPREAD_LEVEL, SpreadLevels


class Record(NamedTuple):
    """The results of an iteration. Iteration 0 is the start function. Losses and cosines are means over the members."""

    iteration: int
    trees: int
    """Number of learners with weight in the model of this iteration, those of all members."""
    train_loss: float
    validation_loss: float
    """NaN if there are no validation rows."""
    theta: float = math.nan
    momentum: float = math.nan
    """gamma as used in the iteration."""
    cosine_residual: float = math.nan
    cosine_corrected: float = math.nan
    restart: bool = False
    seconds: float = 0.0
    """Seconds since the start of the run."""
    scores: Mapping[str, float] = MappingProxyType({})
    """Metrics by name, such as "validation_roc_auc", and losses of the rows passed as `watch`."""


Watcher = Callable[[Record], bool | None]
"""Returns True to end the run."""


def after(iteration: int, watcher: Watcher) -> Watcher:
    """A watcher that receives only the records after an iteration; all records if the iteration is 0."""

    def late(record: Record) -> bool | None:
        return watcher(record) if record.iteration > iteration or iteration == 0 else None

    return late


class History:
    """All records of a run."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, record: Record) -> None:
        """Append a record."""
        self.records.append(record)

    def best_iteration(self, criterion: Criterion) -> int:
        """The first iteration with the smallest finite criterion."""
        values = np.array([criterion(record) for record in self.records])
        if not np.isfinite(values).any():
            raise ValueError(
                "scoring: the metric of early stopping is not a finite number in any iteration; the validation rows "
                "may have too few labels of a kind, such as one class only. Pass X_val and y_val, or use another "
                "metric or early_stopping=False."
            )
        return int(np.nanargmin(np.where(np.isfinite(values), values, np.nan)))

    def columns(self) -> dict[str, AnyArray]:
        """One array per field of Record and per score, as a data frame takes them."""
        fields = dict(zip(Record._fields, zip(*self.records, strict=True), strict=True))
        scores = fields.pop("scores")
        fields |= {name: tuple(of[name] for of in scores) for name in scores[0]}
        return {name: np.array(values) for name, values in fields.items()}


Criterion = Callable[[Record], float]
"""What early stopping minimises."""


def by_loss(validation: bool) -> Criterion:
    """The validation loss, or the training loss."""
    return lambda record: record.validation_loss if validation else record.train_loss


def by_score(name: str) -> Criterion:
    """A score; larger is better."""
    return lambda record: -record.scores[name]


class KeptFunctions:
    """Keeps the functions of the members at the last iteration, and at the best one so far by a criterion."""

    def __init__(self, objectives: Sequence[Objective[Any]], criterion: Criterion, whole: bool) -> None:
        """`whole` is for the functions on all rows; otherwise they are kept on the validation rows only."""
        self._objectives = objectives
        self._criterion = criterion
        self._whole = whole
        self._lowest = math.inf
        self._now: Sequence[Any] = ()
        self._best: tuple[int, Sequence[Any]] = (0, ())
        self._last: tuple[int, Sequence[Any]] = (0, ())

    def seeing(self, scores: Callable[[Sequence[Any]], Mapping[str, float]]) -> Callable[..., Mapping[str, float]]:
        """`scores`, after the functions that it gets have been noted."""

        def noted(functions: Sequence[Any]) -> Mapping[str, float]:
            whole = zip(self._objectives, functions, strict=True)
            self._now = functions if self._whole else [objective.to_keep(f) for objective, f in whole]
            return scores(functions)

        return noted

    def __call__(self, record: Record) -> None:
        """Keep the functions of this iteration, and those of the best one."""
        self._last = record.iteration, self._now
        value = self._criterion(record)
        if value < self._lowest:  # the first of equal ones, and never NaN, as History.best_iteration
            self._lowest, self._best = value, self._last

    def at(self, iteration: int) -> Sequence[Any]:
        """The functions of the last or of the best iteration."""
        return dict([self._best, self._last])[iteration]


TOLERANCE = 1e-7
"""An improvement of the validation loss counts if it is more than this share of the decrease since the start."""


class EarlyStopping:
    """Ends the run when a criterion has not improved for n_iter_no_change iterations.

    An improvement counts if it is more than TOLERANCE times the decrease since the start. This does not depend on the
    unit of the labels, nor on a constant that is added to the loss.
    """

    def __init__(self, n_iter_no_change: int, criterion: Criterion) -> None:
        self._criterion = criterion
        self._patience = n_iter_no_change
        self._start = math.nan
        self._reference = math.inf
        self._since = 0

    def __call__(self, record: Record) -> bool:
        """Whether to stop."""
        value = self._criterion(record)
        if math.isnan(self._start):  # a metric may be NaN for a constant
            self._start = self._reference = value
            self._since += math.isnan(value) and record.iteration > 0
        elif value < self._reference - TOLERANCE * (self._start - self._reference):
            self._reference = value
            self._since = 0
        else:
            self._since += 1
        return self._since >= self._patience


class Divergence:
    """Ends the run when the training loss is no longer finite or has grown a hundredfold.

    Growth is relative to the lowest loss so far, or to a thousandth of the first loss if that is larger: a loss close
    to zero may well grow by a large factor. Losses that are not known are ignored: learners refuse residuals that are
    not finite.
    """

    growth = 100.0
    floor = 1e-3

    def __init__(self, has_loss: bool = True) -> None:
        self._has_loss = has_loss
        self._start: float | None = None
        self._lowest = math.inf

    def __call__(self, record: Record) -> bool:
        """Whether the run has diverged."""
        if not self._has_loss:
            return False
        if not math.isfinite(record.train_loss):
            return True
        if self._start is None:
            self._start = record.train_loss
        self._lowest = min(self._lowest, record.train_loss)
        return self._start > 0.0 and record.train_loss > self.growth * max(self._lowest, self.floor * self._start)


@contextmanager
def _memory_of_a_run() -> Iterator[None]:
    _native.begin_run()
    try:
        yield
    finally:
        _native.end_run()


class MemberRun(NamedTuple):
    """The run of one member: the steps of an algorithm on its objective, and the ensemble that they fill."""

    steps: Iterator[Step[Any]]
    objective: Objective[Any]
    ensemble: Ensemble


_NO_SCORES: Mapping[str, float] = MappingProxyType({})


def no_scores(functions: Sequence[Any]) -> Mapping[str, float]:
    """The scores of a run without metrics."""
    return _NO_SCORES


def watch(
    members: Sequence[MemberRun],
    watchers: Sequence[Watcher],
    n_threads: int = 1,
    run_ahead: bool = False,
    scores: Callable[[Sequence[Any]], Mapping[str, float]] = no_scores,
    levels: SpreadLevels | None = None,
) -> tuple[History, bool]:
    """Run the members and fill their ensembles. Returns the history, and whether the run diverged.

    `scores` computes the scores in the record of an iteration from the functions f of all members. If there are
    `levels`, these are added to the functions before, and the validation loss is that of the sums.
    With several threads, steps of different members run at the same time. With `run_ahead`, the next step of a member
    may begin before its ensemble has the previous one, so that no thread waits for the slowest member.
    """
    history, divergence = History(), Divergence(members[0].objective.has_loss)
    began = time.perf_counter()

    def over(record: Record) -> bool:
        history(record)
        answers = [watcher(record) for watcher in watchers]  # every watcher receives every record
        return any(answers)

    def scored(record: Record, functions: Sequence[Any]) -> Record:
        if levels is None:
            return record._replace(scores=scores(functions))
        functions = levels.levelled(functions)
        losses = [of.validation_loss(f) for of, f in zip(objectives, functions, strict=True)]
        found = {**scores(functions), SPREAD_LEVEL: mean_of(levels.found[-1])}
        return record._replace(validation_loss=mean_of(losses), scores=found)

    objectives, ensembles = [member.objective for member in members], [member.ensemble for member in members]
    with _memory_of_a_run(), np.errstate(over="ignore", invalid="ignore"):  # overflow is detected as divergence
        start = Record(
            0, 0, mean_of([of.train_loss(of.start) for of in objectives]),
            mean_of([of.validation_loss(of.start) for of in objectives]),
        )  # fmt: skip
        start = scored(start, [of.start for of in objectives])
        validates = objectives[0].has_validation and objectives[0].has_loss
        if divergence(start) or (validates and not math.isfinite(start.validation_loss)):
            raise ValueError(
                f"The loss of the start function is not finite (training {start.train_loss}, validation "
                f"{start.validation_loss}): y, y_val or sample_weight has numbers too large to square and to add up; "
                "scale them down."
            )
        if over(start):
            return history, False
        try:
            for steps in _together(members, n_threads, run_ahead):
                for ensemble, step in zip(ensembles, steps, strict=True):
                    ensemble.append(step)
                record = scored(_record(steps, ensembles, began), [step.f for step in steps])
                del step, steps  # frees their vectors before the next steps allocate their own
                stop = over(record)
                if divergence(record):
                    return history, True
                if stop:
                    break
        except DivergedError:
            return history, True
    return history, False


def _together(runs: Sequence[MemberRun], n_threads: int, run_ahead: bool) -> Iterator[Sequence[Step[Any]]]:
    """The next step of each run, until they end; with `run_ahead`, the ones after that are being computed already."""
    if n_threads == 1:
        while all(steps := [_next(run) for run in runs]):
            yield cast(list[Step[Any]], steps)
            del steps  # frees their vectors; zip would keep them until it has the next ones
        return
    numbers = count()
    with ThreadPoolExecutor(n_threads, initializer=lambda: _native.choose_threads(next(numbers))) as pool:

        def begin(run: MemberRun) -> Future[Step[Any] | None]:
            # In a copy of the context, which has the settings of NumPy for floating-point errors.
            return pool.submit(copy_context().run, _next, run)

        tasks = [begin(run) for run in runs]
        try:
            while True:
                steps = []
                for i, run in enumerate(runs):
                    steps.append(tasks[i].result())
                    if run_ahead:
                        tasks[i] = begin(run)
                if any(step is None for step in steps):
                    return
                yield cast(list[Step[Any]], steps)
                del steps  # frees their vectors
                if not run_ahead:
                    tasks.clear()  # their results are the steps
                    tasks += map(begin, runs)
        finally:
            for task in tasks:
                task.cancel()


def _next(run: MemberRun) -> Step[Any] | None:
    with run.objective.iteration():
        step = next(run.steps, None)
    return None if step is None else step.without_vectors()  # the others wait for those of all members


def _record(steps: Sequence[Step[Any]], ensembles: Sequence[Ensemble], began: float) -> Record:
    first = steps[0]
    measured = [(of.train_loss, of.validation_loss, of.cosine_residual, of.cosine_corrected) for of in steps]
    train, validation, residual, corrected = map(mean_of, zip(*measured, strict=True))
    trees = sum([ensemble.n_learners for ensemble in ensembles])
    restart = any(step.restart for step in steps)
    seconds = time.perf_counter() - began
    return Record(
        len(ensembles[0]), trees, train, validation, first.theta, first.gamma, residual, corrected, restart, seconds
    )  # fmt: skip


def mean_of(values: Sequence[float]) -> float:
    """The mean, by sequential addition: sum() rounds differently in Python 3.12 and later than in 3.11."""
    return reduce(add, values) / len(values)


def warn_diverged(history: History, kept: int, stacklevel: int) -> None:
    """Warn that training diverged; the warning is about the line that called `fit`, so many calls above this one."""
    last = history.records[-1]
    warnings.warn(
        f"Training diverged at iteration {last.iteration} (training loss {last.train_loss:.6g}, at the start "
        f"{history.records[0].train_loss:.6g}); the model of iteration {kept} is kept. "
        "Lower learning_rate, entry, momentum or correction.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
