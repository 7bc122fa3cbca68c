"""The page of suite.py, from its stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from document import table
from suite_contestants import GIVEN, ONE_OF_OURS, OURS, PLAIN_OURS, TUNED_PLAIN
from suite_statistics import (
    BySet,
    bootstrap_interval,
    choose,
    common_sets,
    compare,
    geometric_mean,
    mean_ranks,
    means,
    ratios,
)

METRICS = {
    "binary": "log loss", "multiclass": "log loss", "regression": "mean squared error", "count": "Poisson deviance",
}  # fmt: skip
BASES_OF_TIME = ("LightGBM", "CatBoost")


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
    loss: float | None = None
    validation_loss: float | None = None
    trees: int | None = None
    kept_iterations: int | None = None
    seconds: float | None = None
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

    If a contestant was measured with several versions or settings, only those of its last record count.
    """

    def __init__(self, records: Sequence[Record], protocol: str, rows: int, iterations: int) -> None:
        limit = iterations if protocol == GIVEN else 0
        records = [r for r in records if (r.protocol, r.rows, r.iterations) == (protocol, rows, limit)]
        last = {record.contestant: record.variant for record in records}
        current = [record for record in records if record.variant == last[record.contestant]]
        self.records = [record for record in current if record.error is None]
        measured = {record.key for record in self.records}
        self.failed = [record for record in current if record.error is not None and record.key not in measured]
        self.kinds = {record.task: record.kind for record in records}
        self.halves = {record.task: record.half for record in records}
        self.contestants = list(dict.fromkeys(record.contestant for record in records))

    def of(self, contestant: str, field: str, sets: Sequence[str] | None = None) -> BySet:
        """A figure of a contestant by set and seed, bounded below so that it has ratios: a model may have no trees."""
        least = 1.0 if field == "trees" else 1e-12
        found: dict[str, dict[int, float]] = {}
        for record in self.records:
            if record.contestant == contestant and (sets is None or record.task in sets):
                found.setdefault(record.task, {})[record.seed] = max(float(getattr(record, field)), least)
        return found

    def losses(self, sets: Sequence[str] | None = None) -> dict[str, BySet]:
        """Losses of all contestants that have some."""
        found = {who: self.of(who, "loss", sets) for who in self.contestants}
        return {who: by_set for who, by_set in found.items() if by_set}

    def in_half(self, half: str) -> list[str]:
        """The sets of a half."""
        return [name for name, its in self.halves.items() if its == half]


def _ratio(value: float, digits: int = 4) -> str:
    return "" if value != value else f"{value:.{digits}f}"


def _relative(results: Results, who: str, other: str, field: str, sets: Sequence[str] | None, digits: int) -> str:
    """The geometric mean of the ratios of a figure to that of another contestant."""
    found = ratios(results.of(who, field, sets), results.of(other, field, sets))
    return _ratio(geometric_mean(list(found.values())), digits)


def summary(results: Results, reference: str, sets: Sequence[str] | None = None) -> list[str]:
    """A table with one row per contestant, over the given sets or all of them."""
    losses = results.losses(sets)
    ranks, n_common = mean_ranks(losses), len(common_sets(losses))
    heads = [
        "contestant", "sets", f"loss / {reference}", f"mean rank ({n_common} sets)",
        *(f"seconds / {base}" for base in BASES_OF_TIME), f"trees / {PLAIN_OURS}",
    ]  # fmt: skip
    rows = [
        [
            who, str(len(losses[who])), _relative(results, who, reference, "loss", sets, 4), _ratio(ranks[who], 2),
            *(_relative(results, who, base, "seconds", sets, 2) for base in BASES_OF_TIME),
            _relative(results, who, PLAIN_OURS, "trees", sets, 2),
        ]
        for who in sorted(losses, key=lambda who: (ranks[who], who))
    ]  # fmt: skip
    return table(heads, rows)


def pairs(results: Results, mine: str) -> list[str]:
    """A table of one contestant compared with each other one."""
    heads = [f"{mine} against", "sets", "loss ratio", "95 % interval", "wins / ties / losses", "worst set"]
    rows = []
    for who in results.contestants:
        found = compare(results.of(mine, "loss"), results.of(who, "loss"))
        if who == mine or not found.by_set:
            continue
        low, high = bootstrap_interval(list(found.by_set.values()))
        rows.append([
            who, str(len(found.by_set)), _ratio(found.ratio), f"{low:.4f} to {high:.4f}",
            f"{found.wins} / {found.ties} / {found.losses}", f"{found.worst} ({found.by_set[found.worst]:.3f})",
        ])  # fmt: skip
    return table(heads, rows)


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


def _wide(results: Results, field: str, show: Callable[[float], str], lead: Mapping[str, list[str]]) -> list[str]:
    """A table with one row per set and one column per contestant: means over the seeds."""
    by_contestant = {who: means(results.of(who, field)) for who in results.contestants}
    rows = []
    for name in sorted(results.kinds, key=lambda name: (results.kinds[name], name)):
        figures = [show(own[name]) if name in own else "" for own in by_contestant.values()]
        rows.append([*lead[name], *figures])
    return table(["set", "kind", "half", *by_contestant], rows, left=3)


def every_set(results: Results) -> Iterator[str]:
    """Tables with the losses, seconds and trees of every set."""
    lead = {name: [name, kind, results.halves[name]] for name, kind in results.kinds.items()}
    shown: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("Test loss", "loss", lambda value: f"{value:.5g}"),
        ("Seconds", "seconds", lambda value: f"{value:.2f}"),
        ("Trees", "trees", lambda value: f"{value:.0f}"),
    )
    for title, field, show in shown:
        yield from (f"### {title}", "", *_wide(results, field, show, lead), "")


def failures(results: Results) -> Iterator[str]:
    """The fits that failed, if any."""
    if results.failed:
        yield from ("### Failed fits", "")
        rows = [[r.contestant, r.task, str(r.seed), (r.error or "").replace("|", "/")] for r in results.failed]
        yield from (*table(["contestant", "set", "seed", "error"], rows, left=4), "")


def section(results: Results, protocol: str, reference: str, with_halves: bool) -> Iterator[str]:
    """The part of the page about one protocol."""
    threads = sorted({record.threads for record in results.records})
    seeds = len({record.seed for record in results.records})
    yield from (
        f"## Protocol: {protocol}", "",
        f"{len(results.kinds)} sets, up to {seeds} splits each, threads: {', '.join(map(str, threads))}.", "",
        *summary(results, reference), "",
    )  # fmt: skip
    for half in "AB" if with_halves else "":
        sets = results.in_half(half)
        yield from (f"### Half {half} ({len(sets)} sets)", "", *summary(results, reference, sets), "")
    if OURS in results.contestants:
        yield from (f"### {OURS} compared with each contestant", "", *pairs(results, OURS), "")
    yield from (*trees_to_reach(results, ONE_OF_OURS, TUNED_PLAIN), "")
    yield from failures(results)
    yield from every_set(results)


def page(
    records: Sequence[Record], protocols: Sequence[str], rows: int, iterations: int, reference: str, with_halves: bool
) -> str:
    """The whole page, in Markdown."""
    lines = [
        "# Default settings on many tables", "",
        f"At most {rows:,} training rows per set. Protocol `given`: early stopping on the same validation rows for all "
        f"libraries, at most {iterations:,} iterations. Protocol `out of the box`: the defaults of each library. "
        "benchmarks/suite_contestants.py describes both.", "",
        f"Losses are on test rows: {', '.join(f'{metric} ({kind})' for kind, metric in METRICS.items())}. Ratios are "
        "geometric means over sets, below 1 is better; on each set, the ratio is the geometric mean over the splits. "
        "A win (loss) is a set on which the 95 % interval of the mean log ratio over the splits lies below (above) 0, "
        "or, for a single split, a difference of more than 0.1 %. Intervals of ratios are from a bootstrap over sets. "
        "Seconds are those of the whole fit, trees those of the model that predicts.", "",
    ]  # fmt: skip
    for protocol in protocols:
        results = Results(records, protocol, rows, iterations)
        if results.records:
            lines += section(results, protocol, reference, with_halves)
    return "\n".join(lines)


def choice(results: Results, names: Sequence[str], reference: str) -> Iterator[str]:
    """Lines about a choice between contestants, verified across the halves."""
    losses = {who: results.of(who, "loss") for who in names}
    base = results.of(reference, "loss")
    if not common_sets({**losses, reference: base}):
        yield f"no set was measured for all of {', '.join([*names, reference])}"
        return
    found = choose(losses, base, results.halves)
    for who in names:
        of_half = [f"{half} {found.ratios[half][who]:.4f}" for half in "AB"]
        yield f"{who}: loss / {reference} on {', '.join(of_half)}"
    for half, other in ("AB", "BA"):
        who = found.chosen[half]
        yield f"chosen on {half}: {who} ({found.ratios[half][who]:.4f}), on {other} {found.ratios[other][who]:.4f}"
    yield f"cross-verified: {found.cross_verified:.4f}"
