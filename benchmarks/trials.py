"""What counts.py, ranking.py and survival.py share: contestants, measurements of them, and the command line.

Every result is appended to a file as soon as it is measured, so an interrupted benchmark can be resumed. A result is
measured again if the versions of its libraries, the parameters of agbm (including defaults) or the limits of the
benchmark change. Use a new folder `--out` after other changes of agbm.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from records import Installed, OfContestant, append, read

PATIENCE = 50
"""Iterations without improvement on the validation rows after which every library stops."""

Array = np.ndarray[Any, Any]
P = TypeVar("P")


@dataclass(frozen=True)
class Run:
    """How to fit: the maximum number of iterations, a seed and a number of threads."""

    iterations: int
    seed: int
    threads: int


@dataclass(frozen=True)
class Fitted:
    """What a fit gave: predictions for the test rows, the seconds of training, and the number of trees it grew."""

    predicted: Any
    seconds: float
    trees: int = 0


def timed(fit: Callable[..., object], *args: Any, **keywords: Any) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    fit(*args, **keywords)
    return time.perf_counter() - began


@dataclass(frozen=True)
class Contestant(Installed, Generic[P]):
    """A library with settings."""

    name: str
    fit: Callable[[P, Run], Fitted]
    packages: tuple[str, ...]
    settings: str = ""
    """Settings besides those in the code, as text: a result is measured again when they change."""


@dataclass(frozen=True)
class Record(OfContestant):
    """One measurement, a line of a results file. Values, seconds and trees are None if the fit failed."""

    task: str
    split: int
    contestant: str
    is_ours: bool
    settings: str
    version: str
    limits: str
    """Limits of the benchmark, such as the maximum number of rows, as text."""
    threads: int
    values: dict[str, list[float]] | None = None
    """The values of each score: one per query for rankings, otherwise one for the split."""
    seconds: float | None = None
    trees: int | None = None
    error: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The fields that decide whether a measurement is there already."""
        return (self.task, self.split, *self.variant, self.limits, self.threads)


@dataclass(frozen=True)
class Trial(Generic[P]):
    """A table with its splits, none of which is made before it is needed."""

    name: str
    n_splits: int
    split: Callable[[int], P]


Score = Callable[[Any, P], dict[str, list[float]]]


def measured(record: Record, contestant: Contestant[P], problem: P, run: Run, score: Score[P]) -> Record:
    """The record with the values of a contestant, or with the error that it raised."""
    try:
        with threadpool_limits(run.threads):
            fitted = contestant.fit(problem, run)
        values = score(fitted.predicted, problem)
        unknown = [name for name, found in values.items() if not all(map(math.isfinite, found))]
        if unknown:
            return replace(record, error=f"not finite: {', '.join(unknown)}")
    except Exception as error:  # a library that cannot be fitted to a table must not stop the others
        text = next(iter(str(error).splitlines()), "")
        return replace(record, error=f"{type(error).__name__}: {text}"[:300])
    rounded = {name: [float(f"{value:.8g}") for value in found] for name, found in values.items()}
    return replace(record, values=rounded, seconds=fitted.seconds, trees=int(fitted.trees))


def progress(record: Record) -> str:
    """A line about a record."""
    where = f"{record.task}, split {record.split}: {record.contestant}"
    if record.values is None:
        return f"{where} failed: {record.error}"
    figures = ", ".join(f"{name} {np.mean(found):.5g}" for name, found in record.values.items())
    return f"{where}: {figures}, {record.trees} trees, {record.seconds:.2f} s"


def installed(contestants: Iterable[Contestant[P]], names: Sequence[str] | None) -> list[tuple[Contestant[P], str]]:
    """The contestants with these names (None: all) whose libraries are installed, with their versions."""
    found = []
    for contestant in contestants:
        if names is not None and contestant.name not in names:
            continue
        known = contestant.version()
        if known is None:
            print(f"{contestant.name} is skipped: {' or '.join(contestant.packages)} is not installed")
        else:
            found.append((contestant, known))
    return found


def measure(
    path: Path, trials: Iterable[Trial[P]], contestants: Iterable[Contestant[P]], score: Score[P],
    args: argparse.Namespace, limits: str,
) -> None:  # fmt: skip
    """Measure everything that is not stored yet, one fit at a time."""
    present = installed(contestants, args.contestants)
    done = {record.key for record in read(path, Record) if record.error is None or not args.retry}

    def pending(trial: Trial[P], split: int) -> Iterator[tuple[Contestant[P], Record]]:
        for contestant, known in present:
            record = Record(
                trial.name, split, contestant.name, contestant.is_ours, contestant.settings, known, limits, args.threads
            )
            if record.key not in done:
                yield contestant, record

    for trial in trials:
        for split in range(trial.n_splits):
            missing = list(pending(trial, split))
            if not missing:
                continue
            problem, run = trial.split(split), Run(args.iterations, split, args.threads)
            for contestant, record in missing:
                record = measured(record, contestant, problem, run, score)
                append(path, record)
                print(progress(record), flush=True)


def current(records: Sequence[Record], limits: str) -> list[Record]:
    """The records with these limits; of contestants with several versions or settings, those of the last record."""
    records = [record for record in records if record.limits == limits]
    last = {record.contestant: record.variant for record in records}
    newest = {record.key: record for record in records if record.variant == last[record.contestant]}
    return list(newest.values())


def chosen(trials: Sequence[Trial[P]], only: Sequence[str] | None) -> list[Trial[P]]:
    """The trials with these names (None: all)."""
    unknown = set(only or ()) - {trial.name for trial in trials}
    if unknown:
        names = ", ".join(trial.name for trial in trials)
        raise ValueError(f"Unknown tables: {', '.join(sorted(unknown))}. Tables: {names}.")
    return [trial for trial in trials if only is None or trial.name in only]


def settings_of(estimator: Any, parameters: dict[str, Any]) -> str:
    """All parameters as text, so that changed defaults also count as changed settings."""
    return json.dumps({**estimator.get_params(deep=False), **parameters}, sort_keys=True, default=str)


def of_ours(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a contestant of agbm from 'name={"parameter": value, ...}'."""
    name, equals, parameters = text.partition("=")
    if not equals:
        raise ValueError(f"--ours must be 'name={{\"parameter\": value}}'; got {text!r}.")
    return name.strip(), json.loads(parameters)


def parser_of(description: str | None, out: str) -> argparse.ArgumentParser:
    """A parser with the arguments that all of these benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with suite/; needed unless --report is given")
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--only", nargs="*", help="names of tables (default: all)")
    parser.add_argument("--contestants", nargs="*", help="names of contestants (default: all)")
    parser.add_argument("--ours", action="append", default=[], type=of_ours, help="'name={JSON of parameters}'")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1_000, help="maximum number where there is early stopping")
    parser.add_argument("--retry", action="store_true", help="repeat fits that failed")
    parser.add_argument("--report", action="store_true", help="only write the page")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of the command line."""
    args = parser.parse_args()
    if args.data is None and not args.report:
        parser.error("--data is needed, unless --report is given")
    return args
