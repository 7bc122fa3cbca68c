"""Nonconformity by quantiles and by distributions: each label is on the border of the interval of its own score."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm import losses
from agbm._labels.base import Numbers
from agbm._model.calibration import measure_of
from agbm._uncertainty.nested_intervals import NestedQuantiles, Standardised, TailProbability
from distributions import DISTRIBUTIONS
from profiles import examples

NUMBERS = Numbers(())
LISTS = [[0.5], [0.05, 0.95], [0.1, 0.5, 0.9], [0.01, 0.3, 0.6, 0.99], [0.05, 0.25, 0.5, 0.75, 0.95]]


def quantile_rows(levels, seed, n=40):
    """Quantiles that may be equal or cross, and labels that may be equal to one of them."""
    rng = np.random.default_rng(seed)
    raw = np.round(rng.normal(size=(len(levels), n)), int(rng.integers(0, 3)))
    y = np.where(rng.random(n) < 0.3, raw[rng.integers(0, len(levels), n), np.arange(n)], 3.0 * rng.normal(size=n))
    return raw, y


@examples(40)
@given(st.sampled_from(LISTS), st.integers(0, 2**32 - 1))
def test_quantiles(levels, seed):
    raw, y = quantile_rows(levels, seed)
    measure = NestedQuantiles(losses.Quantile(levels))
    score, summary = measure.score(y, raw), measure.summary(raw)
    assert (measure.lower(summary, score) <= y).all()
    assert (measure.upper(summary, score) >= y).all()
    to_border = np.minimum(y - measure.lower(summary, score), measure.upper(summary, score) - y)
    np.testing.assert_allclose(to_border, 0.0, atol=1e-8)
    thresholds = np.sort(np.random.default_rng(seed).uniform(-1.0, 2.0, 12))
    bounds = np.array([[measure.lower(summary, t), measure.upper(summary, t)] for t in thresholds])
    assert (np.diff(bounds[:, 0], axis=0) <= 0.0).all()
    assert (np.diff(bounds[:, 1], axis=0) >= 0.0).all()
    assert (bounds[:, 0] <= bounds[:, 1]).all()


def test_bounds_are_the_quantiles_at_their_nominal_coverage():
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    raw = np.sort(np.random.default_rng(0).normal(size=(5, 7)), axis=0)
    measure = NestedQuantiles(losses.Quantile(levels))
    summary = measure.summary(raw)
    for coverage, low, high in ((0.9, 0, 4), (0.5, 1, 3), (0.0, 2, 2)):
        threshold = np.full(7, coverage - 0.9)
        np.testing.assert_allclose(measure.lower(summary, threshold), raw[low], atol=1e-12)
        np.testing.assert_allclose(measure.upper(summary, threshold), raw[high], atol=1e-12)
    # Beyond the outermost pair by the same distance for all rows: conformalized quantile regression.
    np.testing.assert_allclose(measure.upper(summary, np.full(7, 2.0)), raw[4] + 2.0)
    np.testing.assert_allclose(measure.score(raw[0] - 0.3, raw), 0.3)
    assert np.array_equal(measure.lower(summary, np.full(7, np.inf)), np.full(7, -np.inf))


def test_a_small_unit_of_labels_loses_nothing():
    raw = np.array([[1.0], [2.0], [3.0]])
    measure = NestedQuantiles(losses.Quantile([0.1, 0.5, 0.9]))
    for y in (0.2, 1.7, 3.4):
        score = measure.score(np.array([y]), raw)
        small = measure.score(np.array([2.0**-80 * y]), 2.0**-80 * raw)
        np.testing.assert_allclose(small, score if 1.0 < y < 3.0 else 2.0**-80 * score, rtol=1e-9)


ZEROS_AND_MORE = np.maximum(np.random.default_rng(0).normal(size=900), 0.0)
LOSSES = {name: kind() for name, kind in DISTRIBUTIONS.items()} | {
    "histogram": losses.HistogramDistribution([-4.0, 0.0, 1.0, 9.0]),
    "histogram with an atom": losses.HistogramDistribution(6).learned_from(ZEROS_AND_MORE, None),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_distributions(loss):
    measure = measure_of(NUMBERS, loss)
    rng = np.random.default_rng(1)
    raw = rng.normal(0.5, 0.4, (loss.traits.n_scores, 300))
    y = np.asarray(loss.frozen(raw).rvs(size=300, random_state=rng), dtype=np.float64)
    score, summary = measure.score(y, raw), measure.summary(raw)
    assert np.isfinite(score).all()
    assert (measure.lower(summary, score) <= y).all()
    assert (measure.upper(summary, score) >= y).all()
    frozen = loss.frozen(raw)
    tail = np.minimum(frozen.cdf(y), frozen.sf(np.nextafter(y, -np.inf)))
    order = np.argsort(score)
    assert (np.diff(np.minimum(tail, 0.5)[order]) <= 1e-7).all()  # in the order of the tail probabilities
    worst = measure.worst_score(y, raw, np.full_like(raw, 1e-8))
    assert (worst >= score).all()
    np.testing.assert_allclose(worst, score, rtol=1e-5, atol=1e-5)
    for bound, limit in ((measure.lower, -np.inf), (measure.upper, np.inf)):
        at_infinity = bound(summary, np.full(300, np.inf))
        assert np.isin(at_infinity, [limit, 0.0, -1.0]).all()  # all labels that the distribution allows


def test_measure_of_each_loss():
    assert isinstance(measure_of(NUMBERS, losses.StudentTDistribution()), Standardised)
    assert isinstance(measure_of(NUMBERS, losses.GammaDistribution()), TailProbability)
    y, raw = np.array([3.0]), np.array([[1.0], [np.log(4.0)]])
    assert Standardised(False).score(y, raw)[0] == pytest.approx(0.5)
    assert Standardised(True).score(np.exp(y), raw)[0] == pytest.approx(0.5)
