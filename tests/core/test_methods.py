"""Methods as objects and by name, their parameters, and the values that replace "auto"."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm.losses import AbsoluteError, Huber, Poisson, Quantile, Tweedie
from agbm.methods import AGBM, GBM, VAGBM, Fading
from variants import METHODS, made

NAMED = {
    "fading": Fading(entry=6.0, fade=0.4, growth=0.01, look_ahead=2.0),
    "gbm": GBM(line_search=False),
    "vagbm": VAGBM(momentum=1.0),
    "agbm": AGBM(momentum=0.1, correction=1.0, shared_structure=False, restart=None),
    "agbmr": AGBM(momentum=0.1, correction=1.0, shared_structure=False, restart="loss_rise"),
}


@pytest.mark.parametrize("name", METHODS)
def test_name_equals_object_with_defaults(name, regression):
    X, y = regression
    by_name = AGBMRegressor(method=name, max_iter=8).fit(X, y)
    by_object = AGBMRegressor(method=NAMED[name], max_iter=8).fit(X, y)
    assert np.array_equal(by_name.predict(X), by_object.predict(X))
    assert repr(by_name.resolved_params_["method"]) == repr(NAMED[name])
    assert by_name.resolved_params_["second_order"] == (name == "fading")
    by_object.set_params(method=name, warm_start=True, max_iter=10).fit(X, y)  # the same run, however it is named
    assert by_object.n_iter_ == 10


@pytest.mark.parametrize("name", ["gbm", "vagbm", "agbm"])
def test_names_of_the_paper_are_its_algorithms(name, regression):
    """Against linear learners by hand: gradient steps, two learners per iteration, full correction."""
    X, y = regression
    X, y = X[:100, :3], (y[:100] - 150.0) / 100.0

    columns = np.column_stack([np.ones(100), X])
    hat = columns @ np.linalg.pinv(columns)
    momentum = {"vagbm": 1.0, "agbm": 0.1}.get(name)
    model = AGBMRegressor(method=made(name, learner=LinearRegression()), init="zero", max_iter=6, learning_rate=0.3)
    found = model.fit(X, y).predict(X)

    def gradient(f):
        return f - y

    def fit(r):
        return hat @ r

    f = h = np.zeros(100)
    c, b2 = None, None
    for m in range(6):
        theta = 2 / (m + 2)
        g = f if name == "gbm" else (1 - theta) * f + theta * h
        r = -gradient(g)
        b1 = fit(r)
        f = g + 0.3 * b1
        if name == "agbm":
            c = r if m == 0 else r + (m + 1) / (m + 2) * (c - b2)
            b2 = fit(c)
        else:
            b2 = b1
        if momentum is not None:
            h = h + momentum * 0.3 / theta * b2
    np.testing.assert_allclose(found, f, rtol=1e-9, atol=1e-12)
    assert model.n_trees_ == (10 if name == "agbm" else 6)


class TestSettings:
    def test_in_a_grid_search(self, regression):
        X, y = regression
        for method in ("fading", Fading(growth=0.0)):
            search = GridSearchCV(AGBMRegressor(method=method, max_iter=5), {"method__fade": [0.1, 0.5]}, cv=2)
            search.fit(X, y)
            chosen = search.best_estimator_.method
            assert chosen.fade == search.best_params_["method__fade"]
            assert chosen.growth == (0.01 if method == "fading" else 0.0)

    def test_by_set_params(self):
        model = AGBMClassifier(method=AGBM())
        assert model.get_params()["method__momentum"] == 0.1
        model.set_params(method__momentum=0.5)
        assert model.method.momentum == 0.5
        model.set_params(method="agbmr", method__momentum=0.2)
        assert (model.method.momentum, model.method.restart) == (0.2, "loss_rise")
        assert AGBMRegressor().set_params(method__fade=0.3).method.fade == 0.3
        with pytest.raises(ValueError, match="Invalid parameter 'speed' for estimator Fading"):
            model.set_params(method="fading", method__speed=1)

    def test_clones_are_independent(self, regression):
        method = Fading(fade=0.3)
        model = AGBMRegressor(method=method, max_iter=3).fit(*regression)
        assert clone(model).method is not method
        method.fade = 0.9
        assert model.resolved_params_["method"].fade == 0.3
        assert pickle.loads(pickle.dumps(model)).resolved_params_["method"].fade == 0.3

    @pytest.mark.parametrize(
        ("name", "value", "place"),
        [
            ("fade", 0.3, "method=Fading(fade=0.3), from agbm.methods"),
            ("restart", "gradient", "method=AGBM(restart='gradient'), from agbm.methods"),
            ("momentum", 0.5, "method=VAGBM(momentum=0.5) or method=AGBM(momentum=0.5), from agbm.methods"),
            ("line_search", True, "method=GBM(line_search=True), from agbm.methods"),
        ],
    )
    def test_as_parameters_of_the_estimator_raise(self, name, value, place):
        for kind in (AGBMRegressor, AGBMClassifier):
            with pytest.raises(TypeError) as caught:
                kind(**{name: value})
            assert f"{name} is a parameter of the method, not of {kind.__name__}; pass {place}" in str(caught.value)
        with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
            AGBMRegressor(speed=3)

    @pytest.mark.parametrize(
        ("method", "words"),
        [
            (Fading(entry=0.9), "'entry' parameter of Fading"),
            (Fading(fade=1.1), "'fade' parameter of Fading"),
            (Fading(growth=-0.1), "'growth' parameter of Fading"),
            (Fading(look_ahead=-0.1), "'look_ahead' parameter of Fading"),
            (VAGBM(momentum=0.0), "'momentum' parameter of VAGBM"),
            (AGBM(momentum=1.5), "'momentum' parameter of AGBM"),
            (AGBM(momentum="practice"), "'momentum' parameter of AGBM"),
            (AGBM(correction=2.0), "'correction' parameter of AGBM"),
            (AGBM(shared_structure="yes"), "'shared_structure' parameter of AGBM"),
            (AGBM(restart="never"), "'restart' parameter of AGBM"),
            (AGBM(restart=-1.0), "'restart' parameter of AGBM"),
            (AGBM(momentum=Fading(dropout=0.2)), "dropout=0.2\\) has no effect"),
            (VAGBM(momentum=Fading(fade=5.0)), "'fade' parameter of Fading"),
            (VAGBM(momentum=Fading(look_ahead=1.0)), "look_ahead=1.0\\) has no effect"),
            (AGBM(restart=True), "restart=True must be one of 'loss_rise'"),
            (GBM(line_search="sometimes"), "'line_search' parameter of GBM"),
        ],
        ids=repr,
    )
    def test_invalid_values_raise(self, method, words, regression):
        with pytest.raises(ValueError, match=words):
            AGBMRegressor(method=method).fit(*regression)

    def test_in_model_files(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "model.agbm"
        for method in (*NAMED.values(), VAGBM(momentum=Fading(fade=0.2)), AGBM(restart=1.0), GBM(line_search=True)):
            model = AGBMRegressor(method=method, max_iter=4).fit(X, y)
            model.save(path)
            loaded = agbm.load(path)
            assert repr(loaded.method) == repr(method)
            resolved = {name: value for name, value in model.resolved_params_.items() if name != "device"}
            assert repr(loaded.resolved_params_) == repr(resolved)
            loaded.set_params(warm_start=True, max_iter=6).fit(X, y)
            whole = AGBMRegressor(method=method, max_iter=6).fit(X, y)
            assert np.array_equal(loaded.predict(X), whole.predict(X))


class TestResolved:
    def test_of_auto(self, regression):
        X, y = regression
        found = AGBMRegressor().fit(X, y).resolved_params_
        assert repr(found) == repr(
            {
                "method": Fading(), "loss": agbm.losses.HalfSquaredError(), "second_order": True, "max_iter": 1000,
                "learning_rate": 0.15, "early_stopping": True, "n_members": 5, "device": "cpu", "max_depth": None,
                "max_leaf_nodes": 8, "min_samples_leaf": 2, "l2_regularization": 3.0, "colsample_bynode": 0.5,
                "multi_strategy": "one_output_per_tree", "views": None,
            }
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("method", "n_members", "colsample_bynode"),
        [
            ("fading", 5, 0.5), (Fading(fade=0.2), 5, 0.5), ("gbm", 1, 1.0), ("vagbm", 1, 1.0), ("agbm", 1, 1.0),
            ("agbmr", 1, 1.0), (GBM(line_search=True), 1, 1.0), (VAGBM(momentum=Fading()), 1, 1.0),
        ],
        ids=repr,
    )  # fmt: skip
    def test_members_and_columns_of_each_method(self, method, n_members, colsample_bynode, regression):
        X, y = regression
        model = AGBMRegressor(method=method, max_iter=4).fit(X, y)
        found = model.resolved_params_
        assert (found["n_members"], found["colsample_bynode"]) == (n_members, colsample_bynode)
        assert len(model.model_.ensembles) == n_members
        by_hand = clone(model).set_params(n_members=n_members, colsample_bynode=colsample_bynode).fit(X, y)
        assert np.array_equal(by_hand.predict(X), model.predict(X))

    @pytest.mark.parametrize("method", METHODS)
    def test_other_learners_than_trees(self, method, regression):
        model = AGBMRegressor(method=made(method, learner=LinearRegression()), max_iter=2).fit(*regression)
        found = model.resolved_params_
        assert (found["n_members"], found["early_stopping"], len(model.model_.ensembles)) == (1, False, 1)
        assert {"max_leaf_nodes", "colsample_bynode"}.isdisjoint(found)
        several = clone(model).set_params(n_members=3, early_stopping=True).fit(*regression)
        assert several.resolved_params_["n_members"] == len(several.model_.ensembles) == 3

    def test_with_validation_rows_and_classes(self):
        X, y = load_breast_cancer(return_X_y=True)
        found = AGBMClassifier().fit(X, y, X_val=X, y_val=1 - y).resolved_params_  # stops soon
        assert (found["max_iter"], found["early_stopping"], found["l2_regularization"]) == (1000, True, 7.0)

    def test_outer_quantiles(self, regression):
        def found(loss, **given):
            model = AGBMRegressor(loss=loss, max_iter=1, early_stopping=False, **given).fit(X, y)
            return [model.resolved_params_[name] for name in ("min_samples_leaf", "colsample_bynode")]

        X, y = np.tile(regression[0], (12, 1))[:5_000], np.tile(regression[1], 12)[:5_000]
        assert found("quantile:0.5") == found("absolute_error") == [10, 0.5]
        assert found("quantile:0.1") == [22, pytest.approx(0.82)]
        assert found("quantile:0.9") == [22, pytest.approx(0.82)]
        assert found("quantile:0.99") == [113, pytest.approx(0.9802)]
        assert found("quantile:0.1,0.5,0.9") == [15, pytest.approx(1.0 - 0.5 * (0.36 + 1.0 + 0.36) / 3.0)]
        assert found("quantile:0.99", method="gbm") == [113, 1.0]
        assert found("quantile:1e-300")[0] == 5_000  # no more than there are rows
        l2 = [
            AGBMRegressor(loss=loss, max_iter=1).fit(X, y).resolved_params_["l2_regularization"]
            for loss in (Quantile(0.9), Quantile([0.9]))
        ]
        by_hand = AGBMRegressor(loss=Quantile(0.9), max_iter=1, l2_regularization=7.0 * 0.36).fit(X, y)
        assert l2[0] == l2[1][0] == pytest.approx(by_hand.resolved_params_["l2_regularization"])

    def test_explicit_values_are_kept(self, regression):
        given = {"max_depth": 2, "min_samples_leaf": 7, "l2_regularization": 0.5, "max_iter": 3}
        given |= {"n_members": 2, "colsample_bynode": 0.7, "max_leaf_nodes": 3, "early_stopping": False}
        found = AGBMRegressor(**given).fit(*regression).resolved_params_
        assert {name: found[name] for name in given} == given


def test_the_version():
    from importlib.metadata import version

    assert agbm.__version__ == version("agbm")


class TestLossesByName:
    @pytest.mark.parametrize(
        ("name", "loss"),
        [
            ("quantile:0.9", Quantile(0.9)), ("huber:20", Huber(20.0)), ("tweedie:1.2", Tweedie(1.2)),
            ("absolute_error", AbsoluteError()), ("poisson", Poisson()),
        ],
    )  # fmt: skip
    def test_numbers_are_parameters(self, regression, name, loss, tmp_path):
        X, y = regression
        named = AGBMRegressor(loss=name, max_iter=3).fit(X, y)
        np.testing.assert_array_equal(named.predict(X), AGBMRegressor(loss=loss, max_iter=3).fit(X, y).predict(X))
        named.save(tmp_path / "model.agbm")
        assert agbm.load(tmp_path / "model.agbm").loss == name

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("quantile", "loss='quantile' needs a number after a colon, as in 'quantile:0.9'"),
            ("huber:much", "loss='huber:much' needs a number after a colon"),
            ("quantile:1.5", "quantile=1.5"),
            ("log_loss", "loss='log_loss' must be one of 'auto', 'squared_error'"),
            ("poisson:2", "loss='poisson:2' must be one of"),
        ],
    )
    def test_errors(self, regression, name, message):
        with pytest.raises(ValueError, match=message):
            AGBMRegressor(loss=name).fit(*regression)

    def test_of_classes(self, regression):
        X, y = regression[0], regression[1] > 100
        with pytest.raises(
            ValueError, match="loss='poisson' must be one of 'auto', 'log_loss', 'cross_entropy', 'exponential', or a"
        ):
            AGBMClassifier(loss="poisson").fit(X, y)
        assert AGBMClassifier(max_iter=1).fit(X, y).n_classes_ == 2
