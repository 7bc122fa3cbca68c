"""Contributions are the Shapley values of the features, and add up to the score."""

import sys
import warnings
from fractions import Fraction
from itertools import combinations
from math import factorial

import lightgbm
import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import make_classification, make_regression
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base import _native
from agbm.export import to_lightgbm
from agbm.losses import Huber, Quantile, Tweedie
from agbm.methods import Fading
from forests import LAYOUTS, random_forest
from profiles import examples
from toys import native_forest, sums_of_trees

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, about what other libraries will no longer have
    import shap


def contributions(native, X, n_threads):
    return _native.Contributions(native).predict(X, n_threads)


def interactions(native, n_columns, X, n_threads):
    out = np.empty((len(X), n_columns, X.shape[1] + 1, X.shape[1] + 1))
    _native.Interactions(native).predict(X, out, n_threads)
    return out


def against(native, n_columns, X, background, n_threads):
    """Contributions and interactions relative to background rows."""
    out = np.empty((len(X), n_columns, X.shape[1] + 1))
    pairs = np.empty((*out.shape, X.shape[1] + 1))
    _native.contributions_against(native, X, background, False, out, n_threads)
    _native.contributions_against(native, X, background, True, pairs, n_threads)
    return out, pairs


def goes_left(forest, node, value):
    number = forest["categories"][node]
    if np.isnan(value) or (number >= 0 and not 0 <= value < 64):
        return bool(forest["missing_left"][node])
    if number >= 0:
        return bool(int(forest["category_words"][number]) >> int(value) & 1)
    return bool(value <= forest["threshold"][node])


def shares(forest, node):
    """The share of the training rows of a node on each side; halves if there are none."""
    counts = forest["count"][forest["left"][node] : forest["left"][node] + 2].astype(float)
    return counts / counts.sum() if counts.sum() > 0 else np.array([0.5, 0.5])


def expectation(forest, node, x, known, other=None):
    """The value of a tree where the features in `known` are known, from the definition."""
    if forest["feature"][node] < 0:
        return forest["value"][node]
    left, feature = forest["left"][node], forest["feature"][node]
    if feature in known or other is not None:
        side = 0 if goes_left(forest, node, (x if feature in known else other)[feature]) else 1
        return expectation(forest, left + side, x, known, other)
    return sum(share * expectation(forest, left + side, x, known) for side, share in enumerate(shares(forest, node)))


def twin(forest, n_features, n_columns, X, background=None):
    """Shapley's sums over all sets of features, for features and for pairs."""
    out = np.zeros((len(X), n_columns, n_features + 1))
    pairs = np.zeros((*out.shape, n_features + 1))
    n_values, features = forest["value"].shape[1], set(range(n_features))
    others = [None] if background is None else background.astype(np.float64)
    sets = [known for size in range(n_features + 1) for known in combinations(range(n_features), size)]
    for root, first in zip(forest["roots"], forest["first_column"], strict=True):
        to = np.s_[first : first + n_values]
        for row, x in enumerate(X.astype(np.float64)):
            of = {frozenset(s): np.mean([expectation(forest, root, x, s, other) for other in others], 0) for s in sets}
            out[row, to, -1] += of[frozenset()]
            pairs[row, to, -1, -1] += of[frozenset()]
            for i in features:
                value = sum(weight * (of[s | {i}] - of[s]) for s, weight in weighted(features - {i}))
                out[row, to, i] += value
                pairs[row, to, i, i] += value
                for j in features - {i}:
                    terms = (
                        (w, of[s | {i, j}] - of[s | {i}] - of[s | {j}] + of[s]) for s, w in weighted(features - {i, j})
                    )
                    half = sum(weight * term for weight, term in terms) / 2
                    pairs[row, to, i, j] += half
                    pairs[row, to, i, i] -= half
    return out, pairs


def weighted(features):
    """All sets of some features, with Shapley's weights."""
    n = len(features)
    for size in range(n + 1):
        for chosen in combinations(sorted(features), size):
            yield frozenset(chosen), factorial(size) * factorial(n - size) / factorial(n + 1)


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.sampled_from([4, 0, 1]),
    n_features=st.sampled_from([4, 5, 3, 2, 1]),
    n_trees=st.integers(1, 3),
    most_leaves=st.sampled_from([30, 60, 9, 2, 1]),
    n_values=st.integers(1, 3),
    more_columns=st.integers(0, 2),
    n_sets=st.sampled_from([0, 3]),
    narrow=st.booleans(),
    layout=st.sampled_from(sorted(LAYOUTS)),
    most_rows=st.sampled_from([1, 2, 1000]),
)
def test_contributions_are_shapley_values(
    seed, n_rows, n_features, n_trees, most_leaves, n_values, more_columns, n_sets, narrow, layout, most_rows
):
    random = np.random.default_rng(seed)
    n_columns = n_values + more_columns
    thresholds = np.append(random.normal(size=6), [np.inf, -np.inf, 2.0])
    forest = random_forest(random, n_features, n_trees, most_leaves, thresholds, n_values, n_columns, n_sets)
    forest["count"] = random.integers(0, most_rows + 1, len(forest["feature"]))  # with 1 and 2, many are 0
    X = np.where(random.random((n_rows, n_features)) < 0.5, random.normal(size=(n_rows, n_features)), 2.0)
    X = np.where(random.random(X.shape) < 0.3, random.integers(-1, 70, X.shape), X)
    X[random.random(X.shape) < 0.2] = np.nan
    X = LAYOUTS[layout](X.astype(np.float32 if narrow else np.float64))
    native = native_forest(n_features, n_columns, **forest)
    found, pairs = contributions(native, X, 1), interactions(native, n_columns, X, 1)
    expected, of_pairs = twin(forest, n_features, n_columns, X)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=-1), sums_of_trees(native, X, found.shape[1]), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(pairs, of_pairs, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(pairs, pairs.swapaxes(2, 3))


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.sampled_from([2, 0, 40, 300]),  # with more rows, values come from tables
    n_background=st.sampled_from([5, 1, 70]),
    n_features=st.sampled_from([4, 3, 2, 1]),
    most_leaves=st.sampled_from([30, 9, 2, 1]),
    n_values=st.integers(1, 2),
    more_columns=st.integers(0, 1),
    n_sets=st.sampled_from([0, 3]),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_contributions_relative_to_rows_are_shapley_values(
    seed, n_rows, n_background, n_features, most_leaves, n_values, more_columns, n_sets, layout
):
    random = np.random.default_rng(seed)
    n_columns = n_values + more_columns
    thresholds = np.append(random.normal(size=6), [np.inf, -np.inf])
    forest = random_forest(random, n_features, 2, most_leaves, thresholds, n_values, n_columns, n_sets)
    X, background = (random.normal(size=(n, n_features)) for n in (n_rows, n_background))
    for rows in (X, background):
        rows[random.random(rows.shape) < 0.2] = np.nan
        rows[random.random(rows.shape) < 0.2] = 3.0  # may be a category
    native = native_forest(n_features, n_columns, **forest)
    found, pairs = against(native, n_columns, LAYOUTS[layout](X), background, 1)
    expected, of_pairs = twin(forest, n_features, n_columns, X[:2], background)
    np.testing.assert_allclose(found[:2], expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(pairs[:2], of_pairs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=-1), found, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=-1), sums_of_trees(native, X, n_columns), rtol=1e-11, atol=1e-12)


def chain(n_levels, n_features, random):
    """A tree that is one long path: leaves on the left, inner nodes on the right. Splits at 0."""
    n_nodes = 2 * n_levels + 1
    inner = np.append(np.arange(n_nodes - 1) % 2 == 0, False)
    return {
        "roots": np.zeros(1, dtype=np.int32),
        "first_column": np.zeros(1, dtype=np.int32),
        "feature": np.where(inner, np.arange(n_nodes) // 2 % n_features, -1).astype(np.int32),
        "threshold": np.zeros(n_nodes),
        "left": np.where(inner, np.arange(n_nodes) + 1, -1).astype(np.int32),
        "missing_left": random.integers(0, 2, n_nodes).astype(np.uint8),
        "categories": np.full(n_nodes, -1, dtype=np.int32),
        "category_words": np.zeros(0, dtype=np.uint64),
        "category_start": np.zeros(1, dtype=np.int64),
        "count": random.integers(1, 50, n_nodes),
        "value": random.normal(size=(n_nodes, 1)),
    }


def test_chain_is_a_tree_in_order():
    forest = chain(3, 3, np.random.default_rng(0))
    assert forest["feature"].tolist() == [0, -1, 1, -1, 2, -1, -1]
    assert forest["left"].tolist() == [1, -1, 3, -1, 5, -1, -1]


def exact(forest, n_features, x):
    """Shapley values of a chain in fractions: each leaf by itself, by the sizes of the sets."""
    phi = [Fraction(0)] * n_features
    z, o = {}, {}

    def add_leaf(value):
        d = len(z)
        for j in z:
            by_size = [Fraction(1)]  # sums over the sets of so many other features
            for k in z:
                if k != j:
                    absent = [z[k] * c for c in by_size] + [Fraction(0)]
                    present = [Fraction(0)] + [o[k] * c for c in by_size]
                    by_size = [a + b for a, b in zip(absent, present, strict=True)]
            total = sum(Fraction(factorial(s) * factorial(d - 1 - s), factorial(d)) * c for s, c in enumerate(by_size))
            phi[j] += Fraction(value) * (o[j] - z[j]) * total

    for node in range(0, len(forest["feature"]) - 1, 2):
        feature = int(forest["feature"][node])
        left, right = (Fraction(int(forest["count"][node + side])) for side in (1, 2))
        is_left = int(goes_left(forest, node, x[feature]))
        before = z.get(feature, Fraction(1)), o.get(feature, 1)
        z[feature], o[feature] = before[0] * left / (left + right), before[1] * is_left
        add_leaf(float(forest["value"][node + 1, 0]))
        z[feature], o[feature] = before[0] * right / (left + right), before[1] * (1 - is_left)
    add_leaf(float(forest["value"][-1, 0]))
    return np.array([float(value) for value in phi])


@pytest.mark.slow
@pytest.mark.parametrize(("n_levels", "n_features"), [(40, 40), (40, 17), (9, 9)])
def test_long_paths_are_exact(n_levels, n_features):
    random = np.random.default_rng(n_features)
    forest = chain(n_levels, n_features, random)
    # Most rows reach the deep leaves, so that a value of 1e3 there shows a loss of precision along the path.
    forest["count"][1::2] = 1
    forest["value"][-5:] *= 1e3
    X = np.where(random.random((1, n_features)) < 0.9, 1.0, -1.0)
    found = contributions(native_forest(n_features, 1, **forest), X, 1)[:, 0, :n_features]
    expected = np.array([exact(forest, n_features, x) for x in X])
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(("n_levels", "n_features"), [(4_000, 3), (3_000, 700), (300, 300)])
def test_trees_of_many_levels(n_levels, n_features):
    random = np.random.default_rng(0)
    forest = chain(n_levels, n_features, random)
    forest["count"][2::2] = 50 * n_levels
    native = native_forest(n_features, 1, **forest)
    X = np.where(random.random((5, n_features)) < 0.001, -1.0, 1.0)
    X[1] = np.nan
    found = contributions(native, X, 2)
    np.testing.assert_allclose(found.sum(axis=-1), sums_of_trees(native, X, found.shape[1]), atol=1e-9)
    assert np.abs(found[..., :n_features]).max() > 0.01


def test_pairs_of_long_paths_add_up():
    random = np.random.default_rng(0)
    forest = chain(150, 130, random)
    forest["count"][2::2] = 7_500
    native = native_forest(130, 1, **forest)
    X = np.where(random.random((5, 130)) < 0.01, -1.0, 1.0)
    X[1] = np.nan
    relative, pairs = against(native, 1, X, X[:2], 2)
    np.testing.assert_allclose(relative.sum(axis=-1), sums_of_trees(native, X, 1), atol=1e-9)
    for of_pairs, of_features in ((pairs, relative), (interactions(native, 1, X, 2), contributions(native, X, 2))):
        np.testing.assert_allclose(of_pairs.sum(axis=-1), of_features, atol=1e-9)
        assert np.abs(of_pairs[0, 0, 0, 1:130]).max() > 0


def test_every_number_of_threads_and_rows_gives_the_same_bits():
    random = np.random.default_rng(0)
    forest = random_forest(random, 7, 40, 60, random.normal(size=50), 2, 4, 2)
    forest["count"] = random.integers(1, 100, len(forest["feature"]))
    native = native_forest(7, 4, **forest)
    X = random.normal(size=(1500, 7))
    X[random.random(X.shape) < 0.1] = np.nan
    background = X[:20] + 0.1

    def all_of(X, n_threads):
        found = contributions(native, X, n_threads), interactions(native, 4, X, n_threads)
        return *found, *against(native, 4, X, background, n_threads)

    expected = all_of(X, 1)
    for n_threads in (2, 3, 8):
        for one, other in zip(all_of(X, n_threads), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    for rows in (slice(0, 1), slice(3, 40), slice(100, 133), slice(1499, 1500), slice(7, 7)):
        for one, other in zip(all_of(X[rows], 1), expected, strict=True):
            np.testing.assert_array_equal(one, other[rows])


@pytest.mark.slow
def test_forests_larger_than_what_is_kept_at_a_time():
    """Weights are made for some trees, or some points of a tree, and then for the next ones."""
    random = np.random.default_rng(0)
    forest = random_forest(random, 60, 40, 1500, random.normal(size=50), 1, 2, 0)
    forest["count"] = random.integers(1, 100, len(forest["feature"]))
    X = random.normal(size=(10, 60))
    native = native_forest(60, 2, **forest)
    found = contributions(native, X, 2)
    np.testing.assert_allclose(found.sum(axis=-1), sums_of_trees(native, X, found.shape[1]), atol=1e-9)
    alone = np.zeros_like(found)
    ends = np.append(forest["roots"][1:], len(forest["feature"]))
    per_node = ("feature", "threshold", "left", "missing_left", "categories", "count", "value")
    for tree, (begin, end) in enumerate(zip(forest["roots"], ends, strict=True)):
        one = forest | {name: forest[name][begin:end] for name in per_node}
        one["left"] = np.where(one["left"] >= 0, one["left"] - begin, -1).astype(np.int32)
        one |= {"roots": np.zeros(1, dtype=np.int32), "first_column": forest["first_column"][tree : tree + 1]}
        alone += contributions(native_forest(60, 2, **one), X, 1)
    np.testing.assert_allclose(found, alone, rtol=1e-10, atol=1e-10)


def test_wrong_arrays_are_errors():
    random = np.random.default_rng(0)
    forest = random_forest(random, 3, 2, 5, np.zeros(1), 1, 1, 0)
    native = native_forest(3, 1, **forest)
    for wrong in (np.zeros((2, 2)), np.zeros((2, 4)), np.zeros((0, 0))):
        with pytest.raises(ValueError, match="X: wrong number of features"):
            contributions(native, wrong, 1)
    for wrong in (
        np.zeros(3),
        np.zeros((2, 3), dtype=int),
        np.zeros((2, 3), dtype=np.float16),
        np.zeros((2, 3, 1)),
        [[0.0] * 3],
    ):
        with pytest.raises(TypeError):
            contributions(native, wrong, 1)
    with pytest.raises(ValueError, match="background: wrong number of features"):
        against(native, 1, np.zeros((2, 3)), np.zeros((2, 2)), 1)
    with pytest.raises(ValueError, match="background: must have at least one row"):
        against(native, 1, np.zeros((2, 3)), np.zeros((0, 3)), 1)
    with pytest.raises(ValueError, match="out: wrong size"):
        _native.contributions_against(native, np.zeros((2, 3)), np.zeros((1, 3)), True, np.zeros((2, 1, 4)), 1)
    with pytest.raises(ValueError, match="out: wrong size"):
        _native.Interactions(native).predict(np.zeros((2, 3)), np.zeros((2, 1, 4)), 1)
    counts = np.zeros(len(forest["feature"]), dtype=np.int64)
    counts[1] = -1
    with pytest.raises(ValueError, match="count: node 1"):
        native_forest(3, 1, count=counts, **forest)


def raw_scores(model, X):
    """(row) or (row, output)."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.model_.loss.link(model.predict(X))


LOSSES = ["squared_error", "absolute_error", "poisson", "gamma", Quantile(0.9), Huber(1.0), Tweedie(1.5)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_contributions_add_up_for_every_loss(loss):
    X, y = make_regression(300, 5, noise=1.0, random_state=0)
    X[::7, 1] = np.nan
    y = np.exp(y / np.abs(y).max())
    model = AGBMRegressor(loss=loss, max_iter=20).fit(X, y)
    found = model.predict_contributions(X)
    assert found.shape == (300, 6)
    np.testing.assert_allclose(found.sum(axis=-1), raw_scores(model, X), atol=1e-9)
    assert np.ptp(found[:, 5]) == 0.0
    assert (np.ptp(found[:, :5], axis=0) > 0.0).sum() >= 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fading", "gbm", "vagbm", "agbm", "agbmr"])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_contributions_add_up_for_classes(method, strategy, n_classes):
    X, y = make_classification(300, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0)
    model = AGBMClassifier(method=method, multi_strategy=strategy, max_iter=10).fit(X.astype(np.float32), y)
    found = model.predict_contributions(X.astype(np.float32))
    assert found.shape == ((300, 7) if n_classes == 2 else (300, n_classes, 7))
    np.testing.assert_allclose(found.sum(axis=-1), raw_scores(model, X.astype(np.float32)), atol=1e-9)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_contributions_add_up_for_several_labels(strategy):
    X, Y = make_regression(300, 5, n_targets=3, random_state=0)
    model = AGBMRegressor(multi_strategy=strategy, max_iter=20).fit(X, Y)
    found = model.predict_contributions(X)
    assert found.shape == (300, 3, 6)
    np.testing.assert_allclose(found.sum(axis=-1), model.predict(X), atol=1e-9)
    alone = AGBMRegressor(max_iter=20).fit(X, Y[:, :1])
    np.testing.assert_allclose(alone.predict_contributions(X).sum(axis=-1), alone.predict(X), atol=1e-9)


def houses():
    random = np.random.default_rng(0)
    district = random.choice(["north", "south", "east", None], 400)
    frame = pd.DataFrame({"district": district, "rooms": random.integers(1, 9, 400), "noise": random.normal(size=400)})
    frame.loc[::11, "rooms"] = np.nan
    return frame, frame["rooms"].fillna(3.0) + 10.0 * (frame["district"] == "south")


def test_contributions_of_tables_with_categories():
    frame, price = houses()
    model = AGBMRegressor(max_iter=50).fit(frame, price)
    changed = frame.replace("east", "west")
    found = model.predict_contributions(changed)
    np.testing.assert_allclose(found.sum(axis=-1), model.predict(changed), atol=1e-9)
    south = (frame["district"] == "south").to_numpy()
    assert found[south, 0].min() > 5.0
    assert found[~south, 0].max() < 0.0
    assert np.abs(found[:, 2]).max() < 1.5


@pytest.mark.parametrize("name", ["predict_contributions", "predict_interactions"])
def test_sparse_rows_have_the_contributions_of_dense_ones(monkeypatch, name):
    X, y = make_regression(200, 6, random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    model = AGBMRegressor(max_iter=10).fit(X, y)
    find = getattr(model, name)
    expected, relative = find(X), find(X, X[:30])
    assert np.ptp(relative - expected, axis=0).max() > 0.1
    for n_values in (4_000_000, 6 * 30):
        monkeypatch.setattr("agbm._tree.forest.SPARSE_VALUES", n_values)
        np.testing.assert_array_equal(find(csr_array(X)), expected)
        for background in (X[:30], csr_array(X[:30])):
            np.testing.assert_array_equal(find(csr_array(X), background), relative)
            np.testing.assert_array_equal(find(X, background), relative)


def test_interactions_of_tables_add_up_to_contributions():
    """Those of the parts of dates, and of crosses, are those of their columns."""
    random = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 700, 300), "D")
    frame = pd.DataFrame({"day": days, "a": random.normal(size=300), "b": random.normal(size=300)})
    frame["kind"] = random.choice(["u", "v", None], 300)
    y = frame["a"] * frame["b"] + 2.0 * (frame["kind"] == "u") * (days.month > 6) + 0.1 * random.normal(size=300)
    model = AGBMRegressor(max_iter=40, views=[("a", "*", "b")]).fit(frame, y)
    assert model.model_.reader.crosses
    for background in (None, frame[:40]):
        found, pairs = model.predict_contributions(frame, background), model.predict_interactions(frame, background)
        np.testing.assert_allclose(found.sum(axis=-1), model.predict(frame), atol=1e-9)
        np.testing.assert_allclose(pairs.sum(axis=-1), found, atol=1e-9)
        np.testing.assert_allclose(pairs, pairs.swapaxes(1, 2), atol=1e-12)
        strength = np.abs(pairs[:, :4, :4]).mean(axis=0) * (1 - np.eye(4))
        assert strength[1, 2] > 5.0 * strength[1, 3]
        assert strength[0, 3] > 5.0 * strength[1, 3]
    assert found[0, 4] == pytest.approx(model.predict(frame[:40]).mean())
    single = frame[["a", "b"]].to_numpy(np.float32)
    numeric = AGBMRegressor(max_iter=10).fit(single, y)
    np.testing.assert_array_equal(
        numeric.predict_contributions(single, single[:9].astype(np.float64)),
        numeric.predict_contributions(single, single[:9]),
    )


def test_interactions_of_several_scores():
    X, y = make_classification(100, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    model = AGBMClassifier(max_iter=5).fit(X, y)
    for background in (None, X[:20]):
        found, pairs = model.predict_contributions(X, background), model.predict_interactions(X, background)
        assert pairs.shape == (100, 3, 6, 6)
        np.testing.assert_allclose(pairs.sum(axis=-1), found, atol=1e-9)
        np.testing.assert_allclose(found.sum(axis=-1), model.decision_function(X), atol=1e-9)


def test_base_value_is_the_last_column():
    X, y = make_regression(200, 4, noise=5.0, random_state=0)
    first = LinearRegression().fit(X, y)
    model = AGBMRegressor(max_iter=10, init=first).fit(X, y)
    found = model.predict_contributions(X)
    np.testing.assert_allclose(found.sum(axis=-1), model.predict(X), atol=1e-9)
    np.testing.assert_allclose(found[:, 4] - first.predict(X), found[0, 4] - first.predict(X[:1])[0], atol=1e-9)
    classifier = AGBMClassifier(max_iter=10, init=LogisticRegression().fit(X, y > 0)).fit(X, y > 0)
    found = classifier.predict_contributions(X)
    np.testing.assert_allclose(found.sum(axis=-1), classifier.decision_function(X), atol=1e-9)


def test_the_expected_score_is_the_mean_over_the_training_rows():
    """Counts are those of the training rows, so where every leaf is reached, its mean is that of the last place."""
    X, y = make_regression(500, 4, noise=5.0, random_state=0)
    repeats = np.random.default_rng(0).integers(1, 4, 500)
    model = AGBMRegressor(max_iter=10, early_stopping=False).fit(X, y, sample_weight=repeats)
    expected = model.predict_contributions(X[:1])[0, 4]
    assert expected == pytest.approx(np.average(model.predict(X), weights=repeats), abs=1e-9)
    # Other weights do not count: each row counts once.
    weight = np.random.default_rng(0).random(500) + 0.5
    model = AGBMRegressor(max_iter=10, early_stopping=False).fit(X, y, sample_weight=weight)
    assert model.predict_contributions(X[:1])[0, 4] == pytest.approx(model.predict(X).mean(), abs=1e-9)


def test_models_without_trees():
    X, y = np.zeros((40, 2)), np.arange(40.0)
    model = AGBMRegressor(max_iter=1, early_stopping=True).fit(X, y)
    found = model.predict_contributions(X)
    np.testing.assert_array_equal(found[:, :2], 0.0)
    np.testing.assert_array_equal(found[:, 2], model.predict(X))
    np.testing.assert_array_equal(model.predict_interactions(X, X)[:, 2, 2], model.predict(X))
    X, y = make_regression(100, 3, random_state=0)
    linear = AGBMRegressor(max_iter=2, method=Fading(learner=LinearRegression())).fit(X, y)
    with pytest.raises(ValueError, match=r"predict_contributions\(\) works with trees only.*LinearRegression"):
        linear.predict_contributions(X)
    with pytest.raises(ValueError, match=r"predict_interactions\(\) works with trees only"):
        linear.predict_interactions(X)
    with pytest.raises(AttributeError, match="split_counts_ is defined for trees only"):
        linear.split_counts_  # noqa: B018


def shap_trees(model):
    """The trees of one output in the format of custom trees of shap.TreeExplainer."""
    forest = model.model_.folded
    ends = np.append(forest.roots[1:], len(forest.nodes))
    trees = []
    for root, end in zip(forest.roots, ends, strict=True):
        nodes = forest.nodes[root:end]
        leaf = nodes["feature"] < 0
        left = np.where(leaf, -1, nodes["left"] - root)
        right = np.where(leaf, -1, left + 1)
        trees.append(
            {
                "children_left": left.astype(np.int32),
                "children_right": right.astype(np.int32),
                "children_default": np.where(nodes["missing_left"] != 0, left, right).astype(np.int32),
                "features": np.where(leaf, -2, nodes["feature"]).astype(np.int32),
                "thresholds": nodes["threshold"].astype(np.float64),
                "values": forest.value[root:end],
                "node_sample_weight": nodes["count"].astype(np.float64),
            }
        )
    return {"trees": trees, "internal_dtype": np.float64, "input_dtype": np.float64}


def test_contributions_are_those_of_the_shap_package():
    X, y = make_regression(400, 8, noise=1.0, random_state=0)
    X[::5, 2] = np.nan
    for depth in (3, 8):
        model = AGBMRegressor(max_iter=20, max_depth=depth, min_samples_leaf=2).fit(X, y)
        explainer = shap.TreeExplainer(shap_trees(model), feature_perturbation="tree_path_dependent")
        expected = explainer.shap_values(X[:50])
        scale = np.abs(expected).max()
        np.testing.assert_allclose(model.predict_contributions(X[:50])[:, :8], expected, atol=1e-9 * scale)
        pairs = explainer.shap_interaction_values(X[:50])
        np.testing.assert_allclose(model.predict_interactions(X[:50])[:, :8, :8], pairs, atol=1e-9 * scale)
        rows, background = np.nan_to_num(X[:50]), np.nan_to_num(X[100:140])
        relative = shap.TreeExplainer(shap_trees(model), background).shap_values(rows)  # added up in float32
        found = model.predict_contributions(rows, background)
        np.testing.assert_allclose(found[:, :8], relative, atol=1e-6 * scale)
        explanation = model.explain(rows, background)
        np.testing.assert_array_equal(explanation.values, found[:, :8])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regressor", "two classes", "three classes", "two labels", "table", "sparse"])
def test_plots_of_the_shap_package(kind):
    matplotlib.use("Agg")
    from matplotlib import pyplot

    X, y = make_regression(100, 4, n_targets=2 if kind == "two labels" else 1, random_state=0)
    names = [f"Feature {j}" for j in range(4)]
    if kind == "table":
        X, y = houses()
        names = ["district", "rooms", "noise"]
    elif kind.endswith("classes"):
        y = np.digitize(y, np.quantile(y, [0.5] if kind == "two classes" else [0.3, 0.6]))
    elif kind == "sparse":
        X = csr_array(X)
    model = (AGBMClassifier if kind.endswith("classes") else AGBMRegressor)(max_iter=5).fit(X, y)
    explained = model.explain(X)
    assert isinstance(explained, shap.Explanation)
    assert list(explained.feature_names) == names
    several = kind in ("three classes", "two labels")
    contributions = model.predict_contributions(X)
    expected = contributions[:, 1] if several else contributions
    explained = explained[..., 1] if several else explained
    np.testing.assert_array_equal(explained.values, expected[:, :-1])
    np.testing.assert_array_equal(explained.base_values, expected[:, -1])
    for plot, what in [
        (shap.plots.beeswarm, explained),
        (shap.plots.bar, explained),
        (shap.plots.bar, explained[0]),
        (shap.plots.waterfall, explained[0]),
    ]:
        plot(what, show=False)
        labels = [label.get_text() for axes in pyplot.gcf().axes for label in axes.get_yticklabels()]
        assert all(any(name in label for label in labels) for name in names)
        pyplot.close("all")
    if kind == "table":
        assert explained.display_data[1, 0] == X["district"][1] == "east"


def test_explain_without_shap(monkeypatch):
    X, y = make_regression(50, 2, random_state=0)
    model = AGBMRegressor(max_iter=2).fit(X, y)
    monkeypatch.setitem(sys.modules, "shap", None)  # as if it were not there
    with pytest.raises(ImportError, match=r"agbm\[explain\]"):
        model.explain(X)
    assert model.predict_contributions(X).shape == (50, 3)


def test_split_counts():
    X, y = make_classification(300, 5, n_informative=3, n_redundant=0, n_classes=3, shuffle=False, random_state=0)
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        model = AGBMClassifier(max_iter=10, multi_strategy=strategy).fit(X, y)
        counts = model.split_counts_
        feature = model.model_.folded.nodes["feature"]
        assert counts.tolist() == [(feature == j).sum() for j in range(5)]
        assert counts.sum() == len(feature) - (feature < 0).sum() > 0
        chosen = SelectFromModel(
            model, importance_getter="split_counts_", prefit=True, max_features=3, threshold=-np.inf
        )
        assert chosen.get_support().sum() == 3
        assert counts[chosen.get_support()].min() >= counts[~chosen.get_support()].max()
    stump = AGBMRegressor(max_iter=4, max_depth=1, method="gbm").fit(X[:, :1], X[:, 0])
    assert stump.split_counts_.tolist() == [4]


@pytest.mark.parametrize("classifies", [False, True])
def test_permutation_importance(classifies):
    X, y = make_regression(300, 4, n_informative=1, shuffle=False, random_state=0)
    model = AGBMClassifier(max_iter=20).fit(X, y > 0) if classifies else AGBMRegressor(max_iter=20).fit(X, y)
    found = permutation_importance(model, X, y > 0 if classifies else y, n_repeats=3, random_state=0).importances_mean
    assert found.argmax() == 0
    assert found[0] > 0.3
    assert np.abs(found[1:]).max() < 0.05
    mean_size = np.abs(model.predict_contributions(X)[:, :4]).mean(axis=0)
    assert mean_size.argmax() == 0
    assert mean_size[0] > 10.0 * mean_size[1:].max()


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_contributions_of_the_exported_model(classes):
    """LightGBM and the shap package compute the same contributions of the exported model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 6))
    X[random.random(X.shape) < 0.1] = np.nan
    score = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2])
    y = score if classes == 0 else np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    model = (AGBMRegressor if classes == 0 else AGBMClassifier)(max_iter=15).fit(X, y)
    booster = lightgbm.Booster(model_str=to_lightgbm(model))
    ours = model.predict_contributions(X[:50]).reshape(50, -1)
    np.testing.assert_allclose(booster.predict(X[:50], pred_contrib=True), ours, atol=1e-9)
    theirs = shap.TreeExplainer(booster)(X[:50]).values  # (row, feature) or (row, feature, class)
    expected = model.predict_contributions(X[:50])[..., :-1]
    np.testing.assert_allclose(theirs, expected if classes < 3 else np.moveaxis(expected, 1, 2), atol=1e-9)
