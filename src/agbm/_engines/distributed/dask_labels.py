"""Labels of the partitions of Dask collections. They stay with the workers, which evaluate what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dask.delayed import Delayed, delayed
from distributed import Future

from ..._base.collectives import Outcome
from ..._base.sums import Array
from ..._data.blocks import Blocks, Gathered, WithValidation, joined
from .dask_blocks import DaskBlocks, names_of
from .dask_workers import Workers
from .partition_tasks import Form, advance, agreed, call_named, gathered_from, pass_over, score_rows, sources_of


class Partition(NamedTuple):
    """The rows of a partition, without their features."""

    number: int
    """The number of the partition; those of X_val follow those of X."""
    lazy: Delayed
    """A delayed object that makes the rows from the partition whenever they are needed."""
    now: Future[Any]
    """A future that keeps the rows in the memory of a worker."""


class DaskLabelled:
    """Partitions of Dask collections, whose labels are on the workers; see Labelled. Every partition is a process."""

    def __init__(self, workers: Workers, blocks: Blocks, n_rows: list[int], partitions: Sequence[Partition]) -> None:
        """`partitions` are those with rows."""
        self._workers = workers
        self._client = workers.client
        self.blocks: Blocks = blocks
        self.n_rows = n_rows
        self.partitions = partitions

    @classmethod
    def of(cls, workers: Workers, blocks: DaskBlocks, name_of_y: str) -> tuple[Gathered, DaskLabelled]:
        """The labels of partitions, and their form: vectors without rows."""
        lazy = [delayed(labels) for labels in blocks.lazy_labels()]
        now = workers.client.compute(lazy)
        outlines = blocks.see(now)
        outline = joined(blocks.noun, outlines, name_of_y)
        form = delayed(Form.of(outline), traverse=False)
        gathered = delayed(gathered_from, pure=False)
        full = [i for i, n in enumerate(outline.n_rows) if n > 0]
        chains = {i: (gathered(lazy[i], form), gathered(now[i], form)) for i in full}
        futures = workers.client.compute([chains[i][1] for i in full])
        partitions = [Partition(i, chains[i][0], future) for i, future in zip(full, futures, strict=True)]
        return outline, cls(workers, blocks, outline.n_rows, partitions)

    @property
    def numbers(self) -> list[int]:
        return [partition.number for partition in self.partitions]

    def step(self, function: Callable[..., Any], *arguments: object, each: Sequence[Any] | None = None) -> Any:
        own = [() if each is None else (each[i],) for i in range(len(self.partitions))]
        shared = delayed((function, arguments), traverse=False)  # it travels once
        outcome_of, rows_after = (delayed(of, pure=False) for of in (outcome_of_step, rows_after_step))
        pairs = list(zip(self.partitions, own, strict=True))

        def advanced(known: tuple[Any, ...]) -> list[Outcome]:
            so_far = delayed(known, traverse=False)
            return self._gathered([outcome_of(part.now, of, shared, so_far) for part, of in pairs], self.numbers)

        known, found = agreed(advanced)
        so_far = delayed(known, traverse=False)
        # Once more, for the rows: to keep them all the time would need a second task for every outcome.
        after = self._client.compute([rows_after(part.now, of, shared, so_far) for part, of in pairs])
        partitions = [
            Partition(part.number, rows_after(part.lazy, of, shared, so_far), now)
            for (part, of), now in zip(pairs, after, strict=True)
        ]
        return self._with(partitions), found

    def over(
        self, function: Callable[..., Any], arguments_of: Callable[..., Sequence[tuple[Any, ...]]], *common: object,
        each: Sequence[Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        shared = delayed((function, arguments_of, common), traverse=False)
        call = delayed(call_named, pure=False)
        places = {part.number: i for i, part in enumerate(self.partitions)}
        tasks = []
        for number, (noun, i, seen, block) in enumerate(sources_of(self.blocks)):
            place = places.get(number)
            here = None if place is None else self.partitions[place].now
            own = () if each is None else (None if place is None else each[place],)
            tasks.append(call(pass_over, noun, i, seen, block, here, own, shared))
        return self._gathered(tasks, range(len(tasks)))

    def with_start(self, start_scores: Callable[[Any], Array | None]) -> DaskLabelled:
        scores, call = delayed(start_scores, traverse=False), delayed(call_named, pure=False)
        sources = sources_of(self.blocks)

        def after(part: Partition, here: Delayed | Future[Any]) -> Any:
            noun, i, seen, block = sources[part.number]
            return call(score_rows, noun, i, seen, block, here, scores)

        futures = self._client.compute([after(part, part.now) for part in self.partitions])
        partitions = [
            Partition(part.number, after(part, part.lazy), now)
            for part, now in zip(self.partitions, futures, strict=True)
        ]
        return self._with(partitions)

    def followed_by(self, validation: DaskLabelled) -> DaskLabelled:
        n = len(self.n_rows)
        following = [part._replace(number=n + part.number) for part in validation.partitions]
        both = WithValidation(self.blocks, validation.blocks, n)
        return DaskLabelled(self._workers, both, self.n_rows + validation.n_rows, [*self.partitions, *following])

    def _with(self, partitions: Sequence[Partition]) -> DaskLabelled:
        return DaskLabelled(self._workers, self.blocks, self.n_rows, partitions)

    def _gathered(self, tasks: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
        """The results of tasks for partitions with these numbers."""
        names = names_of(self.blocks)
        futures = self._client.compute(tasks)
        return self._workers.gathered({names[i]: future for i, future in zip(numbers, futures, strict=True)})


def outcome_of_step(*arguments: Any) -> Outcome:
    """A task: the outcome of a step, as far as it gets; see advance."""
    return advance(*arguments)[1]


def rows_after_step(*arguments: Any) -> Any:
    """A task: the rows after a step."""
    return advance(*arguments)[0]
