"""Harrell's concordance of risks and times."""

from __future__ import annotations

import numpy as np

from .. import _native
from .._base.sums import Array


def concordance(y: Array, risk: Array, weight: Array | None = None) -> float:
    """The share of pairs of rows in which the row with the higher risk has its event first; ties of risk are half.

    y are bounds of times (2, row). Pairs count if it is certain which event is first: the time of one is an event, or
    has an upper bound, not after the other one. Two events at the same time do not count.
    """
    lower, upper = np.ascontiguousarray(y[0]), np.ascontiguousarray(y[1])
    ranks = np.unique(risk, return_inverse=True)[1].ravel().astype(np.uint32)
    weights = np.ones(len(ranks)) if weight is None else weight  # rows that are equal otherwise, for the same sums
    starts = np.lexsort((weights, ranks, lower == upper, -lower))
    ends = np.lexsort((weights, ranks, -upper))
    ends = ends[np.isfinite(upper[ends])]
    found = _native.concordance(
        lower, upper, ranks, None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
        starts.astype(np.uint32), ends.astype(np.uint32),
    )  # fmt: skip
    concordant, comparable = found
    if comparable == 0.0:
        raise ValueError("y has no pair of rows of which it is certain which event is first; the score needs some.")
    return concordant / comparable
