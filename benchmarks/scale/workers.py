"""How training on Dask scales: a model of the time per tree, built from measured costs and checked against simulations.

1. Costs are measured on this machine: kernels per row and thread, the split search of the driver, and Dask's costs per
   call, round and byte. Dask's costs come from rounds of the real code with almost no rows.
2. The model (`Model.round`) adds them up for any number of workers and rows, latency and bandwidth.
3. The model is checked twice. First against the real code on up to 1,000 shards in this process with a simulated
   network: kernels, additions and split searches run and are timed, and `Replay` computes when messages arrive. Second
   against Dask itself, with as many workers as this machine has cores.
4. The model then predicts the time per tree for up to 1,000 workers and 10^10 rows, the number of workers beyond which
   more do not help, and which changes of the design would move that point.

Writes scale.json and a plot of the prediction to the folder --out. Workers have one thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import multiprocessing
import os
import pickle
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import distributed
import numpy as np
from numpy.typing import NDArray

from agbm._base.sums import ExactSum
from agbm._core import boosting
from agbm._core.objective import LocalObjective, of_each_output
from agbm._engines.distributed import dask_shards
from agbm._engines.distributed.dask_shards import FAN_OUT, DaskShard, DaskShards, Held, branches
from agbm._engines.distributed.dask_workers import Workers
from agbm._engines.distributed.growth import ClusterFitter
from agbm._engines.distributed.log import Log
from agbm._engines.distributed.messages import Message, Reply, add_up
from agbm._engines.distributed.objective import ClusterObjective, Facts
from agbm._engines.distributed.shard import Shard
from agbm._tree import TreeLearner
from agbm._tree.bins import Bins
from agbm.losses import LogLoss
from benchmarks.libraries import BINS, RATE
from benchmarks.scale.cluster import (
    DEPTH,
    FEATURES,
    bytes_of,
    cluster,
    kind_of,
    make_rows,
    name_of,
    steady,
    timed_rounds,
)
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import machine

MANY_ROWS = 2**21
"""Number of rows that is reported to the driver even if there are fewer: from 2^20 rows on, a histogram cell has three
integers."""
LEFT_OUT = 2
"""Number of trees before the measured ones."""


# Shards and the trees that are grown on them, without estimators.


def make_shard(seed: int, n_rows: int, first: int, bins: Bins) -> DaskShard:
    """Create a shard with random rows, as shard_tasks.make_shard does from partitions."""
    X, y = make_rows(seed, n_rows)
    codes = bins.encode(X[:, : bins.n_features], 1).columns()
    start = np.zeros((1, n_rows))
    problem = LocalObjective(of_each_output(LogLoss()), y[np.newaxis], n_rows, start, None, True, 1)
    return DaskShard(problem, bins, [codes], [(first, np.arange(n_rows, dtype=np.uint32))], 1)


def make_bins(n_features: int) -> Bins:
    return Bins.from_data(make_rows(0, 100_000)[0][:, :n_features], BINS)


def grow(shards: Any, bins: Bins, n_rows: int, trees: int) -> None:
    """Run plain boosting on shards, as an estimator with method "gbm" does; leaves of one row allow very few rows."""
    log = Log(shards, 1)
    problem = ClusterObjective(log, Facts(n_rows, 1, ExactSum.of_count(n_rows), ExactSum(), True))
    learner = TreeLearner(max_depth=DEPTH, min_samples_leaf=1, max_bins=BINS, n_threads=1)
    fitter = ClusterFitter(learner, bins, log, n_rows)
    for _ in boosting.gbm(problem, fitter, eta=RATE, max_iter=trees):
        pass


# Traces: times measured in the shards and the driver, without any communication.


@dataclass(frozen=True)
class Traced:
    """A round: seconds of each shard, of its additions of replies, and of the driver until its next message."""

    kind: str
    nodes: int
    message_bytes: int
    reply_bytes: int
    kernels: NDArray[np.float64]
    additions: NDArray[np.float64]
    last_addition: float
    driver: float = 0.0


Tree = Sequence[tuple[int, "Tree"]]
"""A tree of shard numbers, as returned by dask_shards.branches."""


class TracedShards:
    """Shards in this process, in the tree of DaskShards. Seconds are CPU time, which other processes do not affect."""

    def __init__(self, shards: Sequence[Shard], claimed_rows: int) -> None:
        self._shards = shards
        self._tree: Tree = branches(range(len(shards)))
        self._claimed_rows = claimed_rows
        self._returned = 0.0
        self.rounds: list[Traced] = []

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """See Shards."""
        if self.rounds:
            self.rounds[-1] = replace(self.rounds[-1], driver=time.thread_time() - self._returned)
        kernels, additions = np.zeros(len(self._shards)), np.zeros(len(self._shards))

        def answer(number: int, below: Tree) -> Reply:
            began = time.thread_time()
            replies = [self._shards[number].receive(message)]
            kernels[number] = time.thread_time() - began
            for one in below:  # added one at a time, so that few replies are in memory
                reply, seconds = added([replies.pop(), answer(*one)])
                additions[number] += seconds
                replies.append(reply)
            return replies[0]

        reply, last_addition = added([answer(*one) for one in self._tree])
        size = len(pickle.dumps(message, 5))
        self.rounds.append(Traced(*kind_of(message), size, bytes_of(reply), kernels, additions, last_addition))
        if self.rounds[-1].kind == "set_residuals":
            reply = reply._replace(sums=(max(self._claimed_rows, reply.sums[0]),))
        self._returned = time.thread_time()
        return reply


def added(replies: Sequence[Reply]) -> tuple[Reply, float]:
    began = time.thread_time()
    return add_up(replies), time.thread_time() - began


def levels(n_shards: int, fan_out: int) -> list[int]:
    """The longest path down the tree: the number of shards that are called at each level."""
    found = []
    while n_shards > 0:
        found.append(min(fan_out, n_shards))
        n_shards = math.ceil(n_shards / found[-1]) - 1
    return found


def trace(n_shards: int, rows_per_shard: int, trees: int) -> list[Traced]:
    """The rounds of some trees, without the first trees and without the last round, whose driver time is unknown."""
    bins = make_bins(FEATURES)
    shards = [make_shard(i + 1, rows_per_shard, i * rows_per_shard, bins) for i in range(n_shards)]
    traced = TracedShards(shards, MANY_ROWS)
    grow(traced, bins, n_shards * rows_per_shard, trees + LEFT_OUT + 1)
    starts = [i for i, round_ in enumerate(traced.rounds) if round_.kind == "set_residuals"]
    return traced.rounds[starts[LEFT_OUT] : starts[LEFT_OUT + trees]]


# Costs.


@dataclass(frozen=True)
class Question:
    """One of the rounds of a tree, with its costs."""

    kind: str
    nodes: int
    message_bytes: float
    reply_bytes: float
    fixed: float
    """Seconds of a shard without rows."""
    per_row: float
    """Additional seconds per row."""
    driver: float
    """Seconds of the driver until its next message."""


@dataclass(frozen=True)
class Costs:
    """All costs, in seconds."""

    questions: tuple[Question, ...]
    call: float
    """Time of the caller per call of another process."""
    round: float
    """Time of Dask per round, in addition to its calls."""
    level: float
    """Additional time for every level of workers that messages are forwarded to, in addition to the calls."""
    byte: float
    """Time to pack, copy and unpack a byte between two processes, in addition to the network."""
    add: float
    """Time to add a byte of a reply to another one."""


def by_place(rounds: Sequence[Traced]) -> dict[tuple[str, int], list[Traced]]:
    """Group rounds by their kind and their position among the rounds of this kind in their tree."""
    groups: dict[tuple[str, int], list[Traced]] = {}
    seen: dict[str, int] = {}
    for round_ in rounds:
        if round_.kind == "set_residuals":
            seen = {}
        groups.setdefault((round_.kind, seen.get(round_.kind, 0)), []).append(round_)
        seen[round_.kind] = seen.get(round_.kind, 0) + 1
    return groups


def questions_of(few: Sequence[Traced], many: Sequence[Traced], n_few: int, n_many: int) -> tuple[Question, ...]:
    """The questions of a tree, from the rounds of a single shard with few rows and with many rows."""
    small, large = by_place(few), by_place(many)
    found = []
    for (kind, place), rounds in large.items():
        kernel_few, kernel_many = (
            float(np.median([round_.kernels.mean() for round_ in some])) for some in (small[kind, place], rounds)
        )
        per_row = max(0.0, (kernel_many - kernel_few) / (n_many - n_few))
        nodes, message, reply, driver = np.median(
            [(round_.nodes, round_.message_bytes, round_.reply_bytes, round_.driver) for round_ in rounds], axis=0
        )
        fixed = max(0.0, kernel_few - per_row * n_few)
        found.append(Question(kind, int(nodes), float(message), float(reply), fixed, per_row, float(driver)))
    return tuple(found)


ADDED = FAN_OUT
"""Number of shards whose replies the driver adds when additions are timed."""


def addition_cost(rounds: Sequence[Traced]) -> float:
    """Seconds to add a byte, from the large replies of ADDED shards."""
    large = [r for r in rounds if r.nodes >= 4]
    return sum(r.last_addition for r in large) / sum(r.reply_bytes * (ADDED - 1) for r in large)


# Costs of Dask, with almost no rows.


def serve_workers(address: str, n_workers: int) -> None:
    """Run some workers with one thread each in this process."""
    import asyncio
    from contextlib import AsyncExitStack

    logging.getLogger("distributed").setLevel(logging.ERROR)

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            workers = [distributed.Worker(address, nthreads=1, memory_limit=0) for _ in range(n_workers)]
            for worker in workers:
                await stack.enter_async_context(worker)
            await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(serve())


@contextmanager
def workers_elsewhere(n_workers: int) -> Iterator[Any]:
    """A client in the process of the scheduler, with the workers in at most two other processes.

    This separates the CPU time of this process from that of the workers.
    """
    counts = [n for n in (n_workers // 2, n_workers - n_workers // 2) if n > 0]
    context = multiprocessing.get_context("spawn")
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        processes = [context.Process(target=serve_workers, args=(local.scheduler_address, n)) for n in counts]
        for process in processes:
            process.start()
        try:
            client.wait_for_workers(n_workers, timeout=120)
            yield client
        finally:
            for process in processes:
                process.terminate()
                process.join()


@contextmanager
def fan_out_of(fan_out: int) -> Iterator[None]:
    """Let trees of shards have this fan-out."""
    before, dask_shards.FAN_OUT = dask_shards.FAN_OUT, fan_out
    try:
        yield
    finally:
        dask_shards.FAN_OUT = before


def rounds_without_rows(client: Any, n_workers: int, fan_out: int, trees: int, features: int = 2) -> NDArray[Any]:
    """Seconds and CPU seconds of this process (round, 2), for shards with almost no work."""
    bins, rows = make_bins(features), [500] * n_workers

    def make(partitions: Sequence[int], worker: str) -> Held:
        first = partitions[0]
        place = {"workers": [worker], "actor": True, "pure": False}
        shard = client.submit(make_shard, first + 1, 500, 500 * first, bins, **place)
        return Held(worker, shard, dict.fromkeys(partitions, shard))

    clocks: list[tuple[float, float]] = []
    names = [f"partition {i}" for i in range(n_workers)]
    shards = DaskShards(Workers(client), rows, names, make)
    send = shards._send

    def timed(message: Message) -> Reply:
        began = time.perf_counter(), time.process_time()
        reply = send(message)
        clocks.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        return reply

    shards._send = timed  # type: ignore[method-assign]
    with fan_out_of(fan_out), dask_shards.talking_to_workers(client):
        grow(shards, bins, sum(rows), trees)
    shards.close()
    return np.array(clocks[len(clocks) // 3 :])


FASTEST = 0.25
"""Quantile of times of rounds: other processes of the machine only add to a time."""


def call_costs(worker_counts: Sequence[int], trees: int) -> list[dict[str, float]]:
    """Wall time and CPU time of this process per round, which calls all workers itself."""
    found = []
    for n_workers in worker_counts:
        with workers_elsewhere(n_workers) as client:
            clocks = rounds_without_rows(client, n_workers, n_workers, trees)
            wall, processor = np.quantile(clocks, FASTEST, axis=0)
            processor -= wall * idle_share()  # the heartbeats of workers
        found.append({"workers": n_workers, "seconds": float(wall), "processor": float(processor)})
        print(f"  {n_workers} workers: {1e3 * wall:.2f} ms per round, {1e3 * processor:.2f} ms of CPU", flush=True)
    return found


def chain_costs(worker_counts: Sequence[int], trees: int) -> list[dict[str, float]]:
    """Wall time per round of a chain of workers, each of which calls the next one.

    Only one process of a chain is active at a time, so the number of cores does not matter.
    """
    found = []
    for n_workers in worker_counts:
        with workers_elsewhere(n_workers) as client:
            wall = float(np.quantile(rounds_without_rows(client, n_workers, 1, trees)[:, 0], FASTEST))
        found.append({"workers": n_workers, "seconds": wall})
        print(f"  a chain of {n_workers}: {1e3 * wall:.2f} ms per round", flush=True)
    return found


FAN_OUTS = (2, 4, 8, 16, 32)


def fan_out_times(worker_counts: Sequence[int], trees: int, turns: int) -> list[dict[str, float]]:
    """Wall time per tree by the number of workers and the fan-out, for shards with almost no rows and real replies.

    All workers share this machine, so this is the total of the processes' work, and not that of the longest path.
    """
    found = []
    for n_workers in worker_counts:
        times: dict[int, list[float]] = {fan_out: [] for fan_out in FAN_OUTS if fan_out < 2 * n_workers}
        with workers_elsewhere(n_workers) as client:
            for _ in range(turns):
                for fan_out, seconds in times.items():
                    clocks = rounds_without_rows(client, n_workers, fan_out, trees, FEATURES)
                    seconds.append(float(np.median(clocks[:, 0])))
        for fan_out, seconds in times.items():
            found.append({"workers": n_workers, "fan_out": fan_out, "seconds": min(seconds)})
            print(f"  {n_workers} workers, fan-out {fan_out}: {1e3 * min(seconds):.2f} ms per round", flush=True)
    return found


def idle_share(seconds: float = 1.0) -> float:
    """The share of a processor that this process uses while it is idle."""
    began = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - began) / seconds


def slope(found: Sequence[dict[str, float]], what: str) -> float:
    """The slope of a line fitted to a time, over the number of workers."""
    return max(0.0, float(np.polyfit([row["workers"] for row in found], [row[what] for row in found], 1)[0]))


def byte_costs(call: float) -> tuple[float, float]:
    """Seconds of a round of two workers in addition to its calls, and seconds per byte of a reply."""
    from benchmarks.scale.cluster import TINY_ROWS, OnDask, collection

    with cluster(2) as client:
        tiny = collection(client, TINY_ROWS, 2)
        with timed_rounds(client) as rounds:
            OnDask(plain=True).fit(*tiny, 40)
    on_the_way = [(round_.reply_bytes, round_.seconds - round_.kernels) for round_ in steady(rounds, 10)]
    fixed = float(np.quantile([seconds for size, seconds in on_the_way if size < 10_000], FASTEST))
    slopes = [(seconds - fixed) / size for size, seconds in on_the_way if size > 400_000]
    return max(0.0, fixed - 2 * call), max(0.0, float(np.quantile(slopes, FASTEST))) / 2


def kernel_seconds_of(n_rows: int, trees: int, together: Any, results: Any) -> None:
    """In a process: CPU seconds per tree in the kernels of one shard, measured while others do the same."""
    bins = make_bins(FEATURES)
    shard = make_shard(1, n_rows, 0, bins)
    together.wait()
    traced = TracedShards([shard], MANY_ROWS)
    grow(traced, bins, n_rows, trees)
    results.put(sum(float(round_.kernels.sum()) for round_ in traced.rounds) / trees)


def sharing_cost(n_processes: int, n_rows: int, trees: int) -> float:
    """The CPU time of kernels in as many processes at once as there are workers, relative to that in one process."""
    context = multiprocessing.get_context("spawn")

    def seconds(n: int) -> float:
        together, results = context.Barrier(n), context.Queue()
        processes = [
            context.Process(target=kernel_seconds_of, args=(n_rows, trees, together, results)) for _ in range(n)
        ]
        for process in processes:
            process.start()
        found = [results.get() for _ in processes]
        for process in processes:
            process.join()
        return float(max(found))

    return seconds(n_processes) / seconds(1)


def measured_costs(quick: bool) -> tuple[Costs, dict[str, Any]]:
    """Measure all costs; also return the measurements that they were computed from."""
    n_few, n_many = 16_000, 100_000 if quick else 1_000_000
    print("kernels", flush=True)
    few, many = trace(1, n_few, 3 if quick else 10), trace(1, n_many, 3 if quick else 6)
    questions = questions_of(few, many, n_few, n_many)
    add = addition_cost(trace(ADDED, 4_000, 4))
    print("calls", flush=True)
    calls = call_costs((1, 2, 4) if quick else (1, 2, 4, 6, 8), 4 if quick else 20)
    chains = chain_costs((1, 2, 3) if quick else (1, 2, 4, 6), 4 if quick else 20)
    call = slope(calls, "processor")
    level = max(0.0, slope(chains, "seconds") - call)
    print("fan-outs", flush=True)
    fan_outs = fan_out_times((8,) if quick else (16, 32), 3 if quick else 6, 1 if quick else 2)
    print("bytes", flush=True)
    fixed, byte = byte_costs(call)
    costs = Costs(questions, call, fixed, level, byte, add)
    facts = {"date": time.strftime("%Y-%m-%d"), "processor": name_of(machine()), "rows": [n_few, n_many]}
    return costs, {"calls": calls, "chains": chains, "fan_outs": fan_outs, **facts}


# The model.


@dataclass(frozen=True)
class Network:
    """A network: latency of a message in seconds, and bandwidth of every machine in bytes per second."""

    latency: float
    rate: float

    def per_byte(self, costs: Costs) -> float:
        """Seconds per byte from one process to another."""
        return 1 / self.rate + costs.byte


@dataclass(frozen=True)
class Design:
    """The current design, or a change of it."""

    fan_out: int = FAN_OUT
    bytes_kept: float = 1.0
    """Size of replies, relative to the current one."""
    call_kept: float = 1.0
    """Cost of a call, relative to the current one."""
    without: tuple[str, ...] = ()
    """Kinds of rounds that are merged into other rounds."""
    threads: int = 1
    """Threads per worker; kernels are assumed to scale linearly."""
    sharing: float = 1.0
    """Factor of the kernels' time where workers share the memory of a machine."""
    scattered: bool = False
    """Whether each worker adds up and searches a part of the features, and sends only the best splits to the driver."""


WORKERS_TRIED = sorted({round(10 ** (k / 40)) for k in range(201)})
"""Numbers of workers up to 100,000, evenly spaced on a logarithmic scale."""

PARTS = ("kernels", "calls", "latency", "messages", "replies", "additions", "driver")


@dataclass(frozen=True)
class Model:
    """The model of the seconds per tree."""

    costs: Costs
    network: Network
    design: Design = Design()

    def round(self, question: Question, n_workers: int, n_rows: float) -> dict[str, float]:
        """Seconds per round, by part."""
        costs, design = self.costs, self.design
        latency, per_byte = self.network.latency, self.network.per_byte(costs)
        call, reply = costs.call * design.call_kept, question.reply_bytes * design.bytes_kept
        parts = dict.fromkeys(PARTS, 0.0)
        parts["kernels"] = question.fixed + question.per_row * n_rows / (n_workers * design.threads)
        parts["kernels"] *= design.sharing
        parts["calls"] = costs.round
        parts["driver"] = question.driver / (n_workers if design.scattered else 1)
        for level, called in enumerate(levels(n_workers, design.fan_out)):
            parts["calls"] += called * call + (costs.level if level > 0 else 0.0)
            parts["latency"] += 2 * latency
            parts["messages"] += called * question.message_bytes * per_byte
            if not design.scattered:
                parts["replies"] += called * reply * per_byte
                parts["additions"] += (called if level > 0 else called - 1) * reply * costs.add
        if design.scattered:  # recursive halving: halves are exchanged with one worker, then quarters, ...
            steps, share = math.ceil(math.log2(n_workers)), (n_workers - 1) / n_workers
            parts["calls"] += steps * call
            parts["latency"] += steps * latency
            parts["replies"] += share * reply * per_byte
            parts["additions"] += share * reply * costs.add
        return parts

    def tree(self, n_workers: int, n_rows: float) -> dict[str, float]:
        """Seconds per tree, by part."""
        total = dict.fromkeys(PARTS, 0.0)
        for question in self.costs.questions:
            parts = self.round(question, n_workers, n_rows)
            rides_along = question.kind in self.design.without
            for part in ("kernels", "driver") if rides_along else PARTS:
                total[part] += parts[part]
        return total

    def seconds(self, n_workers: int, n_rows: float) -> float:
        """Seconds per tree."""
        return sum(self.tree(n_workers, n_rows).values())

    def best(self, n_rows: float) -> tuple[int, float]:
        """The number of workers with the shortest time per tree, and that time."""
        return min(((n, self.seconds(n, n_rows)) for n in WORKERS_TRIED), key=lambda pair: pair[1])

    def break_even(self, n_rows: float) -> int:
        """The largest number of workers with which kernels on rows take at least half of the time."""
        per_row = sum(question.per_row for question in self.costs.questions) / self.design.threads
        return max((n for n in WORKERS_TRIED if 2 * per_row * n_rows / n >= self.seconds(n, n_rows)), default=1)


# The simulation.


class Replay:
    """Traced rounds with a simulated network, message by message.

    A process sends messages to its children one after the other, then does its own work while they do theirs. It
    receives replies one at a time, in the order of their arrival, and adds them when its own work is done as well.
    """

    def __init__(self, costs: Costs, network: Network) -> None:
        self._costs = costs
        self._network = network

    def seconds_per_tree(self, rounds: Sequence[Traced]) -> float:
        """Simulated seconds per tree, from traced rounds of complete trees."""
        tree: Tree = branches(range(len(rounds[0].kernels)))
        trees = sum(round_.kind == "set_residuals" for round_ in rounds)
        return sum(self._round(round_, tree) for round_ in rounds) / trees

    def _round(self, round_: Traced, tree: Tree) -> float:
        def finished(number: int, below: Tree, asked: float) -> float:
            received = self._received(round_, below, asked + (self._costs.level if below else 0.0), finished)
            return float(max(asked + round_.kernels[number], received) + round_.additions[number])

        received = self._received(round_, tree, self._costs.round, finished)
        return received + round_.last_addition + round_.driver

    def _received(self, round_: Traced, below: Tree, now: float, finished: Callable[..., float]) -> float:
        """The time at which all replies of the children have been received."""
        latency, per_byte = self._network.latency, self._network.per_byte(self._costs)
        ready = []
        for number, further in below:
            now += self._costs.call + round_.message_bytes * per_byte
            ready.append(finished(number, further, now + latency) + latency)
        for arrival in sorted(ready):
            now = max(now, arrival) + round_.reply_bytes * per_byte
        return now


GIGABIT = 1e9 / 8


def simulate(costs: Costs, quick: bool) -> list[dict[str, float]]:
    """Compare model and simulation over a grid of settings."""
    found = []
    for n_workers in (2, 8, 64) if quick else (2, 8, 16, 64, 256, 1_000):
        rows_per_shard = max(500, 32_000 // n_workers)
        rounds = trace(n_workers, rows_per_shard, 2)
        n_rows = n_workers * rows_per_shard
        for latency, gigabits in itertools.product((1e-4, 1e-3, 1e-2), (1, 10, 25)):
            network = Network(latency, gigabits * GIGABIT)
            simulated = Replay(costs, network).seconds_per_tree(rounds)
            predicted = Model(costs, network).seconds(n_workers, n_rows)
            found.append({
                "workers": n_workers, "latency": latency, "gigabits": gigabits, "simulated": simulated,
                "predicted": predicted, "error": predicted / simulated - 1,
            })  # fmt: skip
        print(f"  {n_workers} workers: errors " + " ".join(f"{row['error']:+.0%}" for row in found[-9:]), flush=True)
    return found


def check_with_dask(costs: Costs, n_rows: int) -> list[dict[str, float]]:
    """Compare the model with Dask itself, on this machine."""
    from benchmarks.scale.cluster import OnDask, collection

    found = []
    for n_workers in [n for n in (1, 2, 4, 8, 16) if n <= len(os.sched_getaffinity(0))]:
        sharing = sharing_cost(n_workers, n_rows // n_workers, 3) if n_workers > 1 else 1.0
        with cluster(n_workers) as client:
            X, y = collection(client, n_rows, max(8, n_workers))
            with timed_rounds(client) as rounds:
                OnDask(plain=True).fit(X, y, 15)
        starts = [round_.began for round_ in rounds if round_.kind == "set_residuals"]
        here = Model(costs, Network(0.0, math.inf), Design(sharing=sharing)).tree(n_workers, n_rows)
        few, trees = steady(rounds, LEFT_OUT), len(starts) - LEFT_OUT
        found.append({
            "workers": n_workers, "rows": n_rows, "sharing": sharing, "predicted": sum(here.values()),
            "predicted_kernels": here["kernels"],
            "measured": (few[-1].began + few[-1].seconds - few[0].began) / trees,
            "kernels": sum(round_.kernels for round_ in few) / trees,
            "kernels_cpu": sum(round_.kernels_cpu for round_ in few) / trees,
        })  # fmt: skip
    return found


# Results.

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)
ROWS = (10**7, 10**8, 10**9, 10**10)

DESIGNS = {
    "current design": Design(),
    "16 threads per worker": Design(threads=16),
    **{f"fan-out {n}": Design(fan_out=n) for n in (2, 4, 8, 16, 32) if n != FAN_OUT},
    "half the bytes": Design(bytes_kept=0.5),
    "set_residuals and measure merged into other rounds": Design(without=("set_residuals", "measure")),
    "call cost reduced to 10 %": Design(call_kept=0.1),
    "split search distributed over features": Design(scattered=True),
}


def moved_points(costs: Costs, network: Network) -> list[dict[str, Any]]:
    """The points at which strong scaling stops, for each design."""
    found = []
    for name, design in DESIGNS.items():
        model = Model(costs, network, design)
        row: dict[str, Any] = {"design": name}
        for n_rows in ROWS:
            best, seconds = model.best(n_rows)
            row[f"{n_rows:.0e}"] = {"half": model.break_even(n_rows), "best": best, "seconds": seconds}
        found.append(row)
    return found


def cost_lines(costs: Costs, sources: Mapping[str, Any]) -> list[str]:
    """A paragraph on the measured costs; scale.json has those of every round."""
    per_row = sum(q.per_row for q in costs.questions)
    text = (
        f"`python -m benchmarks.scale.workers`, {sources['date']}, {sources['processor']}. Per tree, a row takes "
        f"{1e9 * per_row:.0f} ns on one thread ({1 / per_row / 1e6:.1f} million rows per second). "
        f"A call takes the caller {1e3 * costs.call:.2f} ms, a round {1e3 * costs.round:.1f} ms in addition "
        f"to its calls, and every further level of workers {1e3 * costs.level:.2f} ms. A byte takes "
        f"{1e9 * costs.byte:.2f} ns from one process to another, in addition to the network, and "
        f"{1e9 * costs.add:.2f} ns to be added."
    )
    return textwrap.wrap(text, 120)


def fan_out_lines(model: Model, sources: Mapping[str, Any]) -> list[str]:
    """Tables of what a tree costs in addition to kernels: predicted by fan-out, and measured on this machine."""
    predicted = []
    for n in (8, 16, 64, 256, 1_000):
        parts = [replace(model, design=Design(fan_out=fan_out)).tree(n, 0.0) for fan_out in FAN_OUTS]
        predicted.append([f"{n:,}", *(f"{1e3 * (sum(of.values()) - of['kernels']):.0f}" for of in parts)])
    measured = []
    for n in sorted({row["workers"] for row in sources["fan_outs"]}):
        found = {row["fan_out"]: row["seconds"] for row in sources["fan_outs"] if row["workers"] == n}
        cells = (f"{1e3 * found[fan_out]:.1f}" if fan_out in found else "" for fan_out in FAN_OUTS)
        measured.append([f"{n:,.0f}", *cells])
    heads = ["workers", *(f"fan-out {fan_out}" for fan_out in FAN_OUTS)]
    return [
        "Predicted milliseconds per tree without kernels, on the network of the predictions:", "",
        *table(heads, predicted, left=0), "",
        "Measured milliseconds per round on this machine, whose cores all workers share, so that it shows the total",
        "work of all processes and not the longest path:", "", *table(heads, measured, left=0),
    ]  # fmt: skip


def check_lines(simulated: Sequence[Mapping[str, float]], dask: Sequence[Mapping[str, float]]) -> list[str]:
    """A paragraph on the errors of the model."""
    errors = np.abs([row["error"] for row in simulated])
    worst = simulated[int(np.argmax(errors))]
    text = (
        f"Over {len(simulated)} settings ({min(row['workers'] for row in simulated):.0f} to "
        f"{max(row['workers'] for row in simulated):,.0f} workers, 0.1 to 10 ms of latency, 1 to 25 Gbit/s) the mean "
        f"error of the model is {errors.mean():.1%} and the largest is {errors.max():.1%} (with {worst['workers']:.0f} "
        f"workers, {1e3 * worst['latency']:g} ms, {worst['gigabits']:g} Gbit/s)."
    )
    of_dask = ", ".join(f"{row['predicted'] / row['measured'] - 1:+.0%}" for row in dask)
    counts = ", ".join(f"{row['workers']:.0f}" for row in dask)
    text += (
        f" Compared with Dask on this machine ({dask[0]['rows']:,.0f} rows, {counts} workers) the errors are {of_dask}."
    )
    return textwrap.wrap(text, 120)


def power(n: float) -> str:
    return f"10^{round(math.log10(n))}"


def prediction_lines(model: Model) -> list[str]:
    """A table of the predicted seconds per tree, and the share of kernels."""
    text = (
        f"Predicted seconds per tree for a network with {1e3 * model.network.latency:g} ms and "
        f"{model.network.rate / GIGABIT:g} Gbit/s and workers with one thread, and the share of kernels at 10^9 rows:"
    )
    heads = ["workers", *(f"{power(rows)} rows" for rows in ROWS), "kernels"]
    cells = []
    for n in (1, 4, 16, 64, 256, 1_000):
        parts = model.tree(n, 10**9)
        share = f"{parts['kernels'] / sum(parts.values()):.0%}"
        cells.append([f"{n:,}", *(f"{model.seconds(n, rows):.3g}" for rows in ROWS), share])
    return [*textwrap.wrap(text, 120), "", *table(heads, cells, left=0)]


def design_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the numbers of workers at which kernels take half of the time, and at which trees are fastest."""
    heads = ["design", *(f"{power(rows)} rows" for rows in ROWS)]
    cells = []
    for row in found:
        points = [row[f"{rows:.0e}"] for rows in ROWS]
        cells.append([row["design"], *(f"{point['half']:,} / {point['best']:,}" for point in points)])
    return table(heads, cells)


def draw(model: Model, path: Path) -> None:
    """Plot the seconds per tree against the number of workers. Lines differ in colour (Okabe and Ito) and marker."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "agbm"
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    styles = zip(ROWS, ("#0072B2", "#E69F00", "#009E73", "#CC79A7"), "osD^", strict=True)
    for n_rows, colour, marker in styles:
        seconds = [model.seconds(n, n_rows) for n in WORKERS]
        label = f"$10^{{{round(math.log10(n_rows))}}}$ rows"
        axes.plot(WORKERS, seconds, color=colour, marker=marker, markersize=4, label=label)
        work = [model.seconds(1, n_rows) / n for n in WORKERS]
        axes.plot(WORKERS, work, color=colour, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="workers with one thread", ylabel="predicted seconds per tree")
    axes.set_ylim(bottom=1e-2)
    axes.grid(alpha=0.3)
    axes.legend(title="dotted: time of one worker / number of workers", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure costs, check the model, and predict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.1, help="latency of the predicted network, in milliseconds")
    parser.add_argument("--gigabits", type=float, default=10.0, help="bandwidth of its machines, in Gbit/s")
    parser.add_argument(
        "--check-rows", type=int, default=2_000_000, help="number of rows of the check against Dask itself"
    )
    parser.add_argument("--quick", action="store_true", help="few rows and workers, to check that everything runs")
    parser.add_argument("--costs", type=Path, help="a scale.json whose costs are used instead of measuring them")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--plot", type=Path, help="file of the plot (default: scale.svg in that folder)")
    parser.add_argument("--document", type=Path, help="document to insert the results into, such as docs/scale.md")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it warns about lost shards when workers leave
    if args.costs is None:
        costs, sources = measured_costs(args.quick)
    else:
        costs, sources = read_costs(args.costs)
    network = Network(args.latency / 1e3, args.gigabits * GIGABIT)
    model = Model(costs, network)
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "machine": machine(), "costs": asdict(costs), "sources": sources,
        "network": asdict(network), "designs": moved_points(costs, network),
        "predicted": {f"{rows:.0e}": {n: model.tree(n, rows) for n in WORKERS} for rows in ROWS},
    }  # fmt: skip
    print("model compared with simulation, nine networks each", flush=True)
    report["simulated"] = simulate(costs, args.quick)
    print("model compared with Dask", flush=True)
    report["dask"] = check_with_dask(costs, 50_000 if args.quick else args.check_rows)
    parts = {
        "costs": cost_lines(costs, sources),
        "checks": check_lines(report["simulated"], report["dask"]),
        "prediction": prediction_lines(model),
    }
    print("\n".join([*fan_out_lines(model, sources), "", *design_lines(report["designs"])]))
    print("\n".join(line for lines in parts.values() for line in ["", *lines]))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "scale.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(model, args.plot or args.out / "scale.svg")
    if args.document is not None:
        fill_in(args.document, parts)
    print(f"\nwrote {args.out / 'scale.json'} and {args.plot or args.out / 'scale.svg'}")


def read_costs(path: Path) -> tuple[Costs, dict[str, Any]]:
    """The costs of an earlier run."""
    stored = json.loads(path.read_text())
    given = stored["costs"]
    questions = tuple(Question(**question) for question in given.pop("questions"))
    return Costs(questions, **given), stored["sources"]


if __name__ == "__main__":
    main()
