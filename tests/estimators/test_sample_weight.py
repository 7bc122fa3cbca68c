"""Sample weights."""

import numpy as np
import pytest
from sklearn.base import clone

from agbm import AGBMClassifier, AGBMRegressor
from agbm._data.hold_out import hold_out
from variants import made, methods, newton


def assert_same_model(one, other, X):
    for name in ("feature", "threshold", "left", "missing_left", "count"):
        assert np.array_equal(one.model_.folded.nodes[name], other.model_.folded.nodes[name]), name
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-9)


class TestSampleWeight:
    @methods
    def test_zero_weights_drop_rows(self, method, binary):
        X, y = binary
        weight = np.arange(len(y)) % 3 + 1.0
        model = AGBMClassifier(method=method, max_iter=6, max_bins=16, early_stopping=True, random_state=0)
        garbage = 10 * X[::-1]
        with_garbage = clone(model).fit(
            np.vstack([X, garbage]), np.append(y, 1 - y), sample_weight=np.append(weight, 0 * weight)
        )
        without = clone(model).fit(X, y, sample_weight=weight)
        assert np.array_equal(with_garbage.decision_function(X), without.decision_function(X))

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("shared", [False, True])
    @newton
    def test_integer_weights_equal_repeated_rows(self, method, shared, second_order, binary):
        X, y = binary
        weight = np.arange(len(y)) % 4 + 1
        model = AGBMClassifier(
            method=made(method, shared_structure=shared, second_order=second_order),
            max_iter=10,
            max_depth=3,
            max_bins=32,
            early_stopping=False,
        )
        weighted = clone(model).fit(X, y, sample_weight=weight)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert_same_model(weighted, repeated, X)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"method": made("gbm", line_search=True)},
            {"method": made("vagbm", momentum="theory")},
            {"method": made("agbm", momentum="theory")},
            {"method": made("agbm", correction=1.0), "learning_rate": 3.0},
        ],
        ids=str,
    )
    @pytest.mark.filterwarnings("ignore:.* rows are copies of others")
    def test_integer_weights_in_every_algorithm(self, parameters, binary):
        X, y = binary
        weight = np.arange(len(y)) % 4 + 1
        settings = {"max_iter": 10, "max_depth": 3, "max_bins": 32, **parameters}
        weighted = AGBMClassifier(**settings).fit(X, y, sample_weight=weight)
        repeated = AGBMClassifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert_same_model(weighted, repeated, X)
        for name in ("train_loss", "cosine_residual", "cosine_corrected", "momentum"):
            np.testing.assert_array_equal(weighted.history_[name], repeated.history_[name])

    def test_validation_loss_is_weighted(self, regression):
        X, y = regression
        weight = np.arange(len(y)) % 5 + 0.5
        model = AGBMRegressor(n_members=1, early_stopping=True, max_iter=3, random_state=0)
        model.fit(X, y, sample_weight=weight)
        seed = model.model_.seed
        train, held_out = hold_out(len(y), 0.1, None, seed)
        prior = np.average(y[train], weights=weight[train])
        expected = np.average((y[held_out] - prior) ** 2 / 2, weights=weight[held_out])
        assert model.history_["validation_loss"][0] == pytest.approx(expected)

    def test_classes_of_zero_weight_are_dropped(self, binary):
        X, y = binary
        with pytest.raises(ValueError, match=r"only one class \(1\)"):
            AGBMClassifier().fit(X, y, sample_weight=y)

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_scale_invariance(self, method, scale, binary):
        X, y = binary
        weight = np.arange(len(y)) % 3 + 1.3
        model = AGBMClassifier(method=method, max_iter=10, max_depth=3)
        one = clone(model).fit(X, y, sample_weight=weight).decision_function(X)
        other = clone(model).fit(X, y, sample_weight=scale * weight).decision_function(X)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)

    @methods
    def test_equal_weights_equal_no_weights(self, method, regression):
        X, y = regression
        model = AGBMRegressor(method=method, max_iter=10, max_depth=3)
        plain = clone(model).fit(X, y).predict(X)
        assert np.array_equal(clone(model).fit(X, y, sample_weight=np.ones(len(y))).predict(X), plain)
        weighted = clone(model).fit(X, y, sample_weight=np.full(len(y), 2.5)).predict(X)
        np.testing.assert_allclose(weighted, plain, rtol=1e-9)
