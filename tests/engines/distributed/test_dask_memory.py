"""Workers with too little memory: the fit ends with an error that names the partitions and the memory."""

import types

import dask
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster

from agbm._engines.distributed import dask_shards, dask_workers
from agbm._engines.distributed.dask_shards import DaskShards, Held
from agbm._engines.distributed.dask_workers import Restart, Wait, Workers
from agbm.dask import DaskAGBMRanker, DaskAGBMRegressor
from agbm.losses import HalfSquaredError
from agbm.methods import Fading
from dask_cluster import FORKED, SMALL, frame, labels, wait_until
from patience import no_longer_than


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with no_longer_than(300):
        yield


class FakeClient:
    """A client whose scheduler reports what a test sets."""

    def __init__(self, **workers):
        self.workers = workers
        self.events = [(0.0, {"worker": "tcp://earlier:1", "pid": 1, "rss": 1})]
        self.scheduler = types.SimpleNamespace(identity=lambda: {"workers": self.workers})

    def get_events(self, topic):
        assert topic == "worker-restart-memory"
        return tuple(self.events)

    def sync(self, function):
        return function()

    def nthreads(self):
        return dict.fromkeys(self.workers, 1)

    def who_has(self, futures):
        return {}

    def cancel(self, futures, force):
        pass

    def restart(self, worker):
        """Let a worker exceed its memory limit."""
        self.events.append((1.0, {"worker": worker, "pid": 1, "rss": 300 * 2**20}))


def info(limit=2**30, status="running", executing=0):
    metrics = {"memory": 900 * 2**20, "task_counts": {"executing": executing} if executing else {}}
    return {"memory_limit": limit, "status": status, "metrics": metrics}


REMEDY = "use smaller partitions, fewer threads per worker, more workers, or workers with more memory."


def test_restarted_workers():
    """One restart is allowed until the next partition is finished; then counting starts again."""
    client = FakeClient(a=info(), b=info(2**29))
    workers = Workers(client)
    wait = Wait(workers, ["partition 0", "partition 1"])
    client.restart("a")
    wait.look(["partition 0", "partition 1"])
    wait.look(["partition 1"])
    client.restart("a")
    wait.look(["partition 1"])
    client.restart("b")
    with pytest.raises(RuntimeError) as caught:
        wait.look(["partition 1"])
    assert str(caught.value) == (
        "partition 1: workers exceeded their memory limit and were restarted 2 times, the last, b, at 300.00 MiB. "
        f"The memory limit of a worker is 512.00 MiB to 1.00 GiB; {REMEDY}"
    )


def test_names_of_many_partitions():
    workers = Workers(FakeClient(a=info()))
    error = workers.lost_with([f"partition {i}" for i in range(9)], "a", [Restart("a", 2**20)])
    assert str(error).startswith(
        "partition 0, partition 1, partition 2 and 6 more: workers exceeded their memory limit and were restarted once"
    )
    assert str(workers.lost_with(["partition 3"], "a", [])) == (
        "partition 3: all workers that got it have died, the last was a; its log says why. If they ran out of memory: "
        f"the memory limit of a worker is 1.00 GiB; {REMEDY}"
    )
    unlimited = Workers(FakeClient(a=info(None)))
    assert "the memory limit of a worker is not set" in str(unlimited.lost_with(["partition 3"], "a", []))


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ({"a": info(status="paused"), "b": info()}, "partition 0: no task has run for 0 s: 1 of 2 workers are paused, "
         "a at 900.00 MiB"),
        ({}, "no task has run for 0 s: all workers exceeded their memory limit, and none has come back"),
        ({"a": info(status="paused"), "b": info(executing=1)}, None),
        ({"a": info(status="paused", executing=1)}, None),
        ({"a": info()}, None),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The cluster has no workers")
def test_workers_that_run_no_tasks(monkeypatch, workers, message):
    """An error only if memory is the reason."""
    monkeypatch.setattr(dask_workers, "STANDSTILL", 0.0)
    client = FakeClient(a=info())
    wait = Wait(Workers(client), ["partition 0"])
    client.restart("a")
    client.workers = workers
    if message is None:
        wait.look(["partition 0"])
    else:
        with pytest.raises(RuntimeError, match=message):
            wait.look(["partition 0"])


def test_cluster_without_workers_is_waited_for(monkeypatch):
    """Memory is not the reason: the cluster may be about to start some."""
    monkeypatch.setattr(dask_workers, "STANDSTILL", 0.0)
    wait = Wait(Workers(FakeClient()), ["partition 0"])
    with pytest.warns(RuntimeWarning, match="The cluster has no workers"):
        wait.look(["partition 0"])
    wait.look(["partition 0"])  # one warning is enough


class Shard:
    """The future of a shard that is lost with its worker."""

    key, status = "shard", "pending"


@pytest.mark.parametrize(("of_memory", "times"), [(True, 2), (False, 4)])
def test_partitions_that_lose_their_workers(of_memory, times):
    """The limits: twice because of memory, or four times in one round for unknown reasons."""
    client = FakeClient(w0=info())
    shards = DaskShards(
        Workers(client), [5], ["partition 7"], lambda parts, worker: Held(worker, Shard, dict.fromkeys(parts))
    )
    shards._look()
    for i in range(times):
        if of_memory:
            client.restart(f"w{i}")
        client.workers = {f"w{i + 1}": info()}
        if i < times - 1:
            assert shards._look()
    last = f"the last, w{times - 1}, at 300" if of_memory else f"the last was w{times - 1};"
    with pytest.raises(RuntimeError, match=f"partition 7: .*{last}.* memory limit of a worker is 1.00 GiB"):
        shards._look()


# Real workers, which are restarted by their nannies.


@pytest.fixture(scope="module")
def small_cluster():
    limits = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "700MB"}
    with (
        dask.config.set(FORKED | {"distributed.deploy.lost-worker-timeout": "1 hour"}),  # busy machines are slow
        LocalCluster(**limits, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def small_workers(small_cluster, monkeypatch):
    """A client of two workers, once those that the previous test has lost are back. Losses are noticed soon."""
    monkeypatch.setattr(dask_shards, "PATIENCE", 1.0)
    small_cluster.wait_for_workers(2)
    return small_cluster


def fill_memory():
    """Allocate more than the memory limit, in steps, until the nanny kills the worker."""
    return len([np.ones(10_000_000) for _ in range(60)])


def too_large():
    return frame(100).assign(a=fill_memory())


class Hungry(HalfSquaredError):
    """Its hessians take more memory than a worker may have."""

    constant_hessian = False
    row_wise = True

    def hessian(self, y, f, weight=None):
        return np.full_like(f, fill_memory())


def parts(*tables):
    ys = [labels("numbers", table).round().clip(0, 4) for table in tables]
    return [delayed(table) for table in tables], [delayed(y) for y in ys]


EXCEEDED = "exceeded their memory limit.* memory limit of a worker is 667.57 MiB; use smaller partitions"


@pytest.mark.filterwarnings("ignore:The cluster has no workers")
def test_partition_that_is_too_large(small_workers):
    X, y = parts(frame(100), frame(100))
    with pytest.raises(RuntimeError, match=f"partition 1: .*{EXCEEDED}"):
        DaskAGBMRegressor(**SMALL).fit([X[0], delayed(too_large)()], y, client=small_workers)


@pytest.mark.filterwarnings("ignore:The cluster has no workers")
def test_training_that_takes_too_much_memory(small_workers):
    """Dask does not count how often shards are lost. The error names partitions; empty ones count."""
    X, y = parts(frame(0), frame(100), frame(120))
    model = DaskAGBMRegressor(**SMALL, loss=Hungry(), method=Fading(second_order=True))
    with pytest.raises(RuntimeError, match=r"partition [12] \(1[02]0 rows, .* [kK]iB\).*" + EXCEEDED):
        model.fit(X, y, client=small_workers)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("kind", [DaskAGBMRegressor, DaskAGBMRanker])
def test_paused_workers(monkeypatch, kind):
    """They start no tasks while their memory is full."""
    monkeypatch.setattr(dask_workers, "STANDSTILL", 1.0)
    X, y = parts(frame(100), frame(100))
    more = {"qid": [delayed(np.repeat(np.arange(10), 10) + 10 * i) for i in range(2)]} if kind is DaskAGBMRanker else {}
    limits = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "1GB", "processes": False}
    paused = "partition 0, partition 1: no task has run for 1 s: 1 of 1 workers are paused"
    with (
        dask.config.set({"distributed.worker.memory.pause": 1e-6}),
        LocalCluster(**limits, dashboard_address=":0") as full,
        Client(full) as client,
    ):
        wait_until(lambda: [info["status"] for info in Workers(client).infos().values()] == ["paused"])
        with pytest.raises(RuntimeError, match=f"{paused}.*memory limit of a worker is 0.93 GiB"):
            kind(**SMALL).fit(X, y, **more, client=client)
