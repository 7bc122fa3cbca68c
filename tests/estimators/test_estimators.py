"""The scikit-learn API, pickles, importances and the training history."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import AGBM, GBM
from variants import METHODS, made, methods


def estimators(*parameters):
    return [estimator(**each) for estimator in (AGBMRegressor, AGBMClassifier) for each in parameters]


@pytest.mark.slow
@parametrize_with_checks(
    estimators({"max_iter": 20}, {"method": AGBM(shared_structure=True), "max_iter": 10, "n_members": 1})
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.nightly
@parametrize_with_checks(
    estimators(
        {},
        *({"method": method, "max_iter": 20} for method in METHODS),
        {"method": AGBM(shared_structure=True), "max_iter": 20, "multi_strategy": "multi_output_tree"},
        {"n_members": 3, "max_iter": 20, "colsample_bynode": 0.5},
    )
)
def test_scikit_learn_checks_of_all_methods(estimator, check):
    check(estimator)


@pytest.mark.slow
@methods
def test_every_method_learns(method, regression, binary):
    X, y = regression
    assert cross_val_score(AGBMRegressor(method=method, max_iter=30, max_depth=2), X, y).mean() > 0.35
    X, y = binary
    assert cross_val_score(AGBMClassifier(method=method, max_iter=30), X, y).mean() > 0.94


@pytest.mark.slow
def test_gbm_is_close_to_hist_gradient_boosting(regression, binary):
    """The same algorithm with the same trees: losses must agree closely, on data with as many bins as values."""
    shared = {"max_iter": 40, "learning_rate": 0.1, "min_samples_leaf": 20, "early_stopping": False}
    shared |= {"max_leaf_nodes": 8, "l2_regularization": 0.0}
    only_ours = {"method": GBM(second_order=True), "max_depth": None, "colsample_bytree": 1.0}
    X, y = regression
    X = np.round(X, 2)
    theirs = HistGradientBoostingRegressor(**shared).fit(X, y).predict(X)
    ours = AGBMRegressor(**shared, **only_ours).fit(X, y).predict(X)
    assert np.corrcoef(theirs, ours)[0, 1] > 0.999
    np.testing.assert_allclose(np.mean((ours - y) ** 2), np.mean((theirs - y) ** 2), rtol=0.01)
    X, y = binary
    X = np.round(X, 1)
    theirs = HistGradientBoostingClassifier(**shared).fit(X, y).predict_proba(X)[:, 1]
    ours = AGBMClassifier(**shared, **only_ours).fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_allclose(np.log(np.abs(ours - 1 + y)).mean(), np.log(np.abs(theirs - 1 + y)).mean(), rtol=0.02)


def test_callbacks_are_not_saved_with_fitted_models(regression, tmp_path):
    """Callbacks may be lambdas, or hold what cannot be pickled."""
    X, y = regression
    callbacks = [lambda record: None]
    model = AGBMRegressor(max_iter=2, callbacks=callbacks)
    with pytest.raises((pickle.PicklingError, AttributeError)):  # not fitted: it would fit something else without them
        pickle.dumps(model)
    model.fit(X, y)
    model.save(tmp_path / "m.agbm")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), agbm.load(tmp_path / "m.agbm")):
        assert again.callbacks is None
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.callbacks is callbacks
    assert model.get_params()["callbacks"] is callbacks
    assert clone(model).callbacks == callbacks
    assert pickle.loads(pickle.dumps(AGBMRegressor(callbacks=[print]))).callbacks == [print]


def test_pickle_round_trip(regression):
    X, y = regression
    model = AGBMRegressor(max_iter=10).fit(X, y)
    model.predict(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(list(again.staged_predict(X))[-1], list(model.staged_predict(X))[-1])


@pytest.mark.slow
def test_grid_search(binary):
    X, y = binary
    grid = {"method": ["fading", "agbm"], "learning_rate": [0.1, 0.5]}
    search = GridSearchCV(AGBMClassifier(max_iter=10, max_depth=2), grid, n_jobs=2)
    assert search.fit(X, y).best_score_ > 0.93


def test_feature_importances(binary):
    X, y = binary
    X = np.column_stack([X[:, :3], np.zeros(len(X))])
    for method in METHODS:
        importances = AGBMClassifier(method=method, max_iter=10, max_depth=2).fit(X, y).feature_importances_
        assert importances.sum() == pytest.approx(1.0)
        assert importances[3] == 0.0
        assert np.all(importances[:3] >= 0)
    assert AGBMClassifier(max_iter=1, min_samples_leaf=600).fit(X, y).feature_importances_.sum() == 0.0


def test_feature_importances_use_the_weights_of_trees(regression):
    X, y = regression
    model = AGBMRegressor(method=made("agbm", shared_structure=False, momentum=0.5), max_iter=8, max_depth=2).fit(X, y)
    expected = np.zeros(X.shape[1])
    for tree, weight in zip(model.model_.models, model.model_.ensembles[0].coefficients()[0], strict=True):
        for feature, gain in zip(tree.nodes["feature"], tree.nodes["gain"], strict=True):
            if feature >= 0:
                expected[feature] += weight * gain
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-12)


def test_history_as_data_frame(regression):
    X, y = regression
    model = AGBMRegressor(method=made("agbm", momentum=0.02, shared_structure=False), max_iter=10)
    model.fit(X, y, X_val=X, y_val=y)
    table = pd.DataFrame(model.history_)
    assert list(table["iteration"]) == list(range(11))
    assert table["trees"].is_monotonic_increasing
    np.testing.assert_allclose(table["theta"][1:], 2 / (np.arange(10) + 2))
    np.testing.assert_allclose(table["momentum"][1:], 0.02)
    np.testing.assert_allclose(table["train_loss"], table["validation_loss"])
    assert table["cosine_residual"][1:].between(0, 1).all()
    assert table["cosine_corrected"][1:10].between(0, 1).all()
    assert np.isnan(table["cosine_corrected"][10]), "the last momentum learner is not grown"
