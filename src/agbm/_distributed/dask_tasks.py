"""Tasks for Dask workers: partitions to codes, and codes to shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

import distributed

from .._core.losses import Array, Loss
from .._core.objective import LocalObjective, Outputs, start_function
from .._core.weights import Weights
from .._core.weights import joined as joined_weights
from .._data.blocks import UNUSED, Block, BlockReader, dense
from .._data.offsets import added
from .._labels import Labels, StartScores
from .._tree.bins import Bins
from .dask_blocks import Bits, packed, unpacked
from .dask_shards import DaskShard


class PartPlan(NamedTuple):
    """Which rows of a partition are used for training and validation; small enough to send."""

    n_rows: int
    used: Bits | None
    """None if all rows are used."""
    validation: Bits | None
    """Which of the used rows are validation rows; None if there are none."""
    weights: Weights | None
    """The weights of the training rows."""
    validation_weight: Array | None
    first: int
    """The number of the first training row among all training rows."""

    @classmethod
    def of(cls, places: NDArray[np.uint32], rows: LocalObjective) -> PartPlan:
        """From the positions of the rows of a partition among all rows."""
        used = places != UNUSED
        kept = places[used]
        validation = kept >= rows.n_train
        training = kept[~validation]
        weights, validation_weight = rows.train_weights, rows.validation_weight
        return cls(
            len(places),
            None if used.all() else packed(used),
            packed(validation) if validation.any() else None,
            None if weights is None else weights[training],
            None if validation_weight is None else validation_weight[kept[validation] - rows.n_train],
            int(training[0]) if len(training) else 0,
        )

    def rows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows are used, and which of these are validation rows."""
        used = np.full(self.n_rows, True) if self.used is None else unpacked(self.used)
        n_used = np.count_nonzero(used)
        return used, np.full(n_used, False) if self.validation is None else unpacked(self.validation)


class Part(NamedTuple):
    """A partition with codes for its features. Each pair is (training rows, validation rows)."""

    codes: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    y: tuple[Array, Array]
    weights: Weights | None
    """The weights of the training rows."""
    validation_weight: Array | None
    start: tuple[Array, Array] | None
    """Scores of an init model, offsets, or their sum; None if there are neither."""
    first: int


class RowReader(NamedTuple):
    """How partitions become codes, labels and start scores; it is sent to workers."""

    reader: BlockReader
    labels: Labels
    start_scores: StartScores
    has_offsets: bool

    def start_of(self, block: Block, used: NDArray[np.bool_]) -> Array | None:
        """The scores that the used rows of a partition start from, without constants; None if there are none."""
        if used.any():
            offset = self.labels.encode_offset(block.offset, len(used))
            scores = added(self.start_scores(block.X), offset)
            return None if scores is None else scores[:, used]
        # Neither checks of offsets nor init models accept no rows.
        there_are = self.has_offsets or not isinstance(self.start_scores.init, str)
        return np.empty((self.labels.n_outputs, 0)) if there_are else None


def encode_part(block: Block, rows: RowReader, plan: PartPlan) -> Part:
    """A task: encode a partition."""
    used, validation = plan.rows()
    codes = rows.reader.bins.encode(rows.reader.numbers(block, used), _threads_here()).columns()
    start = rows.start_of(block, used)
    if used.any():
        # Labels of rows without weight need not belong to a class.
        y = rows.labels.encode_validation(np.asarray(dense(block.y))[used], len(validation))
    else:  # checks of labels do not accept no rows
        y = rows.labels.of_no_rows()

    def both(x: NDArray[Any]) -> tuple[Any, Any]:
        return np.ascontiguousarray(x[..., ~validation]), np.ascontiguousarray(x[..., validation])

    return Part(
        both(codes),
        both(y),
        plan.weights,
        plan.validation_weight,
        None if start is None else both(start),
        plan.first,
    )


class Recipe(NamedTuple):
    """What a shard consists of besides its rows."""

    bins: Bins
    loss: Loss | Outputs
    start: Array | None
    """Constants, which the start scores of the parts are added to; None if these are values of an init model."""
    second_order: bool


def make_shard(recipe: Recipe, *parts: Part) -> DaskShard:
    """A task: join parts to a shard."""

    def joined(pairs: Sequence[tuple[Any, Any]]) -> Any:
        return np.concatenate([pair[0] for pair in pairs] + [pair[1] for pair in pairs], axis=-1)

    y = joined([part.y for part in parts])
    n_train = sum(part.codes[0].shape[-1] for part in parts)
    weights = validation_weight = None
    if parts[0].weights is not None:
        weights = joined_weights([cast(Weights, part.weights) for part in parts])
    if parts[0].validation_weight is not None:
        validation_weight = np.concatenate([cast(Array, part.validation_weight) for part in parts])
    start: Any = None if parts[0].start is None else joined([cast(Any, part.start) for part in parts])
    if recipe.start is not None:
        start = start_function(recipe.start, start, y.shape[-1])
    n_threads = _threads_here()
    loss = recipe.loss.with_threads(n_threads) if hasattr(recipe.loss, "with_threads") else recipe.loss
    objective = LocalObjective(loss, y, n_train, start, weights, recipe.second_order, n_threads, validation_weight)
    codes = [part.codes[0] for part in parts] + [part.codes[1] for part in parts]
    first_rows = [(part.first, part.codes[0].shape[-1]) for part in parts]
    return DaskShard(objective, recipe.bins, codes, first_rows, n_threads)


def _threads_here() -> int:
    """The number of threads of the worker that runs this task."""
    try:
        return int(distributed.get_worker().state.nthreads)
    except ValueError:  # not a worker
        return 1
