"""The scores and the page of uncertainty.py, without the libraries that it compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm

from benchmarks.libraries import Array
from benchmarks.quality.report import geometric_mean
from benchmarks.shared.document import table
from benchmarks.shared.records import OfContestant

COVERAGE = 0.9
CENTRAL_LEVELS = ((1.0 - COVERAGE) / 2.0, (1.0 + COVERAGE) / 2.0)
"""Levels of the quantiles between which a target lies with the probability COVERAGE."""
LEVELS_OF_CRPS = np.arange(1, 100) / 100.0
BINS_OF_CALIBRATION = 15


def coverage(covered: Array) -> dict[str, float]:
    """The share of covered rows, with its counts."""
    return {"covered": int(np.sum(covered)), "test rows": len(covered), "coverage": float(np.mean(covered))}


def exact_interval(covered: int, n_rows: int) -> tuple[float, float]:
    """The 95 % interval of Clopper and Pearson for a share."""
    found = binomtest(covered, n_rows).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def of_intervals(bounds: Array, y: Array) -> dict[str, float]:
    """Coverage, mean width and mean Winkler (interval) score of intervals (row, bound)."""
    low, high = bounds[:, 0], bounds[:, 1]
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return {
        **coverage((low <= y) & (y <= high)),
        "width": float(np.mean(high - low)),
        "Winkler": float(np.mean(high - low + 2.0 / (1.0 - COVERAGE) * outside)),
    }


def pinball(predicted: Array, y: Array, level: float) -> Array:
    """The pinball loss per row of predictions for one level."""
    errors = y - predicted
    return np.maximum(level * errors, (level - 1.0) * errors)


def crossing(predicted: Array) -> float:
    """The share of rows in which a higher level has a lower prediction; columns are levels in ascending order."""
    return float(np.mean(np.any(np.diff(predicted, axis=1) < 0.0, axis=1)))


def normal_crps(mean: Array, std: Array, y: Array) -> Array:
    """The CRPS of normal distributions per row."""
    z = (y - mean) / std
    return np.asarray(std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi)))


def crps_of_quantiles(distribution: Any, y: Array) -> Array:
    """The CRPS per row, approximated by twice the mean pinball loss over the levels."""
    losses = sum(pinball(np.asarray(distribution.ppf(level)), y, float(level)) for level in LEVELS_OF_CRPS)
    return np.asarray(2.0 * losses / len(LEVELS_OF_CRPS))


def calibration_error(probabilities: Array, y: Array) -> float:
    """The expected calibration error of the most probable class, in bins with equal numbers of rows."""
    top = np.argmax(probabilities, axis=1)
    confidence = probabilities[np.arange(len(y)), top]
    gaps = (top == y) - confidence
    bins = np.array_split(gaps[np.argsort(confidence, kind="stable")], BINS_OF_CALIBRATION)
    return float(sum(abs(np.sum(own)) for own in bins) / len(y))


BOTH_OF_NGBOOST = ("NGBoost, 500 iterations", "NGBoost, early stopping")
NGBOOST = "NGBoost (better of both)"


@dataclass(frozen=True)
class Record(OfContestant):
    """One measurement, a line of a results file. Scores and seconds are None if the fit failed."""

    part: str
    task: str
    kind: str
    seed: int
    contestant: str
    is_ours: bool
    settings: str
    version: str
    rows: int
    iterations: int
    threads: int
    scores: dict[str, float] | None = None
    seconds: float | None = None
    error: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The fields that decide whether a measurement is there already."""
        return (self.part, self.task, self.seed, *self.variant, self.rows, self.iterations)


class Results:
    """The records of one part with the same limits on rows and iterations.

    If a contestant was measured with several versions or settings, only those of its last record count.
    """

    def __init__(self, records: Sequence[Record], part: str, rows: int, iterations: int) -> None:
        records = [r for r in records if (r.part, r.rows, r.iterations) == (part, rows, iterations)]
        last = {record.contestant: record.variant for record in records}
        current = [record for record in records if record.variant == last[record.contestant]]
        measured = {record.key for record in current if record.scores is not None}
        self.failed = [record for record in current if record.scores is None and record.key not in measured]
        self.records = [record for record in current if record.scores is not None]
        self.records += _better_of_both(self.records)
        self.tasks = list(dict.fromkeys(record.task for record in self.records))
        self.contestants = list(dict.fromkeys(record.contestant for record in self.records))
        self.ours = {record.contestant for record in self.records if record.is_ours}

    def of(self, contestant: str, score: str) -> dict[str, float]:
        """The mean of a score (or of seconds) over the splits by table, where a contestant has it."""
        found: dict[str, list[float]] = {}
        for record in self.records:
            figures = {**(record.scores or {}), "seconds": record.seconds or 0.0}
            if record.contestant == contestant and score in figures:
                found.setdefault(record.task, []).append(figures[score])
        return {task: float(np.mean(values)) for task, values in found.items()}

    def best_peer(self, score: str) -> dict[str, float]:
        """The lowest score of the peers by table."""
        found: dict[str, float] = {}
        for contestant in self.contestants:
            for task, value in self.of(contestant, score).items() if contestant not in self.ours else ():
                found[task] = min(value, found.get(task, value))
        return found

    def having(self, score: str) -> list[str]:
        """The contestants that have a score."""
        return [contestant for contestant in self.contestants if self.of(contestant, score)]


def _better_of_both(records: Sequence[Record]) -> list[Record]:
    """Of every split, the one of two fits of NGBoost with the lower NLL of test rows, where both were measured."""
    pairs: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if record.contestant in BOTH_OF_NGBOOST:
            pairs.setdefault((record.task, record.seed), []).append(record)
    both = [pair for pair in pairs.values() if len({record.contestant for record in pair}) == len(BOTH_OF_NGBOOST)]
    better = [min(pair, key=lambda record: (record.scores or {})["NLL"]) for pair in both]
    return [replace(record, contestant=NGBOOST) for record in better]


Show = Callable[[float], str]


def _digits(n: int) -> Show:
    return lambda value: f"{value:.{n}g}"


def _decimals(n: int) -> Show:
    return lambda value: f"{value:.{n}f}"


def ratio_to_best(results: Results, contestant: str, score: str) -> str:
    """Geometric mean and median of the ratios of a score to that of the best peer of each table."""
    best = results.best_peer(score)
    # A share of zero has no ratio.
    found = [value / best[task] for task, value in results.of(contestant, score).items() if best.get(task, 0.0) > 0.0]
    return f"{geometric_mean(found):.3f} ({np.median(found):.3f})" if found else ""


def difference_to_best(results: Results, contestant: str, score: str) -> str:
    """Mean and median of the differences between a score and that of the best peer of each table."""
    best = results.best_peer(score)
    found = [value - best[task] for task, value in results.of(contestant, score).items() if task in best]
    return f"{np.mean(found):+.3f} ({np.median(found):+.3f})" if found else ""


def mean(results: Results, contestant: str, score: str) -> str:
    """Mean and median of a score over the tables."""
    found = list(results.of(contestant, score).values())
    return f"{np.mean(found):.4f} ({np.median(found):.4f})" if found else ""


def times_best(results: Results, contestant: str, score: str) -> str:
    """On how many tables a contestant has the lowest score of those in the table."""
    others = {who: results.of(who, score) for who in results.contestants if who not in _parts_of(contestant)}
    own = results.of(contestant, score)
    return str(sum(all(value <= other.get(task, value) for other in others.values()) for task, value in own.items()))


def _parts_of(contestant: str) -> set[str]:
    """A contestant, and those which have the same results in another row."""
    return {contestant, NGBOOST, *BOTH_OF_NGBOOST} if contestant in (NGBOOST, *BOTH_OF_NGBOOST) else {contestant}


def coverage_intervals(results: Results, contestant: str) -> dict[str, tuple[float, float]]:
    """The intervals of the coverage by table; the rows of several splits are counted together."""
    counts: dict[str, list[int]] = {}
    for record in results.records:
        if record.contestant == contestant and record.scores is not None and "covered" in record.scores:
            total = counts.setdefault(record.task, [0, 0])
            total[0] += int(record.scores["covered"])
            total[1] += int(record.scores["test rows"])
    return {task: exact_interval(covered, n_rows) for task, (covered, n_rows) in counts.items()}


def below_and_above(results: Results, contestant: str, score: str = "coverage") -> str:
    """On how many tables the coverage is significantly below, and above, the one that was asked for."""
    found = coverage_intervals(results, contestant).values()
    below, above = sum(high < COVERAGE for _, high in found), sum(low > COVERAGE for low, _ in found)
    return f"{below} / {above}" if found else ""


Summary = Callable[[Results, str, str], str]


@dataclass(frozen=True)
class Layout:
    """How a part is shown."""

    title: str
    text: str
    summary: Mapping[str, tuple[Summary, str]]
    """Columns of the summary: heads, with a function of results, contestant and a score, and the score."""
    scores: Mapping[str, Show]
    """Scores with one table each, which has a column per contestant."""


RATIO, BEST = "{} / best peer", "tables with lowest {}"
LAYOUTS = {
    "intervals": Layout(
        "Prediction intervals with coverage 0.9",
        "The Winkler score is the mean of the width and 20 times the distance from an interval that does not cover its "
        "row; narrow intervals with the coverage that was asked for have a low one. Below / above: tables whose 95 % "
        "Clopper-Pearson interval of the coverage lies below / above 0.9. The interval is that of the test rows; the "
        "coverage also varies with the rows for calibration.",
        {
            "mean coverage": (mean, "coverage"), "below / above": (below_and_above, "coverage"),
            RATIO.format("Winkler"): (ratio_to_best, "Winkler"), BEST.format("Winkler"): (times_best, "Winkler"),
            RATIO.format("width"): (ratio_to_best, "width"), RATIO.format("seconds"): (ratio_to_best, "seconds"),
        },
        {"coverage": _decimals(3), "Winkler": _digits(4), "width": _digits(4), "seconds": _decimals(2)},
    ),
    "quantiles": Layout(
        "Several quantiles",
        "Mean pinball loss at 0.05, 0.25, 0.5, 0.75 and 0.95, and at 0.9 alone; all six levels are fitted. Crossing: "
        "share of test rows in which a higher level has a lower prediction.",
        {
            RATIO.format("pinball"): (ratio_to_best, "pinball"), BEST.format("pinball"): (times_best, "pinball"),
            RATIO.format("pinball 0.9"): (ratio_to_best, "pinball 0.9"), "mean crossing": (mean, "crossing"),
            RATIO.format("seconds"): (ratio_to_best, "seconds"),
        },
        {"pinball": _digits(4), "pinball 0.9": _digits(4), "crossing": _decimals(3), "seconds": _decimals(2)},
    ),
    "classes": Layout(
        "Sets of classes with coverage 0.9, and calibration",
        "Size: mean number of classes in a set. ECE: expected calibration error of the most probable class in 15 bins "
        "with equal numbers of rows. LightGBM and CatBoost have no sets. Below / above: as for intervals.",
        {
            "mean coverage": (mean, "coverage"), "below / above": (below_and_above, "coverage"),
            RATIO.format("size"): (ratio_to_best, "size"), "mean ECE": (mean, "ECE"),
            RATIO.format("log loss"): (ratio_to_best, "log loss"), RATIO.format("seconds"): (ratio_to_best, "seconds"),
        },
        {
            "coverage": _decimals(3), "size": _decimals(3), "ECE": _decimals(4), "log loss": _digits(4),
            "seconds": _decimals(2),
        },
    ),
    "distributions": Layout(
        "Distributions",
        "NLL: mean negative log density of test rows, which may be negative, so differences are shown, not ratios. "
        f"{NGBOOST}: of each table, the fit with the lower test NLL. Coverage is that of the central interval with "
        "probability 0.9.",
        {
            "NLL - best peer": (difference_to_best, "NLL"), BEST.format("NLL"): (times_best, "NLL"),
            RATIO.format("CRPS"): (ratio_to_best, "CRPS"), BEST.format("CRPS"): (times_best, "CRPS"),
            "mean coverage": (mean, "coverage"), RATIO.format("seconds"): (ratio_to_best, "seconds"),
        },
        {"NLL": _decimals(4), "CRPS": _digits(4), "coverage": _decimals(3), "seconds": _decimals(1)},
    ),
}  # fmt: skip


def summary(results: Results, layout: Layout) -> list[str]:
    """A table with one row per contestant."""
    columns = layout.summary.values()
    rows = [
        [who, str(len(results.of(who, "seconds"))), *(show(results, who, score) for show, score in columns)]
        for who in results.contestants
    ]
    return table(["contestant", "tables", *layout.summary], rows)


def every_table(results: Results, score: str, show: Show) -> Iterator[str]:
    """A table with one row per table and one column per contestant: means over the splits."""
    contestants = results.having(score)
    own = {who: results.of(who, score) for who in contestants}
    intervals = {who: coverage_intervals(results, who) if score == "coverage" else {} for who in contestants}

    def cell(who: str, task: str) -> str:
        if task not in own[who]:
            return ""
        low_high = intervals[who].get(task)
        return show(own[who][task]) + ("" if low_high is None else f" ({low_high[0]:.3f} to {low_high[1]:.3f})")

    rows = [[task, *(cell(who, task) for who in contestants)] for task in sorted(results.tasks)]
    title = score[0].upper() + score[1:]
    yield from (f"### {title}", "", *table(["table", *contestants], rows), "")


def failures(results: Results) -> Iterator[str]:
    """The fits that failed, if any."""
    if results.failed:
        rows = [[r.contestant, r.task, str(r.seed), (r.error or "").replace("|", "/")] for r in results.failed]
        yield from ("### Failed fits", "", *table(["contestant", "table", "split", "error"], rows, left=4), "")


def section(results: Results, layout: Layout) -> Iterator[str]:
    """The section of the page about one part."""
    splits = len({record.seed for record in results.records})
    threads = ", ".join(map(str, sorted({record.threads for record in results.records})))
    versions = ", ".join(sorted({one for record in results.records for one in record.version.split(", ")}))
    yield from (
        f"## {layout.title}", "",
        f"{len(results.tasks)} tables, up to {splits} split(s) each, threads: {threads}; {versions}.", "",
        layout.text, "", *summary(results, layout), "",
    )  # fmt: skip
    yield from failures(results)
    for score, show in layout.scores.items():
        yield from every_table(results, score, show)


def page(records: Sequence[Record], rows: int, iterations: int) -> str:
    """The whole page, in Markdown."""
    lines = [
        "# Calibrated uncertainty on many tables", "",
        f"At most {rows:,} rows per table for fitting, calibration and early stopping, and at most {iterations:,} "
        "iterations where there is early stopping; benchmarks/tasks/uncertainty.py describes the rest. Scores are "
        "means over test rows; lower is better, besides coverage. Ratios are geometric means over tables of the ratio "
        "to the best peer of that table, which differs between tables: a peer reaches 1 only if it is the best on all, "
        "and a ratio below 1 is better than choosing the best peer for each table by its test rows. Medians are "
        "in brackets: on a few tables some libraries fail (multiclass LightGBM with rare classes, quantiles of targets "
        "with many ties), which dominates means. Seconds are rough: other processes may have run.", "",
    ]  # fmt: skip
    for part, layout in LAYOUTS.items():
        results = Results(records, part, rows, iterations)
        if results.records:
            lines += section(results, layout)
    return "\n".join(lines)
