"""The score of the benchmark of counts (benchmarks/tasks/counts.py)."""

import numpy as np
import pytest
from sklearn.metrics import mean_poisson_deviance

from benchmarks.tasks.counts import deviance_per_exposure


def test_deviance_per_exposure_is_that_of_weighted_rates():
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.1, 2.0, 200)
    rate = rng.uniform(0.1, 1.0, 200)
    y = rng.poisson(exposure * rate)
    found = deviance_per_exposure(y, exposure * rate, exposure)
    assert found == pytest.approx(mean_poisson_deviance(y / exposure, rate, sample_weight=exposure))


def test_expected_counts_of_zero_are_clipped():
    assert np.isfinite(deviance_per_exposure(np.array([0, 1]), np.zeros(2), np.ones(2)))
