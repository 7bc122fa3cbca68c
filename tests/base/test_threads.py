"""Thread safety, forked processes and CPU quotas."""

import multiprocessing as mp
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._base import threads

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data():
    return make_regression(3000, 8, noise=5.0, random_state=0)


def test_many_threads_predict_with_one_model(data):
    X, y = data
    model = AGBMRegressor(max_iter=20, n_jobs=2).fit(X, y)
    expected = model.predict(X)
    predictor = model.predictor()

    def work(k):
        rows = slice(k % 7, 2000 + 3 * k)  # some are walked, some coded, on one thread and on two
        for part in (rows, slice(k, k + 5)):
            np.testing.assert_array_equal(model.predict(X[part]), expected[part])
            np.testing.assert_array_equal(predictor(X[part]), expected[part])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(60)))


def test_first_predictions_of_many_threads(data, tmp_path):
    """The native forest is made at the first use; here by all threads at once."""
    X, y = data
    model = AGBMRegressor(max_iter=10, n_jobs=1).fit(X, y)
    expected = model.predict(X[:50])
    model.save(tmp_path / "m.agbm")
    for _ in range(5):
        loaded = agbm.load(tmp_path / "m.agbm")
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: loaded.predict(X[:50]), range(16)):  # noqa: B023
                np.testing.assert_array_equal(found, expected)


def test_concurrent_training_and_prediction(data):
    X, y = data
    model = AGBMRegressor(max_iter=20, n_jobs=2).fit(X, y)
    expected = model.predict(X)

    def train(seed):
        return AGBMRegressor(max_iter=15, subsample=0.7, random_state=seed, n_jobs=2).fit(X, y).predict(X[:20])

    alone = [train(seed) for seed in range(3)]
    with ThreadPoolExecutor(6) as pool:
        trained = [pool.submit(train, seed) for seed in range(3)]
        predicted = [pool.submit(model.predict, X) for _ in range(40)]
        for future in predicted:
            np.testing.assert_array_equal(future.result(), expected)
        for future, same in zip(trained, alone, strict=True):
            np.testing.assert_array_equal(future.result(), same)


def test_concurrent_saving_loading_and_prediction(data, tmp_path):
    X, y = data
    model = AGBMRegressor(max_iter=10).fit(X, y)
    expected = model.predict(X[:100])

    def work(k):
        path = tmp_path / f"{k % 3}.agbm"  # several threads write the same file: each time a whole one
        model.save(path)
        np.testing.assert_array_equal(agbm.load(path).predict(X[:100]), expected)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))


# In a process of its own: pytest may have threads, with which a fork is not allowed to do much.
FORK = """
import multiprocessing as mp, os, sys
import numpy as np
from sklearn.datasets import make_classification
from agbm import AGBMClassifier

X, y = make_classification(3000, 8, random_state=0)
model = AGBMClassifier(max_iter=10, n_jobs=2).fit(X, y)  # starts threads, if there are any to start
expected = model.predict_proba(X)

def predict(_):
    return np.array_equal(model.predict_proba(X), expected)

def train(seed):
    return AGBMClassifier(max_iter=5, n_jobs=2, random_state=seed).fit(X, y).score(X, y)

with mp.get_context("fork").Pool(2) as pool:
    assert all(pool.map_async(predict, range(8)).get(timeout=100))
    scores = pool.map_async(train, [0, 0, 0]).get(timeout=100)
assert scores == [train(0)] * 3
assert np.array_equal(model.predict_proba(X), expected)
print("done")
"""


@pytest.mark.skipif("fork" not in mp.get_all_start_methods(), reason="there is no fork here")
def test_fork_after_training():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)], capture_output=True, text=True, timeout=200
    )
    assert run.stdout.strip() == "done", run.stderr


def test_concurrent_predictions_of_a_classifier(tmp_path):
    X, y = make_classification(2000, 6, n_informative=4, n_classes=3, random_state=0)
    model = AGBMClassifier(max_iter=8, n_jobs=2).fit(X, y)
    expected = model.predict_proba(X)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: model.predict_proba(X), range(20)):
            np.testing.assert_array_equal(found, expected)


def test_more_threads_than_cores_on_a_busy_machine():
    """Threads that the system does not schedule are not waited for."""
    X, y = make_regression(20_000, 8, noise=5.0, random_state=0)
    expected = AGBMRegressor(max_iter=5, n_jobs=1).fit(X, y).predict(X)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        for n_jobs in (2, 16):
            found = AGBMRegressor(max_iter=5, n_jobs=n_jobs).fit(X, y).predict(X)
            np.testing.assert_array_equal(found, expected)
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/a/b\n", {}, 2**16),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, 2**16),
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
        ("0::/a\n", {"unified/a/cpu.max": "200000 100000\n"}, 2),
        ("4:cpu,cpuacct:/a\n3:memory:/b\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "400000\n",
                                              "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 4),
        ("4:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 2**16),
        ("3:memory:/b\n", {"memory/b/cpu.max": "100000 100000\n"}, 2**16),
    ],
)  # fmt: skip
def test_cpu_quota_of_control_groups(groups, files, cores, tmp_path):
    (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads.cpu_quota(tmp_path / "groups", tmp_path) == cores


def test_cpu_quota_without_control_groups(tmp_path):
    assert threads.cpu_quota(tmp_path / "none", tmp_path) == 2**16
