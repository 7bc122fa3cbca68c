"""Monotone features, and features that may not be combined."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes

from agbm import AGBMClassifier, AGBMRegressor
from profiles import examples
from variants import METHODS, made, methods, shared, strategies


def noisy(seed, n=400):
    """y rises with feature 0 and falls with feature 1, under much noise; feature 2 matters, without order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] - X[:, 1] + np.sin(3 * X[:, 2]) + 2 * rng.normal(size=n)


def moves(predict, X, feature, steps=25):
    """Changes of the prediction as one feature goes up, all others kept, on every row."""
    values = np.linspace(X[:, feature].min() - 1, X[:, feature].max() + 1, steps)
    tables = []
    for value in values:
        moved = X.copy()
        moved[:, feature] = value
        tables.append(predict(moved))
    return np.array([after - before for before, after in pairwise(tables)])


class TestMonotone:
    @pytest.mark.slow
    @methods
    @shared
    @pytest.mark.parametrize("correction", [-1.0, 0.5, 1.0])
    @pytest.mark.parametrize("max_leaf_nodes", [None, 12])
    def test_the_folded_model_is_monotone(self, method, shared_structure, correction, max_leaf_nodes):
        X, y = noisy(0)
        settings = {
            "method": made(method, shared_structure=shared_structure, correction=correction, momentum=0.1),
            "max_iter": 25,
            "min_samples_leaf": 3,
            "max_leaf_nodes": max_leaf_nodes,
        }
        free = AGBMRegressor(**settings).fit(X, y)
        assert moves(free.predict, X, 0).min() < -0.01, "it would not be so by itself"
        model = AGBMRegressor(**settings, monotonic_cst=[1, -1, 0]).fit(X, y)
        assert moves(model.predict, X, 0).min() >= -1e-12
        assert moves(model.predict, X, 1).max() <= 1e-12
        assert np.abs(moves(model.predict, X, 2)).max() > 0.1
        assert model.score(X, y) > 0.3

    @examples(15)
    @given(
        seed=st.integers(0, 2**32 - 1),
        method=st.sampled_from(METHODS),
        missing=st.sampled_from([0.0, 0.3]),
        second_order=st.booleans(),
        subsample=st.sampled_from([0.5, 1.0]),
        dropout=st.sampled_from([0.0, 0.3]),
        momentum=st.sampled_from([0.1, "fading"]),
    )
    def test_probabilities(self, seed, method, missing, second_order, subsample, dropout, momentum):
        X, y = noisy(seed, 200)
        complete = X.copy()
        X[np.random.default_rng(seed).random(X.shape) < missing] = np.nan
        model = AGBMClassifier(
            method=made(method, momentum=momentum, second_order=second_order, dropout=dropout),
            monotonic_cst=[1, 0, -1],
            max_iter=10,
            min_samples_leaf=2,
            subsample=subsample,
            random_state=seed % 1000,
        ).fit(X, y > 0)
        assert moves(lambda table: model.predict_proba(table)[:, 1], complete, 0).min() >= -1e-12
        assert moves(lambda table: model.predict_proba(table)[:, 1], complete, 2).max() <= 1e-12

    @strategies
    def test_every_output(self, strategy):
        X, y = noisy(1)
        model = AGBMRegressor(multi_strategy=strategy, monotonic_cst=[1, 0, 0], max_iter=10, min_samples_leaf=3)
        model.fit(X, np.column_stack([y, -y]))
        assert moves(model.predict, X, 0).min() >= -1e-12

    def test_by_name(self):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        model = AGBMRegressor(monotonic_cst={"bmi": 1, "s3": -1}, max_iter=20).fit(X, y)
        other = AGBMRegressor(monotonic_cst=[0, 0, 1, 0, 0, 0, -1, 0, 0, 0], max_iter=20).fit(X, y)
        assert np.array_equal(model.predict(X), other.predict(X))
        with pytest.raises(ValueError, match="no column 'weight'"):
            AGBMRegressor(monotonic_cst={"weight": 1}).fit(X, y)

    def test_no_constraint_changes_nothing(self):
        X, y = noisy(2)
        free = AGBMRegressor(max_iter=10).fit(X, y).predict(X)
        assert np.array_equal(AGBMRegressor(max_iter=10, monotonic_cst=[0, 0, 0]).fit(X, y).predict(X), free)

    def test_of_many_classes_one_must_be_named(self):
        X, y = noisy(3)
        with pytest.raises(ValueError, match=r"monotonic_cst=\[1, 0, 0\] supports only two classes; y has 3"):
            AGBMClassifier(monotonic_cst=[1, 0, 0]).fit(X, np.digitize(y, [-1, 1]))


class TestInteractions:
    @staticmethod
    def pairs_on_paths(forest):
        """All pairs of features that meet on a path of a tree."""
        found = set()

        def walk(node, above):
            feature = int(forest.nodes["feature"][node])
            if feature < 0:
                return
            found.update((min(feature, other), max(feature, other)) for other in above if other != feature)
            walk(forest.nodes["left"][node], {*above, feature})
            walk(forest.nodes["left"][node] + 1, {*above, feature})

        for root in forest.roots:
            walk(root, set())
        return found

    @methods
    @shared
    def test_only_features_of_a_group_meet(self, method, shared_structure):
        X, y = load_breast_cancer(return_X_y=True)
        X = X[:, :6]
        settings = {
            "method": made(method, shared_structure=shared_structure, second_order=True),
            "max_iter": 10,
            "min_samples_leaf": 5,
            "l2_regularization": 0.0,
            "colsample_bytree": 1.0,
        }
        free = self.pairs_on_paths(AGBMClassifier(**settings).fit(X, y).model_.folded)
        groups = AGBMClassifier(**settings, interaction_cst=[[0, 1], [1, 2, 3]]).fit(X, y).model_.folded
        allowed = {(0, 1), (1, 2), (1, 3), (2, 3), (4, 5)}  # those that no group names form one of their own
        assert free - allowed
        assert self.pairs_on_paths(groups) <= allowed
        left_over = AGBMClassifier(**settings, interaction_cst=[[0], [1], [2], [3]]).fit(X, y).model_.folded
        assert self.pairs_on_paths(left_over) == {(4, 5)}

    def test_no_interactions_is_additive(self):
        X, y = noisy(4)
        model = AGBMRegressor(interaction_cst="no_interactions", max_iter=20).fit(X, y)
        assert not self.pairs_on_paths(model.model_.folded)
        # Without interactions, the effect of one feature is the same at every value of the others.
        change = moves(model.predict, X, 0)
        np.testing.assert_allclose(change, np.tile(change[:, :1], len(X)), atol=1e-10)

    def test_pairwise(self):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(interaction_cst="pairwise", max_iter=5, min_samples_leaf=5).fit(X, y)
        forest = model.model_.folded

        def features_below(node, above):
            feature = int(forest.nodes["feature"][node])
            if feature < 0:
                return len(above)
            return max(features_below(forest.nodes["left"][node] + side, above | {feature}) for side in (0, 1))

        assert max(features_below(root, frozenset()) for root in forest.roots) == 2
        one = AGBMRegressor(interaction_cst="pairwise", max_iter=2).fit(X[:, :1], y)
        assert np.array_equal(one.predict(X[:, :1]), AGBMRegressor(max_iter=2).fit(X[:, :1], y).predict(X[:, :1]))

    def test_one_group_of_all_changes_nothing(self):
        X, y = noisy(5)
        free = AGBMRegressor(max_iter=10).fit(X, y).predict(X)
        assert np.array_equal(AGBMRegressor(max_iter=10, interaction_cst=[[0, 1, 2]]).fit(X, y).predict(X), free)
