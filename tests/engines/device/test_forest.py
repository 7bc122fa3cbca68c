"""Forests of a device have the bits of the native ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm._engines.device import forest as device_forest
from agbm._engines.device.forest import DeviceForest
from agbm._engines.device.matrix import table_to_device
from agbm._tree.forest import NODE, Forest
from devices import a_device
from forests import LAYOUTS, random_forest

FIELDS = ("feature", "threshold", "left", "missing_left", "categories")


def any_forest(rng, n_features, n_trees, most_leaves, thresholds, n_values, n_outputs, n_functions, n_sets):
    """A random forest. If all outputs are in each leaf, trees share the columns, otherwise they have some of them."""
    n_columns = n_outputs * n_functions
    arrays = random_forest(rng, n_features, n_trees, most_leaves, thresholds, n_values, n_columns, n_sets)
    nodes = np.zeros(len(arrays["feature"]), dtype=NODE)
    for field in FIELDS:
        nodes[field] = arrays.pop(field)
    return Forest(n_features, n_outputs, n_functions, nodes=nodes, **arrays)


def any_table(rng, forest, thresholds, n_rows, dtype):
    """Numbers at and next to thresholds, categories, and missing ones."""
    with np.errstate(over="ignore", under="ignore"):
        equal = rng.choice(thresholds, (n_rows, forest.n_features)).astype(dtype)
        beside = np.nextafter(equal, dtype(rng.choice([-1, 1]) * np.inf))
    X = np.where(rng.random(equal.shape) < 0.5, equal, beside)
    X = np.where(rng.random(X.shape) < 0.2, rng.integers(-1, 70, X.shape), X).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def assert_same(device, forest, X, table):
    on_device = DeviceForest(device, forest)
    for _ in range(2):  # the second time with what is already on the device
        found, expected = device.to_host(on_device.predict(table)), forest.predict(X, 1)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.view(np.int64), np.ascontiguousarray(expected).view(np.int64))
    found, expected = device.to_host(on_device.leaves(table)), forest.leaves(X, 1)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.sampled_from([0, 1, 2, 31, 255, 256, 257, 530]),
    n_features=st.sampled_from([1, 2, 5, 17, 33, 70, 300]),
    n_trees=st.integers(1, 11),
    most_leaves=st.sampled_from([1, 2, 4, 9, 64, 300]),
    values=st.sampled_from([(1, 1, 1), (1, 3, 1), (1, 2, 2), (2, 1, 2), (2, 2, 2), (4, 2, 2), (3, 3, 1)]),
    n_sets=st.sampled_from([0, 0, 3]),
    narrow=st.booleans(),
    layout=st.sampled_from(["rows", "columns", "every second row", "backwards"]),
    n_processors=st.integers(1, 2),
)
def test_predictions_and_leaves(
    seed, n_rows, n_features, n_trees, most_leaves, values, n_sets, narrow, layout, n_processors
):
    rng, device = np.random.default_rng(seed), a_device(n_processors)
    grid = rng.normal(size=rng.integers(1, 50)) * 10.0 ** rng.integers(-3, 4)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e300, -1e300, 1e-300, 5e-324, 3.4028235e38, 16777217.0])
    thresholds = np.append(grid, rng.choice(special, rng.integers(0, 4)))
    forest = any_forest(rng, n_features, n_trees, most_leaves, thresholds, *values, n_sets)
    X = any_table(rng, forest, thresholds, n_rows, np.float32 if narrow else np.float64)
    if layout == "every second row":
        table = table_to_device(device, np.repeat(X, 2, axis=0))[::2]
    elif layout == "backwards":
        table = device.to_device(np.ascontiguousarray(X[:, ::-1]))[:, ::-1]
    else:
        table = table_to_device(device, LAYOUTS[layout](X))
    assert_same(device, forest, X, table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shared_bytes", "narrow_columns", "narrow_distance", "kernel"),
    [(2**16, 2**10, 2**20, "narrow"), (0, 2**10, 2**20, "narrow"), (2**16, 4, 2**20, "wide"), (0, 2**10, 5, "wide")],
)
def test_many_columns_and_distant_children(monkeypatch, dtype, shared_bytes, narrow_columns, narrow_distance, kernel):
    """With limits so small that a small forest exceeds them."""
    monkeypatch.setattr(device_forest, "SHARED_BYTES", shared_bytes)
    monkeypatch.setattr(device_forest, "NARROW_COLUMNS", narrow_columns)
    monkeypatch.setattr(device_forest, "NARROW_DISTANCE", narrow_distance)
    rng, device = np.random.default_rng(0), a_device()
    thresholds = rng.normal(size=30)
    forest = any_forest(rng, 10, 7, 30, thresholds, 1, 1, 1, 3)
    X = any_table(rng, forest, thresholds, 300, dtype)
    assert_same(device, forest, X, table_to_device(device, X))
    ends = "narrow" if kernel == "narrow" and dtype == np.float32 else np.dtype(dtype).name
    assert set(device.launched) == {f"agbm_predict_{ends}", f"agbm_leaves_{ends}"}


@pytest.mark.parametrize(("n_features", "kernel"), [(1023, "narrow"), (1024, "float32")])
def test_more_columns_than_shared_memory_has_room_for(n_features, kernel):
    rng, device = np.random.default_rng(0), a_device()
    thresholds = rng.normal(size=100)
    forest = any_forest(rng, n_features, 11, 300, thresholds, 1, 1, 1, 0)
    forest.nodes["feature"][0] = n_features - 1
    X = any_table(rng, forest, thresholds, 60, np.float32)
    assert_same(device, forest, X, device.to_device(X))
    assert set(device.launched) == {f"agbm_predict_{kernel}", f"agbm_leaves_{kernel}"}


def test_overlapping_columns_are_added_to_in_the_order_of_the_trees():
    rng, device = np.random.default_rng(1), a_device()
    forest = any_forest(rng, 1, 40, 2, np.zeros(1), 2, 2, 2, 0)
    assert (np.diff(forest.first_column) == -1).any()
    X = rng.normal(size=(50, 1))
    assert_same(device, forest, X, device.to_device(X))


def assert_same_contributions(device, forest, X, table):
    found = forest.by_function(device.to_host(DeviceForest(device, forest).contributions(table)).transpose(2, 0, 1))
    expected = forest.contributions(X, 1)
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.sampled_from([0, 1, 31, 127, 130, 257]),
    n_features=st.sampled_from([1, 3, 9, 33]),
    n_trees=st.integers(1, 4),
    most_leaves=st.sampled_from([1, 2, 9, 40]),
    values=st.sampled_from([(1, 1, 1), (1, 3, 1), (2, 1, 2), (2, 2, 2), (3, 3, 1)]),
    n_sets=st.sampled_from([0, 3]),
    most_counted=st.sampled_from([1, 2, 1000]),
    narrow=st.booleans(),
    layout=st.sampled_from(["rows", "columns"]),
    n_processors=st.integers(1, 2),
)
def test_contributions(
    seed, n_rows, n_features, n_trees, most_leaves, values, n_sets, most_counted, narrow, layout, n_processors
):
    rng, device = np.random.default_rng(seed), a_device(n_processors)
    thresholds = np.append(rng.normal(size=20), [np.inf, -np.inf, 2.0])
    forest = any_forest(rng, n_features, n_trees, most_leaves, thresholds, *values, n_sets)
    forest.nodes["count"] = rng.integers(0, most_counted + 1, len(forest.nodes))
    X = any_table(rng, forest, thresholds, n_rows, np.float32 if narrow else np.float64)
    assert_same_contributions(device, forest, X, table_to_device(device, LAYOUTS[layout](X)))


@pytest.mark.parametrize("walk_bytes", [2**28, 0])
def test_contributions_of_deep_trees(walk_bytes, monkeypatch):
    """Paths with so many features that there are several passes, and several rows per thread."""
    monkeypatch.setattr(device_forest, "WALK_BYTES", walk_bytes)
    rng, device, n_levels = np.random.default_rng(0), a_device(2), 60
    nodes = np.zeros(2 * n_levels + 1, dtype=NODE)
    nodes["left"], nodes["feature"], nodes["categories"] = -1, -1, -1
    nodes["count"] = rng.integers(1, 50, len(nodes))
    nodes["left"][:-1:2] = np.arange(1, 2 * n_levels, 2)  # a long path: leaves on the left, inner nodes on the right
    nodes["feature"][:-1:2] = np.arange(n_levels) % 33
    forest = Forest(
        33, 1, 1, roots=np.zeros(1, np.int32), first_column=np.zeros(1, np.int32), nodes=nodes,
        category_words=np.zeros(0, np.uint64), category_start=np.zeros(1, np.int64),
        value=rng.normal(size=(len(nodes), 1)),
    )  # fmt: skip
    X = rng.normal(size=(300, 33)) + 1.0
    X[rng.random(X.shape) < 0.1] = np.nan
    assert_same_contributions(device, forest, X, device.to_device(X))


def test_no_trees_and_other_tables():
    device = a_device()
    forest = Forest(
        4, 2, 1, roots=np.zeros(0, np.int32), first_column=np.zeros(0, np.int32), nodes=np.zeros(0, NODE),
        category_words=np.zeros(0, np.uint64), category_start=np.zeros(1, np.int64), value=np.zeros((0, 1)),
    )  # fmt: skip
    on_device = DeviceForest(device, forest)
    assert not device.to_host(on_device.predict(device.to_device(np.ones((5, 4))))).any()
    assert not device.to_host(on_device.contributions(device.to_device(np.ones((5, 4))))).any()
    for method in (on_device.predict, on_device.contributions):
        with pytest.raises(ValueError, match="X must have 4 columns"):
            method(device.to_device(np.ones((5, 3))))
