"""Bins: from values to at most 255 codes a feature, and one more for missing values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .. import _native
from .._core.losses import Array
from .._core.sums import exact_sum, step_of_sums
from .._core.weights import Weights
from .forest import Forest

# Thresholds come from at most this many rows; more would not move a quantile that 255 bins can show.
MAX_SAMPLE = 200_000

# The mean residual of a category is taken as if it had so many more rows with residual zero: as in the kernels.
CATEGORY_SMOOTHING = 10.0

# Columns that are copied at a time where there are weights.
COLUMNS_AT_ONCE = 16

# Of a forest without categories.
_NO_WORDS = np.zeros(0, dtype=np.uint64)
_NO_SETS = np.zeros(1, dtype=np.int64)


class LeafRows(NamedTuple):
    """The training rows, and how many of them every leaf must have."""

    min_samples_leaf: int
    n_train: int
    repeats: NDArray[np.int64] | None
    """How often each of them counts; None for once."""


class Bins:
    """Bins of every feature.

    The bin of x is the number of thresholds below it: x <= thresholds[bin]. Values of a categorical feature are numbers
    of categories, which `grouped` puts into bins.
    """

    def __init__(self, values: Array, counts: NDArray[np.int32], grouped: dict[int, GroupedCategories]) -> None:
        """Thresholds of one feature after the other, and how many each has."""
        self.n_bins = (counts + 1).tolist()
        self.grouped = grouped
        self.flat_thresholds = values
        """Of one feature after the other."""
        self._start = np.append(0, np.cumsum(counts, dtype=np.intp))

    @classmethod
    def from_data(
        cls,
        X: Any,
        max_bins: int,
        weights: Weights | None = None,
        n_categories: NDArray[np.intp] | None = None,
        residual: Array | None = None,
        min_category_rows: int = 10,
        n_threads: int = 1,
    ) -> Bins:
        """Thresholds from the rows of X, or a fixed random sample of them; categories from all rows.

        `n_categories` of each feature, 0 for numbers. `residual` (output, row) tells which categories are alike, where
        there are more of them than bins; those with fewer than min_category_rows do not show it.
        """
        counts = dict(enumerate([] if n_categories is None else n_categories.tolist()))
        grouped = {
            f: GroupedCategories.from_data(X[:, f], n, max_bins, weights, residual, min_category_rows)
            for f, n in counts.items()
            if n > 0
        }
        return cls.from_sample(X, sample_of(X.shape[0]), max_bins, weights, grouped, n_threads)

    @classmethod
    def from_sample(
        cls,
        X: Any,
        rows: NDArray[np.int64] | None,
        max_bins: int,
        weights: Weights | None,
        grouped: dict[int, GroupedCategories],
        n_threads: int,
    ) -> Bins:
        """Thresholds from some rows of X, or all of them, with their weights; categories are in bins already."""
        if issparse(X):
            values, counts = _sparse_thresholds(X, rows, max_bins, weights, n_threads)
        elif weights is not None:
            values, counts = _weighted_thresholds(X, rows, max_bins, weights)
        else:
            values, counts = _native.thresholds(X, rows, max_bins, n_threads)
        if grouped:
            parts = np.split(values, np.cumsum(counts)[:-1])
            for f, categories in grouped.items():
                parts[f] = np.arange(categories.n_bins - 1, dtype=np.float64) + 0.5
            values, counts = _joined(parts)
        return cls(values, counts, grouped)

    @property
    def n_features(self) -> int:
        """Features that there are bins of."""
        return len(self.n_bins)

    @property
    def thresholds(self) -> list[Array]:
        """Thresholds of each feature."""
        return np.split(self.flat_thresholds, self._start[1:-1])

    def encode(self, X: Any, n_threads: int, leaf: LeafRows | None = None) -> _native.BinnedMatrix:
        """Codes of X (float32 or float64, dense or sparse).

        Where `leaf` is given, features that cannot split the training rows are left out: no tree with such leaves
        would use them.
        """
        if issparse(X):
            columns = _without_repeats(X).tocsc()
            columns.sort_indices()
            rows = columns.indices
            return _native.BinnedMatrix.from_sparse(
                columns.data,
                rows.view(np.uint32) if rows.dtype == np.int32 else rows.astype(np.uint32),
                columns.indptr.astype(np.int64, copy=False),
                columns.shape[0],
                self.n_bins,
                self.flat_thresholds,
                n_threads,
                *(() if leaf is None else leaf),
            )
        matrix = self.matrix(X.shape[0])
        self.fill(matrix, X, None, n_threads)
        if leaf is not None:
            matrix.leave_out(n_threads, *leaf)
        return matrix

    def matrix(self, n_rows: int, folder: str = "") -> _native.BinnedMatrix:
        """A matrix to fill; in files of a folder, if one is named, which are gone with it."""
        told_apart = [0] * self.n_features
        for f, grouped in self.grouped.items():
            told_apart[f] = grouped.n_told_apart
        return _native.BinnedMatrix(n_rows, self.n_bins, told_apart, folder)

    def fill(
        self, matrix: _native.BinnedMatrix, X: NDArray[Any], rows: NDArray[np.uint32] | None, n_threads: int
    ) -> None:
        """Put the codes of X (float32 or float64) into some rows of a matrix, or into all."""
        matrix.fill(0, X, self.flat_thresholds, n_threads, rows)
        for f, grouped in self.grouped.items():
            matrix.fill(f, grouped.bins_of(X[:, f])[:, np.newaxis], self._thresholds_of(f), n_threads, rows)

    def _thresholds_of(self, f: int) -> Array:
        return self.flat_thresholds[self._start[f] : self._start[f + 1]]

    def category_sets(
        self, nodes: NDArray[np.void], left_codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The sets of categories that go left, numbered in the nodes; see Forest."""
        if not self.grouped:
            return _NO_WORDS, _NO_SETS
        words: list[NDArray[np.uint64]] = []
        for node, codes in zip(nodes, left_codes, strict=True):
            if int(node["feature"]) not in self.grouped:
                continue
            node["categories"] = len(words)
            bins = self.grouped[int(node["feature"])].bins
            by_bin = np.unpackbits(codes.view(np.uint8), bitorder="little")
            by_category = np.where(bins >= 0, by_bin[bins], node["missing_left"])
            # What is beyond all categories, up to a whole word, is missing like all that is beyond.
            padded = np.append(by_category, np.full(-len(bins) % 64, node["missing_left"])).astype(np.uint8)
            words.append(np.packbits(padded, bitorder="little").view(np.uint64))
        start = np.cumsum([0, *(len(w) for w in words)], dtype=np.int64)
        return np.concatenate([_NO_WORDS, *words]), start

    def left_codes(self, forest: Forest) -> NDArray[np.uint64]:
        """For each node of a forest that was grown with these bins, the codes that go left: 256 bits."""
        bits = np.zeros((len(forest.nodes), 256), dtype=np.uint8)
        for node, codes in zip(forest.nodes, bits, strict=True):
            f = int(node["feature"])
            if f < 0:
                continue
            if f in self.grouped:
                words = forest.category_words[slice(*forest.category_start[node["categories"] :][:2])]
                by_category = np.unpackbits(words.view(np.uint8), bitorder="little")
                bins = self.grouped[f].bins
                codes[bins[bins >= 0]] = by_category[: len(bins)][bins >= 0]
            else:
                codes[: self._bin_of(f, float(node["threshold"])) + 1] = 1
            codes[self.n_bins[f]] = node["missing_left"]
        return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def _bin_of(self, f: int, threshold: float) -> int:
        """The bin that a threshold of these bins ends; the last one is open above."""
        thresholds = self._thresholds_of(f)
        number = int(np.searchsorted(thresholds, threshold))
        if number < len(thresholds) and thresholds[number] != threshold:
            raise ValueError(
                f"X: feature {f} has other bins than in the run that is to go on; give the same rows, or start anew."
            )
        return number


@dataclass(frozen=True, eq=False)
class GroupedCategories:
    """Categories of one feature in bins.

    Where some categories have too few rows to be told apart, they share a bin, and those that no training row has, or
    that are unknown, share it with them: they are of the same kind. Elsewhere nothing is known of such, and they count
    as missing.
    """

    bins: NDArray[np.int16]
    """The bin of each category, by its number, and last that of unknown ones; -1 where they count as missing."""
    n_told_apart: int
    """Categories that were put into bins one by one; those that share a bin for want of rows count as one."""

    @property
    def n_bins(self) -> int:
        """Bins that there are, at least one."""
        return max(1, int(self.bins.max(initial=-1)) + 1)

    def bins_of(self, column: NDArray[Any]) -> Array:
        """The bin of each row's category; NaN where it is missing or counts as such."""
        known = column < len(self.bins)  # not so for NaN
        bins = np.full(len(column), -1.0)
        bins[known] = self.bins[column[known].astype(np.intp)]
        bins[bins < 0] = np.nan
        return bins

    @classmethod
    def from_data(
        cls,
        column: NDArray[Any],
        n_categories: int,
        max_bins: int,
        weights: Weights | None,
        residual: Array | None,
        min_rows: int = 10,
    ) -> GroupedCategories:
        """From the numbers of the training rows' categories; see from_sums."""
        present = ~np.isnan(column)
        numbers = column[present].astype(np.intp)

        def sums(parts: Sequence[Array | None]) -> list[Array]:
            of_present = [None if part is None else part[present] for part in parts]
            return [np.asarray(np.bincount(numbers, part, n_categories), dtype=np.float64) for part in of_present]

        whole, step = (None, 1.0) if weights is None else (weights.in_steps, weights.step)
        total = sums([whole])[0] * step
        if residual is None or np.count_nonzero(total) <= max_bins:
            return cls.from_sums(total, None, max_bins, min_rows)
        parts, steps = residual_parts(residual, weights)
        return cls.from_sums(total, means_of(sums(parts), steps, total), max_bins, min_rows)

    @classmethod
    def from_sums(cls, total: Array, mean: Array | None, max_bins: int, min_rows: int) -> GroupedCategories:
        """A bin for each category where there are enough; total has the weights of all categories.

        Where there are more categories than bins, those with similar mean residuals share one, about as many rows in
        each bin; a category frequent enough to fill a bin has one of its own. Those with too few rows for a mean share
        the first.
        """
        seen = np.flatnonzero(total)
        bins = np.full(len(total) + 1, -1, dtype=np.int16)
        if len(seen) <= max_bins:
            bins[seen] = np.arange(len(seen))
            return cls(bins, max(1, len(seen)))
        judged = seen[total[seen] >= min_rows] if mean is not None else seen[:0]
        few = 1 if len(judged) < len(seen) else 0
        bins[:] = few - 1
        if mean is not None and len(judged) > 0:
            order = judged[np.argsort(mean[judged], kind="stable")]
            cuts = (
                _quantile_cuts(total[order], max_bins - few) if len(order) > max_bins - few else np.arange(len(order))
            )
            bins[order] = few + np.searchsorted(cuts, np.arange(len(order)))
        return cls(bins, len(judged) + few)


def residual_parts(residual: Array, weights: Weights | None) -> tuple[list[Array], list[float]]:
    """What each row adds to the residual of its category, an array for each output, in steps; and the steps.

    A row that is repeated adds what it adds, rounded, as often.
    """
    relative = 1.0 if weights is None or weights.relative is None else weights.relative
    repeats = None if weights is None or weights.repeats is None else weights.repeats.astype(np.float64)
    parts, steps = [], []
    for r in residual * relative:
        steps.append(step_of_sums(float(exact_sum(np.abs(r), repeats))))
        whole = np.rint(r / steps[-1])
        parts.append(whole if repeats is None else whole * repeats)
    return parts, steps


def means_of(sums: Sequence[Array], steps: Sequence[float], total: Array) -> Array:
    """Mean residual of each category, as if it had some more rows with residual zero; of the output that says most."""
    best, means = -1.0, np.zeros(len(total))
    for in_steps, step in zip(sums, steps, strict=True):
        mean = in_steps * step / (total + CATEGORY_SMOOTHING)
        spread = float(np.einsum("c,c,c->", mean, mean, total))
        if spread > best:
            best, means = spread, mean
    return means


def sample_of(n_rows: int) -> NDArray[np.int64] | None:
    """The rows that thresholds come from; None for all of them."""
    if n_rows <= MAX_SAMPLE:
        return None
    # By row number alone, so that the sample does not depend on threads or on how the rows are stored.
    return np.sort(np.random.default_rng(0).choice(n_rows, MAX_SAMPLE, replace=False))


def _without_repeats(X: Any) -> Any:
    """A sparse matrix in which no place has several values, which would count as their sum."""
    if X.format in ("csr", "csc") and X.has_canonical_format:
        return X
    columns = X.tocsc(copy=True)
    columns.sum_duplicates()
    return columns


def _column_blocks(X: Any, rows: NDArray[np.int64] | None) -> Iterator[NDArray[Any]]:
    """Some rows of X, a few columns at a time, dense."""
    if issparse(X):
        X, rows = (X if rows is None else X[rows]).tocsc(), None
    for first in range(0, X.shape[1], COLUMNS_AT_ONCE):
        block = X[:, first : first + COLUMNS_AT_ONCE]
        block = block.toarray(order="F") if issparse(block) else block
        yield block if rows is None else block[rows]


def _weighted_thresholds(
    X: Any, rows: NDArray[np.int64] | None, max_bins: int, weights: Weights
) -> tuple[Array, NDArray[np.int32]]:
    whole = (weights if rows is None else weights[rows]).in_steps
    blocks = _column_blocks(X, rows)
    return _joined([feature_thresholds(column, max_bins, whole) for block in blocks for column in block.T])


def _joined(thresholds: list[Array]) -> tuple[Array, NDArray[np.int32]]:
    """Thresholds of one feature after the other, and how many each has: as from the kernel."""
    return np.concatenate(thresholds), np.array([len(t) for t in thresholds], dtype=np.int32)


def _sparse_thresholds(
    X: Any, rows: NDArray[np.int64] | None, max_bins: int, weights: Weights | None, n_threads: int
) -> tuple[Array, NDArray[np.int32]]:
    columns = _without_repeats(X if rows is None else X[rows]).tocsc()
    start = columns.indptr.astype(np.int64, copy=False)
    found = _native.sparse_thresholds(columns.data, start, columns.shape[0], max_bins, n_threads)
    # Weights matter where there are more values than bins; with zero there is one more than are stored.
    many = np.flatnonzero(np.diff(start) >= max_bins)
    if weights is None or len(many) == 0:
        return found
    some = weights if rows is None else weights[rows]
    return _replaced(*found, many, *_weighted_thresholds(columns[:, many], None, max_bins, some))


def _replaced(
    values: Array, counts: NDArray[np.int32], features: NDArray[np.intp], others: Array, n_others: NDArray[np.int32]
) -> tuple[Array, NDArray[np.int32]]:
    """Thresholds of all features, with others in the place of those of some."""
    end = np.cumsum(counts)
    kept = np.split(values, np.column_stack([end - counts, end])[features].ravel())[::2]
    parts = [kept[0]]
    for own, rest in zip(np.split(others, np.cumsum(n_others)[:-1]), kept[1:], strict=True):
        parts += [own, rest]
    counts = counts.copy()
    counts[features] = n_others
    return np.concatenate(parts), counts


def feature_thresholds(column: NDArray[Any], max_bins: int, weight: Array) -> Array:
    """Midpoints between neighbouring distinct values; where there are too many, at the quantiles only.

    Weights are whole numbers, so that the order of the rows does not matter. With equal weights the thresholds are
    those of the kernel, which knows no weights.
    """
    present = ~np.isnan(column)
    values = column[present].astype(np.float64)
    if len(values) == 0:
        return np.empty(0)
    order = np.argsort(values, kind="stable")
    values, weight = values[order], weight[present][order]
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    distinct = values[first]
    if len(distinct) <= max_bins:
        return _between(distinct[:-1], distinct[1:])
    cuts = _quantile_cuts(np.add.reduceat(weight, first), max_bins)
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
    """Midpoints t with low <= t < high, also where the sum would overflow or nothing lies between.

    Infinities are parted from their neighbours: t is the low one then.
    """
    with np.errstate(invalid="ignore"):  # between the two infinities
        middle = low / 2 + high / 2
    return np.where((middle >= low) & (middle < high), middle, low)
