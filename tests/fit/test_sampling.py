"""Row and column sampling, and dropout."""

from dataclasses import asdict

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

import paper_twin as twin
from agbm import AGBMClassifier, AGBMRegressor
from agbm._core import boosting
from agbm._core.dropout import Dropout
from agbm._core.ensemble import Ensemble
from agbm._core.schedules import FadingSchedule, PaperSchedule
from agbm._tree.learner import TreeLearner
from agbm.losses import HalfSquaredError
from toys import VectorFitter, best_stump, problem_of
from variants import made, methods, shared

SAMPLINGS = [{"subsample": 0.5}, {"colsample_bytree": 0.4}, {"colsample_bynode": 0.4}, {"method__dropout": 0.1}]
samplings = pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)


@pytest.mark.slow
class TestEverySampling:
    @methods
    @samplings
    @shared
    def test_learns_and_repeats(self, regression, method, sampling, shared_structure):
        X, y = regression
        model = AGBMRegressor(
            method=made(method, shared_structure=shared_structure), max_iter=40, max_depth=3, random_state=3
        ).set_params(**sampling)
        one = clone(model).fit(X, y)
        assert one.score(X, y) > 0.3
        assert np.array_equal(clone(model).set_params(n_jobs=1).fit(X, y).predict(X), one.predict(X))
        other = clone(model).set_params(random_state=4).fit(X, y)
        assert not np.array_equal(other.predict(X), one.predict(X))
        plain = (
            clone(model).set_params(**dict.fromkeys(sampling, 0.0 if "method__dropout" in sampling else 1.0)).fit(X, y)
        )
        assert not np.array_equal(plain.predict(X), one.predict(X))
        np.testing.assert_allclose(list(one.staged_predict(X))[-1], one.predict(X), rtol=1e-9)

    @methods
    def test_rate_one_or_zero_changes_nothing(self, regression, method):
        X, y = regression
        common = {"method": method, "max_iter": 10, "early_stopping": False}
        plain = AGBMRegressor(**common, colsample_bytree=1.0, colsample_bynode=1.0).fit(X, y)
        full = {
            "subsample": 1.0,
            "colsample_bytree": 1.0,
            "colsample_bynode": 1.0,
            "method__dropout": 0.0,
            "random_state": 5,
        }
        model = AGBMRegressor(**common).set_params(**full).fit(X, y)
        assert np.array_equal(model.predict(X), plain.predict(X))
        assert np.array_equal(model.model_.folded.nodes, plain.model_.folded.nodes)
        assert np.array_equal(model.model_.folded.value, plain.model_.folded.value)

    @methods
    @samplings
    @shared
    def test_staged_prediction_is_the_shorter_run(self, regression, method, sampling, shared_structure):
        X, y = regression
        settings = {"max_iter": 15, "max_depth": 3, "random_state": 0, "early_stopping": False, **sampling}
        model = AGBMRegressor(method=made(method, shared_structure=shared_structure)).set_params(**settings).fit(X, y)
        staged = list(model.staged_predict(X))
        for m in (1, 2, 7, 14, 15):
            shorter = clone(model).set_params(max_iter=m).fit(X, y)
            np.testing.assert_allclose(staged[m - 1], shorter.predict(X), rtol=1e-9)
            assert shorter.n_trees_ == model.history_["trees"][m]

    @methods
    @samplings
    @shared
    def test_warm_start_gives_the_bits_of_a_single_run(self, regression, method, sampling, shared_structure):
        X, y = regression
        model = AGBMRegressor(
            method=made(method, shared_structure=shared_structure), max_depth=3, random_state=0, max_iter=20
        ).set_params(**sampling)
        whole = clone(model).fit(X, y).predict(X)
        parts = clone(model).set_params(max_iter=8, warm_start=True).fit(X, y)
        assert np.array_equal(parts.set_params(max_iter=20).fit(X, y).predict(X), whole)

    @samplings
    def test_many_classes(self, sampling):
        X, y = load_breast_cancer(return_X_y=True)
        y = y + (X[:, 0] > np.median(X[:, 0]))
        for strategy in ("one_output_per_tree", "multi_output_tree"):
            model = AGBMClassifier(multi_strategy=strategy, max_iter=30, random_state=0)
            model.set_params(**sampling).fit(X, y)
            assert model.score(X, y) > 0.85

    @samplings
    def test_early_stopping_keeps_the_best_iteration(self, regression, sampling):
        X, y = regression
        model = AGBMRegressor(n_members=1, max_iter=60, random_state=0).set_params(**sampling)
        model.fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
        loss = ((model.predict(X[1::2]) - y[1::2]) ** 2 / 2).mean()
        assert loss == pytest.approx(model.history_["validation_loss"].min())


class TestRows:
    def test_a_tree_is_made_of_its_sample(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(5000, 3))
        target = rng.normal(size=(1, 5000))
        fit = TreeLearner(subsample=0.3, seed=7, max_depth=2).bind(X, 5000, None, target).fit(target, None)
        assert 1300 < fit.model.nodes["count"][0] < 1700
        assert fit.model.nodes["count"][0] == fit.model.nodes["count"][fit.model.nodes["feature"] < 0].sum()
        assert np.array_equal(fit.model.predict(X, 1)[0], fit.values), "rows outside follow the tree"

    def test_each_iteration_has_its_own_rows_and_both_residuals_the_same(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 2))
        target = rng.normal(size=(1, 1000))
        fitter = TreeLearner(subsample=0.5, max_depth=1).bind(X, 1000, None, target)
        r, c = fitter.fit_pair(target, target, None, second=True)
        assert np.array_equal(r.values, c.values)
        later = fitter.fit(target, None)
        assert not np.array_equal(later.values, r.values)
        skipping = TreeLearner(subsample=0.5, max_depth=1).bind(X, 1000, None, target)
        skipping.skip()
        assert np.array_equal(skipping.fit(target, None).values, later.values)

    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_at_least_one_row(self, n):
        X, y = np.arange(float(n))[:, np.newaxis], np.arange(float(n))
        model = AGBMRegressor(subsample=0.01, max_iter=5, min_samples_leaf=1, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()

    def test_weights_and_validation_rows(self, regression):
        X, y = regression
        for weight in (np.arange(len(y)) % 3 + 1, np.arange(len(y)) % 3 + 0.5):
            model = AGBMRegressor(n_members=1, subsample=0.5, max_iter=10, random_state=0)
            model.fit(X, y, sample_weight=weight, X_val=X, y_val=y)
            expected = ((model.predict(X) - y) ** 2 / 2).mean()
            assert model.history_["validation_loss"][model.best_iteration_] == pytest.approx(expected)


class TestFeatures:
    def test_a_tree_uses_its_features_only(self, regression):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbm", shared_structure=False), colsample_bytree=0.3, max_iter=30, random_state=0
        ).fit(X, y)
        used = [set(tree.nodes["feature"].tolist()) - {-1} for tree in model.model_.models]
        assert max(map(len, used)) <= 3
        assert len(set().union(*used)) == 10, "every tree has others"

    def test_a_node_uses_one_of_its_features(self):
        """Ten copies of one feature: with a tenth of them per node, each copy is chosen about equally often."""
        rng = np.random.default_rng(0)
        X = np.repeat(rng.normal(size=(2000, 1)), 10, axis=1)
        y = np.sin(3 * X[:, 0])
        model = AGBMRegressor(colsample_bynode=0.1, max_iter=50, random_state=0, colsample_bytree=1.0).fit(X, y)
        chosen = np.bincount(
            model.model_.folded.nodes["feature"][model.model_.folded.nodes["feature"] >= 0], minlength=10
        )
        assert chosen.min() > 0.7 * chosen.mean()
        assert chosen.max() < 1.3 * chosen.mean()
        all_of_them = AGBMRegressor(max_iter=5, colsample_bytree=1.0, colsample_bynode=1.0).fit(X, y).model_.folded
        assert set(all_of_them.nodes["feature"].tolist()) <= {-1, 0}

    def test_at_least_one_feature(self, regression):
        X, y = regression
        model = AGBMRegressor(colsample_bytree=0.01, colsample_bynode=0.01, max_iter=5, random_state=0).fit(X, y)
        assert model.score(X, y) > 0


class FixedDrops:
    """Drops given iterations, as Dropout would have drawn them."""

    def __init__(self, dropped, problem, ensemble, fitter):
        self.dropped, self.ensemble = dropped, ensemble
        self.dropout = Dropout(1.0, 0, problem, ensemble, fitter)

    def __call__(self, f, h):
        return self.dropout.leave_out(self.dropped.get(len(self.ensemble), ()), f, h)


class TestDropout:
    DROPPED = {2: (0,), 4: (1, 2), 5: (0, 1, 3, 4), 7: (6,)}  # noqa: RUF012

    def problem(self):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(60, 3))
        y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=60)
        return problem_of(HalfSquaredError(), y), best_stump(X), y

    def run(self, make):
        problem, fit, y = self.problem()
        ensemble = Ensemble()
        fitter = VectorFitter(fit)
        drop = FixedDrops(self.DROPPED, problem, ensemble, fitter)
        steps = []
        for step in make(problem, fitter, drop):
            ensemble.append(step)
            steps.append(step)
        return steps, ensemble, fit, y

    def test_gbm_is_dart(self):
        steps, ensemble, fit, y = self.run(
            lambda p, fitter, drop: boosting.gbm(p, fitter, eta=0.3, max_iter=10, drop=drop)
        )
        trace, weights = twin.dart(np.zeros(60), lambda f: f - y, fit, 0.3, 10, self.DROPPED)
        for step, f in zip(steps, trace, strict=True):
            np.testing.assert_allclose(step.f[0], f, atol=1e-10)
        np.testing.assert_allclose(ensemble.coefficients()[0], weights, atol=1e-12)

    @pytest.mark.parametrize("correction", [1.0, 0.5, -1.0])
    def test_agbm_is_the_definition(self, correction):
        steps, ensemble, fit, y = self.run(
            lambda p, fitter, drop: boosting.agbm(
                p, fitter, schedule=PaperSchedule(0.3, 0.2), correction=correction, length=lambda gamma: 10, drop=drop
            )
        )
        trace, a, d = twin.agbm_with_dropout(np.zeros(60), lambda f: f - y, fit, 0.3, 0.2, 10, correction, self.DROPPED)
        for step, expected in zip(steps, trace, strict=True):
            for name in ("f", "g", "r", "c") + (() if step.momentum is None else ("h",)):
                np.testing.assert_allclose(getattr(step, name)[0], expected[name], atol=1e-10, err_msg=name)
        ours_a, ours_d = ensemble.coefficients()
        np.testing.assert_allclose(ours_a, a[: len(ours_a)], atol=1e-12)
        np.testing.assert_allclose(ours_d, d[: len(ours_d)], atol=1e-12)
        assert ours_a.min() >= 0

    @pytest.mark.parametrize("look_ahead", [0.0, 1.5])
    def test_fading_is_the_definition(self, look_ahead):
        schedule = FadingSchedule(rate=0.1, entry=0.6, fade=0.3, growth=0.1, look_ahead=look_ahead)
        steps, ensemble, fit, y = self.run(
            lambda p, fitter, drop: boosting.fading(p, fitter, schedule=schedule, max_iter=10, drop=drop)
        )
        trace, a, d = twin.fading_with_dropout(
            np.zeros(60), lambda f: f - y, fit, **asdict(schedule), iterations=10, dropped=self.DROPPED
        )
        for step, expected in zip(steps, trace, strict=True):
            for name, vector in expected.items():
                np.testing.assert_allclose(getattr(step, name)[0], vector, atol=1e-12, err_msg=name)
        for found, weights in zip(ensemble.coefficients(), (a, d), strict=True):
            np.testing.assert_allclose(found, weights, atol=1e-12)

    def test_vagbm_is_agbm_without_correction(self):
        """With one learner for both residuals: that of the plain residual."""
        plain, _, _, _ = self.run(
            lambda p, fitter, drop: boosting.vagbm(p, fitter, schedule=PaperSchedule(0.3, 0.2), max_iter=10, drop=drop)
        )
        zero, _, _, _ = self.run(
            lambda p, fitter, drop: boosting.agbm(
                p, fitter, schedule=PaperSchedule(0.3, 0.2), correction=0.0, length=lambda gamma: 10, drop=drop
            )
        )
        for one, other in zip(plain, zero, strict=True):
            np.testing.assert_allclose(one.f, other.f, atol=1e-12)

    @pytest.mark.slow
    @methods
    def test_weights_are_what_the_model_predicts_with(self, regression, method):
        X, y = regression
        model = AGBMRegressor(
            method=made(method, shared_structure=False, momentum=0.2, dropout=0.4),
            n_members=1,
            max_iter=30,
            random_state=0,
            max_depth=3,
        ).fit(X, y)
        a, _ = model.model_.ensembles[0].coefficients()
        assert a.min() >= 0
        by_hand = y.mean() + sum(w * tree.predict(X, 1)[0, 0] for w, tree in zip(a, model.model_.models, strict=True))
        np.testing.assert_allclose(model.predict(X), by_hand, rtol=1e-10)
        assert model.history_["train_loss"][-1] == pytest.approx(((model.predict(X) - y) ** 2 / 2).mean())

    @pytest.mark.slow
    def test_restarts(self, regression):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbmr", momentum=1.0, correction=1.0, shared_structure=False, dropout=0.1),
            learning_rate=1.0,
            max_iter=40,
            max_depth=3,
            random_state=1,
        ).fit(X, y)
        assert model.history_["restart"].sum() >= 1
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-8)
        assert model.history_["train_loss"][-1] == pytest.approx(((model.predict(X) - y) ** 2 / 2).mean())
