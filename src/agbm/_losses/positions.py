"""The bias of positions in clicks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._base.sums import Array, exact_sum, rows_together, step_of_sums

STEPS = 8
RIDGE = 1.0
"""In queries: so many would have to show the opposite of a bias to undo it."""
NO_CUT = 2**31


def position_biases(y: Array, f: Array, weight: Array | None, n_threads: int) -> Array:
    """For each row, the bias of the position that its document had when clicks were collected.

    The biases minimise the pairwise logistic loss of f + bias, with a ridge penalty, by Newton steps from zero: what
    scores do not explain of the clicks, but positions do. They depend on the function alone, so that a run that is
    resumed needs no other state.
    """
    labels = _native.QueryLabels("pairwise", NO_CUT, NO_CUT, True, rows_together(y[0]), rows_together(y[1]))
    f = rows_together(f)
    positions, place = np.unique(y[2], return_inverse=True)
    bias = np.zeros(len(positions))
    pull, curvature = np.empty(f.shape), np.empty(f.shape)
    for _ in range(STEPS):
        labels.derivatives(f + bias[place], pull, curvature, n_threads)
        slope = sums_of_groups(pull, weight, place, len(bias))
        steepness = sums_of_groups(curvature, weight, place, len(bias))
        bias += (slope - RIDGE * bias) / (2.0 * steepness + RIDGE)  # all biases move at once: twice the curvature
    return np.asarray(bias[place])


def sums_of_groups(x: Array, weight: Array | None, group: NDArray[np.intp], n_groups: int) -> Array:
    """Sums over groups of rows, with the same bits for any order of the rows."""
    terms = x if weight is None else x * weight
    step = step_of_sums(float(exact_sum(np.abs(terms))))
    return np.asarray(np.bincount(group, np.rint(terms / step), n_groups) * step)
