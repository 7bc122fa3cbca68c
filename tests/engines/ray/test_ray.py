"""Training on Ray by examples/on_ray.py: the model has the same bytes as one of this process. See `make test-ray`."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from agbm import AGBMClassifier, AGBMRegressor
from dask_cluster import cuts_of, frame, labels
from patience import no_longer_than

ray = pytest.importorskip("ray", reason="Ray is not installed; `make test-ray` installs it")

pytestmark = pytest.mark.filterwarnings("default")  # those of Ray itself
SMALL = {"max_iter": 5, "max_depth": 3, "n_members": 1, "early_stopping": False, "random_state": 0}
EARLY = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 12, "learning_rate": 0.9}
KINDS = ["numbers", "two classes", "three classes"]
ALARM = 180
"""Seconds that a test may take."""


@pytest.fixture(scope="module")
def cluster():
    """The module of the example, with a cluster of two CPUs, whose processes import the example as well."""
    examples = str(Path(__file__).parents[3] / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(examples)
        there = {"env_vars": {"PYTHONPATH": examples}}
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=there)
        try:
            import on_ray

            yield on_ray
        finally:
            ray.shutdown()


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with no_longer_than(ALARM):
        yield


def local_of(kind, **parameters):
    return (AGBMRegressor if kind in ("numbers", "two outputs") else AGBMClassifier)(**SMALL | parameters)


def on_ray_of(cluster, model):
    kind = cluster.RayAGBMClassifier if isinstance(model, AGBMClassifier) else cluster.RayAGBMRegressor
    return kind(**model.get_params(deep=False))


def parts(given, cuts):
    """References to the parts of a table or of a vector."""
    given = given if hasattr(given, "iloc") else np.asarray(given)
    rows = given.iloc if hasattr(given, "iloc") else given
    return [ray.put(rows[a:b]) for a, b in itertools.pairwise(cuts)]


def bytes_of(model, folder):
    model.save(folder / "model.agbm")
    return (folder / "model.agbm").read_bytes()


def assert_same(model, expected, folder):
    assert expected.n_trees_ > 0
    assert bytes_of(model, folder) == bytes_of(expected, folder)


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
def test_kinds_of_labels(cluster, kind, tmp_path):
    table = frame()
    y, cuts = labels(kind, table), cuts_of(len(table), 4)
    expected = local_of(kind).fit(table, y)
    model = on_ray_of(cluster, expected).fit(parts(table, cuts), parts(y, cuts))
    assert_same(model, expected, tmp_path)
    np.testing.assert_array_equal(model.predict(table), expected.predict(table))


@pytest.mark.parametrize(("n_actors", "n_threads"), [(1, 2), (3, 1)])
def test_any_number_of_actors(cluster, n_actors, n_threads, tmp_path):
    table = frame()
    y, cuts = labels("numbers", table), np.array([0, 0, 300, 300, 1100, 1900, 2000, 2000])  # empty ones among them
    expected = local_of("numbers").fit(table, y)
    X, y = parts(table, cuts), parts(y, cuts)
    model = on_ray_of(cluster, expected).fit(X, y, n_actors=n_actors, n_threads=n_threads)
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_weights(cluster, kind, tmp_path):
    table, rng = frame(), np.random.default_rng(3)
    y, weight, cuts = labels(kind, table), rng.random(len(table)) * (rng.random(len(table)) < 0.8), [0, 400, 1500, 2000]
    expected = local_of(kind).fit(table, y, weight)
    model = on_ray_of(cluster, expected).fit(parts(table, cuts), parts(y, cuts), parts(weight, cuts))
    assert_same(model, expected, tmp_path)


def test_held_out_rows(cluster, tmp_path):
    table = frame()
    y, cuts = labels("three classes", table), cuts_of(len(table), 5)
    expected = local_of("three classes", **EARLY, subsample=0.7).fit(table, y)
    assert_same(on_ray_of(cluster, expected).fit(parts(table, cuts), parts(y, cuts)), expected, tmp_path)


def test_the_default(cluster, tmp_path):
    """Five members, whose shards are in the same actors."""
    table = frame()
    y, cuts = labels("two classes", table), cuts_of(len(table), 4)
    expected = AGBMClassifier(max_iter=3).fit(table, y)
    assert_same(on_ray_of(cluster, expected).fit(parts(table, cuts), parts(y, cuts)), expected, tmp_path)


def test_validation_rows(cluster, tmp_path):
    table, other = frame(), frame(700, seed=9)
    y, y_val = labels("numbers", table), labels("numbers", other)
    cuts, cuts_val = cuts_of(len(table), 4), [0, 0, 200, 700]
    expected = local_of("numbers", **EARLY).fit(table, y, X_val=other, y_val=y_val)
    model = on_ray_of(cluster, expected).fit(
        parts(table, cuts), parts(y, cuts), X_val=parts(other, cuts_val), y_val=parts(y_val, cuts_val)
    )
    assert_same(model, expected, tmp_path)


def test_offsets(cluster, tmp_path):
    table = frame()
    y, offset, cuts = labels("numbers", table), np.sin(np.arange(len(table))), [0, 900, 2000]
    expected = local_of("numbers").fit(table, y, offset=offset)
    model = on_ray_of(cluster, expected).fit(parts(table, cuts), parts(y, cuts), offset=parts(offset, cuts))
    assert_same(model, expected, tmp_path)


def test_an_init_model(cluster):
    table = frame()
    X, y, cuts = table[["a", "c"]].to_numpy(), labels("numbers", table).to_numpy(), [0, 900, 900, 2000]
    expected = local_of("numbers", init=DecisionTreeRegressor(max_depth=3).fit(X[:100], y[:100])).fit(X, y)
    model = on_ray_of(cluster, expected).fit(parts(X, cuts), parts(y, cuts))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("n_members", [1, 3])
def test_killed_actors(cluster, n_members, tmp_path, monkeypatch):
    """One after another, and of several members at once. Each is replaced by one actor."""
    table, killed, started = frame(), [], []
    y, cuts = labels("two classes", table), cuts_of(len(table), 4)

    def kill(record):
        if record.iteration in (2, 4, 5):
            cluster.kill_an_actor()
            killed.append(record.iteration)

    def new():
        started.append(start())
        return started[-1]

    start = cluster.Actors._new
    monkeypatch.setattr(cluster.Actors, "_new", staticmethod(new))
    expected = local_of("two classes", max_iter=8, n_members=n_members).fit(table, y)
    model = on_ray_of(cluster, expected).set_params(callbacks=[kill]).fit(parts(table, cuts), parts(y, cuts))
    assert (killed, len(started)) == ([2, 4, 5], 2 + 3)
    assert_same(model, expected, tmp_path)


def test_no_actors_stay(cluster):
    X = parts(np.arange(20.0).reshape(-1, 1), [0, 20])
    cluster.RayAGBMRegressor(max_iter=1).fit(X, parts(np.arange(20.0), [0, 20]))
    assert not [name for name in ray.util.list_named_actors() if name.startswith(cluster.NAME)]


def test_errors_are_those_of_a_local_fit(cluster):
    X, y = np.ones((20, 1)), np.arange(20.0)
    y[15] = np.nan
    with pytest.raises(ValueError, match="y"):
        cluster.RayAGBMRegressor().fit(parts(X, [0, 10, 20]), parts(y, [0, 10, 20]))
    with pytest.raises(ValueError, match="partition 1: y has shape"):
        cluster.RayAGBMRegressor().fit(parts(X, [0, 10, 20]), parts(y, [0, 10, 15]))
    with pytest.raises(ValueError, match="y has 1 partitions, X has 2"):
        cluster.RayAGBMRegressor().fit(parts(X, [0, 10, 20]), parts(y, [0, 20]))
    with pytest.raises(TypeError, match="X must be a list of references to Ray objects"):
        cluster.RayAGBMRegressor().fit(X, y)
