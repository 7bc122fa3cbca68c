"""Fits of many classes, and of tables with many indicator columns, compared with other libraries on one thread.

python -m benchmarks.speed.classes --data FOLDER [--tables covertype a9a] [--rows 100000] [--rounds 3] [--document FILE]

All libraries get the same settings: one tree of depth 6 per class and iteration, 255 bins. Times are
processor times, which other processes on the machine affect less. "iteration" is the difference between fits of 25 and
of 5 iterations, divided by 20; "fit" is the one of 25, including checks and binning. The libraries take turns; a turn
is the shorter of two fits, and a ratio the median over the rounds of agbm's time divided by the other library's, below
1 if agbm is faster. Categories are numbered, and tables with more than --rows rows are sampled.

FOLDER contains `suite/` and `large/` (shared/tables.py) and `libsvm/` with a1a, a9a and w1a in svmlight format.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.libraries import HistGradientBoosting, Library, LightGBM, Ours, Setting, XGBoost
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import machine
from benchmarks.shared.tables import all_tasks
from benchmarks.speed.compare import PAPER_SETS, SPARSE_SETS, Run, read_set

FEW, MANY = 5, 25
"""Iterations of the two fits of a measurement."""
CLASSES = ("covertype", "kddcup99", "krkopt", "keystroke_51users")
INDICATORS = PAPER_SETS | SPARSE_SETS
TABLES = (*CLASSES, "a1a", "a9a", "w1a")


class Case(NamedTuple):
    """A table with its labels."""

    name: str
    kind: str
    X: Any
    y: np.ndarray


class Seconds(NamedTuple):
    """Processor time of an iteration, and of a complete fit."""

    iteration: float
    fit: float


def cases(run: Run, names: Sequence[str], most_rows: int) -> Iterator[Case]:
    """The tables; those of indicators dense and sparse."""
    assert run.data is not None
    tasks = all_tasks(run.data)
    for name in names:
        if name in CLASSES:
            rows = tasks[name].load()
            chosen = np.random.default_rng(0).permutation(len(rows.y))[:most_rows]
            X = rows.X.apply(lambda column: column.cat.codes if column.dtype == "category" else column)
            # Classes that the sample does not have must not leave gaps in the numbers.
            y = np.unique(rows.y[chosen], return_inverse=True)[1].astype(np.float64)
            yield Case(name, "classes", X.to_numpy(np.float64)[chosen], y)
        elif (found := read_set(replace(run, data=run.data / "libsvm"), *INDICATORS[name])) is not None:
            X, y, _ = found
            yield Case(f"{name}, dense", "indicators", X.toarray(), y)
            yield Case(f"{name}, sparse", "indicators", X, y)


def shorter(work: Callable[[], object]) -> float:
    """Processor time of the shorter of two calls."""
    times = []
    for _ in range(2):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def measured(library: Library, case: Case) -> Seconds:
    """One turn of a library."""
    setting = Setting(1, logistic=True, n_classes=len(np.unique(case.y)))
    X = case.X if library.takes_sparse or isinstance(case.X, np.ndarray) else case.X.toarray()
    few, many = (shorter(lambda n=n: library.fit(X, case.y, replace(setting, trees=n))) for n in (FEW, MANY))  # type: ignore[misc]
    # On a busy machine, the difference of two short times may be lost in noise; such a round does not count.
    return Seconds((many - few) / (MANY - FEW) if many > few else np.nan, many)


def compared(run: Run, case: Case) -> list[str]:
    """A line of the table: agbm's times, and its ratios to the others."""
    rounds = [{library.name: measured(library, case) for library in run.libraries} for _ in range(run.rounds)]
    n_classes = len(np.unique(case.y))
    cells = [f"{case.name} ({case.X.shape[0]:,}×{case.X.shape[1]})", str(n_classes)]
    for what in Seconds._fields:
        seconds = {name: np.array([getattr(each[name], what) for each in rounds]) for name in rounds[0]}
        cells.append(f"{1e3 * float(np.nanmedian(seconds['agbm'])):.3g}")
        cells += [f"{float(np.nanmedian(seconds['agbm'] / seconds[peer.name])):.2f}" for peer in run.peers]
    return cells


def main() -> None:
    """Measure, print the table, and write it into a document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with suite/, large/ and libsvm/")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of larger tables")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--document", type=Path, help="Markdown file with a marker for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run = Run(1, args.rounds, False, args.data, Ours(), [LightGBM(), XGBoost(), HistGradientBoosting()])
    heads = ["table", "classes"]
    for what in Seconds._fields:
        heads += [f"{what}, ms", *(f"/ {peer.name}" for peer in run.peers)]
    lines: list[list[str]] = []
    with threadpool_limits(1):
        for case in cases(run, args.tables, args.rows):
            lines.append(compared(run, case))
            print(*lines[-1], sep=" | ", flush=True)
    found = table(heads, lines)
    print(*found, sep="\n")
    if args.document is not None:
        facts = {library.name: library.version for library in run.libraries} | machine()
        found += ["", f"{', '.join(f'{name} {fact}' for name, fact in facts.items())}."]
        fill_in(args.document, {"classes": found})


if __name__ == "__main__":
    main()
