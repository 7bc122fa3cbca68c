"""Restarts of the momentum, and divergence."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import AGBM
from variants import made


class TestRestarts:
    def regressor(self, rule, rate):
        method = AGBM(momentum=1.0, restart=rule)
        return AGBMRegressor(
            method=made(method, second_order=True), learning_rate=rate, max_iter=40, max_depth=3, early_stopping=False
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_gradient_rule(self, regression, weighted):
        """f and g from the learners and their weights, and the gradient at g, once more."""
        X, y = regression
        weight = np.where(np.arange(len(y)) % 3 == 0, 10, 1) if weighted else np.ones(len(y))
        model = self.regressor("gradient", 0.3)
        model.fit(X, y, sample_weight=weight if weighted else None)
        ensemble = model.model_.ensembles[0]
        learners = np.array(
            [tree.predict(X, 1)[number, 0] for tree, number in map(ensemble.function, range(len(ensemble.functions)))]
        )
        start = np.average(y, weights=weight)
        restarts = model.history_["restart"]
        turned = []
        for m, theta in enumerate(model.history_["theta"][1:]):
            (a, d), (after, _) = ensemble.coefficients(m), ensemble.coefficients(m + 1)
            g = start + (a if restarts[m + 1] else (1 - theta) * a + theta * d) @ learners
            turned.append(np.sum(weight * (y - g) * ((after - a) @ learners)) < 0)
        assert sum(turned) >= 2, "this setting must restart"
        assert np.array_equal(restarts[2:], turned[:-1])

    @pytest.mark.parametrize("given", [False, True])
    def test_validation_rise_rule(self, regression, given):
        X, y = regression
        model = self.regressor("validation_rise", 0.5)
        if given:
            rows = {"X_val": X[::3], "y_val": y[::3]}
            model.fit(X[1::3], y[1::3], **rows)
            losses = [np.mean((f - y[::3]) ** 2) / 2 for f in model.staged_predict(X[::3])]
        else:
            model.set_params(early_stopping=True, n_iter_no_change=100).fit(X, y)
            losses = model.history_["validation_loss"][1:]
        rises = np.diff(losses) > 0
        assert rises.sum() >= 2, "this setting must restart"
        restarts = model.history_["restart"][2:]  # the first iteration never is one
        assert np.array_equal(restarts[1:], rises[:-1])
        assert restarts[0] == (model.history_["validation_loss"][1] > model.history_["validation_loss"][0])

    def test_rules_restart_at_different_iterations(self, regression):
        X, y = regression
        found = [
            self.regressor(rule, 0.5).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
            for rule in ("loss_rise", "gradient", "validation_rise")
        ]
        assert len({tuple(model.history_["restart"]) for model in found}) == 3


class TestDivergence:
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_the_best_model_so_far_is_kept(self, regression, early_stopping):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbm", momentum=1.0, correction=1.0),
            learning_rate=1.0,
            max_depth=3,
            max_iter=200,
            early_stopping=early_stopping,
            n_iter_no_change=500,
            random_state=0,
        )
        message = "diverged at iteration .* learning_rate, entry, momentum or correction"
        with pytest.warns(ConvergenceWarning, match=message) as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__, "the warning points at the call of fit"
        assert model.n_iter_ < 200
        losses = model.history_["validation_loss" if early_stopping else "train_loss"]
        assert model.best_iteration_ == int(np.nanargmin(np.where(np.isfinite(losses), losses, np.nan)))
        assert np.isfinite(model.predict(X)).all()
        if not early_stopping:
            assert np.mean((model.predict(X) - y) ** 2) / 2 == pytest.approx(losses.min())

    @pytest.mark.slow
    def test_divergence_is_relative_to_the_lowest_loss(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 10))
        y = X[:, 0] + rng.normal(size=4000) > 0
        model = AGBMClassifier(
            method=made("agbm", correction=1.0, momentum=0.1, shared_structure=True, second_order=True),
            learning_rate=0.3,
            max_iter=200,
            early_stopping=False,
            l2_regularization=0.0,
            colsample_bytree=1.0,
        )
        with pytest.warns(ConvergenceWarning, match="diverged"):
            model.fit(X, y)
        losses = model.history_["train_loss"]
        assert losses[-1] > 100 * losses.min()
        assert losses[-1] < 100 * losses[0]
        assert model.best_iteration_ == np.argmin(losses)

    def test_overflow_is_divergence(self, regression):
        X, y = regression
        model = AGBMRegressor(method="gbm", learning_rate=1e160, max_iter=10)
        with pytest.warns(ConvergenceWarning, match="diverged"):
            model.fit(X, y)
        assert model.best_iteration_ == 0
        np.testing.assert_allclose(model.predict(X), y.mean())

    def test_huge_targets_do_not_diverge(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=20, max_depth=3).fit(X, y * 1e120)
        assert model.score(X, y * 1e120) == pytest.approx(AGBMRegressor(max_iter=20, max_depth=3).fit(X, y).score(X, y))
