"""The page of suite.py, from its stored results."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import cast

import numpy as np
from scipy.stats import rankdata, t

from benchmarks.quality.contestants import EARLY_STOPPING, ONE_OF_OURS, OURS, REFERENCE, TUNED_PLAIN
from benchmarks.shared.document import table

BySeed = Mapping[int, float]
BySet = Mapping[str, BySeed]
"""A figure for every set and seed."""

NOTICEABLE = 0.001
"""Relative difference of losses that counts as a win or a loss if there is only one seed."""
CONFIDENCE = 0.95
METRICS = {
    "binary": "log loss", "multiclass": "log loss", "regression": "mean squared error", "count": "Poisson deviance",
}  # fmt: skip
EXTREME = "shuttle"
"""Its losses are tiny, and its ratios would dominate a mean."""
FAR_BEHIND = 0.03
TIMES = ("seconds", "prediction_seconds")


def log_ratios(mine: BySeed, other: BySeed) -> np.ndarray:
    """Logarithms of the ratios for the seeds that both have."""
    return np.array([np.log(mine[seed] / other[seed]) for seed in sorted(mine.keys() & other.keys())])


def ratios(mine: BySet, other: BySet) -> dict[str, float]:
    """For every set that both have, the geometric mean of the ratios over the seeds."""
    found = {name: log_ratios(mine[name], other[name]) for name in sorted(mine.keys() & other.keys())}
    return {name: float(np.exp(np.mean(logs))) for name, logs in found.items() if len(logs)}


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; NaN if there are no values."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def verdict(logs: np.ndarray) -> int:
    """-1 (a win), 0 (a tie) or 1 (a loss) from the log ratios of one set, one per seed.

    Several seeds: whether the 95 % interval of their mean, by the t-distribution, excludes 0. One seed: whether the
    losses differ by more than 0.1 %.
    """
    mean = float(np.mean(logs))
    if len(logs) == 1:
        margin = float(np.log1p(NOTICEABLE))
    else:
        quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1))
        margin = quantile * float(np.std(logs, ddof=1)) / float(np.sqrt(len(logs)))
    return 0 if abs(mean) <= margin else int(np.sign(mean))


def bootstrap_interval(values: Sequence[float], n_samples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the geometric mean of ratios, resampling the sets."""
    logs = np.log(values)
    chosen = np.random.default_rng(seed).integers(len(logs), size=(n_samples, len(logs)))
    low, high = np.quantile(logs[chosen].mean(axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(np.exp(low)), float(np.exp(high))


@dataclass(frozen=True)
class Comparison:
    """One contestant compared with another over all sets that both have."""

    by_set: dict[str, float]
    wins: int
    ties: int
    losses: int

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return geometric_mean(list(self.by_set.values()))

    @property
    def worst(self) -> str:
        """The set with the highest ratio."""
        return max(self.by_set, key=lambda name: self.by_set[name])


def compare(mine: BySet, other: BySet) -> Comparison:
    """Compare the losses of a contestant with those of another."""
    by_set = ratios(mine, other)
    verdicts = [verdict(log_ratios(mine[name], other[name])) for name in by_set]
    return Comparison(by_set, verdicts.count(-1), verdicts.count(0), verdicts.count(1))


def means(figures: BySet) -> dict[str, float]:
    """The mean over the seeds of every set."""
    return {name: float(np.mean(list(by_seed.values()))) for name, by_seed in figures.items()}


def common_sets(losses: Mapping[str, BySet]) -> list[str]:
    """The sets that all contestants have."""
    return sorted(set.intersection(*(set(by_set) for by_set in losses.values()))) if losses else []


def mean_ranks(losses: Mapping[str, BySet]) -> dict[str, float]:
    """Mean rank (1 is the lowest loss; equal losses share ranks) over the sets that all contestants have.

    The loss of a set is the mean over the seeds that all contestants have.
    """
    columns = []
    for name in common_sets(losses):
        seeds = set.intersection(*(set(by_set[name]) for by_set in losses.values()))
        if seeds:
            columns.append([np.mean([by_set[name][seed] for seed in seeds]) for by_set in losses.values()])
    if not columns:
        return dict.fromkeys(losses, float("nan"))
    return dict(zip(losses, np.mean(rankdata(columns, axis=1), axis=0).tolist(), strict=True))


def halves(kinds: Mapping[str, str]) -> dict[str, str]:
    """The half, A or B, of every set, from its kind: the sets of each kind alternate in the order of their names."""
    order = sorted(kinds, key=lambda name: (kinds[name], name))
    return dict(zip(order, cycle("AB"), strict=False))


@dataclass(frozen=True)
class Choice:
    """A choice between contestants: made on each half of the sets, and verified on the other."""

    ratios: dict[str, dict[str, float]]
    """Geometric mean ratio to the reference by half (A, B) and contestant."""
    chosen: dict[str, str]
    """The contestant with the lowest ratio by half."""
    cross_verified: float
    """Geometric mean ratio to the reference over all sets, each with the contestant chosen on the other half."""


def choose(losses: Mapping[str, BySet], reference: BySet, half_of: Mapping[str, str]) -> Choice:
    """Choose between contestants, over the sets that all of them and the reference have."""
    sets = common_sets({**losses, "": reference})
    by_set = {who: ratios(own, reference) for who, own in losses.items()}
    members = {half: [name for name in sets if half_of[name] == half] for half in "AB"}
    found = {
        half: {who: geometric_mean([own[name] for name in names]) for who, own in by_set.items()}
        for half, names in members.items()
    }
    chosen = {half: min(of_half, key=lambda who: of_half[who]) for half, of_half in found.items()}
    verified = [by_set[chosen["A" if half_of[name] == "B" else "B"]][name] for name in sets]
    return Choice(found, chosen, geometric_mean(verified))


@dataclass(frozen=True)
class Record:
    """One measurement, a line of the results file. The figures are None if the fit failed."""

    task: str
    kind: str
    half: str
    seed: int
    protocol: str
    contestant: str
    settings: str
    version: str
    rows: int
    iterations: int
    """Maximum number of iterations; 0 for `out of the box`, where each library has its own."""
    threads: int
    machine: str
    models: int = 1
    """Number of models whose average predicts."""
    loss: float | None = None
    validation_loss: float | None = None
    trees: int | None = None
    kept_iterations: int | None = None
    seconds: float | None = None
    prediction_seconds: float | None = None
    staged_losses: list[float] | None = None
    """Test losses after each iteration, for some contestants."""
    error: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The fields that decide whether a measurement is there already."""
        return (self.task, self.seed, *self.variant, self.rows, self.iterations)

    @property
    def variant(self) -> tuple[str, str, str, str]:
        """Protocol and contestant with its version and settings."""
        return self.protocol, self.contestant, self.version, self.settings


class Results:
    """The records of one protocol with the same limits on rows and iterations.

    If a contestant was measured with several versions or settings, only those of its last record count. Times are those
    of one machine: the one with most records.
    """

    def __init__(self, records: Sequence[Record], protocol: str, rows: int, iterations: int) -> None:
        limit = iterations if protocol == EARLY_STOPPING else 0
        records = [r for r in records if (r.protocol, r.rows, r.iterations) == (protocol, rows, limit)]
        last = {record.contestant: record.variant for record in records}
        current = [record for record in records if record.variant == last[record.contestant]]
        self.records = [record for record in current if record.error is None]
        measured = {record.key for record in self.records}
        self.failed = [record for record in current if record.error is not None and record.key not in measured]
        self.kinds = {record.task: record.kind for record in records}
        self.halves = {record.task: record.half for record in records}
        self.contestants = list(dict.fromkeys(record.contestant for record in records))
        self.models = {record.contestant: record.models for record in self.records}
        self.machine = next((name for name, _ in Counter(r.machine for r in self.records).most_common(1)), "")

    def of(self, contestant: str, field: str, sets: Sequence[str] | None = None) -> BySet:
        """A figure of a contestant by set and seed, bounded below so that it has ratios: a model may have no trees."""
        least = 1.0 if field == "trees" else 1e-12
        found: dict[str, dict[int, float]] = {}
        for record in self.records:
            if field in TIMES and record.machine != self.machine:
                continue
            if record.contestant == contestant and (sets is None or record.task in sets):
                found.setdefault(record.task, {})[record.seed] = max(float(getattr(record, field)), least)
        return found

    def losses(self, sets: Sequence[str] | None = None) -> dict[str, BySet]:
        """Losses of all contestants that have some."""
        found = {who: self.of(who, "loss", sets) for who in self.contestants}
        return {who: by_set for who, by_set in found.items() if by_set}


def _ratio(value: float, digits: int = 4) -> str:
    return "" if value != value else f"{value:.{digits}f}"


def _relative(results: Results, who: str, field: str, sets: Sequence[str], digits: int) -> str:
    """The geometric mean of the ratios of a figure to that of the reference."""
    found = ratios(results.of(who, field, sets), results.of(REFERENCE, field, sets))
    return _ratio(geometric_mean(list(found.values())), digits)


def summary(results: Results) -> list[str]:
    """A table with one row per contestant, over the sets that all of them have; means leave the extreme one out."""
    losses = results.losses()
    ranks, sets = mean_ranks(losses), [name for name in common_sets(losses) if name != EXTREME]
    halves_of = [[name for name in sets if results.halves[name] == half] for half in "AB"]
    heads = [
        "contestant", "models", "test loss", "half A", "half B", "mean rank", "fit time", "prediction time", "trees",
    ]  # fmt: skip
    rows = [
        [
            who, str(results.models[who]), _relative(results, who, "loss", sets, 4),
            *(_relative(results, who, "loss", own, 4) for own in halves_of), _ratio(ranks[who], 2),
            *(_relative(results, who, field, sets, 2) for field in (*TIMES, "trees")),
        ]
        for who in sorted(losses, key=lambda who: (ranks[who], who))
    ]  # fmt: skip
    return table(heads, rows)


def pairs(results: Results, mine: str) -> list[str]:
    """A table of one contestant compared with each other one."""
    heads = [f"{mine} against", "loss ratio", "95 % interval", "wins / ties / losses", "worst set"]
    rows = []
    for who in results.contestants:
        found = compare(results.of(mine, "loss"), results.of(who, "loss"))
        usual = [ratio for name, ratio in found.by_set.items() if name != EXTREME]
        if who == mine or not usual:
            continue
        low, high = bootstrap_interval(usual)
        rows.append([
            who, _ratio(geometric_mean(usual)), f"{low:.4f} to {high:.4f}",
            f"{found.wins} / {found.ties} / {found.losses}",
            f"{found.worst} ({found.by_set[found.worst]:.3f})",
        ])  # fmt: skip
    return table(heads, rows)


def where_behind(results: Results, mine: str) -> str:
    """A sentence about the sets on which a contestant is far behind the best other library."""
    worst: dict[str, tuple[float, str]] = {}
    for who in (who for who in results.contestants if not who.startswith(OURS)):
        for name, ratio in ratios(results.of(mine, "loss"), results.of(who, "loss")).items():
            worst[name] = max(worst.get(name, (0.0, "")), (ratio, who))
    behind = sorted(
        ((ratio, name, who) for name, (ratio, who) in worst.items() if ratio > 1 + FAR_BEHIND), reverse=True
    )
    named = ", ".join(f"{name} ({100 * ratio - 100:.0f} %, {who})" for ratio, name, who in behind)
    where = f"{len(behind)} of {len(worst)} data sets" + (f": {named}" if behind else "")
    return f"{mine} is more than {100 * FAR_BEHIND:g} % behind the best other library on {where}."


def trees_to_reach(results: Results, mine: str, other: str) -> Iterator[str]:
    """A sentence about the trees that one contestant needs for the test loss of another."""
    aims = {(r.task, r.seed): r for r in results.records if r.contestant == other}
    ratios_of_trees, n_reached = [], 0
    for record in results.records:
        aim = aims.get((record.task, record.seed))
        if record.contestant != mine or aim is None or not record.staged_losses:
            continue
        needed = next((i for i, value in enumerate(record.staged_losses, 1) if value <= cast(float, aim.loss)), None)
        n_reached += needed is not None
        iterations = max(len(record.staged_losses), cast(int, aim.kept_iterations)) if needed is None else needed
        ratios_of_trees.append(iterations / max(cast(int, aim.kept_iterations), 1))
    if ratios_of_trees:
        yield (
            f"{mine} reaches the test loss of {other} in {n_reached} of {len(ratios_of_trees)} fits, with "
            f"{geometric_mean(ratios_of_trees):.2f} of its trees (geometric mean over all fits; a loss that is not "
            "reached counts as all trees of the one that has more)."
        )


FIGURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "test loss": ("loss", lambda value: f"{value:.5g}"),
    "seconds of the fit": ("seconds", lambda value: f"{value:.2f}"),
    "milliseconds of the predictions": ("prediction_seconds", lambda value: f"{1000 * value:.1f}"),
    "trees": ("trees", lambda value: f"{value:.0f}"),
}
"""Columns of the file with all sets: a field of the records, and how it is shown."""
RATIO = f"test loss of {OURS} / test loss"


def every_set(results: Results, protocol: str) -> Iterator[dict[str, str]]:
    """The figures of every set and contestant: means over the splits, and ratios of losses on the same splits."""
    mine = results.of(OURS, "loss")
    for who in results.contestants:
        relative = ratios(mine, results.of(who, "loss"))
        figures = {head: means(results.of(who, field)) for head, (field, _) in FIGURES.items()}
        for name in sorted(results.kinds, key=lambda name: (results.kinds[name], name)):
            yield {
                "protocol": protocol, "set": name, "kind": results.kinds[name], "half": results.halves[name],
                "contestant": who,
                **{head: FIGURES[head][1](of[name]) if name in of else "" for head, of in figures.items()},
                RATIO: f"{relative[name]:.4f}" if name in relative else "",
            }  # fmt: skip


def as_csv(records: Sequence[Record], protocols: Sequence[str], rows: int, iterations: int) -> str:
    """The file with the figures of every set."""
    found = [row for protocol in protocols for row in every_set(Results(records, protocol, rows, iterations), protocol)]
    text = io.StringIO()
    writer = csv.DictWriter(text, found[0] if found else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def failures(results: Results) -> Iterator[str]:
    """The fits that failed, if any."""
    if results.failed:
        yield from ("### Failed fits", "")
        rows = [[r.contestant, r.task, str(r.seed), (r.error or "").replace("|", "/")] for r in results.failed]
        yield from (*table(["contestant", "set", "seed", "error"], rows, left=4), "")


def section(results: Results, protocol: str) -> Iterator[str]:
    """The part of the page about one protocol."""
    threads = sorted({record.threads for record in results.records})
    seeds = len({record.seed for record in results.records})
    times = f"threads: {', '.join(map(str, threads))}. Times: {results.machine}"
    yield from (
        f"## Protocol: {protocol}", "",
        f"{len(results.kinds)} sets, {seeds} {'split' if seeds == 1 else 'splits'}, {times}. The first table has the "
        f"{len(common_sets(results.losses()))} sets of all contestants.", "",
        *summary(results), "",
    )  # fmt: skip
    if OURS in results.contestants:
        yield from (f"### {OURS} compared with each contestant", "", *pairs(results, OURS), "")
        yield from (where_behind(results, OURS), "")
    yield from (*trees_to_reach(results, ONE_OF_OURS, TUNED_PLAIN), "")
    yield from failures(results)


def page(records: Sequence[Record], protocols: Sequence[str], rows: int, iterations: int) -> list[str]:
    """The lines of the page, in Markdown."""
    versions = {r.contestant: f"{r.contestant} {r.version}" for r in records if _names_version(r.contestant)}
    metrics = ", ".join(f"{metric} ({kind})" for kind, metric in METRICS.items())
    lines = [
        f"At most {rows:,} training rows per set; `early stopping` has at most {iterations:,} iterations. "
        f"Versions: {', '.join(versions.values())}.", "",
        f"Losses are on test rows: {metrics}. Losses, times and numbers of trees are relative to {REFERENCE}: "
        f"geometric means over sets, without {EXTREME}, below 1 is better. The test loss is also given for two halves "
        'of the sets. "Models" is the number of models whose average predicts. A win (loss) is a set on which the '
        "95 % interval of the mean log ratio over the splits lies below (above) 0, or, for a single split, a "
        "difference of more than 0.1 %. Intervals of ratios are from a bootstrap over sets.", "",
    ]  # fmt: skip
    for protocol in protocols:
        results = Results(records, protocol, rows, iterations)
        if results.records:
            lines += section(results, protocol)
    return lines


def _names_version(contestant: str) -> bool:
    """Whether the version of a contestant is not that of another one."""
    return not contestant.startswith(("five ", f"{OURS},"))


def choice(results: Results, names: Sequence[str]) -> Iterator[str]:
    """Lines about a choice between contestants, verified across the halves."""
    losses = {who: results.of(who, "loss") for who in names}
    base = results.of(REFERENCE, "loss")
    if not common_sets({**losses, REFERENCE: base}):
        yield f"no set was measured for all of {', '.join([*names, REFERENCE])}"
        return
    found = choose(losses, base, results.halves)
    for who in names:
        of_half = [f"{half} {found.ratios[half][who]:.4f}" for half in "AB"]
        yield f"{who}: loss / {REFERENCE} on {', '.join(of_half)}"
    for half, other in ("AB", "BA"):
        who = found.chosen[half]
        yield f"chosen on {half}: {who} ({found.ratios[half][who]:.4f}), on {other} {found.ratios[other][who]:.4f}"
    yield f"cross-verified: {found.cross_verified:.4f}"
