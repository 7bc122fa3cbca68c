"""Bin codes of a device are those of the native kernel."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm._engines.device.bins import GROUP_COLUMNS, DeviceBins
from agbm._engines.device.matrix import DeviceMatrix, rounded_down, table_to_device
from agbm._tree.bins import Bins, GroupedCategories
from devices import a_device
from forests import LAYOUTS

SPECIAL = np.array([0.0, -0.0, 5e-324, 1e-40, -1e-310, np.inf, -np.inf, 1e300, -1e300, 3.4028235e38, 16777217.0])


def any_bins(rng, n_features, most_thresholds):
    """Bins with ordinary and special thresholds; categories in about one feature of four."""
    thresholds = []
    for _ in range(n_features):
        grid = rng.normal(size=rng.integers(0, most_thresholds + 1)) * 10.0 ** rng.integers(-3, 4)
        special = rng.choice(SPECIAL, rng.integers(0, 4))
        thresholds.append(np.unique(np.append(grid, special))[:254])
    grouped = {}
    for f in np.flatnonzero(rng.random(n_features) < 0.25).tolist():
        total = rng.integers(0, 30, size=rng.integers(1, 60)).astype(np.float64)
        grouped[f] = GroupedCategories.from_sums(total, rng.normal(size=len(total)), int(rng.integers(2, 80)), 10)
    counts = np.array([len(of) for of in thresholds], dtype=np.int32)
    return Bins(np.concatenate([*thresholds, np.zeros(0)]), counts, {}).with_categories(grouped)


def any_rows(rng, bins, n_rows, dtype):
    """Numbers at and next to thresholds, special and missing ones; codes of categories, known or not."""
    columns = []
    for f, thresholds in enumerate(bins.thresholds):
        with np.errstate(over="ignore", under="ignore"):
            equal = rng.choice(np.append(thresholds, SPECIAL), n_rows).astype(dtype)
            beside = np.nextafter(equal, dtype(rng.choice([-1, 1]) * np.inf))
        column = np.where(rng.random(n_rows) < 0.5, equal, beside)
        if f in bins.grouped:
            column = rng.integers(0, len(bins.grouped[f].bins) + 3, n_rows).astype(dtype)
        columns.append(np.where(rng.random(n_rows) < 0.1, dtype(np.nan), column))
    return np.column_stack(columns) if columns else np.zeros((n_rows, 0), dtype)


def native_codes(bins, X):
    """The native codes as a device has them: (group, row, column in its group)."""
    columns = bins.encode(X, 1).columns()
    n_groups = -(-len(columns) // GROUP_COLUMNS)
    padded = np.zeros((n_groups * GROUP_COLUMNS, len(X)), dtype=np.uint8)
    padded[: len(columns)] = columns
    return padded.reshape(n_groups, GROUP_COLUMNS, len(X)).transpose(0, 2, 1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.sampled_from([0, 1, 7, 256, 257]),
    n_features=st.sampled_from([1, 2, 16, 17, 33]),
    most_thresholds=st.sampled_from([0, 1, 3, 60, 254]),
    narrow=st.booleans(),
    layout=st.sampled_from(["rows", "columns", "every second row"]),
    n_processors=st.integers(1, 2),
)
def test_codes(seed, n_rows, n_features, most_thresholds, narrow, layout, n_processors):
    rng, device = np.random.default_rng(seed), a_device(n_processors)
    bins = any_bins(rng, n_features, most_thresholds)
    X = any_rows(rng, bins, n_rows, np.float32 if narrow else np.float64)
    expected = native_codes(bins, X)
    on_device = DeviceBins(device, bins)
    if layout == "every second row":
        table = table_to_device(device, np.repeat(X, 2, axis=0))[::2]
    else:
        table = table_to_device(device, LAYOUTS[layout](X))
    matrix = DeviceMatrix(device, [table])
    np.testing.assert_array_equal(device.to_host(on_device.encode(matrix)), expected)
    rows = rng.integers(0, max(n_rows, 1), size=min(n_rows, rng.integers(1, 700)))
    with patch("agbm._engines.device.matrix.BYTES_AT_ONCE", int(rng.integers(X.nbytes // 5, X.nbytes + 2))):
        np.testing.assert_array_equal(device.to_host(on_device.encode(matrix[rows])), expected[:, rows])
        np.testing.assert_array_equal(device.to_host(on_device.encode(LAYOUTS[layout](X))), expected)


def test_fill_changes_only_its_rows():
    rng, device = np.random.default_rng(0), a_device()
    bins = any_bins(rng, 20, 60)
    X = any_rows(rng, bins, 300, np.float64)
    on_device = DeviceBins(device, bins)
    codes = device.zeros((2, 1000, GROUP_COLUMNS), np.uint8)
    on_device.fill(codes, 650, device.to_device(X))
    found = device.to_host(codes)
    np.testing.assert_array_equal(found[:, 650:950], native_codes(bins, X))
    assert not found[:, :650].any()
    assert not found[:, 950:].any()


@pytest.mark.parametrize("X", [np.zeros((3, 4)), np.zeros((3, 5), dtype=np.int64), np.zeros(5)])
def test_other_tables_are_refused(X):
    device = a_device()
    on_device = DeviceBins(device, any_bins(np.random.default_rng(0), 5, 3))
    with pytest.raises(ValueError, match=r"X must have 5 columns of float32 or float64.*got (float64|int64) of shape"):
        on_device.fill(on_device.empty(3), 0, device.to_device(X))


@given(threshold=st.floats(allow_nan=False), number=st.floats(width=32, allow_nan=False))
def test_rounded_thresholds_separate_the_same_numbers(threshold, number):
    rounded = rounded_down(np.array([threshold]), np.float32)
    assert rounded.dtype == np.float32
    with np.errstate(over="ignore"):
        above = np.nextafter(rounded[0], np.float32(np.inf))
    for other in (np.float32(number), rounded[0], above):
        assert (float(other) <= threshold) == (other <= rounded[0])
