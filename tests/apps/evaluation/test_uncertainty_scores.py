"""The scores of the benchmark of uncertainty (benchmarks/tasks/uncertainty_report.py)."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from benchmarks.tasks import uncertainty_report as scores

MEAN, STD, Y = np.array([0.0, 1.0, -2.0, 5.0]), np.array([1.0, 0.5, 3.0, 2.0]), np.array([0.3, 3.0, -2.0, 1.0])


def test_scores_of_intervals():
    bounds = np.array([[0.0, 2.0], [1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    found = scores.of_intervals(bounds, np.array([1.0, 2.0, 2.5, 1.25]))
    assert (found["covered"], found["test rows"], found["coverage"]) == (2, 4, 0.5)
    assert found["width"] == pytest.approx(5.0 / 4.0)
    assert found["Winkler"] == pytest.approx((2.0 + 1.0 + (1.0 + 20.0 * 0.5) + (1.0 + 20.0 * 0.25)) / 4.0)


def test_exact_interval_has_the_probabilities_of_its_tails():
    low, high = scores.exact_interval(9, 10)
    assert 10 * low**9 * (1 - low) + low**10 == pytest.approx(0.025)
    assert 1 - high**10 == pytest.approx(0.025)
    assert scores.exact_interval(10, 10) == (pytest.approx(0.025**0.1), 1.0)


def test_pinball_is_that_of_scikit_learn():
    assert np.mean(scores.pinball(MEAN, Y, 0.9)) == pytest.approx(mean_pinball_loss(Y, MEAN, alpha=0.9))


def test_crossing_counts_rows_with_any_decrease():
    assert scores.crossing(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [1.0, 3.0, 2.0], [3.0, 2.0, 1.0]])) == 0.5


def test_crps_of_a_normal_is_the_integral_of_its_definition():
    for mean, std, y, found in zip(MEAN, STD, Y, scores.normal_crps(MEAN, STD, Y), strict=True):
        below = quad(lambda x, m=mean, s=std: norm.cdf(x, m, s) ** 2, mean - 12 * std, y)[0]
        above = quad(lambda x, m=mean, s=std: norm.sf(x, m, s) ** 2, y, mean + 12 * std)[0]
        assert found == pytest.approx(below + above, rel=1e-6)


def test_crps_of_quantiles_is_close_to_the_closed_form():
    y = norm(1.0, 2.0).rvs(2_000, random_state=0)
    found = np.mean(scores.crps_of_quantiles(norm(np.full(len(y), 1.0), 2.0), y))
    assert found == pytest.approx(np.mean(scores.normal_crps(1.0, 2.0, y)), rel=0.02)


def test_calibration_error_compares_accuracy_with_confidence_by_bin():
    # 15 bins with two rows each: the first 10 rows are confident by 0.6 and right in every second one; the others by
    # 0.9, and right.
    confidence = np.repeat([0.6, 0.9], [10, 20])
    probabilities = np.column_stack([confidence, 1.0 - confidence])
    y = np.concatenate([np.tile([0, 1], 5), np.zeros(20, int)])
    assert scores.calibration_error(probabilities, y) == pytest.approx((10 * 0.1 + 20 * 0.1) / 30)


def test_calibration_error_sees_gaps_that_cancel_over_all_rows():
    confidence = np.repeat([0.6, 0.9], [15, 15])
    probabilities = np.column_stack([confidence, 1.0 - confidence])
    y = np.concatenate([np.zeros(15, int), np.repeat([0, 1], [7, 8])])
    assert scores.calibration_error(probabilities, y) > 0.3
