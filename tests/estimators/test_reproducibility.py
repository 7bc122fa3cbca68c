"""Threads, forks, interrupts and errors during a fit."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base import threads
from variants import made, methods, newton


@pytest.mark.slow
@methods
@pytest.mark.parametrize("shared", [False, True])
@newton
def test_identical_bits_for_every_n_jobs(method, shared, second_order):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 12)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X[:, :3], axis=1) + rng.normal(size=len(X)) > 0
    models = [
        AGBMClassifier(
            method=made(method, shared_structure=shared, second_order=second_order),
            max_iter=6,
            n_jobs=n,
            random_state=0,
        ).fit(X, y)
        for n in (1, 2, 4)
    ]
    first = models[0]
    for other in models[1:]:
        assert np.array_equal(first.decision_function(X), other.decision_function(X))
        assert np.array_equal(first.model_.folded.nodes, other.model_.folded.nodes)
        assert np.array_equal(first.model_.folded.value, other.model_.folded.value)
        for name in ("train_loss", "validation_loss", "cosine_residual"):
            assert np.array_equal(first.history_[name], other.history_[name], equal_nan=True)


@methods
def test_identical_bits_for_every_n_jobs_with_column_sampling(method, regression):
    X, y = regression
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    one, two = (
        AGBMRegressor(
            method=made(method, momentum="fading"), colsample_bytree=0.5, max_iter=8, n_jobs=n, random_state=0
        )
        for n in (1, 2)
    )
    assert np.array_equal(one.fit(X, y).predict(X), two.fit(X, y).predict(X))
    assert np.array_equal(one.history_["train_loss"], two.history_["train_loss"])


def test_n_jobs_respects_threadpool_limits():
    assert threads.resolve(3) == 3
    assert threads.resolve(None) == threads.resolve(-1) >= 1
    with threadpool_limits(limits=1):
        assert threads.resolve(None) == 1


def test_concurrent_fits(regression):
    """The pool serves one caller at a time; the others do their own work."""
    X, y = regression
    expected = AGBMRegressor(max_iter=30, n_jobs=2).fit(X, y).predict(X)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(AGBMRegressor(max_iter=30, n_jobs=2).fit(X, y).predict(X)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(result, expected) for result in results)


def run_script(text):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_fit_after_fork():
    """A forked child has none of the parent's threads."""
    run_script(
        """
        import multiprocessing, warnings
        import numpy as np
        from agbm import AGBMRegressor
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40_000, 5)); y = X[:, 0]
        def fit():
            return AGBMRegressor(max_iter=3, n_jobs=2, early_stopping=False).fit(X, y).predict(X[:5])
        def child(queue):
            queue.put(fit())
        expected = fit()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        assert np.array_equal(queue.get(timeout=60), expected)
        process.join(60)
        assert np.array_equal(fit(), expected)
        """
    )


@pytest.mark.slow
def test_interrupt_in_the_middle_of_a_tree():
    """Ctrl-C must not wait for the end of the tree: Python alone would only see it then.

    The signal comes from a thread that cannot run before the kernel has released the interpreter. `extend` calls the
    kernel and keeps what it returns without a step of Python between: a tree that was finished would be in the list.
    """
    run_script(
        """
        import functools, operator, os, signal, sys, threading
        import numpy as np
        from agbm import AGBMRegressor
        from agbm._tree import TreeLearner

        grown, growing = [], threading.Event()

        class Watched:
            def __init__(self, grower):
                self.grower = grower

            def grow(self, **arguments):
                call = functools.partial(self.grower.grow, **arguments)
                sys.setswitchinterval(1e6)
                growing.set()
                grown.extend(map(operator.call, [call]))
                raise SystemExit("was not interrupted")

        def interrupt():
            growing.wait()
            os.kill(os.getpid(), signal.SIGINT)

        rng = np.random.default_rng(0)
        X = rng.normal(size=(200_000, 20)); y = rng.normal(size=len(X))
        model = AGBMRegressor(max_iter=1, early_stopping=False, views=None).fit(X, y)
        expected = model.predict(X[:3])
        model.set_params(method="gbm", min_samples_leaf=1, max_depth=None, max_leaf_nodes=20_000)
        grower = TreeLearner._grower
        TreeLearner._grower = lambda *arguments: Watched(grower(*arguments))
        threading.Thread(target=interrupt).start()
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            sys.setswitchinterval(0.005)
        else:
            raise SystemExit("was not interrupted")
        assert grown == [], "the tree was finished first"
        TreeLearner._grower = grower
        assert AGBMRegressor(max_iter=5).fit(X[:500], y[:500]).predict(X[:3]).shape == (3,)
        assert np.array_equal(model.predict(X[:3]), expected)
        """
    )


@pytest.mark.slow
def test_interrupt_between_trees():
    run_script(
        """
        import os, signal, threading
        import numpy as np
        from agbm import AGBMRegressor
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 20)); y = rng.normal(size=len(X))
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            AGBMRegressor(max_iter=10**7, max_depth=3, learning_rate=1e-3, early_stopping=False).fit(X, y)
        except KeyboardInterrupt:
            pass
        else:
            raise SystemExit("was not interrupted")
        assert AGBMRegressor(max_iter=5).fit(X, y).predict(X[:3]).shape == (3,)
        """
    )


def test_failed_fit_keeps_the_previous_model(regression):
    X, y = regression
    model = AGBMRegressor(max_iter=10).fit(X, y)
    before = model.predict(X)

    def fail(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=[fail], init="zero").fit(X, -y)
    assert np.array_equal(model.predict(X), before)
    np.testing.assert_allclose(list(model.staged_predict(X))[-1], before, rtol=1e-12)
    classifier = AGBMClassifier(max_iter=10).fit(X, y > 100)
    before = classifier.predict(X)
    with pytest.raises(KeyboardInterrupt):
        classifier.set_params(callbacks=[fail]).fit(X[:, :4], np.where(y > 100, "yes", "no"))
    assert np.array_equal(classifier.predict(X), before)
