"""Models for shap.TreeExplainer: its values are those of predict_contributions."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from agbm import AGBMClassifier, AGBMRegressor
from agbm.export import to_shap
from export_models import model as model_of
from export_models import table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, about what other libraries will no longer have
    import shap


def with_missing(X, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < 0.15] = np.nan
    return X


X_DIABETES, Y_DIABETES = load_diabetes(return_X_y=True)
X_CANCER, Y_CANCER = load_breast_cancer(return_X_y=True)
X_IRIS, Y_IRIS = load_iris(return_X_y=True)
SMALL = {"max_iter": 15}

MODELS = {
    "regression": lambda: AGBMRegressor(**SMALL).fit(with_missing(X_DIABETES), Y_DIABETES),
    "poisson": lambda: AGBMRegressor(loss="poisson", **SMALL).fit(with_missing(X_DIABETES), Y_DIABETES),
    "paper": lambda: AGBMRegressor(method="agbm", **SMALL).fit(with_missing(X_DIABETES), Y_DIABETES),
    "subsample": lambda: AGBMRegressor(subsample=0.4, **SMALL).fit(with_missing(X_DIABETES), Y_DIABETES),
    "two outputs": lambda: AGBMRegressor(**SMALL).fit(
        with_missing(X_DIABETES), np.column_stack([Y_DIABETES, np.sqrt(Y_DIABETES)])
    ),
    "two classes": lambda: AGBMClassifier(**SMALL).fit(with_missing(X_CANCER), Y_CANCER),
    "three classes": lambda: AGBMClassifier(**SMALL).fit(with_missing(X_IRIS), Y_IRIS),
    "vector leaves": lambda: AGBMClassifier(multi_strategy="multi_output_tree", **SMALL).fit(
        with_missing(X_IRIS), Y_IRIS
    ),
    "no trees": lambda: AGBMRegressor(**SMALL).fit(np.zeros((100, 3)), np.arange(100.0)),
}


def test_estimators_are_no_models_of_shap():
    """As the documents say; if this fails, shap accepts them, and explain() need not take the place of explainers."""
    model = MODELS["no trees"]()
    for explainer, error in (
        (shap.Explainer, TypeError),
        (shap.TreeExplainer, shap.utils._exceptions.InvalidModelError),
    ):
        with pytest.raises(error, match="AGBMRegressor"):
            explainer(model)


def rows_of(model):
    """Rows with missing values, other than those of fit."""
    X = {3: np.zeros((4, 3)), 10: X_DIABETES, 30: X_CANCER, 4: X_IRIS}[model.n_features_in_]
    return with_missing(X, seed=1)[:60]


def raw_scores(model, X):
    return model.predict_contributions(X).sum(axis=-1)


def in_order(values):
    """Values (row, feature) or (row, feature, output) of shap in the order of predict_contributions."""
    return values if values.ndim == 2 else np.moveaxis(values, -1, 1)


@pytest.mark.parametrize("name", MODELS)
def test_path_dependent_values_are_contributions(name):
    model = MODELS[name]()
    X = rows_of(model)
    explainer = shap.TreeExplainer(to_shap(model))
    contributions = model.predict_contributions(X)
    np.testing.assert_allclose(in_order(explainer.shap_values(X)), contributions[..., :-1], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(explainer.expected_value, contributions[0, ..., -1], rtol=1e-9)
    explained = explainer(X)
    np.testing.assert_allclose(in_order(explained.values), contributions[..., :-1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_interventional_values_add_up(name):
    model = MODELS[name]()
    X = rows_of(model).astype(np.float32)
    X, background = X[: len(X) // 2], X[len(X) // 2 :]
    explainer = shap.TreeExplainer(to_shap(model, np.float32), background, feature_perturbation="interventional")
    values = in_order(explainer.shap_values(X))
    means = raw_scores(model, background).mean(axis=0)
    np.testing.assert_allclose(explainer.expected_value, means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(values.sum(axis=-1) + means, raw_scores(model, X), rtol=1e-6, atol=1e-6)


def test_interventional_values_of_single_features():
    """In a sum of functions of one feature each, a value is that of the function minus its mean."""
    X = with_missing(X_DIABETES).astype(np.float32)
    model = AGBMRegressor(interaction_cst="no_interactions", **SMALL).fit(X, Y_DIABETES)
    X, background = X[:20], X[100:130]
    values = shap.TreeExplainer(to_shap(model, np.float32), background).shap_values(X)
    base = np.tile(background[:1], (len(X), 1))
    for feature in (2, 8):
        here, there = base.copy(), np.tile(background[0], (len(background), 1))
        here[:, feature], there[:, feature] = X[:, feature], background[:, feature]
        wanted = model.predict(here) - model.predict(there).mean()
        np.testing.assert_allclose(values[:, feature], wanted, rtol=1e-5, atol=1e-4)


def test_thresholds_are_exact_for_float32():
    model = MODELS["two classes"]()
    exact, single = to_shap(model)["trees"], to_shap(model, np.float32)["trees"]
    for a, b in zip(exact, single, strict=True):
        inner = (a["features"] >= 0) & np.isfinite(a["thresholds"])  # those of missing values are infinite
        assert (b["thresholds"] == b["thresholds"].astype(np.float32)).all()
        assert (b["thresholds"][inner] <= a["thresholds"][inner]).all()
        above = np.nextafter(b["thresholds"].astype(np.float32), np.float32(np.inf))
        assert (above[inner] > a["thresholds"][inner]).all()
    with pytest.raises(ValueError, match=r"must be np\.float32 or np\.float64"):
        to_shap(model, int)


def test_probabilities():
    model = MODELS["two classes"]()
    X = rows_of(model).astype(np.float32)
    X, background = X[:20], X[20:50]
    explainer = shap.TreeExplainer(to_shap(model, np.float32), background, model_output="probability")
    values = explainer.shap_values(X)
    probability = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(values.sum(axis=1) + explainer.expected_value, probability, rtol=1e-6, atol=1e-7)


def test_categories():
    with pytest.raises(ValueError, match=r"Features \[.*'town'.*\] are categorical.*use predict_contributions"):
        to_shap(model_of("squared"))
    numbers = table().assign(town="a", code="b")  # categories that no tree splits on
    model = AGBMRegressor(**SMALL).fit(numbers, numbers["a"].fillna(1.0))
    assert len(to_shap(model)["trees"]) == model.n_trees_


def test_shap_refuses_the_estimator_itself():
    """If this fails, shap accepts any estimator now, and docs/explain.md must be changed."""
    model = MODELS["regression"]()
    with pytest.raises(Exception, match="Model type not yet supported by TreeExplainer"):
        shap.TreeExplainer(model)
