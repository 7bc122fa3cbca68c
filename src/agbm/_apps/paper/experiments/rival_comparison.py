"""Comparison of the runs of methods with those of plain boosting, over tables.

One half of the tables chooses a learning rate for each method, and the other half evaluates it. The best of all rates
for each table, by its validation rows, needs no such halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.stats import gmean, wilcoxon

from ...._base.sums import Array
from .rival_methods import GPBOOST, PLAIN, RIVALS
from .rival_roles import CHECKPOINTS, RATES, TIMES, Run, baseline_of
from .tables import halves

FEWEST = 5
"""Fewer tables than this do not give a p-value."""
LEVEL = 0.05

OfTables = Mapping[str, Run]
"""Runs by table."""


class Versus(NamedTuple):
    """A method against another on some tables: geometric means of ratios, below 1 if the method is better."""

    tables: int
    test: float
    better: int
    worse: int
    p: float
    """Of Wilcoxon's signed-rank test on the logarithms of the ratios of test losses."""
    trees: float
    seconds: float
    median: float
    """The median of the ratios of test losses."""


class Reach(NamedTuple):
    """How a method reaches the test loss of plain boosting with some rate and early stopping."""

    tables: int
    reached: int
    """Number of tables on which it does."""
    trees: float
    """The median of the numbers of trees, relative to those of plain boosting; infinite if most are not reached."""


def versus(mine: OfTables, theirs: OfTables, loss: Callable[[Run], float] = lambda run: run.test) -> Versus:
    """Compare runs on the tables that both have."""
    both = [(mine[name], theirs[name]) for name in mine if name in theirs]
    if not both:
        return Versus(0, math.nan, 0, 0, math.nan, math.nan, math.nan, math.nan)
    ratios = np.array([loss(a) / loss(b) for a, b in both])
    trees = [max(a.trees, 1.0) / max(b.trees, 1.0) for a, b in both]
    seconds = [a.seconds / b.seconds for a, b in both if a.seconds > 0.0 and b.seconds > 0.0]
    return Versus(
        len(both), float(gmean(ratios)), int(np.sum(ratios < 1)), int(np.sum(ratios > 1)), signed_rank_p(ratios),
        float(gmean(trees)), float(gmean(seconds)) if seconds else math.nan, float(np.median(ratios)),
    )  # fmt: skip


def signed_rank_p(ratios: Sequence[float] | Array) -> float:
    """The p-value of Wilcoxon's signed-rank test of whether ratios are around 1; NaN if there are too few."""
    logs = np.log(ratios)
    logs = logs[logs != 0.0]
    return math.nan if len(logs) < FEWEST else float(wilcoxon(logs, method="exact").pvalue)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values; those that are NaN do not count."""
    known = sorted((p, name) for name, p in p_values.items() if p == p)
    adjusted, largest = dict(p_values), 0.0
    for k, (p, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - k) * p))
        adjusted[name] = largest
    return adjusted


@dataclass(frozen=True)
class Comparison:
    """All runs with one kind of trees."""

    learner: str
    runs: Sequence[Run]

    @cached_property
    def _index(self) -> Mapping[tuple[str, float | None], dict[str, Run]]:
        index: dict[tuple[str, float | None], dict[str, Run]] = {}
        for run in self.runs:
            if run.learner == self.learner:
                index.setdefault((run.method, run.rate), {})[run.table] = run
        return index

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each table."""
        return {run.table: run.kind for run in self._index[PLAIN, None].values()}

    @cached_property
    def halves(self) -> tuple[list[str], list[str]]:
        """The tables that choose rates, and those that evaluate them."""
        return halves(self.kinds)

    @property
    def methods(self) -> list[str]:
        """The library's methods in the order of RIVALS."""
        return [method for method in RIVALS if (method, None) in self._index]

    @property
    def of_gpboost(self) -> list[str]:
        """The methods of GPBoost that were run."""
        return [method for method in GPBOOST if (method, None) in self._index]

    def of(self, method: str, rate: float | None, kind: str | None = None) -> OfTables:
        """The runs of a method in a role, on all tables or on those of a kind."""
        found = self._index[method, rate]
        return {name: run for name, run in found.items() if kind is None or run.kind == kind}

    @cached_property
    def _chosen_rates(self) -> dict[str, float]:
        return {method: self._lowest_rate(method) for method in [*self.methods, *self.of_gpboost]}

    def _lowest_rate(self, method: str) -> float:
        def mean(rate: float) -> float:
            runs = self.of(method, rate)
            return float(gmean([runs[name].test for name in self.halves[0] if name in runs]))

        return min(RATES, key=mean)

    def chosen_rate(self, method: str) -> float:
        """The rate with the lowest geometric mean of test losses on the tables that choose."""
        return self._chosen_rates[method]

    def chosen(self, method: str) -> OfTables:
        """The runs with the chosen rate on the tables that evaluate."""
        runs = self.of(method, self.chosen_rate(method))
        return {name: runs[name] for name in self.halves[1] if name in runs}

    def judged(self, method: str, other: str | None = None) -> Versus:
        """A method against another, by default its baseline, each with its chosen rate."""
        return versus(self.chosen(method), self.chosen(other or baseline_of(method)))

    def best(self, method: str, other: str | None = None, kind: str | None = None) -> Versus:
        """The same with the best rate of each table, on all tables or those of a kind."""
        return versus(self.of(method, None, kind), self.of(other or baseline_of(method), None, kind))

    def single(self, method: str, rate: float, kind: str | None = None) -> Versus:
        """A method with one rate against its baseline with the smallest rate, on all tables or those of a kind."""
        return versus(self.of(method, rate, kind), self.of(baseline_of(method), RATES[0], kind))

    def same_rate(self, method: str, rate: float) -> Versus:
        """A method against its baseline with the same rate, on all tables."""
        return versus(self.of(method, rate), self.of(baseline_of(method), rate))

    def after_trees(self, method: str, trees: int) -> Versus:
        """A method against its baseline after a number of trees, each with the best rate of each table."""
        k = CHECKPOINTS.index(trees)
        theirs = self.of(baseline_of(method), None)
        return versus(self.of(method, None), theirs, lambda run: run.at_trees[k])

    def after_time(self, method: str, time: float) -> Versus:
        """The same after a time, in units of the clock of rival_roles.py."""
        k = TIMES.index(time)
        theirs = self.of(baseline_of(method), None)
        return versus(self.of(method, None), theirs, lambda run: run.at_times[k])

    def reach(self, method: str, rate: float | None, goal: float, within: float = 1.0) -> Reach:
        """How a method reaches a multiple of its baseline's loss with the rate `goal`, on the tables that evaluate."""
        goals, runs = self.of(baseline_of(method), goal), self.of(method, rate)
        mine = [(runs[name], goals[name]) for name in self.halves[1] if name in runs]
        ratios = [trees_to(run, within * theirs.test) / max(theirs.trees, 1.0) for run, theirs in mine]
        return Reach(len(ratios), int(np.sum(np.isfinite(ratios))), float(np.median(ratios)))


def trees_to(run: Run, loss: float) -> float:
    """Number of trees after which the best test loss so far is at most a loss, interpolated between checkpoints."""
    below = np.flatnonzero(np.array(run.at_trees) <= loss)
    if not len(below):
        return math.inf
    k = int(below[0])
    if k == 0:
        return float(CHECKPOINTS[0])
    before, after = run.at_trees[k - 1], run.at_trees[k]
    return CHECKPOINTS[k - 1] + (CHECKPOINTS[k] - CHECKPOINTS[k - 1]) * (before - loss) / (before - after)
