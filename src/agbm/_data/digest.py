"""Digests of the rows of a fit, which identify them and locate differences from others.

Every cell of the table (a feature, label, weight or start score of a row) is hashed with the numbers of its row and
column, and hashes are added modulo 2^64, once per block of rows and once per column. So a digest does not depend on how
rows are divided into batches or among processes. It detects changes and locates them, but it is not cryptographic:
other rows with the same sums can be constructed on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base import _native
from .._base.types import AnyArray, Matrix
from .rows import VALIDATION, Rows

MOST_BLOCKS = 1024
MOST_COLUMNS = 1024
"""Further columns have one sum in common."""
ROWS_AT_ONCE = 1 << 16
"""Rows of sparse matrices, and of matrices on a GPU, that are copied at a time."""

Sums = NDArray[np.uint64]


class Shape(NamedTuple):
    """The shape of the rows of a fit; labels, weights and start scores come before the features."""

    n_given: int
    """Used rows of X; those of X_val follow them."""
    n_validation: int
    n_labels: int
    """Numbers per label."""
    n_outputs: int
    n_features: int

    @property
    def n_rows(self) -> int:
        """The number of all rows."""
        return self.n_given + self.n_validation

    @property
    def shift(self) -> int:
        """The binary logarithm of the number of rows per block, the smallest that there are sums for."""
        return max(0, (self.n_rows - 1).bit_length() - (MOST_BLOCKS - 1).bit_length())

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.n_rows >> self.shift)

    @property
    def first_weight(self) -> int:
        """The column of the weights: repetitions, relative weights, and weights of X_val."""
        return self.n_labels

    @property
    def first_start(self) -> int:
        """The column of the start scores."""
        return self.n_labels + 3

    @property
    def first_feature(self) -> int:
        """The column of the features."""
        return self.first_start + self.n_outputs

    @property
    def n_columns(self) -> int:
        """The number of sums of columns."""
        return min(self.first_feature + self.n_features, MOST_COLUMNS)


class Vector(NamedTuple):
    """Numbers of some rows: labels, weights or start scores."""

    column: int
    """Of the digest."""
    first: int
    """The place of the first row that has one."""
    numbers: AnyArray


@dataclass(frozen=True, eq=False)
class RowDigest:
    """The digest of the rows of a fit."""

    shape: Shape
    blocks: Sums
    columns: Sums

    @classmethod
    def of(cls, shape: Shape) -> RowDigest:
        """The digest of rows that have not been added yet."""
        return cls(shape, np.zeros(shape.n_blocks, np.uint64), np.zeros(shape.n_columns, np.uint64))

    def add(self, first: int, X: Matrix, vectors: Sequence[Vector], n_threads: int) -> None:
        """Add rows, of which the first has this number."""
        shift, place = self.shape.shift, self.shape.first_feature
        sums = self.blocks, self.columns, n_threads
        for vector in vectors:
            numbers = np.asarray(vector.numbers, dtype=np.float64)[:, np.newaxis]
            _native.digest_rows(numbers, first + vector.first, shift, vector.column, *sums)
        for begin, part in _parts(X):
            if issparse(part):
                indices, start = part.indices.astype(np.int64) + place, part.indptr.astype(np.int64)
                _native.digest_sparse_rows(part.data, indices, start, first + begin, shift, *sums)
            else:
                _native.digest_rows(part, first + begin, shift, place, *sums)

    def merge(self, blocks: Sums, columns: Sums) -> None:
        """Add the sums of other rows of the same fit."""
        np.add(self.blocks, blocks, out=self.blocks)
        np.add(self.columns, columns, out=self.columns)

    @property
    def hex(self) -> str:
        """The digest as text."""
        digest = hashlib.sha256(np.array(self.shape, dtype=np.int64).tobytes())
        for sums in (self.blocks, self.columns):
            digest.update(sums.tobytes())
        return digest.hexdigest()


def _parts(X: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a matrix as one part or several that kernels can read, each with the number of its first row."""
    if isinstance(X, np.ndarray):
        yield 0, X
        return
    rows = X.tocsr() if issparse(X) else X
    for begin in range(0, rows.shape[0], ROWS_AT_ONCE):
        part = rows[begin : begin + ROWS_AT_ONCE]
        if issparse(part):
            part.sum_duplicates()
        yield begin, part if issparse(part) else np.asarray(part)


def vectors_of(rows: Rows, shape: Shape) -> list[Vector]:
    """Labels, weights and start scores of rows."""
    found = [Vector(column, 0, numbers) for column, numbers in enumerate(np.atleast_2d(rows.y))]
    if rows.weights is not None:
        parts = enumerate((rows.weights.repeats, rows.weights.relative), shape.first_weight)
        found += [Vector(column, 0, part) for column, part in parts if part is not None]
    first = rows.n - sum(of.n for of in rows.followers)
    found += [
        Vector(shape.first_weight + 2, first, of.weight)
        for of in rows.followers
        if of.name == VALIDATION and of.weight is not None
    ]
    if rows.start is not None:
        found += [Vector(column, 0, numbers) for column, numbers in enumerate(rows.start, shape.first_start)]
    return found


def taken(vectors: Sequence[Vector], places: AnyArray) -> list[Vector]:
    """The numbers of the rows at some places. All rows of X_val have weights or none, and so have all others."""
    found = []
    for column, first, numbers in vectors:
        if len(places) and first <= places[0] < first + len(numbers):
            found.append(Vector(column, 0, numbers[places - first]))
    return found


def digest_of_table(rows: Rows, n_given: int, n_rows: int, n_outputs: int, n_threads: int) -> RowDigest:
    """The digest of the first n_rows rows of a table; the others are only evaluated."""
    shape = Shape(n_given, n_rows - n_given, len(np.atleast_2d(rows.y)), n_outputs, rows.X.shape[1])
    digest = RowDigest.of(shape)
    X = rows.X if n_rows == rows.n else rows.X[:n_rows]
    vectors = [Vector(column, first, numbers[: n_rows - first]) for column, first, numbers in vectors_of(rows, shape)]
    digest.add(0, X, vectors, n_threads)
    return digest
