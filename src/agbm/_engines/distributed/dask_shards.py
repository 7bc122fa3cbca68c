"""Shards in the memory of Dask workers, and how messages reach them.

Dask runs tasks where the data is and recomputes what a lost worker had. This module decides which partitions go to
which worker, sends messages down a tree of shards, and replaces lost shards.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import distributed

from .dask_workers import RESTARTS, Wait, Workers, shortened
from .messages import Message, Reply, add_up
from .shard import Shard
from .shard_tasks import share_out

FAN_OUT = 4
"""The number of shards to which one process forwards a message and whose replies it adds up; see docs/scale.md."""

SECONDS_BETWEEN_LOOKS = 5.0
"""Time between checks for workers that have joined or left."""

PATIENCE = 5.0
"""Seconds to wait for an answer before checking whether the worker is still alive."""

LONG_WAIT = 30.0
"""Seconds to wait for the replies of a round before a warning names the workers that have not answered."""

LOSSES = 4
"""Losses of a partition with its worker in one round that end a fit, whatever the cause, as for Dask's tasks."""

TRIES = 20
"""How often a message is sent again, with all workers alive, before the error is raised."""


class DaskShard(Shard):
    """A shard as a Dask actor: it stays on its worker, and other processes can call it."""

    _tree_number = 0
    """The number of the tree that `_children` belongs to."""
    _children: Sequence[Any] = ()
    """The shards to which this one forwards messages."""

    async def relay(self, message: Message, tree: int, below: Sequence[Branch] | None = None) -> Reply:
        """The combined reply of this shard and those below it in the tree with a number.

        The branches below it come with the first message of a tree; None means that the shard has them already.
        """
        if below is not None and tree >= self._tree_number:
            self._tree_number, self._children = tree, [shard for shard, _ in below]
        if tree != self._tree_number:
            return Reply(behind=True)
        further = [None] * len(self._children) if below is None else [branches for _, branches in below]
        asked = [shard.relay(message, tree, given) for shard, given in zip(self._children, further, strict=True)]
        reply = await asyncio.to_thread(self.answer, message)
        return add_up([reply, *[await answer for answer in asked]])

    async def finished_round(self) -> int:
        """The last round that this shard has finished. Dask answers this while kernels run."""
        return self._round


Branch = tuple[Any, Sequence["Branch"]]
"""A shard and the branches below it. Messages go down this tree, and sums come up."""


def branches(shards: Sequence[Any]) -> list[Branch]:
    """A tree of shards in which each process sends messages to at most FAN_OUT others."""
    heads = min(FAN_OUT, len(shards))
    groups = [shards[i::heads] for i in range(heads)]
    return [(group[0], branches(group[1:])) for group in groups]


def actors_of(tree: Sequence[Branch]) -> list[Any]:
    """All shards of a tree."""
    return [actor for shard, below in tree for actor in (shard, *actors_of(below))]


@contextmanager
def talking_to_workers(client: distributed.Client) -> Iterator[None]:
    """Let calls of actors go directly to the workers if they can be reached, instead of through the scheduler."""

    async def reach(address: str) -> None:
        await asyncio.wait_for(client.rpc(address).identity(), PATIENCE)

    before = client.direct_to_workers
    try:
        if not before:
            client.sync(reach, next(iter(client.nthreads())))
            client.direct_to_workers = True
    except (OSError, StopIteration):
        pass  # behind a gateway, or no worker yet: the scheduler forwards messages
    try:
        yield
    finally:
        client.direct_to_workers = before


class Held(NamedTuple):
    """A shard and its partitions."""

    worker: str
    """The intended worker; Dask may have chosen another."""
    shard: distributed.Future[Any]
    """Future of the actor."""
    parts: dict[int, Any]
    """Futures of the codes of the partitions, by the number of the partition; None once the shard has them."""


class WorkerLostError(Exception):
    """A shard is lost or cannot be reached."""


LOST_ACTOR = "Worker holding Actor was lost"
"""Dask's message for a shard whose worker is lost."""


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Raise WorkerLostError for the errors that Dask raises for lost workers."""
    try:
        yield
    except (OSError, distributed.CancelledError) as error:
        raise WorkerLostError(str(error)) from error
    except Exception as error:
        if LOST_ACTOR in str(error):
            raise WorkerLostError(str(error)) from error
        raise


class DaskShards:
    """Shards in the memory of Dask workers; see Shards."""

    def __init__(
        self, workers: Workers, rows: Sequence[int], names: Sequence[str], make: Callable[[Sequence[int], str], Held]
    ) -> None:
        """rows, names: of each partition. make(partitions, worker): create the shard of partitions on a worker."""
        self._workers = workers
        self._client = workers.client
        self._rows = rows
        self._names = names
        self._make = make
        self._threads: Mapping[str, int] = {}
        """The number of threads of each worker."""
        self._lost_with: list[list[str]] = [[] for _ in rows]
        """The lost workers that had a partition, by partition."""
        self._losses: Counter[int] = Counter()
        """How often each partition was lost in this round."""
        self._held: list[Held] = []
        self._tree: list[Branch] = []
        self._tree_number = 0
        self._tree_is_known = False
        """Whether all shards have answered a message that brought them the tree."""
        self._looked = 0.0
        self._slow: set[str] = set()
        """The workers that a warning has named."""

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        if time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            self._look()
        tries = 0
        while True:
            try:
                reply = self._send(message)
                if not reply.behind:
                    self._losses.clear()
                    return reply
            except WorkerLostError as error:
                tries += 1
                if not self._look() and tries > TRIES:
                    raise RuntimeError(
                        f"A worker cannot be reached, though Dask has not lost it, {tries} times: {error}. See its log."
                    ) from error
                time.sleep(0.1)
            message = catch_up()

    def close(self) -> None:
        """Free all shards on the workers."""
        self._drop(self._held)
        self._held = []

    def _send(self, message: Message) -> Reply:
        tree, number, began = self._reachable(), self._tree_number, time.monotonic()
        with noticing_loss():
            asked = [shard.relay(message, number, None if self._tree_is_known else below) for shard, below in tree]
            reply = add_up([self._answer(future, message.round, began) for future in asked])
        if reply.error is not None:
            raise reply.error
        self._tree_is_known = not reply.behind
        return reply

    def _answer(self, future: distributed.ActorFuture[Any], round_: int, began: float) -> Reply:
        """Wait for a reply. Dask does not always report that a call was lost with its worker."""
        warned = False
        while True:
            try:
                return cast(Reply, future.result(timeout=PATIENCE))
            except TimeoutError:
                if future.done() or self._lost():
                    raise
                if not warned and time.monotonic() - began > LONG_WAIT:
                    warned = True
                    self._warn_of_slow(round_, began)

    def _warn_of_slow(self, round_: int, began: float) -> None:
        """Name the workers that a round waits for: those that do not respond, or else those that still work on it."""
        finished = self._finished_rounds()
        silent = [worker for worker, last in finished.items() if last is None]
        working = [worker for worker, last in finished.items() if last is not None and last < round_]
        slow = sorted({*(silent or working)} - self._slow)
        if not slow or (not silent and len(working) == len(finished)):  # all still work: the round is simply long
            return
        self._slow.update(slow)
        what = "do not respond; they may be paused or overloaded" if silent else "still work on it, while others wait"
        warnings.warn(
            f"Training has waited {time.monotonic() - began:.0f} s for a round that {len(slow)} of {len(finished)} "
            f"workers have not finished: {', '.join(slow[:5])}{', ...' if len(slow) > 5 else ''}. They {what}. "
            "Training continues when they answer, or without them once Dask has removed them.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _finished_rounds(self) -> dict[str, int | None]:
        """The last round that the shard of each worker has finished; None if it does not respond."""
        holders = self._client.who_has([held.shard for held in self._held])
        asked = {", ".join(holders.get(actor.key, ())): actor.finished_round() for actor in actors_of(self._tree)}
        end = time.monotonic() + PATIENCE

        def answer(future: distributed.ActorFuture[Any]) -> int | None:
            try:
                return cast(int, future.result(timeout=max(0.01, end - time.monotonic())))
            except Exception:  # it is lost, or does not respond
                return None

        return {worker: answer(future) for worker, future in asked.items()}

    def _reachable(self) -> list[Branch]:
        """The tree of all shards; waits until they exist."""
        if not self._tree:
            shards = [held.shard for held in self._held]
            with noticing_loss():
                self._wait_for(shards)
            for held in self._held:
                made = {self._names[i]: part for i, part in held.parts.items() if part is not None}
                self._workers.raise_error_of(made)
            with noticing_loss():
                for held in self._held:
                    self._workers.raise_error_of({shortened([self._names[i] for i in held.parts]): held.shard})
                self._tree = branches(self._client.gather(shards))
            self._tree_number += 1
            self._tree_is_known = False
            self._held = [held._replace(parts=dict.fromkeys(held.parts)) for held in self._held]
        return self._tree

    def _wait_for(self, shards: Sequence[Any]) -> None:
        wait = Wait(self._workers, self._names)
        while True:
            try:
                distributed.wait(shards, timeout=PATIENCE)
                return
            except TimeoutError:  # reading may take a long time
                if self._lost():
                    raise
                pending = [held for held in self._held if not held.shard.done()]
                wait.look([self._names[i] for held in pending for i in held.parts])

    def _lost(self) -> list[Held]:
        """The shards of lost workers."""
        workers = self._client.nthreads()
        holders = self._client.who_has([held.shard for held in self._held])

        def lost(held: Held) -> bool:
            if held.shard.status == "pending":
                return held.worker not in workers
            if held.shard.status == "error":
                return LOST_ACTOR in str(held.shard.exception())
            return not holders.get(held.shard.key)

        return [held for held in self._held if lost(held)]

    def _look(self) -> bool:
        """Check for workers that have joined or left, and reassign partitions; returns whether anything changed."""
        wait = Wait(self._workers, self._names)
        while not (workers := self._client.nthreads()):
            wait.look(self._names)
            time.sleep(0.1)
        lost = self._lost()
        self._looked = time.monotonic()
        self._check_losses(lost)
        if workers == self._threads and not lost:
            return False
        self._threads = workers
        kept = [held for held in self._held if held not in lost]
        at: list[str | None] = [None] * len(self._rows)
        for held in kept:
            for partition in held.parts:
                at[partition] = held.worker
        shares = share_out(self._rows, workers, at)
        stay = [held for held in kept if set(held.parts) <= set(shares.get(held.worker, ()))]
        self._drop([held for held in self._held if held not in stay])
        self._held = stay
        for worker, partitions in shares.items():
            missing = set(partitions) - {partition for held in stay for partition in held.parts}
            if missing:
                self._held.append(self._make(sorted(missing), worker))
        return True

    def _check_losses(self, lost: Sequence[Held]) -> None:
        """Raise an error for partitions whose workers are lost repeatedly, for example because of too little memory."""
        for held in lost:
            for i in held.parts:
                self._lost_with[i].append(held.worker)
                self._losses[i] += 1
        restarts = {restart.worker: restart for restart in self._workers.restarts()}
        of = [[restarts[worker] for worker in workers if worker in restarts] for workers in self._lost_with]
        exceeding = [i for i, found in enumerate(of) if len(found) >= RESTARTS]
        dying = [i for i, n in self._losses.items() if n >= LOSSES]
        for i in exceeding or dying:
            names = [self._names[j] for j in exceeding or dying]
            raise self._workers.lost_with(names, self._lost_with[i][-1], of[i])

    def _drop(self, held: Sequence[Held]) -> None:
        """Cancel shards. Dask's client holds actors in reference cycles, so workers would keep them otherwise."""
        self._tree = []
        self._client.cancel([of.shard for of in held], force=True)
