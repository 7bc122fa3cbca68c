"""The score of the benchmark of counts (benchmarks/counts_contestants.py)."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import mean_poisson_deviance

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def contestants(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    import counts_contestants

    yield counts_contestants
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_deviance_per_exposure_is_that_of_weighted_rates(contestants):
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.1, 2.0, 200)
    rate = rng.uniform(0.1, 1.0, 200)
    y = rng.poisson(exposure * rate)
    found = contestants.deviance_per_exposure(y, exposure * rate, exposure)
    assert found == pytest.approx(mean_poisson_deviance(y / exposure, rate, sample_weight=exposure))


def test_expected_counts_of_zero_are_clipped(contestants):
    assert np.isfinite(contestants.deviance_per_exposure(np.array([0, 1]), np.zeros(2), np.ones(2)))
