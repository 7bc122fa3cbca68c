"""Continued training with warm_start=True."""

import numpy as np
import pytest
from sklearn.base import clone

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Checkpoint
from variants import made, methods


@pytest.mark.slow
class TestWarmStart:
    @methods
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize("momentum", [0.3, "theory", "fading"])
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_two_fits_equal_one(self, method, shared, momentum, early_stopping, binary):
        X, y = binary
        model = AGBMClassifier(
            method=made(method, shared_structure=shared, momentum=momentum, correction=1.0),
            max_depth=3,
            learning_rate=0.2,
            early_stopping=early_stopping,
            n_iter_no_change=100,
            random_state=0,
        )
        whole = clone(model).set_params(max_iter=30).fit(X, y)
        parts = clone(model).set_params(max_iter=18).fit(X, y)
        if early_stopping and parts.best_iteration_ < 18:
            assert parts.best_iteration_ > 5
        seen = []
        parts.set_params(max_iter=30, warm_start=True, callbacks=[lambda r: seen.append(r.iteration)])
        before = parts.best_iteration_
        parts.fit(X, y)
        assert np.array_equal(whole.decision_function(X), parts.decision_function(X))
        assert np.array_equal(whole.model_.folded.value, parts.model_.folded.value)
        assert whole.n_trees_ == parts.n_trees_
        for name in ("train_loss", "validation_loss", "trees", "cosine_residual"):
            assert np.array_equal(whole.history_[name], parts.history_[name], equal_nan=True), name
        assert seen == list(range(before + 1, 31))

    @pytest.mark.parametrize("rule", ["loss_rise", "gradient"])
    def test_with_restarts(self, regression, rule):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbmr", restart=rule, momentum=1.0, correction=1.0, shared_structure=False),
            learning_rate=1.0,
            max_depth=3,
        )
        whole = clone(model).set_params(max_iter=40).fit(X, y)
        assert whole.history_["restart"].sum() >= 2
        parts = clone(model).set_params(max_iter=5, warm_start=True)
        for max_iter in (5, 6, 17, 33, 40):
            parts.set_params(max_iter=max_iter).fit(X, y)
        assert np.array_equal(whole.predict(X), parts.predict(X))

    def test_with_column_sampling(self, binary):
        X, y = binary
        model = AGBMClassifier(colsample_bytree=0.5, max_depth=3, random_state=0)
        parts = clone(model).set_params(max_iter=3, warm_start=True)
        for max_iter in (3, 4, 11, 20):
            parts.set_params(max_iter=max_iter).fit(X, y)
        whole = clone(model).set_params(max_iter=20).fit(X, y)
        assert np.array_equal(whole.decision_function(X), parts.decision_function(X))
        for name in ("train_loss", "theta", "momentum", "cosine_residual"):
            assert np.array_equal(whole.history_[name], parts.history_[name], equal_nan=True), name

    def test_other_features_raise(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=3, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match="X has 4 features, but AGBMRegressor is expecting 10"):
            model.set_params(max_iter=6).fit(X[:, :4], y)
        assert model.predict(X).shape == y.shape

    @pytest.mark.parametrize(
        "change", [{"learning_rate": 0.01}, {"method": "gbm"}, {"loss": "absolute_error"}, {"max_depth": 2}], ids=str
    )
    def test_changed_parameters_raise(self, regression, change):
        X, y = regression
        model = AGBMRegressor(max_iter=10, warm_start=True).fit(X, y)
        before = model.predict(X)
        name = next(iter(change))
        with pytest.raises(
            ValueError, match=rf"warm_start=True needs the parameters of the previous fit; got {name}=.* \(was "
        ):
            model.set_params(**change).fit(X, y)
        assert np.array_equal(model.predict(X), before)
        model.set_params(**{name: AGBMRegressor().get_params()[name]}, max_iter=12, n_jobs=1, verbose=0)
        assert model.fit(X, y).n_iter_ == 12

    def test_fewer_iterations_raise(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=10, warm_start=True, early_stopping=False).fit(X, y)
        with pytest.raises(ValueError, match=r"max_iter=5 .*must be at least best_iteration_=10"):
            model.set_params(max_iter=5).fit(X, y)
        before = model.predict(X)
        assert np.array_equal(model.set_params(max_iter=10).fit(X, y).predict(X), before)
        model.set_params(max_iter=101, max_depth=1, warm_start=False).fit(X, y)
        with pytest.raises(ValueError, match=r"max_iter='auto' .*100.* must be at least best_iteration_=101"):
            model.set_params(max_iter="auto", warm_start=True).fit(X, y)


def test_resumed_runs_keep_the_validation_split(tmp_path):
    """Resuming raises if only one of the two fits holds out rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    given = {"X_val": X[:50], "y_val": y[:50]}
    for first, then, message in (({}, given, "held out some rows"), (given, {}, "held out no rows")):
        model = AGBMRegressor(early_stopping=True, max_iter=3, n_iter_no_change=50).fit(X, y, **first)
        model.save(tmp_path / "m.agbm")
        for going_on in (model, agbm.load(tmp_path / "m.agbm")):
            with pytest.raises(ValueError, match=message):
                going_on.set_params(warm_start=True, max_iter=6).fit(X, y, **then)
            going_on.fit(X, y, **first)
        saved = clone(model).set_params(warm_start=False, callbacks=[Checkpoint(tmp_path / f"{len(first)}", every=1)])
        clone(saved).fit(X, y, **first)
        with pytest.raises(ValueError, match="other data"):
            clone(saved).fit(X, y, **then)
