"""What the processes of a cluster do with partitions before there are shards, for any engine.

An engine runs these functions where the partitions are. The rows of a partition without its features stay there as
well; see Labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from ..._base.collectives import Outcome, evaluate, merged
from ..._base.sums import Array
from ..._data.blocks import (
    Block,
    Gathered,
    Labels,
    RowsHere,
    Seen,
    WithValidation,
    labels_of,
    naming,
    started_from,
)
from ..._data.rows import Rows


def labels_and_seen(block: Block) -> tuple[Labels, Seen]:
    """A task: the labels and weights of a partition, and a checksum that identifies it."""
    return labels_of(block), Seen.of(block)


def outline_of(found: tuple[Labels, Seen]) -> tuple[Labels, Seen]:
    """A task: labels without rows, for the types and shapes of their vectors."""
    labels, seen = found
    y, weight, offset, unit = (None if v is None else v[:0] for v in labels.vectors)
    return labels._replace(y=y, weight=weight, offset=offset, unit=unit), seen


def call_named(
    function: Callable[..., Any], noun: str, number: int, seen: Seen | None, block: Block, *arguments: object
) -> Any:
    """A task: call a function with a partition, which must not have changed. Errors name the partition."""
    with naming(noun, number):
        if seen is not None:
            seen.check(block)
        return function(block, *arguments)


def sources_of(blocks: Any) -> list[tuple[str, int, Any, Any]]:
    """For each partition, the word for it, its number among those of X or of X_val, its checksums, and itself."""
    sources = {"": blocks}
    if isinstance(blocks, WithValidation):
        sources = {"": cast(Any, blocks.training), "X_val: ": cast(Any, blocks.validation)}
    return [
        (f"{of}{source.noun}", i, seen, block)
        for of, source in sources.items()
        for i, (seen, block) in enumerate(zip(source.seen, source.blocks, strict=True))
    ]


class Form(NamedTuple):
    """The types of the vectors of all partitions; None for vectors that do not exist."""

    y: np.dtype[Any] | None
    weight: np.dtype[Any] | None
    offset: np.dtype[Any] | None
    unit: np.dtype[Any] | None

    @classmethod
    def of(cls, outline: Gathered) -> Form:
        """The types of vectors without rows."""
        vectors = (outline.y, outline.weight, outline.offset, outline.unit)
        return cls(*(None if vector is None else vector.dtype for vector in vectors))


def gathered_from(found: tuple[Labels, Any], form: Form) -> Gathered:
    """A task: the labels of a partition in the types that those of all partitions have."""
    labels = found[0]
    vectors = zip(labels.vectors, form, strict=True)
    y, weight, offset, unit = (None if v is None or of is None else v.astype(of, copy=False) for v, of in vectors)
    return Gathered([labels.n_rows], y, weight, None, labels.more_than_numbers, offset, unit)


def advance(
    here: RowsHere, own: tuple[Any, ...], shared: tuple[Any, ...], known: tuple[Any, ...]
) -> tuple[Any, Outcome]:
    """A task: a step for the rows of a partition, as far as it gets."""
    function, arguments = shared
    outcome = evaluate(function, here, *own, *arguments, known=known)
    if outcome.contribution is not None:
        return None, outcome
    after, found = outcome.result
    return after, Outcome(found)


def agreed(advanced: Callable[[tuple[Any, ...]], list[Outcome]]) -> tuple[tuple[Any, ...], list[Any]]:
    """The numbers that a step needs of all partitions, and what it finds for each of them.

    `advanced` returns the outcomes of all partitions, as far as they get with the numbers that are known so far.
    """
    known: tuple[Any, ...] = ()
    while True:
        outcomes = advanced(known)
        contributions = [outcome.contribution for outcome in outcomes if outcome.contribution is not None]
        if not contributions:
            return known, [outcome.result for outcome in outcomes]
        if len(contributions) < len(outcomes):
            raise RuntimeError("Some partitions are done while others are not: a step must not depend on their rows.")
        known = (*known, merged(contributions))


NO_ROWS = RowsHere([0], Rows(np.empty(0, dtype=np.intp), np.empty((1, 0)), None, None), 0)
"""The rows of an empty partition."""


def pass_over(block: Block, here: RowsHere | None, own: tuple[Any, ...], shared: tuple[Any, ...]) -> Any:
    """A task: call a function with a partition and with what it needs of its rows."""
    function, arguments_of, common = shared
    (arguments,) = arguments_of(NO_ROWS if here is None else here, *own)
    return function(block, *arguments, *common)


def score_rows(block: Block, here: RowsHere, start_scores: Callable[[Any], Array | None]) -> RowsHere:
    """A task: the rows of a partition with the scores of an init model."""
    scores = start_scores(block.X)
    assert scores is not None
    return started_from(here, scores)
