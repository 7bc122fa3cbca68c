"""Temperature scaling: the trees times the factor that minimises the loss of the validation rows."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

import agbm
from agbm import AGBMClassifier, Batches, Checkpoint
from agbm._fit.temperature import LARGEST_FACTOR, lowest
from agbm.export import to_lightgbm
from agbm.methods import AGBM, GBM, Fading
from variants import made

SMALL = {"max_iter": 15, "max_leaf_nodes": 8, "n_members": 2, "n_iter_no_change": 5, "learning_rate": 0.3}


def table(n_classes, n=600, seed=0):
    """Features and labels, with noise that no model can explain."""
    rng, weights = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(4, n_classes))
    X = rng.normal(size=(n, 4))
    scores = 0.5 * X @ weights + rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def both(X, y, fit=None, **parameters):
    """The model without and with scaling."""
    models = [
        clone(AGBMClassifier(**{**SMALL, **parameters})).set_params(method__temperature_scaling=scaled)
        for scaled in (False, True)
    ]
    return [model.fit(X, y, **(fit or {})) for model in models]


def factor_of(model):
    return 1.0 / model.resolved_params_["temperature"]


def mean_log_loss(scores, y):
    scores = scores if scores.ndim == 2 else np.stack([np.zeros_like(scores), scores], axis=1)
    return -np.mean(log_softmax(scores, axis=1)[np.arange(len(y)), y])


class TestTheFactor:
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("max_iter", [3, 60])
    def test_minimises_the_validation_loss(self, n_classes, max_iter):
        """With one member, its validation rows are those of the model, and SciPy finds the factor from its scores."""
        (X, y), (X_val, y_val) = table(n_classes), table(n_classes, seed=1)
        fit = {"X_val": X_val, "y_val": y_val}
        plain, scaled = both(X, y, fit, n_members=1, max_iter=max_iter, early_stopping=False)
        start, scores = plain.model_.start, plain.decision_function(X_val)

        def loss(factor):
            return mean_log_loss(start + factor * (scores - start), y_val)

        expected = minimize_scalar(loss, bounds=(0.0625, 2.0), method="bounded", options={"xatol": 1e-8}).x
        assert factor_of(scaled) == pytest.approx(expected, abs=1e-4)
        assert np.allclose(scaled.decision_function(X_val), start + factor_of(scaled) * (scores - start))
        assert np.array_equal(scaled.model_.start, start)

    def test_is_above_1_after_few_iterations_and_below_after_too_many(self):
        (X, y), (X_val, y_val) = table(2), table(2, seed=1)
        fit = {"X_val": X_val, "y_val": y_val}
        factors = [
            factor_of(both(X, y, fit, max_iter=max_iter, early_stopping=False, learning_rate=0.3)[1])
            for max_iter in (2, 200)
        ]
        assert factors[0] > 1.2
        assert factors[1] < 0.6

    def test_held_out_rows_of_members(self):
        """The members keep their own rows; a scorer sees the scores of these."""
        X, y = table(2)
        seen = []

        def scorer(model, X, y):
            seen.append((model.decision_function(X), y))
            return -log_loss(y, model.predict_proba(X)[:, 1])

        _, scaled = both(X, y, max_iter=10, n_iter_no_change=10, scoring=scorer)
        seen = seen[len(seen) // 2 :]  # of the model with scaling
        starts, found = seen[:2], seen[2 * scaled.best_iteration_ : 2 * scaled.best_iteration_ + 2]

        def loss(factor):
            members = zip(starts, found, strict=True)
            return np.mean([mean_log_loss(s + factor * (f - s), labels) for (s, _), (f, labels) in members])

        expected = minimize_scalar(loss, bounds=(0.0625, 2.0), method="bounded", options={"xatol": 1e-8}).x
        assert factor_of(scaled) == pytest.approx(expected, abs=1e-4)

    def test_search_finds_the_minimum(self):
        assert lowest(lambda x: (x - 0.7) ** 2, 0.0, 2.0) == pytest.approx(0.7, abs=1e-4)
        assert lowest(lambda x: -x, 0.0, 2.0) == pytest.approx(2.0, abs=1e-4)
        assert lowest(lambda x: x, 0.0, 2.0) == pytest.approx(0.0, abs=1e-4)

    def test_limits_without_validation_errors(self):
        X = np.linspace(-1, 1, 400)[:, np.newaxis]
        _, scaled = both(X, (X[:, 0] > 0).astype(int), max_iter=3)
        assert factor_of(scaled) == pytest.approx(LARGEST_FACTOR, abs=1e-3)

    def test_no_iterations(self):
        """If the start is the best model, there is nothing to scale."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
        X_val, y_val = X, 1 - y
        plain, scaled = both(X, y, {"X_val": X_val, "y_val": y_val})
        assert scaled.best_iteration_ == 0
        assert factor_of(scaled) == 1.0
        assert np.array_equal(plain.decision_function(X), scaled.decision_function(X))


class TestTheSameBits:
    def test_threads(self):
        X, y = table(3)
        models = [
            AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True), n_jobs=n).fit(X, y) for n in (1, 2, 5)
        ]
        assert len({model.resolved_params_["temperature"] for model in models}) == 1
        assert all(np.array_equal(models[0].predict_proba(X), model.predict_proba(X)) for model in models)

    def test_batches(self):
        X, y = table(3)
        one = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
        cuts = list(pairwise([0, 100, 350, 600]))
        batches = Batches(lambda: ((X[i:j], y[i:j]) for i, j in cuts))
        other = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(batches)
        assert one.resolved_params_["temperature"] == other.resolved_params_["temperature"]
        assert np.array_equal(one.predict_proba(X), other.predict_proba(X))

    @pytest.mark.parametrize("method", [Fading(), Fading(dropout=0.3), AGBM()])
    def test_warm_start(self, method):
        """A run is resumed from its trees, not from their scaled weights."""
        (X, y), (X_val, y_val) = table(2), table(2, seed=1)
        method = made(method, temperature_scaling=True)
        parameters = {**SMALL, "method": method, "early_stopping": False, "max_iter": 40}
        whole = AGBMClassifier(**parameters).fit(X, y, X_val=X_val, y_val=y_val)
        resumed = AGBMClassifier(**{**parameters, "max_iter": 20}).fit(X, y, X_val=X_val, y_val=y_val)
        before = factor_of(resumed)
        resumed.set_params(max_iter=40, warm_start=True).fit(X, y, X_val=X_val, y_val=y_val)
        assert before != factor_of(whole) == factor_of(resumed)
        assert np.array_equal(whole.predict_proba(X), resumed.predict_proba(X))

    def test_checkpoints(self, tmp_path):
        X, y = table(2)
        whole = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
        path = tmp_path / "run.checkpoint"
        for stops_at in (4, 100):
            callbacks = [Checkpoint(path, every=2), lambda record, stops_at=stops_at: record.iteration == stops_at]
            model = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True), callbacks=callbacks).fit(X, y)
        assert np.array_equal(whole.predict_proba(X), model.predict_proba(X))
        assert whole.resolved_params_["temperature"] == model.resolved_params_["temperature"]


@pytest.fixture(scope="module")
def scaled():
    """A table, and a model whose trees are scaled."""
    X, y = table(3)
    model = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
    assert abs(factor_of(model) - 1.0) > 0.01
    return X, model


class TestPredictionsAndExports:
    """Everything that reads a model uses the factor."""

    def test_files(self, scaled, tmp_path):
        X, model = scaled
        model.save(tmp_path / "m.agbm")
        loaded = agbm.load(tmp_path / "m.agbm")
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert loaded.resolved_params_["temperature"] == model.resolved_params_["temperature"]
        assert loaded.method.temperature_scaling is True

    def test_stages_and_contributions(self, scaled):
        X, model = scaled
        scores = model.decision_function(X)
        assert np.allclose(list(model.staged_decision_function(X))[-1], scores)
        assert np.allclose(model.predict_contributions(X).sum(axis=-1), scores)
        assert np.allclose(model.at_iteration(model.best_iteration_).decision_function(X), scores)
        assert np.array_equal(model.predictor("predict_proba")(X), model.predict_proba(X))

    def test_exports(self, scaled):
        import lightgbm

        X, model = scaled
        booster = lightgbm.Booster(model_str=to_lightgbm(model))
        assert np.allclose(booster.predict(X), model.predict_proba(X))


class TestSettings:
    def test_nothing_is_held_out(self):
        X, y = table(2)
        for parameters in ({"early_stopping": False}, {"validation_fraction": None}):
            model = AGBMClassifier(**SMALL, **parameters, method=Fading(temperature_scaling=True))
            with pytest.raises(ValueError, match=r"temperature_scaling=True needs validation rows.*pass X_val"):
                model.fit(X, y)
            assert not hasattr(model, "model_")

    def test_off_by_default(self):
        X, y = table(2)
        plain = AGBMClassifier(**SMALL).fit(X, y)
        assert "temperature" not in plain.resolved_params_

    def test_offsets_and_init_models_are_not_scaled(self):
        X, y = table(2)
        offset = np.where(X[:, 1] > 0, 1.0, -1.0)
        plain, scaled = both(X, y, {"offset": offset})
        shift = plain.model_.start
        assert np.array_equal(shift, scaled.model_.start)
        trees = plain.decision_function(X) - shift
        assert np.allclose(scaled.decision_function(X, offset), shift + offset + factor_of(scaled) * trees)
        first = AGBMClassifier(**SMALL).fit(X, y)
        plain, scaled = both(X, y, init=FrozenEstimator(first))
        start = first.decision_function(X)
        expected = start + factor_of(scaled) * (plain.decision_function(X) - start)
        assert np.allclose(scaled.decision_function(X), expected)

    @pytest.mark.parametrize("parameters", [{"loss": "exponential"}, {"method": GBM(learner=LinearRegression())}])
    def test_other_losses_and_learners(self, parameters):
        X, y = table(2)
        plain, scaled = both(X, y, **parameters)
        start = plain.model_.start
        expected = start + factor_of(scaled) * (plain.decision_function(X) - start)
        assert np.allclose(scaled.decision_function(X), expected)

    def test_several_labels_and_probabilities(self):
        """One factor for all labels."""
        X, y = table(3)
        one_hot = np.eye(3, dtype=int)[y]
        for labels, loss in ((one_hot, "auto"), (0.1 + 0.7 * one_hot, "cross_entropy")):
            plain, scaled = both(X, labels, loss=loss)
            start = plain.model_.start
            expected = start + factor_of(scaled) * (plain.decision_function(X) - start)
            assert np.allclose(scaled.decision_function(X), expected)

    def test_cross_validation(self):
        X, y = table(2)
        with pytest.raises(ValueError, match=r"temperature_scaling=True.*cross_validate of scikit-learn"):
            agbm.cv(AGBMClassifier(method=Fading(temperature_scaling=True)), X, y)


class TestUpdates:
    def test_more_trees_have_a_factor_of_their_own(self):
        """The model so far is the start of the new trees, so its part stays."""
        (X, y), (X_new, y_new) = table(2), table(2, seed=1)
        model = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
        old, n_old = model.decision_function(X), model.best_iteration_
        temperature = model.resolved_params_["temperature"]
        model.update(X_new, 1 - y_new, mode="trees", max_iter=5)
        assert model.best_iteration_ > n_old
        assert model.resolved_params_["temperature"] != temperature
        assert np.allclose(model.at_iteration(n_old).decision_function(X), old)

    def test_all_and_weights(self):
        (X, y), (X_new, y_new) = table(2), table(2, seed=1)
        model = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
        before = mean_log_loss(model.decision_function(X_new), y_new)
        model.update(X_new, y_new, mode="weights")
        assert mean_log_loss(model.decision_function(X_new), y_new) < before
        model.update(X_new, y_new, mode="all")
        alone = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X_new, y_new)
        assert model.resolved_params_["temperature"] == alone.resolved_params_["temperature"]

    def test_leaves(self):
        X, y = table(2)
        model = AGBMClassifier(**SMALL, method=Fading(temperature_scaling=True)).fit(X, y)
        with pytest.raises(ValueError, match=r"mode='leaves'.*none are held out for temperature_scaling=True"):
            model.update(X, y, mode="leaves")
