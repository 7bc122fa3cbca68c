"""Partitions of Dask collections as blocks of rows, read by the workers; see `_data.blocks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from dask.delayed import delayed
from dask.sizeof import sizeof
from dask.utils import format_bytes

from ..._data.blocks import VECTORS, Block, Blocks, Labels, Seen, WithValidation
from ..._data.rows import Given
from .dask_workers import Workers
from .partition_tasks import call_named, labels_and_seen, outline_of


class DaskBlocks:
    """Partitions of Dask collections, read by the workers; see Blocks."""

    noun = "partition"

    def __init__(self, workers: Workers, given: Given) -> None:
        self._workers = workers
        parts = {"X": partitions_of("X", given.X)}
        for name, vector in zip(VECTORS, given[1:], strict=True):
            if vector is not None:
                parts[name] = partitions_of(name, vector)
                if len(parts[name]) != len(parts["X"]):
                    raise ValueError(
                        f"{name} has {len(parts[name])} partitions, X has {len(parts['X'])}; they must have as many, "
                        "with the same rows in each."
                    )
        missing = [None] * len(parts["X"])
        columns = [parts.get(name, missing) for name in ("X", *VECTORS)]
        make = delayed(Block, pure=True)
        self.blocks = [make(*row) for row in zip(*columns, strict=True)]
        self.seen: list[Seen | None] = [None] * len(self.blocks)
        self.names = [f"{self.noun} {i}" for i in range(len(self.blocks))]
        """Names for messages, with sizes once these are known."""

    def lazy_labels(self) -> list[Any]:
        """For each partition, a delayed object: its labels, and the checksum that identifies it."""
        call = delayed(call_named, pure=False)
        return [call(read, self.noun, i, None, block) for i, block in enumerate(self.blocks)]

    def see(self, labels: Sequence[Any]) -> list[Labels]:
        """Record checksums of partitions; returns their labels without rows. `labels` are futures of lazy_labels."""
        task = delayed(outline_and_size, pure=False)
        found = self._gathered([task(future) for future in labels])
        self.seen = [seen for _, seen, _ in found]
        self.names = [
            f"{name} ({outline.n_rows:,} rows, {format_bytes(size)})"
            for name, (outline, _, size) in zip(self.names, found, strict=True)
        ]
        return [outline for outline, _, _ in found]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        call = delayed(call_named, pure=False)
        tasks = [
            call(function, self.noun, i, seen, block, *(() if arguments is None else arguments[i]))
            for i, (seen, block) in enumerate(zip(self.seen, self.blocks, strict=True))
        ]
        return self._gathered(tasks)

    def _gathered(self, tasks: Sequence[Any]) -> list[Any]:
        futures = self._workers.client.compute(tasks)
        return self._workers.gathered(dict(zip(self.names, futures, strict=True)))


def read(block: Block) -> tuple[Labels, Seen, int]:
    """A task: the labels of a partition, a checksum that identifies it, and the size of its features in bytes."""
    return *labels_and_seen(block), sizeof(block.X)


def outline_and_size(found: tuple[Labels, Seen, int]) -> tuple[Labels, Seen, int]:
    """A task: the result of `read`, without rows."""
    labels, seen, size = found
    return *outline_of((labels, seen)), size


def names_of(blocks: Blocks) -> list[str]:
    """The names of all partitions in messages."""
    if isinstance(blocks, WithValidation):
        return [*names_of(blocks.training), *(f"X_val: {name}" for name in names_of(blocks.validation))]
    return cast(DaskBlocks, blocks).names


def partitions_of(name: str, given: object) -> list[Any]:
    """The partitions of a Dask collection as delayed objects."""
    if hasattr(given, "to_delayed"):
        if getattr(given, "ndim", 1) == 2 and hasattr(given, "rechunk"):
            given = given.rechunk({1: -1})  # whole rows
        # Not optimised: for columns in files, Dask's optimiser may merge partitions of y but not those of X.
        return list(np.ravel(np.asarray(given.to_delayed(optimize_graph=False), dtype=object)))
    if isinstance(given, (list, tuple)) and given and all(hasattr(part, "__dask_graph__") for part in given):
        return list(given)
    raise TypeError(
        f"{name} must be a Dask DataFrame or Array, or a list of delayed partitions, got {type(given).__name__}; a "
        "table in memory is for AGBMClassifier and AGBMRegressor."
    )
