"""Rows in the partitions of Dask collections, as a fit needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import distributed
from dask.delayed import delayed

from ..._data.blocks import Block, BlockReader, Blocks, Gathered, RowsHere
from ..._data.digest import Shape
from ..._data.rows import Given
from ..._fit.label_steps import before
from ..._fit.sources import BlockRows
from ..._tree import TreeLearner
from .binding import bound, recipe_of
from .dask_blocks import DaskBlocks, names_of
from .dask_labels import DaskLabelled
from .dask_shards import DaskShard, DaskShards, Held
from .dask_workers import Workers
from .growth import ClusterFitter
from .objective import ClusterObjective
from .partition_tasks import call_named, sources_of
from .shard_tasks import Part, Recipe, encode_part, make_shard


class DaskSource:
    """Rows in the partitions of Dask collections, which stay with the workers; see RowSource."""

    in_this_process = False
    shows_rows = True

    def __init__(self, client: distributed.Client) -> None:
        self._workers = Workers(client)
        self._shards: list[DaskShards] = []

    def blocks_of(self, given: Given) -> tuple[Blocks, Given] | None:
        return DaskBlocks(self._workers, given), Given(None, None)

    def labelled(self, blocks: Blocks, given: Given, name_of_y: str = "y") -> tuple[Gathered, DaskLabelled]:
        """The partitions with the vectors of their rows, all of which they contain."""
        return DaskLabelled.of(self._workers, cast(DaskBlocks, blocks), name_of_y)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[ClusterObjective, ClusterFitter]:
        labelled = cast(DaskLabelled, rows.table.labelled)
        make = self._maker(labelled, rows)
        n_rows = [labelled.n_rows[number] for number in labelled.numbers]
        names = names_of(labelled.blocks)
        self._shards.append(DaskShards(self._workers, n_rows, [names[number] for number in labelled.numbers], make))
        return bound(rows, learner, self._shards[-1])

    def _maker(self, labelled: DaskLabelled, rows: BlockRows) -> Callable[[Sequence[int], str], Held]:
        """A function that lets a worker make the shard of some of the partitions with rows."""
        sources, call = sources_of(labelled.blocks), delayed(call_named, pure=False)
        shared = delayed(rows.reader, traverse=False)  # all parts need it: it travels once, and not with each
        parts = []
        for part, first in zip(labelled.partitions, before(rows.table.n_train), strict=True):
            noun, i, seen, block = sources[part.number]
            parts.append(call(encode_here, noun, i, seen, block, part.lazy, shared, first, rows.shape))
        client, recipe = self._workers.client, recipe_of(rows)

        def make(partitions: Sequence[int], worker: str) -> Held:
            there = {"workers": [worker], "allow_other_workers": True}
            futures = client.compute([parts[i] for i in partitions], **there)
            shard = client.submit(make_dask_shard, recipe, *futures, actor=True, pure=False, **there)
            return Held(worker, shard, dict(zip(partitions, futures, strict=True)))

        return make

    def close(self) -> None:
        """Let the workers drop all shards."""
        for shards in self._shards:
            shards.close()


def encode_here(block: Block, here: RowsHere, reader: BlockReader, first: int, shape: Shape | None) -> Part:
    """A task: encode a partition; see encode_part."""
    return encode_part(block, here, reader, first, shape, _threads_here())


def make_dask_shard(recipe: Recipe, *parts: Part) -> DaskShard:
    """A task: join parts to a shard."""
    return make_shard(DaskShard, recipe, parts, _threads_here())


def _threads_here() -> int:
    """The number of threads of the worker that runs this task."""
    try:
        return int(distributed.get_worker().state.nthreads)
    except ValueError:  # not a worker
        return 1
