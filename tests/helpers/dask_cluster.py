"""A cluster of processes on this machine, whose workers can be killed, and data for it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from dask.delayed import delayed
from distributed import Client

SECONDS = 60.0
"""Timeout, longer than anything here takes."""

SUPPORT = Path(__file__).parent

IMPORTS = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SUPPORT.parents[1], SUPPORT)))}
"""The environment of processes that import test modules, as workers do to unpickle functions of the tests."""


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
        command = [*before, sys.executable, "-m", "dask", what, *map(str, arguments), "--no-dashboard"]
        return subprocess.Popen(command, env=IMPORTS, stdout=self._log, stderr=self._log)

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
        process.send_signal(signal.SIGKILL)
        process.wait()

    def resize(self, n):
        """Start or kill workers until there are n, and wait until the scheduler knows exactly these."""
        self.workers = {name: process for name, process in self.workers.items() if process.poll() is None}
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
            process.wait()
        self._log.close()


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
