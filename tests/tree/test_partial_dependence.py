"""Partial dependence by recursion: against a slow walk, contributions, and brute force where both must agree."""

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence as by_brute_force

from agbm import AGBMClassifier, AGBMRegressor


def slow(forest, known, node):
    """The value of a node, walking one branch if its feature is known and both otherwise."""
    record = forest.nodes[node]
    if record["left"] < 0:
        return forest.value[node]
    left, right = record["left"], record["left"] + 1
    feature = record["feature"]
    if feature not in known:
        rows = forest.nodes["count"][[left, right]]
        shares = rows / rows.sum() if rows.sum() else [0.5, 0.5]
        return shares[0] * slow(forest, known, left) + shares[1] * slow(forest, known, right)
    x = known[feature]
    goes_left = bool(record["missing_left"])
    if record["categories"] >= 0:
        start, end = forest.category_start[record["categories"] : record["categories"] + 2]
        if not np.isnan(x) and x < 64 * (end - start):
            goes_left = bool(int(forest.category_words[start + int(x) // 64]) >> int(x) % 64 & 1)
    elif not np.isnan(x):
        goes_left = x <= record["threshold"]
    return slow(forest, known, left if goes_left else right)


def slow_dependence(model, known):
    forest = model.model_.folded
    total = model.model_.start.copy()
    for root, column in zip(forest.roots, forest.first_column, strict=True):
        value = slow(forest, known, root)
        total[column : column + len(value)] += value
    return total


def table(n=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice(list("pqrst"), n)})
    X.loc[rng.random(n) < 0.2, "a"] = np.nan
    y = np.nan_to_num(X["a"], nan=2.0) * X["b"] + X["c"].map(dict(zip("pqrst", range(5), strict=True)))
    return X, y.to_numpy()


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("features", [[0], [2], [1, 2], [0, 1, 2]])
def test_equals_a_slow_walk(features, strategy):
    X, y = table()
    classes = np.digitize(y, [0.0, 3.0])
    points = {0: [-1.0, 0.3, np.nan, np.inf], 1: [-2.0, 0.0, 1.0, np.nan], 2: [0.0, 4.0, np.nan, 5.0]}
    grid = np.array([points[f] for f in features]).T
    models = [
        AGBMRegressor(max_iter=8).fit(X, y),
        AGBMRegressor(max_iter=5, multi_strategy=strategy).fit(X, np.column_stack([y, -y, y**2])),
        AGBMClassifier(max_iter=5, multi_strategy=strategy).fit(X, classes),
        AGBMClassifier(max_iter=5).fit(X, y > 1),
    ]
    for model in models:
        found = model.model_.partial_dependence(features, grid)
        wanted = [slow_dependence(model, dict(zip(features, point, strict=True))) for point in grid]
        np.testing.assert_allclose(found, np.transpose(wanted), rtol=1e-11, atol=1e-12)


def test_no_known_features_give_the_base_value():
    X, y = table()
    model = AGBMRegressor(max_iter=8).fit(X, y)
    base = model.predict_contributions(X[:1])[0, -1]
    np.testing.assert_allclose(model.model_.partial_dependence([], np.zeros((1, 0))), [[base]], rtol=1e-12)
    everything = model.model_.partial_dependence([0, 1, 2], model.model_.reader.numbers(X))
    np.testing.assert_allclose(everything[0], model.predict(X), rtol=1e-11)


def test_brute_force_agrees_if_features_are_independent():
    """All combinations of values are training rows: in every node, the other features are distributed as overall."""
    axes = np.arange(4.0), np.arange(5.0), np.arange(3.0)
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) * X[:, 1]
    model = AGBMRegressor(max_iter=20, early_stopping=False).fit(X, y)
    for feature, axis in enumerate(axes):
        brute = by_brute_force(model, X, [feature], custom_values={feature: axis})["average"]
        np.testing.assert_allclose(model.model_.partial_dependence([feature], axis[:, np.newaxis]), brute, rtol=1e-11)


def test_trees_in_chunks(monkeypatch):
    X, y = table()
    model = AGBMRegressor(max_iter=8).fit(X, y)
    grid = np.linspace(-1, 1, 7)[:, np.newaxis]
    whole = model.model_.partial_dependence([1], grid)
    monkeypatch.setattr("agbm._tree.partial_dependence.CHUNK_NUMBERS", 1)
    np.testing.assert_allclose(model.model_.partial_dependence([1], grid), whole, rtol=1e-12)


def test_models_without_trees():
    X = np.zeros((100, 2))
    model = AGBMRegressor(max_iter=3).fit(X, np.arange(100.0))
    np.testing.assert_allclose(model.model_.partial_dependence([0], np.zeros((2, 1))), [model.predict(X[:2])])
