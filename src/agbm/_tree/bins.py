"""Binning: maps values to at most 255 codes per feature, plus one for missing values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base import _native
from .._base.sums import Array, exact_sum, step_of_sums
from .._base.types import AnyArray, Matrix
from .._base.weights import Weights
from .forest import Forest

# Thresholds are computed from at most this many rows; with 255 bins, more rows would make no visible difference.
MAX_SAMPLE = 200_000

# The mean residual of a category is computed as if it had this many more rows with residual zero, as in the kernels.
CATEGORY_SMOOTHING = 10.0

# How many rows of a table that is not in memory as a whole are binned at a time.
ROWS_AT_ONCE = 1 << 14

# How many columns are copied at a time if there are weights.
COLUMNS_AT_ONCE = 16

# The sets of a forest without categories.
_NO_WORDS = np.zeros(0, dtype=np.uint64)
_NO_SETS = np.zeros(1, dtype=np.int64)


class OtherBinsError(ValueError):
    """A known tree has a threshold that is not one of the bins."""

    def __init__(self, feature: int, threshold: float) -> None:
        super().__init__(
            f"X: feature {feature} has other bins than in the run to resume; pass the same rows, or start from scratch."
        )
        self.feature = feature
        self.threshold = threshold


class LeafRows(NamedTuple):
    """The number of training rows, and the minimum number per leaf."""

    min_samples_leaf: int
    n_train: int
    repeats: NDArray[np.int64] | None
    """How often each training row is repeated; None for once."""


class Bins:
    """The bins of all features.

    The bin of x is the number of thresholds below it: x <= thresholds[bin]. Values of a categorical feature are
    category codes, which `grouped` maps to bins.
    """

    def __init__(self, values: Array, counts: NDArray[np.int32], grouped: dict[int, GroupedCategories]) -> None:
        """`values` has the thresholds of all features, one feature after the other; `counts` their numbers."""
        self.n_bins = (counts + 1).tolist()
        self.grouped = grouped
        self.flat_thresholds = values
        """The thresholds of all features, one feature after the other."""
        self._start = np.append(0, np.cumsum(counts, dtype=np.intp))

    @classmethod
    def from_data(
        cls,
        X: Matrix,
        max_bins: int,
        weights: Weights | None = None,
        n_categories: NDArray[np.intp] | None = None,
        residual: Array | None = None,
        min_category_rows: int = 10,
        n_threads: int = 1,
    ) -> Bins:
        """Compute thresholds from the rows of X, or from a fixed random sample; categories from all rows.

        `n_categories` is the number of categories per feature, 0 for numeric features. If a feature has more categories
        than bins, categories with similar means of `residual` (output, row) share a bin; those with fewer than
        min_category_rows rows have no mean and share one bin.
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
        """Compute thresholds from the given rows of X (None for all) and their weights; categories are `grouped`."""
        if rows is not None and not (isinstance(X, np.ndarray) or issparse(X)):
            X, weights, rows = X[rows], None if weights is None else weights[rows], None
        if issparse(X):
            values, counts = _sparse_thresholds(X, rows, max_bins, weights, n_threads)
        elif weights is not None:
            values, counts = _weighted_thresholds(X, rows, max_bins, weights)
        else:
            values, counts = _native.thresholds(np.asarray(X), rows, max_bins, n_threads)
        return cls(values, counts, {}).with_categories(grouped)

    def with_categories(self, grouped: dict[int, GroupedCategories]) -> Bins:
        """The same thresholds, but for some features the bins of categories."""
        if not grouped:
            return self
        parts = self.thresholds
        for f, categories in grouped.items():
            parts[f] = np.arange(categories.n_bins - 1, dtype=np.float64) + 0.5
        return Bins(*_joined(parts), {**self.grouped, **grouped})

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.n_bins)

    @property
    def thresholds(self) -> list[Array]:
        """The thresholds of each feature."""
        return np.split(self.flat_thresholds, self._start[1:-1])

    def encode(
        self, X: Any, n_threads: int, leaf: LeafRows | None = None, places: NDArray[np.uint32] | None = None,
        without: Sequence[int] = (),
    ) -> _native.BinnedMatrix:  # fmt: skip
        """The bin codes of X (float32 or float64, dense or sparse).

        If `leaf` is given, features that cannot split the training rows into leaves of that size are left out, and so
        are those of `without`. `places` are the rows of the matrix that rows of X become; a sparse X has none.
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
        matrix = self.matrix(X.shape[0], without=without)
        if isinstance(X, np.ndarray):
            self.fill(matrix, X, places, n_threads, without)
        else:
            for first in range(0, X.shape[0], ROWS_AT_ONCE):
                part = np.asarray(X[first : first + ROWS_AT_ONCE])
                rows = np.arange(first, first + len(part), dtype=np.uint32)
                self.fill(matrix, part, rows if places is None else places[rows], n_threads, without)
        if leaf is not None:
            matrix.leave_out(n_threads, *leaf)
        return matrix

    def matrix(self, n_rows: int, folder: str = "", without: Sequence[int] = ()) -> _native.BinnedMatrix:
        """An empty matrix to fill, without some features; stored in temporary files if a folder is given."""
        told_apart = [0] * self.n_features
        for f, grouped in self.grouped.items():
            told_apart[f] = grouped.n_told_apart
        return _native.BinnedMatrix(n_rows, self.n_bins, told_apart, folder, list(without))

    def with_own_categories(
        self, matrix: _native.BinnedMatrix, grouped: dict[int, GroupedCategories], folder: str = ""
    ) -> tuple[Bins, _native.BinnedMatrix]:
        """Bins in which some features, which a matrix does not have, have other categories; and a matrix with them.

        It shares the codes of all other features. Those of these features are to be filled.
        """
        bins, features = self.with_categories(grouped), sorted(grouped)
        told_apart = [grouped[f].n_told_apart for f in features]
        return bins, matrix.with_features(features, [bins.n_bins[f] for f in features], told_apart, folder)

    def fill(
        self, matrix: _native.BinnedMatrix, X: AnyArray, rows: NDArray[np.uint32] | None, n_threads: int,
        without: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Write the codes of X (float32 or float64) to the given rows of a matrix, None for all.

        Features of `without` are not written.
        """
        ends = [*sorted(without), self.n_features]
        for first, end in zip([0, *(f + 1 for f in ends[:-1])], ends, strict=True):
            if first < end:
                thresholds = self.flat_thresholds[self._start[first] : self._start[end]]
                matrix.fill(first, X[:, first:end], thresholds, n_threads, rows)
        for f in self.grouped:
            if f not in without:
                self.fill_categories(matrix, f, X[:, f], rows, n_threads)

    def fill_categories(
        self, matrix: _native.BinnedMatrix, f: int, column: AnyArray, rows: NDArray[np.uint32] | None,
        n_threads: int,
    ) -> None:  # fmt: skip
        """Write the codes of the categories of feature f to the given rows of a matrix, None for all."""
        bins = self.grouped[f].bins_of(column)[:, np.newaxis]
        matrix.fill(f, bins, self._thresholds_of(f), n_threads, rows)

    def _thresholds_of(self, f: int) -> Array:
        return self.flat_thresholds[self._start[f] : self._start[f + 1]]

    @cached_property
    def _is_grouped(self) -> NDArray[np.bool_]:
        """Whether each feature is categorical; false for -1, the feature of leaves."""
        mask = np.zeros(len(self.n_bins) + 1, dtype=bool)
        mask[list(self.grouped)] = True
        return mask

    def category_sets(
        self, nodes: NDArray[np.void], left_codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The sets of categories that go left, as in Forest; writes the index of each set to its node."""
        if not self.grouped:
            return _NO_WORDS, _NO_SETS
        words: list[NDArray[np.uint64]] = []
        by_set = np.flatnonzero(self._is_grouped[nodes["feature"]])
        nodes["categories"][by_set] = np.arange(len(by_set))
        features, missing_left = nodes["feature"][by_set].tolist(), nodes["missing_left"][by_set].tolist()
        by_bin = np.unpackbits(left_codes[by_set].view(np.uint8), axis=1, bitorder="little")
        for f, missing, of_node in zip(features, missing_left, by_bin, strict=True):
            bins = self.grouped[f].bins
            # The padding up to a full word, like all codes after it, is treated as missing.
            by_category = np.full(-len(bins) % 64 + len(bins), missing, dtype=np.uint8)
            np.copyto(by_category[: len(bins)], of_node[bins], where=bins >= 0)
            words.append(np.packbits(by_category, bitorder="little").view(np.uint64))
        start = np.cumsum([0, *(len(w) for w in words)], dtype=np.int64)
        return np.concatenate([_NO_WORDS, *words]), start

    def left_codes(self, forest: Forest) -> NDArray[np.uint64]:
        """For each node of a forest that was grown with these bins, the bin codes that go left, as 256 bits."""
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
        """The bin that ends at a threshold; the last bin has no upper end."""
        thresholds = self._thresholds_of(f)
        number = int(np.searchsorted(thresholds, threshold))
        if number < len(thresholds) and thresholds[number] != threshold:
            raise OtherBinsError(f, threshold)
        return number


@dataclass(frozen=True, eq=False)
class GroupedCategories:
    """The bins of the categories of one feature.

    If some categories are too rare for a bin of their own, they share one bin with categories that have no training
    rows and with unknown categories. Otherwise, unknown categories and those without training rows are treated as
    missing.
    """

    bins: NDArray[np.int16]
    """The bin of each category, by code, followed by the bin of unknown categories; -1 if treated as missing."""
    n_told_apart: int
    """Number of categories that were assigned to bins; all rare categories in the shared bin count as one."""

    @property
    def n_bins(self) -> int:
        """Number of bins, at least one."""
        return max(1, int(self.bins.max(initial=-1)) + 1)

    def bins_of(self, column: AnyArray) -> Array:
        """The bin of the category of each row; NaN if it is missing or treated as missing."""
        known = column < len(self.bins)  # false for NaN
        bins = np.full(len(column), -1.0)
        bins[known] = self.bins[column[known].astype(np.intp)]
        bins[bins < 0] = np.nan
        return bins

    @classmethod
    def from_data(
        cls,
        column: AnyArray,
        n_categories: int,
        max_bins: int,
        weights: Weights | None,
        residual: Array | None,
        min_rows: int = 10,
    ) -> GroupedCategories:
        """Bins for the category codes of the training rows; see from_sums."""
        total = category_weight(column, n_categories, weights)
        if residual is None or np.count_nonzero(total) <= max_bins:
            return cls.from_sums(total, None, max_bins, min_rows)
        parts, steps = residual_parts(residual, weights)
        sums = _sums_of_categories(column, n_categories, parts)
        return cls.from_sums(total, means_of(sums, steps, total), max_bins, min_rows)

    @classmethod
    def from_sums(cls, total: Array, mean: Array | None, max_bins: int, min_rows: int) -> GroupedCategories:
        """One bin per category if there are enough bins; `total` is the weight of each category.

        Otherwise, categories with similar mean residuals share a bin, such that all bins have about the same number of
        rows; a category frequent enough to fill a bin gets its own. Categories with too few rows for a mean share the
        first bin.
        """
        seen = np.flatnonzero(total)
        bins = np.full(len(total) + 1, -1, dtype=np.int16)
        if len(seen) <= max_bins:
            bins[seen] = np.arange(len(seen))
            return cls(bins, max(1, len(seen)))
        frequent = seen[total[seen] >= min_rows] if mean is not None else seen[:0]
        few = 1 if len(frequent) < len(seen) else 0
        bins[:] = few - 1
        if mean is not None and len(frequent) > 0:
            order = frequent[np.argsort(mean[frequent], kind="stable")]
            cuts = (
                _quantile_cuts(total[order], max_bins - few) if len(order) > max_bins - few else np.arange(len(order))
            )
            bins[order] = few + np.searchsorted(cuts, np.arange(len(order)))
        return cls(bins, len(frequent) + few)


NO_CATEGORIES = GroupedCategories(np.full(1, -1, dtype=np.int16), 1)
"""Bins of a feature whose categories are not known yet."""


def category_weight(column: AnyArray, n_categories: int, weights: Weights | None) -> Array:
    """The weight of each category, by code, in rows with these codes."""
    whole, step = (None, 1.0) if weights is None else (weights.in_steps, weights.step)
    return _sums_of_categories(column, n_categories, [whole])[0] * step


def _sums_of_categories(column: AnyArray, n_categories: int, parts: Sequence[Array | None]) -> list[Array]:
    """For each part, the sum of its numbers over the rows of each category; None for the number of rows."""
    present = ~np.isnan(column)
    codes = column[present].astype(np.intp)
    of_present = [None if part is None else part[present] for part in parts]
    return [np.asarray(np.bincount(codes, part, n_categories), dtype=np.float64) for part in of_present]


def residual_parts(residual: Array, weights: Weights | None) -> tuple[list[Array], list[float]]:
    """The contribution of each row to the residual sum of its category, as integer multiples of a step; and the steps.

    There is one array and one step per output. The contribution of a repeated row is rounded before it is repeated.
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
    """The smoothed mean residual of each category, for the output where the means vary most."""
    best, means = -1.0, np.zeros(len(total))
    for in_steps, step in zip(sums, steps, strict=True):
        mean = in_steps * step / (total + CATEGORY_SMOOTHING)
        spread = float(np.einsum("c,c,c->", mean, mean, total))
        if spread > best:
            best, means = spread, mean
    return means


def sample_of(n_rows: int) -> NDArray[np.int64] | None:
    """The rows that thresholds are computed from; None for all rows."""
    if n_rows <= MAX_SAMPLE:
        return None
    # Depends only on the number of rows, not on threads or on how the rows are stored.
    return np.sort(np.random.default_rng(0).choice(n_rows, MAX_SAMPLE, replace=False))


def _without_repeats(X: Any) -> Any:
    """A sparse matrix with duplicate entries summed up."""
    if X.format in ("csr", "csc") and X.has_canonical_format:
        return X
    columns = X.tocsc(copy=True)
    columns.sum_duplicates()
    return columns


def _column_blocks(X: Any, rows: NDArray[np.int64] | None) -> Iterator[AnyArray]:
    """The given rows of X as dense arrays of a few columns at a time."""
    if issparse(X):
        X, rows = (X if rows is None else X[rows]).tocsc(), None
    for first in range(0, X.shape[1], COLUMNS_AT_ONCE):
        block = X[:, first : first + COLUMNS_AT_ONCE]
        block = block.toarray(order="F") if issparse(block) else block
        yield block if rows is None else block[rows]


def _weighted_thresholds(
    X: Matrix, rows: NDArray[np.int64] | None, max_bins: int, weights: Weights
) -> tuple[Array, NDArray[np.int32]]:
    whole = (weights if rows is None else weights[rows]).in_steps
    blocks = _column_blocks(X, rows)
    return _joined([feature_thresholds(column, max_bins, whole) for block in blocks for column in block.T])


def _joined(thresholds: list[Array]) -> tuple[Array, NDArray[np.int32]]:
    """The thresholds of all features in one array, and their number per feature, as the kernel returns them."""
    return np.concatenate(thresholds), np.array([len(t) for t in thresholds], dtype=np.int32)


def _sparse_thresholds(
    X: Matrix, rows: NDArray[np.int64] | None, max_bins: int, weights: Weights | None, n_threads: int
) -> tuple[Array, NDArray[np.int32]]:
    columns = _without_repeats(X if rows is None else X[rows]).tocsc()
    start = columns.indptr.astype(np.int64, copy=False)
    found = _native.sparse_thresholds(columns.data, start, columns.shape[0], max_bins, n_threads)
    # Weights matter only for features with more values than bins; zero is one value more than those stored.
    many = np.flatnonzero(np.diff(start) >= max_bins)
    if weights is None or len(many) == 0:
        return found
    some = weights if rows is None else weights[rows]
    return _replaced(*found, many, *_weighted_thresholds(columns[:, many], None, max_bins, some))


def _replaced(
    values: Array, counts: NDArray[np.int32], features: NDArray[np.intp], others: Array, n_others: NDArray[np.int32]
) -> tuple[Array, NDArray[np.int32]]:
    """The thresholds of all features, with those of some features replaced by others."""
    end = np.cumsum(counts)
    kept = np.split(values, np.column_stack([end - counts, end])[features].ravel())[::2]
    parts = [kept[0]]
    for own, rest in zip(np.split(others, np.cumsum(n_others)[:-1]), kept[1:], strict=True):
        parts += [own, rest]
    counts = counts.copy()
    counts[features] = n_others
    return np.concatenate(parts), counts


def feature_thresholds(column: AnyArray, max_bins: int, weight: Array) -> Array:
    """Midpoints between neighbouring distinct values; if there are too many, only those at the quantiles.

    Weights are integers, so the order of the rows does not matter. With equal weights, the thresholds are the same as
    those of the kernel, which does not support weights.
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
        return between(distinct[:-1], distinct[1:])
    cuts = _quantile_cuts(np.add.reduceat(weight, first), max_bins)
    return between(distinct[cuts], distinct[cuts + 1])


def _quantile_cuts(counts: Array, max_bins: int) -> NDArray[np.intp]:
    """The positions in a sequence of distinct values after which a new bin begins; `counts` is how often each occurs.

    A value frequent enough to fill a bin gets its own bin; the remaining bins get equal shares of the other values.
    """
    frequent, free = np.zeros(len(counts), dtype=bool), max_bins - 1
    while True:
        bins_left = max_bins - np.count_nonzero(frequent)
        candidate = frequent | (counts * bins_left >= counts[~frequent].sum())
        runs = np.count_nonzero(~candidate & np.append(True, candidate[:-1]))  # of other values between frequent ones
        free_then = max_bins - int(np.count_nonzero(candidate)) - int(runs)
        if free_then < 0 or np.array_equal(candidate, frequent):
            break
        frequent, free = candidate, free_then  # without these, other values may be frequent among the rest
    own = np.flatnonzero(frequent[:-1] | frequent[1:])
    others = np.cumsum(np.where(frequent, 0, counts))
    targets = np.arange(1, free + 1) * others[-1] / (free + 1)
    # The cut nearest to each target, not after the last value.
    after = np.clip(np.searchsorted(others[:-1], targets), 1, len(counts) - 2)
    nearest = np.where(targets - others[after - 1] < others[after] - targets, after - 1, after)
    return np.union1d(own, nearest)


def between(low: Array, high: Array) -> Array:
    """Midpoints t with low <= t < high, even if the sum overflows or no number lies between low and high.

    Next to an infinity, t is the lower value.
    """
    with np.errstate(invalid="ignore"):  # between the two infinities
        middle = low / 2 + high / 2
    return np.where((middle >= low) & (middle < high), middle, low)
