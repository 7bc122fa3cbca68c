"""Checks that every pass reads the same blocks, by checksums."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from ..._base.identity import content_of
from ..._base.types import AnyArray
from ..tables import as_table, contents
from .block import VECTORS, Block, dense, n_rows_of

# How many rows of a block, and values of X, its checksum covers: few, so that this is fast compared with binning.
MIN_ROWS, MAX_ROWS = 100, 1_000
MAX_VALUES = 1_000_000


class Seen(NamedTuple):
    """What identifies a block when it is read again: checksums of all vectors, and of some rows of X."""

    n_rows: int
    vectors: Sequence[int]
    X: int

    @classmethod
    def of(cls, block: Block) -> Seen:
        """The checksums of a block that `labels_of` accepts."""
        X = as_table(block.X)
        vectors = (None if vector is None else np.asarray(dense(vector)) for vector in block[1:])
        return cls(n_rows_of(X), [_checksum([vector]) for vector in vectors], _checksum(contents(_some_rows(X))))

    def check(self, block: Block) -> None:
        """Raise ValueError if this is a different block."""
        if n_rows_of(block.X) != self.n_rows:
            raise changed_error(f"X has {n_rows_of(block.X)} rows, {self.n_rows} in the previous pass")
        now = Seen.of(block)
        pairs = zip((*VECTORS, "X"), (*self.vectors, self.X), (*now.vectors, now.X), strict=True)
        changed = [name for name, before, after in pairs if before != after]
        if changed:
            verb = "has" if len(changed) == 1 else "have"
            raise changed_error(f"{' and '.join(changed)} {verb} different values than in the previous pass")


def changed_error(how: str) -> ValueError:
    """The error for blocks that differ between passes."""
    return ValueError(
        f"{how}. Blocks are read in several passes, and every pass must return the same rows in the same order: return "
        "a new iterator in every call, and fix the seed of a source that shuffles (with Dask, persist the collection)."
    )


def _checksum(arrays: Iterable[AnyArray | None]) -> int:
    """A checksum of arrays: much faster than a cryptographic digest, which is not needed here."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(b"None" if array is None else content_of(array), checksum)
    return checksum


def _some_rows(X: Any) -> Any:
    """1 % of the rows of X, within limits, equally spaced."""
    n_rows, n_columns = X.shape
    n_some = min(max(MIN_ROWS, n_rows // 100), MAX_ROWS, max(1, MAX_VALUES // max(1, n_columns)), n_rows)
    rows = np.linspace(0, n_rows - 1, n_some).astype(np.intp)
    return X.tocsr()[rows] if issparse(X) else _safe_indexing(X, rows)
