"""Untrusted model files: memory and time are bounded by the size of the file, whatever it claims."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import agbm
from agbm import AGBMRegressor, ModelFileError
from agbm._apps.cli import main
from agbm._base import threads
from agbm._core.ensemble import Ensemble
from agbm._storage import values as stored_values
from agbm._storage.columns import category_arrays
from toys import rewrite

pytestmark = pytest.mark.slow

# docs/model-file.md promises these: of the description, and of everything else.
DESCRIPTION_FACTOR = 50
FACTOR = 20

ONE = {"n_members": 1, "early_stopping": False}
"""Parameters of a model with one function per iteration."""


@pytest.fixture
def small(tmp_path):
    """A file of a few kB."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    AGBMRegressor(max_iter=1, max_depth=1, colsample_bynode=1.0, **ONE).fit(X, X[:, 0]).save(tmp_path / "m.agbm")
    return tmp_path / "m.agbm"


def many_iterations(description, arrays, n=5_000):
    """Repeat the only iteration n times."""
    for name in arrays:
        if name.startswith("history."):
            arrays[name] = np.resize(arrays[name], n + 1)
        elif not name.startswith(("feature_names", "categories.", "origin.", "chain", "profile.")):
            arrays[name] = np.tile(arrays[name], n)
    arrays["chain"] = np.zeros(32 * (n + 4), np.uint8)
    arrays["history.iteration"] = np.arange(n + 1)
    for name in ("function_model", "primary", "momentum"):
        arrays[name] = np.arange(n)


def many_categories(values):
    def change(description, arrays):
        arrays.update(category_arrays("categories", {0: values}))
        del arrays["profile.size"]  # that of a column of numbers

    return change


def many_names(description, arrays):
    description["n_features"] = 50_000
    arrays.update(stored_values.to_arrays("feature_names", list(map(str, range(50_000))), ""))


def many_lists(description, arrays):
    description["parameters"]["monotonic_cst"] = [[] for _ in range(100_000)]


def many_profiles(description, arrays, n=1_000):
    """As many columns as profiles have, with the smallest one each."""
    description["n_features"] = n
    arrays["profile.size"] = np.tile(np.array([0, 2], np.int32), n)
    arrays["profile.edge"], arrays["profile.count"] = np.zeros(0), np.zeros(2 * n, np.int32)


CLAIMS = {
    "iterations": (many_iterations, FACTOR),
    "integers": (many_categories(list(range(1000, 80_000))), FACTOR),
    "floats": (many_categories([i / 7 for i in range(80_000)]), FACTOR),
    "short texts": (many_categories([chr(300 + i % 50_000) for i in range(80_000)]), FACTOR),
    "long integers": (many_categories([1 << 64 + i % 100 for i in range(50_000)]), FACTOR),
    "one wide character": (many_categories(["a" * 10**6 + "\U00010000"]), FACTOR),
    "names": (many_names, FACTOR),
    "lists": (many_lists, DESCRIPTION_FACTOR),
    "profiles": (many_profiles, FACTOR),
    "features": (lambda description, arrays: description.update(n_features=2**24), FACTOR),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_memory_of_loading(claim, small):
    change, factor = CLAIMS[claim]
    agbm.load(small)  # what the first call of everything leaves behind
    rewrite(small, change)
    tracemalloc.start()
    try:
        agbm.load(small)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= factor * small.stat().st_size + 200_000


def peak_of_inspect(path):
    """Peak memory of `agbm inspect` and `agbm inspect --json`, in bytes, in a process of its own."""
    code = (
        "import resource, sys; from agbm._apps.cli import main; "
        "statuses = [main(['inspect', sys.argv[1], *options]) for options in ([], ['--json'])]; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(max(statuses))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return 1024 * int(done.stderr.split()[-1])


def test_memory_of_inspect(small):
    before, original = peak_of_inspect(small), small.read_bytes()
    for name in ("features", "iterations", "names"):
        small.write_bytes(original)
        rewrite(small, CLAIMS[name][0])
        limit = before + FACTOR * small.stat().st_size + 20_000_000  # runs differ by some MB
        assert peak_of_inspect(small) <= limit, name


def test_inspect_replays_no_iterations(small, monkeypatch, capsys):
    """To replay them would take time quadratic in their number."""
    rewrite(small, many_iterations)

    def replayed(self):
        raise AssertionError

    monkeypatch.setattr(Ensemble, "_weights", replayed)
    assert main(["inspect", str(small)]) == 0
    assert "5,000 trees" in capsys.readouterr().out
    for _ in agbm.load(small).staged_predict(np.zeros((1, 3))):
        pass


def test_inspect_shortens_long_lists_of_features(small, capsys):
    rewrite(small, lambda description, arrays: description.update(n_features=2**24))
    assert main(["inspect", str(small)]) == 0
    said = " ".join(capsys.readouterr().out.split())  # lines are as long as the terminal is wide
    assert "16,777,216: x0, x1" in said
    assert "x11 and 16777204 more" in said
    assert main(["inspect", str(small), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_features"], found["features"], found["importances"]) == (2**24, None, {"x0": 1.0})


def test_n_jobs_of_a_file_is_limited(small):
    rewrite(small, lambda description, arrays: description["parameters"].update(n_jobs=10**9))
    assert threads.resolve(agbm.load(small).n_jobs) <= max(64, 2 * threads.resolve(None))


def refused(path, change, rule):
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=rule):
        agbm.load(path)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_history_shorter_than_the_model_is_refused(n, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    AGBMRegressor(max_iter=4, early_stopping=False).fit(X, X[:, 0]).save(tmp_path / "m.agbm")

    def cut(description, arrays):
        for name in arrays:
            if name.startswith("history."):
                arrays[name] = arrays[name][:n]

    refused(tmp_path / "m.agbm", cut, "sizes: the history ends before iteration 4, the last of the model")


@pytest.mark.parametrize(("changes", "rule"), [
    ({"primary": [0, 0, 2]}, "updates: iteration 1 must use the next functions, from 1 on"),
    ({"primary": [2, 1, 0]}, "updates: iteration 0 must use the next functions, from 0 on"),
    ({"momentum": [0, 0, 2]}, "updates: iteration 1 must use the next functions"),
    ({"momentum": [0, 1, 3]}, "sizes: the iterations use 4 functions, but there are 3"),
    ({"function_model": [0, 0, 2]}, "functions: every model needs at least one; they must be in order"),
    ({"function_model": [0, 2, 1]}, "functions: every model needs at least one"),
    ({"n_dropped": [0, 0, 2], "dropped": [1, 0]}, "updates: iteration 2 must drop earlier iterations, in order"),
    ({"n_dropped": [0, 0, 2], "dropped": [1, 1]}, "updates: iteration 2 must drop earlier iterations, in order"),
    ({"n_dropped": [0, 0, 1], "dropped": [2]}, "updates: iteration 2 must drop earlier iterations"),
], ids=str)  # fmt: skip
def test_impossible_iterations_are_refused(changes, rule, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    AGBMRegressor(max_iter=3, **ONE).fit(X, X[:, 0]).save(tmp_path / "m.agbm")
    arrays = {name: np.array(values) for name, values in changes.items()}
    refused(tmp_path / "m.agbm", lambda description, old: old.update(arrays), rule)


@pytest.mark.parametrize(
    "cross",
    [
        [0, "+", 3, 1.0, 1.0], [-1, "+", 1, 1.0, 1.0], [0, "/", 1, 1.0, 1.0], [0, "+", 1, 0.0, 1.0],
        [0, "+", 1, 1.0, -1.0], [0, "+", 1, 1.0, {"float": "inf"}], [0, "+", 1, 1.0], [0, "+", 2, 1.0, 1.0], 3,
    ],
    ids=str,
)  # fmt: skip
def test_impossible_crosses_are_refused(cross, tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 4, 300)])
    model = AGBMRegressor(max_iter=3, views=[(0, "*", 1)], categorical_features=[2], **ONE).fit(X, X[:, 0] * X[:, 1])
    model.save(tmp_path / "m.agbm")
    refused(tmp_path / "m.agbm", lambda description, arrays: description.update(crosses=[cross]), "crosses: .* is not")
