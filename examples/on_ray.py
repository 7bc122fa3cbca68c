"""Train on a Ray cluster, here two local CPUs; the model file has the same bytes as that of a fit without a cluster.

python examples/on_ray.py        (needs pip install . ray)

A front for another engine than Dask, on modules of agbm._engines.distributed that import none. They are private and
may change: copy this file together with the version of agbm that it belongs to. Ray runs steps for labels as tasks,
reruns those whose results are lost, and keeps the rows of the shards in actors. What this file adds: who gets which
partitions, how messages reach the actors, and how lost actors are replaced.
"""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import ray
from sklearn.datasets import load_breast_cancer

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base.collectives import Outcome
from agbm._base.sums import Array
from agbm._data.blocks import VECTORS, Block, Blocks, Gathered, Seen, WithValidation, joined
from agbm._data.rows import Given
from agbm._engines.distributed.binding import bound, recipe_of
from agbm._engines.distributed.growth import ClusterFitter
from agbm._engines.distributed.messages import Message, Reply, add_up
from agbm._engines.distributed.objective import ClusterObjective
from agbm._engines.distributed.partition_tasks import (
    Form,
    advance,
    agreed,
    call_named,
    gathered_from,
    labels_and_seen,
    outline_of,
    pass_over,
    score_rows,
    sources_of,
)
from agbm._engines.distributed.shard import Shard
from agbm._engines.distributed.shard_tasks import Part, Recipe, encode_part, make_shard, share_out
from agbm._estimators.base import BaseAGBM
from agbm._fit.label_steps import before
from agbm._fit.sources import BlockRows
from agbm._migration.foreign import refuse_arguments
from agbm._tree import TreeLearner

TRIES = 10
"""How many actors may be lost in one round before the error is raised."""

NAME = "agbm-shard"
"""What the names of actors begin with."""

CALLS_AT_ONCE = 16
"""Calls that an actor runs at once: the members of a model send their messages in parallel."""


def on_partition(function: Callable[..., Any], noun: str, number: int, seen: Seen | None, *arguments: Any) -> Any:
    """A task: call a function with a partition. Ray replaces references by their objects only among the arguments."""
    n = len(Block._fields)
    return call_named(function, noun, number, seen, Block(*arguments[:n]), *arguments[n:])


_on_partition = ray.remote(on_partition)
_advance = ray.remote(num_returns=2)(advance)
_outline_of = ray.remote(outline_of)
_gathered_from = ray.remote(gathered_from)


def fetched(references: Sequence[Any]) -> list[Any]:
    """The results of tasks. Raises the error of a task as it was raised, without Ray's wrapper."""
    try:
        return cast(list[Any], ray.get(list(references)))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


class RayBlocks:
    """Partitions as references to Ray objects; see Blocks."""

    noun = "partition"

    def __init__(self, given: Given) -> None:
        n = len(given.X)
        for name, column in zip(("X", *VECTORS), given, strict=True):
            if column is None:
                continue
            if not (isinstance(column, list) and all(isinstance(one, ray.ObjectRef) for one in column)):
                raise TypeError(
                    f"{name} must be a list of references to Ray objects, one per partition; got "
                    f"{type(column).__name__}. ray.put makes a reference; AGBMClassifier and AGBMRegressor fit tables."
                )
            if len(column) != n:
                raise ValueError(f"{name} has {len(column)} partitions, X has {n}; they must have as many.")
        self.blocks = list(zip(*([None] * n if column is None else column for column in given), strict=True))
        self.seen: list[Seen | None] = [None] * n

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        own = [()] * len(self.blocks) if arguments is None else arguments
        pairs = zip(sources_of(self), own, strict=True)
        return fetched([task_of(function, source, *of_block) for source, of_block in pairs])


def task_of(function: Callable[..., Any], source: tuple[str, int, Any, Any], *arguments: Any) -> Any:
    """A reference to function(partition, *arguments); `source` is one of sources_of."""
    noun, number, seen, block = source
    return _on_partition.remote(function, noun, number, seen, *block, *arguments)


class Partition(NamedTuple):
    """The rows of a partition, without their features."""

    number: int
    """The number of the partition; those of X_val follow those of X."""
    here: Any
    """A reference. Ray reruns the tasks that lead to it if it is lost."""


class RayLabelled:
    """Partitions whose labels are in Ray's object store; see Labelled. Every partition is a process."""

    def __init__(self, blocks: Blocks, n_rows: list[int], partitions: Sequence[Partition]) -> None:
        """`partitions` are those with rows."""
        self.blocks: Blocks = blocks
        self.n_rows = n_rows
        self.partitions = partitions
        self.numbers = [part.number for part in partitions]

    @classmethod
    def of(cls, blocks: RayBlocks, name_of_y: str) -> tuple[Gathered, RayLabelled]:
        """The labels of partitions, and their form: vectors without rows."""
        found = [task_of(labels_and_seen, source) for source in sources_of(blocks)]
        outlines = fetched([_outline_of.remote(of) for of in found])
        blocks.seen = [seen for _, seen in outlines]
        outline = joined(blocks.noun, [labels for labels, _ in outlines], name_of_y)
        form = Form.of(outline)
        full = [(i, found[i]) for i, n in enumerate(outline.n_rows) if n > 0]
        partitions = [Partition(i, _gathered_from.remote(of, form)) for i, of in full]
        return outline, cls(blocks, outline.n_rows, partitions)

    def step(self, function: Callable[..., Any], *arguments: Any, each: Sequence[Any] | None = None) -> Any:
        """See Labelled."""
        own = [() if each is None else (each[i],) for i in range(len(self.partitions))]
        shared = ray.put((function, arguments))  # it travels once
        after: list[Any] = []

        def advanced(known: tuple[Any, ...]) -> list[Outcome]:
            so_far = ray.put(known)
            pairs = zip(self.partitions, own, strict=True)
            stepped = [_advance.remote(part.here, of, shared, so_far) for part, of in pairs]
            after[:] = [here for here, _ in stepped]
            return fetched([outcome for _, outcome in stepped])

        _, found = agreed(advanced)
        return self._with(after), found

    def over(
        self, function: Callable[..., Any], arguments_of: Callable[..., Sequence[tuple[Any, ...]]], *common: Any,
        each: Sequence[Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """See Labelled."""
        shared = ray.put((function, arguments_of, common))
        places = {number: i for i, number in enumerate(self.numbers)}
        tasks = []
        for number, source in enumerate(sources_of(self.blocks)):
            place = places.get(number)
            here = None if place is None else self.partitions[place].here
            own = () if each is None else (None if place is None else each[place],)
            tasks.append(task_of(pass_over, source, here, own, shared))
        return fetched(tasks)

    def with_start(self, start_scores: Callable[[Any], Array | None]) -> RayLabelled:
        """See Labelled."""
        sources, scores = sources_of(self.blocks), ray.put(start_scores)
        return self._with([task_of(score_rows, sources[part.number], part.here, scores) for part in self.partitions])

    def followed_by(self, validation: RayLabelled) -> RayLabelled:
        """See Labelled."""
        n = len(self.n_rows)
        following = [part._replace(number=n + part.number) for part in validation.partitions]
        both = WithValidation(self.blocks, validation.blocks, n)
        return RayLabelled(both, self.n_rows + validation.n_rows, [*self.partitions, *following])

    def _with(self, after: Sequence[Any]) -> RayLabelled:
        pairs = zip(self.numbers, after, strict=True)
        return RayLabelled(self.blocks, self.n_rows, [Partition(*pair) for pair in pairs])


class RayShard:
    """An actor with one shard for each objective: the members of a model need not have processes of their own."""

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}

    def hold(self, key: int, recipe: Recipe, n_threads: int, *parts: Part) -> None:
        """Make the shard of an objective."""
        self._shards[key] = make_shard(Shard, recipe, parts, n_threads)

    def answer(self, key: int, message: Message) -> Reply:
        """The reply of a shard; see Shard."""
        return self._shards[key].answer(message)


class Actors:
    """The actors of a fit. One that is lost is replaced once, whoever notices it first."""

    def __init__(self, n: int) -> None:
        self._actors = [self._new() for _ in range(n)]
        self._one_at_a_time = threading.Lock()

    @staticmethod
    def _new() -> Any:
        # Actors hold rows for the whole fit. If they reserved CPUs, no task could run beside them.
        options = {"num_cpus": 0, "max_concurrency": CALLS_AT_ONCE, "scheduling_strategy": "SPREAD"}
        return ray.remote(RayShard).options(name=f"{NAME}-{uuid.uuid4().hex}", **options).remote()

    def __len__(self) -> int:
        return len(self._actors)

    def __getitem__(self, i: int) -> Any:
        return self._actors[i]

    def replace(self, i: int, lost: Any) -> None:
        """Start a new actor, unless another objective has done so."""
        with self._one_at_a_time:
            if self._actors[i] is lost:
                self._actors[i] = self._new()

    def close(self) -> None:
        """End all actors, which frees their memory."""
        for actor in self._actors:
            ray.kill(actor)


class RayShards:
    """The shards of an objective, in actors; see Shards."""

    def __init__(self, key: int, actors: Actors, shares: Mapping[int, Any], hold: Callable[[Any, Any], Any]) -> None:
        """shares: the partitions of each actor. hold(actor, partitions): let an actor make the shard of some."""
        self._key = key
        self._actors = actors
        self._shares = shares
        self._hold = hold
        self._holders: dict[int, Any] = {}
        """The actors that have a shard of this objective."""

    def exchange(self, message: Message, catch_up: Callable[[], Message]) -> Reply:
        """See Shards."""
        n_lost = 0
        while True:
            reply, lost = self._sent(message)
            if reply.error is not None:
                raise reply.error
            if not reply.behind:
                return reply
            n_lost += len(lost)
            if n_lost > TRIES:
                raise RuntimeError(
                    f"{n_lost} actors were lost in one round, the last with partitions {self._shares[lost[-1]]}; if "
                    "they ran out of memory, use smaller partitions or more actors. Ray's logs say more."
                )
            message = catch_up()

    def _reach(self) -> list[int]:
        """Have actors without a shard make it; the numbers of those that were lost meanwhile."""
        new = {i: self._actors[i] for i in self._shares if self._holders.get(i) is not self._actors[i]}
        made = {i: self._hold(actor, self._shares[i]) for i, actor in new.items()}
        done, lost = self._answers(made, new)
        self._holders.update({i: new[i] for i in done})
        return lost

    def _sent(self, message: Message) -> tuple[Reply, list[int]]:
        """The combined reply of all shards, and the numbers of actors that were lost."""
        lost = self._reach()
        if lost:
            return Reply(behind=True), lost
        holders = dict(self._holders)
        asked = {i: actor.answer.remote(self._key, message) for i, actor in holders.items()}
        replies, lost = self._answers(asked, holders)
        return Reply(behind=True) if lost else add_up(list(replies.values())), lost

    def _answers(self, asked: Mapping[int, Any], actors: Mapping[int, Any]) -> tuple[dict[int, Any], list[int]]:
        """The results of calls of actors, and the numbers of lost actors, which are replaced."""
        answers, lost = {}, []
        for i, reference in asked.items():
            try:
                (answers[i],) = fetched([reference])
            except ray.exceptions.RayActorError:
                self._actors.replace(i, actors[i])
                lost.append(i)
        return answers, lost


class RayRows:
    """Rows in Ray's object store; see RowSource."""

    in_this_process = False
    shows_rows = True

    def __init__(self, n_actors: int, n_threads: int) -> None:
        self.actors = Actors(n_actors)
        self._n_threads = n_threads
        self._n_objectives = 0

    def blocks_of(self, given: Given) -> tuple[Blocks, Given] | None:
        """See RowSource."""
        return RayBlocks(given), Given(None, None)

    def labelled(self, blocks: Blocks, given: Given, name_of_y: str = "y") -> tuple[Gathered, RayLabelled]:
        """See RowSource. The partitions contain all vectors."""
        return RayLabelled.of(cast(RayBlocks, blocks), name_of_y)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[ClusterObjective, ClusterFitter]:
        """See RowSource."""
        labelled, n_threads = cast(RayLabelled, rows.table.labelled), self._n_threads
        recipe, reader = ray.put(recipe_of(rows)), ray.put(rows.reader)
        sources, firsts = sources_of(labelled.blocks), list(before(rows.table.n_train))
        self._n_objectives += 1
        key = self._n_objectives

        def part(i: int) -> Any:
            number, here = labelled.partitions[i]
            return task_of(encode_part, sources[number], here, reader, firsts[i], rows.shape, n_threads)

        def hold(actor: Any, partitions: Sequence[int]) -> Any:
            return actor.hold.remote(key, recipe, n_threads, *map(part, partitions))

        n_rows = [labelled.n_rows[number] for number in labelled.numbers]
        alike = {str(i): 1 for i in range(len(self.actors))}
        shares = share_out(n_rows, alike, [None] * len(n_rows))
        by_actor = {int(i): partitions for i, partitions in shares.items()}
        return bound(rows, learner, RayShards(key, self.actors, by_actor, hold))


class OnRay(BaseAGBM):
    """The common part of the estimators."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, offset: Any = None, offset_val: Any = None,
        watch: Mapping[str, Any] | None = None, n_actors: int | None = None, n_threads: int = 1, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to lists of references to Ray objects, one per partition, with the same rows in each list.

        n_actors is the number of processes that hold the rows, by default one per CPU of the cluster; n_threads is the
        number of threads of each.
        """
        refuse_arguments(unknown)
        rows = RayRows(int(ray.cluster_resources()["CPU"]) if n_actors is None else n_actors, n_threads)
        try:
            given = Given(X, y, sample_weight, offset)
            return self._fit(given, Given(X_val, y_val, sample_weight_val, offset_val), watch, rows)
        finally:
            rows.actors.close()

    def to_local(self) -> Any:
        """The same model as an AGBMRegressor or AGBMClassifier, which does not depend on Ray."""
        local: Any = (AGBMClassifier if isinstance(self, AGBMClassifier) else AGBMRegressor)()
        local.__dict__ = dict(self.__dict__)
        return local

    def save(self, path: Any) -> None:
        """Write the fitted model to a file; see AGBMClassifier.save."""
        self.to_local().save(path)


class RayAGBMRegressor(OnRay, AGBMRegressor):
    """AGBMRegressor on a Ray cluster, with the same parameters and, bit for bit, the same model."""


class RayAGBMClassifier(OnRay, AGBMClassifier):
    """AGBMClassifier on a Ray cluster, with the same parameters and, bit for bit, the same model."""


def kill_an_actor() -> None:
    """End the process of an actor of a fit that is running, as a crash would."""
    ray.kill(ray.get_actor(next(name for name in ray.util.list_named_actors() if name.startswith(NAME))))


def main() -> None:
    """Fit on the cluster, kill an actor in the middle, and compare the model file with that of a local fit."""
    X, y = load_breast_cancer(return_X_y=True)

    def kill_in_the_middle(record: Any) -> None:
        if record.iteration == 10:
            kill_an_actor()
            print("killed an actor after iteration 10")

    ray.init(num_cpus=2, include_dashboard=False)
    X_parts, y_parts = ([ray.put(part) for part in np.array_split(of, 4)] for of in (X, y))
    on_ray = RayAGBMClassifier(max_iter=20, callbacks=[kill_in_the_middle]).fit(X_parts, y_parts)
    local = AGBMClassifier(max_iter=20).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("ray.agbm", "local.agbm")]
        for model, file in zip((on_ray, local), files, strict=True):
            model.save(file)
        same = files[0].read_bytes() == files[1].read_bytes()
    print(f"4 partitions, 2 actors, {on_ray.best_iteration_} iterations, accuracy {local.score(X, y):.3f}")
    print("the model file has the same bytes as that of AGBMClassifier:", same)
    ray.shutdown()


if __name__ == "__main__":
    main()
