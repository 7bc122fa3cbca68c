"""Quantile bins: from values to at most 255 codes a feature, and one more for missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..losses import Array

# Thresholds come from at most this many rows; more would not move a quantile that 255 bins can show.
MAX_SAMPLE = 200_000


class Bins:
    """Thresholds of every feature. The bin of x is the number of thresholds below it: x <= thresholds[bin]."""

    def __init__(self, thresholds: list[Array]) -> None:
        self.thresholds = thresholds
        # The last bin is open above: a split behind it sends all values left and only missing ones right.
        self._open = [np.append(t, np.inf) for t in thresholds]

    @classmethod
    def from_data(cls, X: NDArray[Any], max_bins: int, weight: Array | None = None) -> Bins:
        """Thresholds from the rows of X, or a fixed random sample of them."""
        if len(X) > MAX_SAMPLE:
            # By row number alone, so that the sample does not depend on threads or on how the rows are stored.
            sample = np.sort(np.random.default_rng(0).choice(len(X), MAX_SAMPLE, replace=False))
            X, weight = X[sample], None if weight is None else weight[sample]
        return cls([feature_thresholds(X[:, f], max_bins, weight) for f in range(X.shape[1])])

    def encode(self, X: NDArray[Any], n_threads: int) -> _native.BinnedMatrix:
        """Codes of X (float32 or float64)."""
        offsets = np.concatenate([[0], np.cumsum([len(t) for t in self.thresholds])]).astype(np.int64)
        flat = np.concatenate(self.thresholds, dtype=np.float64)
        return _native.bin_matrix(X, flat, offsets, n_threads)

    def threshold(self, feature: NDArray[np.int32], code: NDArray[np.int32]) -> Array:
        """The value at or below which a split on (feature, code) goes left; 0 for leaves (feature -1)."""
        return np.array(
            [self._open[f][b] if f >= 0 else 0.0 for f, b in zip(feature.tolist(), code.tolist(), strict=True)]
        )


def feature_thresholds(column: NDArray[Any], max_bins: int, weight: Array | None = None) -> Array:
    """Midpoints between neighbouring distinct values; where there are too many, at the quantiles only."""
    present = ~np.isnan(column)
    values = column[present].astype(np.float64)
    if len(values) == 0:
        return np.empty(0)
    if weight is None:
        values.sort()
    else:
        order = np.argsort(values, kind="stable")
        values, weight = values[order], weight[present][order]
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    distinct = values[first]
    if len(distinct) <= max_bins:
        return _between(distinct[:-1], distinct[1:])
    counts = np.diff(np.append(first, len(values))) if weight is None else np.add.reduceat(weight, first)
    cuts = _quantile_cuts(counts.astype(np.float64), max_bins)
    return _between(distinct[cuts], distinct[cuts + 1])


def _quantile_cuts(counts: Array, max_bins: int) -> NDArray[np.intp]:
    """Where to cut a row of distinct values that occur so often: behind which of them a new bin begins.

    A value frequent enough to fill a bin gets one of its own; the bins that are left share the other values equally.
    """
    frequent, free = np.zeros(len(counts), dtype=bool), max_bins - 1
    while True:
        bins_left = max_bins - np.count_nonzero(frequent)
        candidate = frequent | (counts * bins_left >= counts[~frequent].sum())
        runs = np.count_nonzero(~candidate & np.append(True, candidate[:-1]))  # of others between frequent values
        free_then = max_bins - int(np.count_nonzero(candidate)) - int(runs)
        if free_then < 0 or np.array_equal(candidate, frequent):
            break
        frequent, free = candidate, free_then  # what is frequent among the rest shows when these are out
    own = np.flatnonzero(frequent[:-1] | frequent[1:])
    others = np.cumsum(np.where(frequent, 0, counts))
    targets = np.arange(1, free + 1) * others[-1] / (free + 1)
    # The cut nearest to each target, among all places but behind the last value.
    after = np.clip(np.searchsorted(others[:-1], targets), 1, len(counts) - 2)
    nearest = np.where(targets - others[after - 1] < others[after] - targets, after - 1, after)
    return np.union1d(own, nearest)


def _between(low: Array, high: Array) -> Array:
    """Midpoints t with low <= t < high, also where the sum would overflow or nothing lies between."""
    middle = low / 2 + high / 2
    return np.where((middle >= low) & (middle < high), middle, low)
