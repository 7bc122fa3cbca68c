"""A cluster of processes on this machine, whose workers can be killed, and data and models for it."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import delayed
from distributed import Client
from distributed.cli import dask_scheduler, dask_worker
from distributed.utils import get_mp_context

from agbm import AGBMClassifier, AGBMRegressor
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor

SECONDS = 60.0
"""Timeout, longer than anything here takes."""

SUPPORT = Path(__file__).parent

IMPORTS = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SUPPORT.parents[1], SUPPORT)))}
"""The environment of processes that import test modules, as workers do to unpickle functions of the tests."""

FORKED = {"distributed.worker.multiprocessing-method": "forkserver"}
"""Dask's configuration for workers that are forked from a process that has imported all they need."""

COMMANDS = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}


def forks():
    """The multiprocessing context of FORKED. The imports take seconds, and a forked worker none of them."""
    with dask.config.set(FORKED):
        context = get_mp_context()
    context.set_forkserver_preload(["distributed.cli.dask_worker", "dask.array", "dask.dataframe", "agbm.dask"])
    return context


class Cluster:
    """A scheduler and workers, each in its own process; a worker that dies is not restarted."""

    def __init__(self, folder, host="127.0.0.1"):
        self._folder = folder
        self._log = open(folder / "log.txt", "w")  # noqa: SIM115 (processes write to it)
        self.workers = {}
        self._n_started = 0
        self._file = folder / "scheduler.json"
        anywhere = ("--port", "0", "--dashboard-address", ":0")  # other clusters may have the usual ports
        self.processes = [self._start("scheduler", "--host", host, *anywhere, "--scheduler-file", self._file)]
        wait_until(self._file.exists)

    @contextmanager
    def connected(self):
        """Let `client`, which is Dask's default one, be a client of this cluster."""
        with Client(scheduler_file=str(self._file)) as self.client:
            yield self

    def _start(self, what, *arguments, before=()):
        given = [*map(str, arguments), "--no-dashboard"]
        if before:
            command = [*before, sys.executable, "-m", "dask", what, *given]
            return Popen(command, env=IMPORTS, stdout=self._log, stderr=self._log)
        process = forks().Process(target=_run, args=(what, given, self._log.name), daemon=True)
        process.start()
        return process

    def add(self, host="127.0.0.1", before=()):
        """Start a worker, with the words `before` in front of its command. Does not wait for it."""
        name = f"worker-{self._n_started}"
        self._n_started += 1
        process = self._start(
            "worker", "--scheduler-file", self._file, "--host", host, "--nthreads", 1, "--no-nanny", "--name", name,
            "--memory-limit", 0, "--local-directory", self._folder, before=before,
        )  # fmt: skip
        self.processes.append(process)
        self.workers[name] = process
        return name

    def kill(self, name):
        """Kill a worker with SIGKILL."""
        process = self.workers.pop(name)
        process.kill()
        process.join()

    def resize(self, n):
        """Start or kill workers until there are n, and wait until the scheduler knows exactly these."""
        self.workers = {name: process for name, process in self.workers.items() if process.is_alive()}
        for name in list(self.workers)[n:]:
            self.kill(name)
        while len(self.workers) < n:
            self.add()
        self.wait()

    def wait(self):
        """Wait until the scheduler knows exactly the workers that are running."""
        wait_until(lambda: set(self.addresses()) == set(self.workers))

    @contextmanager
    def giving_up_soon(self):
        """Let the scheduler give up a task when two workers that had it have died, instead of four."""
        usual = self.client.run_on_scheduler(_allow_failures, 1)
        try:
            yield
        finally:
            self.client.run_on_scheduler(_allow_failures, usual)

    def addresses(self):
        """Addresses of the workers that the scheduler knows, by name."""
        workers = self.client.run_on_scheduler(_addresses)
        return {name: address for name, address in workers.items() if name in self.workers}

    def close(self):
        """Kill all processes."""
        for process in self.processes:
            process.kill()
            process.join()
        self._log.close()


class Popen(subprocess.Popen):
    """A process with the methods of multiprocessing.Process that a cluster uses."""

    join = subprocess.Popen.wait

    def is_alive(self):
        return self.poll() is None


def _run(what, arguments, log):
    """What a forked process does: run a command of Dask and write to a log."""
    with open(log, "a") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    COMMANDS[what](arguments)


def _addresses(dask_scheduler):
    return {worker.name: worker.address for worker in dask_scheduler.workers.values()}


def _allow_failures(number, dask_scheduler):
    before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
    return before


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def frame(n=2000, seed=0):
    """Columns of many types, with missing values."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    table["short"] = rng.normal(size=n).astype(np.float32)
    table["whole"] = rng.integers(0, 9, n)
    table["text"] = rng.choice(["u", "v", "w"], n)
    table["kind"] = pd.Categorical(rng.choice(["p", "q", None], n), categories=["q", "p", "unused"])
    table.index = np.arange(1000, 1000 + n)
    return table


def labels(kind, table, seed=1):
    """Labels for a frame."""
    rng = np.random.default_rng(seed)
    score = table["a"] + table["c"] ** 2 + (table["text"] == "u") + rng.normal(size=len(table)) / 2
    if kind == "numbers":
        return score
    if kind == "two outputs":
        return np.column_stack([score, np.cos(score)])
    numbers = np.digitize(score, [1.0] if kind == "two classes" else [0.5, 2.0])
    return pd.Series(np.array(["no", "yes", "more"])[numbers], index=table.index)


def cuts_of(n, n_parts, seed=0):
    """Boundaries of uneven parts of n rows, some of which are empty."""
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.integers(0, n + 1, n_parts - 1))
    inner[: n_parts // 5] = 0
    if n_parts > 3:
        inner[n_parts // 2] = inner[n_parts // 2 - 1]
    return np.concatenate([[0], inner, [n]])


def in_parts(given, cuts):
    """A table or vector as delayed parts."""
    rows = given.iloc if hasattr(given, "iloc") else given
    return [delayed(rows[a:b]) for a, b in pairwise(cuts)]


SMALL = {"max_iter": 5, "max_depth": 3, "n_members": 1, "early_stopping": False, "random_state": 0}
"""Parameters of a model that is trained in a moment."""

ON_DASK = {AGBMRegressor: DaskAGBMRegressor, AGBMClassifier: DaskAGBMClassifier}


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
