"""Rows copied from a binned matrix have the codes of rows that are binned with the same thresholds."""

import numpy as np
import pytest

from agbm._tree.bins import Bins


def binned(n=500, n_features=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[:, 3] = rng.integers(0, 3, n)  # few bins: another width of groups
    X[rng.random(X.shape) < 0.1] = np.nan
    bins = Bins.from_data(X, 255)
    return X, bins, bins.encode(X, 1)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_bins_of_a_subset_of_rows(n_threads):
    X, bins, matrix = binned(40_000)
    rows = np.random.default_rng(1).integers(0, len(X), 35_000).astype(np.uint32)
    taken = bins.matrix(len(rows))
    taken.take(matrix, list(range(20)), rows, n_threads)
    np.testing.assert_array_equal(taken.codes(), bins.encode(X[rows], 1).codes())
    np.testing.assert_array_equal(taken.columns(), matrix.columns()[:, rows])


def test_bins_of_a_subset_of_features():
    _, bins, matrix = binned()
    rows = np.arange(0, 500, 2, dtype=np.uint32)
    taken = bins.matrix(len(rows))
    taken.take(matrix, [0, 5], rows, 1)
    wanted = np.zeros((250, 20), dtype=np.uint8)
    wanted[:, [0, 5]] = matrix.codes()[rows][:, [0, 5]]
    np.testing.assert_array_equal(taken.codes(), wanted)


@pytest.mark.parametrize(
    ("features", "rows", "message"),
    [([20], [0], "no such feature"), ([-1], [0], "no such feature"), ([0], [500], "no such row"),
     ([0], [0, 1], "one entry for each row")],
)  # fmt: skip
def test_invalid_arguments(features, rows, message):
    _, bins, matrix = binned()
    with pytest.raises(ValueError, match=message):
        bins.matrix(1).take(matrix, features, np.array(rows, dtype=np.uint32), 1)


def test_other_max_bins():
    X, _, matrix = binned()
    fewer = Bins.from_data(X, 10)
    with pytest.raises(ValueError, match="same bins"):
        fewer.matrix(1).take(matrix, [0], np.zeros(1, dtype=np.uint32), 1)
    with pytest.raises(ValueError, match="same features"):
        Bins.from_data(X[:, :5], 255).matrix(1).take(matrix, [0], np.zeros(1, dtype=np.uint32), 1)
