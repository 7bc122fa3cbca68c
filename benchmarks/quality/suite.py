"""Test losses, trees and seconds of gradient boosting libraries with default settings, on 43 real tables.

The folder `--data` contains `suite/` and `large/` (benchmarks/shared/tables.py). Every table is split into training,
validation and test rows (60, 15, 25 %), once per seed. benchmarks/quality/contestants.py describes the contestants and
the two protocols. Further settings of agbm can be added with `--ours 'name={"max_depth": 6}'`.

Every result is appended to a file as soon as it is measured, so an interrupted benchmark can be resumed. A result is
measured again if the version of its library, the parameters (including defaults) of agbm, `--rows` or `--iterations`
change. Use a new folder `--out` after other changes of agbm.

`--processes` measures several tables at a time, in the order of `--only`, each on cores of its own. All tables are
measured with the first split before the second begins. `--report` needs the file of results alone, and can therefore
be run on another machine; `--document docs/quality.md` inserts the results into that page, and writes the figures of
all sets to docs/quality.csv. `make figures` takes the first table and the first figure of the README from both.

`--choose` compares settings: it chooses among them on one half of the tables and reports the result on the other half.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.quality.contestants import EARLY_STOPPING, PROTOCOLS, Contestant, Run, built_in, from_text
from benchmarks.quality.report import Record, Results, as_csv, choice, halves, page
from benchmarks.shared.document import fill_in
from benchmarks.shared.measure import machine
from benchmarks.shared.processes import in_processes
from benchmarks.shared.records import append, read
from benchmarks.shared.tables import Problem, Task, all_tasks, loss, split


def measured(record: Record, contestant: Contestant, problem: Problem, run: Run) -> Record:
    """The record with the result of a fit, or with the error that it raised."""
    try:
        outcome = contestant.fit(problem, run)
        test_loss = loss(problem.kind, outcome.predicted, problem.test)
        if not math.isfinite(test_loss):
            return replace(record, error=f"the test loss is {test_loss}")
    except Exception as error:  # a library that cannot be fitted to a table must not stop the others
        text = next(iter(str(error).splitlines()), "")
        return replace(record, error=f"{type(error).__name__}: {text}"[:300])
    validation = None if math.isnan(outcome.validation_loss) else outcome.validation_loss
    return replace(
        record, loss=test_loss, validation_loss=validation, trees=outcome.trees, kept_iterations=outcome.iterations,
        seconds=outcome.seconds, prediction_seconds=outcome.prediction_seconds, models=outcome.models,
        staged_losses=[float(f"{value:.7g}") for value in outcome.staged_losses] or None,
    )  # fmt: skip


def progress(record: Record) -> str:
    """A line about a record."""
    where = f"{record.task}, seed {record.seed}, {record.protocol}: {record.contestant}"
    if record.error is not None:
        return f"{where} failed: {record.error}"
    return f"{where} loss {record.loss:.6g}, {record.trees} trees, {record.seconds:.2f} s"


class Benchmark:
    """All measurements that the arguments ask for."""

    def __init__(self, args: argparse.Namespace, contestants: Sequence[Contestant]) -> None:
        self._args = args
        self._tasks = all_tasks(args.data)
        unknown = set(args.only or ()) - set(self._tasks)
        if unknown:
            raise ValueError(f"Unknown tasks: {', '.join(sorted(unknown))}. Tasks: {', '.join(self._tasks)}.")
        self._halves = halves({name: task.kind for name, task in self._tasks.items()})
        self._contestants = [(contestant, contestant.version()) for contestant in contestants]
        for contestant, version in self._contestants:
            if version is None:
                print(f"{contestant.name} is skipped: {contestant.package} is not installed")
        facts = machine()
        self._machine = f"{facts.get('processor', 'unknown processor')}, {facts['cores']} cores, {facts['system']}"
        self._path: Path = args.out / "results.jsonl"
        self._done = {r.key for r in read(self._path, Record) if r.error is None or not args.retry}

    def run(self) -> None:
        """Measure everything that is not stored yet."""
        n_processes = self._args.processes
        splits = [(seed, name) for seed in range(self._args.seeds) for name in self._args.only or self._tasks]
        splits = [(seed, name) for seed, name in splits if any(self._pending(self._tasks[name], seed))]
        one_after_another = (record for split in splits for record in self._measured(split))
        at_a_time = in_processes(self._measured, splits, n_processes, self._args.threads)
        for record in one_after_another if n_processes == 1 else at_a_time:
            append(self._path, record)
            print(progress(record), flush=True)

    def _measured(self, seed_and_name: tuple[int, str]) -> Iterator[Record]:
        """The records of a split that are not stored yet, one fit at a time."""
        seed, name = seed_and_name
        task = self._tasks[name]
        problem = split(task, task.load(), seed, self._args.rows)
        for contestant, record in self._pending(task, seed):
            run = Run(record.protocol, self._args.iterations, seed, self._args.threads)
            yield measured(record, contestant, problem, run)

    def _pending(self, task: Task, seed: int) -> Iterator[tuple[Contestant, Record]]:
        """The records of a split, without results, that are not stored yet."""
        for protocol in self._args.protocols:
            for contestant, version in self._contestants:
                if version is None or protocol not in contestant.protocols:
                    continue
                record = Record(
                    task=task.name, kind=task.kind, half=self._halves[task.name], seed=seed, protocol=protocol,
                    contestant=contestant.name, settings=contestant.settings, version=version, rows=self._args.rows,
                    iterations=self._args.iterations if protocol == EARLY_STOPPING else 0, threads=self._args.threads,
                    machine=self._machine,
                )  # fmt: skip
                if record.key not in self._done:
                    yield contestant, record


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with suite/ and large/; needed unless --report is given")
    parser.add_argument("--out", type=Path, default=Path("out/suite"))
    parser.add_argument("--only", nargs="*", help="names of tasks (default: all)")
    parser.add_argument("--contestants", nargs="*", help="names of built-in contestants (default: all)")
    parser.add_argument("--ours", action="append", default=[], type=from_text, help="'name={JSON of parameters}'")
    parser.add_argument("--protocols", nargs="*", default=list(PROTOCOLS), choices=PROTOCOLS)
    parser.add_argument("--seeds", type=int, default=3, help="number of splits")
    parser.add_argument("--rows", type=int, default=15_000, help="maximum number of training rows")
    parser.add_argument("--iterations", type=int, default=2_000, help="maximum number for early stopping")
    parser.add_argument("--threads", type=int, default=2, help="threads of every fit")
    parser.add_argument("--processes", type=int, default=1, help="tables that are measured at a time")
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    parser.add_argument("--report", action="store_true", help="only write the page")
    parser.add_argument("--document", type=Path, help="page with a marker that the results are inserted into")
    parser.add_argument("--choose", nargs="*", default=[], metavar="NAME", help="choose among these contestants")
    args = parser.parse_args()
    if args.data is None and not args.report:
        parser.error("--data is needed, unless --report is given")
    return args


def chosen_contestants(args: argparse.Namespace) -> list[Contestant]:
    """The built-in contestants that were named, and those of --ours."""
    found = {contestant.name: contestant for contestant in built_in()}
    names = list(found) if args.contestants is None else args.contestants
    unknown = set(names) - set(found)
    if unknown:
        raise ValueError(f"Unknown contestants: {', '.join(sorted(unknown))}. Contestants: {', '.join(found)}.")
    return [*(found[name] for name in names), *args.ours]


def report(args: argparse.Namespace) -> None:
    """Write the page, and print what --choose asks for."""
    records = read(args.out / "results.jsonl", Record)
    lines = page(records, PROTOCOLS, args.rows, args.iterations)
    path = args.out / "suite.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["# Default settings on many tables", "", *lines]))
    by_set = as_csv(records, PROTOCOLS, args.rows, args.iterations)
    path.with_suffix(".csv").write_text(by_set)
    print(f"wrote {path} and {path.with_suffix('.csv')}")
    if args.document:
        fill_in(args.document, {"suite": lines})
        args.document.with_suffix(".csv").write_text(by_set)
        print(f"filled {args.document} in, and wrote {args.document.with_suffix('.csv')}")
    for protocol in args.protocols if args.choose else ():
        results = Results(records, protocol, args.rows, args.iterations)
        print("\n".join([f"\n{protocol}", *choice(results, args.choose)]))


def main() -> None:
    """Measure what is missing and write the page."""
    args = arguments()
    warnings.simplefilter("ignore")
    if not args.report:
        Benchmark(args, chosen_contestants(args)).run()
    report(args)


if __name__ == "__main__":
    main()
