"""Warnings about slow Dask workers, and the events of a run."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

from agbm import AGBMRegressor
from agbm._engines.distributed import dask_events, dask_shards
from agbm._engines.distributed.dask_workers import Workers
from agbm.dask import DaskAGBMRegressor
from agbm.losses import HalfSquaredError
from agbm.methods import Fading
from dask_cluster import SMALL, cuts_of, frame, in_parts, labels, wait_until


def rows():
    table = frame()
    y = labels("numbers", table)
    cuts = cuts_of(len(table), 6)
    return table, y, in_parts(table, cuts), in_parts(y, cuts)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(dask_shards, "PATIENCE", 0.3)
    monkeypatch.setattr(dask_shards, "LONG_WAIT", 0.6)


def test_warning_about_a_paused_worker(two_workers, impatient):
    """Its process is stopped for a while; the model is the same."""
    table, y, X, lazy_y = rows()
    name = next(iter(two_workers.workers))
    process, address = two_workers.workers[name], two_workers.addresses()[name]
    stopped = []

    def pause(record):
        if record.iteration in (2, 3):
            os.kill(process.pid, signal.SIGSTOP)
            stopped.append(threading.Timer(2.0, os.kill, [process.pid, signal.SIGCONT]))
            stopped[-1].start()

    try:
        with pytest.warns(RuntimeWarning, match="Training has waited") as caught:
            model = DaskAGBMRegressor(**SMALL, callbacks=[pause]).fit(X, lazy_y)
    finally:
        for timer in stopped:
            timer.join()
    (warning,) = caught  # once, though it was slow twice
    assert address in str(warning.message)
    assert "1 of 2 workers have not finished" in str(warning.message)
    assert "do not respond" in str(warning.message)
    np.testing.assert_array_equal(model.predict(table), AGBMRegressor(**SMALL).fit(table, y).predict(table))


class Sleepy(HalfSquaredError):
    """Its hessians are slow for the shard of one process, which has more rows than a partition."""

    constant_hessian = False
    row_wise = True

    def __init__(self, process):
        self.process = process

    def hessian(self, y, f, weight=None):
        if os.getpid() == self.process and f.size > 700:
            time.sleep(2.0)
        return np.ones_like(f)


def test_warning_about_a_busy_worker(two_workers, impatient):
    """It responds, but has not finished the round that the other one has."""
    _, _, X, lazy_y = rows()
    name = next(iter(two_workers.workers))
    slow = {"loss": Sleepy(two_workers.workers[name].pid), "l2_regularization": 1.0}
    model = DaskAGBMRegressor(**SMALL | {"max_iter": 2, "method": Fading()} | slow)
    with pytest.warns(RuntimeWarning, match="still work on it, while others wait") as caught:
        model.fit(X, lazy_y)
    (warning,) = caught
    assert two_workers.addresses()[name] in str(warning.message)


def test_no_warning_if_all_workers_are_slow(two_workers, impatient, monkeypatch):
    shards = dask_shards.DaskShards(Workers(two_workers.client), [], [], None)
    monkeypatch.setattr(shards, "_finished_rounds", lambda: {"a": 3, "b": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shards._warn_of_slow(4, time.monotonic())


def test_iterations_are_events(two_workers, monkeypatch):
    """They reach a client that asks, one that has subscribed, and the dashboard."""
    monkeypatch.setattr(dask_events, "SECONDS_BETWEEN_EVENTS", 0.0)
    _, _, X, lazy_y = rows()
    client, seen = two_workers.client, []
    before = len(client.get_events("agbm"))
    client.subscribe_topic("agbm", lambda event: seen.append(event[1]))
    try:
        model = DaskAGBMRegressor(**SMALL).fit(X, lazy_y)
        wait_until(lambda: len(seen) >= 6)
    finally:
        client.unsubscribe_topic("agbm")
    events = [message for _, message in client.get_events("agbm")][before:]
    assert events == seen
    assert [event["iteration"] for event in events] == list(range(6))
    np.testing.assert_array_equal([event["train_loss"] for event in events], model.history_["train_loss"])
    assert events[-1]["trees"] == model.n_trees_
    assert events[-1] in [message for _, message in client.get_events("all")]
    assert model.callbacks is None


def test_fast_iterations_are_not_all_logged(two_workers, monkeypatch):
    monkeypatch.setattr(dask_events, "SECONDS_BETWEEN_EVENTS", 1000.0)
    _, _, X, lazy_y = rows()
    before = len(two_workers.client.get_events("agbm"))
    DaskAGBMRegressor(**SMALL).fit(X, lazy_y)
    events = two_workers.client.get_events("agbm")[before:]
    assert [event["iteration"] for _, event in events] == [0, 5]
