"""Weights, best iterations and folding."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import AGBM, GBM, VAGBM, Fading
from variants import newton

VARIANTS = {
    "gbm": {"method": GBM()},
    "gbm line search": {"method": GBM(line_search=True)},
    "vagbm": {"method": VAGBM(momentum=0.1)},
    "fading": {"method": Fading(), "colsample_bytree": 0.5},
    "vagbm fading": {"method": VAGBM(momentum=Fading()), "colsample_bytree": 0.5},
    "agbm": {"method": AGBM()},
    "agbm released sign": {"method": AGBM(correction=-1.0)},
    "agbm shared": {"method": AGBM(shared_structure=True)},
    "agbm theory": {"method": AGBM(momentum="theory")},
    "agbm fading": {"method": AGBM(momentum=Fading(), correction=0.5), "colsample_bytree": 0.5},
    "agbmr": {"method": AGBM(momentum=1.0, restart="loss_rise"), "learning_rate": 0.3},
    "agbmr shared": {
        "method": AGBM(momentum=1.0, restart="loss_rise", shared_structure=True),
        "learning_rate": 0.3,
    },
    "agbmr fixed": {"method": AGBM(restart=1.0, momentum=0.2)},
    "agbmr gradient": {"method": AGBM(restart="gradient", momentum=1.0)},
}
variants = pytest.mark.parametrize("variant", VARIANTS)


COMMON = {
    "n_members": 1,
    "max_depth": 3,
    "max_iter": 20,
    "learning_rate": 0.3,
    "l2_regularization": 0.0,
    "colsample_bytree": 1.0,
    "random_state": 0,
}


def regressor(variant, **changes):
    gradients = {"method__second_order": False}
    return AGBMRegressor().set_params(**{**COMMON, **gradients, **VARIANTS[variant], **changes})


def classifier(variant, **changes):
    gradients = {"method__second_order": False}
    return AGBMClassifier().set_params(**{**COMMON, **gradients, **VARIANTS[variant], **changes})


@pytest.mark.slow
@variants
@newton
def test_staged_prediction_is_the_model_trained_for_fewer_iterations(variant, second_order):
    for make, (X, y) in (
        (regressor, load_diabetes(return_X_y=True)),
        (classifier, load_breast_cancer(return_X_y=True)),
    ):
        model = make(variant, method__second_order=second_order).fit(X, y)
        staged = list(model.staged_predict(X) if make is regressor else model.staged_decision_function(X))
        assert len(staged) == model.n_iter_ == 20
        for m in (1, 2, 3, 7, 13, 20):
            shorter = make(variant, method__second_order=second_order, max_iter=m).fit(X, y)
            expected = shorter.predict(X) if make is regressor else shorter.decision_function(X)
            np.testing.assert_allclose(staged[m - 1], expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
            assert shorter.n_trees_ == model.history_["trees"][m]


@variants
def test_folding_weights_into_leaves_changes_nothing(variant):
    X, y = load_diabetes(return_X_y=True)
    model = regressor(variant, max_iter=60).fit(X, y)
    unfolded = np.full(len(X), y.mean())
    for tree, weights in zip(model.model_.models, model.model_.ensembles[0].model_weights(), strict=True):
        unfolded = unfolded + weights @ tree.predict(X, 1)[:, 0]
    assert np.abs(model.predict(X) - unfolded).max() <= 1e-12 * np.abs(unfolded).max()


@pytest.mark.slow
@variants
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_weights_of_the_last_iteration_need_no_replay(variant, dropout):
    X, y = load_diabetes(return_X_y=True)
    dropout = 0.0 if variant == "gbm line search" else dropout  # cannot be combined
    ensemble = regressor(variant, max_iter=40, method__dropout=dropout).fit(X, y).model_.ensembles[0]
    weights, (expected, _) = ensemble._last_weights(), ensemble.coefficients()
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)


@variants
def test_all_weights_are_non_negative(variant):
    X, y = load_diabetes(return_X_y=True)
    model = regressor(variant).fit(X, y)
    for m in range(model.n_iter_ + 1):
        a, d = model.model_.ensembles[0].coefficients(m)
        assert a.min(initial=0.0) >= 0.0
        assert d.min(initial=0.0) >= 0.0


@pytest.mark.parametrize(
    ("variant", "iterations", "trees"),
    [
        ("gbm", 20, 20),
        ("vagbm", 20, 20),
        # Two trees per iteration, except for the first (c = r) and the last (momentum is no longer needed).
        ("agbm", 1, 1),
        ("agbm", 2, 2),
        ("agbm", 20, 38),
        ("agbm shared", 20, 20),
        # Restarts after ceil(sqrt(2 / (0.3 * 0.2))) = 6 iterations: 10 trees in each complete run, 2 in the last.
        ("agbmr fixed", 20, 32),
    ],
)
def test_number_of_trees(variant, iterations, trees):
    X, y = load_diabetes(return_X_y=True)
    model = regressor(variant, max_iter=iterations).fit(X, y)
    assert model.n_trees_ == trees == len(model.model_.models) == model.model_.folded.n_learners
    assert model.history_["trees"][-1] == trees


def test_a_momentum_learner_without_weight_is_not_kept_after_a_restart():
    X, y = load_diabetes(return_X_y=True)
    model = regressor("agbmr", max_iter=40, learning_rate=1.0).fit(X, y)
    assert model.history_["restart"].sum() >= 2, "this setting must restart"
    for weights in model.model_.ensembles[0].model_weights():
        assert weights.any()


@pytest.mark.slow
@variants
def test_early_stopping_returns_the_best_iteration_exactly(variant):
    X, y = load_breast_cancer(return_X_y=True)
    train, validation = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    # A fast learner on few rows overfits within the run.
    model = classifier(variant, max_iter=80, min_samples_leaf=5, n_iter_no_change=8)
    if variant == "agbm theory":
        model.set_params(learning_rate=2.0)
    model.fit(X[train], y[train], X_val=X[validation], y_val=y[validation])
    losses = model.history_["validation_loss"]
    assert model.best_iteration_ == int(np.argmin(losses))
    assert 0 < model.best_iteration_ <= model.n_iter_
    again = classifier(variant, max_iter=model.best_iteration_, min_samples_leaf=5, early_stopping=False)
    if variant == "agbm theory":
        again.set_params(learning_rate=2.0)
    again.fit(X[train], y[train])
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), rtol=1e-12, atol=1e-12)
    assert model.n_trees_ == again.n_trees_
    proba = model.predict_proba(X[validation])[np.arange(validation.sum()), y[validation]]
    np.testing.assert_allclose(-np.log(proba).mean(), losses.min(), rtol=1e-9)
