"""The rows of one process, and the operations on them. Nothing here knows how messages arrive; see dask_shards.py."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..._base import _native
from ..._base.sums import Array, ExactSum
from ..._core.learners import Newton
from ..._core.objective import LocalObjective
from ..._data.digest import RowDigest
from ..._losses.regression import Quantile
from ..._tree.bins import Bins
from ..._tree.learner import FIRST, by_function, weighted
from ..._tree.sampling import RowSample
from .messages import START, Message, Order, Reply

MOST_ROWS = 2**32 - 1
"""The most rows of one shard: kernels number them with 32 bits. Numbers among all rows are Python integers."""


class Shard:
    """Some of the rows, and the arrays of the algorithm for these rows."""

    def __init__(
        self,
        objective: LocalObjective,
        bins: Bins,
        codes: Sequence[NDArray[np.uint8]],
        numbers: Sequence[tuple[int, NDArray[np.uint32]]],
        n_threads: int,
        digest: RowDigest | None = None,
    ) -> None:
        """codes: of the rows of the objective, in parts, each (feature, row).

        numbers: for each part, the number of its first training row among all, and its training rows in the order of
        their numbers.
        digest: of these rows, if the model is to have one of all rows.
        """
        if objective.n_rows > MOST_ROWS:
            raise ValueError(
                f"A worker got {objective.n_rows:,} rows, but can have at most {MOST_ROWS:,} (2^32 - 1); use more "
                "workers, and partitions that are small enough to be shared out."
            )
        self._objective = objective
        self._bins = bins
        self._matrix = matrix = bins.matrix(objective.n_rows)
        first = 0
        for part in codes:
            matrix.put(part, first)
            first += part.shape[1]
        self._numbers = numbers
        self._n_threads = n_threads
        self._digest = digest
        self._rows = _native.ShardRows(matrix, (0, 0, 0), n_threads)
        self._arrays: dict[int, Array] = {}
        self._growing = False
        self._round = 0
        self._last = Reply()
        self._one_at_a_time = threading.Lock()
        self._forget_all()
        _native.begin_run()  # keeps the memory of freed arrays for new ones
        weakref.finalize(self, _end_run, self._arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows only: the arrays follow from the orders."""
        codes = [self._matrix.columns()]
        return type(self), (self._objective, self._bins, codes, self._numbers, self._n_threads, self._digest)

    def receive(self, message: Message) -> Reply:
        """Execute orders. A message that arrives again gets the same reply."""
        with self._one_at_a_time:
            if message.round == self._round and self._round > 0:
                return self._last
            if message.round < self._round:  # a late message
                return Reply(behind=True)
            if message.from_scratch:
                self._forget_all()
            elif message.round != self._round + 1:
                return Reply(behind=True)
            reply = Reply()
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected as divergence
                for order in message.orders:
                    reply = getattr(self, f"_{order.what}")(order) or Reply()
            self._round, self._last = message.round, reply
            return reply

    def answer(self, message: Message) -> Reply:
        """Like receive, with errors as replies: engines may lose an exception that cannot be unpickled."""
        try:
            return self.receive(message)
        except Exception as error:
            return Reply(error=as_it_travels(error))

    def _forget_all(self) -> None:
        self._arrays.clear()
        self._arrays[START] = self._objective.start
        self._growing = False

    def _row_digest(self, order: Order) -> Reply:
        assert self._digest is not None
        return Reply((self._digest.blocks, self._digest.columns))

    def _inputs(self, order: Order) -> list[Array]:
        return [self._arrays[name] for name in order.inputs]

    def _store(self, order: Order, *arrays: Array) -> None:
        self._arrays.update(zip(order.outputs, arrays, strict=True))

    # Orders that create functions; see Objective.
    def _mix(self, order: Order) -> None:
        (x, y), (a, b) = self._inputs(order), order.arguments
        self._store(order, self._objective.mix(a, x, b, y))

    def _residual(self, order: Order) -> None:
        self._store(order, self._objective.residual(*self._inputs(order)))

    def _hessian(self, order: Order) -> None:
        """The hessian at f; for a Quantile loss, from the median distance of each output over all shards."""
        (f,), medians = self._inputs(order), order.arguments
        if not medians:
            hessian = self._objective.hessian(f)
            assert hessian is not None
            self._store(order, hessian)
            return
        loss, y, f = cast(Quantile, self._objective.loss), self._objective.train_y, f[:, : self._objective.n_train]
        labels = y if y.ndim == 2 else [y] * len(f)
        self._store(order, np.stack([loss.hessian_beyond(m, *at) for m, *at in zip(medians, labels, f, strict=True)]))

    def _tally(self, order: Order) -> Reply:
        """One step of a MedianSearch, over the distances of the training rows."""
        ((f,), (k, search)) = self._inputs(order), order.arguments
        n, loss = self._objective.n_train, cast(Quantile, self._objective.loss)
        y = self._objective.train_y
        distances = loss.distance(y[k] if y.ndim == 2 else y, f[k, :n])
        apart, weight = distances > 0.0, self._objective.train_weight
        return Reply((search.tally(distances[apart], None if weight is None else weight[apart]),))

    def _distance(self, order: Order) -> None:
        self._store(order, self._objective.distance(*self._inputs(order)))

    def _zero_residual(self, order: Order) -> None:
        self._store(order, self._objective.zero_residual())

    def _unit(self, order: Order) -> None:
        self._store(order, self._objective.unit(*order.arguments))

    def _forget(self, order: Order) -> None:
        for name in order.inputs:
            self._arrays.pop(name, None)  # a shard that caught up has not created all of them

    # Orders that measure functions.
    def _measure(self, order: Order) -> Reply:
        """The losses of a function, and the inner products of pairs of residuals and explained parts."""
        f, *pairs = self._inputs(order)
        validation = self._objective.validation_loss_sum(f) if self._objective.has_validation else ExactSum()
        sums = [self._objective.train_loss_sum(f), validation]
        for r, explained in zip(pairs[::2], pairs[1::2], strict=True):
            sums += self._objective.inner_sums(r, explained)
        return Reply(tuple(sums))

    def _level(self, order: Order) -> Reply:
        """The sums of the Newton step of a level."""
        (f,) = self._inputs(order)
        return Reply(self._objective.level_sums(self._objective.to_keep(f), *order.arguments))

    def _held_out(self, order: Order) -> Reply:
        """The nonconformity of the validation rows, and their weights; both in tuples, which add up to longer ones."""
        (f,), (measure,) = self._inputs(order), order.arguments
        scores, weights = self._objective.held_out_scores(self._objective.to_keep(f), measure)
        return Reply(((scores,), () if weights is None else (weights,)))

    def _inner(self, order: Order) -> Reply:
        return Reply(self._objective.inner_sums(*self._inputs(order)))

    # Orders that grow a tree; see ShardRows.
    def _set_residuals(self, order: Order) -> Reply:
        n_functions, outputs, shares = order.arguments
        inputs = self._inputs(order)
        residuals, curvature = inputs[:n_functions], inputs[n_functions:]  # hessian and distance, if there are any
        arguments = weighted(residuals, _newton(curvature, shares), outputs, self._objective.train_weights)
        try:
            n_rows, largest = self._rows.set_residuals(**arguments)
        except OverflowError:  # a residual is not finite: the driver raises the error
            return Reply((0,), np.full(1, np.inf))
        return Reply((n_rows,), np.array(largest))

    def _start_tree(self, order: Order) -> None:
        n_repeated, largest, sample = order.arguments
        self._rows.start(n_repeated=n_repeated, max=largest, rows=self._sampled(sample))
        self._growing = True

    def _summed_by(self, order: Order) -> None:
        self._rows.summed_by(*order.arguments)

    def _sampled(self, sample: RowSample | None) -> NDArray[np.uint32] | None:
        if sample is None:
            return None
        sampled, before = [np.empty(0, np.uint32)], 0
        for first, by_number in self._numbers:
            sampled.append(np.sort(by_number[sample.rows(first, len(by_number))]) + np.uint32(before))
            before += len(by_number)
        return np.concatenate(sampled)

    def _histograms(self, order: Order) -> Reply:
        splits, nodes = order.arguments
        self._rows.split(splits)
        return Reply((self._rows.histograms(nodes),))

    def _noise(self, order: Order) -> Reply:
        return Reply((self._rows.noise(),))

    def _leaf_sums(self, order: Order) -> Reply:
        splits, leaves = order.arguments
        self._rows.split(splits)
        return Reply((self._rows.leaf_sums(leaves),))

    def _tally_leaves(self, order: Order) -> Reply:
        return Reply((self._rows.tally(*order.arguments),))

    # Orders that create the values of trees.
    def _tree(self, order: Order) -> None:
        """The values (output and function, row) of a tree; if it has just been grown, the leaf of each row is known."""
        nodes, left_codes, value = order.arguments
        if self._growing:
            self._store(order, self._rows.values(nodes, left_codes, value))
        else:
            self._store(
                order,
                self._matrix.values(FIRST, FIRST, nodes, left_codes, value, value.shape[1], self._n_threads),
            )
        self._growing = False

    def _forest(self, order: Order) -> None:
        forest, left_codes = order.arguments
        self._store(order, *map(np.ascontiguousarray, forest.values_on(self._matrix, left_codes, self._n_threads)))

    def _explained(self, order: Order) -> None:
        """The part of the residual that a function explains."""
        values, *hessian = self._inputs(order)
        self._store(order, self._objective.explained_by(values, _newton(hessian)))

    def _fits(self, order: Order) -> None:
        """The values of each function of some trees, and the part of the residual that it explains."""
        n_trees, n_functions = order.arguments
        inputs = self._inputs(order)
        whole, hessian = by_function(inputs[:n_trees], n_functions), inputs[n_trees:]
        arrays: list[Array] = []
        for j in range(n_functions):
            values = np.ascontiguousarray(whole[:, j])
            arrays += [values, self._objective.explained_by(values, _newton(hessian))]
        self._store(order, *arrays)


def as_it_travels(error: Exception) -> Exception:
    """An exception that can be pickled: the exception itself if possible, otherwise one with its text."""
    try:
        return cast(Exception, pickle.loads(pickle.dumps(error)))
    except Exception:  # from a user-defined class
        return RuntimeError(f"{type(error).__name__}: {error}")


def _newton(arrays: Sequence[Array], shares: Sequence[float] = ()) -> Newton[Array] | None:
    """From a hessian and a distance, if there are any."""
    return Newton(arrays[0], arrays[1] if len(arrays) > 1 else None, shares) if arrays else None


def _end_run(arrays: dict[int, Array]) -> None:
    arrays.clear()  # before end_run, so that their memory is not kept
    _native.end_run()
