"""The scores of the benchmark of survival (benchmarks/tasks/survival.py)."""

import numpy as np
import pytest

from benchmarks.tasks import survival as scores


@pytest.fixture
def lives():
    """Times with ties, events and scores."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=80)
    return np.ceil(10.0 * rng.exponential(np.exp(-score))) / 10.0, rng.random(80) < 0.7, score


def test_breslow_sums_events_over_risk_sets(lives):
    time, event, score = lives
    times, hazard = scores.breslow(time, event, score)
    assert np.array_equal(times, np.unique(time[event]))
    steps = [np.sum(event & (time == at)) / np.sum(np.exp(score[time >= at])) for at in times]
    np.testing.assert_allclose(hazard, np.cumsum(steps))


def test_curves_of_equal_scores_are_those_of_nelson_and_aalen(lives):
    time, event, _ = lives
    at = np.array([0.05, 0.5, 1.0])
    curves = scores.curves_of_cox(time, event, np.full(80, 3.0), np.full(2, 3.0), at)
    hazards = [sum(np.sum(event & (time == u)) / np.sum(time >= u) for u in np.unique(time) if u <= t) for t in at]
    np.testing.assert_allclose(curves, np.exp(-np.array([hazards, hazards])))


def test_scores_of_any_size_give_the_same_curves(lives):
    time, event, score = lives
    near, far = (scores.curves_of_cox(time, event, score + c, score[:3] + c, np.array([0.5])) for c in (0.0, 1000.0))
    np.testing.assert_allclose(near, far)


def test_steps_are_right_continuous():
    found = scores.steps_at(np.array([0.5, 1.0, 1.5, 2.0, 9.0]), np.array([1.0, 2.0]), np.array([0.4, 0.7]), before=0.0)
    assert found.tolist() == [0.0, 0.4, 0.4, 0.7, 0.7]


def test_nothing_is_observed_after_the_last_time():
    time, event = scores.censored_at(np.array([1.0, 2.0, 3.0]), np.array([True, True, True]), 2.0)
    assert (time.tolist(), event.tolist()) == ([1.0, 2.0, 2.0], [True, True, False])


def test_grid_lies_inside_the_times_of_test_rows():
    time = np.arange(1.0, 101.0)
    found = scores.grid(time, np.ones(100, bool), np.array([30.0, 60.0]))
    assert 30.0 < found[0] < found[-1] < 60.0
    assert np.all(np.diff(found) > 0.0)


def test_scores_without_censoring_are_plain_shares_and_squares():
    time, test_time = np.arange(1.0, 31.0), np.array([3.5, 8.5, 12.5, 20.5, 35.5])
    times = np.array([5.0, 10.0, 15.0])
    curves = np.array([[0.2, 0.1, 0.0], [0.7, 0.4, 0.1], [0.9, 0.5, 0.3], [0.9, 0.8, 0.6], [1.0, 0.9, 0.9]])
    known, test = (time, np.ones(30, bool)), (test_time, np.ones(5, bool))
    found = scores.of_predictions(known, test, np.array([5.0, 3.0, 4.0, 2.0, 1.0]), curves, times)
    assert found["Harrell's C"] == [0.9]
    squares = np.mean(((test_time[:, np.newaxis] > times) - curves) ** 2, axis=0)
    assert found["integrated Brier"] == [pytest.approx(np.trapezoid(squares, times) / 10.0)]
    # Pairs whose earlier time is before the last time of the grid: 4 + 3 + 2, of which one is discordant.
    assert found["Uno's C"] == [pytest.approx(8.0 / 9.0)]
