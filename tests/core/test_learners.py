"""Weak learners other than trees."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import GBM, Fading
from variants import made, methods

LEARNERS = {
    "linear": Ridge(),
    "spline": make_pipeline(SplineTransformer(n_knots=4), Ridge()),
    "knn": KNeighborsRegressor(15),
    "kernel ridge": KernelRidge(alpha=1.0, kernel="rbf"),
    "mlp": MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", max_iter=30),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(150, 3))
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=150)


@pytest.mark.slow
@methods
@pytest.mark.parametrize("learner", LEARNERS)
def test_learners_work_with_every_method(data, method, learner):
    X, y = data
    arguments = {
        "method": made(method, momentum=0.02, learner=LEARNERS[learner], second_order=False),
        "max_iter": 8,
        "learning_rate": 0.3,
        "random_state": 0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # thirty steps are enough for a weak network
        regressor = AGBMRegressor(**arguments).fit(X, y)
        classifier = AGBMClassifier(**arguments).fit(X, y > 0)
        again = AGBMRegressor(**arguments).fit(X, y)
    assert np.array_equal(regressor.predict(X), again.predict(X)), "the same seed gives the same model"
    for model in (regressor, classifier):
        losses = model.history_["train_loss"]
        assert losses[-1] < 0.9 * losses[0]
        assert model.n_trees_ == (14 if method in ("agbm", "agbmr") else 8)
    staged = list(regressor.staged_predict(X))
    np.testing.assert_allclose(staged[-1], regressor.predict(X), rtol=1e-12)
    assert classifier.score(X, y > 0) > 0.7


@methods
def test_validation_rows_and_weights_reach_the_learner(data, method):
    X, y = data
    weight = (np.arange(len(y)) < 100).astype(float)
    model = AGBMRegressor(method=made(method, learner=LinearRegression()), max_iter=5, init="zero")
    weighted = model.fit(X, y, sample_weight=weight, X_val=X[100:], y_val=y[100:]).predict(X)
    model = AGBMRegressor(method=made(method, learner=LinearRegression()), max_iter=5, init="zero")
    cut = model.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:]).predict(X)
    np.testing.assert_allclose(weighted, cut, rtol=1e-9, atol=1e-9)


def test_weights_reach_the_last_step_of_a_pipeline(data):
    X, y = data
    weight = (np.arange(len(y)) < 100).astype(float)
    pipeline = make_pipeline(SplineTransformer(n_knots=3, knots=np.linspace(-1, 1, 3)[:, None] * np.ones(3)), Ridge())
    weighted = AGBMRegressor(method=Fading(learner=pipeline), max_iter=4).fit(X, y, sample_weight=weight).predict(X)
    cut = AGBMRegressor(method=Fading(learner=pipeline), max_iter=4).fit(X[:100], y[:100]).predict(X)
    np.testing.assert_allclose(weighted, cut, rtol=1e-9, atol=1e-9)


def test_learners_without_sample_weight_raise(data):
    X, y = data
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        AGBMRegressor(method=Fading(learner=KNeighborsRegressor()), max_iter=2).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="second_order"):
        AGBMClassifier(method=Fading(learner=KNeighborsRegressor(), second_order=True)).fit(X, y > 0)


def test_newton_fits_of_a_linear_learner(data):
    """One full Newton step of GBM with a linear learner is one step of iteratively reweighted least squares."""
    X, y = data
    labels = (y > 0).astype(float)
    model = AGBMClassifier(
        method=GBM(learner=LinearRegression(), second_order=True), learning_rate=1.0, max_iter=12, init="zero"
    )
    model.fit(X, labels)
    columns = np.column_stack([np.ones(len(X)), X])
    beta = np.zeros(4)
    for _ in range(12):
        p = 1 / (1 + np.exp(-columns @ beta))
        h = np.maximum(p * (1 - p), np.abs(labels - p) / 6)
        beta += np.linalg.solve(columns.T @ (h[:, None] * columns), columns.T @ (labels - p))
    np.testing.assert_allclose(model.decision_function(X), columns @ beta, rtol=1e-6, atol=1e-8)


def test_accelerated_newton_fits_correct_in_units_of_the_gradient(data):
    """AGBM with Newton steps of a linear learner, implemented a second time: the error of c is c - hessian * b."""
    X, y = data
    labels = (y > 0).astype(float)
    eta, gamma, iterations = 0.3, 0.2, 8
    model = AGBMClassifier(
        method=made("agbm", momentum=gamma, correction=1.0, learner=LinearRegression(), second_order=True),
        learning_rate=eta,
        max_iter=iterations,
        init="zero",
    ).fit(X, labels)
    columns = np.column_stack([np.ones(len(X)), X])

    def newton(target, h):
        return columns @ np.linalg.solve(columns.T @ (h[:, None] * columns), columns.T @ target)

    f = h_model = error = np.zeros(len(y))
    for m in range(iterations):
        theta = 2 / (m + 2)
        g = (1 - theta) * f + theta * h_model
        p = 1 / (1 + np.exp(-g))
        hessian = np.maximum(p * (1 - p), np.abs(labels - p) / 6)
        c = labels - p + (m + 1) / (m + 2) * error
        b = newton(c, hessian)
        f = g + eta * newton(labels - p, hessian)
        h_model = h_model + gamma * eta / theta * b
        error = c - hessian * b
    np.testing.assert_allclose(model.decision_function(X), f, rtol=1e-6, atol=1e-8)


def test_no_importances_without_trees(data):
    X, y = data
    model = AGBMRegressor(method=Fading(learner=Ridge()), max_iter=2).fit(X, y)
    with pytest.raises(AttributeError, match="trees only"):
        model.feature_importances_  # noqa: B018
