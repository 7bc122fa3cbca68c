"""Partitions of Dask collections as blocks of rows, read by the workers; see blocks.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from dask.delayed import delayed

import distributed

from .._data.blocks import Block, Labels, Seen
from .partition_tasks import call_named, labels_and_seen, outline_of


class DaskBlocks:
    """Partitions of Dask collections, read by the workers; see Blocks."""

    noun = "partition"

    def __init__(self, client: Any, X: Any, y: Any, weight: Any, offset: Any = None) -> None:
        self._client = client
        parts = {"X": partitions_of("X", X)}
        for name, given in (("y", y), ("sample_weight", weight), ("offset", offset)):
            if given is not None:
                parts[name] = partitions_of(name, given)
                if len(parts[name]) != len(parts["X"]):
                    raise ValueError(
                        f"{name} has {len(parts[name])} partitions, X has {len(parts['X'])}; they must have as many, "
                        "with the same rows in each."
                    )
        missing = [None] * len(parts["X"])
        columns = [parts.get(name, missing) for name in ("X", "y", "sample_weight", "offset")]
        make = delayed(Block, pure=True)
        self.blocks = [make(*row) for row in zip(*columns, strict=True)]
        self.seen: list[Seen | None] = [None] * len(self.blocks)

    def lazy_labels(self) -> list[Any]:
        """For each partition, a delayed object: its labels, and what it is recognised by."""
        call = delayed(call_named, pure=False)
        return [call(labels_and_seen, self.noun, i, None, block) for i, block in enumerate(self.blocks)]

    def see(self, labels: Sequence[Any]) -> list[Labels]:
        """Recognise partitions from now on; returns their labels without rows. `labels` are futures of lazy_labels."""
        outline = delayed(outline_of, pure=False)
        futures = self._client.compute([outline(future) for future in labels])
        distributed.wait(futures)
        raise_error_of(dict(enumerate(labels)))
        found = cast(list[Any], self._client.gather(futures))
        self.seen = [seen for _, seen in found]
        return [labels for labels, _ in found]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        call = delayed(call_named, pure=False)
        tasks = [
            call(function, self.noun, i, seen, block, *(() if arguments is None else arguments[i]))
            for i, (seen, block) in enumerate(zip(self.seen, self.blocks, strict=True))
        ]
        futures = self._client.compute(tasks)
        distributed.wait(futures)
        raise_error_of(dict(enumerate(futures)))
        return cast(list[Any], self._client.gather(futures))


def raise_error_of(futures: Mapping[int, Any]) -> None:
    """Raise the first error among futures by the number of their partition, naming the partition."""
    for number, future in futures.items():
        if future is None or future.status != "error":  # None: a shard has the partition
            continue
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            raise RuntimeError(
                f"partition {number}: all workers that got it have died, the last was {error.last_worker.address}; if "
                "they ran out of memory, use smaller partitions or larger workers. Their logs say more."
            ) from error
        if "partition " not in str(error):
            error.add_note(f"This was partition {number}.")
        raise error


def partitions_of(name: str, given: Any) -> list[Any]:
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
