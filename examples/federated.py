"""Train one model on the rows of three hospitals, without collecting them: sums are masked, and only totals are seen.

python examples/federated.py

Every hospital is a process that loads its own rows. The aggregator grows the trees. It needs sums over all rows
(histograms, losses), and each hospital adds random numbers to its part of every sum, modulo 2^64. Each pair of
hospitals knows the same numbers, which one adds and the other subtracts, so they cancel in the total (secure_sum.py).
All sums of agbm are sums of integers. So the total is exact, and the model has the same bits as that of a fit to all
rows in one place.

This is a demonstration and not a product: docs/federated.md says what the aggregator still learns, and what would be
needed for guarantees. It uses private modules of agbm, which may change; see also examples/on_ray.py.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from agbm import AGBMClassifier
from agbm._base.collectives import Contribution, Outcome, union
from agbm._base.sums import each_added, of_ordered_bits, ordered_bits
from agbm._data.blocks import Block, BlockReader, Blocks, Gathered, Labels, joined, labels_of
from agbm._data.blocks.passes import Look, look
from agbm._data.rows import Given
from agbm._engines.distributed.binding import bound, recipe_of
from agbm._engines.distributed.growth import ClusterFitter
from agbm._engines.distributed.messages import Message, Reply, add_up
from agbm._engines.distributed.objective import ClusterObjective
from agbm._engines.distributed.partition_tasks import Form, advance, agreed, gathered_from, outline_of, pass_over
from agbm._engines.distributed.shard import Shard, as_it_travels
from agbm._engines.distributed.shard_tasks import Recipe, encode_part, make_shard
from agbm._estimators.base import BaseAGBM
from agbm._fit.label_steps import before
from agbm._fit.sources import BlockRows
from agbm._tree import TreeLearner
from secure_sum import Masked, Masks, new_secret, public_key, sum_of

# Parties.


@dataclass(frozen=True)
class Unmasked:
    """Removes the masks of a sum over all parties, before anything else is done with it."""

    n_parties: int
    then: Callable[[Any], Any] | None

    def __call__(self, total: Masked) -> Any:
        """The sum, or what follows from it."""
        value = total.total(self.n_parties)
        return value if self.then is None else self.then(value)


ORDERS = ("public_key", "agree", "outline", "gather", "step", "look", "tally", "hold", "answer")
"""The methods of a party that the aggregator may call."""


class Party:
    """The rows of one party. Its answers contain masked sums, and some numbers as they are (see docs/federated.md)."""

    def __init__(self, X: Any, y: Any) -> None:
        self._block = Block(X, y)
        self._secret: int | None = None
        self._masks: Masks
        self._here: dict[int, Any] = {}
        """The rows without their features after each step; see Labelled."""
        self._columns: list[NDArray[np.uint64]] = []
        """The values of each column in ascending order, as bits."""
        self._shards: dict[int, Shard] = {}

    def public_key(self) -> int:
        """The number that the others combine with their own secrets; a new one for every aggregator."""
        self._secret = new_secret()
        return public_key(self._secret)

    def agree(self, number: int, public_keys: Sequence[int]) -> None:
        """Derive the keys that this party shares with each of the others; once, since masks must not be used twice."""
        if self._secret is None:
            raise ValueError("The keys are agreed on; new ones need new public keys.")
        self._masks, self._secret = Masks(number, self._secret, public_keys), None

    def outline(self) -> Labels:
        """The number of rows, the names of columns, and the type of the labels."""
        return outline_of((labels_of(self._block), None))[0]  # type: ignore[arg-type]

    def gather(self, form: Form) -> None:
        """Keep the labels in the type that those of all parties have."""
        self._here = {0: gathered_from((labels_of(self._block), None), form)}

    def step(
        self, start: int, end: int, own: tuple[Any, ...], shared: tuple[Any, ...], known: tuple[Any, ...]
    ) -> Outcome:
        """A step for the labels, as far as it gets; start and end are the numbers of the rows before and after it."""
        self._here[end], outcome = advance(self._here[start], own, shared, known)
        contribution = outcome.contribution
        return outcome if contribution is None else Outcome(contribution=self._masked(contribution))

    def _masked(self, contribution: Contribution) -> Contribution:
        value, merge, finish = contribution
        if merge in (min, max, union):
            return contribution
        if merge != (each_added if isinstance(value, list) else add):
            raise ValueError(f"A contribution of type {type(value).__name__} is not a sum, and would be sent as it is.")
        return Contribution(self._masks.hide(value), add, Unmasked(self._masks.n_parties, finish))

    def look(self, state: int, own: tuple[Any, ...], shared: tuple[Any, ...]) -> Look:
        """Keep the values of all columns for `tally`; the aggregator gets none of them."""
        found: Look = pass_over(self._block, self._here[state], own, shared)
        if found.sums:
            raise ValueError(f"Columns {sorted(found.sums)} of X are categorical; federated fits need numbers.")
        if found.weights is not None:
            raise ValueError("class_weight gives rows weights, which would be sent as they are; use class_weight=None.")
        values = found.sample.astype(np.float64)
        self._columns = [np.sort(ordered_bits(column[~np.isnan(column)])) for column in values.T]
        return found._replace(sample=found.sample[:0])

    def tally(self, known: Sequence[NDArray[np.uint64]], shift: int) -> Masked:
        """For each column and the known first bits of its values, how many values continue in each way."""
        counts = []
        for of_column, values in zip(known, self._columns, strict=True):
            bits, following = values >> np.uint64(shift), continued(of_column)
            counts.append(np.searchsorted(bits, following, "right") - np.searchsorted(bits, following, "left"))
        return self._masks.hide(np.concatenate(counts))

    def hold(self, key: int, state: int, recipe: Recipe, reader: BlockReader, first: int) -> None:
        """Make the shard of an objective."""
        part = encode_part(self._block, self._here[state], reader, first, None, 1)
        self._shards[key] = make_shard(Shard, recipe, [part], 1)

    def answer(self, key: int, message: Message) -> Reply:
        """The reply of a shard: sums, masked, and maxima as they are."""
        reply = self._shards[key].receive(message)
        return reply._replace(sums=tuple(self._masks.hide(of) for of in reply.sums))


BITS = 4
"""Bits of values that one `tally` determines."""


def continued(known: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """All numbers that continue with BITS more bits."""
    digits = np.arange(2**BITS, dtype=np.uint64)
    return np.asarray((known[:, np.newaxis] << np.uint64(BITS) | digits).ravel())


# Processes.


class Failed(NamedTuple):
    """The error of a party."""

    error: Exception


class PartyLostError(RuntimeError):
    """A party has left."""


def serve(connection: Any, load: Callable[[], tuple[Any, Any]]) -> None:
    """The process of a party: load its rows and answer until the aggregator hangs up."""
    party = Party(*load())
    while True:
        try:
            what, arguments = connection.recv()
        except EOFError:
            return
        connection.send(answer_of(party, what, arguments))


def answer_of(party: Party, what: str, arguments: Sequence[Any]) -> Any:
    """What a party answers to an order."""
    try:
        if what not in ORDERS:
            raise ValueError(f"{what!r} is not an order; parties answer {', '.join(ORDERS)}.")
        return getattr(party, what)(*arguments)
    except Exception as error:
        return Failed(as_it_travels(error))


class RemoteParty:
    """A party in a process of its own. The rows are loaded there, by the function `load`, which returns X and y."""

    def __init__(self, name: str, load: Callable[[], tuple[Any, Any]]) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, load), name=name, daemon=True)
        self.process.start()
        theirs.close()

    def send(self, what: str, *arguments: Any) -> None:
        """Send an order."""
        self._connection.send((what, arguments))

    def receive(self) -> Any:
        """The answer to the order."""
        return self._connection.recv()

    def close(self) -> None:
        """Hang up, which ends the process."""
        self._connection.close()
        self.process.join()


# The aggregator.


class Aggregator:
    """Sends orders to all parties and adds up what they answer. It has no rows and no keys."""

    def __init__(self, parties: Sequence[Any]) -> None:
        """parties: objects such as RemoteParty."""
        if len(parties) < 2:
            raise ValueError(f"{len(parties)} parties: masks need at least two, and hide little from one of only two.")
        self.parties = parties
        self.n_replies = 0
        self.watchers: list[Callable[[str, Sequence[Any]], None]] = []
        """Functions that see each order and the answers of all parties."""
        self._one_at_a_time = threading.Lock()
        keys = self.ask("public_key")
        self.ask("agree", each=[(i, keys) for i in range(len(parties))])

    def ask(self, what: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """The answers of all parties to an order with arguments, which follow those that each has of its own."""
        own = [()] * len(self.parties) if each is None else each
        with self._one_at_a_time:  # all parties get all orders in the same sequence, so the numbers of masks agree
            for party, of_party in zip(self.parties, own, strict=True):
                self._to(party, party.send, what, *of_party, *arguments)
            replies = [self._to(party, party.receive) for party in self.parties]
            self.n_replies += len(replies)
        for reply in replies:
            if isinstance(reply, Failed):
                raise reply.error
        for watcher in self.watchers:
            watcher(what, replies)
        return replies

    def total_of(self, what: str, *arguments: Any) -> Any:
        """The sum of the answers of all parties, which are masked."""
        return sum_of(self.ask(what, *arguments))

    def _to(self, party: Any, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except (EOFError, ConnectionError) as error:
            raise PartyLostError(
                f"{party.name} has left. The masks that the others share with it no longer cancel, so its sums are "
                "lost and training cannot go on: start again without it, or when it is back (docs/federated.md)."
            ) from error


class FederatedBlocks:
    """The blocks of the parties, which nobody else can read; see Blocks."""

    noun = "party"

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        raise ValueError("Columns of X have numbers at some parties only; all parties need the same types of columns.")


class FederatedLabelled:
    """Labels that stay with the parties; see Labelled."""

    def __init__(self, aggregator: Aggregator, n_rows: list[int], state: int, states: Any) -> None:
        """state: the number of the rows at the parties after the steps so far. states: an iterator of new numbers."""
        self.blocks: Blocks = FederatedBlocks()
        self.n_rows = n_rows
        self.numbers = range(len(n_rows))
        self.state = state
        self._states = states
        self._aggregator = aggregator

    def step(self, function: Callable[..., Any], *arguments: Any, each: Sequence[Any] | None = None) -> Any:
        """See Labelled. What a step finds is sent as it is: numbers of rows, and what is known about all rows."""
        end = next(self._states)
        own = [(self.state, end, () if each is None else (each[i],)) for i in self.numbers]

        def advanced(known: tuple[Any, ...]) -> list[Outcome]:
            return self._aggregator.ask("step", (function, arguments), known, each=own)

        _, found = agreed(advanced)
        return FederatedLabelled(self._aggregator, self.n_rows, end, self._states), found

    def over(
        self, function: Callable[..., Any], arguments_of: Callable[..., Sequence[tuple[Any, ...]]], *common: Any,
        each: Sequence[Any] | None = None,
    ) -> list[Look]:  # fmt: skip
        """See Labelled. Only the pass that thresholds are computed from is possible."""
        if function is not look:
            raise ValueError("X must have numbers only: anything else about its columns would be sent as it is.")
        own = [(self.state, () if each is None else (each[i],)) for i in self.numbers]
        looks: list[Look] = self._aggregator.ask("look", (function, arguments_of, common), each=own)
        return [looks[0]._replace(sample=self._values(looks[0].sample.shape[1])), *looks[1:]]

    def _values(self, n_columns: int) -> NDArray[np.float64]:
        """The values of each column at all parties, in ascending order, bit by bit from how many begin in which way."""
        known = [np.zeros(1, dtype=np.uint64)] * n_columns
        counts: list[NDArray[np.int64]] = []
        for shift in range(64 - BITS, -1, -BITS):
            ends = np.cumsum([len(of_column) << BITS for of_column in known])
            counts = np.split(self._aggregator.total_of("tally", known, shift), ends[:-1])
            known = [continued(bits)[n > 0] for bits, n in zip(known, counts, strict=True)]
        columns = [np.repeat(of_ordered_bits(bits), n[n > 0]) for bits, n in zip(known, counts, strict=True)]
        table = np.full((max(map(len, columns)), n_columns), np.nan)
        for f, column in enumerate(columns):
            table[: len(column), f] = column
        return table


class FederatedShards:
    """The shards of an objective, one per party; see Shards."""

    def __init__(self, key: int, aggregator: Aggregator) -> None:
        self._key = key
        self._aggregator = aggregator

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """See Shards."""
        replies = self._aggregator.ask("answer", self._key, message)
        reply = add_up(replies)
        return reply._replace(sums=tuple(of.total(len(replies)) for of in reply.sums))


class FederatedRows:
    """Rows at the parties; see RowSource."""

    in_this_process = False
    shows_rows = False

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._n_objectives = 0

    def blocks_of(self, given: Given) -> tuple[Blocks, Given] | None:
        """See RowSource."""
        return FederatedBlocks(), Given(None, None)

    def labelled(self, blocks: Blocks, given: Given, name_of_y: str = "y") -> tuple[Gathered, Any]:
        """See RowSource."""
        outlines = self._aggregator.ask("outline")
        for party, labels in zip(self._aggregator.parties, outlines, strict=True):
            if labels.n_rows == 0:
                raise ValueError(f"{party.name} has no rows; fit without it.")
        outline = joined(blocks.noun, outlines, name_of_y)
        self._aggregator.ask("gather", Form.of(outline))
        return outline, FederatedLabelled(self._aggregator, outline.n_rows, 0, iter(range(1, 2**31)))

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[ClusterObjective, ClusterFitter]:
        """See RowSource."""
        if rows.plan.held_out:
            raise ValueError(
                "early_stopping holds out rows, and the model would contain a number for each of them; use "
                "early_stopping=False and n_members=1 in federated fits."
            )
        self._n_objectives += 1
        state, recipe = rows.table.labelled.state, recipe_of(rows)  # type: ignore[attr-defined]
        own = [(self._n_objectives, state, recipe, rows.reader, first) for first in before(rows.table.n_train)]
        self._aggregator.ask("hold", each=own)
        return bound(rows, learner, FederatedShards(self._n_objectives, self._aggregator))


def fit(model: BaseAGBM, aggregator: Aggregator) -> BaseAGBM:
    """Fit a model to the rows of all parties; it is that of model.fit with all rows in the order of the parties."""
    return model._fit(Given(aggregator, None, None, None), Given(None, None), None, FederatedRows(aggregator))


# The demonstration.

CUTS = [0, 120, 300, 569]


def patients() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Measurements of tumours, rounded to two digits: the fewer values, the less thresholds tell about a patient."""
    X, y = load_breast_cancer(return_X_y=True)
    return np.array([[float(f"{value:.2g}") for value in row] for row in X]), y


def hospital(number: int) -> tuple[Any, Any]:
    """The rows of one hospital."""
    X, y = patients()
    return X[CUTS[number] : CUTS[number + 1]], y[CUTS[number] : CUTS[number + 1]]


def main() -> None:
    """Fit on three hospitals, show what the aggregator saw, and compare the model with that of a pooled fit."""
    settings: dict[str, Any] = {"max_iter": 30, "n_members": 1, "early_stopping": False}
    hospitals = [RemoteParty(f"hospital {i + 1}", partial(hospital, i)) for i in range(3)]
    aggregator = Aggregator(hospitals)
    histograms: list[Sequence[Any]] = []

    def watch(what: str, replies: Sequence[Any]) -> None:
        if what == "answer" and not histograms and replies[0].sums[0].numbers.size > 1000:
            histograms.append([reply.sums[0] for reply in replies])

    aggregator.watchers.append(watch)
    federated = fit(AGBMClassifier(**settings), aggregator)
    for party in hospitals:
        party.close()

    print(f"{aggregator.n_replies} replies of 3 hospitals; one cell of the first histogram:")
    total = sum_of(histograms[0]).ravel()
    cell = int(np.argmax(total != 0))
    for party, masked in zip(hospitals, histograms[0], strict=True):
        print(f"  {party.name} sent {masked.numbers[cell]:>20}")
    print(f"  sum modulo 2^64 {total[cell]:>20}")

    X, y = patients()
    pooled = AGBMClassifier(**settings).fit(X, y)
    print(f"{federated.n_trees_} trees; models equal: {federated.fingerprint_ == pooled.fingerprint_}")


if __name__ == "__main__":
    main()
