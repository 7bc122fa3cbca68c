"""What counts.py, ranking.py and survival.py share: measurements, statistics, pages, and the command line.

Every result is appended to a file as soon as it is measured, so an interrupted benchmark can be resumed. A result is
measured again if the versions of its libraries, the parameters of agbm (including defaults) or the limits of the
benchmark change. Use a new folder `--out` after other changes of agbm.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.stats import t
from threadpoolctl import threadpool_limits

from benchmarks.libraries import Effort
from benchmarks.shared.document import table
from benchmarks.shared.records import Installed, OfContestant, append, read

CONFIDENCE = 0.95
TEST_TO_TRAINING = 1.0 / 3.0
"""Ratio of test rows to the others, for splits with 25 % test rows."""

Interval = tuple[float, float, float]
"""A mean and the bounds of its 95 % interval."""
P = TypeVar("P")


@dataclass(frozen=True)
class Fitted:
    """What a fit gave: predictions for the test rows, the seconds of training, and the number of trees it grew."""

    predicted: Any
    seconds: float
    trees: int = 0


@dataclass(frozen=True)
class Contestant(Installed, Generic[P]):
    """A library with settings."""

    name: str
    fit: Callable[[P, Effort], Fitted]
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


def measured(record: Record, contestant: Contestant[P], problem: P, run: Effort, score: Score[P]) -> Record:
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
            problem, run = trial.split(split), Effort(args.iterations, split, args.threads)
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


def over_splits(values: Sequence[float], test_to_training: float = TEST_TO_TRAINING) -> Interval:
    """The mean over repeated random splits, by the t-distribution with the variance of Nadeau and Bengio (2003).

    Training rows of random splits overlap, so the variance of the mean of k values is larger than that of k independent
    ones: it is estimated by (1 / k + n_test / n_training) times the sample variance. The bounds of a single value are
    infinite.
    """
    mean, k = float(np.mean(values)), len(values)
    if k < 2:
        return mean, -np.inf, np.inf
    variance = (1.0 / k + test_to_training) * float(np.var(values, ddof=1))
    margin = float(t.ppf((1.0 + CONFIDENCE) / 2.0, k - 1)) * variance**0.5
    return mean, mean - margin, mean + margin


def over_queries(values: Sequence[float], n_samples: int = 10_000, seed: int = 0) -> Interval:
    """The mean over queries with its percentile bootstrap interval; queries are resampled with replacement."""
    own, rng = np.asarray(values, float), np.random.default_rng(seed)
    sums = np.zeros(n_samples)
    for start in range(0, n_samples, 500):  # in blocks, which bounds the memory for thousands of queries
        block = rng.integers(len(own), size=(min(500, n_samples - start), len(own)))
        sums[start : start + len(block)] = own[block].sum(axis=1)
    low, high = np.quantile(sums / len(own), [(1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0])
    return float(np.mean(own)), float(low), float(high)


def verdict(interval: Interval, higher_is_better: bool) -> str:
    """What the interval of a difference, ours minus theirs, says about us."""
    _, low, high = interval
    if low <= 0.0 <= high:
        return "within the interval"
    return "better" if (low > 0.0) == higher_is_better else "worse"


@dataclass(frozen=True)
class Shown:
    """A score, and how it is shown."""

    name: str
    higher_is_better: bool
    decimals: int


class Results:
    """The values of all contestants by table, in the order of their splits."""

    def __init__(self, records: Sequence[Record], interval: Callable[[Sequence[float]], Interval]) -> None:
        self.interval = interval
        self.failed = [record for record in records if record.values is None]
        self.records = sorted((r for r in records if r.values is not None), key=lambda record: record.split)
        self.tasks = sorted({record.task for record in self.records})
        self.contestants = list(dict.fromkeys(record.contestant for record in records if record.values is not None))
        self.ours = [who for who in self.contestants if any(r.is_ours for r in self.records if r.contestant == who)]
        self.peers = [who for who in self.contestants if who not in self.ours]

    def of(self, who: str, task: str) -> list[Record]:
        """The records of a contestant on a table."""
        return [record for record in self.records if (record.contestant, record.task) == (who, task)]

    def values(self, who: str, task: str, score: str) -> dict[int, list[float]]:
        """The values of a score by split; without splits where the contestant does not have it."""
        found = {record.split: (record.values or {}).get(score) for record in self.of(who, task)}
        return {split: values for split, values in found.items() if values is not None}

    def mean(self, who: str, task: str, score: str) -> Interval | None:
        """The mean of a score over all splits with its interval."""
        values = [value for own in self.values(who, task, score).values() for value in own]
        return self.interval(values) if values else None

    def best_peer(self, task: str, score: Shown) -> str | None:
        """The peer with the best mean on the test rows, of those which have all splits that any has."""
        found = {who: self.values(who, task, score.name) for who in self.peers}
        most = max(map(len, found.values()), default=0)
        means = {
            who: float(np.mean([value for values in own.values() for value in values]))
            for who, own in found.items()
            if own and len(own) == most
        }
        if not means:
            return None
        return (max if score.higher_is_better else min)(means, key=lambda who: means[who])

    def difference(self, who: str, other: str, task: str, score: str) -> Interval | None:
        """The mean paired difference between two contestants over the splits that both have."""
        mine, theirs = self.values(who, task, score), self.values(other, task, score)
        pairs = [pair for split in mine.keys() & theirs.keys() for pair in zip(mine[split], theirs[split], strict=True)]
        return self.interval([own - peer for own, peer in pairs]) if pairs else None

    def seconds(self, who: str, task: str) -> dict[int, float]:
        """The seconds of training by split."""
        return {record.split: record.seconds or 0.0 for record in self.of(who, task)}


def means(results: Results, score: Shown) -> Iterator[str]:
    """A table of means with their intervals: a row per table, a column per contestant."""

    def cell(who: str, task: str) -> str:
        found = results.mean(who, task, score.name)
        if found is None:
            return ""
        mean, low, high = (f"{value:.{score.decimals}f}" for value in found)
        return f"{mean} ({low} to {high})"

    having = [
        who for who in results.contestants if any(results.values(who, task, score.name) for task in results.tasks)
    ]
    rows = [[task, *(cell(who, task) for who in having)] for task in results.tasks]
    direction = "higher is better" if score.higher_is_better else "lower is better"
    yield from (f"### {score.name}", "", f"Means with 95 % intervals; {direction}.", "")
    yield from (*table(["table", *having], rows), "")


def differences(results: Results, scores: Sequence[Shown]) -> Iterator[str]:
    """A table of the paired differences between our contestants and the best peer of each table and score."""
    rows = []
    for who in results.ours:
        for task in results.tasks:
            for score in scores:
                best = results.best_peer(task, score)
                found = None if best is None else results.difference(who, best, task, score.name)
                if best is not None and found is not None:
                    mean, low, high = (f"{value:+.{score.decimals}f}" for value in found)
                    said = verdict(found, score.higher_is_better)
                    rows.append([who, task, score.name, best, said, f"{mean} ({low} to {high})"])
    if rows:
        heads = ["contestant", "table", "score", "best peer", "verdict", "ours - best peer"]
        yield from ("### Differences to the best peer", "", *table(heads, rows, left=5), "")


def seconds(results: Results, reference: str) -> Iterator[str]:
    """A table of the seconds of training, as ratios to a contestant: geometric means over the splits."""
    rows = []
    for task in results.tasks:
        base = results.seconds(reference, task)
        cells = []
        for who in results.contestants:
            own = results.seconds(who, task)
            both = [own[split] / base[split] for split in own.keys() & base.keys() if base[split] > 0.0]
            cells.append(f"{np.exp(np.mean(np.log(both))):.2f}" if both and min(both) > 0.0 else "")
        rows.append([task, *cells])
    title = f"### Seconds of training relative to {reference}"
    yield from (title, "", *table(["table", *results.contestants], rows), "")


def failures(results: Results) -> Iterator[str]:
    """The fits that failed, if any."""
    if results.failed:
        rows = [[r.contestant, r.task, str(r.split), (r.error or "").replace("|", "/")] for r in results.failed]
        yield from ("### Failed fits", "", *table(["contestant", "table", "split", "error"], rows, left=4), "")


def origin(results: Results) -> str:
    """A line about splits, threads and versions."""
    splits = {task: len({r.split for r in results.records if r.task == task}) for task in results.tasks}
    threads = ", ".join(map(str, sorted({record.threads for record in results.records})))
    versions = ", ".join(sorted({one for record in results.records for one in record.version.split(", ")}))
    counted = ", ".join(f"{task} {n}" for task, n in splits.items())
    return f"Splits: {counted}. Threads: {threads}. Versions: {versions}."


def section(results: Results, scores: Sequence[Shown], reference: str) -> list[str]:
    """All tables about some results."""
    lines = [origin(results), "", *differences(results, scores)]
    for score in scores:
        lines += means(results, score)
    return [*lines, *seconds(results, reference), *failures(results)]
