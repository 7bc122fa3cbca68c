"""Small systems of linear equations, without BLAS, whose bits vary between machines."""

from __future__ import annotations

import numpy as np

from .sums import Array


def solved(matrix: Array, right: Array) -> Array | None:
    """Solve equations with a positive definite matrix; None if it is singular."""
    n = len(right)
    rows = np.column_stack([matrix, right])
    for i in range(n):
        if not rows[i, i] > 0.0:
            return None
        rows[i] = rows[i] / rows[i, i]
        others = np.arange(n) != i
        rows[others] = rows[others] - rows[others, i][:, np.newaxis] * rows[i]
    return rows[:, n] if np.isfinite(rows[:, n]).all() else None
