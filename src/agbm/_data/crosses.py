"""Crosses: features that are the sum, the difference or the product of two columns.

A tree needs many splits to follow a difference or a product, and one if it is a column. Every value is one rounding of
two numbers (scales are powers of two), so that it has the same bits in every language.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from .._base.sums import Array, exact_mean

SIGNS: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply}


class Cross(NamedTuple):
    """The sum, the difference or the product of two columns, each multiplied by a scale first."""

    left: int
    sign: str
    right: int
    left_scale: float = 1.0
    right_scale: float = 1.0

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
    wide = np.empty((len(X), X.shape[1] + len(crosses)))
    wide[:, : X.shape[1]] = X
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):  # infinity minus infinity is missing
        for place, (left, sign, right, *scales) in enumerate(crosses, X.shape[1]):
            SIGNS[sign](wide[:, left] * scales[0], wide[:, right] * scales[1], out=wide[:, place])
    return wide


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
