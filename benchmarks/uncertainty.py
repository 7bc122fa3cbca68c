"""Calibrated uncertainty of agbm and its peers on the real tables of suite.py.

The folder `--data` is that of suite.py. There are four parts. The module of each describes its contestants:

* `intervals`: prediction intervals with coverage 0.9 (benchmarks/uncertainty_intervals.py).
* `quantiles`: several quantiles of the target (benchmarks/uncertainty_quantiles.py).
* `classes`: sets of classes with coverage 0.9, and calibrated probabilities (benchmarks/uncertainty_classes.py).
* `distributions`: distributions of the target (benchmarks/uncertainty_distributions.py).

Tables with counts are left out: an interval for a rate depends on the exposure of its row, which the peers cannot take.

Every table is split once per seed into 75 % of the rows for fitting, of which `--rows` are used, and 25 % for testing
(at most 25,000). Every contestant gets the rows for fitting and holds out what it needs for calibration and early
stopping. Libraries whose defaults hold out nothing use 20 % of them, chosen at random, the same for all.

Categorical columns are pandas categories for LightGBM, XGBoost, HistGradientBoosting and agbm, texts for CatBoost, and
codes for NGBoost and the nearest neighbours of crepes; these two get medians in place of missing values.

Seconds are those of fitting, calibration and prediction with `--threads` threads, and rough where other processes run.

Every result is appended to `--out`/PART.jsonl as soon as it is measured, so an interrupted benchmark can be resumed. A
result is measured again if the versions of its libraries, the parameters of agbm (including defaults), `--rows` or
`--iterations` change. Use a new folder `--out` after other changes of agbm. Parts may run at the same time.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from records import append, read
from suite_contestants import EARLY_STOPPING, Run
from suite_tables import Problem, Rows, Task, all_tasks, split
from uncertainty_parts import Contestant, Part
from uncertainty_report import Record, page

PARTS = ("intervals", "quantiles", "classes", "distributions")
SHARE_FOR_TRAINING = 0.8
"""Of the rows that `split` takes for fitting; the others are its validation rows, which are not used as such here."""


def part_of(name: str) -> Part:
    """A part by name. Its module is imported only now, since it imports the libraries of its contestants."""
    return import_module(f"uncertainty_{name}").PART  # type: ignore[no-any-return]


def measured(record: Record, part: Part, contestant: Contestant, problem: Problem, run: Run) -> Record:
    """The record with the scores of a contestant, or with the error that it raised."""
    try:
        began = time.perf_counter()
        with threadpool_limits(run.threads):
            predicted = contestant.predict(problem, run)
        seconds = time.perf_counter() - began
        scores = part.score(predicted, problem.test)
        unknown = [name for name, value in scores.items() if not math.isfinite(value)]
        if unknown:
            return replace(record, error=f"not finite: {', '.join(unknown)}")
    except Exception as error:  # a library that cannot be fitted to a table must not stop the others
        text = next(iter(str(error).splitlines()), "")
        return replace(record, error=f"{type(error).__name__}: {text}"[:300])
    return replace(record, scores=scores, seconds=seconds)


def progress(record: Record) -> str:
    """A line about a record."""
    where = f"{record.part}, {record.task}, split {record.seed}: {record.contestant}"
    if record.scores is None:
        return f"{where} failed: {record.error}"
    figures = ", ".join(f"{name} {value:.5g}" for name, value in record.scores.items())
    return f"{where}: {figures}, {record.seconds:.2f} s"


class Benchmark:
    """The measurements of one part that the arguments ask for."""

    def __init__(self, args: argparse.Namespace, part: Part) -> None:
        self._args = args
        self._part = part
        tasks = all_tasks(args.data)
        unknown = set(args.only or ()) - set(tasks)
        if unknown:
            raise ValueError(f"Unknown tasks: {', '.join(sorted(unknown))}. Tasks: {', '.join(tasks)}.")
        chosen = (tasks[name] for name in args.only or tasks)
        self._tasks = [task for task in chosen if task.kind in part.kinds]
        self._contestants = self._installed()
        self._path: Path = args.out / f"{part.name}.jsonl"
        self._done = {record.key for record in read(self._path, Record) if record.error is None or not args.retry}

    def run(self) -> None:
        """Measure everything that is not stored yet, one fit at a time."""
        for task in self._tasks:
            rows: Rows | None = None
            for seed in range(self._args.splits):
                pending = list(self._pending(task, seed))
                if not pending:
                    continue
                rows = rows or task.load()
                problem = split(task, rows, seed, int(SHARE_FOR_TRAINING * self._args.rows))
                run = Run(EARLY_STOPPING, self._args.iterations, seed, self._args.threads)
                for contestant, record in pending:
                    record = measured(record, self._part, contestant, problem, run)
                    append(self._path, record)
                    print(progress(record), flush=True)

    def _installed(self) -> list[tuple[Contestant, str]]:
        """The contestants that were asked for, with their versions."""
        contestants = list(self._part.peers)
        if not self._args.only_peers:
            contestants += [self._part.of_ours(), *(self._part.of_ours(n, **p) for n, p in self._args.ours)]
        names = self._args.contestants
        found = []
        for contestant in contestants:
            version = contestant.version()
            if version is None:
                print(f"{contestant.name} is skipped: {' or '.join(contestant.packages)} is not installed")
            elif names is None or contestant.name in names:
                found.append((contestant, version))
        return found

    def _pending(self, task: Task, seed: int) -> Iterator[tuple[Contestant, Record]]:
        """The records of a split, without results, that are not stored yet."""
        for contestant, version in self._contestants:
            record = Record(
                part=self._part.name, task=task.name, kind=task.kind, seed=seed, contestant=contestant.name,
                is_ours=contestant.is_ours, settings=contestant.settings, version=version, rows=self._args.rows,
                iterations=self._args.iterations, threads=self._args.threads,
            )  # fmt: skip
            if record.key not in self._done:
                yield contestant, record


def of_ours(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a contestant of agbm from 'name={"parameter": value, ...}'."""
    name, equals, parameters = text.partition("=")
    if not equals:
        raise ValueError(f"--ours must be 'name={{\"parameter\": value}}'; got {text!r}.")
    return name.strip(), json.loads(parameters)


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with suite/ and large/; needed unless --report is given")
    parser.add_argument("--out", type=Path, default=Path("out/uncertainty"))
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--only", nargs="*", help="names of tables (default: all)")
    parser.add_argument("--contestants", nargs="*", help="names of contestants (default: all)")
    parser.add_argument("--only-peers", action="store_true", help="without agbm")
    parser.add_argument("--ours", action="append", default=[], type=of_ours, help="'name={JSON of parameters}'")
    parser.add_argument("--splits", type=int, default=1, help="number of splits")
    parser.add_argument("--rows", type=int, default=15_000, help="maximum number of rows for fitting")
    parser.add_argument("--iterations", type=int, default=2_000, help="maximum number where there is early stopping")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    parser.add_argument("--report", action="store_true", help="only write the page")
    args = parser.parse_args()
    if args.data is None and not args.report:
        parser.error("--data is needed, unless --report is given")
    return args


def main() -> None:
    """Measure what is missing and write the page."""
    args = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)  # of MAPIE, for quantiles that cross
    os.environ["LOKY_MAX_CPU_COUNT"] = str(args.threads)  # crepes asks joblib for as many threads as there are
    for name in () if args.report else args.parts:
        Benchmark(args, part_of(name)).run()
    records = [record for name in PARTS for record in read(args.out / f"{name}.jsonl", Record)]
    path = args.out / "uncertainty.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(records, args.rows, args.iterations))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
