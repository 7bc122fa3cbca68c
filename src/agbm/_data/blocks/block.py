"""A block of rows, and its labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from ..._base.types import AnyArray, Table, Values
from ..derivation import has_more_than_numbers
from ..tables import as_table

MOST_EXACT = 2**53
"""Float64 has all integers up to this one."""


class Block(NamedTuple):
    """Some of the rows as the source returns them, with labels, weights and so on if the source has them."""

    X: Table
    y: Values | None = None
    weight: Values | None = None
    offset: Values | None = None
    unit: Values | None = None
    """As in Given."""


class Labels(NamedTuple):
    """A block without its features."""

    n_rows: int
    y: AnyArray | None
    weight: AnyArray | None
    head: Any
    """X without its rows, for the column names."""
    more_than_numbers: bool
    """Whether X has columns of other types than numbers."""
    offset: AnyArray | None = None
    unit: AnyArray | None = None

    @property
    def vectors(self) -> tuple[AnyArray | None, ...]:
        """In the order of Given."""
        return self.y, self.weight, self.offset, self.unit


VECTORS = "y", "sample_weight", "offset", "groups or time"
"""What errors call the vectors of rows, in the order of Given."""


def labels_of(block: Block) -> Labels:
    """Pass 0: everything except the features."""
    X = as_table(block.X)
    if len(getattr(X, "shape", ())) != 2:
        raise ValueError(f"X must be a table with rows and columns, got {type(X).__name__}.")
    n_rows = n_rows_of(X)
    vectors = []
    for name, given in zip(VECTORS, block[1:], strict=True):
        vector = None if given is None else np.array(exact(given))  # a copy: a view would keep the block in memory
        if vector is not None and (vector.ndim == 0 or len(vector) != n_rows):
            raise ValueError(f"{name} has shape {vector.shape}, X has {n_rows} rows; pass one entry per row.")
        vectors.append(vector)
    y, weight, offset, unit = vectors
    return Labels(n_rows, y, weight, _head(X), has_more_than_numbers(X), offset, unit)


def dense(labels: Any) -> Any:
    """Labels as they are, but not sparse: scikit-learn accepts sparse matrices of several labels per row."""
    return labels.toarray() if issparse(labels) else labels


def exact(labels: Any) -> AnyArray:
    """Labels as an array; of objects if a table has integers beyond 2^53 that its common type would round."""
    array = np.asarray(dense(labels))
    if array.ndim != 2 or array.dtype.kind != "f" or hasattr(labels, "dtype"):  # arrays and sparse matrices have one
        return array
    table = np.array(labels, dtype=object) if isinstance(labels, (list, tuple)) else labels
    columns = [table.iloc[:, k] if hasattr(table, "iloc") else table[:, k] for k in range(array.shape[1])]
    arrays = [np.asarray(column.tolist() if isinstance(table, np.ndarray) else column) for column in columns]
    return np.column_stack([of.astype(object) for of in arrays]) if any(map(is_rounded, arrays)) else array


def is_rounded(numbers: AnyArray) -> bool:
    """Whether these are integers that float64 may round."""
    return numbers.dtype.kind in "iu" and bool(np.any((numbers > MOST_EXACT) | (numbers < -MOST_EXACT)))


def _head(X: Any) -> Any:
    """X without its rows; unlike a slice, it does not keep their memory."""
    if hasattr(X, "iloc"):
        return type(X)(columns=X.columns)
    if hasattr(X, "schema"):
        return X.clear() if hasattr(X, "clear") else X.schema.empty_table()
    return X[:0].copy()


def n_rows_of(X: Any) -> int:
    """Number of rows of a table of any kind."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
