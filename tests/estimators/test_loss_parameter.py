"""The losses that `loss` names, and custom losses."""

import numpy as np
import pytest
from sklearn.base import clone

from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import HalfSquaredError, Huber, Quantile, Tweedie
from variants import METHODS, like_default, made, methods, newton


class TestLosses:
    @pytest.mark.slow
    @methods
    @newton
    @pytest.mark.parametrize(
        "loss", ["absolute_error", Quantile(0.8), Huber(20.0), "poisson", "gamma", Tweedie(1.5)], ids=str
    )
    def test_every_method_reduces_the_loss(self, method, second_order, loss, regression):
        X, y = regression
        step, weights = 0.1, {"momentum": "fading"}
        if not second_order:  # then the step has the units of y, or of its inverse
            step = {"absolute_error": 5.0, "Quantile": 5.0, "poisson": 0.002}.get(
                loss if isinstance(loss, str) else type(loss).__name__, 0.1
            )
            weights = {"momentum": 0.02, "entry": 1.0}
        model = AGBMRegressor(
            method=made(method, **weights, second_order=second_order),
            loss=loss, max_iter=30, max_depth=3, learning_rate=step,
        )  # fmt: skip
        model.fit(X, y)
        losses = model.history_["train_loss"]
        deviance = losses - model.model_.loss.value(y, model.model_.loss.link(y)).mean()  # of a perfect fit: zero
        assert deviance[-1] < 0.9 * deviance[0]
        assert np.isfinite(model.predict(X)).all()
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-9)

    def test_losses_estimate_means_and_quantiles(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(6000, 2))
        y = rng.gamma(2.0, np.exp(X[:, 0]))
        settings = {"max_iter": 60, "max_depth": 3, "early_stopping": False}
        for loss in ("poisson", "gamma", Tweedie(1.5)):
            predicted = AGBMRegressor(loss=loss, **settings).fit(X, y).predict(X)
            assert predicted.min() > 0
            np.testing.assert_allclose(predicted.mean(), y.mean(), rtol=0.02)
            assert np.corrcoef(predicted, np.exp(X[:, 0]))[0, 1] > 0.9
        for q in (0.1, 0.5, 0.9):
            below = y < AGBMRegressor(loss=Quantile(q), **settings).fit(X, y).predict(X)
            assert below.mean() == pytest.approx(q, abs=0.02)

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("loss", ["absolute_error", Quantile(0.5), Huber(1.0)], ids=str)
    def test_robust_losses_ignore_outliers(self, method, loss):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = X[:, 0] + 0.1 * rng.normal(size=2000)
        y[0] = 1e9
        predicted = AGBMRegressor(**like_default(method), loss=loss).fit(X, y).predict(X)
        assert np.median(np.abs(predicted - y)) < 0.15

    @methods
    def test_huber_with_a_small_delta(self, method):
        """Nodes with small hessians can be split."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = 1e5 * (X[:, 0] + 0.1 * rng.normal(size=2000))
        assert AGBMRegressor(**like_default(method), loss=Huber(1.0)).fit(X, y).score(X, y) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("loss", ["poisson", "gamma", Tweedie(1.5)], ids=str)
    def test_rates_over_several_orders_of_magnitude(self, loss):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 3))
        high, middle = X[:, 0] > 2, (X[:, 0] < 2) & (X[:, 1] > 0)
        mean = np.where(high, 1000.0, np.where(middle, 8.0, 1.0))
        y = mean * rng.gamma(4.0, 0.25, size=4000)
        for method in METHODS:
            model = AGBMRegressor(
                **like_default(method), loss=loss, learning_rate=0.2, max_iter=200, early_stopping=False
            )
            predicted = model.fit(X, y).predict(X)
            found = [np.mean(predicted[part]) for part in (high, middle, ~high & ~middle)]
            np.testing.assert_allclose(found, [1000, 8, 1], rtol=0.3)

    def test_custom_loss_is_validated(self, regression):
        X, y = regression

        class Odd(HalfSquaredError):
            constant_hessian = False

            def __init__(self, residual, hessian=lambda f: np.ones(len(f))):
                self.residual, self.curvature = residual, hessian

            def negative_gradient(self, y, f):
                return self.residual(y - f)

            def hessian(self, y, f, weight):
                return self.curvature(f)

        model = AGBMRegressor(max_iter=3, l2_regularization=1.0)
        expected = model.fit(X, y).predict(X)
        for odd in (Odd(lambda r: r.astype(np.float32)), Odd(list), Odd(lambda r: r, lambda f: [1] * len(f))):
            np.testing.assert_allclose(model.set_params(loss=odd).fit(X, y).predict(X), expected, rtol=1e-4)
        with pytest.raises(ValueError, match=r"loss: negative_gradient must give one number for each of 442 rows"):
            AGBMRegressor(loss=Odd(lambda r: r[1:]), early_stopping=False).fit(X, y)
        with pytest.raises(ValueError, match=r"loss: hessian must give one number .* got an array of shape"):
            AGBMRegressor(loss=Odd(lambda r: r, lambda f: 1.0)).fit(X, y)

        class Doubled(HalfSquaredError):
            def value(self, y, f):
                return 2.0 * super().value(y, f)

        plain = AGBMRegressor(max_iter=3).fit(X, y).history_["train_loss"]
        doubled = AGBMRegressor(loss=Doubled(), max_iter=3).fit(X, y).history_["train_loss"]
        np.testing.assert_allclose(doubled, 2.0 * plain, rtol=1e-12)

        class Careless(HalfSquaredError):
            def negative_gradient(self, y, f):
                y -= f
                return y

        with pytest.raises(ValueError, match="read-only"):
            AGBMRegressor(loss=Careless()).fit(X, y)

    def test_exponential_is_close_to_logistic(self, binary):
        X, y = binary
        logistic = AGBMClassifier(max_iter=30, max_depth=2).fit(X, y).predict_proba(X)
        exponential = AGBMClassifier(loss="exponential", max_iter=30, max_depth=2).fit(X, y).predict_proba(X)
        assert np.corrcoef(logistic[:, 1], exponential[:, 1])[0, 1] > 0.98

    def test_custom_loss(self, regression):
        X, y = regression

        class CauchyLoss(HalfSquaredError):
            constant_hessian = False
            smoothness = 1e-3

            def value(self, y, f):
                return np.log1p((y - f) ** 2 / 2000)

            def negative_gradient(self, y, f):
                return 2 * (y - f) / (2000 + (y - f) ** 2)

            def hessian(self, y, f, weight):
                return 2 / (2000 + (y - f) ** 2)

        model = AGBMRegressor(loss=CauchyLoss(), max_iter=30, max_depth=3).fit(X, y)
        assert model.history_["train_loss"][-1] < 0.8 * model.history_["train_loss"][0]
        assert clone(model).fit(X, y).score(X, y) == model.score(X, y)

        class FailingLoss(HalfSquaredError):
            def negative_gradient(self, y, f):
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            AGBMRegressor(loss=FailingLoss()).fit(X, y)

    def test_init_with_a_link(self, regression):
        X, y = regression
        start = AGBMRegressor(loss="poisson", max_iter=10).fit(X, y)
        model = AGBMRegressor(method="gbm", loss="gamma", init=start, max_iter=1, learning_rate=1e-12).fit(X, y)
        np.testing.assert_allclose(model.predict(X), start.predict(X), rtol=1e-9)
