"""Crosses: features that are the sum, the difference or the product of two columns.

A tree needs many splits to follow a difference or a product, and one if it is a column. Every value is one rounding of
two numbers (scales are powers of two), so that it has the same bits in every language.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse

from .._base.sums import Array, exact_mean
from .._base.types import AnyArray

SIGNS = "+", "-", "*"
ROWS_AT_ONCE = 1024


def sees_all(member: int) -> bool:
    """Whether a member sees crosses that are not for all: the second and third of every three."""
    return member % 3 > 0


class Cross(NamedTuple):
    """The sum, the difference or the product of two columns, each multiplied by a scale first."""

    left: int
    sign: str
    right: int
    left_scale: float = 1.0
    right_scale: float = 1.0
    for_all: bool = True
    """Whether all members of a model see it; see `sees_all`."""

    def name(self, names: Sequence[str]) -> str:
        """The name of the feature, from those of the columns."""
        left, right = (
            names[column] if scale == 1.0 else f"{scale:g} {names[column]}"
            for column, scale in ((self.left, self.left_scale), (self.right, self.right_scale))
        )
        return f"{left} {self.sign} {right}"


def with_crosses(X: Any, crosses: Sequence[Cross]) -> Any:
    """A matrix of numbers, followed by its crosses."""
    if not crosses:
        return X
    X = np.asarray(X.toarray() if issparse(X) else X)
    if len(X) == 1:
        return np.array([_crossed(X[0].tolist(), crosses)], dtype=np.float64)
    wide, plan = np.empty((len(X), X.shape[1] + len(crosses))), _plan(tuple(crosses))
    for begin in range(0, len(X), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        wide[rows, : X.shape[1]] = X[rows]
        plan.fill(wide[rows, : X.shape[1]], wide[rows, X.shape[1] :])
    return wide


def _crossed(row: list[float], crosses: Sequence[Cross]) -> list[float]:
    """A row followed by its crosses; for one row, a quarter of the time of arrays."""
    for left, sign, right, left_scale, right_scale, _ in crosses:
        a, b = left_scale * row[left], right_scale * row[right]
        row.append(a * b if sign == "*" else a - b if sign == "-" else a + b)
    return row


class CrossedTable:
    """A table followed by its crosses, which are computed whenever rows are read.

    As in NumPy, a slice of rows takes no memory, and chosen rows are a copy.
    """

    def __init__(self, X: AnyArray, crosses: Sequence[Cross]) -> None:
        self._X = X
        self._crosses = tuple(crosses)
        self.dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return len(self._X), self._X.shape[1] + len(self._crosses)

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, key: Any) -> Any:
        """Some rows, or (rows, columns): one column of the table, or several features."""
        if not isinstance(key, tuple):
            rows = self._X[key]
            return CrossedTable(rows, self._crosses) if isinstance(key, slice) else with_crosses(rows, self._crosses)
        rows, columns = key
        if isinstance(columns, int) and columns < self._X.shape[1]:
            return self._X[rows, columns]
        return with_crosses(self._X[rows], self._crosses)[:, columns]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        return np.asarray(with_crosses(self._X, self._crosses), dtype=dtype)

    def followed_by(self, X: Any) -> CrossedTable:
        """These rows followed by others, which have their crosses."""
        return CrossedTable(np.concatenate([self._X, X[:, : self._X.shape[1]]]), self._crosses)


class _Plan(NamedTuple):
    """Crosses as arrays."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    left_scale: Array
    right_scale: Array
    """Negative for differences."""
    products: NDArray[np.intp]

    def fill(self, X: Array, values: Array) -> None:
        """Compute the values for some rows."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):  # infinity minus infinity is missing
            left, right = X[:, self.left] * self.left_scale, X[:, self.right] * self.right_scale
            np.add(left, right, out=values)
            if len(self.products):
                values[:, self.products] = left[:, self.products] * right[:, self.products]


@lru_cache(maxsize=64)
def _plan(crosses: tuple[Cross, ...]) -> _Plan:
    scales = [-cross.right_scale if cross.sign == "-" else cross.right_scale for cross in crosses]
    return _Plan(
        np.array([cross.left for cross in crosses]),
        np.array([cross.right for cross in crosses]),
        np.array([cross.left_scale for cross in crosses]),
        np.array(scales),
        np.flatnonzero([cross.sign == "*" for cross in crosses]),
    )


def candidates(X: Array, columns: Sequence[int]) -> list[Cross]:
    """The sums, differences and products of all pairs of columns; sums and differences are of similar scales."""
    scales = {f: _scale(X[:, f]) for f in columns}
    return [
        Cross(a, sign, b) if sign == "*" else Cross(a, sign, b, scales[a], scales[b])
        for a, b in combinations(columns, 2)
        for sign in SIGNS
    ]


def _scale(x: Array) -> float:
    """The power of two next to 1 / the standard deviation."""
    x = x[np.isfinite(x)]
    if len(x) == 0 or x.min() == x.max():
        return 1.0
    with np.errstate(over="ignore"):
        variance = exact_mean((x - exact_mean(x, None)) ** 2, None)
    return float(2.0 ** -np.round(0.5 * np.log2(variance))) if 0.0 < variance < np.inf else 1.0
