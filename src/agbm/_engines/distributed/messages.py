"""What the driver and the shards send each other: orders, messages and replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

START = 0
"""The name of the start function."""


class Order(NamedTuple):
    """An operation for every shard. Arrays have numbers as names."""

    what: str
    """The method of Shard, without its underscore."""
    inputs: tuple[int, ...] = ()
    """Names of the arrays that it reads."""
    outputs: tuple[int, ...] = ()
    """Names of the arrays that it creates."""
    arguments: tuple[Any, ...] = ()


class Message(NamedTuple):
    """The orders up to and including a round. The reply is that of the last order."""

    round: int
    orders: Sequence[Order]
    from_scratch: bool = False
    """Whether these are all orders that still matter since the start, instead of those since the previous round."""


class Reply(NamedTuple):
    """The combined reply of one or more shards."""

    sums: tuple[Any, ...] = ()
    largest: NDArray[np.float64] | None = None
    behind: bool = False
    """Whether a shard has missed a round, or does not know where to forward messages."""
    error: Exception | None = None
    """The error of a shard."""


def add_up(replies: Sequence[Reply]) -> Reply:
    """The combined reply of several shards."""
    return reduce(_sum_of, replies)


def _sum_of(a: Reply, b: Reply) -> Reply:
    if a.error is not None or b.error is not None:
        return Reply(error=a.error or b.error)
    if a.behind or b.behind:
        return Reply(behind=True)
    largest = a.largest
    if largest is not None and b.largest is not None:
        largest = np.maximum(largest, b.largest)
    return Reply(tuple(x + y for x, y in zip(a.sums, b.sums, strict=True)), largest)


class Shards(Protocol):
    """All shards of an objective."""

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """Send a message to every shard and return the combined reply.

        Shards that are behind get the message that `catch_up` returns, which brings them to the same round.
        """
