"""Objectives and fitters on a cluster from prepared rows, for any engine."""

from __future__ import annotations

import numpy as np

from ..._fit.sources import BlockRows
from ..._losses import Loss, is_row_wise, traits_of
from ..._tree import TreeLearner
from .growth import ClusterFitter
from .log import Log
from .messages import Shards
from .objective import ClusterObjective, Facts
from .shard_tasks import Recipe


def recipe_of(rows: BlockRows) -> Recipe:
    """What all shards consist of besides their rows; raises ValueError if the loss needs all rows in one place."""
    loss, start = rows.plan.loss, rows.begun.start
    if traits_of(loss).rows == "all":
        raise ValueError(
            f"loss={loss!r} compares every row with others, which other workers have; on a "
            "cluster, use loss='aft:normal' or 'piecewise_exponential', or fit AGBMSurvival on one machine."
        )
    if rows.plan.method.second_order:
        _check_row_wise(loss)
    constants = start if isinstance(start, np.ndarray) else None
    return Recipe(rows.reader.bins, rows.labels.joint(loss), constants, rows.plan.method.second_order)


def bound(rows: BlockRows, learner: TreeLearner, shards: Shards) -> tuple[ClusterObjective, ClusterFitter]:
    """The objective and the fitter for shards of all rows; see RowSource."""
    n_outputs, begun, n_train = rows.labels.n_outputs, rows.begun, sum(rows.table.n_train)
    log = Log(shards, n_outputs)
    if rows.digest is not None:
        rows.digest.merge(*log.ask("row_digest", ()).sums)
    facts = Facts(
        n_train, n_outputs, begun.train_weight, begun.validation_weight, begun.newton, begun.quantiles,
        begun.weight_step, begun.counts_rows, traits_of(rows.plan.loss).has_value,
    )  # fmt: skip
    return ClusterObjective(log, facts), ClusterFitter(learner, rows.reader.bins, log, n_train)


def _check_row_wise(loss: Loss) -> None:
    """The hessians of a user-defined loss may depend on other rows, which a worker does not have."""
    if not is_row_wise(loss):
        raise ValueError(
            f"loss={loss!r}: on a cluster, its hessian sees the rows of one worker at a time. If the hessian of a "
            "row depends on no other rows, say so with an attribute row_wise = True; else use second_order=False."
        )
