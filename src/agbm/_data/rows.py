"""Checked rows, before they become an objective."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.utils import check_array

from .._core.losses import Array
from .._core.weights import Weights

# How many labels an error message shows: if numbers are passed by mistake, there may be one per row.
MOST_SHOWN = 10


def some_of(labels: list[Any]) -> str:
    """Labels for an error message: all, or the first ones and the number of others."""
    more = len(labels) - MOST_SHOWN
    return repr(labels) if more <= 0 else f"{labels[:MOST_SHOWN]} and {more:,} more"


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: features and encoded labels, and weights and scores of an init model if there are any.

    Rows are on the first axis of X and on the last of everything else.
    """

    X: Any
    y: Array
    weights: Weights | None
    start: Array | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[-1])

    def arrays(self) -> list[NDArray[Any] | None]:
        """All arrays of the rows, for digests."""
        parts = [self.X.data, self.X.indices, self.X.indptr] if issparse(self.X) else [self.X]
        weights = (None, None) if self.weights is None else (self.weights.repeats, self.weights.relative)
        return [*parts, self.y, *weights, self.start]

    def take(self, order: NDArray[np.intp]) -> Rows:
        """The rows with the given indices, in their order."""
        return Rows(
            self.X[order],
            self.y[..., order],
            None if self.weights is None else self.weights[order],
            None if self.start is None else self.start[..., order],
        )

    def followed_by(self, X: Any, y: Array, start: Array | None) -> Rows:
        """These rows followed by others, which have weight 1."""
        sparse = issparse(self.X) or issparse(X)
        return Rows(
            vstack([self.X, X], format="csr") if sparse else np.concatenate([self.X, X]),
            np.concatenate([self.y, y], axis=-1),
            None if self.weights is None else self.weights.followed_by_ones(y.shape[-1]),
            None if self.start is None or start is None else np.concatenate([self.start, start], axis=-1),
        )


def plain(X: Any) -> Any:
    """X, copied if the kernels do not support its layout: not aligned, or with strides of fractions of values."""
    if issparse(X):
        return X
    X = np.asarray(X)
    if X.flags.c_contiguous and X.flags.aligned:  # the usual case, and fast to test
        return X
    whole = all(stride % X.itemsize == 0 for stride in X.strides)
    return X if whole and X.flags.aligned else np.ascontiguousarray(X)


def refuse_dates(labels: Any, name: str) -> None:
    """Raise ValueError for dates and times: as numbers, their unit is arbitrary, and missing ones are very large."""
    array = np.asarray(labels)
    dates = (date, timedelta, np.datetime64, np.timedelta64)
    if array.dtype.kind in "Mm" or (array.dtype.kind == "O" and any(isinstance(label, dates) for label in array.flat)):
        raise ValueError(f"{name} has dates or times ({array.dtype}); pass numbers, such as differences in seconds.")


def check_y_val(y_val: Any, n_rows: int, numeric: bool, shape: tuple[int, ...]) -> NDArray[Any]:
    """Check the labels of validation rows; `shape` is the shape of the label of one row."""
    if numeric:
        refuse_dates(y_val, "y_val")
    try:
        y = check_array(y_val, ensure_2d=False, dtype="numeric" if numeric else None, input_name="y_val")
    except ValueError as error:
        raise ValueError(f"y_val: {error}") from error
    if shape == () and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape[1:] != shape:
        raise ValueError(f"y_val has shape {y.shape}; it must be a 1d array, or have as many columns as y.")
    if len(y) != n_rows:
        raise ValueError(f"y_val has {len(y)} rows, X_val has {n_rows}; they must be the same number.")
    return np.asarray(y)


def weighted_rows(weight: Array, name: str) -> NDArray[np.intp]:
    """The indices of the rows with positive weight."""
    kept = np.flatnonzero(weight)
    if len(kept) == 0:
        raise ValueError(f"{name}: all weights are zero; at least one row needs a positive weight.")
    return kept
