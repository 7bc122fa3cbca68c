"""Bins of a table that parts of its rows share, as the folds of a cross-validation do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base.sums import Array
from .._base.types import Matrix
from .._base.weights import Weights
from .._core.ring import RingPart
from .bins import Bins, GroupedCategories, sample_of
from .learner import CodedRows, TreeFitter, TreeLearner


class SharedBins:
    """The bins of all rows of a table, from which those of parts are copied.

    Thresholds of numeric features do not depend on labels, so they come from all rows. Categories that share a bin do
    so because of their residuals: each part bins its categories itself, from its own training rows.
    """

    def __init__(
        self, X: Matrix, rows: NDArray[np.intp], max_bins: int, weights: Weights | None, n_threads: int
    ) -> None:
        """X has all rows; thresholds come from the given ones, whose weights are `weights`."""
        some = X if len(rows) == X.shape[0] else X[rows]
        self._X = X
        self._bins = Bins.from_sample(some, sample_of(len(rows)), max_bins, weights, {}, n_threads)
        # Features of a sparse table share columns, and which ones can do so depends on the rows.
        self._matrix = None if issparse(X) else self._bins.encode(X, n_threads)

    def bind(
        self, learner: TreeLearner, rows: NDArray[np.intp], n_train: int, weights: Weights | None, residual: Array
    ) -> TreeFitter:
        """A fitter for some rows, of which the first n_train are for training; see TreeLearner.bind."""
        grouped = self._grouped(learner, rows[:n_train], weights, residual)
        bins, leaf = self._bins.with_categories(grouped), learner.leaf_rows(n_train, weights)
        if self._matrix is None:
            matrix = bins.encode(self._X[rows], learner.n_threads, leaf)
            return TreeFitter(learner, CodedRows(bins, matrix), RingPart(n_train), weights)
        matrix = bins.matrix(len(rows))
        numeric = [f for f in range(bins.n_features) if f not in grouped]
        matrix.take(self._matrix, numeric, rows.astype(np.uint32), learner.n_threads)
        for f in grouped:
            bins.fill_categories(matrix, f, self._X[rows, f], None, learner.n_threads)
        matrix.leave_out(learner.n_threads, *leaf)
        return TreeFitter(learner, CodedRows(bins, matrix), RingPart(n_train), weights)

    def _grouped(
        self, learner: TreeLearner, rows: NDArray[np.intp], weights: Weights | None, residual: Array
    ) -> dict[int, GroupedCategories]:
        """The bins of categories."""
        counts = dict(enumerate([] if learner.n_categories is None else learner.n_categories.tolist()))
        return {
            f: GroupedCategories.from_data(
                self._X[rows, f], n, learner.max_bins, weights, residual, learner.min_category_rows
            )
            for f, n in counts.items()
            if n > 0
        }
