"""Models of earlier iterations."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Ridge

import agbm
from agbm import AGBMClassifier, AGBMRegressor


@pytest.mark.parametrize("method", ["fading", "gbm", "agbm", "vagbm", "agbmr"])
@pytest.mark.parametrize("n_members", [1, 2])
def test_predictions_are_those_of_the_stage(method, n_members, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(method=method, n_members=n_members, max_iter=8, early_stopping=False, max_depth=2).fit(X, y)
    for iteration, stage in enumerate(model.staged_predict(X), 1):
        earlier = model.at_iteration(iteration)
        np.testing.assert_allclose(earlier.predict(X), stage, rtol=1e-12)
        assert earlier.best_iteration_ == iteration
    np.testing.assert_array_equal(model.at_iteration(8).predict(X), model.predict(X))
    start = model.at_iteration(0)
    np.testing.assert_allclose(start.predict(X), y.mean())
    assert (start.n_trees_, start.n_iter_, model.best_iteration_) == (0, 8, 8)
    early = model.at_iteration(3)
    early.save(tmp_path / "early.agbm")
    np.testing.assert_array_equal(agbm.load(tmp_path / "early.agbm").predict(X), early.predict(X))


def test_an_iteration_chosen_by_another_metric():
    X, y = load_breast_cancer(return_X_y=True)
    model = AGBMClassifier(scoring=["neg_log_loss", "accuracy"]).fit(
        X[:400], y[:400], watch={"new": (X[400:], y[400:])}
    )
    scores = model.history_["new_accuracy"][: model.best_iteration_ + 1]
    chosen = model.at_iteration(int(scores.argmax()))
    assert chosen.score(X[400:], y[400:]) == scores.max()


def test_learners_other_than_trees():
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(learner=Ridge(), max_iter=5).fit(X, y)
    third = list(model.staged_predict(X))[2]
    np.testing.assert_allclose(model.at_iteration(3).predict(X), third, rtol=1e-12)


@pytest.mark.parametrize("iteration", [-1, 6])
def test_iterations_that_are_not_kept(iteration):
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(max_iter=5, early_stopping=False).fit(X, y)
    with pytest.raises(ValueError, match=f"iteration={iteration} must be between 0 and best_iteration_=5"):
        model.at_iteration(iteration)
