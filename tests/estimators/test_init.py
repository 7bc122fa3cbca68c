"""The initial model."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

from agbm import AGBMClassifier, AGBMRegressor
from variants import methods


class TestInit:
    def test_prior_and_zero(self, regression, binary):
        X, y = regression
        prior = AGBMRegressor(init="prior", max_iter=1, max_depth=1, min_samples_leaf=400, early_stopping=False)
        assert prior.fit(X, y).predict(X)[0] == pytest.approx(y.mean())
        zero = AGBMRegressor(
            method="gbm", init="zero", max_iter=1, min_samples_leaf=400, learning_rate=0.5, l2_regularization=0.0
        ).fit(X, y)
        assert zero.predict(X)[0] == pytest.approx(y.mean() / 2)
        X, y = binary
        prior = AGBMClassifier(max_iter=1, min_samples_leaf=600, early_stopping=False).fit(X, y)
        assert prior.predict_proba(X)[0, 1] == pytest.approx(y.mean())

    @pytest.mark.slow
    @methods
    def test_init_accepts_fitted_models(self, method, regression, binary):
        X, y = regression
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(method=method, init=start, max_iter=5, early_stopping=False).fit(X, y)
        assert model.history_["train_loss"][0] == pytest.approx(np.mean((start.predict(X) - y) ** 2) / 2)
        assert model.history_["train_loss"][-1] < model.history_["train_loss"][0]
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-12)
        X, y = binary
        X = X[:, :2]  # few columns, of which logistic regression soon has the coefficients
        start = LogisticRegression(max_iter=5000).fit(X, y)
        model = AGBMClassifier(method=method, init=FrozenEstimator(start), max_iter=5, early_stopping=False)
        assert clone(model).fit(X, y).history_["train_loss"][0] == pytest.approx(
            -np.log(start.predict_proba(X)[np.arange(len(y)), y]).mean()
        )

    def test_init_receives_the_original_data(self):
        """Including the column names: without them scikit-learn would warn, and warnings are errors here."""
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(init=start, max_iter=5, early_stopping=True, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        AGBMRegressor(init=start, max_iter=5).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])

    def test_init_is_copied(self, regression):
        X, y = regression
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(init=start, max_iter=5).fit(X, y)
        before = model.predict(X)
        start.fit(X, -y)
        assert np.array_equal(model.predict(X), before)

    def test_init_accepts_agbm_model(self, regression):
        X, y = regression
        whole = AGBMRegressor(method="gbm", max_iter=20, colsample_bytree=1.0).fit(X, y)
        half = AGBMRegressor(method="gbm", max_iter=10, colsample_bytree=1.0).fit(X, y)
        rest = AGBMRegressor(method="gbm", max_iter=10, init=half, colsample_bytree=1.0).fit(X, y)
        np.testing.assert_allclose(rest.predict(X), whole.predict(X), rtol=1e-9)
