"""Every loss: derivatives, best constants, links, extreme scores, labels."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from agbm.losses import (
    AbsoluteError,
    Exponential,
    Gamma,
    HalfSquaredError,
    Huber,
    LogLoss,
    Poisson,
    Quantile,
    Tweedie,
)

NUMBERS = np.array([-2.0, 0.0, 0.5, 30.0, 1.25])
LABELS = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
COUNTS = np.array([0.0, 1.0, 3.0, 12.0, 0.5])
LOSSES = {
    "squared": (HalfSquaredError(), NUMBERS),
    "absolute": (AbsoluteError(), NUMBERS),
    "quantile": (Quantile(0.8), NUMBERS),
    "huber": (Huber(1.5), NUMBERS),
    "poisson": (Poisson(), COUNTS),
    "gamma": (Gamma(), COUNTS + 0.1),
    "tweedie": (Tweedie(1.3), COUNTS),
    "logistic": (LogLoss(), LABELS),
    "exponential": (Exponential(), LABELS),
}
WITH_KINKS = ("absolute", "quantile", "huber")
every_loss = pytest.mark.parametrize("name", LOSSES)


@every_loss
def test_gradient(name):
    loss, y = LOSSES[name]
    for f in np.linspace(-3.1, 3.1, 12):
        scores, step = np.full(len(y), f), 1e-6
        slope = (loss.value(y, scores + step) - loss.value(y, scores - step)) / (2 * step)
        np.testing.assert_allclose(loss.negative_gradient(y, scores), -slope, rtol=1e-5, atol=1e-7)


@every_loss
def test_hessian(name):
    loss, y = LOSSES[name]
    for f in np.linspace(-3.1, 3.1, 12):
        scores, step = np.full(len(y), f), 1e-5
        if name in WITH_KINKS:  # the parabola with that curvature lies above the loss
            for other in np.linspace(-40, 40, 33):
                move = other - scores
                parabola = loss.value(y, scores) - loss.negative_gradient(y, scores) * move
                parabola = parabola + 0.5 * loss.hessian(y, scores) * move**2
                far = np.abs(y - scores) > np.abs(y - scores).mean()  # nearer, quantiles have less curvature
                far = far | (name == "huber")
                assert np.all((loss.value(y, np.full(len(y), other)) <= parabola + 1e-9)[far])
        else:
            bend = (loss.negative_gradient(y, scores - step) - loss.negative_gradient(y, scores + step)) / (2 * step)
            np.testing.assert_allclose(loss.hessian(y, scores), bend, rtol=1e-4, atol=1e-7)
            assert np.all(loss.hessian(y, scores) <= loss.smoothness + 1e-12)


@every_loss
@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5, 3.0, 0.7])])
def test_best_constant(name, weight):
    loss, y = LOSSES[name]

    def total(f):
        return np.average(loss.value(y, np.full(len(y), f)), weights=weight)

    best = minimize_scalar(total, bounds=(-5, 35), method="bounded", options={"xatol": 1e-9})
    assert total(loss.best_constant(y, weight)) <= best.fun + 1e-9


@every_loss
def test_an_integer_weight_is_a_repeated_row(name):
    loss, y = LOSSES[name]
    times = np.array([1, 2, 3, 1, 4])
    expected = loss.best_constant(np.repeat(y, times), None)
    assert loss.best_constant(y, times.astype(float)) == pytest.approx(expected, abs=1e-9)


@every_loss
def test_extreme_scores(name):
    loss, y = LOSSES[name]
    for f in (-1e4, 1e4, -700.0, 700.0):
        scores = np.full(len(y), f)
        for quantity in (loss.value, loss.negative_gradient, loss.hessian):
            assert np.isfinite(quantity(y, scores)).all()
        assert np.all(loss.hessian(y, scores) > 0)
        assert np.isfinite(loss.inverse_link(scores)).all()


@every_loss
def test_the_best_constant_predicts_the_mean_or_the_quantile(name):
    loss, y = LOSSES[name]
    predicted = loss.inverse_link(np.array([loss.best_constant(y, None)]))[0]
    if name in ("absolute", "quantile"):
        assert predicted == np.sort(y)[2 if name == "absolute" else 3]
    elif name != "huber":
        assert predicted == pytest.approx(y.mean())


@every_loss
def test_links_are_inverse_to_each_other(name):
    loss, _ = LOSSES[name]
    scores = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(loss.link(loss.inverse_link(scores)), scores, rtol=1e-9, atol=1e-9)


def test_losses_print_as_they_were_made():
    made = [Quantile(0.8), Huber(1.5), Tweedie(1.3), AbsoluteError(), Poisson(), LogLoss()]
    assert [repr(loss) for loss in made] == [
        "Quantile(quantile=0.8)", "Huber(delta=1.5)", "Tweedie(power=1.3)", "AbsoluteError()", "Poisson()", "LogLoss()",
    ]  # fmt: skip


def test_constant_labels_have_a_finite_prior():
    for loss in (LogLoss(), Exponential()):
        assert np.isfinite(loss.best_constant(np.ones(3), None))
    assert Huber(1.0).best_constant(np.full(3, 7.0), None) == 7.0
    assert Quantile(0.9).hessian(np.ones(3), np.ones(3)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("loss", "y"),
    [(Poisson(), [-1.0, 2.0]), (Poisson(), [0.0, 0.0]), (Tweedie(), [-0.5, 1.0]), (Gamma(), [0.0, 1.0])],
)
def test_labels_that_are_not_allowed(loss, y):
    with pytest.raises(ValueError, match=f"y must .* loss {type(loss).__name__}, got values from"):
        loss.check(np.array(y))


@pytest.mark.parametrize(("make", "name"), [(Quantile, "quantile"), (Huber, "delta"), (Tweedie, "power")])
def test_parameters_that_are_not_allowed(make, name):
    with pytest.raises(ValueError, match=f"{name}=-1 must be"):
        make(-1)
