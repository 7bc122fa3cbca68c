"""The statistics of suite.py: functions of losses by contestant and set, without files or libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from scipy.stats import rankdata, t

BySeed = Mapping[int, float]
BySet = Mapping[str, BySeed]
"""A figure for every set and seed."""

NOTICEABLE = 0.001
"""Relative difference of losses that counts as a win or a loss if there is only one seed."""
CONFIDENCE = 0.95


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
