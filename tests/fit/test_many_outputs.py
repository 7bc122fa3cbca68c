"""More than two classes, and several labels per row."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_linnerud
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score, train_test_split

from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import AbsoluteError, Multinomial
from agbm.methods import AGBM, GBM, Fading
from variants import METHODS, few, made, methods, newton, shared, strategies


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def several():
    X, y = load_diabetes(return_X_y=True)
    return X, np.column_stack([y, -y, X[:, 2] * 1000 + y])


class TestClasses:
    @pytest.mark.slow
    @methods
    @strategies
    @shared
    @newton
    def test_every_method_and_strategy_learns(self, iris, method, strategy, shared_structure, second_order):
        X, y = iris
        model = AGBMClassifier(
            method=made(method, shared_structure=shared_structure, second_order=second_order),
            multi_strategy=strategy,
            n_members=1,
            max_iter=20,
            max_depth=3,
            min_samples_leaf=5,
        )
        assert cross_val_score(model, X, y).mean() > 0.92
        model.fit(X, y)
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert model.history_["train_loss"][-1] == pytest.approx(log_loss(y, proba))
        assert np.array_equal(model.decision_function(X).argmax(axis=1), model.predict(X))
        for m, staged in enumerate(model.staged_decision_function(X), start=1):
            if m in (1, 2, 13, 20):
                shorter = clone(model).set_params(max_iter=m).fit(X, y)
                np.testing.assert_allclose(staged, shorter.decision_function(X), rtol=1e-9, atol=1e-9)
                assert model.history_["trees"][m] == shorter.n_trees_

    @pytest.mark.parametrize(
        ("method", "given", "found"),
        [
            ("fading", "auto", "multi_output_tree"),
            ("fading", "one_output_per_tree", "one_output_per_tree"),
            ("gbm", "auto", "one_output_per_tree"),
            (GBM(second_order=True), "multi_output_tree", "multi_output_tree"),
        ],
    )
    def test_default_strategy(self, iris, method, given, found):
        """Classes share trees with the default method only: others are used as in other libraries."""
        model = AGBMClassifier(method=method, multi_strategy=given, n_members=1, max_iter=4).fit(*iris)
        assert model.resolved_params_["multi_strategy"] == found
        assert model.n_trees_ == (4 if found == "multi_output_tree" else 12)

    def test_classes_with_different_constraints_have_their_own_trees(self, iris):
        model = AGBMClassifier(monotonic_cst={0: {1: 1}}, n_members=1, max_iter=4).fit(*iris)
        assert model.resolved_params_["multi_strategy"] == "one_output_per_tree"

    @pytest.mark.parametrize(
        ("strategy", "shared_structure", "trees"),
        [
            ("one_output_per_tree", True, 30),
            ("one_output_per_tree", False, 54),
            ("multi_output_tree", True, 10),
            ("multi_output_tree", False, 18),
        ],
    )
    def test_number_of_trees(self, iris, strategy, shared_structure, trees):
        X, y = iris
        model = AGBMClassifier(
            method=made("agbm", shared_structure=shared_structure), multi_strategy=strategy, max_iter=10
        ).fit(X, y)
        assert model.n_trees_ == trees == model.model_.folded.n_learners
        assert model.feature_importances_.sum() == pytest.approx(1.0)

    def test_a_third_class_without_rows(self):
        """The softmax of two scores is the logistic function: a distant third class must change little."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = (X[:, 0] + rng.normal(size=2000) > 0).astype(int)
        settings = {"method": "gbm", "max_iter": 30, "learning_rate": 0.1, "early_stopping": False}
        two = AGBMClassifier(**settings).fit(X, y).predict_proba(X)
        X3, y3 = np.vstack([X, np.full((30, 3), 50.0)]), np.append(y, np.full(30, 2))
        three = AGBMClassifier(**settings).fit(X3, y3).predict_proba(X)
        assert np.corrcoef(two[:, 1], three[:, 1])[0, 1] > 0.98

    @pytest.mark.slow
    def test_close_to_hist_gradient_boosting(self):
        X, y = load_digits(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
        common = {"max_iter": 40, "learning_rate": 0.1, "early_stopping": False, "max_leaf_nodes": 8}
        theirs = HistGradientBoostingClassifier(**common).fit(X_train, y_train).predict_proba(X_test)
        ours = AGBMClassifier(**common, method=GBM(second_order=True), min_samples_leaf=20, l2_regularization=0.0)
        ours = ours.fit(X_train, y_train).predict_proba(X_test)
        assert log_loss(y_test, ours) < 1.1 * log_loss(y_test, theirs)

    @pytest.mark.slow
    @strategies
    @pytest.mark.parametrize("method", few(METHODS, "fading", "agbm"))
    def test_a_thousand_classes(self, strategy, method):
        rng = np.random.default_rng(0)
        X = rng.permutation(2000).astype(float)[:, np.newaxis]
        y = X[:, 0].astype(int) // 2
        X = np.column_stack([X, rng.normal(size=2000)])
        model = AGBMClassifier(
            method=method, multi_strategy=strategy, max_iter=2, max_depth=None, min_samples_leaf=1, max_leaf_nodes=30,
            learning_rate=0.5,
        ).fit(X, y)  # fmt: skip
        assert model.decision_function(X[:5]).shape == (5, 1000)
        assert model.history_["train_loss"][-1] < model.history_["train_loss"][0]
        assert model.score(X, y) > 0.02  # chance is 0.001; one split can single out little

    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["red", "green", "blue"]),
            np.array(["red", "green", "blue"], dtype=object),
            np.array([-5, 7, 1000]),
            np.array([2.0, 3.0, 4.0]),
            np.array([False, True]),
        ],
        ids=lambda labels: labels.dtype.str,
    )
    def test_any_label_type(self, iris, labels):
        X, codes = iris
        codes = codes % len(labels)
        order = np.argsort(labels)
        model = AGBMClassifier(max_iter=5, min_samples_leaf=5).fit(X, labels[codes])
        assert np.array_equal(model.classes_, labels[order])
        assert model.predict(X).dtype == labels.dtype
        assert model.score(X, labels[codes]) > 0.9

    def test_labels_of_a_data_frame(self, iris):
        X, codes = iris
        for y in (
            pd.Series(codes).map({0: "a", 1: "b", 2: "c"}),
            pd.Series(pd.Categorical.from_codes(codes, list("abc"))),
        ):
            assert list(AGBMClassifier(max_iter=2).fit(X, y).classes_) == ["a", "b", "c"]

    @pytest.mark.slow
    @strategies
    @methods
    @newton
    def test_integer_weights_equal_repeated_rows(self, iris, strategy, method, second_order):
        X, y = iris
        weight = np.arange(len(y)) % 4 + 1
        settings = {"max_iter": 8, "max_depth": 3, "max_bins": 16, "early_stopping": False}
        model = AGBMClassifier(method=made(method, second_order=second_order), multi_strategy=strategy, **settings)
        weighted = clone(model).fit(X, y, sample_weight=weight)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        for name in ("feature", "threshold", "left", "missing_left", "count"):
            assert np.array_equal(weighted.model_.folded.nodes[name], repeated.model_.folded.nodes[name]), name
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-9, atol=1e-9)

    @pytest.mark.slow
    @strategies
    @methods
    def test_identical_bits_for_every_n_jobs(self, strategy, method):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40_000, 5)).astype(np.float32)
        y = np.digitize(X[:, 0] + rng.normal(size=len(X)), [-1, 0, 1])
        one, other = (
            AGBMClassifier(method=method, multi_strategy=strategy, max_iter=3, n_jobs=n, random_state=0).fit(X, y)
            for n in (1, 3)
        )
        assert np.array_equal(one.decision_function(X), other.decision_function(X))
        assert np.array_equal(one.history_["validation_loss"], other.history_["validation_loss"])

    @pytest.mark.slow
    @strategies
    def test_init(self, iris, strategy):
        X, y = iris
        start = LogisticRegression(max_iter=1000).fit(X, y)
        model = AGBMClassifier(init=start, max_iter=5, multi_strategy=strategy, early_stopping=False).fit(X, y)
        assert model.history_["train_loss"][0] == pytest.approx(log_loss(y, start.predict_proba(X)))
        with pytest.raises(ValueError, match=r"init=.* has classes \[False, True\], y has \[0, 1, 2\]"):
            AGBMClassifier(init=LogisticRegression().fit(X, y > 0)).fit(X, y)

    def test_other_learners(self, iris):
        X, y = iris
        model = AGBMClassifier(method=AGBM(learner=Ridge()), max_iter=10).fit(X, y)
        assert model.score(X, y) > 0.8
        assert model.n_trees_ == 3 * 18
        np.testing.assert_allclose(list(model.staged_decision_function(X))[-1], model.decision_function(X))

    def test_a_class_of_one_row_is_not_held_out(self):
        X = np.arange(400.0)[:, np.newaxis]
        y = np.digitize(X[:, 0], [100, 200])
        y[7] = 9
        for seed in range(5):
            model = AGBMClassifier(early_stopping=True, max_iter=3, random_state=seed).fit(X, y)
            assert np.isfinite(model.history_["validation_loss"]).all()
            assert model.history_["validation_loss"][0] < 2.0, "no class without a training row"

    def test_custom_multiclass_loss(self, iris):
        X, y = iris

        class Focused(Multinomial):
            def negative_gradient(self, y, f):
                assert f.shape == (3, len(y))
                return super().negative_gradient(y, f)

        model = AGBMClassifier(loss=Focused(3), max_iter=5).fit(X, y)
        assert np.array_equal(model.predict_proba(X), AGBMClassifier(max_iter=5).fit(X, y).predict_proba(X))

    @strategies
    def test_warm_start(self, iris, strategy):
        X, y = iris
        for method in METHODS:
            model = AGBMClassifier(method=method, multi_strategy=strategy, max_iter=10)
            whole = clone(model).fit(X, y).decision_function(X)
            parts = clone(model).set_params(max_iter=6, warm_start=True).fit(X, y)
            assert np.array_equal(parts.set_params(max_iter=10).fit(X, y).decision_function(X), whole)
        with pytest.raises(ValueError, match=r"classes \[0, 1\]; with warm_start=True .* \[0, 1, 2\]"):
            parts.fit(X[y < 2], y[y < 2])


class TestClassWeight:
    def test_equals_sample_weight(self, iris):
        X, y = iris
        weight = np.array([1.0, 3.0, 2.0])
        by_row = AGBMClassifier(max_iter=5).fit(X, y, sample_weight=weight[y])
        by_class = AGBMClassifier(max_iter=5, class_weight=dict(enumerate(weight))).fit(X, y)
        assert np.array_equal(by_row.decision_function(X), by_class.decision_function(X))
        of_rows = np.where(y == 2, 2.0, 1.0)
        both = AGBMClassifier(max_iter=5, class_weight={0: 1.0, 1: 3.0}).fit(X, y, sample_weight=of_rows)
        assert np.array_equal(by_row.decision_function(X), both.decision_function(X))

    def test_balanced(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 2))
        y = np.where(X[:, 0] + rng.normal(size=3000) > 1.8, "rare", "common")
        plain = AGBMClassifier(max_iter=20).fit(X, y)
        balanced = AGBMClassifier(max_iter=20, class_weight="balanced").fit(X, y)
        assert (balanced.predict(X) == "rare").mean() > 2 * (plain.predict(X) == "rare").mean()
        assert balanced.history_["train_loss"][0] == pytest.approx(np.log(2))

    def test_a_class_of_zero_weight_is_dropped(self, iris):
        X, y = iris
        model = AGBMClassifier(max_iter=2, class_weight={2: 0.0}).fit(X, y)
        assert list(model.classes_) == [0, 1]

    def test_bad_weights(self, iris):
        X, y = iris
        with pytest.raises(ValueError, match=r"class_weight has weights for \[7\], which are not in y"):
            AGBMClassifier(class_weight={7: 1.0}).fit(X, y)
        with pytest.raises(ValueError, match=r"class_weight=.* must be finite and not negative"):
            AGBMClassifier(class_weight={0: -1.0}).fit(X, y)
        with pytest.raises(ValueError, match=r"class_weight has weights for \['q'\]"):
            AGBMClassifier(class_weight={"q": 3, 1: 2}).fit(X, y)
        with pytest.raises(ValueError, match=r"class_weight=.* must be finite and not negative"):
            AGBMClassifier(class_weight={1: "x"}).fit(X, y)
        with pytest.raises(ValueError, match="class_weight: all weights are zero"):
            AGBMClassifier(class_weight={0: 0.0, 1: 0.0, 2: 0.0}).fit(X, y)


class TestSeveralLabels:
    @pytest.mark.slow
    @methods
    @strategies
    @shared
    def test_every_method_and_strategy_learns(self, several, method, strategy, shared_structure):
        X, y = several
        settings = {"n_members": 1, "max_iter": 20, "max_depth": 3}
        model = AGBMRegressor(
            method=made(method, shared_structure=shared_structure), multi_strategy=strategy, **settings
        ).fit(X, y)
        assert model.predict(X).shape == y.shape
        assert model.score(X, y) > 0.4
        assert model.history_["train_loss"][-1] == pytest.approx(((model.predict(X) - y) ** 2 / 2).sum(axis=1).mean())
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-9)

    @methods
    def test_a_tree_for_each_output_is_a_model_for_each(self, several, method):
        """Nothing couples the outputs but restarts, of which there are none."""
        X, y = several
        settings = {"method": made(method, momentum=0.02), "max_iter": 10, "max_depth": 3}
        settings |= {"n_members": 1, "colsample_bynode": 1.0}
        together = AGBMRegressor(**settings).fit(X, y).predict(X)
        alone = np.column_stack([AGBMRegressor(**settings).fit(X, y[:, k]).predict(X) for k in range(3)])
        np.testing.assert_allclose(together, alone, rtol=1e-9)

    def test_one_column_keeps_its_shape(self, several):
        X, y = several
        column = AGBMRegressor(max_iter=5).fit(X, y[:, :1]).predict(X)
        assert column.shape == (len(y), 1)
        assert np.array_equal(column[:, 0], AGBMRegressor(max_iter=5).fit(X, y[:, 0]).predict(X))

    @strategies
    def test_other_losses_weights_and_validation_rows(self, several, strategy):
        X, y = several
        weight = np.arange(len(y)) % 3 + 1
        settings = {"n_members": 1, "max_iter": 10, "max_depth": 3}
        model = AGBMRegressor(loss="absolute_error", multi_strategy=strategy, **settings)
        model.fit(X, y, sample_weight=weight, X_val=X, y_val=y)
        expected = sum(AbsoluteError().value(y[:, k], model.predict(X)[:, k]).mean() for k in range(3))
        assert model.history_["validation_loss"][model.best_iteration_] == pytest.approx(expected)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0), X_val=X, y_val=y)
        np.testing.assert_allclose(model.predict(X), repeated.predict(X), rtol=1e-6)

    def test_init_and_other_learners(self, several):
        X, y = several
        settings = {"max_iter": 3, "max_depth": 2, "early_stopping": False}
        model = AGBMRegressor(init=LinearRegression().fit(X, y), **settings).fit(X, y)
        assert model.score(X, y) > LinearRegression().fit(X, y).score(X, y)
        assert AGBMRegressor(method=Fading(learner=Ridge()), max_iter=5).fit(X, y).predict(X).shape == y.shape

    def test_vector_leaves_share_what_outputs_have_in_common(self):
        X, y = load_linnerud(return_X_y=True)
        settings = {"n_members": 1, "max_iter": 5, "min_samples_leaf": 3}
        model = AGBMRegressor(multi_strategy="multi_output_tree", **settings).fit(X, y)
        assert model.n_trees_ == 5
        assert model.predict(X).shape == (20, 3)

    def test_wrong_shapes(self, several):
        X, y = several
        with pytest.raises(ValueError, match=r"y_val has shape \(442,\)"):
            AGBMRegressor(max_iter=2).fit(X, y, X_val=X, y_val=y[:, 0])
        model = AGBMRegressor(max_iter=2, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match="same shape per row as in the previous fit"):
            model.fit(X, y[:, 0])
