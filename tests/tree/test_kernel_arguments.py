"""Errors of the native kernels for invalid arguments."""

from dataclasses import asdict

import numpy as np
import pytest

from agbm._base import _native
from agbm._tree.bins import Bins
from agbm._tree.forest import NODE
from growth import LEAF_RULES, grow
from toys import native_forest, sums_of_trees
from tree_twin import Rules

bad_calls = [
    ({"residuals": np.zeros((1, 9))}, "residuals"),
    ({"residuals": np.zeros((0, 5))}, "residuals"),
    ({"residuals": [np.zeros(5), np.zeros(4)]}, "residuals"),
    ({"hessians": np.ones((1, 4))}, "hessians"),
    ({"hessians": np.ones((2, 5))}, "hessians"),
    ({"hessians": np.array([[1.0, 1.0, 1.0, 1.0, -1.0]])}, "hessians"),
    ({"rows": np.array([1, 1], dtype=np.uint32)}, "rows"),
    ({"rows": np.array([5], dtype=np.uint32)}, "rows"),
    ({"rows": np.zeros(0, dtype=np.uint32)}, "rows"),
    ({"features": np.ones(3, dtype=np.uint8)}, "features"),
    ({"node_share": 0.0}, "node_share"),
    ({"monotone": [1]}, "monotone"),
    ({"monotone": [2, 0]}, "monotone"),
    ({"interactions": [[2]]}, "interactions"),
    ({"repeats": np.ones(4, dtype=np.int64)}, "repeats"),
    ({"repeats": np.zeros(5, dtype=np.int64)}, "repeats"),
    ({"repeats": np.full(5, 2**40)}, "repeats"),
    ({"max_depth": 0}, "max_depth"),
    ({"max_leaf_nodes": 1}, "max_leaf_nodes"),
    ({"min_samples_leaf": 0}, "min_samples_leaf"),
    ({"l1_regularization": -1.0}, "l1_regularization"),
    ({"l1_regularization": np.inf}, "l1_regularization"),
    ({"l2_regularization": [-1.0]}, "l2_regularization"),
    ({"l2_regularization": [1.0, 1.0]}, "l2_regularization"),
    ({"l2_regularization": []}, "l2_regularization"),
]


@pytest.mark.parametrize(("change", "name"), bad_calls)
def test_invalid_arrays_of_the_grower(change, name):
    X = np.arange(10.0).reshape(5, 2)
    arguments = {"residuals": np.zeros((1, 5)), "hessians": None, "repeats": None, "rows": None, "features": None}
    arguments = {**arguments, "node_share": 1.0, "seed": 0, **asdict(Rules()), **change}
    names = ("residuals", "hessians", "repeats", "rows", "features", "node_share", "seed", *LEAF_RULES)
    inputs = {key: arguments.pop(key) for key in names}
    bins = Bins.from_data(X, 10)
    with pytest.raises(ValueError, match=name):
        _native.Grower(bins.encode(X, 1), bins.flat_thresholds, **arguments, n_threads=1).grow(**inputs)


def test_categorical_features_cannot_be_monotone():
    X = np.zeros((5, 1))
    matrix = Bins.from_data(X, 10, n_categories=np.array([1])).encode(X, 1)
    with pytest.raises(ValueError, match="monotone"):
        grow(matrix, np.zeros((1, 5)), None, Rules(monotone=[1]))


def test_invalid_arguments_of_matrices():
    X = np.arange(10.0).reshape(5, 2)
    matrix = _native.BinnedMatrix(5, [3, 2], [0, 0])
    with pytest.raises(TypeError):
        matrix.fill(0, X.astype(int), np.zeros(3), 1)
    for first, block, thresholds, name in (
        (0, X, np.zeros(2), "thresholds"),
        (0, X, np.zeros(4), "thresholds"),
        (1, X, np.zeros(3), "features"),
        (-1, X, np.zeros(3), "features"),
        (0, X[:4], np.zeros(3), "rows"),
    ):
        with pytest.raises(ValueError, match=name):
            matrix.fill(first, block, thresholds, 1)
    for n_bins, n_categories, name in (
        ([], [], "n_bins"),
        ([256], [0], "n_bins"),
        ([0], [0], "n_bins"),
        ([3], [-1], "n_categories"),
    ):
        with pytest.raises(ValueError, match=name):
            _native.BinnedMatrix(5, n_bins, n_categories)
    with pytest.raises(ValueError, match="n_categories"):
        _native.BinnedMatrix(5, [3], [])
    for rows, start, name in (
        ([0], [0, 1, 2], "rows"),
        ([0, 5], [0, 1, 2], "rows"),
        ([1, 1], [0, 2, 2], "rows"),
        ([3, 1], [0, 2, 2], "rows"),
        ([0, 1], [], "start"),
        ([0, 1], [0, 2], "start"),
        ([0, 1], [0, 1, 3], "start"),
        ([0, 1], [0, 3, 2], "start"),
        ([0, 1], [1, 1, 2], "start"),
    ):
        with pytest.raises(ValueError, match=name):
            sparse_matrix(np.ones(2), rows, start)
    nothing = np.ones(0), [], [0, 0, 0]
    with pytest.raises(ValueError, match="thresholds"):
        sparse_matrix(*nothing, thresholds=np.zeros(2))
    for leaf, name in (
        ({"min_samples_leaf": 1, "n_train": 6}, "n_train"),
        ({"min_samples_leaf": -1, "n_train": 5}, "min_samples_leaf"),
        ({"min_samples_leaf": 1, "n_train": 5, "repeats": np.ones(4, dtype=np.int64)}, "repeats"),
    ):
        with pytest.raises(ValueError, match=name):
            sparse_matrix(*nothing, **leaf)


def sparse_matrix(values, rows, start, thresholds=None, **leaf):
    """Five rows of two features with two and three bins."""
    rows, start = np.array(rows, dtype=np.uint32), np.array(start, dtype=np.int64)
    thresholds = np.zeros(3) if thresholds is None else thresholds
    return _native.BinnedMatrix.from_sparse(values, rows, start, 5, [2, 3], thresholds, 1, **leaf)


def test_matrices_without_all_features():
    leaf = {"min_samples_leaf": 2, "n_train": 4}
    matrix = sparse_matrix(np.ones(3), [0, 1, 4], [0, 3, 3], thresholds=np.array([0.5, -1.0, 0.5]), **leaf)
    assert (matrix.n_features, matrix.n_columns) == (2, 1)
    with pytest.raises(ValueError, match="their own columns"):
        matrix.leave_out(1, **leaf)
    with pytest.raises(ValueError, match="n_train"):
        _native.BinnedMatrix(5, [3], [0]).leave_out(1, 1, 6)
    with pytest.raises(ValueError, match="no column"):
        matrix.codes()
    with pytest.raises(ValueError, match="their own columns"):
        matrix.columns()
    with pytest.raises(ValueError, match="min_samples_leaf"):
        grow(matrix, np.zeros((1, 4)), None, Rules(min_samples_leaf=1))
    with pytest.raises(ValueError, match="residuals"):
        grow(matrix, np.zeros((1, 5)), None, Rules(min_samples_leaf=2))
    record = np.zeros(3, NODE)
    record["feature"], record["left"] = [1, -1, -1], [1, -1, -1]
    first = np.zeros(1, dtype=np.int32)
    codes = np.zeros((3, 4), dtype=np.uint64)
    with pytest.raises(ValueError, match="no such feature"):
        matrix.values(first, first, record.view(np.uint8), codes, np.zeros((3, 1)), 1, 1)


def test_invalid_arguments_of_thresholds():
    X = np.arange(10.0).reshape(5, 2)
    for rows, max_bins, name in (([5], 10, "rows"), ([-1], 10, "rows"), ([0], 1, "max_bins"), ([0], 256, "max_bins")):
        with pytest.raises(ValueError, match=name):
            _native.thresholds(X, np.array(rows), max_bins, 1)
    for start, max_bins, name in (
        ([0, 6], 10, "rows"),
        ([0, 5], 10, "start"),
        ([], 10, "start"),
        ([0, 6], 1, "max_bins"),
    ):
        with pytest.raises(ValueError, match=name):
            _native.sparse_thresholds(np.ones(6), np.array(start, dtype=np.int64), 5, max_bins, 1)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"left": np.array([0, -1, -1], dtype=np.int32)}, "left"),
        ({"left": np.array([2, -1, -1], dtype=np.int32)}, "left"),
        ({"feature": np.array([4, -1, -1], dtype=np.int32)}, "feature"),
        ({"roots": np.array([3], dtype=np.int32)}, "roots"),
        ({"value": np.zeros((2, 1))}, "value"),
        ({"value": np.zeros((3, 2))}, "value: more than the forest has columns"),
        ({"value": np.zeros((3, 0))}, "n_values"),
        ({"value": np.full((3, 1), np.inf)}, "value: some are not finite"),
        ({"threshold": np.array([np.nan, 0.0, 0.0])}, "threshold"),
        ({"missing_left": np.array([2, 0, 0], dtype=np.uint8)}, "missing_left"),
        ({"feature": np.full(3, -1, dtype=np.int32), "left": np.full(3, -1, dtype=np.int32)}, "belongs to no tree"),
        (
            {"roots": np.array([0, 1], dtype=np.int32), "first_column": np.zeros(2, dtype=np.int32)},
            "in another tree",
        ),
        (
            {
                "feature": np.array([0, 0, -1, -1], dtype=np.int32),
                "left": np.array([1, 2, -1, -1], dtype=np.int32),
                "threshold": np.zeros(4),
                "missing_left": np.zeros(4, dtype=np.uint8),
                "categories": np.full(4, -1, dtype=np.int32),
                "value": np.zeros((4, 1)),
            },
            "reached twice",
        ),
        ({"first_column": np.array([1], dtype=np.int32)}, "first_column"),
        ({"first_column": np.zeros(2, dtype=np.int32)}, "first_column"),
        ({"categories": np.array([1, -1, -1], dtype=np.int32)}, "categories"),
        ({"category_start": np.zeros(0, dtype=np.int64)}, "category_start"),
        ({"category_start": np.array([0, 2])}, "category_start"),
        ({"category_start": np.array([1, 1])}, "category_start"),
    ],
)
def test_invalid_forests(change, name):
    arrays = {
        "n_columns": 1,
        "roots": np.zeros(1, dtype=np.int32),
        "first_column": np.zeros(1, dtype=np.int32),
        "feature": np.array([0, -1, -1], dtype=np.int32),
        "threshold": np.zeros(3),
        "left": np.array([1, -1, -1], dtype=np.int32),
        "missing_left": np.zeros(3, dtype=np.uint8),
        "categories": np.full(3, -1, dtype=np.int32),
        "category_words": np.zeros(1, dtype=np.uint64),
        "category_start": np.array([0, 1]),
        "value": np.zeros((3, 1)),
    }
    forest = native_forest(2, **arrays)
    with pytest.raises(ValueError, match="features"):
        sums_of_trees(forest, np.zeros((4, 3)), 1)
    with pytest.raises(ValueError, match=name):
        native_forest(2, **{**arrays, **change})
