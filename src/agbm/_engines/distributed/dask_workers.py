"""Waiting for tasks of Dask workers, and the errors for workers that have too little memory for them.

Dask restarts a worker that exceeds its memory limit and runs its tasks again, and pauses one that comes close to the
limit. With too little memory, a fit would take minutes to fail, or wait forever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import distributed
from dask.utils import format_bytes

SECONDS_BETWEEN_LOOKS = 1.0
"""Time between checks of the workers during a wait."""

RESTARTS = 2
"""Restarts because of memory that end a fit. The first one may be due to other work of the worker."""

STANDSTILL = 30.0
"""Seconds in which workers that are paused or lost because of their memory run no task, before an error is raised."""

RESTARTED = "worker-restart-memory"
"""The topic of Dask's events for workers that exceeded their memory limit."""


class Restart(NamedTuple):
    """A worker that was restarted because it exceeded its memory limit."""

    worker: str
    memory: int
    """Memory in use, in bytes."""


class Workers:
    """The workers of a fit."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._earlier = len(client.get_events(RESTARTED))
        self._limits: set[int] = set()
        self.infos()

    def gathered(self, futures: Mapping[str, Any]) -> list[Any]:
        """The results of futures by the names of their partitions; see raise_error_of."""

        async def gather() -> Any:
            return await self.client.gather([*futures.values()], errors="skip", asynchronous=True)

        asked = asyncio.run_coroutine_threadsafe(gather(), self.client.loop.asyncio_loop)
        wait = Wait(self, [*futures])
        try:
            while not concurrent.futures.wait([asked], SECONDS_BETWEEN_LOOKS).done:
                if any(_killed(future) for future in futures.values()):
                    break  # the others may take long, or die as well
                wait.look([name for name, future in futures.items() if not future.done()])
            self.raise_error_of(futures)
            return cast(list[Any], asked.result())
        finally:
            asked.cancel()

    def raise_error_of(self, futures: Mapping[str, Any]) -> None:
        """Raise the first error among futures by the names of their partitions, naming the partition."""
        for name, future in futures.items():
            if future.status not in ("error", "cancelled"):
                continue
            error = future.exception()
            if _killed(future):
                raise self.lost_with([name], error.last_worker.address, self.restarts()) from error
            if "partition " not in str(error):
                error.add_note(f"This was {name}.")
            raise error

    def restarts(self) -> list[Restart]:
        """The workers that were restarted because of their memory since the fit began."""
        events = self.client.get_events(RESTARTED)[self._earlier :]
        return [Restart(event["worker"], event["rss"]) for _, event in events]

    def infos(self) -> dict[str, Any]:
        """What the scheduler knows about each worker."""
        infos: dict[str, Any] = self.client.sync(self.client.scheduler.identity)["workers"]
        self._limits |= {info["memory_limit"] for info in infos.values() if info["memory_limit"]}
        return infos

    def lost_with(self, names: Sequence[str], last: str, restarts: Sequence[Restart]) -> RuntimeError:
        """The error for partitions that workers were lost with; restarts are those because of memory."""
        if not restarts:
            died = f"all workers that got it have died, the last was {last}; its log says why"
            return self.error_of(names, died, "If they ran out of memory: the")
        times = "once" if len(restarts) == 1 else f"{len(restarts)} times"
        used = f"the last, {restarts[-1].worker}, at {format_bytes(restarts[-1].memory)}"
        return self.error_of(names, f"workers exceeded their memory limit and were restarted {times}, {used}")

    def error_of(self, names: Sequence[str], what: str, the: str = "The") -> RuntimeError:
        """The error for partitions that workers have too little memory for."""
        ends = sorted({min(self._limits), max(self._limits)}) if self._limits else []
        limit = " to ".join(map(format_bytes, ends)) or "not set"
        return RuntimeError(
            f"{shortened(names)}: {what}. {the} memory limit of a worker is {limit}; use smaller partitions, fewer "
            "threads per worker, more workers, or workers with more memory."
        )


class Wait:
    """A wait for some partitions, which ends with an error if workers have too little memory for them."""

    def __init__(self, workers: Workers, pending: Sequence[str]) -> None:
        """pending: the names of the partitions."""
        self._workers = workers
        self._fewest = len(pending)
        self._earlier = len(workers.restarts())
        """Restarts before the last partition was finished."""
        self._ran = time.monotonic()
        """The last time at which a task was running, or the lack of tasks was not due to memory."""
        self._warned = False

    def look(self, pending: Sequence[str]) -> None:
        """Check the workers; partitions with these names are still pending."""
        workers, now = self._workers, time.monotonic()
        restarts = workers.restarts()
        if len(pending) < self._fewest:
            self._fewest, self._earlier = len(pending), len(restarts)
        elif len(restarts) >= self._earlier + RESTARTS:
            raise workers.lost_with(pending, restarts[-1].worker, restarts[self._earlier :])
        infos = workers.infos()
        if not infos and not self._warned:
            self._warned = True
            text = "The cluster has no workers: training waits until it has some."
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        reason = _standstill(infos, bool(restarts))
        if reason is None:
            self._ran = now
        elif now - self._ran > STANDSTILL:
            raise workers.error_of(pending, f"no task has run for {STANDSTILL:.0f} s: {reason}")


def _standstill(infos: Mapping[str, Any], restarted: bool) -> str | None:
    """Why no task runs, if memory is the reason."""
    if not infos:
        return "all workers exceeded their memory limit, and none has come back" if restarted else None
    if any(info["metrics"].get("task_counts", {}).get("executing") for info in infos.values()):
        return None
    paused = {worker: info for worker, info in infos.items() if info["status"] == "paused"}
    for worker, info in paused.items():
        used = format_bytes(info["metrics"]["memory"])
        return f"{len(paused)} of {len(infos)} workers are paused, {worker} at {used}"
    return None


def shortened(names: Sequence[str]) -> str:
    """The names of partitions; only the first ones if there are many."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _killed(future: distributed.Future[Any]) -> bool:
    return future.status == "error" and isinstance(future.exception(), distributed.KilledWorker)
