"""The statistics of counts.py, ranking.py and survival.py: functions of numbers, without files or libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import t

CONFIDENCE = 0.95
TEST_TO_TRAINING = 1.0 / 3.0
"""Ratio of test rows to the others, for splits with 25 % test rows."""

Array = np.ndarray[Any, Any]
Interval = tuple[float, float, float]
"""A mean and the bounds of its 95 % interval."""


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
