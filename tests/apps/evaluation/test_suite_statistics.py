"""The statistics of the benchmark of default settings (benchmarks/quality/report.py)."""

import numpy as np
import pytest

from benchmarks.quality import report as statistics


def by_set(**losses):
    """One seed per set."""
    return {name: {0: loss} for name, loss in losses.items()}


def test_ratios_are_over_the_sets_and_seeds_that_both_have():
    mine = {"p": {0: 2.0, 1: 8.0, 2: 100.0}, "q": {0: 3.0}, "only mine": {0: 1.0}}
    other = {"p": {0: 1.0, 1: 1.0}, "q": {1: 3.0}, "only theirs": {0: 1.0}}
    assert statistics.ratios(mine, other) == {"p": pytest.approx(4.0)}


def test_geometric_mean():
    assert statistics.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert np.isnan(statistics.geometric_mean([]))


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ([0.0009], 0),
        ([0.0011], 1),
        ([-0.0011], -1),
        ([-0.010, -0.011, -0.009], -1),
        ([0.010, 0.011, 0.009], 1),
        ([-0.1, 0.05, 0.02], 0),
        ([-0.01, -0.02], 0),  # -0.015 +- 12.7 * 0.005
        ([0.0, 0.0], 0),
    ],
)
def test_a_set_is_won_beyond_the_interval_over_the_seeds(logs, expected):
    assert statistics.verdict(np.array(logs)) == expected


def test_comparison_counts_sets_and_names_the_worst():
    found = statistics.compare(by_set(p=1.0, q=2.0, r=3.0), by_set(p=2.0, q=1.0, r=3.0))
    assert (found.wins, found.ties, found.losses) == (1, 1, 1)
    assert found.worst == "q"
    assert found.ratio == pytest.approx(1.0)


def test_bootstrap_interval_is_reproducible_and_contains_the_mean():
    values = np.exp(np.linspace(-0.1, 0.2, 20))
    low, high = statistics.bootstrap_interval(values)
    assert low < statistics.geometric_mean(values) < high
    assert (low, high) == statistics.bootstrap_interval(values)
    assert statistics.bootstrap_interval([2.0, 2.0]) == (pytest.approx(2.0), pytest.approx(2.0))


def test_ranks_are_over_the_sets_of_all_contestants():
    losses = {"a": by_set(p=1.0, q=2.0, r=0.0), "b": by_set(p=2.0, q=2.0), "c": by_set(p=3.0, q=1.0)}
    assert statistics.common_sets(losses) == ["p", "q"]
    assert statistics.mean_ranks(losses) == {"a": 1.75, "b": 2.25, "c": 2.0}


def test_ranks_are_over_the_seeds_of_all_contestants():
    """One that was measured with an easy seed alone is not better for it."""
    losses = {"a": {"p": {0: 1.0, 1: 9.0}}, "b": {"p": {0: 2.0}}}
    assert statistics.mean_ranks(losses) == {"a": 1.0, "b": 2.0}
    assert np.isnan(statistics.mean_ranks({"a": {"p": {0: 1.0}}, "b": {"p": {1: 1.0}}})["a"])


def test_halves_are_balanced_within_each_kind_whatever_the_order():
    kinds = {"e": "binary", "a": "binary", "c": "binary", "b": "count", "d": "count"}
    expected = {"a": "A", "c": "B", "e": "A", "b": "B", "d": "A"}
    assert statistics.halves(kinds) == expected
    assert statistics.halves(dict(reversed(kinds.items()))) == expected


def test_a_choice_is_verified_on_the_other_half():
    half_of = {"p": "A", "q": "A", "r": "B", "s": "B"}
    losses = {"a": by_set(p=0.5, q=0.5, r=2.0, s=2.0), "b": by_set(p=1.0, q=1.0, r=0.25, s=0.25)}
    found = statistics.choose(losses, by_set(p=1.0, q=1.0, r=1.0, s=1.0), half_of)
    assert found.chosen == {"A": "a", "B": "b"}
    assert found.ratios["B"]["a"] == pytest.approx(2.0)
    assert found.cross_verified == pytest.approx(2.0**0.5)  # b on A: 1, 1; a on B: 2, 2
