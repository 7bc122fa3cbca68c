"""Pages about the results of counts.py, ranking.py and survival.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from document import table
from trials import Record
from trials_statistics import Interval, verdict


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
