"""How training on Dask scales: a model of the time per tree, built from measured costs and checked against simulations.

1. Costs are measured on this machine: kernels per row and thread, the split search of the driver, and Dask's costs per
   call, round and byte. Dask's costs come from rounds of the real code with almost no rows.
2. The model (`Model.round`) adds them up for any number of workers and rows, latency and bandwidth.
3. The model is checked twice. First against the real code on up to 1,000 shards in this process with a simulated
   network: kernels, additions and split searches run and are timed, and `Replay` computes when messages arrive. Second
   against Dask itself with one and two workers.
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
import pickle
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import distributed
from agbm._core import boosting
from agbm._core.objective import LocalObjective, of_each_output
from agbm._core.sums import ExactSum
from agbm._distributed.dask_shards import FAN_OUT, DaskShard, DaskShards, Held, branches
from agbm._distributed.growth import ClusterFitter
from agbm._distributed.log import Log
from agbm._distributed.messages import Message, Reply, add_up
from agbm._distributed.objective import ClusterObjective, Facts
from agbm._distributed.shard import Shard
from agbm._tree import TreeLearner
from agbm._tree.bins import Bins
from agbm.losses import LogLoss
from dask_speed import DEPTH, FEATURES, bytes_of, cluster, kind_of, make_rows, steady, timed_rounds
from document import fill_in, table
from measure import machine
from peers import BINS, RATE

MANY_ROWS = 2**21
"""Number of rows that is reported to the driver even if there are fewer: from 2^20 rows on, a histogram cell has three
integers."""
LEFT_OUT = 2
"""Number of trees before the measured ones."""


# Shards and the trees that are grown on them, without estimators.


def make_shard(seed: int, n_rows: int, first: int, bins: Bins) -> DaskShard:
    """Create a shard with random rows, as dask_tasks.make_shard does from partitions."""
    X, y = make_rows(seed, n_rows)
    codes = bins.encode(X[:, : bins.n_features], 1).columns()
    start = np.zeros((1, n_rows))
    problem = LocalObjective(of_each_output(LogLoss()), y[np.newaxis], n_rows, start, None, True, 1)
    return DaskShard(problem, bins, [codes], [(first, n_rows)], 1)


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


def levels(n_shards: int, fan_out: int) -> list[tuple[int, int]]:
    """The longest path down the tree: per level, the number of shards called and the size of the subtree of each."""
    found = []
    while n_shards > 0:
        called = min(fan_out, n_shards)
        found.append((called, math.ceil(n_shards / called)))
        n_shards = found[-1][1] - 1
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
    byte: float
    """Time to pack, copy and unpack a byte between two processes, in addition to the network."""
    byte_by_scheduler: float
    """The same from a worker to the driver via the scheduler, which Dask's client uses for actors by default."""
    add: float
    """Time to add a byte of a reply to another one."""
    address: float
    """Time to pack the address of a shard that a message is forwarded to."""
    address_bytes: float


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


def addition_cost(rounds: Sequence[Traced]) -> float:
    """Seconds to add a byte, from the large replies of FAN_OUT shards."""
    large = [r for r in rounds if r.nodes >= 4]
    return sum(r.last_addition for r in large) / sum(r.reply_bytes * (FAN_OUT - 1) for r in large)


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


def call_costs(worker_counts: Sequence[int], trees: int) -> list[dict[str, float]]:
    """Wall time and CPU time of this process per round, for shards with almost no work and small replies."""
    bins, found = make_bins(2), []
    for n_workers in worker_counts:
        with workers_elsewhere(n_workers) as client:
            rows = [500] * n_workers

            def make(partitions: Sequence[int], worker: str, client: Any = client) -> Held:
                first = partitions[0]
                place = {"workers": [worker], "actor": True, "pure": False}
                shard = client.submit(make_shard, first + 1, 500, 500 * first, bins, **place)
                return Held(worker, shard, dict.fromkeys(partitions, shard))

            clocks: list[tuple[float, float]] = []
            shards = DaskShards(client, rows, make)
            send = shards._send

            def timed(message: Message, send: Any = send, clocks: Any = clocks) -> Reply:
                began = time.perf_counter(), time.process_time()
                reply: Reply = send(message)
                clocks.append((time.perf_counter() - began[0], time.process_time() - began[1]))
                return reply

            shards._send = timed  # type: ignore[method-assign]
            grow(shards, bins, sum(rows), trees)
            wall, processor = np.median(np.array(clocks[len(clocks) // 3 :]), axis=0)
            processor -= wall * idle_share()  # the heartbeats of workers
            size = len(pickle.dumps(shards._tree, 5)) / n_workers
            row = {"workers": n_workers, "seconds": wall, "processor": processor, "address_bytes": size}
            found.append({name: float(value) for name, value in row.items()})
            print(
                f"  {n_workers} workers: {1e3 * wall:.2f} ms per round, {1e3 * processor:.2f} ms of CPU",
                flush=True,
            )
    return found


def idle_share(seconds: float = 1.0) -> float:
    """The share of a processor that this process uses while it is idle."""
    began = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - began) / seconds


def cost_per_call(found: Sequence[dict[str, float]]) -> float:
    """The slope of a line fitted to the CPU time of this process, for numbers of workers that it calls directly."""
    rows = [row for row in found if row["workers"] <= FAN_OUT]
    slope, _ = np.polyfit([row["workers"] for row in rows], [row["processor"] for row in rows], 1)
    return max(0.0, float(slope))


def cost_per_address(found: Sequence[dict[str, float]]) -> float:
    """The slope of the same line for more workers, for which this process only forwards addresses."""
    rows = [row for row in found if row["workers"] >= FAN_OUT]
    slope, _ = np.polyfit([row["workers"] for row in rows], [row["processor"] for row in rows], 1)
    return max(0.0, float(slope))


def byte_costs(call: float, direct: bool) -> tuple[float, float]:
    """Seconds of a round of two workers in addition to its calls, and seconds per byte of a reply."""
    from dask_speed import TINY_ROWS, OnDask, collection

    with cluster(2, direct) as client:
        tiny = collection(client, TINY_ROWS, 2)
        with timed_rounds(client) as rounds:
            OnDask("gbm").fit(*tiny, 40)
    on_the_way = [(round_.reply_bytes, round_.seconds - round_.kernels) for round_ in steady(rounds, 10)]
    fixed = float(np.median([seconds for size, seconds in on_the_way if size < 10_000]))
    slopes = [(seconds - fixed) / size for size, seconds in on_the_way if size > 400_000]
    return max(0.0, fixed - 2 * call), max(0.0, float(np.median(slopes))) / 2


def measured_costs(quick: bool) -> tuple[Costs, dict[str, Any]]:
    """Measure all costs; also return the measurements that they were computed from."""
    n_few, n_many = 16_000, 100_000 if quick else 1_000_000
    print("kernels", flush=True)
    few, many = trace(1, n_few, 3 if quick else 10), trace(1, n_many, 3 if quick else 6)
    questions = questions_of(few, many, n_few, n_many)
    add = addition_cost(trace(FAN_OUT, 4_000, 4))
    print("calls", flush=True)
    counts = (1, 2, 4, 8, 16) if quick else (1, 2, 4, 6, 8, 16, 32, 64)
    calls = call_costs(counts, 4 if quick else 10)
    call = cost_per_call(calls)
    print("bytes", flush=True)
    (fixed, by_scheduler), (_, byte) = byte_costs(call, direct=False), byte_costs(call, direct=True)
    costs = Costs(
        questions, call, fixed, byte, by_scheduler, add, cost_per_address(calls), calls[-1]["address_bytes"]
    )  # fmt: skip
    return costs, {"calls": calls, "rows": [n_few, n_many]}


# The model.


@dataclass(frozen=True)
class Network:
    """A network: latency of a message in seconds, and bandwidth of every machine in bytes per second."""

    latency: float
    rate: float

    def way(self, costs: Costs, by_scheduler: bool) -> tuple[float, float]:
        """Seconds from one process to another: per message, and per byte."""
        if by_scheduler:
            return 2 * self.latency, 2 / self.rate + costs.byte_by_scheduler
        return self.latency, 1 / self.rate + costs.byte


@dataclass(frozen=True)
class Design:
    """The current design, or a change of it."""

    fan_out: int = FAN_OUT
    bytes_kept: float = 1.0
    """Size of replies, relative to the current one."""
    call_kept: float = 1.0
    """Cost of a call, relative to the current one."""
    direct: bool = False
    """Whether the driver talks to workers directly instead of via the scheduler."""
    without: tuple[str, ...] = ()
    """Kinds of rounds that are merged into other rounds."""
    knows_tree: bool = False
    """Whether workers remember where to forward messages, so that messages need no addresses."""
    threads: int = 1
    """Threads per worker; kernels are assumed to scale linearly."""
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
        costs, network, design = self.costs, self.network, self.design
        call, reply = costs.call * design.call_kept, question.reply_bytes * design.bytes_kept
        parts = dict.fromkeys(PARTS, 0.0)
        parts["kernels"] = question.fixed + question.per_row * n_rows / (n_workers * design.threads)
        parts["calls"] = costs.round
        parts["driver"] = question.driver / (n_workers if design.scattered else 1)
        for level, (called, shards_each) in enumerate(levels(n_workers, design.fan_out)):
            latency, per_byte = network.way(costs, level == 0 and not design.direct)
            parts["calls"] += called * call
            parts["latency"] += 2 * latency
            addresses = 0 if design.knows_tree else shards_each - 1
            size = question.message_bytes + costs.address_bytes * addresses
            parts["messages"] += called * (size * per_byte + addresses * costs.address)
            if not design.scattered:
                parts["replies"] += called * reply * per_byte
                parts["additions"] += (called if level > 0 else called - 1) * reply * costs.add
        if design.scattered:  # recursive halving: halves are exchanged with one worker, then quarters, ...
            latency, per_byte = network.way(costs, False)
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
            received = self._received(round_, below, asked, False, finished)
            return float(max(asked + round_.kernels[number], received) + round_.additions[number])

        received = self._received(round_, tree, self._costs.round, True, finished)
        return received + round_.last_addition + round_.driver

    def _received(
        self, round_: Traced, below: Tree, now: float, by_scheduler: bool, finished: Callable[..., float]
    ) -> float:
        """The time at which all replies of the children have been received."""
        latency, per_byte = self._network.way(self._costs, by_scheduler)
        ready = []
        for number, further in below:
            addresses = size_of(further)
            size = round_.message_bytes + self._costs.address_bytes * addresses
            now += self._costs.call + addresses * self._costs.address + size * per_byte
            ready.append(finished(number, further, now + latency) + latency)
        for arrival in sorted(ready):
            now = max(now, arrival) + round_.reply_bytes * per_byte
        return now


def size_of(tree: Tree) -> int:
    """Number of shards in a tree."""
    return sum(1 + size_of(below) for _, below in tree)


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
    from dask_speed import OnDask, collection

    found = []
    for n_workers in (1, 2):
        with cluster(n_workers) as client:
            X, y = collection(client, n_rows, 8)
            with timed_rounds(client) as rounds:
                OnDask("gbm").fit(X, y, 15)
        starts = [round_.began for round_ in rounds if round_.kind == "set_residuals"]
        measured = float(np.median(np.diff(starts[LEFT_OUT:])))
        predicted = Model(costs, Network(0.0, math.inf)).seconds(n_workers, n_rows)
        found.append({"workers": n_workers, "rows": n_rows, "measured": measured, "predicted": predicted})
    return found


# Results.

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)
ROWS = (10**7, 10**8, 10**9, 10**10)

DESIGNS = {
    "current design": Design(),
    "16 threads per worker": Design(threads=16),
    "the driver talks to workers directly": Design(direct=True),
    "workers remember the forwarding list": Design(knows_tree=True),
    "both": Design(direct=True, knows_tree=True),
    "both, fan-out 2": Design(direct=True, knows_tree=True, fan_out=2),
    "fan-out 2": Design(fan_out=2),
    "fan-out 4": Design(fan_out=4),
    "fan-out 32": Design(fan_out=32),
    "half the bytes": Design(bytes_kept=0.5),
    "set_residuals and measure merged into other rounds": Design(without=("set_residuals", "measure")),
    "call cost reduced to 10 %": Design(call_kept=0.1),
    "both, split search distributed over features": Design(scattered=True, direct=True, knows_tree=True),
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
    """A paragraph and tables on the measured costs."""
    per_row = sum(q.per_row for q in costs.questions)
    text = (
        f"Per tree, a row takes {1e9 * per_row:.0f} ns on one thread ({1 / per_row / 1e6:.1f} million rows per "
        f"second). A call takes the caller {1e3 * costs.call:.2f} ms, and a round {1e3 * costs.round:.1f} ms in "
        f"addition to its "
        f"calls. A byte takes {1e9 * costs.byte:.2f} ns from one process to another "
        f"({1e9 * costs.byte_by_scheduler:.2f} from a worker to the driver via the scheduler), in addition to the "
        f"network, and {1e9 * costs.add:.2f} ns to be added. A message has {costs.address_bytes:.0f} bytes for each "
        f"shard that it is forwarded to, which take {1e3 * costs.address:.3f} ms."
    )
    heads = ["round", "nodes", "reply, kB", "message, kB", "shard without rows, ms", "ns per row", "driver, ms"]
    cells = [
        [
            q.kind, str(q.nodes or ""), f"{q.reply_bytes / 1e3:.1f}", f"{q.message_bytes / 1e3:.1f}",
            f"{1e3 * q.fixed:.2f}", f"{1e9 * q.per_row:.2f}", f"{1e3 * q.driver:.2f}",
        ]
        for q in costs.questions
    ]  # fmt: skip
    calls = [
        [f"{row['workers']:.0f}", f"{1e3 * row['seconds']:.1f}", f"{1e3 * row['processor']:.1f}"]
        for row in sources["calls"]
    ]
    call_heads = ["workers", "ms per round", "processor time of driver and scheduler, ms"]
    return [*textwrap.wrap(text, 120), "", *table(heads, cells), "", *table(call_heads, calls, left=0)]


def check_lines(simulated: Sequence[Mapping[str, float]], dask: Sequence[Mapping[str, float]]) -> list[str]:
    """A paragraph and a table on the errors of the model."""
    errors = np.abs([row["error"] for row in simulated])
    worst = simulated[int(np.argmax(errors))]
    text = (
        f"Over {len(simulated)} settings ({min(row['workers'] for row in simulated):.0f} to "
        f"{max(row['workers'] for row in simulated):,.0f} workers, 0.1 to 10 ms of latency, 1 to 25 Gbit/s) the mean "
        f"error of the model is {errors.mean():.1%} and the largest is {errors.max():.1%} (with {worst['workers']:.0f} "
        f"workers, {1e3 * worst['latency']:g} ms, {worst['gigabits']:g} Gbit/s)."
    )
    heads = ["workers", "rows", "Dask, ms per tree", "model, ms per tree", "error"]
    cells = [
        [
            f"{row['workers']:.0f}", f"{row['rows']:,.0f}", f"{1e3 * row['measured']:.0f}",
            f"{1e3 * row['predicted']:.0f}", f"{row['predicted'] / row['measured'] - 1:+.0%}",
        ]
        for row in dask
    ]  # fmt: skip
    return [*textwrap.wrap(text, 120), "", *table(heads, cells, left=0)]


def power(n: float) -> str:
    return f"10^{round(math.log10(n))}"


def prediction_lines(model: Model) -> list[str]:
    """A table of the predicted seconds per tree, and their composition."""
    text = (
        f"Predicted seconds per tree for a network with {1e3 * model.network.latency:g} ms and "
        f"{model.network.rate / GIGABIT:g} Gbit/s and workers with one thread; the last columns show their composition "
        "at 10^9 rows:"
    )
    heads = ["workers", *(f"{power(rows)} rows" for rows in ROWS), *PARTS]
    cells = []
    for n in WORKERS:
        parts = model.tree(n, 10**9)
        shares = [f"{parts[part] / sum(parts.values()):.0%}" for part in PARTS]
        cells.append([f"{n:,}", *(f"{model.seconds(n, rows):.3g}" for rows in ROWS), *shares])
    return [*textwrap.wrap(text, 120), "", *table(heads, cells, left=0)]


def design_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the points at which strong scaling stops, for each design."""
    heads = [
        "design",
        *(f"{power(rows)} rows: half" for rows in ROWS),
        *(f"{power(rows)} rows: fastest" for rows in ROWS),
    ]
    cells = []
    for row in found:
        points = [row[f"{rows:.0e}"] for rows in ROWS]
        fastest = [f"{point['best']:,}: {point['seconds']:.2g} s" for point in points]
        cells.append([row["design"], *(f"{point['half']:,}" for point in points), *fastest])
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
        "designs": design_lines(report["designs"]),
    }
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
