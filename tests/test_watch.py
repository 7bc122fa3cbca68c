"""Watchers: callbacks and progress."""

import io

import numpy as np
import pytest

from agbm import AGBMRegressor
from agbm.watch import Divergence, EarlyStopping, Record, progress


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


def test_an_error_of_a_callback_reaches_the_user_as_it_is():
    def fail(r):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        AGBMRegressor(callbacks=[fail]).fit([[0.0], [1.0]], [0.0, 1.0])


def test_early_stopping_counts_iterations_without_improvement():
    stopping = EarlyStopping(n_iter_no_change=2, tol=0.1)
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


def test_lines_where_there_is_no_terminal(capfd):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    AGBMRegressor(method="agbm", max_iter=20, early_stopping=False, verbose=1).fit(X, X[:, 0], X_val=X, y_val=X[:, 0])
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("agbm  20/20  trees 20  train loss ")
    assert "validation loss" in err
    assert err.count("\n") == 1
    AGBMRegressor(max_iter=20, verbose=0).fit(X, X[:, 0])
    assert capfd.readouterr() == ("", "")


def test_lines_come_every_few_seconds():
    stream = io.StringIO()
    with progress("gbm", 100, 1, stream) as lines:
        for i in range(100):
            lines(record(i)._replace(seconds=0.1 * i))
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == [f"{i}/100" for i in (20, 40, 60, 80, 99)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal():
    stream = Terminal()
    with progress("agbm", 40, 1, stream) as bar:
        for i in range(41):
            bar(record(i, 0.25))
    text = stream.getvalue()
    assert "40/40" in text
    assert "trees 80" in text
    assert "validation loss 0.25" in text


def test_lines_on_a_terminal_without_rich(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    stream = Terminal()
    with progress("gbm", 10, 1, stream) as lines:
        lines(record(10))
    assert stream.getvalue().startswith("gbm  10/10  trees 20  train loss 0.0909")
