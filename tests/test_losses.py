"""Losses: derivatives, best constants, extreme scores."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from agbm.losses import HalfSquaredError, LogLoss

LOSSES = [(HalfSquaredError(), np.array([-2.0, 0.0, 0.5, 30.0])), (LogLoss(), np.array([0.0, 1.0, 1.0, 0.0]))]
losses = pytest.mark.parametrize(("loss", "y"), LOSSES)


@losses
def test_derivatives(loss, y):
    for f in np.linspace(-6, 6, 13):
        scores, step = np.full(len(y), f), 1e-5
        slope = (loss.value(y, scores + step) - loss.value(y, scores - step)) / (2 * step)
        np.testing.assert_allclose(loss.negative_gradient(y, scores), -slope, rtol=1e-6, atol=1e-8)
        bend = (loss.negative_gradient(y, scores - step) - loss.negative_gradient(y, scores + step)) / (2 * step)
        np.testing.assert_allclose(loss.hessian(y, scores), bend, rtol=1e-5, atol=1e-8)
        assert np.all(loss.hessian(y, scores) <= loss.smoothness + 1e-12)


@losses
@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5, 3.0])])
def test_best_constant(loss, y, weight):
    best = minimize_scalar(lambda f: np.average(loss.value(y, np.full(len(y), f)), weights=weight))
    assert loss.best_constant(y, weight) == pytest.approx(best.x, abs=1e-5)


@losses
def test_extreme_scores(loss, y):
    for f in (-1e4, 1e4, -700.0, 700.0):
        scores = np.full(len(y), f)
        for quantity in (loss.value, loss.negative_gradient, loss.hessian):
            assert np.isfinite(quantity(y, scores)).all()
        assert np.all(loss.hessian(y, scores) > 0)


def test_constant_labels_have_a_finite_prior():
    assert np.isfinite(LogLoss().best_constant(np.ones(3), None))
