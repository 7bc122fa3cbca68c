"""Rows as the estimators check them, before they become a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d

from .losses import Array


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: features, encoded labels, weights and the values of an init model, where there are such."""

    X: NDArray[Any]
    y: Array
    weight: Array | None
    start: Array | None

    def take(self, order: NDArray[np.intp]) -> Rows:
        """Some of the rows, in that order."""
        return Rows(
            self.X[order],
            self.y[order],
            None if self.weight is None else self.weight[order],
            None if self.start is None else self.start[order],
        )

    def followed_by(self, other: Rows) -> Rows:
        """These rows and others behind them."""

        def both(mine: Array | None, others: Array | None) -> Array | None:
            return None if mine is None or others is None else np.concatenate([mine, others])

        return Rows(
            np.concatenate([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            both(self.weight, other.weight),
            both(self.start, other.start),
        )


def plain(X: Any) -> NDArray[Any]:
    """X, copied if it is a view that the kernels cannot take: not aligned, or with rows not whole values apart."""
    X = np.asarray(X)
    whole = all(stride % X.itemsize == 0 for stride in X.strides)
    return X if whole and X.flags.aligned else np.ascontiguousarray(X)


def check_y_val(y_val: Any, n_rows: int, numeric: bool) -> NDArray[Any]:
    """The labels of validation rows as one dimension, with errors that name them."""
    try:
        y = column_or_1d(check_array(y_val, ensure_2d=False, dtype="numeric" if numeric else None, input_name="y_val"))
    except ValueError as error:
        raise ValueError(f"y_val: {error}") from error
    if len(y) != n_rows:
        raise ValueError(f"y_val has {len(y)} rows, X_val has {n_rows}; they must have as many.")
    return np.asarray(y)
