"""Validation rows and early stopping."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import Fading


def test_validation_rows_do_not_affect_the_trees():
    """Neither their features, nor their labels, nor their categories."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300), "kind": rng.integers(0, 5, size=300).astype(str)})
    y = X["x"] + rng.normal(size=300)
    model = AGBMRegressor(max_iter=5, max_bins=16, early_stopping=False).fit(X, y)
    other = pd.DataFrame({"x": 1000 * rng.normal(size=300), "kind": ["q"] * 300})
    other_model = AGBMRegressor(max_iter=5, max_bins=16, early_stopping=False).fit(X, y, X_val=other, y_val=-100 * y)
    assert np.array_equal(model.predict(X), other_model.predict(X))
    assert np.array_equal(model.model_.folded.nodes["threshold"], other_model.model_.folded.nodes["threshold"])


def test_validation_split_is_stratified():
    y = np.zeros(2000)
    y[:100] = 1
    model = AGBMClassifier(early_stopping=True, max_iter=1, max_depth=1, random_state=1)
    model.fit(np.zeros((2000, 1)), y)
    expected = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
    assert model.history_["validation_loss"][0] == pytest.approx(expected)


@pytest.mark.slow
def test_automatic_max_iter(regression):
    """max_iter="auto": 100 where nothing stops the run, else up to 1,000."""
    X, y = regression
    model = AGBMRegressor(n_members=1, max_iter="auto", max_depth=1, random_state=0)
    assert clone(model).fit(X, y).n_iter_ == 100
    assert clone(model).set_params(early_stopping=False).fit(X, y, X_val=X, y_val=y).n_iter_ == 100
    stopping = clone(model).set_params(early_stopping=True)
    assert stopping.fit(X, y).n_iter_ < 1000
    assert stopping.set_params(n_iter_no_change=1000).fit(X, y).n_iter_ == 1000
    assert AGBMRegressor().get_params()["max_iter"] == "auto"


@pytest.mark.slow
def test_early_stopping_modes(binary):
    X, y = binary
    assert np.isnan(AGBMClassifier(n_members=1, max_iter=3).fit(X, y).history_["validation_loss"]).all()
    assert np.isfinite(AGBMClassifier(max_iter=3).fit(X, y).history_["validation_loss"]).all()
    with pytest.warns(UserWarning, match="rows are copies of others"):
        auto = AGBMClassifier(n_members=1, max_iter=3, max_depth=1).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    assert np.isfinite(auto.history_["validation_loss"]).all()
    other_model = AGBMClassifier(max_iter=300, learning_rate=0.5, early_stopping=False).fit(
        X, y, X_val=X[:50], y_val=y[:50]
    )
    assert other_model.best_iteration_ == other_model.n_iter_ == 300
    stopped = AGBMClassifier(
        max_iter=300,
        learning_rate=0.5,
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=3,
        random_state=0,
    )
    stopped.fit(X, y)
    assert stopped.best_iteration_ < stopped.n_iter_ < 300
    again = clone(stopped).fit(X, y)
    assert np.array_equal(stopped.predict_proba(X), again.predict_proba(X))


class TestAutomaticEarlyStopping:
    @pytest.mark.parametrize(
        ("parameters", "fewest"),
        [({}, 75), ({"n_members": 2}, 75), ({"method": "agbm", "n_members": 2}, 75),
         ({"n_members": 1}, 10_000), ({"method": "gbm"}, 10_000),
         ({"method": Fading(learner=LinearRegression())}, 10_000)],
        ids=str,
    )  # fmt: skip
    def test_threshold_of_rows(self, parameters, fewest):
        for n_rows in (fewest - 1, fewest):
            X = np.arange(float(n_rows))[:, np.newaxis]
            model = AGBMRegressor(max_iter=1, **parameters).fit(X, X[:, 0])
            assert model.resolved_params_["early_stopping"] == (n_rows == fewest)
            had_trial = fewest == 10_000
            assert np.isfinite(model.history_["validation_loss"]).all() == (n_rows == fewest or had_trial)

    @pytest.mark.parametrize("n_members", ["auto", 1])
    def test_enabled_by_validation_rows(self, n_members):
        X, y = np.arange(20.0)[:, np.newaxis], np.arange(20.0)
        model = AGBMRegressor(n_members=n_members, max_iter=1).fit(X, y, X_val=X[:1], y_val=y[:1])
        assert model.resolved_params_["early_stopping"]

    def test_explicit_value_is_kept(self):
        X, y = np.arange(200.0)[:, np.newaxis], np.arange(200.0)
        model = AGBMRegressor(early_stopping=False, max_iter=1).fit(X, y, X_val=X, y_val=y)
        assert not model.resolved_params_["early_stopping"]
        assert AGBMRegressor(early_stopping=True, max_iter=1).fit(X[:50], y[:50]).resolved_params_["early_stopping"]
