"""The estimators among those of scikit-learn."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, TargetEncoder

from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import Quantile
from agbm.methods import AGBM, VAGBM
from variants import METHODS, like_default, made, methods


@pytest.fixture(scope="module")
def binary():
    return load_breast_cancer(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def regression():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class TestPipelines:
    @pytest.mark.slow
    @methods
    def test_in_a_pipeline(self, binary, method):
        X, y = binary
        pipeline = make_pipeline(StandardScaler(), SimpleImputer(), AGBMClassifier(**like_default(method), max_iter=10))
        assert pipeline.fit(X, y).score(X, y) > 0.95
        pipeline.set_params(agbmclassifier__max_iter=3).fit(X, y)
        assert pipeline[-1].n_iter_ == 3

    def test_set_output(self, binary):
        X, y = binary
        for kind in ("pandas", "polars"):
            pipeline = make_pipeline(StandardScaler(), AGBMClassifier(max_iter=5)).set_output(transform=kind)
            pipeline.fit(X, y)
            assert list(pipeline[-1].feature_names_in_) == list(X.columns)
            assert pipeline.predict(X).shape == y.shape

    def test_behind_a_column_transformer(self):
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"number": rng.normal(size=300), "text": rng.choice(list("abc"), size=300)})
        y = (table["text"] == "b") * 2.0 + table["number"]
        columns = make_column_transformer((StandardScaler(), ["number"]), remainder="passthrough").set_output(
            transform="pandas"
        )
        inside = make_pipeline(columns, AGBMRegressor(max_iter=40))
        assert inside.fit(table, y).score(table, y) > 0.9
        encoded = make_pipeline(
            make_column_transformer((TargetEncoder(target_type="continuous", cv=3), ["text"]), remainder="passthrough"),
            AGBMRegressor(max_iter=40, colsample_bytree=1.0),
        )
        assert encoded.fit(table, y).score(table, y) > 0.9

    def test_inside_others(self, binary, regression):
        X, y = binary
        AGBM = AGBMClassifier(max_iter=5)
        assert VotingClassifier([("a", AGBM), ("b", clone(AGBM))], voting="soft").fit(X, y).score(X, y) > 0.9
        assert BaggingClassifier(AGBM, n_estimators=2, random_state=0).fit(X, y).score(X, y) > 0.9
        chain = ClassifierChain(AGBM).fit(X, np.column_stack([y, 1 - y]))
        assert chain.predict(X).shape == (len(y), 2)
        X, y = regression
        stack = StackingRegressor([("a", AGBMRegressor(max_iter=5))], final_estimator=LinearRegression(), cv=2)
        assert stack.fit(X, y).score(X, y) > 0.3
        target = TransformedTargetRegressor(AGBMRegressor(max_iter=10), func=np.log, inverse_func=np.exp)
        assert target.fit(X, y).score(X, y) > 0.3
        several = MultiOutputRegressor(AGBMRegressor(max_iter=5)).fit(X, np.column_stack([y, -y]))
        assert several.predict(X).shape == (len(y), 2)

    def test_selecting_features(self, regression):
        X, y = regression
        assert SelectFromModel(AGBMRegressor(max_iter=10)).fit(X, y).get_support().any()
        assert RFE(AGBMRegressor(max_iter=5), n_features_to_select=3).fit(X, y).support_.sum() == 3


@pytest.mark.slow
class TestSearches:
    @methods
    def test_grid(self, binary, method):
        X, y = binary
        grid = {"learning_rate": [0.1, 0.5], "subsample": [0.7, 1.0], "max_depth": [2, None]}
        search = GridSearchCV(AGBMClassifier(method=method, max_iter=5, random_state=0), grid, cv=2, n_jobs=2)
        assert search.fit(X, y).best_score_ > 0.9
        assert search.best_estimator_.score(X, y) > 0.9

    def test_random(self, regression):
        X, y = regression
        search = RandomizedSearchCV(
            AGBMRegressor(max_iter=10),
            {
                "method": [*METHODS, AGBM(momentum=0.02), VAGBM(momentum=0.02)],
                "learning_rate": loguniform(0.05, 0.5),
                "loss": ["squared_error", "absolute_error", Quantile(0.5)],
                "monotonic_cst": [None, {"bmi": 1}],
                "interaction_cst": [None, "pairwise"],
                "multi_strategy": ["one_output_per_tree", "multi_output_tree"],
            },
            n_iter=8,
            cv=2,
            random_state=0,
            error_score="raise",
        )
        assert search.fit(X, y).best_score_ > 0.2

    def test_other_tools_of_model_selection(self, binary):
        X, y = binary
        model = AGBMClassifier(max_iter=5)
        scores = cross_validate(model, X, y, scoring=["roc_auc", "neg_log_loss"], cv=2, return_estimator=True)
        assert scores["test_roc_auc"].min() > 0.95
        assert cross_val_predict(model, X, y, method="predict_proba", cv=2).shape == (len(y), 2)
        assert cross_val_predict(model, X, y, method="decision_function", cv=2).shape == (len(y),)
        _, _, test_scores = learning_curve(model, X, y, cv=2, train_sizes=[0.5, 1.0])
        assert test_scores.shape == (2, 2)
        assert TunedThresholdClassifierCV(model, cv=2).fit(X, y).score(X, y) > 0.9

    def test_calibration(self, binary):
        X, y = binary
        for method in ("sigmoid", "isotonic"):
            calibrated = CalibratedClassifierCV(AGBMClassifier(max_iter=5), method=method, cv=2).fit(X, y)
            assert calibrated.score(X, y) > 0.9
        X, y = load_iris(return_X_y=True)
        calibrated = CalibratedClassifierCV(AGBMClassifier(max_iter=5), cv=2).fit(X, y)
        np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)


class TestInspection:
    @pytest.mark.slow
    @methods
    def test_permutation_importance(self, regression, method):
        X, y = regression
        model = AGBMRegressor(method=method, max_iter=20).fit(X, y)
        importances = permutation_importance(model, X, y, n_repeats=3, random_state=0, n_jobs=2).importances_mean
        assert X.columns[importances.argmax()] in ("bmi", "s5")

    def test_partial_dependence(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=20, monotonic_cst={"bmi": 1}).fit(X, y)
        average = partial_dependence(model, X, ["bmi"], kind="average")["average"][0]
        assert np.all(np.diff(average) >= -1e-9)
        assert average[-1] > average[0] + 10
        both = partial_dependence(model, X, ["bmi", "s5"], grid_resolution=5, kind="average")["average"]
        assert both.shape == (1, 5, 5)

    def test_partial_dependence_of_categories_and_classes(self):
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"x": rng.normal(size=300), "kind": pd.Categorical(rng.choice(list("abc"), size=300))})
        y = np.where(table["kind"] == "b", 5.0, 0.0)
        model = AGBMRegressor(max_iter=20).fit(table, y)
        found = partial_dependence(model, table, ["kind"], categorical_features=["kind"], kind="average")
        assert found["grid_values"][0][found["average"][0].argmax()] == "b"
        X, y = load_iris(return_X_y=True)
        found = partial_dependence(AGBMClassifier(max_iter=5).fit(X, y), X, [2], kind="average")
        assert found["average"].shape[0] == 3

    def test_pictures_of_an_estimator(self):
        for model in (AGBMRegressor(), AGBMClassifier(max_iter=7), make_pipeline(StandardScaler(), AGBMRegressor())):
            text = model._repr_html_()
            assert "AGBM" in text
            assert "<div" in text
        assert repr(AGBMClassifier(max_iter=7, class_weight="balanced")) == (
            "AGBMClassifier(class_weight='balanced', max_iter=7)"
        )
        fitted = AGBMRegressor(max_iter=2).fit([[0.0], [1.0]], [0.0, 1.0])
        assert "fitted" in fitted._repr_html_()


class TestCopies:
    @methods
    def test_clone_and_parameters(self, method):
        model = AGBMClassifier(method=method, class_weight={0: 2.0}, monotonic_cst=[1], callbacks=[print])
        again = clone(model)
        assert again.get_params() == model.get_params()
        assert set(AGBMRegressor().get_params()) == set(model.get_params()) - {"class_weight"}

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
    def test_pickle(self, method, protocol):
        X, y = load_iris(return_X_y=True)
        table = pd.DataFrame(X, columns=list("abcd"))
        table["kind"] = [f"k{i % 5}" for i in range(len(y))]
        model = AGBMClassifier(method=made(method, dropout=0.1), max_iter=5, random_state=0).fit(table, y)
        for again in (
            pickle.loads(pickle.dumps(model, protocol=protocol)),
            pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model)))),
        ):
            assert np.array_equal(again.predict_proba(table), model.predict_proba(table))
            staged = zip(again.staged_predict_proba(table), model.staged_predict_proba(table), strict=True)
            assert all(np.array_equal(one, other) for one, other in staged)
            again.set_params(warm_start=True, max_iter=8).fit(table, y)
            whole = clone(model).set_params(max_iter=8).fit(table, y)
            assert np.array_equal(again.decision_function(table), whole.decision_function(table))

    def test_joblib(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(max_iter=5).fit(X, y)
        joblib.dump(model, tmp_path / "model", compress=3)
        assert np.array_equal(joblib.load(tmp_path / "model").predict(X), model.predict(X))
        joblib.dump(model, tmp_path / "model")
        mapped = joblib.load(tmp_path / "model", mmap_mode="r")  # arrays are read-only then
        assert np.array_equal(mapped.predict(X), model.predict(X))

    @pytest.mark.slow
    @pytest.mark.parametrize("backend", ["loky", "threading"])
    def test_workers(self, regression, backend):
        X, y = regression
        expected = AGBMRegressor(max_iter=5).fit(X, y).predict(X)
        with joblib.parallel_backend(backend, n_jobs=2):
            found = joblib.Parallel()(
                joblib.delayed(lambda n: AGBMRegressor(max_iter=5, n_jobs=n).fit(X, y).predict(X))(n)
                for n in (1, 2, None)
            )
        assert all(np.array_equal(predicted, expected) for predicted in found)


class TestRouting:
    def test_weights_reach_the_estimator(self, routing, binary):
        X, y = binary
        weight = np.where(y == 1, 100.0, 1.0)
        plain = make_pipeline(StandardScaler(), AGBMClassifier(max_iter=3).set_fit_request(sample_weight=False))
        asked = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            AGBMClassifier(max_iter=3).set_fit_request(sample_weight=True),
        )
        asked.fit(X, y, sample_weight=weight)
        without = plain.fit(X, y)
        assert asked.predict_proba(X)[:, 1].mean() > without.predict_proba(X)[:, 1].mean()
        search = GridSearchCV(
            AGBMClassifier(max_iter=3).set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            {"max_depth": [1, 2]},
            cv=2,
        )
        assert search.fit(X, y, sample_weight=weight).best_score_ > 0.9

    def test_validation_rows_reach_the_estimator(self, routing, regression):
        """A pipeline transforms X_val as it transforms X."""
        X, y = regression
        model = AGBMRegressor(max_iter=200).set_fit_request(X_val=True, y_val=True)
        pipeline = make_pipeline(PolynomialFeatures(1, include_bias=False), model)
        pipeline.transform_input = ["X_val"]
        pipeline.fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
        assert pipeline[-1].best_iteration_ < 200
        direct = clone(model).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
        assert direct.best_iteration_ == pipeline[-1].best_iteration_
