"""The paper's table of losses after tuning, compared with the printed one.

The work is divided into units: one method on one split of one data set. The result of each unit is stored in its own
file, so an interrupted run can be resumed, and units can be computed in any order by any number of processes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import gmean

from ..._base import _native
from . import protocol
from .data_sets import DataSet
from .printed import PRINTED, TREES, Figure, Losses
from .protocol import METHODS, N_SPLITS, Conventions, Outcome

BASELINE = "gbm"


class Unit(NamedTuple):
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


@dataclass(frozen=True)
class Table:
    """All outcomes by unit, and the conventions used."""

    conventions: Conventions
    outcomes: dict[Unit, list[Outcome]]

    @property
    def data_sets(self) -> list[str]:
        """The data sets in the order of the run."""
        return list(dict.fromkeys(unit.data for unit in self.outcomes))

    @property
    def methods(self) -> list[str]:
        """The methods in the order of METHODS."""
        return [method for method in METHODS if any(unit.method == method for unit in self.outcomes)]

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
        )  # fmt: skip

    def _splits(self, data: str, trees: int, method: str) -> list[Outcome]:
        number = TREES.index(trees)
        return [self.outcomes[Unit(data, k, method)][number] for k in range(N_SPLITS)]


def figure(values: Sequence[float]) -> Figure:
    """Mean and standard error of the values."""
    return Figure(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))


def run(
    data_sets: Sequence[DataSet],
    methods: Sequence[str],
    conventions: Conventions,
    folder: Path,
    n_jobs: int,
    progress: Callable[[int, int], None],
) -> Table:
    """Compute the table. Results that are already in the folder are read instead of computed again.

    `progress` is called with the number of units done and in total.
    """
    sets = {data.name: data for data in data_sets}
    units = [Unit(name, k, method) for name in sets for k in range(N_SPLITS) for method in methods]
    paths = {unit: folder / _file_name(sets[unit.data], unit, conventions) for unit in units}
    outcomes = {unit: read for unit in units if (read := _read(paths[unit])) is not None}
    progress(len(outcomes), len(units))
    folder.mkdir(parents=True, exist_ok=True)
    left = [unit for unit in units if unit not in outcomes]
    work = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(_run_unit)(unit, sets[unit.data], conventions) for unit in left
    )
    for unit, found in work:
        _write(paths[unit], found)
        outcomes[unit] = found
        progress(len(outcomes), len(units))
    return Table(conventions, {unit: outcomes[unit] for unit in units})


def _run_unit(unit: Unit, data: DataSet, conventions: Conventions) -> tuple[Unit, list[Outcome]]:
    return unit, protocol.run(data, unit.split, METHODS[unit.method], conventions)


def _file_name(data: DataSet, unit: Unit, conventions: Conventions) -> str:
    """The file name of a unit. It depends on everything that may change the result: data, protocol, defaults, code."""
    method = METHODS[unit.method]
    model = protocol.estimator(data, method, max(TREES), conventions)
    decides = [
        data.checksum, asdict(conventions), {k: repr(v) for k, v in model.get_params().items()}, method.tuned, TREES,
        protocol.constants(), _code(),
    ]  # fmt: skip
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]
    return f"{unit.data}-{unit.split}-{unit.method}-{key}.json"


@cache
def _code() -> str:
    """Checksum of the library's code, including the kernels, because the version does not change with every edit."""
    folder = Path(__file__).parent.parent
    parts = [*sorted(folder.rglob("*.py")), Path(_native.__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()


def _read(path: Path) -> list[Outcome] | None:
    try:
        outcomes = [Outcome(**outcome) for outcome in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError):  # missing or incomplete
        return None
    return outcomes if len(outcomes) == len(TREES) else None


def _write(path: Path, outcomes: list[Outcome]) -> None:
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    os.replace(fresh, path)


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
            }
        )  # fmt: skip
    return records
