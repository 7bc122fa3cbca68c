"""A problem whose rows are in shards, in other processes: names in the place of arrays, orders in the place of calls.

The algorithms (boosting.py) run in one process, the driver, as they do on one machine. What they do with functions goes
to the shards as orders, and every shard does the same with its own rows; what they want to know (losses, angles,
histograms) is a sum of what the shards know. All of these sums are exact, so it does not matter how the rows are cut
into shards.

A shard holds nothing that its source and the orders so far do not determine. One that is lost is made anew from its
source and follows the orders that still matter: the trees so far, and what of them f, g, h, r and c were made of.

How messages reach the shards is not known here: see dask.py.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._core.learners import DivergedError, Fit, Model, Newton
from .._core.losses import Array, Quantile, enough
from .._core.objective import LocalObjective
from .._core.sums import ExactSum, of_ordered_bits, whole_weights
from .._core.theory import cosine
from .._tree import Forest
from .._tree.bins import Bins
from .._tree.learner import FIRST, RowLots, Sample, TreeLearner, TreesOfIterations, as_forest, by_function, weighted

START = 0
"""The name of the start function."""

LEAF_TALLY_BITS = 8
"""Of the quantiles of leaves that are settled in a round; a message has two to this power numbers for each leaf."""


class Order(NamedTuple):
    """Something that every shard is to do."""

    what: str
    needs: tuple[int, ...] = ()
    """Names of the arrays that it is done with."""
    gives: tuple[int, ...] = ()
    """Names of those that come of it."""
    given: tuple[Any, ...] = ()


class Message(NamedTuple):
    """Orders up to and with a round; the last one may be answered."""

    round: int
    orders: Sequence[Order]
    anew: bool = False
    """Whether these are all orders since the start that still matter, and not only those since the last round."""


class Reply(NamedTuple):
    """What shards have answered, taken together."""

    sums: tuple[Any, ...] = ()
    largest: NDArray[np.float64] | None = None
    behind: bool = False
    """Whether a shard has not seen the round before."""
    error: Exception | None = None
    """What a shard could not do."""

    def __add__(self, other: Reply) -> Reply:  # type: ignore[override]
        if self.error is not None or other.error is not None:
            return Reply(error=self.error or other.error)
        if self.behind or other.behind:
            return Reply(behind=True)
        largest = self.largest
        if largest is not None and other.largest is not None:
            largest = np.maximum(largest, other.largest)
        return Reply(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)), largest)


class Shards(Protocol):
    """All shards of a problem."""

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """Send a message to every shard, and to those that are behind what brings them to the same round."""


class Shard:
    """Some of the rows, and what the algorithm has made of them."""

    def __init__(
        self,
        objective: LocalObjective,
        bins: Bins,
        codes: Sequence[NDArray[np.uint8]],
        first_rows: Sequence[tuple[int, int]],
        n_threads: int,
    ) -> None:
        """codes: of the rows of the objective, in parts, each (feature, row).

        first_rows: the numbers of the training rows among all, as pairs of a first one and how many follow.
        """
        self._objective = objective
        self._bins = bins
        self._matrix = matrix = bins.matrix(objective.n_rows)
        first = 0
        for part in codes:
            matrix.put(part, first)
            first += part.shape[1]
        self._first_rows = first_rows
        self._n_threads = n_threads
        self._rows = _native.ShardRows(matrix, n_threads)
        self._arrays: dict[int, Array] = {}
        self._growing = False
        self._round = 0
        self._last = Reply()
        self._one_at_a_time = threading.Lock()
        self._forget_all()
        _native.begin_run()  # memory of dropped arrays is kept for the next ones
        weakref.finalize(self, _end_run, self._arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what has been made of the rows: that follows from the orders."""
        codes = [self._matrix.columns()]
        return type(self), (self._objective, self._bins, codes, self._first_rows, self._n_threads)

    def receive(self, message: Message) -> Reply:
        """Follow orders. A message that has been followed before gets the same answer again."""
        with self._one_at_a_time:
            if message.round == self._round and self._round > 0:
                return self._last
            if message.round < self._round:  # one that has been on its way for long
                return Reply(behind=True)
            if message.anew:
                self._forget_all()
            elif message.round != self._round + 1:
                return Reply(behind=True)
            reply = Reply()
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is noticed as divergence
                for order in message.orders:
                    reply = getattr(self, f"_{order.what}")(order) or Reply()
            self._round, self._last = message.round, reply
            return reply

    def _forget_all(self) -> None:
        self._arrays.clear()
        self._arrays[START] = self._objective.start
        self._growing = False

    def _needed(self, order: Order) -> list[Array]:
        return [self._arrays[name] for name in order.needs]

    def _give(self, order: Order, *arrays: Array) -> None:
        self._arrays.update(zip(order.gives, arrays, strict=True))

    # What is done with functions; see Objective.
    def _mix(self, order: Order) -> None:
        (x, y), (a, b) = self._needed(order), order.given
        self._give(order, self._objective.mix(a, x, b, y))

    def _residual(self, order: Order) -> None:
        self._give(order, self._objective.residual(*self._needed(order)))

    def _hessian(self, order: Order) -> None:
        (f,), middles = self._needed(order), order.given
        if not middles:
            hessian = self._objective.hessian(f)
            assert hessian is not None
            self._give(order, hessian)
            return
        loss, y, f = self._objective.loss, self._objective.train_y, f[:, : self._objective.n_train]
        assert isinstance(loss, Quantile)
        self._give(order, np.stack([loss.hessian_beyond(m, y[k], f[k]) for k, m in enumerate(middles)]))

    def _tally(self, order: Order) -> Reply:
        """How many training rows, or how much of their weight, has distances whose bits go on in which way."""
        ((f,), (k, search)) = self._needed(order), order.given
        n, loss = self._objective.n_train, self._objective.loss
        assert isinstance(loss, Quantile)
        distances = loss.distance(self._objective.train_y[k], f[k, :n])
        apart, weight = distances > 0.0, self._objective.train_weight
        return Reply((search.tally(distances[apart], None if weight is None else weight[apart]),))

    def _distance(self, order: Order) -> None:
        self._give(order, self._objective.distance(*self._needed(order)))

    def _zero_residual(self, order: Order) -> None:
        self._give(order, self._objective.zero_residual())

    def _forget(self, order: Order) -> None:
        for name in order.needs:
            self._arrays.pop(name, None)  # one that caught up has not made it

    # What is asked of functions.
    def _measure(self, order: Order) -> Reply:
        """The losses of a function, and the inner products of pairs of them."""
        f, *pairs = self._needed(order)
        watched = self._objective.validation_loss_sum(f) if self._objective.has_validation else ExactSum()
        sums = [self._objective.train_loss_sum(f), watched]
        for r, explained in zip(pairs[::2], pairs[1::2], strict=True):
            sums += self._objective.inner_sums(r, explained)
        return Reply(tuple(sums))

    def _inner(self, order: Order) -> Reply:
        return Reply(self._objective.inner_sums(*self._needed(order)))

    # What a tree is grown with; see ShardRows.
    def _targets(self, order: Order) -> Reply:
        n_functions, outputs, share = order.given
        needed = self._needed(order)
        residuals, curvature = needed[:n_functions], needed[n_functions:]  # hessian and distance, where there are such
        newton = _newton(curvature, share)
        try:
            n_rows, largest = self._rows.set_targets(
                **weighted(residuals, newton, outputs, self._objective.train_weights)
            )
        except OverflowError:  # a residual is not finite: the driver will say so
            return Reply((0,), np.full(1, np.inf))
        return Reply((n_rows,), np.array(largest))

    def _start_tree(self, order: Order) -> None:
        n_repeated, largest, lots = order.given
        self._rows.start(n_repeated=n_repeated, max=largest, rows=self._chosen(lots))
        self._growing = True

    def _chosen(self, lots: RowLots | None) -> NDArray[np.uint32] | None:
        if lots is None:
            return None
        chosen, before = [np.empty(0, np.uint32)], 0
        for first, n in self._first_rows:
            chosen.append(lots.rows(first, n) + np.uint32(before))
            before += n
        return np.concatenate(chosen)

    def _histograms(self, order: Order) -> Reply:
        splits, nodes = order.given
        self._rows.split(splits)
        return Reply((self._rows.histograms(nodes),))

    def _noise(self, order: Order) -> Reply:
        return Reply((self._rows.noise(),))

    def _leaf_sums(self, order: Order) -> Reply:
        splits, leaves = order.given
        self._rows.split(splits)
        return Reply((self._rows.leaf_sums(leaves),))

    def _tally_leaves(self, order: Order) -> Reply:
        return Reply((self._rows.tally(*order.given),))

    def _tree(self, order: Order) -> None:
        """Its values (output and function, row): the rows know their leaves if they have just been grown on."""
        nodes, left_codes, value = order.given
        if self._growing:
            self._give(order, self._rows.values(nodes, left_codes, value))
        else:
            self._give(
                order,
                self._matrix.values(FIRST, FIRST, nodes, left_codes, value, value.shape[1], self._n_threads),
            )
        self._growing = False

    def _forest(self, order: Order) -> None:
        forest, left_codes = order.given
        self._give(order, *map(np.ascontiguousarray, forest.values_on(self._matrix, left_codes, self._n_threads)))

    def _explained(self, order: Order) -> None:
        """What a function explains of a residual."""
        values, *hessian = self._needed(order)
        self._give(order, self._objective.explained_by(values, _newton(hessian)))

    def _fits(self, order: Order) -> None:
        """Values, and what they explain, of each function of some trees."""
        n_trees, n_functions = order.given
        needed = self._needed(order)
        whole, hessian = by_function(needed[:n_trees], n_functions), needed[n_trees:]
        arrays: list[Array] = []
        for j in range(n_functions):
            values = np.ascontiguousarray(whole[:, j])
            arrays += [values, self._objective.explained_by(values, _newton(hessian))]
        self._give(order, *arrays)


def _newton(arrays: Sequence[Array], share: float = 0.0) -> Newton[Array] | None:
    """From a hessian and a distance, where there are such."""
    return Newton(arrays[0], arrays[1] if len(arrays) > 1 else None, share) if arrays else None


def _end_run(arrays: dict[int, Array]) -> None:
    arrays.clear()  # first, so that their memory is not kept
    _native.end_run()


class RemoteFunction:
    """The name of an array (output, row) that every shard has a part of. Who drops it lets the shards forget it."""

    def __init__(self, name: int, n_outputs: int, log: Log) -> None:
        self.name = name
        self.losses: tuple[float, float] | None = None
        """Those of training and validation rows, when they have been asked for."""
        self._n_outputs = n_outputs
        self._log = log

    def __len__(self) -> int:
        return self._n_outputs

    def __del__(self) -> None:
        self._log.forget(self.name)


GROWTH = ("targets", "start_tree", "histograms", "noise", "leaf_sums", "tally_leaves")
"""Orders that bring a tree on, and are done with when it is grown."""


class Log:
    """The orders of a run: what the shards have still to be told, and what a new one would have to do."""

    def __init__(self, shards: Shards, n_outputs: int) -> None:
        self._shards = shards
        self._n_outputs = n_outputs
        self._pending: list[Order] = []
        self._made: list[Order] = []  # all that gave arrays
        self._growth: list[Order] = []
        self._living: set[int] = {START}
        self._names = START
        self._round = 0

    def give(self, what: str, needs: Iterable[RemoteFunction], *given: Any, n: int = 1) -> list[RemoteFunction]:
        """An order that gives n arrays."""
        gives = tuple(range(self._names + 1, self._names + 1 + n))
        self._names += n
        self._living.update(gives)
        order = Order(what, tuple(function.name for function in needs), gives, given)
        if what == "tree":
            self._growth = []
        self._made.append(order)
        self._pending.append(order)
        return [RemoteFunction(name, self._n_outputs, self) for name in gives]

    def tell(self, what: str, *given: Any) -> None:
        """An order without an answer that brings a tree on."""
        self._growth.append(Order(what, given=given))
        self._pending.append(self._growth[-1])

    def ask(self, what: str, needs: Iterable[RemoteFunction], *given: Any) -> Reply:
        """What all shards together say, after all orders so far."""
        order = Order(what, tuple(function.name for function in needs), given=given)
        self._round += 1
        pending, self._pending = self._pending, []  # at once: arrays may be forgotten at any moment
        message = Message(self._round, [*pending, order])
        if what in GROWTH:
            self._growth.append(order)
        return self._shards.exchange(message, lambda: Message(self._round, self._all_that_matters(order), anew=True))

    def forget(self, name: int) -> None:
        """Nobody will ask for an array again."""
        self._living.discard(name)
        self._pending.append(Order("forget", (name,)))

    def _all_that_matters(self, last: Order) -> list[Order]:
        """Orders that make what is living, and nothing for longer than it is needed; and the tree that is growing."""
        behind = self._growth if last.what in GROWTH else [*self._growth, last]
        needed = self._living | {name for order in behind for name in order.needs}
        wanted: list[Order] = []
        for order in reversed(self._made):
            if needed.isdisjoint(order.gives):
                continue
            last_use = set(order.needs) - needed - {START}
            idle = set(order.gives) - needed
            if last_use or idle:
                wanted.append(Order("forget", tuple(last_use | idle)))
            wanted.append(order)
            needed.update(order.needs)
        return [*reversed(wanted), *behind]


@dataclass(frozen=True)
class BitSearch:
    """Looks for the weighted median of positive numbers, whose bits have the same order; it is 0 if there are none."""

    weight_step: float | None
    step: int = 0
    known: int = 0
    """The bits that are settled."""
    wanted: float = 0
    """Rows, or weight, up to the median among the numbers that begin so."""

    bits = 16
    steps = 4

    @property
    def _shift(self) -> int:
        return 64 - self.bits * (self.step + 1)

    def tally(self, numbers: Array, weight: Array | None) -> Array:
        """For each way in which the next bits may go on: rows, or weight, of the numbers that do."""
        bits = numbers.view(np.uint64)
        if self.step > 0:
            begin_so = (bits >> np.uint64(self._shift + self.bits)) == np.uint64(self.known)
            bits, weight = bits[begin_so], None if weight is None else weight[begin_so]
        next_bits = ((bits >> np.uint64(self._shift)) & np.uint64(2**self.bits - 1)).astype(np.intp)
        whole = None
        if weight is not None and self.weight_step is not None:
            whole = whole_weights(weight, self.weight_step)
        return np.bincount(next_bits, whole, 2**self.bits).astype(np.float64)

    def after(self, tally: Array) -> BitSearch:
        """The search when the tallies of all shards are known."""
        wanted, total = self.wanted, np.cumsum(tally)
        if self.step == 0:
            wanted = enough(0.5, float(total[-1])) if total[-1] > 0.0 else 0.0
        digit = int(np.searchsorted(total, wanted))
        before = float(total[digit - 1]) if digit > 0 else 0.0
        return BitSearch(self.weight_step, self.step + 1, self.known << self.bits | digit, wanted - before)

    @property
    def found(self) -> float:
        """The median."""
        return float(np.uint64(self.known).view(np.float64))


class Facts(NamedTuple):
    """What is known of all rows together."""

    n_train: int
    n_outputs: int
    train_weight: ExactSum
    """Sum of the weights of the training rows."""
    validation_weight: ExactSum
    """Of the validation rows; 0 where there are none."""
    newton: bool
    """Whether learners make Newton steps with hessians that differ."""
    quantile: float | None = None
    """That of a Quantile loss, whose hessians depend on the median distance of all rows."""
    weight_step: float | None = None
    """See whole_weights; None where rows have no weights."""


class ClusterObjective:
    """An objective whose rows are in shards; see Objective."""

    def __init__(self, log: Log, facts: Facts) -> None:
        self._log = log
        self._facts = facts
        self.start = RemoteFunction(START, facts.n_outputs, log)
        self.n_train = facts.n_train
        self.has_validation = float(facts.validation_weight) > 0.0

    def residual(self, f: RemoteFunction) -> RemoteFunction:
        """See Objective."""
        return self._log.give("residual", [f])[0]

    def newton(self, f: RemoteFunction) -> Newton[RemoteFunction] | None:
        """See Objective."""
        if not self._facts.newton:
            return None
        if self._facts.quantile is None:
            return Newton(self._log.give("hessian", [f])[0])
        middles = [self._median_distance(f, k) for k in range(self._facts.n_outputs)]
        (hessian,), (distance,) = self._log.give("hessian", [f], *middles), self._log.give("distance", [f])
        return Newton(hessian, distance, self._facts.quantile)

    def zero_residual(self) -> RemoteFunction:
        """See Objective."""
        return self._log.give("zero_residual", [])[0]

    def mix(self, a: float, x: RemoteFunction, b: float, y: RemoteFunction) -> RemoteFunction:
        """See Objective."""
        return self._log.give("mix", [x, y], a, b)[0]

    def train_loss(self, f: RemoteFunction) -> float:
        """See Objective."""
        return self._losses_of(f)[0]

    def validation_loss(self, f: RemoteFunction) -> float:
        """See Objective."""
        return self._losses_of(f)[1]

    def fit_of(
        self, model: Model, function: int, values: RemoteFunction, newton: Newton[RemoteFunction] | None
    ) -> Fit[RemoteFunction]:
        """See Objective."""
        explained = self._log.give("explained", [values, *_hessian_of(newton)])[0]
        return Fit(model, function, values, explained)

    def measure(
        self, f: RemoteFunction, *fits: tuple[RemoteFunction, Fit[RemoteFunction]]
    ) -> tuple[tuple[float, float], list[float]]:
        """See Objective. One round for all of it."""
        pairs = [function for r, fit in fits for function in (r, fit.explained)]
        sums = self._log.ask("measure", [f, *pairs]).sums
        train, validation, *products = sums
        watched = validation / self._facts.validation_weight if self.has_validation else math.nan
        f.losses = train / self._facts.train_weight, watched
        return f.losses, [cosine(*products[i : i + 3]) for i in range(0, len(products), 3)]

    def cosine(self, r: RemoteFunction, fit: Fit[RemoteFunction]) -> float:
        """See Objective."""
        return cosine(*self._log.ask("inner", [r, fit.explained]).sums)

    def slope(self, f: RemoteFunction, b: RemoteFunction) -> float:
        """See Objective."""
        return -self.inner(self.residual(f), b)

    def inner(self, r: RemoteFunction, b: RemoteFunction) -> float:
        """See Objective."""
        return float(self._log.ask("inner", [r, b]).sums[1])

    def _median_distance(self, f: RemoteFunction, k: int) -> float:
        """Of the labels of output k that f does not meet: bits are settled from the highest on, some at a time."""
        search = BitSearch(self._facts.weight_step)
        for _ in range(BitSearch.steps):
            search = search.after(self._log.ask("tally", [f], k, search).sums[0])
        return search.found

    def _losses_of(self, f: RemoteFunction) -> tuple[float, float]:
        return self.measure(f)[0] if f.losses is None else f.losses


def _hessian_of(newton: Newton[RemoteFunction] | None) -> list[RemoteFunction]:
    """The name of the hessian, where there is one."""
    return [] if newton is None else [newton.hessian]


class ClusterFitter(TreesOfIterations[RemoteFunction]):
    """Trees on rows in shards."""

    def __init__(self, learner: TreeLearner, bins: Bins, log: Log, n_train: int) -> None:
        super().__init__(learner, bins, n_train)
        self._log = log
        self._grower = learner.grower(_native.RemoteGrower, bins, bins.matrix(0))

    def values(self, model: Model) -> Sequence[RemoteFunction]:
        """See Fitter."""
        forest = as_forest(model)
        return self._log.give("forest", [], forest, self._bins.left_codes(forest), n=forest.n_functions)

    def _grow(
        self, residuals: Sequence[RemoteFunction], newton: Newton[RemoteFunction] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, RemoteFunction]:
        log = self._log
        distance = [] if newton is None or newton.distance is None else [newton.distance]
        share = 0.0 if newton is None else newton.share
        reply = log.ask("targets", [*residuals, *_hessian_of(newton), *distance], len(residuals), outputs, share)
        assert reply.largest is not None
        if not np.isfinite(reply.largest).all():
            raise DivergedError("a residual is not finite")
        (n_repeated,), largest = reply.sums, reply.largest.tolist()
        log.tell("start_tree", n_repeated, largest, sample.lots)
        parts = self._grower.grow(
            sums=_TreeSums(log, len(outputs), share),
            n_repeated=n_repeated,
            max=largest,
            n_targets=len(outputs) * len(residuals),
            n_quantiles=len(outputs) if distance else 0,
            **self._growth(newton, sample),
        )
        tree = self._forest(*parts, len(outputs), len(residuals))
        return tree, log.give("tree", [], *parts)[0]

    def _fits(
        self,
        model: Forest,
        values: Sequence[RemoteFunction],
        newton: Newton[RemoteFunction] | None,
        n_functions: int,
    ) -> list[Fit[RemoteFunction]]:
        needs = [*values, *_hessian_of(newton)]
        functions = iter(self._log.give("fits", needs, len(values), n_functions, n=2 * n_functions))
        return [Fit(model, j, next(functions), next(functions)) for j in range(n_functions)]


@dataclass(frozen=True)
class _TreeSums:
    """Sums over the rows of all shards, as RemoteGrower asks for them."""

    log: Log
    n_outputs: int
    share: float
    """Of the rows at or below the quantiles of leaves."""

    def histograms(self, splits: NDArray[np.int64], nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("histograms", [], splits, nodes).sums[0]
        return sums

    def noise(self) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("noise", []).sums[0]
        return sums

    def leaf_sums(self, splits: NDArray[np.int64], leaves: NDArray[np.int32]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("leaf_sums", [], splits, leaves).sums[0]
        return sums

    def leaf_quantiles(self, leaves: NDArray[np.int32]) -> Array:
        """The bits of the quantiles are settled from the highest on, those of all leaves of an output at once."""
        return np.stack([self._quantiles(leaves, output) for output in range(self.n_outputs)], axis=1).ravel()

    def _quantiles(self, leaves: NDArray[np.int32], output: int) -> Array:
        n, width = len(leaves), LEAF_TALLY_BITS
        known, wanted = np.zeros(n, dtype=np.uint64), np.zeros(n)
        for shift in range(64 - width, -1, -width):
            tally = self.log.ask("tally_leaves", [], leaves, output, known, shift, width).sums[0].reshape(n, -1)
            total = np.cumsum(tally, axis=1)
            if shift == 64 - width:
                wanted = np.array([enough(self.share, float(of_leaf)) for of_leaf in total[:, -1]])
            digit = (total < wanted[:, np.newaxis]).sum(axis=1)  # the first one with enough at or below it
            before = np.where(digit > 0, total[np.arange(n), digit - 1], 0)
            known, wanted = known << np.uint64(width) | digit.astype(np.uint64), wanted - before
        return of_ordered_bits(known)
