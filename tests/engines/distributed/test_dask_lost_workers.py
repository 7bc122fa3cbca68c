"""Dask workers and clients that are killed or join late: the model has the bytes of one of this process."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client

from agbm._engines.distributed import dask_shards
from agbm.dask import DaskAGBMRegressor
from dask_cluster import (
    IMPORTS,
    SECONDS,
    SMALL,
    assert_same,
    bytes_of,
    cuts_of,
    frame,
    frames,
    in_parts,
    labels,
    local_of,
    on_dask,
    series,
)  # fmt: skip
from patience import no_longer_than
from variants import made

pytestmark = pytest.mark.slow

ALARM = 120
"""Seconds that a test, or a run of one, may take."""
N_KILLS = int(os.environ.get("AGBM_KILL_RUNS", "2"))
KILL_ITERATIONS = int(os.environ.get("AGBM_KILL_ITERATIONS", "8"))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Notice lost workers soon."""
    monkeypatch.setattr(dask_shards, "PATIENCE", 1.0)


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with no_longer_than(ALARM):
        yield


class Killer:
    """Kills a worker some time after an iteration, or after the start of a fit, and starts another in its place.

    The last iteration but one waits for it, so that it is never too late.
    """

    def __init__(self, cluster, rng, seconds):
        self._cluster = cluster
        self._victim = str(rng.choice(list(cluster.workers)))
        self._iteration = int(rng.integers(-1, KILL_ITERATIONS))
        self._thread = threading.Timer(seconds * rng.random(), self._kill)
        self.done = False

    def begin(self):
        if self._iteration < 0:
            self._thread.start()

    def __call__(self, record):
        if record.iteration == self._iteration:
            self._thread.start()
        if record.iteration == KILL_ITERATIONS - 1:
            self._thread.join(SECONDS)

    def _kill(self):
        self._cluster.kill(self._victim)
        self._cluster.add()
        self.done = True


def test_fit_survives_killed_workers(cluster, tmp_path, monkeypatch):
    """Each fit loses a worker at a random moment; AGBM_KILL_RUNS sets the number of fits."""
    monkeypatch.setattr(dask_shards, "FAN_OUT", 2)  # one of the three workers gets its messages from another
    table = frame()
    y = labels("two classes", table)
    cuts = cuts_of(len(table), 5)
    X, lazy_y = frames(table, cuts), series(y, cuts)
    model = local_of(
        "two classes", method=made("agbm", shared_structure=False), max_iter=KILL_ITERATIONS, subsample=0.8
    )
    expected = bytes_of(model.fit(table, y), tmp_path)
    rng = np.random.default_rng(os.getpid())
    for _ in range(N_KILLS):
        signal.alarm(ALARM)
        cluster.resize(3)
        killer = Killer(cluster, rng, seconds=0.5)
        survivor = on_dask(model).set_params(callbacks=[killer])
        killer.begin()
        survivor.fit(X, lazy_y)
        assert killer.done
        survivor.set_params(callbacks=None)
        assert bytes_of(survivor, tmp_path) == expected


@pytest.mark.filterwarnings("ignore:The cluster has no workers")
def test_fit_survives_the_loss_of_all_workers(cluster, tmp_path):
    cluster.resize(2)
    table = frame()
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 5)
    expected = local_of("three classes", n_members=3).fit(table, y)
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


def test_worker_that_joins_late_gets_rows(cluster, tmp_path, monkeypatch):
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
            time.sleep(0.1)  # so that some iterations begin after the next look
            has.append(shards_at(cluster))

    model = on_dask(expected).set_params(callbacks=[join]).fit(frames(table, cuts), series(y, cuts))
    assert set(has[-1]) == set(cluster.workers)
    assert_same(model.set_params(callbacks=None), expected, tmp_path)


def shards_at(cluster):
    """The workers that have shards in their memory."""
    held = cluster.client.has_what()
    return [name for name, at in cluster.addresses().items() if any("make_dask_shard" in str(key) for key in held[at])]


def test_killed_client_resumes_from_checkpoint(two_workers, tmp_path):
    """Another client resumes the fit, to the same bytes."""
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
    expected = local_of("numbers", max_iter=16, n_members=2).fit(table, y)
    seen = []
    model = on_dask(expected).set_params(callbacks=[lambda record: seen.append(record.iteration)])
    model.fit(*of_the_client(table, y), checkpoint=path)
    assert seen == list(range(11, 17))
    assert_same(model.set_params(callbacks=None), expected, tmp_path)


def of_the_client(table, y):
    cuts = cuts_of(len(table), 4)
    return frames(table, cuts), series(y, cuts)


def be_a_client(address, path):
    """What the killed client does: print the number of each iteration, and stay in iteration 15."""

    def say(record):
        print(record.iteration, flush=True)
        if record.iteration == 15:
            threading.Event().wait(SECONDS)

    table = frame()
    model = local_of("numbers", max_iter=16, n_members=2)
    with Client(address):
        on_dask(model).set_params(callbacks=[say]).fit(*of_the_client(table, labels("numbers", table)), checkpoint=path)


def die():
    os._exit(1)


def test_partition_that_kills_its_workers(cluster):
    """Dask gives up after some of them; the error says which partition it was."""
    cluster.resize(3)
    table = frame(200)
    y = labels("numbers", table)
    died = "partition 1: all workers that got it have died"
    with cluster.giving_up_soon(), pytest.raises(RuntimeError, match=died):
        DaskAGBMRegressor(**SMALL).fit([delayed(table[:100]), delayed(die)()], in_parts(y, [0, 100, 200]))


if __name__ == "__main__":
    be_a_client(*sys.argv[1:])
