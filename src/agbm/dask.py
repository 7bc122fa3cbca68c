"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows.

Dask does what it is made for: it reads partitions, keeps what its workers have made of them, runs tasks where the data
is, and makes anew what a lost worker had. Here is only what it cannot know: which partitions go together, and what the
tasks are. See cluster.py for what the shards do, and blocks.py for what happens to partitions before.
"""

from __future__ import annotations

import asyncio
import functools
import operator
import pickle
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, cast

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import distributed

from ._core.learners import Fitter, Model
from ._core.losses import Array, Loss, is_built_in
from ._core.objective import Outputs, Problem
from ._core.sums import weight_step
from ._core.weights import Weights
from ._core.weights import joined as joined_weights
from ._data.blocks import (
    UNUSED,
    Block,
    BlockReader,
    Blocks,
    BlockTable,
    Labels,
    Seen,
    WithValidation,
    labels_of,
    naming,
)
from ._distributed.cluster import ClusterFitter, ClusterProblem, Facts, Log, Message, Reply, Shard
from ._estimators import AGBMClassifier, AGBMRegressor, _BaseAGBM
from ._storage.checkpoint import Checkpoint
from ._tree import Forest, TreeLearner
from ._tree.bins import Bins

__all__ = ["DaskAGBMClassifier", "DaskAGBMRegressor"]

FAN_OUT = 8
"""Shards that one process sends a message on to, and whose replies it adds up."""

SECONDS_BETWEEN_LOOKS = 5.0
"""From one look for workers that have come or gone to the next."""

PATIENCE = 5.0
"""Seconds that an answer may take before it is asked whether the worker is still there."""

TRIES = 20
"""Times that a message is sent again, with all workers there, before the trouble is the user's."""


def add_up(replies: Sequence[Reply]) -> Reply:
    """Replies taken together."""
    return functools.reduce(operator.add, replies)


class DaskShard(Shard):
    """A shard as an actor of Dask's: it stays with its worker, and other processes can call it."""

    async def relay(self, message: Message, below: Sequence[Branch]) -> Reply:
        """What this shard and those below it say to a message."""
        asked = [shard.relay(message, branches) for shard, branches in below]
        reply = await asyncio.to_thread(self._receive, message)
        return add_up([reply, *[await answer for answer in asked]])

    def _receive(self, message: Message) -> Reply:
        """Errors are answers: of an exception that cannot be unpickled, Dask would not tell the caller."""
        try:
            return self.receive(message)
        except Exception as error:
            return Reply(error=as_it_travels(error))


def as_it_travels(error: Exception) -> Exception:
    """An exception as another process would get it: itself, or its text where pickle cannot bring it back."""
    try:
        return cast(Exception, pickle.loads(pickle.dumps(error)))
    except Exception:  # whatever a user's class does when it is made anew
        return RuntimeError(f"{type(error).__name__}: {error}")


Branch = tuple[Any, Sequence["Branch"]]
"""A shard, and what is below it in the tree that messages go down and sums come up."""


def branches(shards: Sequence[Any]) -> list[Branch]:
    """A tree of shards, in which nobody talks to more than FAN_OUT others."""
    heads = min(FAN_OUT, len(shards))
    groups = [shards[i::heads] for i in range(heads)]
    return [(group[0], branches(group[1:])) for group in groups]


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


class DaskBlocks:
    """Partitions of Dask collections, read by its workers; see Blocks."""

    noun = "partition"

    def __init__(self, client: Any, X: Any, y: Any, weight: Any) -> None:
        self._client = client
        parts = {"X": partitions_of("X", X)}
        for name, given in (("y", y), ("sample_weight", weight)):
            if given is not None:
                parts[name] = partitions_of(name, given)
                if len(parts[name]) != len(parts["X"]):
                    raise ValueError(
                        f"{name} has {len(parts[name])} partitions, X has {len(parts['X'])}; they must have as many, "
                        "with the same rows in each."
                    )
        missing = [None] * len(parts["X"])
        columns = [parts["X"], parts.get("y", missing), parts.get("sample_weight", missing)]
        make = delayed(Block, pure=True)
        self.blocks = [make(*row) for row in zip(*columns, strict=True)]
        self.seen: list[Seen | None] = [None] * len(self.blocks)

    def labels(self) -> list[Labels]:
        """See Blocks."""
        found = self.map(labels_and_seen)
        self.seen = [seen for _, seen in found]
        return [labels for labels, _ in found]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        call = delayed(call_named, pure=False)
        tasks = [
            call(function, self.noun, i, seen, block, *map(packed, () if arguments is None else arguments[i]))
            for i, (seen, block) in enumerate(zip(self.seen, self.blocks, strict=True))
        ]
        futures = self._client.compute(tasks)
        distributed.wait(futures)
        raise_error_of(dict(enumerate(futures)))
        return cast(list[Any], self._client.gather(futures))


def labels_and_seen(block: Block) -> tuple[Labels, Seen]:
    """A task: what a partition has besides features, and what it is recognised by."""
    return labels_of(block), Seen.of(block)


def call_named(
    function: Callable[..., Any], noun: str, number: int, seen: Seen | None, block: Block, *arguments: Any
) -> Any:
    """A task: what a function says of a partition, which must be the one seen before. Errors name the partition."""
    with naming(noun, number):
        if seen is not None:
            seen.check(block)
        return function(block, *map(unpacked, arguments))


class Bits(NamedTuple):
    """An array of yes and no, as it travels."""

    packed: NDArray[np.uint8]
    n: int


def packed(given: Any) -> Any:
    """What travels with less weight."""
    if isinstance(given, np.ndarray) and given.dtype == bool:
        return Bits(np.packbits(given), len(given))
    return tuple(map(packed, given)) if type(given) is tuple else given


def unpacked(given: Any) -> Any:
    """What it was."""
    if isinstance(given, Bits):
        return np.unpackbits(given.packed, count=given.n).astype(bool)
    return tuple(map(unpacked, given)) if type(given) is tuple else given


def raise_error_of(futures: Mapping[int, Any]) -> None:
    """The first error, if there is one, of what was to become of some partitions, with the number of the partition."""
    for number, future in futures.items():
        if future is None or future.status != "error":  # None: of a shard that has it
            continue
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            raise RuntimeError(
                f"partition {number}: all workers that got it have died, the last was {error.last_worker.address}; if "
                "they ran out of memory, use smaller partitions or larger workers. Their logs say more."
            ) from error
        if f"partition {number}" not in str(error):
            error.add_note(f"This was partition {number}.")
        raise error


def partitions_of(name: str, given: Any) -> list[Any]:
    """The partitions of a Dask collection, each delayed."""
    if hasattr(given, "to_delayed"):
        if getattr(given, "ndim", 1) == 2 and hasattr(given, "rechunk"):
            given = given.rechunk({1: -1})  # whole rows
        # As they are: of columns in files, Dask's optimiser may put partitions of y together, and not those of X.
        return list(np.ravel(np.asarray(given.to_delayed(optimize_graph=False), dtype=object)))
    if isinstance(given, (list, tuple)) and given and all(hasattr(part, "__dask_graph__") for part in given):
        return list(given)
    raise TypeError(
        f"{name} must be a Dask DataFrame or Array, or a list of delayed partitions, got {type(given).__name__}; a "
        "table in memory is for AGBMClassifier and AGBMRegressor."
    )


class PartPlan(NamedTuple):
    """Which rows of a partition are used, and what for; small enough to travel."""

    n_rows: int
    used: Bits | None
    """None where all rows are."""
    watched: Bits | None
    """Of the used rows; None where none is."""
    weights: Weights | None
    """Of the used rows."""
    first: int
    """The number of the first training row among all."""

    @classmethod
    def of(cls, places: NDArray[np.uint32], n_train: int, weights: Weights | None) -> PartPlan:
        """From the places of the rows of a partition in the order of all."""
        used = places != UNUSED
        kept = places[used]
        watched = kept >= n_train
        training = kept[~watched]
        return cls(
            len(places),
            None if used.all() else packed(used),
            packed(watched) if watched.any() else None,
            None if weights is None else weights[kept],
            int(training[0]) if len(training) else 0,
        )

    def rows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows are used, and which of these are watched."""
        used = np.full(self.n_rows, True) if self.used is None else unpacked(self.used)
        watched = np.full(np.count_nonzero(used), False) if self.watched is None else unpacked(self.watched)
        return used, watched


class Part(NamedTuple):
    """What is left of a partition when its features are codes: (training rows, watched rows) of everything."""

    codes: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    y: tuple[Array, Array]
    weights: tuple[Weights, Weights] | None
    start: tuple[Array, Array] | None
    first: int


def encode_part(block: Block, reader: BlockReader, estimator: _BaseAGBM, plan: PartPlan) -> Part:
    """A task: the codes of a partition."""
    used, watched = plan.rows()
    codes = reader.bins.encode(reader.numbers(block, used), _threads_here()).columns()
    start = None if isinstance(estimator.init, str) else np.empty((estimator._n_outputs, 0))
    if used.any():
        # Labels of rows without weight may be of no class.
        y = estimator._encode_validation(np.asarray(block.y)[used], len(watched))
        start = None if start is None else cast(Array, estimator._init_values(block.X))[:, used]
    else:  # which no check of labels and no init model takes
        y = np.empty((0,) if estimator._one_label_for_all_outputs() else (estimator._n_outputs, 0))

    def both(x: NDArray[Any]) -> tuple[Any, Any]:
        return np.ascontiguousarray(x[..., ~watched]), np.ascontiguousarray(x[..., watched])

    return Part(
        both(codes),
        both(y),
        None if plan.weights is None else (plan.weights[~watched], plan.weights[watched]),
        None if start is None else both(start),
        plan.first,
    )


class Recipe(NamedTuple):
    """What a shard is made with, besides its rows."""

    bins: Bins
    loss: Loss | Outputs
    start: Array | None
    """Constants; None where an init model has given values."""
    second_order: bool


def make_shard(recipe: Recipe, *parts: Part) -> DaskShard:
    """A task: parts of partitions together."""

    def joined(pairs: Sequence[tuple[Any, Any]]) -> Any:
        return np.concatenate([pair[0] for pair in pairs] + [pair[1] for pair in pairs], axis=-1)

    y = joined([part.y for part in parts])
    n_train = sum(part.codes[0].shape[-1] for part in parts)
    weights = None
    if parts[0].weights is not None:
        pairs = [cast(Any, part.weights) for part in parts]
        weights = joined_weights([pair[0] for pair in pairs] + [pair[1] for pair in pairs])
    if recipe.start is None:
        start = joined([cast(Any, part.start) for part in parts])
    else:
        start = np.broadcast_to(recipe.start[:, np.newaxis], (len(recipe.start), y.shape[-1]))
    n_threads = _threads_here()
    loss = recipe.loss.with_threads(n_threads) if hasattr(recipe.loss, "with_threads") else recipe.loss
    problem = Problem(loss, y, n_train, start, weights, recipe.second_order, n_threads)
    codes = [part.codes[0] for part in parts] + [part.codes[1] for part in parts]
    first_rows = [(part.first, part.codes[0].shape[-1]) for part in parts]
    return DaskShard(problem, recipe.bins, codes, first_rows, n_threads)


def _threads_here() -> int:
    """Those of the worker that runs this task."""
    try:
        return int(distributed.get_worker().state.nthreads)
    except ValueError:  # not a worker
        return 1


@contextmanager
def talking_to_workers(client: Any) -> Iterator[None]:
    """Calls of actors go straight to the workers, where these can be reached, and not by way of the scheduler."""

    async def reach(address: str) -> None:
        await asyncio.wait_for(client.rpc(address).identity(), PATIENCE)

    before = client.direct_to_workers
    try:
        if not before:
            client.sync(reach, next(iter(client.nthreads())))
            client.direct_to_workers = True
    except (OSError, StopIteration):
        pass  # behind a gateway, or none there yet: the scheduler passes messages on
    try:
        yield
    finally:
        client.direct_to_workers = before


class Held(NamedTuple):
    """A shard of some partitions."""

    worker: str
    """That it was meant for; Dask may have chosen another."""
    shard: Any
    """Future of the actor."""
    parts: dict[int, Any]
    """Futures of the partitions' codes, until the shard has them; by the numbers of the partitions."""


class WorkerLostError(Exception):
    """A shard is gone, or cannot be reached."""


LOST_ACTOR = "Worker holding Actor was lost"
"""What Dask says of a shard whose worker is gone."""


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Errors that Dask has of lost workers; those of the user's come in other ways."""
    try:
        yield
    except (OSError, distributed.CancelledError) as error:
        raise WorkerLostError(str(error)) from error
    except Exception as error:
        if LOST_ACTOR in str(error):
            raise WorkerLostError(str(error)) from error
        raise


class DaskShards:
    """Shards in the memory of Dask's workers."""

    def __init__(self, client: Any, rows: Sequence[int], make: Callable[[Sequence[int], str], Held]) -> None:
        """rows: of each partition; make(partitions, worker) has a worker make the shard of some."""
        self._client = client
        self._rows = rows
        self._make = make
        self._workers: Mapping[str, int] = {}
        self._held: list[Held] = []
        self._tree: list[Branch] = []
        self._looked = 0.0

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """See Shards."""
        if time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            self._look()
        tries = 0
        while True:
            try:
                reply = self._send(message)
                if not reply.behind:
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
        """Let the workers drop all shards."""
        self._drop(self._held)
        self._held = []

    def _send(self, message: Message) -> Reply:
        tree = self._reachable()
        with noticing_loss():
            asked = [shard.relay(message, below) for shard, below in tree]
            reply = add_up([self._answer(future) for future in asked])
        if reply.error is not None:
            raise reply.error
        return reply

    def _answer(self, future: Any) -> Reply:
        """Dask does not always say that a call is lost with its worker."""
        while True:
            try:
                return cast(Reply, future.result(timeout=PATIENCE))
            except TimeoutError:
                if future.done() or self._lost():
                    raise

    def _reachable(self) -> list[Branch]:
        """The tree of all shards, when they are there."""
        if not self._tree:
            shards = [held.shard for held in self._held]
            with noticing_loss():
                self._wait_for(shards)
            for held in self._held:
                raise_error_of(held.parts)
            with noticing_loss():
                self._tree = branches(self._client.gather(shards))
            self._held = [held._replace(parts=dict.fromkeys(held.parts)) for held in self._held]
        return self._tree

    def _wait_for(self, shards: Sequence[Any]) -> None:
        while True:
            try:
                distributed.wait(shards, timeout=PATIENCE)
                return
            except TimeoutError:  # reading may take long
                if self._lost():
                    raise

    def _lost(self) -> list[Held]:
        """Shards of workers that are no longer there."""
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
        """See what workers there are and, if some have come or gone, who is to have which partitions."""
        workers = self._client.nthreads()
        if not workers:
            warnings.warn("The cluster has no workers: training waits until it has some.", RuntimeWarning, stacklevel=2)
            self._client.wait_for_workers(1)
            workers = self._client.nthreads()
        lost = self._lost()
        self._looked = time.monotonic()
        if workers == self._workers and not lost:
            return False
        self._workers = workers
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

    def _drop(self, held: Sequence[Held]) -> None:
        """What Dask's client has of actors is in circles, and its workers would have them until these go."""
        self._tree = []
        self._client.cancel([of.shard for of in held], force=True)


class _OnDask(_BaseAGBM):
    """What both estimators have that the local ones have not."""

    _client: Any
    _shards: list[DaskShards]

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, *,
        client: Any = None, checkpoint: Any = None,
    ) -> Self:  # fmt: skip
        """Fit to Dask collections with the same rows in each partition: data frames, arrays, or lists of delayed ones.

        client: of the cluster; the one that is in use by default. checkpoint: a file to save the run to every ten
        iterations; a fit that finds one, of the same run, goes on from there.
        """
        self._client = distributed.get_client() if client is None else client
        self._shards, callbacks = [], self.callbacks
        try:
            if checkpoint is not None:
                self.callbacks = [*(callbacks or ()), Checkpoint(checkpoint)]
            with talking_to_workers(self._client):
                return self._fit(X, y, sample_weight, X_val, y_val)
        finally:
            for shards in self._shards:
                shards.close()
            self.callbacks = callbacks
            del self._client, self._shards

    def _blocks_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Blocks, Any, Any] | None:
        return DaskBlocks(self._client, X, y, sample_weight), None, None

    def _bind_blocks(
        self, loss: Loss, learner: TreeLearner, table: BlockTable, reader: BlockReader, problem: Problem
    ) -> tuple[Problem, TreeLearner, Fitter, Callable[[Model], Sequence[Array]]]:
        """See _BaseAGBM: the rows stay with the workers."""
        self._check_row_wise(loss)
        start = None if problem.start.strides[-1] else problem.start[:, 0].copy()
        recipe = Recipe(reader.bins, self._joint(loss), start, self.second_order)
        make = self._maker(table, reader, recipe, problem.weights)
        rows = table.places.n_rows
        self._shards.append(DaskShards(self._client, rows, make))
        log = Log(self._shards[-1], self._n_outputs)
        facts = Facts(
            problem.n_train, self._n_outputs, problem.train_weight_sum, problem.validation_weight_sum,
            self.second_order and not loss.constant_hessian, problem.quantile,
            None if problem.train_weight is None else weight_step(problem.train_weight),
        )  # fmt: skip
        remote = ClusterProblem(log, facts)

        def values(model: Model) -> Sequence[Any]:
            forest = cast(Forest, model)
            return remote.values(forest, reader.bins.left_codes(forest))

        fitter = ClusterFitter(learner, reader.bins, log, problem.n_train)
        return cast(Problem, remote), learner, cast(Fitter, fitter), values

    def _check_row_wise(self, loss: Loss) -> None:
        """The hessians of a loss of the user's may depend on other rows, which a worker does not have."""
        if self.second_order and not (loss.constant_hessian or is_built_in(loss) or getattr(loss, "row_wise", False)):
            raise ValueError(
                f"loss={loss!r}: on a cluster, its hessian sees the rows of one worker at a time. If the hessian of a "
                "row depends on no other rows, say so with an attribute row_wise = True; else use second_order=False."
            )

    def _maker(
        self, table: BlockTable, reader: BlockReader, recipe: Recipe, weights: Weights | None
    ) -> Callable[[Sequence[int], str], Held]:
        """A function that has a worker make the shard of some partitions."""
        found: Any = table.blocks
        sources = {"": found}
        if isinstance(found, WithValidation):
            sources = {"": cast(Any, found.training), "X_val: ": cast(Any, found.validation)}
        blocks = [
            (f"{of}{source.noun}", i, seen, block)
            for of, source in sources.items()
            for i, (seen, block) in enumerate(zip(source.seen, source.blocks, strict=True))
        ]
        n_train = table.places.n_train
        plans = [PartPlan.of(places, n_train, weights) for places in table.places.of_blocks()]
        # All parts need these two: they travel once, and not with each.
        lazy_reader, estimator = (delayed(given, traverse=False) for given in (reader, self._for_reading()))
        call = delayed(call_named, pure=False)
        parts = [
            call(encode_part, noun, i, seen, block, lazy_reader, estimator, plan)
            for (noun, i, seen, block), plan in zip(blocks, plans, strict=True)
        ]
        client = self._client

        def make(partitions: Sequence[int], worker: str) -> Held:
            there = {"workers": [worker], "allow_other_workers": True}
            futures = client.compute([parts[i] for i in partitions], **there)
            shard = client.submit(make_shard, recipe, *futures, actor=True, pure=False, **there)
            return Held(worker, shard, dict(zip(partitions, futures, strict=True)))

        return make

    def _lazily(self, method: str, X: Any) -> Any:
        """What a method gives, for each partition of X when it is computed."""
        check_is_fitted(self)
        model, kind = self.to_local(), self._predicted(method)
        columns, dtype = kind
        if hasattr(X, "map_partitions"):
            return X.map_partitions(_predict_frame, model, method, kind, meta=_frame(X._meta.iloc[:0], kind))
        if hasattr(X, "map_blocks"):
            X = X.rechunk({1: -1})
            shape: dict[str, Any] = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (len(columns),))}
            return X.map_blocks(_predict, model, method, kind, dtype=dtype, meta=kind.empty(), **shape)
        return [delayed(_predict)(part, model, method, kind) for part in partitions_of("X", X)]

    @abstractmethod
    def _predicted(self, method: str) -> Predicted:
        """What a method gives."""

    def to_local(self) -> Any:
        """The same model as the estimator for one machine, which knows nothing of Dask."""
        local: Any = _LOCAL[type(self)]()
        local.__dict__ = dict(self.__dict__)
        return local

    def save(self, path: Any) -> None:
        """See AGBMClassifier."""
        self.to_local().save(path)


def _is_lazy(X: Any) -> bool:
    return all(hasattr(part, "__dask_graph__") for part in X) if isinstance(X, list) else hasattr(X, "__dask_graph__")


class Predicted(NamedTuple):
    """What predictions look like."""

    columns: list[Any] | None
    """Names; None where there is one number or class a row."""
    dtype: Any

    def empty(self) -> NDArray[Any]:
        """Those of no rows."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)


def _predict(X: Any, model: Any, method: str, kind: Predicted) -> NDArray[Any]:
    """A task: predictions of a partition, which may be empty."""
    return kind.empty() if X.shape[0] == 0 else cast(NDArray[Any], getattr(model, method)(X))


def _predict_frame(X: Any, model: Any, method: str, kind: Predicted) -> Any:
    """A task: the same with the index of the rows."""
    return _frame(X, kind, _predict(X, model, method, kind))


def _frame(X: Any, kind: Predicted, values: NDArray[Any] | None = None) -> Any:
    """Values, or none of them, with the index of X."""
    import pandas as pd

    values = kind.empty() if values is None else values
    if kind.columns is None:
        return pd.Series(values, index=X.index, name="0")
    return pd.DataFrame(values, index=X.index, columns=kind.columns)


class DaskAGBMRegressor(_OnDask, AGBMRegressor):
    """AGBMRegressor on a Dask cluster; it has the same parameters, and its model has the same bits."""

    def predict(self, X: Any) -> Any:
        """Predicted values; for a Dask collection, when they are computed."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def _predicted(self, method: str) -> Predicted:
        return Predicted(list(range(self._n_outputs)) if self._label_shape else None, np.float64)


class DaskAGBMClassifier(_OnDask, AGBMClassifier):
    """AGBMClassifier on a Dask cluster; it has the same parameters, and its model has the same bits."""

    def predict(self, X: Any) -> Any:
        """The most probable class; for a Dask collection, when it is computed."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (row, class); for a Dask collection, when they are computed."""
        return self._lazily("predict_proba", X) if _is_lazy(X) else super().predict_proba(X)

    def _predicted(self, method: str) -> Predicted:
        return (
            Predicted(None, self.classes_.dtype) if method == "predict" else Predicted(list(self.classes_), np.float64)
        )


_LOCAL: dict[type, Callable[[], Any]] = {DaskAGBMRegressor: AGBMRegressor, DaskAGBMClassifier: AGBMClassifier}
