"""The progress of fits as events of Dask's scheduler: calls of actors do not show in its task stream."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client

from ..._core.training import Record, Watcher

TOPIC = "agbm"
"""The topic of the events; see Client.get_events and Client.subscribe_topic."""

SECONDS_BETWEEN_EVENTS = 0.2
"""An event takes a message to the scheduler and back, so iterations that are faster are not all logged."""


@contextmanager
def logged_iterations(client: Client) -> Iterator[Watcher]:
    """A callback that logs iterations as events of the scheduler; the last iteration is always logged."""
    last: list[Record] = []
    logged = [0.0]

    def log(record: Record) -> None:
        last[:] = [record]
        if time.monotonic() - logged[0] >= SECONDS_BETWEEN_EVENTS:
            send()

    def send() -> None:
        client.log_event([TOPIC, "all"], event_of(last.pop()))  # the page /events of the dashboard shows "all"
        logged[0] = time.monotonic()

    yield log
    if last:
        send()


def event_of(record: Record) -> dict[str, Any]:
    """The event of an iteration; losses that do not exist are None. The dashboard needs "action"."""

    def known(loss: float) -> float | None:
        return None if math.isnan(loss) else float(loss)

    return {
        "action": TOPIC,
        "iteration": record.iteration,
        "trees": record.trees,
        "train_loss": known(record.train_loss),
        "validation_loss": known(record.validation_loss),
        "seconds": float(record.seconds),
    }
