"""The paper's table of losses after tuning, compared with the printed one.

The work is divided into runs: one method on one split of one data set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gmean

from ..data_sets import DataSet
from ..printed import PRINTED, TREES, Figure, Losses
from . import protocol, units
from .protocol import METHODS, N_SPLITS, Conventions, Outcome

BASELINE = "gbm"


class Run(NamedTuple):
    """One method on one split."""

    data: str
    split: int
    method: str


class Cell(NamedTuple):
    """One method on one data set with one number of trees."""

    data: str
    trees: int
    method: str
    losses: Losses
    difference: Figure
    """Test loss minus that of GBM on the same splits; negative if the method is better."""
    wins: int
    """Number of splits on which the test loss is below that of GBM."""
    diverged: int
    iterations: float
    """Mean number of iterations of the models."""
    n_trees: float
    """Mean number of trees of the models."""
    differences: tuple[float, ...]
    """Test loss minus that of GBM on every split."""


@dataclass(frozen=True)
class Table:
    """All outcomes by run, and the conventions used."""

    conventions: Conventions
    outcomes: dict[Run, list[Outcome]]

    @property
    def data_sets(self) -> list[str]:
        """The data sets in the order of the run."""
        return list(dict.fromkeys(run.data for run in self.outcomes))

    @property
    def methods(self) -> list[str]:
        """The methods in the order of METHODS."""
        return [method for method in METHODS if any(run.method == method for run in self.outcomes)]

    def cells(self) -> Iterator[Cell]:
        """All cells, ordered by number of trees, then by data set, then by method."""
        for trees in TREES:
            for data in self.data_sets:
                for method in self.methods:
                    yield self._cell(data, trees, method)

    def _cell(self, data: str, trees: int, method: str) -> Cell:
        mine, base = self._splits(data, trees, method), self._splits(data, trees, BASELINE)
        differences = [a.test_loss - b.test_loss for a, b in zip(mine, base, strict=True)]
        losses = Losses(figure([o.train_loss for o in mine]), figure([o.test_loss for o in mine]))
        return Cell(
            data, trees, method, losses, figure(differences), sum(d < 0 for d in differences),
            sum(o.diverged for o in mine), float(np.mean([o.iterations for o in mine])),
            float(np.mean([o.n_trees for o in mine])), tuple(differences),
        )  # fmt: skip

    def _splits(self, data: str, trees: int, method: str) -> list[Outcome]:
        number = TREES.index(trees)
        return [self.outcomes[Run(data, k, method)][number] for k in range(N_SPLITS)]


def figure(values: Sequence[float]) -> Figure:
    """Mean and standard error of the values."""
    return Figure(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))


def run(
    data_sets: Sequence[DataSet],
    methods: Sequence[str],
    conventions: Conventions,
    folder: Path,
    n_jobs: int,
    progress: units.Progress,
) -> Table:
    """Compute the table."""
    sets = {data.name: data for data in data_sets}
    runs = [Run(name, k, method) for name in sets for k in range(N_SPLITS) for method in methods]
    parts = [unit(one, sets[one.data], conventions) for one in runs]
    found = units.run(parts, folder, n_jobs, progress)
    return Table(conventions, dict(zip(runs, map(from_stored, found), strict=True)))


def unit(run: Run, data: DataSet, conventions: Conventions) -> units.Unit:
    """The part of the experiment that computes a run. It depends on data, protocol and the defaults of the library."""
    method = METHODS[run.method]
    model = protocol.estimator(data, method, max(TREES), conventions)
    decides = [
        data.checksum, run, asdict(conventions), {k: repr(v) for k, v in model.get_params().items()}, method.tuned,
        TREES, protocol.constants(),
    ]  # fmt: skip
    return units.Unit(f"{run.data}-{run.split}-{run.method}", decides, partial(as_stored, run, data, conventions))


def as_stored(run: Run, data: DataSet, conventions: Conventions) -> list[dict[str, Any]]:
    """The outcomes of a run, as JSON can write them."""
    return [asdict(outcome) for outcome in protocol.run(data, run.split, METHODS[run.method], conventions)]


def from_stored(stored: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """The outcomes that were stored."""
    return [Outcome(**outcome) for outcome in stored]


class Nearer(NamedTuple):
    """Number of cells in which one method is closer to the printed column than another."""

    train: int
    test: int


def nearer(table: Table, method: str, other: str) -> Nearer:
    """Compare two methods by how close their loss relative to GBM's is to the printed ratio for AGBM.

    Ratios are used because our GBM differs slightly from the printed one.
    """
    ours = {(c.method, c.data, c.trees): c.losses for c in table.cells()}
    counts = dict.fromkeys(Losses._fields, 0)
    for name, trees in ((d, t) for d in table.data_sets for t in TREES):
        for part in counts:
            printed = _ratio(PRINTED[name, trees, "agbm"], PRINTED[name, trees, BASELINE], part)
            off = [
                abs(math.log(_ratio(ours[who, name, trees], ours[BASELINE, name, trees], part) / printed))
                for who in (method, other)
            ]
            counts[part] += off[0] < off[1]
    return Nearer(**counts)


def _ratio(a: Losses, b: Losses, part: str) -> float:
    return float(getattr(a, part).mean / getattr(b, part).mean)


def beside_print(table: Table, method: str) -> list[tuple[Losses, Losses]]:
    """Pairs of our losses and the printed ones, for each cell of a method that is in the paper's table."""
    column = METHODS[method].printed
    if column is None:
        raise ValueError(f"method={method!r} is not in the printed table.")
    return [(c.losses, PRINTED[c.data, c.trees, column]) for c in table.cells() if c.method == method]


def within_printed_errors(table: Table, method: str) -> int:
    """Number of cells whose test loss differs from the printed one by at most twice the printed error."""
    pairs = beside_print(table, method)
    return sum(abs(ours.test.mean - printed.test.mean) <= 2 * printed.test.error for ours, printed in pairs)


def off_print(table: Table, method: str) -> float:
    """Geometric mean of the factors, at least 1, between a method's training and test losses and the printed ones."""
    ratios = [_ratio(ours, printed, part) for ours, printed in beside_print(table, method) for part in Losses._fields]
    return float(gmean([max(ratio, 1.0 / ratio) for ratio in ratios]))


def printed_errors(table: Table) -> float:
    """Geometric mean of the ratios of printed errors to ours, for GBM's test losses."""
    return float(gmean([printed.test.error / ours.test.error for ours, printed in beside_print(table, BASELINE)]))


def rows(table: Table) -> list[dict[str, Any]]:
    """One flat record per cell, for CSV."""
    records = []
    for cell in table.cells():
        printed = PRINTED.get((cell.data, cell.trees, METHODS[cell.method].printed or ""))
        records.append(
            {
                "trees": cell.trees, "data": cell.data, "method": cell.method,
                "train": cell.losses.train.mean, "train_error": cell.losses.train.error,
                "test": cell.losses.test.mean, "test_error": cell.losses.test.error,
                "printed_train": printed and printed.train.mean, "printed_test": printed and printed.test.mean,
                "printed_test_error": printed and printed.test.error,
                "test_minus_gbm": cell.difference.mean, "test_minus_gbm_error": cell.difference.error,
                "wins_against_gbm": cell.wins, "diverged": cell.diverged, "iterations": cell.iterations,
                "kept_trees": cell.n_trees,
            }
        )  # fmt: skip
    return records
