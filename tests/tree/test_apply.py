"""Leaf indices equal those of a plain walk, for any layout of the rows and number of threads."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression

from agbm import AGBMClassifier, AGBMRegressor, load
from agbm._base._native import leaf_sums
from agbm._tree.forest import NODE, Forest
from agbm.export import encode, to_lightgbm
from agbm.methods import Fading
from forests import LAYOUTS, random_forest
from variants import made, methods, strategies


def walked(forest, X):
    """The index of the leaf of each row in each tree, by walking."""
    leaves = np.flatnonzero(forest.nodes["feature"] < 0)
    out = np.zeros((len(X), len(forest.roots)), dtype=int)
    for tree, root in enumerate(forest.roots):
        for row, x in enumerate(X.astype(np.float64)):
            at = root
            while forest.nodes["feature"][at] >= 0:
                node = forest.nodes[at]
                value, number = x[node["feature"]], node["categories"]
                left = value <= node["threshold"]
                if np.isnan(value) or (number >= 0 and not 0 <= value < 64):
                    left = node["missing_left"]
                elif number >= 0:
                    left = int(forest.category_words[number]) >> int(value) & 1
                at = node["left"] + (0 if left else 1)
            out[row, tree] = np.sum((leaves >= root) & (leaves < at))
    return out


def forest_of(random, n_features, n_trees, most_leaves, n_sets):
    arrays = random_forest(random, n_features, n_trees, most_leaves, random.integers(-3, 4, 9) / 2, 1, 1, n_sets)
    nodes = np.zeros(len(arrays["feature"]), dtype=NODE)
    for name in ("feature", "threshold", "left", "missing_left", "categories"):
        nodes[name] = arrays.pop(name)
    return Forest(n_features, 1, 1, nodes=nodes, **arrays)


@given(
    seed=st.integers(0, 2**32),
    n_rows=st.sampled_from([0, 1, 7, 8, 9, 255, 257, 300]),
    n_features=st.integers(1, 5),
    most_leaves=st.sampled_from([1, 2, 9, 300]),
    n_sets=st.sampled_from([0, 3]),
    narrow=st.booleans(),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_leaves_are_those_of_a_walk(seed, n_rows, n_features, most_leaves, n_sets, narrow, layout):
    random = np.random.default_rng(seed)
    forest = forest_of(random, n_features, random.integers(1, 6), most_leaves, n_sets)
    X = (random.integers(-4, 9, (n_rows, n_features)) / 2).astype(np.float32 if narrow else np.float64)
    X[random.random(X.shape) < 0.1] = np.nan
    expected = walked(forest, X)
    for n_threads in (1, 3):
        found = forest.leaves(LAYOUTS[layout](X), n_threads)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(forest.leaves(csr_matrix(X), 2), expected)


@given(seed=st.integers(0, 2**32), n_rows=st.sampled_from([0, 1, 50, 3000]), repeated=st.booleans())
def test_sums_of_leaves_are_exact(seed, n_rows, repeated):
    random = np.random.default_rng(seed)
    x = random.integers(-(2**20), 2**20, n_rows) * 2.0 ** random.integers(-30, 30)  # sums of these are exact
    leaf = random.integers(0, 7, n_rows).astype(np.int32)
    repeats = random.integers(1, 5, n_rows) if repeated else None
    expected = np.bincount(leaf, x if repeats is None else x * repeats, 9)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(leaf_sums(x, leaf, 9, repeats, n_threads), expected)


def test_sums_of_leaves_check_their_arguments():
    one, zero = np.ones(2), np.zeros(2, dtype=np.int32)
    for arguments, message in [
        ((one, zero + 1, 1), "leaf"), ((one, zero - 1, 1), "leaf"), ((one, zero[:1], 1), "leaf"),
        ((one * np.inf, zero, 1), "finite"), ((one, zero, 1, np.zeros(2, dtype=np.int64)), "repeats"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            leaf_sums(*arguments)


def table():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.normal(size=300), "b": pd.Categorical(random.choice(list("uvwxyz"), 300))})
    y = X["a"] ** 2 + (X["b"].isin(["u", "w"])) + 0.1 * random.normal(size=300)
    X.loc[::9, "a"] = np.nan
    return X, y


@methods
@strategies
def test_the_values_of_the_leaves_add_up_to_the_scores(method, strategy):
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    model = AGBMClassifier(
        method=made(method, momentum="fading", shared_structure=method == "agbmr"), max_iter=4, multi_strategy=strategy
    ).fit(X, y)
    leaves, forest = model.apply(X), model.model_.folded
    assert leaves.shape == (len(X), model.n_trees_)
    total = np.tile(model.model_.start, (len(X), 1))
    for tree, (begin, first) in enumerate(zip(forest.roots, forest.first_column, strict=True)):
        end = np.append(forest.roots, len(forest.nodes))[tree + 1]
        values = forest.value[begin:end][forest.nodes["feature"][begin:end] < 0]
        total[:, first : first + values.shape[1]] += values[leaves[:, tree]]
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-12)


def test_leaves_are_those_of_the_exported_model():
    X, y = table()
    model = AGBMRegressor(max_iter=5).fit(X, y)
    X.loc[3, "b"] = np.nan
    booster = lightgbm.Booster(model_str=to_lightgbm(model))
    expected = booster.predict(encode(model, X), pred_leaf=True)[:, 1:]  # the first tree is the initial score
    np.testing.assert_array_equal(model.apply(X), expected)


def test_a_saved_model_and_an_earlier_iteration(tmp_path):
    X, y = table()
    model = AGBMRegressor(max_iter=5, n_members=2, early_stopping=False).fit(X, y)
    model.save(tmp_path / "m.agbm")
    np.testing.assert_array_equal(load(tmp_path / "m.agbm").apply(X), model.apply(X))
    earlier = model.at_iteration(2).apply(X)
    np.testing.assert_array_equal(earlier, model.apply(X)[:, [0, 1, 5, 6]])


def test_models_without_trees():
    X, y = make_regression(100, 3, random_state=0)
    with pytest.raises(ValueError, match="apply\\(\\) works with trees only"):
        AGBMRegressor(max_iter=2, method=Fading(learner=LinearRegression())).fit(X, y).apply(X)
    constant = AGBMRegressor(max_iter=1, early_stopping=True).fit(X, np.zeros(100)).at_iteration(0)
    assert constant.apply(X).shape == (100, 0)


def test_on_dask():
    from dask import array as da

    from agbm.dask import DaskAGBMRegressor

    X, y = make_regression(100, 3, random_state=0)
    local = AGBMRegressor(max_iter=3).fit(X, y)
    model = DaskAGBMRegressor()
    model.__dict__ = dict(local.__dict__)
    np.testing.assert_array_equal(model.apply(X), local.apply(X))
    lazy = model.apply(da.from_array(X, chunks=(30, 2)))
    assert lazy.shape == (100, local.n_trees_)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), local.apply(X))
