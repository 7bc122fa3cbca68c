"""Models of earlier iterations."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Ridge

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._fit import auto
from agbm.methods import Fading


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
    model = AGBMRegressor(method=Fading(learner=Ridge()), max_iter=5).fit(X, y)
    third = list(model.staged_predict(X))[2]
    np.testing.assert_allclose(model.at_iteration(3).predict(X), third, rtol=1e-12)


@pytest.mark.parametrize("iteration", [-1, 6])
def test_unavailable_iterations_raise(iteration):
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(max_iter=5, early_stopping=False).fit(X, y)
    with pytest.raises(ValueError, match=f"iteration={iteration} must be between 0 and best_iteration_=5"):
        model.at_iteration(iteration)


class TestTrial:
    """Early stopping finds the number of iterations of one member, which is fitted to all rows."""

    N = auto.TRIAL_ROWS

    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.N, 4))
        return X, np.sin(2 * X[:, 0]) + rng.normal(size=self.N)

    def test_equals_the_fit_with_this_max_iter(self, data, tmp_path):
        X, y = data
        told = []
        model = AGBMRegressor(n_members=1, callbacks=[lambda record: told.append(record.iteration)]).fit(X, y)
        stopped = AGBMRegressor(n_members=1, early_stopping=True).fit(X, y)
        n = stopped.best_iteration_
        assert 0 < n < stopped.n_iter_
        whole = AGBMRegressor(n_members=1, early_stopping=False, max_iter=n).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
        assert told == list(range(n + 1))
        assert (model.resolved_params_["early_stopping"], model.resolved_params_["max_iter"]) == (False, n)
        assert (model.early_stopping, model.max_iter) == ("auto", "auto")
        model.set_params(callbacks=None).save(tmp_path / "model.agbm")
        loaded = agbm.load(tmp_path / "model.agbm")
        assert not loaded.verify(X, y).differences
        assert (loaded.early_stopping, loaded.max_iter) == ("auto", "auto")
        np.testing.assert_array_equal(loaded.update(X, y, mode="all").predict(X), whole.predict(X))

    def test_without_a_seed(self, data, tmp_path):
        model = AGBMRegressor(n_members=1, random_state=None, max_iter=20, colsample_bynode=0.5).fit(*data)
        model.save(tmp_path / "model.agbm")
        assert not agbm.load(tmp_path / "model.agbm").verify(*data).differences

    def test_in_batches(self, data):
        X, y = data
        model = AGBMRegressor(n_members=1, max_iter=30).fit(X, y)
        parts = AGBMRegressor(n_members=1, max_iter=30).fit(agbm.Batches(lambda: iter([X[:300], X[300:]])), y)
        np.testing.assert_array_equal(parts.predict(X), model.predict(X))

    @pytest.mark.parametrize(
        ("parameters", "n_rows", "stops_early"),
        [
            ({}, N - 1, False),  # too few rows
            ({"warm_start": True}, N, False),  # the next fit must have the same rows
            ({"loss": "distribution:normal"}, N, True),  # the spread needs the held-out rows
            ({"early_stopping": True}, N, True),
        ],
    )
    def test_without_iterations_raises(self, parameters, n_rows, stops_early, data):
        X, y = data[0][:n_rows], data[1][:n_rows]
        model = AGBMRegressor(n_members=1, max_iter=3, **parameters).fit(X, y)
        assert model.resolved_params_["early_stopping"] is stops_early
        assert model.model_.held_out is stops_early
        assert model.resolved_params_["max_iter"] == 3
