"""The statistics of the benchmarks of counts, rankings and survival (benchmarks/tasks/trials.py)."""

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.tasks import trials as statistics


def test_interval_over_splits_without_overlap_is_that_of_student():
    values = [0.1, 0.4, 0.2, 0.5]
    mean, low, high = statistics.over_splits(values, test_to_training=0.0)
    expected = t.interval(0.95, 3, np.mean(values), np.std(values, ddof=1) / 2.0)
    assert (mean, low, high) == pytest.approx((0.3, *expected))


def test_overlap_of_splits_widens_the_interval():
    _, low, high = statistics.over_splits([0.1, 0.4, 0.2, 0.5], test_to_training=0.75)
    _, low_alone, high_alone = statistics.over_splits([0.1, 0.4, 0.2, 0.5], test_to_training=0.0)
    assert high - low == pytest.approx(2.0 * (high_alone - low_alone))


def test_one_split_says_nothing():
    assert statistics.over_splits([0.5]) == (0.5, -np.inf, np.inf)


def test_bootstrap_over_queries_is_close_to_the_normal_approximation():
    values = np.random.default_rng(0).uniform(size=700)
    mean, low, high = statistics.over_queries(values)
    margin = 1.96 * np.std(values) / np.sqrt(len(values))
    assert mean == np.mean(values)
    assert (low, high) == pytest.approx((mean - margin, mean + margin), abs=0.05 * margin)


@pytest.mark.parametrize(
    ("interval", "higher", "expected"),
    [
        ((0.1, -0.1, 0.3), True, "within the interval"), ((0.2, 0.1, 0.3), True, "better"),
        ((0.2, 0.1, 0.3), False, "worse"), ((-0.2, -0.3, -0.1), True, "worse"), ((-0.2, -0.3, -0.1), False, "better"),
    ],
)  # fmt: skip
def test_verdict(interval, higher, expected):
    assert statistics.verdict(interval, higher) == expected
