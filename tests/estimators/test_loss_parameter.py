"""The losses that `loss` names, and custom losses."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import HalfSquaredError, Huber, Quantile, Tweedie
from agbm.methods import AGBM, GBM, Fading
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


def squared(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_pred)


def squared_of_data(y_pred, data):
    """As LightGBM's and XGBoost's training functions call it."""
    return y_pred - data.get_label(), data.get_weight()


def logistic(y_true, y_pred):
    p = 1.0 / (1.0 + np.exp(-y_pred))
    return p - y_true, p * (1.0 - p)


def softmax(y_true, y_pred):
    e = np.exp(y_pred - y_pred.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    k = y_pred.shape[1]
    return p - np.eye(k)[y_true.astype(int)], p * (1.0 - p) * k / (k - 1)


SET = {"l2_regularization": 7.0, "learning_rate": 0.1, "max_leaf_nodes": 8, "min_samples_leaf": 5}


class TestFunctions:
    """Functions that return the gradient and the hessian."""

    @pytest.mark.parametrize(
        "function",
        [squared, squared_of_data, lambda y, f, weight: [(f - y) * weight, weight.tolist()]],
        ids=["pair", "data", "weight"],
    )
    def test_of_the_squared_error(self, function, regression):
        X, y = regression
        weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
        for weights in (None, weight):
            plain = AGBMRegressor(**SET, max_iter=20, early_stopping=False).fit(X, y, weights)
            model = AGBMRegressor(**SET, loss=function, max_iter=20, early_stopping=False).fit(X, y, weights)
            np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-9)
            assert np.isnan(model.history_["train_loss"]).all()
            np.testing.assert_allclose(
                model.history_["cosine_residual"][1:], plain.history_["cosine_residual"][1:], rtol=1e-6
            )

    def test_of_classes(self, binary):
        for (X, y), function in ((binary, logistic), (load_iris(return_X_y=True), softmax)):
            shared = {**SET, "scoring": "neg_log_loss", "multi_strategy": "one_output_per_tree", "max_iter": 40}
            model = AGBMClassifier(**shared, loss=function, views=None).fit(X, y)
            plain = AGBMClassifier(**shared, views=None).fit(X, y)
            # Only the start differs: best constants are found in another way.
            if len(np.unique(y)) == 2:
                np.testing.assert_allclose(model.model_.start, plain.model_.start, rtol=1e-9)
            assert model.best_iteration_ == pytest.approx(plain.best_iteration_, abs=3)
            np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=0.02)

    def test_labels_of_several_columns(self, regression):
        X, y = regression
        both = np.column_stack([y, -y])
        model = AGBMRegressor(**SET, loss=squared, max_iter=10, early_stopping=False).fit(X, both)
        plain = AGBMRegressor(**SET, max_iter=10, early_stopping=False).fit(X, both)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-9)
        X, y = load_iris(return_X_y=True)
        labels = np.eye(3, dtype=int)[y]
        model = AGBMClassifier(**SET, loss=logistic, max_iter=10, early_stopping=False, views=None).fit(X, labels)
        plain = AGBMClassifier(**SET, max_iter=10, early_stopping=False, views=None).fit(X, labels)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-3)

    def test_start_is_the_root_of_the_gradient(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(500, 2)), 1e6 + rng.poisson(3.0, size=500).astype(float)

        def poisson(y_true, y_pred):
            return np.exp(y_pred) - y_true, np.exp(y_pred)

        weight = rng.uniform(0.5, 1.5, size=500)
        model = AGBMRegressor(loss=poisson, max_iter=1, early_stopping=False).fit(X, y, weight)
        np.testing.assert_allclose(model.model_.start, [np.log(np.average(y, weights=weight))], rtol=1e-9)
        offset = rng.normal(size=500)
        model.fit(X, y, offset=offset)
        np.testing.assert_allclose(np.exp(model.model_.start[0] + offset).sum(), y.sum(), rtol=1e-6)

    def test_warns_that_nothing_stops_early(self, regression):
        X, y = regression
        with pytest.warns(UserWarning, match=r"loss=<function squared at .* does not stop early.*scoring=") as caught:
            model = AGBMRegressor(loss=squared, max_iter=5).fit(X, y, X_val=X, y_val=y)
        assert caught[0].filename == __file__
        assert model.resolved_params_["early_stopping"] is False
        assert model.best_iteration_ == 5
        assert "squared; scores are predictions" in repr(model.resolved_params_["loss"])
        model = AGBMRegressor(loss=squared, scoring="neg_mean_absolute_error").fit(X, y)
        assert model.best_iteration_ == np.argmax(model.history_["validation_neg_mean_absolute_error"])
        assert 0 < model.best_iteration_ < model.n_iter_ < 1000

    def test_resumes_pickles_and_updates(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(loss=squared, max_iter=12, early_stopping=False).fit(X, y)
        assert clone(model).get_params()["loss"] is squared
        half = AGBMRegressor(loss=squared, max_iter=6, early_stopping=False, warm_start=True).fit(X, y)
        half.set_params(max_iter=12).fit(X, y)
        np.testing.assert_array_equal(half.predict(X), model.predict(X))
        half.set_params(loss=squared_of_data)
        with pytest.raises(ValueError, match=r"warm_start=True needs the parameters of the previous fit; got loss="):
            half.fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
        with pytest.raises(ValueError, match="model files contain no code; pickle the model"):
            model.save(tmp_path / "model.agbm")
        more = clone(model).fit(X, y).update(X[:200], y[:200], mode="trees", max_iter=3)
        assert more.n_iter_ == 15
        for mode in ("leaves", "weights"):
            with pytest.raises(ValueError, match=f"mode='{mode}' needs the value of the loss"):
                model.update(X, y, mode=mode)

    @pytest.mark.parametrize(
        ("function", "error", "message"),
        [
            (lambda y, f: f - y, TypeError, r"must return two arrays, the gradient and the hessian; it returned ndarr"),
            (lambda y, f: (f - y, None), ValueError, r"the hessian has the shape \(\); it must be that of y_pred, \(4"),
            (lambda y, f: ((f - y)[1:], f), ValueError, r"the gradient has the shape \(441,\); .* \(442,\)"),
            (lambda y, f: (f - y, -np.ones(len(f))), ValueError, r"the hessian has 442 negative numbers"),
            (lambda y, f: (f - y, np.zeros(len(f))), ValueError, r"the hessian has 0 negative numbers and 0 that are"),
            (
                lambda y, f: (f - y, np.full(len(f), np.inf)),
                ValueError,
                r"the hessian has 442 numbers that are not fin",
            ),
            (lambda f, y: (f - y, np.ones(len(f))), ValueError, r"the mean gradient has the same sign .* init='zero'"),
            (lambda y, f, w, group: (f, f), TypeError, r"must have the arguments .* 4 are required"),
            (lambda y, f: f.get_group(), AttributeError, "get_group"),
            (HalfSquaredError, TypeError, r"loss=HalfSquaredError is a class; pass an instance of it"),
        ],
    )
    def test_mistakes_are_named(self, function, error, message, regression):
        X, y = regression
        with pytest.raises(error, match=message):
            AGBMRegressor(loss=function, max_iter=3, early_stopping=False).fit(X, y)

    def test_settings_that_need_losses(self, regression):
        X, y = regression
        with pytest.raises(ValueError, match=r"early_stopping=True needs a metric, since the function loss=<function"):
            AGBMRegressor(loss=squared, early_stopping=True).fit(X, y)
        for method, name in ((AGBM(restart="loss_rise"), "restart='loss_rise'"), ("agbmr", "restart='loss_rise'")):
            with pytest.raises(ValueError, match=rf"{name} needs the value of the loss.*use restart=None"):
                AGBMRegressor(loss=squared, method=method).fit(X, y)
        with pytest.raises(ValueError, match=r"temperature_scaling=True needs the value of the loss"):
            AGBMRegressor(loss=squared, method=Fading(temperature_scaling=True), scoring="r2").fit(X, y)
        with pytest.raises(ValueError, match=r"agbm\.cv needs a metric, since the function loss="):
            agbm.cv(AGBMRegressor(loss=squared), X, y)
        found = agbm.cv(AGBMRegressor(loss=squared, max_iter=30), X, y, scoring="r2", cv=3)
        assert found.best_iteration == np.argmax(found.history["validation_r2_mean"]) > 0
        for method in ("gbm", "vagbm", "agbm", AGBM(restart="gradient"), GBM(line_search=True)):
            model = AGBMRegressor(loss=squared, method=method, max_iter=20, early_stopping=False).fit(X, y)
            assert model.score(X, y) > 0.1
        with pytest.raises(ValueError, match=r"sees one row at a time; for ranking, use a name or an object"):
            agbm.AGBMRanker(loss=squared, early_stopping=False).fit(X, np.column_stack([y > 100, np.arange(442) // 20]))

    def test_functions_may_change_scores_in_place(self, regression):
        X, y = regression

        def careless(y_true, y_pred):
            y_pred -= y_true
            return y_pred, np.ones(len(y_pred))

        models = [AGBMRegressor(loss=one, max_iter=5, early_stopping=False).fit(X, y) for one in (squared, careless)]
        np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))

    def test_functions_of_other_libraries_are_translated(self, regression):
        lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
        X, y = regression
        for library, theirs in (
            ("lightgbm", lightgbm.LGBMRegressor(objective=squared, n_estimators=30, verbose=-1)),
            ("xgboost", xgboost.XGBRegressor(objective=squared, n_estimators=30, max_depth=3)),
        ):
            ours = agbm.from_params(library, theirs).fit(X, y)
            assert ours.loss is squared
            assert np.corrcoef(ours.predict(X), theirs.fit(X, y).predict(X))[0, 1] > 0.97
        with pytest.raises(ValueError, match=r"since objective is a function\. Give task="):
            agbm.from_params("lightgbm", {"objective": squared})
