"""Training and prediction on real Dask clusters: the model has the bytes of one of this process."""

import os
import pickle
import subprocess
import sys

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._engines.distributed import dask_shards
from agbm.dask import DaskAGBMClassifier
from dask_cluster import (
    FORKED,
    SMALL,
    Cluster,
    assert_same,
    cuts_of,
    frame,
    frames,
    given_as,
    labels,
    local_of,
    on_dask,
    series,
)  # fmt: skip
from patience import no_longer_than

pytestmark = pytest.mark.slow

ALARM = 120
"""Seconds that a test may take."""
KINDS = ["numbers", "two classes", "three classes"]


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with no_longer_than(ALARM):
        yield


def test_verification(client):
    table = frame(500)
    y = labels("numbers", table)
    model = local_of("numbers", max_iter=3).fit(table, y)
    cuts = cuts_of(len(table), 3)
    rows = frames(table, cuts), series(y, cuts)
    assert on_dask(model).fit(*rows).verify(*rows, iterations=[2])
    other = table.assign(a=table["a"].where(table.index != table.index[7], 3.25))
    (found,) = on_dask(model).fit(*rows).verify(frames(other, cuts), rows[1]).differences
    assert (found.part, found.where.partition("; ")[2]) == ("data", "columns 'a'")


@pytest.mark.parametrize("n_workers", [1, 5])  # the other tests have two
def test_any_number_of_workers(cluster, n_workers, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_shards, "FAN_OUT", 2)  # workers forward messages
    cluster.resize(n_workers)
    table = frame()
    y = labels("two classes", table)
    expected = local_of("two classes").fit(table, y)
    cuts = cuts_of(len(table), 7)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("n_parts", [1, 2, 25])  # the other tests have 4 to 7
def test_any_number_of_partitions(client, n_parts, tmp_path):
    table = frame()
    y = labels("numbers", table)
    X, lazy_X, lazy_y = given_as("delayed", table, y, cuts_of(len(table), n_parts, seed=n_parts))
    expected = local_of("numbers", max_iter=3).fit(X, y)
    assert_same(on_dask(expected).fit(lazy_X, lazy_y), expected, tmp_path)


@pytest.mark.parametrize(
    ("container", "kind"), [("frames", "three classes"), ("arrays", "two outputs"), ("delayed", "numbers")]
)
def test_containers(two_workers, container, kind, tmp_path):
    table = frame()
    y, cuts = labels(kind, table), cuts_of(len(table), 6)
    X, lazy_X, lazy_y = given_as(container, table, y, cuts)
    expected = local_of(kind).fit(X, y)
    model = on_dask(expected).fit(lazy_X, lazy_y)
    assert_same(model, expected, tmp_path)
    check_prediction(model.predict(lazy_X), expected.predict(X), table, cuts, container)


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
@pytest.mark.parametrize("container", ["frames", "arrays", "delayed"])
def test_predictions_are_lazy_and_equal_the_local_ones(client, kind, container):
    """Of every kind of model, in the container and the partitions of X. The model is a local one: no fit is needed."""
    table = frame()
    y, cuts = labels(kind, table), cuts_of(len(table), 6)
    X, lazy_X, _ = given_as(container, table, y, cuts)
    expected = local_of(kind).fit(X, y)
    model = on_dask(expected)
    model.__dict__ = dict(expected.__dict__)
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


def test_predict_computes_nothing(client):
    """Only compute() does."""
    table = frame(300)
    model = on_dask(AGBMRegressor())
    model.__dict__ = local_of("numbers").fit(table, labels("numbers", table)).__dict__
    parts = [delayed(refuse)() for _ in range(2)]
    lazy = model.predict(dd.from_delayed(parts, meta=table.iloc[:0], verify_meta=False))
    with pytest.raises(RuntimeError, match="not to be read"):
        lazy.compute()


def refuse():
    raise RuntimeError("not to be read")


def test_local_model_does_not_need_dask(client, tmp_path):
    """to_local() has the plain class, and its model can be unpickled and loaded where Dask cannot be imported."""
    table = frame(500)
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 3)
    table.to_pickle(tmp_path / "table.pickle")
    for local in (local_of("two classes"), local_of("numbers")):
        given = y if isinstance(local, AGBMClassifier) else labels("numbers", table)
        model = on_dask(local).fit(frames(table, cuts), series(given, cuts))
        name = type(local).__name__
        assert type(model.to_local()) is type(local)
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model.to_local()))
        model.save(tmp_path / f"{name}.agbm")
        assert type(agbm.load(tmp_path / f"{name}.agbm")) is type(local)
    code = (
        "import sys, pickle, agbm, pandas; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "table = pandas.read_pickle('table.pickle')\n"
        "for name in sys.argv[1:]:\n"
        "    models = pickle.load(open(f'{name}.pickle', 'rb')), agbm.load(f'{name}.agbm')\n"
        "    assert (models[0].predict(table) == models[1].predict(table)).all()\n"
    )
    command = [sys.executable, "-c", code, "AGBMClassifier", "AGBMRegressor"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_parquet_files_keep_their_partitions(two_workers, tmp_path):
    """Dask would merge small columns of several files: those of y, but not those of X."""
    table = frame()
    table["y"] = labels("two classes", table)
    for i, part in enumerate(np.array_split(np.arange(len(table)), 6)):
        table.iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
    rows = dd.read_parquet(tmp_path)
    model = DaskAGBMClassifier(**SMALL).fit(rows.drop(columns="y"), rows["y"])
    everything = pd.read_parquet(tmp_path)
    assert_same(model, AGBMClassifier(**SMALL).fit(everything.drop(columns="y"), everything["y"]), tmp_path)


def test_local_cluster(tmp_path):
    """A cluster that Dask starts itself, with several threads per worker."""
    table = frame()
    y = labels("two classes", table)
    expected = local_of("two classes").fit(table, y)
    how = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": ":0"}
    with dask.config.set(FORKED), LocalCluster(**how) as own, Client(own) as client:
        X, lazy_y = dd.from_pandas(table, npartitions=5), dd.from_pandas(y, npartitions=5)
        assert_same(on_dask(expected).fit(X, lazy_y, client=client), expected, tmp_path)


@pytest.fixture
def networks():
    """Prefixes of commands by address: each runs a command in a network namespace of its own."""
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


def test_workers_in_separate_networks(networks, tmp_path):
    """They share no loopback device: all messages go over a network."""
    table = frame(500)
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 3)
    expected = local_of("two classes", max_iter=3).fit(table, y)
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
