"""The driver's log of orders, and its handles to arrays on the shards."""

from __future__ import annotations

from collections.abc import Iterable

from .messages import START, Message, Order, Reply, Shards

GROWTH = ("set_residuals", "start_tree", "histograms", "noise", "leaf_sums", "tally_leaves")
"""Orders that grow a tree; they no longer matter once it is grown."""


class RemoteFunction:
    """A handle to an array (output, row) that is spread over the shards; dropping the handle frees the array."""

    def __init__(self, name: int, n_outputs: int, log: Log) -> None:
        self.name = name
        self.losses: tuple[float, float] | None = None
        """Training and validation loss, once they have been computed."""
        self._n_outputs = n_outputs
        self._log = log

    def __len__(self) -> int:
        return self._n_outputs

    def __del__(self) -> None:
        self._log.forget(self.name)


class Log:
    """The orders of a run: those that the shards have not received yet, and those that a new shard has to execute."""

    def __init__(self, shards: Shards, n_outputs: int) -> None:
        self._shards = shards
        self._n_outputs = n_outputs
        self._pending: list[Order] = []
        self._made: list[Order] = []  # all orders that created arrays
        self._growth: list[Order] = []
        self._living: set[int] = {START}
        self._names = START
        self._round = 0

    def create(
        self, what: str, inputs: Iterable[RemoteFunction], *arguments: object, n: int = 1
    ) -> list[RemoteFunction]:
        """Order the shards to create n arrays."""
        outputs = tuple(range(self._names + 1, self._names + 1 + n))
        self._names += n
        self._living.update(outputs)
        order = Order(what, tuple(function.name for function in inputs), outputs, arguments)
        if what == "tree":
            self._growth = []
        self._made.append(order)
        self._pending.append(order)
        return [RemoteFunction(name, self._n_outputs, self) for name in outputs]

    def tell(self, what: str, *arguments: object) -> None:
        """Give an order of GROWTH that has no reply."""
        self._growth.append(Order(what, arguments=arguments))
        self._pending.append(self._growth[-1])

    def ask(self, what: str, inputs: Iterable[RemoteFunction], *arguments: object) -> Reply:
        """The combined reply of all shards to an order, after all orders so far."""
        order = Order(what, tuple(function.name for function in inputs), arguments=arguments)
        self._round += 1
        pending, self._pending = self._pending, []  # in one step: arrays may be forgotten at any moment
        message = Message(self._round, [*pending, order])
        if what in GROWTH:
            self._growth.append(order)
        return self._shards.exchange(
            message, lambda: Message(self._round, self._all_that_matters(order), from_scratch=True)
        )

    def forget(self, name: int) -> None:
        """Free an array that is no longer needed."""
        self._living.discard(name)
        self._pending.append(Order("forget", (name,)))

    def _all_that_matters(self, last: Order) -> list[Order]:
        """The orders that create all arrays in use and grow the current tree; each is kept only while it is needed."""
        unfinished = self._growth if last.what in GROWTH else [*self._growth, last]
        needed = self._living | {name for order in unfinished for name in order.inputs}
        wanted: list[Order] = []
        for order in reversed(self._made):
            if needed.isdisjoint(order.outputs):
                continue
            last_use = set(order.inputs) - needed - {START}
            idle = set(order.outputs) - needed
            if last_use or idle:
                wanted.append(Order("forget", tuple(last_use | idle)))
            wanted.append(order)
            needed.update(order.inputs)
        return [*reversed(wanted), *unfinished]
