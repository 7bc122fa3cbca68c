"""Callbacks, early stopping, divergence."""

import math

import numpy as np
import pytest

from agbm import AGBMRegressor
from agbm._core.training import Divergence, EarlyStopping, Record, by_loss, mean_of


def record(iteration, validation_loss=float("nan")):
    return Record(iteration, 2 * iteration, 1.0 / (iteration + 1), validation_loss)


def test_callbacks_see_every_iteration_and_may_stop():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    seen, also_seen = [], []

    def stop_at_five(r):
        seen.append(r)
        return r.iteration == 5

    model = AGBMRegressor(max_iter=50, callbacks=[stop_at_five, also_seen.append]).fit(X, X[:, 0])
    assert [r.iteration for r in seen] == [r.iteration for r in also_seen] == list(range(6))
    assert model.n_iter_ == model.best_iteration_ == 5
    again = AGBMRegressor(max_iter=5).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-12)
    assert model.n_trees_ == again.n_trees_
    assert seen[-1].train_loss == again.history_["train_loss"][-1]


def test_a_callback_may_stop_before_the_first_iteration():
    model = AGBMRegressor(callbacks=[lambda r: True]).fit([[0.0], [1.0]], [0.0, 1.0])
    assert model.n_iter_ == model.n_trees_ == 0
    assert np.array_equal(model.predict([[0.0]]), [0.5])


def test_errors_of_callbacks_propagate():
    def fail(r):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        AGBMRegressor(callbacks=[fail]).fit([[0.0], [1.0]], [0.0, 1.0])


def test_early_stopping_counts_iterations_without_improvement(monkeypatch):
    monkeypatch.setattr("agbm._core.training.TOLERANCE", 0.1)
    stopping = EarlyStopping(n_iter_no_change=2, criterion=by_loss(validation=True))
    answers = [stopping(record(i, loss)) for i, loss in enumerate([5.0, 4.0, 3.95, 3.85, 3.84, 3.83])]
    assert answers == [False, False, False, False, False, True]


def test_divergence_counts_growth_from_the_lowest_loss_but_not_from_nothing():
    def answers(losses):
        divergence = Divergence()
        return [divergence(record(i)._replace(train_loss=loss)) for i, loss in enumerate(losses)]

    assert answers([1.0, 0.5, 49.0, 51.0]) == [False, False, False, True]
    assert answers([1.0, 1e-9, 0.09, 0.11]) == [False, False, False, True]
    assert answers([1.0, float("inf")]) == [False, True]
    assert answers([0.0, 1e-20, 1.0]) == [False, False, False]


class AnObjective:
    start = None
    has_validation, has_loss = False, True

    def train_loss(self, f):
        return 1.0

    def validation_loss(self, f):
        return math.nan


class AnEnsemble(list):
    n_learners = 0

    def append(self, step):
        super().append(step.eta)


def test_means_do_not_depend_on_the_version_of_python():
    """From 3.12 on, sum() compensates rounding errors."""
    assert mean_of([1e16, 1.0, 1.0, -1e16]) == 0.0
