"""Rows in the partitions of Dask collections, as a fit needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from dask.delayed import delayed

from .._core.losses import Cox, Loss, is_built_in
from .._core.objective import LocalObjective
from .._core.sums import weight_step
from .._data.blocks import Blocks, WithValidation
from .._preparation import BlockRows
from .._tree import TreeLearner
from .dask_blocks import DaskBlocks, call_named
from .dask_shards import DaskShards, Held
from .dask_tasks import PartPlan, Recipe, RowReader, encode_part, make_shard
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

    def bind(
        self, rows: BlockRows, learner: TreeLearner, local: LocalObjective
    ) -> tuple[ClusterObjective, ClusterFitter]:
        """See RowSource."""
        loss, bins, n_outputs = local.loss, rows.reader.bins, rows.labels.n_outputs
        if isinstance(loss, Cox):
            raise ValueError(
                f"loss={rows.start_scores.loss!r} compares every row with others, which other workers have; on a "
                "cluster, use loss='aft:normal' or 'piecewise_exponential', or fit AGBMSurvival on one machine."
            )
        if local.second_order:
            _check_row_wise(rows.start_scores.loss)
        recipe = Recipe(bins, loss, rows.constants, local.second_order)
        make = self._maker(rows, recipe, local)
        self._shards.append(DaskShards(self._client, rows.table.places.n_rows, make))
        log = Log(self._shards[-1], n_outputs)
        facts = Facts(
            local.n_train, n_outputs, local.train_weight_sum, local.validation_weight_sum,
            local.second_order and not loss.constant_hessian, local.quantiles,
            None if local.train_weight is None else weight_step(local.train_weight), local.counts_rows,
        )  # fmt: skip
        return ClusterObjective(log, facts), ClusterFitter(learner, bins, log, local.n_train)

    def _maker(self, rows: BlockRows, recipe: Recipe, local: LocalObjective) -> Callable[[Sequence[int], str], Held]:
        """A function that has a worker make the shard of some partitions."""
        found: Any = rows.table.blocks
        sources = {"": found}
        if isinstance(found, WithValidation):
            sources = {"": cast(Any, found.training), "X_val: ": cast(Any, found.validation)}
        blocks = [
            (f"{of}{source.noun}", i, seen, block)
            for of, source in sources.items()
            for i, (seen, block) in enumerate(zip(source.seen, source.blocks, strict=True))
        ]
        places = rows.table.places
        plans = [PartPlan.of(of_block, local) for of_block in places.of_blocks()]
        # All parts need it: it travels once, and not with each.
        reader = delayed(RowReader(rows.reader, rows.labels, rows.start_scores, rows.has_offsets), traverse=False)
        call = delayed(call_named, pure=False)
        parts = [
            call(encode_part, noun, i, seen, block, reader, plan)
            for (noun, i, seen, block), plan in zip(blocks, plans, strict=True)
        ]
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
