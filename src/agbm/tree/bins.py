"""Bins: from values to at most 255 codes a feature, and one more for missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .. import _native
from ..losses import Array

# Thresholds come from at most this many rows; more would not move a quantile that 255 bins can show.
MAX_SAMPLE = 200_000

# Columns of a sparse matrix that are made dense at a time: those of one group of the kernels.
SPARSE_COLUMNS = 16


class Bins:
    """Thresholds of every feature. The bin of x is the number of thresholds below it: x <= thresholds[bin].

    Values of a categorical feature are numbers of categories, the most frequent first. Each has a bin of its own, but
    those beyond the number of bins share the last.
    """

    def __init__(self, thresholds: list[Array], categorical: NDArray[np.bool_]) -> None:
        self.thresholds = thresholds
        self.categorical = categorical
        # The last bin is open above: a split behind it sends all values left and only missing ones right.
        self._open = [np.append(t, np.inf) for t in thresholds]

    @classmethod
    def from_data(
        cls, X: Any, max_bins: int, weight: Array | None = None, categorical: NDArray[np.bool_] | None = None
    ) -> Bins:
        """Thresholds from the rows of X, or a fixed random sample of them."""
        if categorical is None:
            categorical = np.zeros(X.shape[1], dtype=bool)
        rows = X
        if X.shape[0] > MAX_SAMPLE:
            # By row number alone, so that the sample does not depend on threads or on how the rows are stored.
            sample = np.sort(np.random.default_rng(0).choice(X.shape[0], MAX_SAMPLE, replace=False))
            rows, weight = X[sample], None if weight is None else weight[sample]
        thresholds = []
        for first, block in _column_blocks(rows):
            for j in range(block.shape[1]):
                f = first + j
                if categorical[f]:
                    thresholds.append(_category_thresholds(X[:, f], max_bins))
                else:
                    thresholds.append(feature_thresholds(block[:, j], max_bins, weight))
        return cls(thresholds, categorical)

    @property
    def n_bins(self) -> list[int]:
        """Bins of each feature, without that of missing values."""
        return [len(t) + 1 for t in self.thresholds]

    def encode(self, X: Any, n_threads: int) -> _native.BinnedMatrix:
        """Codes of X (float32 or float64, dense or sparse)."""
        matrix = _native.BinnedMatrix(X.shape[0], self.n_bins, self.categorical.tolist())
        for first, block in _column_blocks(X):
            thresholds = np.concatenate(self.thresholds[first : first + block.shape[1]], dtype=np.float64)
            matrix.fill(first, block, thresholds, n_threads)
        return matrix

    def threshold(self, feature: NDArray[np.int32], code: NDArray[np.int32]) -> Array:
        """The value at or below which a split on (feature, code) goes left; 0 for leaves (feature -1)."""
        return np.array(
            [self._open[f][b] if f >= 0 else 0.0 for f, b in zip(feature.tolist(), code.tolist(), strict=True)]
        )

    def category_sets(
        self, feature: NDArray[np.int32], left_codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """The sets of categories that go left, 256 bits each, and for each node the number of its set (-1: none)."""
        nodes = np.flatnonzero((feature >= 0) & self.categorical[feature])
        number = np.full(len(feature), -1, dtype=np.int32)
        number[nodes] = np.arange(len(nodes))
        bits = np.unpackbits(left_codes[nodes].view(np.uint8), axis=1, bitorder="little")
        for row, f in zip(bits, feature[nodes].tolist(), strict=True):
            row[len(self.thresholds[f]) :] = row[len(self.thresholds[f])]  # categories that share the last bin
        return number, np.packbits(bits, axis=1, bitorder="little").view(np.uint64).reshape(len(nodes), 4)


def _column_blocks(X: Any) -> Any:
    """Blocks of columns with the number of the first: a dense matrix in one, a sparse one a few columns at a time."""
    if not issparse(X):
        yield 0, X
        return
    columns = X.tocsc()
    for first in range(0, X.shape[1], SPARSE_COLUMNS):
        yield first, columns[:, first : first + SPARSE_COLUMNS].toarray(order="F")


def _category_thresholds(column: NDArray[Any], max_bins: int) -> Array:
    present = column[~np.isnan(column)]
    n_categories = int(present.max()) + 1 if len(present) else 1
    return np.arange(min(n_categories, max_bins) - 1, dtype=np.float64) + 0.5


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
