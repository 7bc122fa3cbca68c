"""Default values that depend on the data."""

import numpy as np
import pytest
from sklearn.base import clone

from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import Huber


@pytest.mark.slow
class TestDefaults:
    @pytest.mark.parametrize("n_features", [2, 3])
    def test_learns_interactions_of_few_features(self, n_features):
        """Also if each node sees only some of them: here no feature is predictive without the others."""
        X = np.random.default_rng(0).normal(size=(3000, n_features))
        y = np.prod(np.sign(X), axis=1)
        assert AGBMRegressor(max_depth=None, max_leaf_nodes=31).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) > 0.9

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_l2_follows_small_hessians(self, scale):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = scale * (X[:, 0] + 0.1 * rng.normal(size=2000))
        assert AGBMRegressor(loss=Huber(0.01 * scale)).fit(X, y).score(X, y) > 0.9
        rare = rng.poisson(0.001 * np.exp(2 * X[:, 0]))
        model = AGBMRegressor(loss="poisson").fit(X, rare)
        assert model.predict(X[X[:, 0] > 1]).mean() > 5 * model.predict(X[X[:, 0] < 0]).mean()

    def test_is_deterministic(self, binary):
        assert np.array_equal(
            *(AGBMClassifier(max_iter=20).fit(*binary).decision_function(binary[0]) for _ in range(2))
        )

    def test_a_small_learning_rate_makes_small_steps(self, regression):
        X, y = regression
        model = AGBMRegressor(learning_rate=1e-9, max_iter=5, early_stopping=False).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-6)


class TestAutomaticTreeSizes:
    """max_leaf_nodes, min_samples_leaf and l2_regularization follow the data by default."""

    @pytest.mark.parametrize(
        ("n_rows", "leaves", "fewest"),
        [
            (60, 8, 2), (1151, 8, 2), (1152, 9, 2), (1999, 15, 3), (2000, 15, 4), (3967, 30, 7), (3968, 31, 7),
            (4095, 31, 8), (4096, 32, 8), (7999, 44, 10), (15_876, 63, 10), (70_000, 63, 10),
        ],
    )  # fmt: skip
    def test_by_number_of_rows(self, n_rows, leaves, fewest):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, 3))
        y = X @ [1.0, 2.0, 3.0] + X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
        common = {"max_iter": 3, "early_stopping": False, "views": None}
        sizes = {"max_leaf_nodes": leaves, "min_samples_leaf": fewest, "l2_regularization": 3.0}
        by_hand = AGBMRegressor(n_members=5, colsample_bynode=0.5, max_depth=None, **sizes, **common).fit(X, y)
        model = AGBMRegressor(**common).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
        assert model.resolved_params_ | sizes == model.resolved_params_

    def test_losses_other_than_the_squared_error_have_at_most_31_leaves(self):
        X = np.arange(16_000.0)[:, np.newaxis]
        one = {"n_members": 1, "max_iter": 1}
        for model in (
            AGBMRegressor(loss="poisson", **one),
            AGBMRegressor(loss="absolute_error", **one),
            AGBMClassifier(**one),
        ):
            found = model.fit(X, X[:, 0] % 2).resolved_params_
            assert found["max_leaf_nodes"] == 31

    def test_integer_weights_do_not_change_tree_sizes(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(700, 3))
        y = X[:, 0] * X[:, 1] + X[:, 2]
        common = {"max_iter": 3, "early_stopping": False}
        weighted = AGBMRegressor(**common).fit(X, y, np.full(700, 20))
        by_hand = AGBMRegressor(max_leaf_nodes=8, min_samples_leaf=2, **common).fit(X, y, np.full(700, 20))
        np.testing.assert_array_equal(weighted.predict(X), by_hand.predict(X))

    def test_float_weights_do_not_change_tree_sizes(self, binary):
        """Also with held-out rows, and with class weights."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(9000, 3))
        y = X[:, 0] * X[:, 1] + X[:, 2]
        weight = np.where(rng.random(9000) < 0.001, 1e6, 0.5)
        common = {"max_iter": 3, "early_stopping": True}
        by_hand = AGBMRegressor(max_leaf_nodes=45, min_samples_leaf=10, **common).fit(X, y, weight)
        np.testing.assert_array_equal(AGBMRegressor(**common).fit(X, y, weight).predict(X), by_hand.predict(X))
        X, y = binary
        model = AGBMClassifier(max_iter=3, class_weight={0: 1, 1: 100})
        by_hand = clone(model).set_params(max_leaf_nodes=8, min_samples_leaf=2).fit(X, y)
        np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), by_hand.predict_proba(X))

    def test_held_out_rows_do_not_count(self):
        X = np.arange(2560.0)[:, np.newaxis]
        for n_members in (1, 5):
            model = AGBMRegressor(max_iter=1, n_members=n_members, early_stopping=True).fit(X, X[:, 0])
            found = model.resolved_params_
            assert (found["max_leaf_nodes"], found["min_samples_leaf"]) == (18, 4), "of 2304 rows"

    def test_max_leaf_nodes_removes_the_depth_limit(self):
        X = np.arange(640.0)[:, np.newaxis]
        model = AGBMRegressor(n_members=1, max_iter=1, max_leaf_nodes=16, min_samples_leaf=1).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 16
        assert model.resolved_params_["max_depth"] is None

    def test_max_depth_removes_the_leaf_limit(self):
        X = np.arange(640.0)[:, np.newaxis]
        small = {"min_samples_leaf": 1, "l2_regularization": 0.0}
        model = AGBMRegressor(n_members=1, max_iter=1, max_depth=5, **small).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 32
        assert model.resolved_params_["max_leaf_nodes"] is None
        both = clone(model).set_params(max_leaf_nodes=20).fit(X, X[:, 0])
        assert (both.model_.folded.nodes["feature"] < 0).sum() == 20

    def test_none_means_unlimited(self):
        X = np.arange(64.0)[:, np.newaxis]
        small = {"min_samples_leaf": 1, "l2_regularization": 0.0}
        model = AGBMRegressor(n_members=1, max_iter=1, max_leaf_nodes=None, **small).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 64

    def test_l2_of_likelihoods(self, binary):
        X, y = binary
        by_hand = AGBMClassifier(max_iter=3, l2_regularization=7.0).fit(X, y)
        np.testing.assert_array_equal(AGBMClassifier(max_iter=3).fit(X, y).predict_proba(X), by_hand.predict_proba(X))
