"""Accepted input, and errors for invalid input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import Huber, Quantile
from agbm.methods import AGBM, GBM, Fading
from variants import made, methods


class TestAcceptedInput:
    @methods
    def test_missing_values_are_learned(self, method):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = (rng.random(2000) < 0.5).astype(int)
        X[y == 1, 1] = np.where(rng.random((y == 1).sum()) < 0.9, np.nan, X[y == 1, 1])
        model = AGBMClassifier(method=method, max_iter=10, max_depth=2).fit(X, y)
        assert model.score(X, y) > 0.9

    def test_constant_columns_are_ignored(self):
        X = np.column_stack([np.full(100, np.nan), np.ones(100)])
        y = np.arange(100.0)
        np.testing.assert_allclose(AGBMRegressor(max_iter=5, early_stopping=False).fit(X, y).predict(X), y.mean())

    @methods
    def test_one_row_and_few_rows(self, method):
        for n in (1, 2, 5):
            X, y = np.arange(float(n))[:, np.newaxis], np.arange(float(n))
            assert np.isfinite(AGBMRegressor(method=method, max_iter=5).fit(X, y).predict(X)).all()
        model = AGBMClassifier(method=method, max_iter=5).fit([[0.0], [1.0]], ["no", "yes"])
        assert set(model.predict([[0.0], [1.0]])) <= {"no", "yes"}

    def test_nullable_and_strided_arrays(self, regression):
        X, y = regression
        missing = X.copy()
        missing[::7, 3] = np.nan
        expected = AGBMRegressor(max_iter=5).fit(missing, y).predict(missing)
        packed = np.zeros(len(X), dtype=[("flag", "i1"), ("x", "f8", X.shape[1])])
        packed["x"] = missing
        for table in (
            pd.DataFrame(missing).astype("Float64"),
            np.asfortranarray(missing),
            packed["x"],
            np.repeat(missing, 2, axis=1)[:, ::2],
        ):
            model = AGBMRegressor(max_iter=5).fit(table, y)
            assert np.array_equal(model.predict(table), expected)

    def test_data_frames_and_names(self, regression):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        model = AGBMRegressor(max_iter=10).fit(X, y)
        assert list(model.feature_names_in_) == list(X.columns)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X.rename(columns={"age": "years"}))

    def test_string_labels_and_their_order(self, binary):
        X, y = binary
        labels = np.where(y == 1, "benign", "malign")
        model = AGBMClassifier(max_iter=20).fit(X, labels)
        assert list(model.classes_) == ["benign", "malign"]
        assert model.score(X, labels) > 0.95
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert np.array_equal(model.predict(X) == "malign", model.decision_function(X) > 0)
        for staged in (model.staged_predict(X), model.staged_predict_proba(X), model.staged_decision_function(X)):
            assert len(list(staged)) == 20

    def test_float32_equals_float64(self, regression):
        X, y = regression
        X = X.astype(np.float32)
        one = AGBMRegressor(max_iter=10).fit(X, y)
        other = AGBMRegressor(max_iter=10).fit(X.astype(np.float64), y)
        assert np.array_equal(one.predict(X), other.predict(X.astype(np.float64)))


class TestErrors:
    @pytest.mark.parametrize(
        ("parameter", "value"),
        [
            ("method", "adaboost"), ("max_iter", 0), ("max_iter", 2.5), ("max_iter", "many"), ("learning_rate", 0.0),
            ("learning_rate", "fast"), ("learning_rate", "line_search"), ("method", 3),
            ("loss", 3), ("init", "mean"), ("max_depth", 0), ("max_leaf_nodes", 1),
            ("max_depth", "auto"), ("max_leaf_nodes", "few"), ("colsample_bynode", "half"),
            ("min_samples_leaf", 0), ("l1_regularization", -1.0), ("l2_regularization", -1.0),
            ("min_split_gain", -1.0), ("max_bins", 1),
            ("max_bins", 256), ("early_stopping", "always"), ("validation_fraction", 1.0), ("n_iter_no_change", 0),
            ("callbacks", print), ("random_state", "seed"),
            ("n_jobs", 1.5), ("n_jobs", 0), ("warm_start", "yes"), ("multi_strategy", "both"), ("subsample", 0.0),
            ("subsample", 1.5), ("colsample_bytree", 0.0), ("colsample_bynode", 2.0),
            ("categorical_features", "all"), ("monotonic_cst", "up"), ("interaction_cst", "none"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("estimator", [AGBMRegressor, AGBMClassifier])
    def test_invalid_parameters_raise(self, estimator, parameter, value):
        with pytest.raises((ValueError, TypeError)) as caught:
            estimator(**{parameter: value}).fit([[0.0], [1.0]], [0, 1])
        assert f"'{parameter}' parameter" in str(caught.value)
        assert repr(value) in str(caught.value)
        assert "must be" in str(caught.value)

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({"method": Fading(learner=LinearRegression)}, ["learner=", "LinearRegression", "instance"]),
            ({"method": Fading(learner=LogisticRegression())}, ["learner=LogisticRegression()", "regressor"]),
            ({"early_stopping": True, "validation_fraction": 0.9}, ["early_stopping=True", "validation_fraction=0.9"]),
            ({"callbacks": [3]}, ["callbacks", "3"]),
            ({"method": GBM(line_search=True, dropout=0.1)}, ["line_search", "dropout=0.1"]),
            ({"method": Fading(second_order="no")}, ["'second_order' parameter", "'no'"]),
            ({"method": Fading(dropout=1.0)}, ["'dropout' parameter", "1.0"]),
            ({"method": Fading(dropout=-0.1)}, ["'dropout' parameter", "-0.1"]),
            ({"method": Fading(learner="tree")}, ["'learner' parameter", "'tree'"]),
            ({"method": Fading(learner=LinearRegression()), "subsample": 0.5}, ["subsample=0.5", "trees only"]),
            ({"method": Fading(learner=LinearRegression()), "monotonic_cst": [1]}, ["monotonic_cst=[1]", "trees only"]),
            ({"monotonic_cst": [1, 0]}, ["monotonic_cst", "1 features"]),
            ({"monotonic_cst": [3]}, ["monotonic_cst", "[3]"]),
            ({"interaction_cst": [[0, 4]]}, ["interaction_cst=[[0, 4]]", "[4]"]),
            ({"interaction_cst": [["a", "b"]]}, ["interaction_cst=[['a', 'b']]", "positions"]),
            ({"interaction_cst": [0, 1]}, ["interaction_cst=[0, 1]", "list of lists"]),
            ({"interaction_cst": [[0.5]]}, ["interaction_cst=[[0.5]]", "positions"]),
            ({"categorical_features": [2]}, ["categorical_features=[2]", "features 0 to 0"]),
            ({"categorical_features": ["a"]}, ["categorical_features=['a']", "no column names"]),
            ({"categorical_features": [True, False]}, ["categorical_features", "2 entries", "1 features"]),
            ({"categorical_features": [0], "monotonic_cst": [1]}, ["monotonic_cst=[1]", "[0]", "categorical"]),
            (
                {"categorical_features": [0], "method": Fading(learner=LinearRegression())},
                ["categorical", "trees only"],
            ),
        ],
    )
    def test_invalid_combinations_raise(self, parameters, words):
        with pytest.raises((ValueError, TypeError)) as caught:
            AGBMRegressor(**parameters).fit([[0.0], [1.0]], [0, 1])
        assert all(word in str(caught.value) for word in words), str(caught.value)

    def test_validation_rise_needs_validation_rows(self, regression):
        X, y = regression
        going_on = AGBMRegressor(method=made("agbmr", restart="validation_rise"), warm_start=True, early_stopping=True)
        with pytest.raises(ValueError, match=r"restart='validation_rise' .* cannot be resumed; use warm_start=False"):
            going_on.fit(*regression)
        fixed = AGBMRegressor(method=AGBM(restart=1.0, momentum=Fading()))
        with pytest.raises(ValueError, match=r"restart=1.0 .* got momentum=Fading\(.*; set momentum to a number"):
            fixed.fit(*regression)
        model = AGBMRegressor(method=made("agbmr", restart="validation_rise"), max_iter=3, random_state=0)
        with pytest.raises(ValueError, match=r"restart='validation_rise' needs validation rows: give X_val and y_val"):
            model.fit(X, y)
        assert model.set_params(early_stopping=True).fit(X, y).n_iter_ == 3

    def test_huge_limits_mean_unlimited(self, regression):
        X, y = regression
        huge = {"max_depth": 2**40, "max_leaf_nodes": 2**40, "min_samples_leaf": 2**70, "n_jobs": 2**40}
        model = AGBMRegressor(max_iter=2, early_stopping=False, **huge)
        np.testing.assert_allclose(model.fit(X, y).predict(X), y.mean())

    def test_early_stopping_with_a_class_of_one_row(self):
        y = np.zeros(10_001)
        y[5] = 1
        AGBMClassifier(max_iter=2, random_state=0).fit(np.arange(10_001.0)[:, np.newaxis], y)

    def test_invalid_init_raises(self, regression):
        X, y = regression
        with pytest.raises(NotFittedError):
            AGBMRegressor(init=LinearRegression()).fit(X, y)
        with pytest.raises(TypeError, match="decision_function"):
            AGBMClassifier(init=LinearRegression().fit(X, y)).fit(X, y > 100)
        with pytest.raises(ValueError, match=r"init=.* has classes \['a', 'b'\], y has \[False, True\]"):
            AGBMClassifier(init=LogisticRegression().fit(X, np.where(y > 100, "b", "a"))).fit(X, y > 100)
        two = LinearRegression().fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match=r"init=.*shape \(442, 2\)"):
            AGBMRegressor(init=two).fit(X, y)

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"y": [1.0, 2.0]}, ["inconsistent", "3", "2"]),
            ({"y": [np.nan, 1.0, 2.0]}, ["y", "NaN"]),
            ({"y": [np.inf, 1.0, 2.0]}, ["y", "infinity"]),
            ({"y": ["a", "b", "c"]}, ["y", "numbers", "'a'"]),
            ({"X": [["a"], [1.0], [2.0]]}, ["X", "numbers", "'a'"]),
            ({"X": [1.0, 2.0, 3.0]}, ["2D array", "1D array"]),
            ({"sample_weight": [1.0, 2.0]}, ["sample_weight", "(2,)"]),
            ({"sample_weight": [1.0, -1.0, 1.0]}, ["egative", "weight"]),
            ({"sample_weight": ["a", "b", "c"]}, ["sample_weight", "'a'"]),
            ({"sample_weight": [0.0, 0.0, 0.0]}, ["weight", "zero"]),
            ({"sample_weight": [np.inf, 1.0, 1.0]}, ["sample_weight", "infinity"]),
            ({"X_val": [[1.0]]}, ["y_val=None", "X_val"]),
            ({"y_val": [1.0]}, ["X_val=None", "y_val"]),
            ({"X_val": [[1.0, 2.0]], "y_val": [1.0]}, ["X_val", "2 features", "1 features"]),
            ({"X_val": [[1.0]], "y_val": [np.inf]}, ["y_val", "infinity"]),
            ({"X_val": [[1.0]], "y_val": [[1.0, 2.0]]}, ["y_val", "1d array"]),
            ({"X_val": [[1.0]], "y_val": ["a"]}, ["y_val", "numbers", "'a'"]),
            ({"y": [1e200, 0.0, 2.0]}, ["not finite", "y", "scale"]),
            ({"X_val": [[1.0]], "y_val": [1e200]}, ["not finite", "y_val", "scale"]),
            ({"X_val": [[1.0]], "y_val": [1.0, 2.0]}, ["y_val", "2", "1"]),
            ({"X_val": [[1.0]], "y_val": [np.nan]}, ["y_val", "NaN"]),
        ],
    )
    def test_invalid_arrays_raise(self, arrays, words):
        good = {"X": [[0.0], [1.0], [2.0]], "y": [0.0, 1.0, 2.0]}
        with pytest.raises(ValueError, match=r".") as caught:
            AGBMRegressor(max_iter=2).fit(**{**good, **arrays})
        assert all(word in str(caught.value) for word in words), str(caught.value)

    def test_infinity_raises_for_other_learners(self):
        with pytest.raises(ValueError, match=r"Input X contains infinity"):
            AGBMRegressor(method=Fading(learner=LinearRegression()), max_iter=2).fit(
                [[np.inf], [0.0], [1.0]], [0.0, 1.0, 2.0]
            )

    def test_labels_outside_the_domain_of_the_loss_raise(self):
        X = [[0.0], [1.0], [2.0]]
        with pytest.raises(ValueError, match=r"y must .* Poisson, got values from -1.0 to 2.0"):
            AGBMRegressor(loss="poisson").fit(X, [-1.0, 0.0, 2.0])
        with pytest.raises(ValueError, match="y must be positive for loss Gamma"):
            AGBMRegressor(loss="gamma").fit(X, [0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="y must be positive for loss Gamma"):
            AGBMRegressor(loss="gamma").fit(X, [1.0, 1.0, 2.0], X_val=X, y_val=[0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="y must have no negative values and at least one positive value"):
            AGBMRegressor(loss="poisson").fit(X, [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])

    def test_invalid_class_labels_raise(self):
        X = [[0.0], [1.0], [2.0]]
        with pytest.raises(ValueError, match=r"loss='exponential' supports only two classes, y has 3"):
            AGBMClassifier(loss="exponential").fit(X, [0, 1, 2])
        with pytest.raises(ValueError, match="only one class"):
            AGBMClassifier().fit(X, ["a", "a", "a"])
        for missing in (None, np.nan, pd.NA):
            with pytest.raises(ValueError, match=r"missing|NaN"):
                AGBMClassifier().fit(X, np.array(["a", missing, "b"], dtype=object))
        with pytest.raises(TypeError, match=r"labels of types \['int', 'str'\]"):
            AGBMClassifier().fit(X, np.array(["a", 1, "b"], dtype=object))
        with pytest.raises(ValueError, match="Unknown label type"):
            AGBMClassifier().fit(X, [0.5, 1.5, 2.5])
        with pytest.raises(ValueError, match=r"y_val has labels \['c'\]"):
            AGBMClassifier().fit(X, ["a", "b", "a"], X_val=[[1.0]], y_val=["c"])

    @pytest.mark.slow
    @methods
    def test_constant_targets_are_fitted(self, method):
        """Constant targets are no error, as in scikit-learn's own regressors."""
        X = np.arange(100.0)[:, np.newaxis]
        for value in (0.0, 7.5, -1e9):
            # Halves, which mix a constant with itself exactly.
            model = AGBMRegressor(method=made(method, fade=0.5), max_iter=5).fit(X, np.full(100, value))
            assert np.array_equal(model.predict(X), np.full(100, value))
        for loss in ("absolute_error", Huber(1.0), "poisson", "gamma", Quantile(0.9)):
            model = AGBMRegressor(method=method, loss=loss, max_iter=5).fit(X, np.full(100, 3.0))
            np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-12)

    def test_prediction_before_fit_raises(self):
        with pytest.raises(NotFittedError):
            AGBMRegressor().predict([[0.0]])
        with pytest.raises(NotFittedError):
            next(AGBMClassifier().staged_predict([[0.0]]))

    def test_wrong_number_of_features_raises(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=2).fit(X, y)
        with pytest.raises(ValueError, match="9 features, but AGBMRegressor is expecting 10"):
            model.predict(X[:, :9])
