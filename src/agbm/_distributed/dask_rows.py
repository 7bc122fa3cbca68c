"""Rows in the partitions of Dask collections, as a fit needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from dask.delayed import delayed

from .._core.losses import Cox, Loss, is_built_in
from .._data.blocks import BlockReader, Blocks, Gathered
from .._label_steps import before
from .._preparation import BlockRows
from .._tree import TreeLearner
from .dask_blocks import DaskBlocks, call_named
from .dask_labels import DaskLabelled, sources_of
from .dask_shards import DaskShards, Held
from .dask_tasks import Recipe, encode_part, make_shard
from .growth import ClusterFitter
from .log import Log
from .objective import ClusterObjective, Facts


class DaskRows:
    """Rows in the partitions of Dask collections, which stay with the workers; see RowSource."""

    in_this_process = False

    def __init__(self, client: Any) -> None:
        self._client = client
        self._shards: list[DaskShards] = []

    def blocks_of(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Blocks, Any, Any, Any] | None:
        """See RowSource."""
        return DaskBlocks(self._client, X, y, sample_weight, offset), None, None, None

    def labelled(
        self, blocks: Blocks, y: Any, sample_weight: Any, offset: Any, name_of_y: str = "y"
    ) -> tuple[Gathered, DaskLabelled]:
        """See RowSource. The partitions contain y, weights and offsets."""
        return DaskLabelled.of(self._client, cast(DaskBlocks, blocks), name_of_y)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[ClusterObjective, ClusterFitter]:
        """See RowSource."""
        loss, bins, n_outputs, begun = rows.plan.loss, rows.reader.bins, rows.labels.n_outputs, rows.begun
        if isinstance(loss, Cox):
            raise ValueError(
                f"loss={loss!r} compares every row with others, which other workers have; on a "
                "cluster, use loss='aft:normal' or 'piecewise_exponential', or fit AGBMSurvival on one machine."
            )
        if rows.plan.second_order:
            _check_row_wise(loss)
        constants = begun.start if isinstance(begun.start, np.ndarray) else None
        recipe = Recipe(bins, rows.labels.joint(loss), constants, rows.plan.second_order)
        labelled, n_train = cast(DaskLabelled, rows.table.labelled), rows.table.n_train
        make = self._maker(labelled, n_train, rows.reader, recipe)
        n_rows = [labelled.n_rows[number] for number in labelled.numbers]
        self._shards.append(DaskShards(self._client, n_rows, make))
        log = Log(self._shards[-1], n_outputs)
        facts = Facts(
            sum(n_train), n_outputs, begun.train_weight, begun.validation_weight, begun.newton, begun.quantiles,
            begun.weight_step, begun.counts_rows,
        )  # fmt: skip
        return ClusterObjective(log, facts), ClusterFitter(learner, bins, log, sum(n_train))

    def _maker(
        self, labelled: DaskLabelled, n_train: Sequence[int], reader: BlockReader, recipe: Recipe
    ) -> Callable[[Sequence[int], str], Held]:
        """A function that has a worker make the shard of some partitions, of those with rows."""
        sources, call = sources_of(labelled.blocks), delayed(call_named, pure=False)
        shared = delayed(reader, traverse=False)  # all parts need it: it travels once, and not with each
        parts = []
        for part, first in zip(labelled.partitions, before(n_train), strict=True):
            noun, i, seen, block = sources[part.number]
            parts.append(call(encode_part, noun, i, seen, block, part.lazy, shared, first))
        client = self._client

        def make(partitions: Sequence[int], worker: str) -> Held:
            there = {"workers": [worker], "allow_other_workers": True}
            futures = client.compute([parts[i] for i in partitions], **there)
            shard = client.submit(make_shard, recipe, *futures, actor=True, pure=False, **there)
            return Held(worker, shard, dict(zip(partitions, futures, strict=True)))

        return make

    def close(self) -> None:
        """Let the workers drop all shards."""
        for shards in self._shards:
            shards.close()


def _check_row_wise(loss: Loss) -> None:
    """The hessians of a user-defined loss may depend on other rows, which a worker does not have."""
    if not (loss.constant_hessian or is_built_in(loss) or getattr(loss, "row_wise", False)):
        raise ValueError(
            f"loss={loss!r}: on a cluster, its hessian sees the rows of one worker at a time. If the hessian of a "
            "row depends on no other rows, say so with an attribute row_wise = True; else use second_order=False."
        )
