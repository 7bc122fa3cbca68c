"""What the processes of a cluster do to make shards, for any engine: partitions to codes, and codes to shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.weights import Weights
from ..._base.weights import joined as joined_weights
from ..._core.objective import LocalObjective, Outputs, start_function
from ..._data.blocks import UNUSED, Block, BlockReader, RowsHere
from ..._data.digest import RowDigest, Shape, taken, vectors_of
from ..._losses import Loss, with_threads
from ..._tree.bins import Bins
from .shard import Shard

S = TypeVar("S", bound=Shard)


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
    by_number: NDArray[np.uint32]
    """The training rows in the order of their numbers, which start at `first`."""
    digest: RowDigest | None


def encode_part(
    block: Block, here: RowsHere, reader: BlockReader, first: int, shape: Shape | None, n_threads: int
) -> Part:
    """A task: encode a partition; `first` is the number of its first training row among all of them.

    `shape` is that of the digest of all rows, if there is to be one.
    """
    (places,) = here.places.of_blocks()
    used, rows, n_train = places != UNUSED, here.rows, here.n_train
    n_unseen = 0 if here.part is None else here.part.n_unseen
    n_seen = rows.n - n_unseen
    X = reader.numbers(block, used)
    codes = np.empty((reader.bins.n_features, len(X)), dtype=np.uint8)
    codes[:, places[used]] = reader.bins.encode(X, n_threads).columns()
    digest = None if shape is None else RowDigest.of(shape)
    if digest is not None:
        digest.add(here.first, X, taken(vectors_of(rows, digest.shape), places[used]), n_threads)
    return Part(
        (np.ascontiguousarray(codes[:, :n_train]), np.ascontiguousarray(codes[:, n_train:n_seen])),
        _divided(rows.y, n_train, n_seen),
        here.train_weights,
        rows.validation_weight(n_train, n_unseen),
        None if rows.start is None else _divided(rows.start, n_train, n_seen),
        first,
        np.argsort(rows.X[:n_train]).astype(np.uint32),
        digest,
    )


def _divided(x: Array, n_train: int, n_seen: int) -> tuple[Array, Array]:
    return x[..., :n_train], x[..., n_train:n_seen]


class Recipe(NamedTuple):
    """What a shard consists of besides its rows."""

    bins: Bins
    loss: Loss | Outputs
    start: Array | None
    """Constants, which the start scores of the parts are added to; None if these are values of an init model."""
    second_order: bool


def make_shard(kind: type[S], recipe: Recipe, parts: Sequence[Part], n_threads: int) -> S:
    """A task: join parts to a shard, of the class that an engine uses."""

    def joined(pairs: Sequence[tuple[Any, Any]]) -> Any:
        return np.concatenate([pair[0] for pair in pairs] + [pair[1] for pair in pairs], axis=-1)

    y = joined([part.y for part in parts])
    n_train = sum(part.codes[0].shape[-1] for part in parts)
    weights = validation_weight = None
    if parts[0].weights is not None:
        weights = joined_weights([cast(Weights, part.weights) for part in parts])
    of_validation = [part.validation_weight for part in parts if part.validation_weight is not None]
    if of_validation:  # parts without validation rows have none
        validation_weight = np.concatenate(of_validation)
    start: Any = None if parts[0].start is None else joined([cast(Any, part.start) for part in parts])
    if recipe.start is not None:
        start = start_function(recipe.start, start, y.shape[-1])
    loss = with_threads(recipe.loss, n_threads)
    objective = LocalObjective(loss, y, n_train, start, weights, recipe.second_order, n_threads, validation_weight)
    codes = [part.codes[0] for part in parts] + [part.codes[1] for part in parts]
    numbers = [(part.first, part.by_number) for part in parts]
    return kind(objective, recipe.bins, codes, numbers, n_threads, _joined([part.digest for part in parts]))


def _joined(digests: Sequence[RowDigest | None]) -> RowDigest | None:
    if digests[0] is None:
        return None
    total = RowDigest.of(digests[0].shape)
    for digest in digests:
        assert digest is not None
        total.merge(digest.blocks, digest.columns)
    return total


def share_out(rows: Sequence[int], threads: Mapping[str, int], at: Sequence[str | None]) -> dict[str, tuple[int, ...]]:
    """Assign partitions to workers, with about the same number of rows per thread.

    `at` has the current worker of each partition. Partitions stay there unless the worker has too many rows.
    """
    fair = {worker: sum(rows) * n / sum(threads.values()) for worker, n in threads.items()}
    load = dict.fromkeys(threads, 0.0)
    shares: dict[str, list[int]] = {worker: [] for worker in threads}

    def give(worker: str, partition: int) -> None:
        shares[worker].append(partition)
        load[worker] += rows[partition]

    unassigned = []
    for partition, worker in enumerate(at):
        if worker in shares and load[worker] + rows[partition] / 2 <= fair[worker]:
            give(worker, partition)
        else:
            unassigned.append(partition)
    for partition in sorted(unassigned, key=lambda p: -rows[p]):
        give(min(threads, key=lambda w: (load[w] + rows[partition]) / threads[w]), partition)
    return {worker: tuple(sorted(partitions)) for worker, partitions in shares.items() if partitions}
