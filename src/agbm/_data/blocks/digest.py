"""The digest of rows in blocks: a pass over all of them, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..row_digest import RowDigest, Shape, Vector, cut, vectors_of
from ..rows import plain
from .block import Block, n_rows_of
from .labelled import Labelled, RowsHere


def digest_of_blocks(
    labelled: Labelled,
    numbers: Callable[[Any], Any],
    n_validation: int,
    n_outputs: int,
    n_features: int,
    n_threads: int,
) -> RowDigest:
    """The digest of blocks, of which the last n_validation rows are those of X_val; `numbers` reads tables."""
    labelled, found = labelled.step(shape_here)
    n_rows, n_labels = [n for n, _ in found], max(n for _, n in found)
    shape = Shape(sum(n_rows) - n_validation, n_validation, n_labels, n_outputs, n_features)
    firsts = (np.cumsum(n_rows) - n_rows).tolist()
    each = [(first, shape) for first in firsts]
    digest = RowDigest.of(shape)
    for part in labelled.over(digest_of_block, arguments_of, numbers, shape, n_threads, each=each):
        if part is not None:
            digest.merge(part)
    return digest


def shape_here(here: RowsHere) -> tuple[RowsHere, tuple[int, int]]:
    """A step: the number of rows, and that of numbers per label."""
    return here, (here.rows.n, len(np.atleast_2d(here.rows.y)))


def arguments_of(here: RowsHere, own: tuple[int, Shape] | None) -> list[tuple[Any, ...]]:
    """The arguments of `digest_of_block` for each block: the number of its first row, its used rows and vectors."""
    if own is None:  # a partition without rows
        return [(0, np.zeros(0, np.intp), [])] * len(here.n_rows)
    first, shape = own
    vectors, rows = vectors_of(here.rows, shape), here.rows.X
    ends = np.cumsum(here.n_rows)
    found = []
    for n, end in zip(here.n_rows, ends.tolist(), strict=True):
        low, high = np.searchsorted(rows, [end - n, end]).tolist()
        found.append((first + low, rows[low:high] - (end - n), cut(vectors, low, high)))
    return found


def digest_of_block(
    block: Block,
    first: int,
    used: NDArray[np.intp],
    vectors: list[Vector],
    numbers: Callable[[Any], Any],
    shape: Shape,
    n_threads: int,
) -> RowDigest | None:
    """The digest of the used rows of a block."""
    if not len(used):
        return None
    checked = numbers(block.X)
    rows = checked if len(used) == n_rows_of(block.X) else checked[used]
    digest = RowDigest.of(shape)
    digest.add(first, rows if issparse(rows) else np.asarray(plain(rows)), vectors, n_threads)
    return digest
