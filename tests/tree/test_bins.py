"""Bins of numeric and categorical features, against the NumPy twin."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array

from agbm._base.weights import Weights
from agbm._tree.bins import MAX_SAMPLE, Bins, GroupedCategories, feature_thresholds
from agbm._tree.learner import TreeLearner
from growth import random_matrix
from profiles import examples


def thresholds_of(values, max_bins):
    return Bins.from_data(values[:, np.newaxis], max_bins).thresholds[0]


@pytest.mark.slow
@examples(60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 80),
    st.sampled_from([2, 3, 10, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from("CF"),
)
def test_codes_equal_searchsorted(seed, n_rows, max_bins, dtype, order):
    rng = np.random.default_rng(seed)
    X = np.asarray(random_matrix(rng, n_rows, 19), dtype=dtype, order=order)
    X.setflags(write=False)
    bins = Bins.from_data(X, max_bins)
    matrix = bins.encode(X, 2)
    codes = matrix.codes()
    for f, thresholds in enumerate(bins.thresholds):
        assert np.all(np.diff(thresholds) > 0)
        assert matrix.n_bins[f] == len(thresholds) + 1 <= max_bins
        expected = np.searchsorted(thresholds, X[:, f].astype(np.float64))
        assert np.array_equal(codes[:, f], np.where(np.isnan(X[:, f]), matrix.n_bins[f], expected))


def hard_column(rng, n_rows):
    """Values that are hard to sort, to count or to bin."""
    few = rng.choice([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.5], n_rows)
    infinite = rng.choice([np.inf, -np.inf, np.finfo(np.float64).max, 0.0, np.nan], n_rows)
    return [
        rng.normal(size=n_rows) * 10.0 ** rng.integers(-30, 30),
        rng.lognormal(sigma=rng.integers(1, 9), size=n_rows),
        rng.standard_cauchy(n_rows),
        np.where(rng.random(n_rows) < 0.5, 0.0, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.2, np.nan, np.round(rng.normal(size=n_rows), rng.integers(0, 4))),
        rng.integers(0, 3000, n_rows) // rng.integers(1, 40) * 1.0,
        rng.geometric(0.02, n_rows) * 1.0,
        1.6e9 + rng.integers(0, 86_400, n_rows),
        1.0 + rng.normal(size=n_rows) * 1e-13,
        np.sort(rng.normal(size=n_rows)),
        np.full(n_rows, rng.choice([np.nan, 3.0])),
        few,
        infinite,
        np.where(rng.random(n_rows) < 0.1, infinite, rng.normal(size=n_rows)),
        np.where(rng.random(n_rows) < 0.1, infinite, rng.lognormal(sigma=20.0, size=n_rows)),
    ][rng.integers(15)]


def in_range(X, dtype):
    """Clip finite numbers to the range of a type; infinity is kept."""
    return np.where(np.isinf(X), X, np.clip(X, np.finfo(dtype).min, np.finfo(dtype).max))


@pytest.mark.slow
@examples(40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 30, 300, 1100, 5000]),
    st.sampled_from([2, 3, 10, 64, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from("CF"),
)
def test_thresholds_and_codes_of_the_kernel_equal_the_twin(seed, n_rows, max_bins, dtype, order):
    """The twin of the kernel is the rule for weighted rows, with equal weights."""
    rng = np.random.default_rng(seed)
    n_features = rng.choice([1, 5, 40, 70])
    X = np.column_stack([hard_column(rng, n_rows) for _ in range(n_features)])
    X = in_range(X, dtype).astype(dtype, order=order)
    bins = Bins.from_data(X, max_bins, n_threads=2)
    extreme = np.repeat(np.array([[np.inf], [-np.inf]], dtype), n_features, axis=1)
    others = np.concatenate([X[::-1], rng.normal(size=X.shape).astype(dtype), extreme])
    matrix = bins.encode(others, 2)
    codes = matrix.codes()
    for f, thresholds in enumerate(bins.thresholds):
        assert np.array_equal(thresholds, feature_thresholds(X[:, f], max_bins, np.ones(n_rows)))
        expected = np.searchsorted(thresholds, others[:, f].astype(np.float64))
        assert np.array_equal(codes[:, f], np.where(np.isnan(others[:, f]), matrix.n_bins[f], expected))


@pytest.mark.slow
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 30, 2000]),
    st.sampled_from([2, 10, 255]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([csr_array, csc_array, coo_array]),
)
def test_bins_of_sparse_rows_are_those_of_dense_ones(seed, n_rows, max_bins, dtype, kind):
    rng = np.random.default_rng(seed)
    X = np.column_stack([hard_column(rng, n_rows) for _ in range(20)])
    X = in_range(X, dtype).astype(dtype)
    X[rng.random(X.shape) < rng.random()] = 0
    bins, dense = Bins.from_data(kind(X), max_bins, n_threads=2), Bins.from_data(X, max_bins)
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))
    assert np.array_equal(bins.encode(kind(X), 2).codes(), dense.encode(X, 2).codes())
    weights = Weights.of(rng.uniform(size=n_rows))
    bins, dense = Bins.from_data(kind(X), max_bins, weights), Bins.from_data(X, max_bins, weights)
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))


def test_duplicate_sparse_entries_are_summed():
    values, rows, columns = [1.0, 2.0, 5.0, 4.0, -3.0], [0, 0, 1, 2, 2], [0, 0, 1, 1, 1]
    X = coo_array((values, (rows, columns)), shape=(4, 2)).tocsr()
    X.data, X.indices, X.indptr = np.array(values), np.array(columns, dtype=np.int32), np.array([0, 2, 3, 5, 5])
    X.has_canonical_format = False
    bins, dense = Bins.from_data(X, 255), Bins.from_data(X.toarray(), 255)
    assert X.nnz == 5, "what was given stays as it was"
    assert all(map(np.array_equal, bins.thresholds, dense.thresholds))
    assert np.array_equal(bins.encode(X, 1).codes(), dense.encode(X.toarray(), 1).codes())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_thresholds_of_many_rows_come_from_a_sample(dtype, weighted):
    rng = np.random.default_rng(0)
    n_rows = MAX_SAMPLE + 1000
    X = rng.normal(size=(n_rows, 3)).astype(dtype)
    weight = rng.uniform(size=n_rows) if weighted else np.ones(n_rows)
    sample = np.sort(np.random.default_rng(0).choice(n_rows, MAX_SAMPLE, replace=False))
    for rows in (X, csr_array(X)):
        bins = Bins.from_data(rows, 255, Weights.of(weight) if weighted else None, n_threads=2)
        for f, thresholds in enumerate(bins.thresholds):
            assert np.array_equal(
                thresholds, feature_thresholds(X[sample, f], 255, Weights.of(weight).in_steps[sample])
            )


@examples(60)
@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=40))
@example([-1.7976931348623157e308, 1.7976931348623157e308])
@example([-np.inf, np.inf])
@example([-np.inf, -1.7976931348623157e308, 1.7976931348623157e308, np.inf])
@example([0.0, 5e-324])
def test_few_distinct_values_have_a_bin_each(values):
    thresholds = thresholds_of(np.array(values), 255)
    codes = np.searchsorted(thresholds, values)
    for a, code_a in zip(values, codes, strict=True):
        for b, code_b in zip(values, codes, strict=True):
            assert (a < b) == (code_a < code_b)


def test_quantile_bins_hold_equal_shares():
    values = np.random.default_rng(0).lognormal(size=100_000)
    counts = np.bincount(np.searchsorted(thresholds_of(values, 100), values))
    assert len(counts) == 100
    assert counts.min() > 990
    assert counts.max() < 1010


@pytest.mark.slow
@examples(60)
@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 200)), min_size=1, max_size=60),
    st.integers(2, 20),
)
def test_bins_do_not_depend_on_the_sign(pairs, max_bins):
    values = np.repeat([float(v) for v, _ in pairs], [n for _, n in pairs])
    thresholds = thresholds_of(values, max_bins)
    mirrored = -thresholds_of(-values, max_bins)[::-1]
    parts = np.bincount(np.searchsorted(thresholds, values))
    mirrored_parts = np.bincount(np.searchsorted(mirrored, values))
    assert len(thresholds) < max_bins
    assert len(thresholds) > 0 or len(set(values)) == 1
    # Ties between two cuts that are equally near may fall to either side.
    assert abs(len(parts) - len(mirrored_parts)) <= 1 + len(parts) // 4


def test_frequent_values_do_not_waste_bins():
    rng = np.random.default_rng(0)
    rounded = np.concatenate([np.zeros(97_000), np.round(rng.lognormal(sigma=1.0, size=3000), 2)])
    assert len(np.unique(rounded)) > 300
    assert len(thresholds_of(rounded, 255)) > 230
    twice = np.concatenate([np.zeros(97_000), np.ones(1200), rng.uniform(size=1800)])
    assert len(thresholds_of(twice, 64)) == 63


def test_thresholds_of_many_rows_come_from_all_of_them():
    values = np.concatenate([np.zeros(250_000), np.linspace(1, 2, 250_000)])
    thresholds = thresholds_of(values, 64)
    assert (thresholds > 1).sum() > 55


@pytest.mark.parametrize("where", ["below", "above", "around"])
def test_a_frequent_value_leaves_the_bins_to_the_others(where):
    others = np.random.default_rng(0).uniform(size=3000) + {"below": -1.0, "above": 0.0, "around": -0.5}[where]
    values = np.concatenate([np.zeros(97_000), others])
    codes = np.searchsorted(thresholds_of(values, 64), values)
    counts = np.bincount(codes, minlength=64)
    assert len(np.unique(codes)) == 64
    assert counts.max() == 97_000, "the frequent value is alone in its bin"
    assert np.sort(counts)[-2] < 2 * 3000 / 63


class TestGroupedCategories:
    def test_few_categories_have_a_bin_each(self):
        grouped = GroupedCategories.from_data(np.array([0.0, 3.0, np.nan, 1.0, 3.0]), 5, 4, None, np.ones((1, 5)))
        assert grouped.bins.tolist() == [0, 1, -1, 2, -1, -1]
        assert (grouped.n_bins, grouped.n_told_apart) == (3, 3)
        assert np.array_equal(
            grouped.bins_of(np.array([3.0, 2.0, 9.0, np.nan])), [2, np.nan, np.nan, np.nan], equal_nan=True
        )

    def test_no_categories(self):
        grouped = GroupedCategories.from_data(np.full(3, np.nan), 1, 4, None, np.ones((1, 3)))
        assert (grouped.n_bins, grouped.n_told_apart) == (1, 1)
        assert grouped.bins.tolist() == [-1, -1]

    @examples(40)
    @given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 3), st.booleans())
    def test_many_categories_share_bins_by_mean(self, seed, max_bins, n_outputs, weighted):
        rng = np.random.default_rng(seed)
        n_categories = int(rng.integers(max_bins + 1, 200))
        column = np.append(np.arange(n_categories), rng.integers(0, n_categories, size=3000) ** 2 // n_categories)
        residual = rng.normal(size=(n_outputs, len(column))) * np.array([[1.0], [5.0], [2.0]])[:n_outputs]
        weight = rng.integers(1, 4, size=len(column)) if weighted else None
        unseen = n_categories + 3  # some that no training row has, and after them what is unknown
        grouped = GroupedCategories.from_data(column.astype(float), unseen, max_bins, Weights.of(weight), residual)
        rows = np.bincount(column, weights=weight)
        bins = grouped.bins[:n_categories]
        assert bins.min() == 0
        assert grouped.n_bins <= max_bins
        assert np.array_equal(np.unique(bins), np.arange(grouped.n_bins)), "no bin is empty"
        few = rows < 10
        assert grouped.n_told_apart == np.count_nonzero(~few) + few.any()
        if few.any():
            assert np.array_equal(bins == 0, few)
        assert grouped.bins[n_categories:].tolist() == [0 if few.any() else -1] * 4, (
            "as those with few rows, or missing"
        )
        means = [np.bincount(column, weights=r if weight is None else r * weight) / (rows + 10) for r in residual]
        mean = max(means, key=lambda m: (m**2 * rows).sum())[~few]
        order = np.argsort(mean, kind="stable")
        assert np.all(np.diff(bins[~few][order]) >= 0), "bins follow the means"
        repeated = column if weight is None else np.repeat(column, weight)
        again = GroupedCategories.from_data(
            repeated.astype(float),
            unseen,
            max_bins,
            None,
            residual if weight is None else np.repeat(residual, weight, axis=1),
        )
        assert np.array_equal(again.bins, grouped.bins), "a whole weight is a repeated row"


def test_uninformative_categories_are_not_split():
    """Sorted by chance, a thousand categories would look like a strong feature."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 1000, size=20_000), rng.normal(size=20_000)]).astype(float)
    target = 0.1 * np.sign(X[:, 1])[np.newaxis] + rng.normal(size=(1, 20_000))
    learner = TreeLearner(max_depth=4, n_categories=np.array([20_000, 0]))
    split_on = learner.bind(X, 20_000, None, target).fit(target, None).model.nodes["feature"]
    assert split_on[0] == 1
    assert np.count_nonzero(split_on == 0) <= 1
    ids = np.column_stack([np.arange(20_000), X[:, 1]]).astype(float)  # a name for every row
    labels = np.sign(target)
    assert 0 not in learner.bind(ids, 20_000, None, labels).fit(labels, None).model.nodes["feature"]
