"""Training on real Dask clusters: the model has the same bytes as one of this process."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._engines.distributed import dask_shards
from agbm._engines.distributed.shard_tasks import share_out
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor
from agbm.losses import AbsoluteError, HalfSquaredError
from agbm.methods import Fading
from dask_cluster import IMPORTS, SECONDS, Cluster, cuts_of, frame, in_parts, labels, wait_until
from patience import no_longer_than
from variants import made

pytestmark = pytest.mark.slow

ON_DASK = {AGBMRegressor: DaskAGBMRegressor, AGBMClassifier: DaskAGBMClassifier}
SMALL = {"max_iter": 5, "max_depth": 3, "n_members": 1, "early_stopping": False, "random_state": 0}
ALARM = 120
"""Seconds that a test, or a run of one, may take."""
KINDS = ["numbers", "two classes", "three classes"]
N_KILLS = int(os.environ.get("AGBM_KILL_RUNS", "2"))
KILL_ITERATIONS = int(os.environ.get("AGBM_KILL_ITERATIONS", "8"))


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with no_longer_than(ALARM):
        yield


def local_of(kind, **parameters):
    return (AGBMRegressor if kind in ("numbers", "two outputs") else AGBMClassifier)(**SMALL | parameters)


def on_dask(model):
    return ON_DASK[type(model)](**model.get_params(deep=False))


def bytes_of(model, folder):
    """The model file, but for how long it took."""
    model.history_["seconds"] = np.zeros_like(model.history_["seconds"])
    path = folder / "model.agbm"
    model.save(path)
    return path.read_bytes()


def frames(table, cuts):
    return dd.from_delayed(in_parts(table, cuts), meta=table.iloc[:0], verify_meta=False)


def series(y, cuts):
    y = y if isinstance(y, pd.Series) else pd.Series(y)
    return dd.from_delayed(in_parts(y, cuts), meta=y.iloc[:0], verify_meta=False)


def array(x, cuts):
    x = np.asarray(x)
    return da.from_array(x, chunks=(tuple(np.diff(cuts).tolist()), *((size,) for size in x.shape[1:])))


def numbers_of(table):
    return table[["a", "b", "c", "short", "whole"]].to_numpy(np.float64)


def given_as(container, table, y, cuts):
    """(X here, X on Dask, y on Dask)."""
    if container == "frames":
        return table, frames(table, cuts), (array if np.ndim(y) == 2 else series)(y, cuts)
    if container == "delayed":
        return table, in_parts(table, cuts), in_parts(y, cuts)
    return numbers_of(table), array(numbers_of(table), cuts), array(y, cuts)


def assert_same(model, expected, folder):
    assert expected.n_trees_ > 0
    assert bytes_of(model, folder) == bytes_of(expected, folder)
    assert model.fingerprint_ == expected.fingerprint_


def test_verification(two_workers):
    table = frame()
    y = labels("numbers", table)
    model = local_of("numbers", max_iter=4).fit(table, y)
    cuts = cuts_of(len(table), 5)
    rows = frames(table, cuts), series(y, cuts)
    assert on_dask(model).fit(*rows).verify(*rows, iterations=[2])
    other = table.assign(a=table["a"].where(table.index != table.index[7], 3.25))
    (found,) = on_dask(model).fit(*rows).verify(frames(other, cuts), rows[1]).differences
    assert (found.part, found.where.partition("; ")[2]) == ("data", "columns 'a'")


@pytest.mark.parametrize("n_workers", [1, 3, 5])  # the other tests have two
def test_any_number_of_workers(cluster, n_workers, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_shards, "FAN_OUT", 2)  # workers forward messages
    cluster.resize(n_workers)
    table = frame(3000)
    y = labels("two classes", table)
    expected = local_of("two classes", max_iter=10).fit(table, y)
    cuts = cuts_of(len(table), 9)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("n_parts", [1, 2, 7, 50])
@pytest.mark.parametrize("container", ["frames", "arrays", "delayed"])
def test_any_partitions(two_workers, n_parts, container, tmp_path):
    table = frame()
    y = labels("numbers", table)
    X, lazy_X, lazy_y = given_as(container, table, y, cuts_of(len(table), n_parts, seed=n_parts))
    expected = local_of("numbers", max_iter=3).fit(X, y)
    assert_same(on_dask(expected).fit(lazy_X, lazy_y), expected, tmp_path)


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
@pytest.mark.parametrize("container", ["frames", "arrays", "delayed"])
def test_predictions(two_workers, kind, container, tmp_path):
    """Of every kind: lazy, as those of the local model, part by part."""
    table = frame()
    y = labels(kind, table)
    cuts = cuts_of(len(table), 6)
    X, lazy_X, lazy_y = given_as(container, table, y, cuts)
    expected = local_of(kind).fit(X, y)
    model = on_dask(expected).fit(lazy_X, lazy_y)
    assert_same(model, expected, tmp_path)
    for method in ["predict"] if kind in ("numbers", "two outputs") else ["predict", "predict_proba"]:
        check_prediction(getattr(model, method)(lazy_X), getattr(expected, method)(X), table, cuts, container)
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(expected, method)(X))


def check_prediction(lazy, expected, table, cuts, container):
    if container == "delayed":
        parts = dask.compute(*lazy)
        assert [len(part) for part in parts] == np.diff(cuts).tolist()
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        return
    assert lazy.ndim == expected.ndim
    found = lazy.compute()
    np.testing.assert_array_equal(found, expected)
    if container == "arrays":
        assert lazy.chunks[0] == tuple(np.diff(cuts))
        assert lazy.dtype == expected.dtype
        assert lazy.shape == expected.shape
    else:
        assert found.index.equals(table.index)
        assert lazy.npartitions == len(cuts) - 1
        assert list(map(len, dask.compute(*lazy.to_delayed()))) == np.diff(cuts).tolist()


def test_prediction_computes_nothing_before_it_must(two_workers):
    table = frame(300)
    cuts = cuts_of(len(table), 3)
    model = DaskAGBMRegressor(**SMALL).fit(frames(table, cuts), series(labels("numbers", table), cuts))
    parts = [delayed(refuse)() for _ in range(2)]
    lazy = model.predict(dd.from_delayed(parts, meta=table.iloc[:0], verify_meta=False))
    with pytest.raises(RuntimeError, match="not to be read"):
        lazy.compute()


def refuse():
    raise RuntimeError("not to be read")


def test_the_local_model(two_workers, tmp_path):
    """It is of the plain class, and pickles, saves and loads where there is no Dask."""
    table = frame(500)
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 3)
    for local in (local_of("two classes"), local_of("numbers")):
        given = y if isinstance(local, AGBMClassifier) else labels("numbers", table)
        model = on_dask(local).fit(frames(table, cuts), series(given, cuts))
        assert type(model.to_local()) is type(local)
        (tmp_path / "model.pickle").write_bytes(pickle.dumps(model.to_local()))
        model.save(tmp_path / "model.agbm")
        assert type(agbm.load(tmp_path / "model.agbm")) is type(local)
        table.to_pickle(tmp_path / "table.pickle")
        code = (
            "import sys, pickle, agbm, pandas; sys.modules['dask'] = sys.modules['distributed'] = None\n"
            "models = pickle.load(open('model.pickle', 'rb')), agbm.load('model.agbm')\n"
            "table = pandas.read_pickle('table.pickle')\n"
            "assert (models[0].predict(table) == models[1].predict(table)).all()\n"
        )
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


# What there is to a fit.


def weights_of(how, n):
    rng = np.random.default_rng(5)
    if how == "whole":
        return rng.integers(0, 4, n).astype(float)
    if how == "whole here and there":
        weight = np.ones(n)
        weight[-10:] = [0.5, 1.5] * 5
        return weight
    return rng.random(n) * (rng.random(n) < 0.8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["whole", "real", "whole here and there"])
def test_weights(two_workers, kind, how, tmp_path):
    table = frame()
    y, weight = labels(kind, table), weights_of(how, len(table))
    cuts = cuts_of(len(table), 6)
    expected = local_of(kind).fit(table, y, weight)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), series(weight, cuts))
    assert_same(model, expected, tmp_path)


def test_a_partition_without_weight(two_workers, tmp_path):
    table = frame()
    y, weight = labels("three classes", table), np.ones(len(table))
    cuts = np.array([0, 500, 1000, 2000])
    weight[:500] = 0.0
    expected = local_of("three classes").fit(table, y, weight)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), series(weight, cuts))
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("class_weight", ["balanced", {"no": 3.0, "yes": 0.0, "more": 1.0}])
def test_class_weight(two_workers, class_weight, tmp_path):
    table = frame()
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 6)
    expected = local_of("three classes", class_weight=class_weight).fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_validation_rows(two_workers, kind, weighted, tmp_path):
    table, other = frame(), frame(700, seed=9)
    y, y_val = labels(kind, table), labels(kind, other)
    weight = weights_of("real", len(table)) if weighted else None
    weight_val = weights_of("real", len(other)) if weighted else None
    cuts, cuts_val = cuts_of(len(table), 6), cuts_of(len(other), 3)
    early = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 12, "learning_rate": 0.9}
    expected = local_of(kind, **early).fit(table, y, weight, other, y_val, weight_val)
    lazily = series if kind != "two outputs" else array
    model = on_dask(expected).fit(
        frames(table, cuts), lazily(y, cuts), None if weight is None else series(weight, cuts), frames(other, cuts_val),
        lazily(y_val, cuts_val), None if weight_val is None else series(weight_val, cuts_val),
    )  # fmt: skip
    assert_same(model, expected, tmp_path)


def test_scores_need_one_process(two_workers):
    table = frame()
    X, y = frames(table, cuts_of(len(table), 2)), series(labels("numbers", table), cuts_of(len(table), 2))
    with pytest.raises(ValueError, match="scoring='r2' needs all validation rows in one process"):
        DaskAGBMRegressor(scoring="r2").fit(X, y)
    with pytest.raises(ValueError, match=r"watch=\['new'\] needs X as a table"):
        DaskAGBMRegressor().fit(X, y, watch={"new": (table, y)})


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
def test_held_out_rows(two_workers, kind, tmp_path):
    table = frame()
    y = labels(kind, table)
    cuts = cuts_of(len(table), 6)
    early = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 20, "learning_rate": 0.9}
    expected = local_of(kind, **early, subsample=0.7, random_state=2).fit(table, y)
    model = on_dask(expected).fit(frames(table, cuts), (array if kind == "two outputs" else series)(y, cuts))
    assert expected.n_iter_ < 20
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_the_default(two_workers, kind, tmp_path):
    """Several members, each with its own held-out rows, and trees that grow best-first."""
    table = frame()
    y = labels(kind, table)
    cuts = cuts_of(len(table), 4)
    expected = (AGBMRegressor if kind == "numbers" else AGBMClassifier)(max_iter=2).fit(table, y)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert (expected.resolved_params_["n_members"], expected.resolved_params_["early_stopping"]) == (5, True)
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("n_full", [1, 6])
def test_an_init_model(two_workers, n_full):
    """Also where a worker has empty partitions only. A tree: what it says of a row depends on no other row."""
    table = frame()
    X, y = np.nan_to_num(numbers_of(table)), labels("numbers", table).to_numpy()
    cuts = cuts_of(len(X), 6) if n_full == 6 else np.array([0, 0, len(X), len(X)])
    expected = local_of("numbers", init=DecisionTreeRegressor(max_depth=3).fit(X[:100], y[:100])).fit(X, y)
    model = on_dask(expected).fit(array(X, cuts), array(y, cuts))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(model.history_["train_loss"], expected.history_["train_loss"])


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
def test_workers_without_rows(two_workers, kind, tmp_path):
    """One partition has all rows."""
    table = frame(500)
    y = labels(kind, table)
    cuts = np.array([0, 0, 500, 500])
    weight = weights_of("real", 500)
    expected = local_of(kind, subsample=0.7).fit(table, y, weight)
    lazy_y = (array if kind == "two outputs" else series)(y, cuts)
    assert_same(on_dask(expected).fit(frames(table, cuts), lazy_y, series(weight, cuts)), expected, tmp_path)


@pytest.mark.parametrize("method", ["gbm", "vagbm", "agbm", "agbmr"])
def test_methods(two_workers, method, tmp_path):
    table = frame(500)
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 4)
    expected = local_of("three classes", method=made(method, dropout=0.3)).fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_labels_that_only_one_worker_has(two_workers, tmp_path):
    table = frame().sort_values("a")
    y = pd.Series(np.repeat(["x", "y", "z"], [900, 1000, 100]), index=table.index)
    cuts = np.array([0, 900, 1900, 2000])
    expected = local_of("three classes").fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_more_categories_than_bins(two_workers, tmp_path):
    table = frame()
    table["many"] = np.random.default_rng(3).integers(0, 400, len(table)).astype(str)
    y = labels("numbers", table) + table["many"].astype(int) % 3
    cuts = cuts_of(len(table), 6)
    expected = local_of("numbers", max_bins=20).fit(table, y)
    assert expected.split_counts_[-1] > 0
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_dates_and_orders(two_workers, tmp_path):
    table = frame()
    hours = np.random.default_rng(4).integers(0, 900 * 24, len(table))
    table["when"] = pd.Timestamp("2021-01-01") + pd.to_timedelta(hours, unit="h")
    table["text"] = table["when"].dt.strftime("%d/%m/%Y")
    table["size"] = pd.Categorical(np.array(["s", "m", "l"])[hours % 3], categories=["s", "m", "l"], ordered=True)
    y = labels("numbers", table) + hours % 24
    cuts = cuts_of(len(table), 6)
    expected = local_of("numbers").fit(table, y)
    assert len(expected.model_.reader.derivation.parts) == 7
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_text_of_numbers_and_dates(two_workers, tmp_path):
    """Values that cannot be read count as missing, and the warning is that of rows in memory."""
    table = frame()
    table["number"] = np.random.default_rng(4).normal(size=len(table)).round(4).astype(str)
    table["when"] = pd.date_range("2021-01-01", periods=len(table), freq="7h").strftime("%Y-%m-%d %H:%M")
    table.iloc[[30, 200], -2] = "?"
    table.iloc[-1, -1] = "0000-00-00"
    y, cuts = labels("numbers", table), cuts_of(len(table), 6)
    with pytest.warns(UserWarning, match="is read as") as said:
        expected = local_of("numbers").fit(table, y)
    with pytest.warns(UserWarning, match="is read as") as also:
        found = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert [str(one.message) for one in also] == [str(one.message) for one in said]
    assert len(said) == 2
    assert_same(found, expected, tmp_path)


def test_members_without_positive_labels(two_workers):
    """The start of a member whose training rows lack what the loss needs is that of all rows."""
    table = frame()[:30]
    y, cuts = np.where(np.arange(30) % 2, 2.0 ** (np.arange(30) // 6), 0.0), cuts_of(30, 3)
    held_out = {"early_stopping": True, "validation_fraction": 0.95, "max_iter": 3}
    for seed in range(3):
        expected = AGBMRegressor(loss="poisson", **held_out, random_state=seed).fit(table, y)
        model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
        assert model.fingerprint_ == expected.fingerprint_
        assert np.array_equal(model.history_["validation_loss"], expected.history_["validation_loss"])


def test_files(two_workers, tmp_path):
    """Dask would put small columns of several files together: those of y, but not those of X."""
    table = frame()
    table["y"] = labels("two classes", table)
    for i, part in enumerate(np.array_split(np.arange(len(table)), 6)):
        table.iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
    rows = dd.read_parquet(tmp_path)
    model = DaskAGBMClassifier(**SMALL).fit(rows.drop(columns="y"), rows["y"])
    everything = pd.read_parquet(tmp_path)
    assert_same(model, AGBMClassifier(**SMALL).fit(everything.drop(columns="y"), everything["y"]), tmp_path)


def test_a_cluster_of_dask_itself(tmp_path):
    table = frame()
    y = labels("two classes", table)
    expected = local_of("two classes").fit(table, y)
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as own, Client(own) as client:
        X, lazy_y = dd.from_pandas(table, npartitions=5), dd.from_pandas(y, npartitions=5)
        assert_same(on_dask(expected).fit(X, lazy_y, client=client), expected, tmp_path)


# Workers that come and go.


class Killer:
    """Kills a worker some time after an iteration, or after the start of a fit, and starts another in its place."""

    def __init__(self, cluster, rng, seconds):
        self._cluster = cluster
        self._victim = str(rng.choice(list(cluster.workers)))
        self._iteration = int(rng.integers(-1, KILL_ITERATIONS - 1))
        self._thread = threading.Timer(seconds * rng.random(), self._kill)
        self.done = False

    def begin(self):
        if self._iteration < 0:
            self._thread.start()

    def __call__(self, record):
        if record.iteration == self._iteration:
            self._thread.start()

    def _kill(self):
        self._cluster.kill(self._victim)
        self._cluster.add()
        self.done = True

    def end(self):
        """Whether the worker was dead before the fit was at its end."""
        in_time = self.done
        self._thread.join(SECONDS)
        return in_time


def test_killed_workers(cluster, tmp_path, monkeypatch):
    """Fits, each of which loses a worker at a random moment; AGBM_KILL_RUNS has more of them."""
    monkeypatch.setattr(dask_shards, "FAN_OUT", 2)  # one of the three workers gets its messages from another
    table = frame(3000)
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 7)
    X, lazy_y = frames(table, cuts), series(y, cuts)
    model = local_of(
        "two classes", method=made("agbm", shared_structure=False), max_iter=KILL_ITERATIONS, subsample=0.8
    )
    expected = bytes_of(model.fit(table, y), tmp_path)
    rng = np.random.default_rng(os.getpid())
    runs = 0
    for _ in range(2 * N_KILLS):
        signal.alarm(ALARM)
        cluster.resize(3)
        killer = Killer(cluster, rng, seconds=0.5)
        survivor = on_dask(model).set_params(callbacks=[killer])
        killer.begin()
        survivor.fit(X, lazy_y)
        runs += killer.end()
        survivor.set_params(callbacks=None)
        assert bytes_of(survivor, tmp_path) == expected
        if runs == N_KILLS:
            break
    assert runs == N_KILLS


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.filterwarnings("ignore:The cluster has no workers")
def test_all_workers_killed_at_once(cluster, n_members, tmp_path):
    cluster.resize(2)
    table = frame()
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 5)
    expected = local_of("three classes", n_members=n_members).fit(table, y)
    killed = []

    def kill_all(record):
        if record.iteration == 2:
            killed.extend(cluster.workers)
            for name in killed:
                cluster.kill(name)
            cluster.add()
            cluster.add()

    model = on_dask(expected).set_params(callbacks=[kill_all]).fit(frames(table, cuts), series(y, cuts))
    assert len(killed) == 2
    assert_same(model.set_params(callbacks=None), expected, tmp_path)


def test_a_worker_that_joins_late_gets_rows(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_shards, "SECONDS_BETWEEN_LOOKS", 0.2)
    cluster.resize(1)
    table = frame()
    y = labels("numbers", table)
    cuts = cuts_of(len(table), 8)
    expected = local_of("numbers", max_iter=8).fit(table, y)
    has = []

    def join(record):
        if record.iteration == 2:
            cluster.add()
            cluster.wait()
        if record.iteration > 2:
            has.append(shards_at(cluster))

    model = on_dask(expected).set_params(callbacks=[join]).fit(frames(table, cuts), series(y, cuts))
    assert set(has[-1]) == set(cluster.workers)
    assert_same(model.set_params(callbacks=None), expected, tmp_path)


def shard_keys(cluster):
    """Of all workers."""
    return {key for keys in cluster.client.has_what().values() for key in keys if "make_dask_shard" in str(key)}


def shards_at(cluster):
    """The workers that have shards in their memory."""
    held = cluster.client.has_what()
    return [name for name, at in cluster.addresses().items() if any("make_dask_shard" in str(key) for key in held[at])]


def test_a_client_that_is_killed(two_workers, tmp_path):
    """Another one goes on from the checkpoint, to the same bytes."""
    path = tmp_path / "run.checkpoint"
    command = [sys.executable, Path(__file__), two_workers.client.scheduler.address, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=IMPORTS) as victim:
        for line in victim.stdout:
            if int(line) >= 14:
                break
        victim.send_signal(signal.SIGKILL)
    assert victim.returncode == -signal.SIGKILL
    table = frame()
    y = labels("numbers", table)
    expected = local_of("numbers", max_iter=24, n_members=2).fit(table, y)
    seen = []
    model = on_dask(expected).set_params(callbacks=[lambda record: seen.append(record.iteration)])
    model.fit(*of_the_client(table, y), checkpoint=path)
    assert seen == list(range(11, 25))
    assert_same(model.set_params(callbacks=None), expected, tmp_path)


def of_the_client(table, y):
    cuts = cuts_of(len(table), 4)
    return frames(table, cuts), series(y, cuts)


def be_a_client(address, path):
    """What the killed client does: it says which iteration it is at, and stays in one that comes late."""

    def say(record):
        print(record.iteration, flush=True)
        if record.iteration == 15:
            threading.Event().wait(SECONDS)

    table = frame()
    model = local_of("numbers", max_iter=24, n_members=2)
    with Client(address):
        on_dask(model).set_params(callbacks=[say]).fit(*of_the_client(table, labels("numbers", table)), checkpoint=path)


# Machines of their own.


@pytest.fixture
def networks():
    """Commands in front of others that run these in network namespaces, each with an address, and ours for both."""
    hub, names = f"agbm{os.getpid()}", [f"agbm{os.getpid()}-{i}" for i in range(2)]
    try:
        ip("link", "add", hub, "type", "bridge")
        ip("addr", "add", "10.213.7.1/24", "dev", hub)
        ip("link", "set", hub, "up")
        for i, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"{hub}v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{hub}v{i}", "master", hub, "up")
            ip("-n", name, "addr", "add", f"10.213.7.{i + 2}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield {f"10.213.7.{i + 2}": ["ip", "netns", "exec", name] for i, name in enumerate(names)}
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespaces here")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", hub], capture_output=True)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def test_workers_in_networks_of_their_own(networks, tmp_path):
    """They have no loopback in common: all that they say goes over a network."""
    table = frame()
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 5)
    expected = local_of("two classes").fit(table, y)
    cluster = Cluster(tmp_path, host="10.213.7.1")
    try:
        with cluster.connected():
            for host, before in networks.items():
                cluster.add(host, before)
            cluster.wait()
            model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), client=cluster.client)
            assert_same(model, expected, tmp_path)
    finally:
        cluster.close()


# What is wrong with data.


def fit_parts(tables, ys, model=None):
    model = DaskAGBMRegressor(**SMALL) if model is None else model
    return model.fit([delayed(table) for table in tables], [delayed(y) for y in ys])


def halves():
    table = frame(200)
    y = labels("numbers", table)
    return [table[:100], table[100:]], [y[:100], y[100:]]


BAD_TABLES = {
    "fewer columns": (lambda table: table[["a", "b"]], "partition 1: X has 2 columns, partition 0 has 7"),
    "another order": (lambda table: table[list(table)[::-1]], "partition 1: column 0 of X is 'kind'"),
    "other names": (lambda table: table.rename(columns={"a": "z"}), "partition 1: column 0 of X is 'z'"),
    "no names": (lambda table: table.to_numpy(object), "partition 1: X has no column names"),
    "text for numbers": (lambda table: table.assign(a="text"), "partition 0: column 0 of X has numbers"),
    "numbers for text": (lambda table: table.assign(text=1.0), "partition 1: column 5 of X has numbers"),
    "a vector": (lambda table: table["a"], "partition 1: X must be a table"),
}


def test_infinity(two_workers, tmp_path):
    (first, second), ys = halves()
    tables = [first.assign(a=first["a"].where(first["a"] < 1, np.inf)), second.assign(a=-np.inf)]
    expected = AGBMRegressor(**SMALL).fit(pd.concat(tables), pd.concat(ys))
    assert 0 in expected.model_.folded.nodes["feature"]
    assert_same(fit_parts(tables, ys), expected, tmp_path)


@pytest.mark.parametrize(("change", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_bad_tables(two_workers, change, message):
    (first, second), ys = halves()
    with pytest.raises(ValueError, match=message):
        fit_parts([first, change(second)], ys)


BAD_LABELS = {
    "too few": (lambda y: y[:-1], "partition 1: y has shape"),
    "missing": (lambda y: y.where(y > 0), "y contains NaN"),
    "text": (lambda y: y.astype(str), "partition 1: y has type"),
    "two columns": (lambda y: np.column_stack([y, y]), "partition 1: y has shape"),
}


@pytest.mark.parametrize(("change", "message"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels(two_workers, change, message):
    tables, (first, second) = halves()
    with pytest.raises(ValueError, match=message):
        fit_parts(tables, [first, change(second)])


def test_one_class(two_workers):
    tables, ys = halves()
    with pytest.raises(ValueError, match="class"):
        fit_parts(tables, [np.ones(len(y)) for y in ys], DaskAGBMClassifier(**SMALL))


def test_different_numbers_of_partitions(two_workers):
    tables, ys = halves()
    with pytest.raises(ValueError, match="y has 1 partitions, X has 2"):
        fit_parts(tables, ys[:1])


def test_no_rows(two_workers):
    tables, ys = halves()
    with pytest.raises(ValueError, match="X has no rows in its 2 partitions"):
        fit_parts([table[:0] for table in tables], [y[:0] for y in ys])


def test_tables_in_memory(two_workers):
    (table, _), (y, _) = halves()
    for X, given in ((table, y), (table.to_numpy(), y), ([1, 2], y), ([delayed(table)], y)):
        with pytest.raises(TypeError, match="must be a Dask"):
            DaskAGBMRegressor().fit(X, given)


def test_no_client():
    code = (
        "import dask.array as da; from agbm.dask import DaskAGBMRegressor\n"
        "try: DaskAGBMRegressor().fit(da.ones((10, 2)), da.ones(10))\n"
        "except ValueError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "client" in ran.stdout


def test_another_learner(two_workers):
    with pytest.raises(ValueError, match=r"learner=.*needs all rows at once"):
        fit_parts(*halves(), DaskAGBMRegressor(method=Fading(learner=LinearRegression())))


def test_a_partition_that_cannot_be_read(two_workers):
    tables, ys = halves()
    with pytest.raises(RuntimeError, match="not to be read") as caught:
        DaskAGBMRegressor(**SMALL).fit([delayed(tables[0]), delayed(refuse)()], [delayed(y) for y in ys])
    assert "partition 1" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def die():
    os._exit(1)


def shuffle(table):
    return table.sample(frac=1.0, random_state=np.random.default_rng().integers(2**31))


@pytest.mark.parametrize("of", ["X", "y", "X_val"])
def test_partitions_that_are_made_anew_with_other_rows(two_workers, of):
    """Dask makes a partition again for every pass, unless it is persisted."""
    tables, ys = halves()
    parts = {"X": [delayed(table) for table in tables], "y": [delayed(y) for y in ys]}
    if of == "X_val":
        parts |= {"X_val": [delayed(shuffle)(tables[0])], "y_val": [delayed(ys[0])]}
    else:
        parts[of][1] = delayed(shuffle)(parts[of][1])
    message = {"X": "partition 1: X has", "y": "partition 1: y has", "X_val": "X_val: partition 0: X has"}[of]
    with pytest.raises(
        ValueError, match=f"^{message} different values than in the previous pass.*persist the collection"
    ):
        DaskAGBMRegressor(**SMALL).fit(**parts)


def test_a_partition_that_kills_workers(cluster):
    """Dask gives up after some of them; the error says which partition it was."""
    cluster.resize(3)
    tables, ys = halves()
    died = "partition 1: all workers that got it have died"
    with cluster.giving_up_soon(), pytest.raises(RuntimeError, match=died):
        DaskAGBMRegressor(**SMALL).fit([delayed(tables[0]), delayed(die)()], [delayed(y) for y in ys])


def test_a_fit_that_fails_leaves_nothing(two_workers):
    """Neither a changed estimator nor memory of workers."""
    at_first = shard_keys(two_workers)
    tables, ys = halves()
    model = fit_parts(tables, ys)
    before = model.predict(tables[0])
    with pytest.raises(ValueError, match="columns"):
        fit_parts([tables[0], tables[1][["a"]]], ys, model)
    np.testing.assert_array_equal(model.predict(tables[0]), before)
    wait_until(lambda: shard_keys(two_workers) <= at_first)


class Halves(HalfSquaredError):
    """Half of it, as a user might write it: what is not the library's own."""

    constant_hessian = False

    def hessian(self, y, f, weight=None):
        return np.full_like(f, 0.5)


class Troubled(Halves):
    row_wise = True

    def __init__(self, trouble):
        self.trouble = trouble

    def hessian(self, y, f, weight=None):
        raise self.trouble("some trouble", "that workers have")


class OddError(Exception):
    """One that pickle cannot bring back."""

    def __init__(self, first, second):
        super().__init__(first)


def test_losses_of_the_users(two_workers):
    """A hessian that sees the rows of one worker must not need others."""
    tables, ys = halves()
    table, y = pd.concat(tables), np.concatenate(ys)
    with pytest.raises(ValueError, match="row_wise"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=Halves()))
    with pytest.raises(ValueError, match="row_wise"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=type("Mine", (AbsoluteError,), {})()))
    loss = Halves()
    loss.row_wise = True
    model = fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=loss))
    expected = AGBMRegressor(**SMALL, loss=loss).fit(table, y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(table))


@pytest.mark.parametrize(("trouble", "seen"), [(OSError, OSError), (OddError, RuntimeError)])
def test_troubles_of_the_users_are_not_those_of_workers(two_workers, trouble, seen):
    tables, ys = halves()
    with pytest.raises(seen, match="some trouble"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=Troubled(trouble), l2_regularization=1.0))


def changing(path, table):
    """A partition that has another row whenever it is read."""
    n = int(path.read_text()) + 1 if path.exists() else 0
    path.write_text(str(n))
    return table.iloc[n:]


def test_a_partition_that_changes(two_workers, tmp_path):
    tables, ys = halves()
    sources = [delayed(tables[0]), delayed(changing)(tmp_path / "n", tables[1])]
    with pytest.raises(ValueError, match=r"partition 1.*rows"):
        DaskAGBMRegressor(**SMALL).fit(sources, [delayed(y) for y in ys])


# Who gets what.


def test_share_out_is_fair_and_complete():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = rng.integers(0, 100, rng.integers(1, 40)).tolist()
        threads = {f"w{i}": int(rng.integers(1, 4)) for i in range(rng.integers(1, 6))}
        at = [str(rng.choice([*threads, "gone"])) for _ in rows]
        shares = share_out(rows, threads, at)
        assert sorted(partition for share in shares.values() for partition in share) == list(range(len(rows)))
        fair = sum(rows) / sum(threads.values())
        for worker, share in shares.items():
            assert sum(rows[p] for p in share) <= fair * threads[worker] + max(rows)


def test_share_out_leaves_partitions_where_they_are():
    rows, at = [10] * 6, ["v", "v", "w", "w", "v", "w"]
    assert share_out(rows, {"v": 1, "w": 1}, at) == {"v": (0, 1, 4), "w": (2, 3, 5)}
    moved = share_out(rows, {"v": 1, "w": 1, "x": 1}, at)
    assert {worker: len(share) for worker, share in moved.items()} == {"v": 2, "w": 2, "x": 2}
    assert set(moved["v"]) < {0, 1, 4}


if __name__ == "__main__":
    be_a_client(*sys.argv[1:])
