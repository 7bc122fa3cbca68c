"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows.

Dask does what it is made for: it reads partitions, keeps what its workers have made of them, runs tasks where the data is, and
makes anew what a lost worker had. Here is only what it cannot know: which partitions go together, and what the tasks are.
See cluster.py for what the shards do, and blocks.py for what happens to partitions before.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .cluster import Message, Reply, Shard

FAN_IN = 8
"""Replies that are added up by one task."""

SECONDS_BETWEEN_LOOKS = 5.0
"""At least, from one look for new workers to the next."""


def deliver(shard: Shard, message: Message) -> Reply:
    """A task: one shard's reply."""
    return shard.receive(message)


def add_up(replies: Sequence[Reply]) -> Reply:
    """A task: some replies taken together."""
    return functools.reduce(operator.add, replies)


def share_out(rows: Sequence[int], threads: Mapping[str, int], at: Sequence[str | None]) -> dict[str, tuple[int, ...]]:
    """Which partitions each worker gets: about as many rows for each of its threads as others.

    `at` says where partitions are now. They stay there as far as that is fair.
    """
    fair = {worker: sum(rows) * n / sum(threads.values()) for worker, n in threads.items()}
    load = dict.fromkeys(threads, 0.0)
    shares: dict[str, list[int]] = {worker: [] for worker in threads}

    def give(worker: str, partition: int) -> None:
        shares[worker].append(partition)
        load[worker] += rows[partition]

    homeless = []
    for partition, worker in enumerate(at):
        if worker in shares and load[worker] + rows[partition] / 2 <= fair[worker]:
            give(worker, partition)
        else:
            homeless.append(partition)
    for partition in sorted(homeless, key=lambda p: -rows[p]):
        give(min(threads, key=lambda w: (load[w] + rows[partition]) / threads[w]), partition)
    return {worker: tuple(sorted(partitions)) for worker, partitions in shares.items() if partitions}


class DaskShards:
    """Shards in the memory of Dask's workers, one for each of them."""

    def __init__(self, client: Any, rows: Sequence[int], at: Sequence[str | None], make: Callable[..., Any]) -> None:
        """rows, at: of each partition; make(partitions, worker) gives the future of a shard."""
        self._client = client
        self._rows = rows
        self._make = make
        self._workers = client.nthreads()
        self._looked = time.monotonic()
        shares = share_out(rows, self._workers, at)
        self._shards = {partitions: make(partitions, worker) for worker, partitions in shares.items()}

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """See Shards."""
        self._look_for_workers()
        reply = self._send(message)
        while reply.behind:  # shards that Dask has made anew, or that have moved
            reply = self._send(catch_up())
        return reply

    def _send(self, message: Message) -> Reply:
        client = self._client
        replies = client.map(deliver, list(self._shards.values()), message=message, pure=False)
        while len(replies) > FAN_IN:
            some = [replies[i : i + FAN_IN] for i in range(0, len(replies), FAN_IN)]
            replies = client.map(add_up, some, pure=False)
        return add_up(client.gather(replies))

    def _look_for_workers(self) -> None:
        """Where workers have come or gone, share the partitions out anew."""
        if time.monotonic() - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        workers = self._client.nthreads()
        if workers and workers != self._workers:
            self._move(workers)
        self._workers, self._looked = workers, time.monotonic()

    def _move(self, workers: Mapping[str, int]) -> None:
        holders = self._client.who_has(list(self._shards.values()))
        at: list[str | None] = [None] * len(self._rows)
        for partitions, shard in self._shards.items():
            for partition in partitions:
                at[partition] = next(iter(holders.get(shard.key, ())), None)
        shares = share_out(self._rows, workers, at)
        self._shards = {
            partitions: self._shards.get(partitions) or self._make(partitions, worker)
            for worker, partitions in shares.items()
        }
