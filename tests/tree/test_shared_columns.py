"""Features that share columns, and features that are left out since they cannot split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from agbm._core.ring import RingPart
from agbm._tree.bins import Bins, GroupedCategories, LeafRows
from agbm._tree.learner import CodedRows, TreeFitter, TreeLearner
from growth import grow, growths, samples
from profiles import examples
from toys import category_counts
from tree_twin import Grower, Rules


@given(seed=st.integers(0, 2**32 - 1), n_features=st.integers(1, 60), share=st.floats(0.0, 0.4), missing=st.booleans())
def test_sparse_shared_columns_give_the_same_trees(seed, n_features, share, missing):
    """One-hot columns, columns with several values on both sides of zero, stored zeros, and rows for validation."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((300, n_features)) < share, rng.integers(-2, 3, size=(300, n_features)), 0).astype(float)
    hot = rng.integers(0, 2 * n_features, size=300)
    X[np.arange(300)[hot < n_features], hot[hot < n_features]] = 1.0
    if missing:
        X[rng.random(X.shape) < share / 4] = np.nan
    rows = csr_array(X)
    rows.data[rng.random(len(rows.data)) < 0.05] = 0.0  # zeros may be stored
    dense = rows.toarray()
    r = np.where(np.isnan(dense), 1.0, dense) @ rng.normal(size=n_features) + rng.normal(size=300)
    learner = TreeLearner(max_depth=5, min_samples_leaf=3, colsample_bynode=0.7, n_threads=2)
    grown = [learner.bind(x, 200, None, np.zeros((1, 200))).fit(r[np.newaxis, :200], None) for x in (rows, dense)]
    assert np.array_equal(grown[0].model.nodes, grown[1].model.nodes)
    assert np.array_equal(grown[0].model.value, grown[1].model.value)
    assert np.array_equal(grown[0].values, grown[1].values)


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_unsplittable_features_do_not_change_the_trees(data):
    """Against the twin, which sees all features; rows, features and weights of all kinds, dense and sparse."""
    X, n_train, residuals, hessians, rules, max_bins, categorical, n_threads = data.draw(growths())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    usual = data.draw(st.sampled_from([0.0, 2.5, np.nan]))
    X = np.where(rng.random(X.shape) < data.draw(st.sampled_from([0.0, 0.3, 0.8, 0.95])), usual, X)
    sample = data.draw(st.one_of(st.none(), samples(n_train, X.shape[1])))
    repeats = rng.integers(1, 4, size=n_train) if data.draw(st.booleans()) else None
    bins = Bins.from_data(X[:n_train], max_bins, n_categories=category_counts(X, categorical), residual=residuals)
    whole = bins.encode(X, n_threads)
    expected = grow(whole, residuals, hessians, rules, n_threads, repeats, sample)
    leaf = LeafRows(rules.min_samples_leaf, n_train, repeats)
    for rows in [X] if categorical.any() else [X, csr_array(X)]:
        matrix = bins.encode(rows, n_threads, leaf)
        found = grow(matrix, residuals, hessians, rules, n_threads, repeats, sample)
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name
    if repeats is None:
        n_categories = [bins.grouped[f].n_told_apart if c else 0 for f, c in enumerate(categorical)]
        nodes = Grower(whole.codes(), whole.n_bins, residuals, hessians, rules, n_categories, sample).grow()
        assert np.array_equal(expected["count"], [len(node.rows) for node in nodes])
        assert np.array_equal(expected["feature"], [node.split.feature if node.children else -1 for node in nodes])


@pytest.mark.parametrize("kind", [csr_array, np.asarray])
def test_unsplittable_features_are_left_out(kind):
    """Nine rows for training, of which both sides need three, and one more row."""
    columns = {
        "two values": [0, 0, 0, 0, 0, 0, 0, 1, 2, 0],
        "three values": [0, 0, 0, 0, 0, 0, 3, 1, 2, 0],
        "three, one of which is not for training": [0, 0, 0, 0, 0, 0, 0, 1, 2, 3],
        "two on each side": [0, 0, 0, 0, 0, -1, -2, 1, 2, 0],
        "two, and one on the other side": [0, 0, 0, 0, 0, 0, -2, 1, 2, 0],
        "three on one side": [0, 0, 0, 0, -1, -2, -3, 1, 2, 0],
        "two missing": [0, 0, 0, 0, 0, 0, 0, np.nan, np.nan, 0],
        "three missing": [0, 0, 0, 0, 0, 0, np.nan, np.nan, np.nan, 0],
        "two and one missing": [0, 0, 0, 0, 0, 0, np.nan, 1, 2, 0],
        "one on each side and one missing": [0, 0, 0, 0, 0, 0, np.nan, 1, -1, 0],
        "two zeros": [5, 5, 5, 5, 5, 5, 5, 0, 0, 5],
        "three zeros": [5, 5, 5, 5, 5, 5, 0, 0, 0, 5],
        "constant": [7] * 10,
        "nothing": [0] * 10,
    }
    can = {"three values", "three on one side", "three missing", "two and one missing", "three zeros"}
    for name, column in columns.items():
        X = kind(np.array(column, dtype=float)[:, np.newaxis])
        bins = Bins.from_data(X, 255)
        assert bins.encode(X, 1, LeafRows(3, 9, None)).n_columns == (name in can), name
        assert bins.encode(X, 1).n_columns == 1, name
    X = kind(np.array(columns["two values"], dtype=float)[:, np.newaxis])
    repeats = np.array([1, 1, 1, 1, 1, 1, 1, 2, 1])
    assert Bins.from_data(X, 255).encode(X, 1, LeafRows(3, 9, repeats)).n_columns == 1, "repeated rows count"


def test_all_rows_decide_whether_a_feature_can_split():
    X = np.zeros((70_000, 40))
    X[-5:, ::2] = 1.0
    bins = Bins.from_data(X, 255)
    whole, matrix = bins.encode(X, 2), bins.encode(X, 2, LeafRows(5, len(X), None))
    assert (whole.n_columns, matrix.n_columns) == (40, 20)
    assert bins.encode(X, 2, LeafRows(5, len(X) - 1, None)).n_columns == 0
    residuals, rules = X[:, :1].T + np.arange(70_000.0) % 7, Rules(max_depth=2, min_samples_leaf=5)
    for name, array in grow(whole, residuals, None, rules).items():
        assert np.array_equal(grow(matrix, residuals, None, rules)[name], array), name


@pytest.mark.parametrize("kind", [csr_array, csr_array.toarray])
def test_tree_without_splittable_features_is_a_leaf(kind):
    X = kind(csr_array((np.ones(5), (np.arange(5), np.arange(5))), shape=(30, 40)))
    target = np.arange(30.0)[np.newaxis]
    fit = TreeLearner(max_depth=3, min_samples_leaf=2).bind(X, 30, None, target).fit(target, None)
    assert len(fit.model.nodes) == 1
    assert np.array_equal(fit.values, np.full((1, 30), 14.5))
    assert np.array_equal(fit.model.predict(X, 1)[0], fit.values)


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 3])
def test_sparse_columns_give_the_same_trees(n_threads):
    """So many rows that nodes are cut in pieces; rare and frequent values, of which there are few and many."""
    rng = np.random.default_rng(12)
    n_rows, n_train = 40_000, 35_000
    share = np.geomspace(0.001, 0.6, 60)
    X = np.where(rng.random((n_rows, 60)) < share, np.round(rng.normal(size=(n_rows, 60)), 1), 0.0)
    target = (np.sign(X) @ rng.normal(size=60) + 0.1 * rng.normal(size=n_rows))[np.newaxis, :n_train]
    learner = TreeLearner(max_depth=9, min_samples_leaf=5, subsample=0.9, n_threads=n_threads)
    found = [learner.bind(rows, n_train, None, target).fit(target, None) for rows in (csr_array(X), X)]
    assert len(found[0].model.nodes) > 100
    assert np.array_equal(found[0].model.nodes, found[1].model.nodes)
    assert np.array_equal(found[0].values, found[1].values)
    bins = Bins.from_data(X, 255)
    assert np.array_equal(bins.encode(csr_array(X[:500]), n_threads).codes(), bins.encode(X[:500], 1).codes())


def test_node_numbers_do_not_depend_on_the_column_layout():
    """So many cells that growth works in small batches; node numbers seed the sample of columns."""
    rng = np.random.default_rng(13)
    X = (rng.random((200, 1024)) < 0.02).astype(float)
    X[:, ::16] = rng.normal(size=(200, 64))
    target = rng.normal(size=(24, 200))
    learner = TreeLearner(max_depth=7, vector_leaves=True, min_samples_leaf=2, colsample_bynode=0.2, n_threads=2)
    found = [learner.bind(rows, 200, None, target).fit(target, None) for rows in (csr_array(X), X)]
    assert len(found[0].model.nodes) > 50
    assert np.array_equal(found[0].model.nodes, found[1].model.nodes)


def test_exclusive_features_share_columns():
    hot = np.eye(40)[np.random.default_rng(0).integers(0, 40, size=500)]
    bins = Bins.from_data(csr_array(hot), 255)
    shared = bins.encode(csr_array(hot), 1)
    assert shared.n_columns == 1
    assert np.array_equal(shared.codes(), hot)
    assert bins.encode(hot, 1).n_columns == 40
    dense = bins.encode(hot, 1, LeafRows(2, 500, None))
    assert dense.n_columns == 1
    assert np.array_equal(dense.codes(), hot)


def usual_values(rng, n_rows):
    """Columns of a dense table that mostly have one value, which is not zero, and some others."""
    X = np.tile(np.r_[np.zeros(12), np.full(6, 3.0), np.zeros(4)], (n_rows, 1))
    X[np.arange(n_rows), rng.integers(0, 12, size=n_rows)] = 1.0  # indicators
    unusual = rng.choice(np.r_[np.nan, 0:7], size=n_rows)  # below and above the usual value, and missing
    which = rng.integers(12, 30, size=n_rows)
    for column in range(12, 18):
        X[which == column, column] = unusual[which == column]
    X[:, 18:20] = rng.normal(size=(n_rows, 2))
    X[:, 20] = rng.random(n_rows) < 0.2  # meets all others
    return X  # the last column is constant


@pytest.mark.parametrize(("n_rows", "n_threads"), [(600, 1), (40_000, 3)])
def test_dense_shared_columns_give_the_same_trees(n_rows, n_threads):
    rng = np.random.default_rng(21)
    X = usual_values(rng, n_rows)
    bins = Bins.from_data(X, 255)
    own, shared = bins.encode(X, n_threads), bins.encode(X, n_threads, LeafRows(4, n_rows, None))
    assert (own.n_columns, shared.n_columns) == (22, 5)  # indicators, unusual values, two of many values, the last
    kept = np.arange(21)
    assert [shared.n_bins[f] for f in kept] == [own.n_bins[f] for f in kept]
    residual = np.nan_to_num(X) @ rng.normal(size=22) + np.isnan(X).any(axis=1) + rng.normal(size=n_rows)
    residuals, rules = residual[np.newaxis], Rules(max_depth=7, min_samples_leaf=4)
    for hessian in (None, rng.uniform(0.5, 1.5, size=(1, n_rows))):
        expected, found = (grow(matrix, residuals, hessian, rules) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("usual", [np.nan, 0.0, 1.0, 3.0])
def test_shared_columns_of_every_usual_bin_give_the_same_trees(usual):
    """The usual bin may be that of missing values, which otherwise has the last code of a feature."""
    rng = np.random.default_rng(23)
    X = np.full((400, 3), usual)
    which = rng.integers(0, 4, size=400)
    for column in range(3):
        X[which == column, column] = rng.choice([np.nan, 0.0, 1.0, 2.0, 3.0], size=(which == column).sum())
    bins = Bins.from_data(X, 255)
    own, shared = bins.encode(X, 1), bins.encode(X, 1, LeafRows(1, 400, None))
    assert (own.n_columns, shared.n_columns) == (3, 1)
    residuals, rules = rng.normal(size=(1, 400)), Rules(max_depth=6, min_samples_leaf=1)
    expected, found = (grow(matrix, residuals, None, rules) for matrix in (own, shared))
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.06, 0.1]), st.sampled_from([np.nan, 0.0, 1.0]))
def test_dense_tables_of_rare_values_give_the_same_trees(seed, share, usual):
    """Rows list the cells of shared columns that mostly have their usual bins, if there are many such columns."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(100, 300))
    rare = rng.random((300, n_features)) < share
    X = np.where(rare, rng.choice([np.nan, 0.0, 1.0, 2.0], size=rare.shape), usual)
    X[:, :3] = rng.normal(size=(300, 3))
    categorical = np.arange(n_features) == 3
    X[:, 3] = rng.integers(0, 5, size=300)
    bins = Bins.from_data(X, 255, n_categories=category_counts(X, categorical), residual=np.zeros((1, 300)))
    own, shared = bins.encode(X, 2), bins.encode(X, 2, LeafRows(2, 300, None))
    assert shared.n_columns < n_features
    residuals, rules = rng.normal(size=(1, 300)), Rules(max_depth=6, min_samples_leaf=2)
    for hessian in (None, rng.uniform(0.5, 1.5, size=(1, 300))):
        expected, found = (grow(matrix, residuals, hessian, rules, 2) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_many_rows_of_rare_values_give_the_same_trees(form, n_threads):
    """The root has so many rows that it keeps a histogram, to which the lists of all rows are added in one loop."""
    rng = np.random.default_rng(7)
    X = np.where(rng.random((20_000, 30)) < 0.08, rng.integers(1, 4, size=(20_000, 30)), 0).astype(float)
    X[X[:, 0] > 0, 1] = 0.0  # so that these two share a column
    X[:5000] = X[-1] = 0.0  # rows without other values, also at the end
    own, shared = (Bins.from_data(form(X), 255).encode(rows, n_threads, leaf) for rows, leaf in (
        (X, None), (form(X), LeafRows(5, len(X), None)),
    ))  # fmt: skip
    assert shared.n_columns < own.n_columns
    r = (X @ rng.normal(size=30) + rng.normal(size=len(X)))[np.newaxis]
    residuals, hessians = np.concatenate([r, r**2, r**3, -r]), rng.uniform(0.5, 1.5, size=(1, len(X)))
    for n_residuals, hessian in ((1, None), (1, hessians), (2, hessians), (4, hessians)):
        rules = Rules(max_depth=4, min_samples_leaf=5)
        expected, found = (grow(matrix, residuals[:n_residuals], hessian, rules, n_threads) for matrix in (own, shared))
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name


def test_categories_keep_their_columns_next_to_shared_ones():
    rng = np.random.default_rng(22)
    X = usual_values(rng, 3000)
    X[:, 5] = rng.choice(8, size=3000, p=[0.86] + [0.02] * 7)
    n_categories = np.where(np.arange(22) == 5, 8, 0)
    target = (np.nan_to_num(X) @ rng.normal(size=22) + 3 * (X[:, 5] % 3))[np.newaxis]
    rules = {"max_depth": 6, "min_samples_leaf": 4, "n_categories": n_categories}
    fit = TreeLearner(**rules).bind(X, 3000, None, target).fit(target, None)
    bins = Bins.from_data(X, 255).with_categories({5: GroupedCategories.from_data(X[:, 5], 8, 255, None, target, 4)})
    coded = CodedRows(bins, bins.encode(X, 1))
    own = TreeFitter(TreeLearner(**rules), coded, RingPart(3000), None).fit(target, None)
    assert (fit.model.nodes["feature"] == 5).any()
    assert np.array_equal(fit.model.nodes, own.model.nodes)
    assert np.array_equal(fit.values, own.values)
