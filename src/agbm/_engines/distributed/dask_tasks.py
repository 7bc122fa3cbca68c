"""Tasks for Dask workers, which use all threads of a worker; see shard_tasks.py."""

from __future__ import annotations

import distributed

from ..._data.blocks import Block, BlockReader, RowsHere
from ..._data.digest import Shape
from .dask_shards import DaskShard
from .shard_tasks import Part, Recipe, encode_part, make_shard


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
