"""Conversion of the parameters of other libraries."""

import importlib
import pickle
import re
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.datasets import load_breast_cancer, make_regression
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._losses import is_loss_name
from agbm._migration import CLASSIFICATION, LIBRARIES, REGRESSION
from agbm._migration.foreign import of_loss
from agbm.losses import Expectile, Huber, Quantile, Tweedie
from agbm.methods import GBM

NAMES = ["lightgbm", "xgboost", "catboost", "hist_gradient_boosting"]
OBJECTIVE = {name: library.objective.split()[0] for name, library in LIBRARIES.items()}
CLASSES = {
    "lightgbm": "binary",
    "xgboost": "binary:logistic",
    "catboost": "Logloss",
    "hist_gradient_boosting": "log_loss",
}

# A value of another library for each parameter of agbm that is converted, and its result.
VALUES = {
    "max_iter": (7, 7),
    "learning_rate": (0.2, 0.2),
    "max_leaf_nodes": (5, 5),
    "max_depth": (4, 4),
    "min_samples_leaf": (3, 3),
    "l1_regularization": (1.5, 1.5),
    "l2_regularization": (2.5, 2.5),
    "min_split_gain": (0.25, 0.25),
    "max_bins": (63, 63),
    "subsample": (0.5, 0.5),
    "colsample_bytree": (0.5, 0.5),
    "colsample_bynode": (0.5, 0.5),
    "method__dropout": (0.2, 0.2),
    "early_stopping": (True, True),
    "validation_fraction": (0.25, 0.25),
    "n_iter_no_change": (4, 4),
    "monotonic_cst": ([1, 0, -1], [1, 0, -1]),
    "interaction_cst": ([[0, 1], [2]], [[0, 1], [2]]),
    "categorical_features": ([2], [2]),
    "init": (False, "zero"),
    "multi_strategy": ("multi_output_tree", "multi_output_tree"),
    "random_state": (3, 3),
    "n_jobs": (2, 2),
    "warm_start": (True, True),
}
# What must be said beside it for the value to count.
BESIDE = {
    ("lightgbm", "subsample"): {"bagging_freq": 1},
    ("lightgbm", "method__dropout"): {"boosting": "dart", "skip_drop": 0.0},
    ("xgboost", "method__dropout"): {"booster": "dart"},
}
CONVERTED = [
    (name, setting.ours, alias)
    for name in NAMES
    for setting in LIBRARIES[name].settings
    for alias in setting.theirs.split()
    if setting.ours != "class_weight"
]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    X[:, 2] = random.integers(0, 4, 80)
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(("library", "ours", "theirs"), CONVERTED)
def test_every_alias_is_converted(library, ours, theirs, table):
    value, expected = VALUES[ours]
    params = {OBJECTIVE[library]: CLASSES[library], theirs: value, **BESIDE.get((library, ours), {})}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = agbm.from_params(library, params)
    assert isinstance(model, AGBMClassifier)
    assert isinstance(model.method, GBM)
    assert model.get_params()[ours] == expected
    if theirs != "max_iter":
        model.set_params(max_iter=3)
    if ours == "categorical_features":
        model.set_params(monotonic_cst=None)
    elif ours == "monotonic_cst":
        model.set_params(categorical_features=None)
    assert model.fit(*table).predict_proba(table[0]).shape == (80, 2)


def test_converted_parameters_exist():
    known = set(AGBMClassifier(method=GBM()).get_params())
    for library in LIBRARIES.values():
        assert {setting.ours for setting in library.settings} | set(library.defaults) <= known
        assert set(library.harmless) <= set(library.instead)
        names = [name for setting in library.settings for name in setting.theirs.split()]
        names += [*library.objective.split(), *library.ignored.split(), *library.instead]
        assert len(names) == len(set(names)), "a name means one thing"


@pytest.mark.parametrize("library", NAMES)
def test_every_objective_makes_a_model(library, table):
    X, y = table
    for objective, (task, _) in LIBRARIES[library].objectives.items():
        shown = {"Huber": "Huber:delta=1.5", "Tweedie": "Tweedie:variance_power=1.2"}.get(objective, objective)
        shown = {"MultiQuantile": "MultiQuantile:alpha=0.1,0.9"}.get(objective, shown)
        model = agbm.from_params(library, {OBJECTIVE[library]: shown})
        assert isinstance(model, AGBMClassifier if task == CLASSIFICATION else AGBMRegressor)
        model.set_params(max_iter=2).fit(X, y if task == CLASSIFICATION else (y + 1.0) / 2.0)
        assert model.n_iter_ == 2


@pytest.mark.parametrize(
    ("library", "params", "loss"),
    [
        ("lightgbm", {"objective": "quantile", "alpha": 0.2}, Quantile(0.2)),
        ("lightgbm", {"objective": "quantile"}, Quantile(0.9)),
        ("lightgbm", {"objective": "huber", "alpha": 2.0}, Huber(2.0)),
        ("lightgbm", {"app": "tweedie", "tweedie_variance_power": 1.1}, Tweedie(1.1)),
        ("xgboost", {"objective": "reg:quantileerror", "quantile_alpha": 0.8}, Quantile(0.8)),
        ("xgboost", {"objective": "reg:tweedie"}, Tweedie(1.5)),
        ("xgboost", {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.8]}, Quantile([0.1, 0.8])),
        ("catboost", {"loss_function": "Quantile:alpha=0.7"}, Quantile(0.7)),
        ("catboost", {"loss_function": "MultiQuantile:alpha=0.1,0.7"}, Quantile([0.1, 0.7])),
        ("catboost", {"loss_function": "Huber:delta=3"}, Huber(3.0)),
        ("catboost", {"loss_function": "Expectile:alpha=0.8"}, Expectile(0.8)),
        ("catboost", {"loss_function": "LogCosh"}, "log_cosh"),
        ("sklearn", {"loss": "quantile", "quantile": 0.3}, Quantile(0.3)),
    ],
)
def test_losses_with_parameters(library, params, loss):
    assert repr(agbm.from_params(library, params).loss) == repr(loss)


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("lightgbm", {"max_iter": 100, "learning_rate": 0.1, "max_leaf_nodes": 31, "max_depth": None}),
        ("lightgbm", {"min_samples_leaf": 20, "l2_regularization": 0.0, "early_stopping": False}),
        ("xgboost", {"max_iter": 100, "learning_rate": 0.3, "max_leaf_nodes": None, "max_depth": 6}),
        ("xgboost", {"min_samples_leaf": 1, "l2_regularization": 1.0}),
        ("catboost", {"max_iter": 1000, "learning_rate": 0.03, "max_depth": 6, "l2_regularization": 3.0}),
        ("catboost", {"max_leaf_nodes": None}),
        ("sklearn", {"max_leaf_nodes": 31, "min_samples_leaf": 20, "early_stopping": "auto", "n_iter_no_change": 10}),
    ],
)
def test_defaults_are_those_of_the_library(library, expected):
    model = agbm.from_params(library, {}, task=REGRESSION)
    assert isinstance(model, AGBMRegressor)
    assert {name: getattr(model, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("library", "params", "expected"),
    [
        ("lightgbm", {"max_depth": -1}, {"max_depth": None}),
        ("xgboost", {"max_depth": 0, "max_leaves": 0}, {"max_depth": None, "max_leaf_nodes": None}),
        ("lightgbm", {"min_data_in_leaf": 0}, {"min_samples_leaf": 1}),
        ("lightgbm", {"bagging_fraction": 0.5}, {"subsample": 1.0}),  # no frequency: LightGBM draws no rows
        ("lightgbm", {"subsample": 0.5, "subsample_freq": 1}, {"subsample": 0.5}),
        ("lightgbm", {"drop_rate": 0.5}, {"method__dropout": 0.0}),
        ("lightgbm", {"boosting": "dart", "skip_drop": 0}, {"method__dropout": 0.1}),
        ("lightgbm", {"boosting_type": "dart", "rate_drop": 0.3, "skip_drop": 0}, {"method__dropout": 0.3}),
        ("xgboost", {"booster": "dart"}, {"method__dropout": 0.0}),
        ("lightgbm", {"num_threads": 0}, {"n_jobs": None}),
        ("lightgbm", {"monotone_constraints": "1,0,-1"}, {"monotonic_cst": [1, 0, -1]}),
        ("xgboost", {"monotone_constraints": "(1,0,-1)"}, {"monotonic_cst": [1, 0, -1]}),
        ("xgboost", {"monotone_constraints": {"a": 1}}, {"monotonic_cst": {"a": 1}}),
        ("xgboost", {"interaction_constraints": "[[0, 1], [2]]"}, {"interaction_cst": [[0, 1], [2]]}),
        ("lightgbm", {"interaction_constraints": "[0,1],[2]"}, {"interaction_cst": [[0, 1], [2]]}),
        ("lightgbm", {"categorical_feature": "name:a,b"}, {"categorical_features": ["a", "b"]}),
        ("lightgbm", {"categorical_feature": "0,2"}, {"categorical_features": [0, 2]}),
        ("lightgbm", {"categorical_feature": np.array([], int)}, {"categorical_features": None}),
        ("lightgbm", {"categorical_feature": "auto"}, {"categorical_features": "from_dtype"}),
        ("lightgbm", {"early_stopping_round": 0}, {"early_stopping": False, "n_iter_no_change": 20}),
        ("xgboost", {"early_stopping_rounds": 5}, {"early_stopping": True, "n_iter_no_change": 5}),
        ("xgboost", {"seed": None, "max_depth": None}, {"random_state": 0, "max_depth": 6}),
        ("sklearn", {"loss": "squared_error", "random_state": None, "max_depth": None}, {"random_state": None}),
    ],
)
def test_converted_values(library, params, expected):
    model = agbm.from_params(library, params, task=REGRESSION)
    assert {name: model.get_params()[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("library", "params", "weights"),
    [
        ("lightgbm", {"objective": "binary", "scale_pos_weight": 3}, {0: 1.0, 1: 3.0}),
        ("lightgbm", {"objective": "binary", "is_unbalance": True}, "balanced"),
        ("lightgbm", {"objective": "binary", "is_unbalance": False, "scale_pos_weight": 1.0}, None),
        ("lightgbm", {"objective": "binary", "class_weight": {0: 2, 1: 1}}, {0: 2, 1: 1}),
        ("xgboost", {"objective": "binary:logistic", "scale_pos_weight": 0.5}, {0: 1.0, 1: 0.5}),
        ("catboost", {"loss_function": "Logloss", "class_weights": [1, 4]}, {0: 1.0, 1: 4.0}),
        ("catboost", {"loss_function": "Logloss", "auto_class_weights": "Balanced"}, "balanced"),
    ],
)
def test_weights_of_classes(library, params, weights, table):
    model = agbm.from_params(library, params)
    assert model.class_weight == weights
    model.set_params(max_iter=2).fit(*table)


def test_unsupported_parameters_give_one_warning():
    params = {"path_smooth": 2.0, "max_bin": 1023, "device": "gpu", "boosting": "goss"}
    with pytest.warns(UserWarning, match="These parameters of lightgbm have no counterpart") as caught:
        model = agbm.from_params("lightgbm", params, task=REGRESSION)
    (warning,) = caught
    said = str(warning.message)
    assert all(f"\n  {name}: " in said for name in params)
    assert "l2_regularization" in said
    assert warning.filename == __file__
    assert model.max_bins == 255
    with pytest.warns(UserWarning, match="feature_weights: features are sampled uniformly"):
        agbm.from_params("xgboost", {"feature_weights": np.ones(3)}, task=REGRESSION)
    with pytest.warns(UserWarning, match="skip_drop: .* with LightGBM's default, 0.5, it is skipped in half of them"):
        agbm.from_params("lightgbm", {"boosting": "dart"}, task=REGRESSION)


def test_disabled_parameters_give_no_warning():
    params = {"linear_tree": False, "extra_trees": False, "boosting": "gbdt", "verbosity": -1, "metric": None}
    agbm.from_params("lightgbm", params, task=REGRESSION)
    agbm.from_params("lightgbm", lightgbm.LGBMClassifier().get_params(), task=CLASSIFICATION)
    agbm.from_params("xgboost", xgboost.XGBRegressor().get_params())


class TestEstimatorsOfOtherLibraries:
    ESTIMATORS = (
        ("lightgbm", "LGBMClassifier"),
        ("lightgbm", "LGBMRegressor"),
        ("xgboost", "XGBClassifier"),
        ("xgboost", "XGBRegressor"),
        ("catboost", "CatBoostClassifier"),
        ("catboost", "CatBoostRegressor"),
        ("sklearn.ensemble", "HistGradientBoostingClassifier"),
        ("sklearn.ensemble", "HistGradientBoostingRegressor"),
    )

    @pytest.fixture(params=ESTIMATORS, ids=lambda given: given[1])
    def theirs(self, request):
        module, name = request.param
        kind = getattr(importlib.import_module(module), name)
        return module.split(".")[0], kind, AGBMClassifier if name.endswith("Classifier") else AGBMRegressor

    def test_the_estimator_says_which_task(self, theirs, table):
        library, kind, expected = theirs
        model = agbm.from_params(library, kind(learning_rate=0.25, max_depth=3))
        assert type(model) is expected
        assert (model.learning_rate, model.max_depth) == (0.25, 3)
        assert model.set_params(max_iter=2).fit(*table).n_iter_ == 2

    def test_derived_class(self, theirs):
        library, kind, expected = theirs
        assert type(agbm.from_params(library, type("Mine", (kind,), {})())) is expected

    def test_dicts_need_a_library_name(self, theirs):
        """Objectives that get_params gives are used; where there is none, there must be a task."""
        library, kind, expected = theirs
        params = kind().get_params()
        name = OBJECTIVE[library]
        if params.get(name) is None:
            with pytest.raises(ValueError, match=rf"no {name}. Give task='classification' or .*\b{kind.__name__}"):
                agbm.from_params(library, params)
            task = CLASSIFICATION if expected is AGBMClassifier else REGRESSION
            assert type(agbm.from_params(library, params, task=task)) is expected
        else:
            assert type(agbm.from_params(library, params)) is expected

    def test_fitted_ones(self, table):
        fitted = HistGradientBoostingClassifier(max_iter=3).fit(*table)
        assert agbm.from_params("sklearn", fitted).max_iter == 3

    @pytest.mark.parametrize(
        ("library", "estimator", "task", "error", "message"),
        [
            ("lightgbm", lightgbm.LGBMRanker(), None, ValueError, "the task is unknown, since there is no objective"),
            ("xgboost", xgboost.XGBRanker(), None, ValueError, "objective='rank:ndcg' has no counterpart"),
            ("xgboost", lightgbm.LGBMRegressor(), None, ValueError, "LGBMRegressor is an estimator of lightgbm, got"),
            ("lightgbm", lightgbm.LGBMRegressor(), CLASSIFICATION, ValueError, "LGBMRegressor is for regression, got"),
            ("lightgbm", lightgbm.LGBMClassifier(objective="l2"), None, ValueError, "objective='l2' is for regression"),
            ("lightgbm", lightgbm.LGBMClassifier, None, TypeError, "an instance of an estimator of lightgbm"),
            (
                "lightgbm",
                [("num_leaves", 7)],
                None,
                TypeError,
                "must be a dict or an instance of an estimator of lightgbm",
            ),
        ],
        ids=str,
    )
    def test_mistakes(self, library, estimator, task, error, message):
        with pytest.raises(error, match=message):
            agbm.from_params(library, estimator, task=task)

    @pytest.mark.filterwarnings("ignore:`XGBRFRegressor` is deprecated:FutureWarning")  # since XGBoost 3.4
    def test_forests(self):
        with pytest.raises(ValueError, match="XGBRFRegressor is a random forest"):
            agbm.from_params("xgboost", xgboost.XGBRFRegressor())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("h2o", {}), "library='h2o' must be one of"),
        (("lightgbm", {"num_leafs": 3}), "no known parameter 'num_leafs'; did you mean num_leaf or num_leaves"),
        (("xgboost", {"qqqq": 3}), "no known parameter 'qqqq'; remove it"),
        (
            ("lightgbm", {"objective": "l2", "eta": 0.1, "learning_rate": 0.1}),
            "learning_rate and eta are names of the same",
        ),
        (("lightgbm", {"objective": "lambdarank"}), "objective='lambdarank' has no counterpart"),
        (("xgboost", {"objective": print}), "objective is a function. Give task=.classification. or"),
        (
            ("xgboost", {"objective": "reg:gamma", "max_depth": "deep"}),
            "max_depth='deep' cannot be converted to max_depth",
        ),
        (("lightgbm", {"objective": "l2", "scale_pos_weight": 2}), "class weights are for classification"),
        (("lightgbm", {"objective": "binary", "is_unbalance": 1, "scale_pos_weight": 2}), "both set class_weight"),
        (("catboost", {"loss_function": "Logloss", "auto_class_weights": "SqrtBalanced"}), "must be balanced or given"),
        (
            ("catboost", {"loss_function": "Huber"}),
            "loss_function='Huber' needs a parameter that is a single number: 'delta'",
        ),
        (("xgboost", {"objective": "reg:quantileerror", "quantile_alpha": {}}), "single number"),
        (("sklearn", {}), "no loss. Give task='classification' or task='regression', or .*HistGradientBoostingClass"),
        (("lightgbm", {"num_leaves": 15}), "no objective. Give task='classification' .*LGBMClassifier or LGBMRegre"),
        (("catboost", {"loss_function": None}), "no loss_function. Give task="),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        agbm.from_params(*call)


def test_swapped_arguments():
    params = {"num_leaves": 7}
    with pytest.raises(TypeError, match=re.escape(f"are swapped; use from_params('lightgbm', {params!r}).")):
        agbm.from_params(params, "lightgbm")
    with pytest.raises(ValueError, match=r"library=\{'num_leaves': 7\} must be one of 'lightgbm'"):
        agbm.from_params(params, {})


def test_tasks():
    assert isinstance(agbm.from_params("xgboost", {}, task=CLASSIFICATION), AGBMClassifier)
    with pytest.raises(ValueError, match="is for regression, got task='classification'"):
        agbm.from_params("xgboost", {"objective": "reg:gamma"}, task=CLASSIFICATION)
    with pytest.raises(ValueError, match="task='ranking' must be"):
        agbm.from_params("xgboost", {}, task="ranking")


@pytest.mark.slow
def test_same_settings_similar_loss():
    """Both grow Newton trees best-first; bins, and the floor of a leaf, differ."""
    params = {"objective": "binary", "num_leaves": 7, "learning_rate": 0.1, "lambda_l2": 1.0, "num_iterations": 60}
    X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    theirs = lightgbm.train({**params, "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, y)).predict(X_test)
    ours = agbm.from_params("lightgbm", params).fit(X, y)
    assert ours.n_trees_ == 60
    assert log_loss(y_test, ours.predict_proba(X_test)) == pytest.approx(log_loss(y_test, theirs), rel=0.15)
    X, y = make_regression(2000, 5, noise=10.0, random_state=0)
    params = {"objective": "regression", "num_iterations": 50, "min_data_in_leaf": 10}
    theirs = lightgbm.train(
        {**params, "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X[:1500], y[:1500])
    ).predict(X[1500:])
    ours = agbm.from_params("lightgbm", params).fit(X[:1500], y[:1500]).predict(X[1500:])
    assert np.mean((ours - y[1500:]) ** 2) == pytest.approx(np.mean((theirs - y[1500:]) ** 2), rel=0.1)


@pytest.mark.parametrize("second_order", [True, False])
def test_l1_gives_the_tree_of_other_libraries(second_order):
    """On features with as many bins as values, the leaf values are equal."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, size=(600, 4)).astype(float)
    y = 0.5 * (X[:, 0] - 5.5) * (X[:, 1] > 4) + rng.normal(size=600)
    theirs = {"lightgbm": lightgbm.LGBMRegressor, "xgboost": xgboost.XGBRegressor}
    settings = {"lightgbm": {"min_child_samples": 5, "num_leaves": 8, "verbose": -1}, "xgboost": {"max_depth": 3}}
    for library, kind in theirs.items():
        predicted = {}
        for l1 in (0.0, 30.0):
            model = kind(
                n_estimators=1, learning_rate=1.0, reg_alpha=l1, reg_lambda=2.0, n_jobs=1, **settings[library]
            ).fit(X, y)
            ours = agbm.from_params(library, model).set_params(method__second_order=second_order).fit(X, y)
            np.testing.assert_allclose(ours.predict(X), model.predict(X), atol=1e-5)
            predicted[l1] = ours.predict(X) - y.mean()
        assert np.abs(predicted[30.0]).mean() < 0.9 * np.abs(predicted[0.0]).mean()
        assert (predicted[30.0] == 0.0).any()


class TestForeignNames:
    """Errors for names of other libraries, which suggest the names of agbm."""

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"num_leaves": 31}, "no parameter 'num_leaves': num_leaves is max_leaf_nodes=31 here."),
            ({"n_estimators": 9}, "n_estimators is max_iter=9 here."),
            ({"early_stopping_rounds": 9}, "early_stopping_rounds is n_iter_no_change=9 here."),
            ({"scale_pos_weight": 3}, "scale_pos_weight is class_weight={0: 1.0, 1: 3.0} here."),
            ({"objective": "binary"}, "objective is loss here."),
            ({"num_leaves": "many"}, "num_leaves is max_leaf_nodes here."),
            ({"reg_alpha": 1.0}, "reg_alpha is l1_regularization=1.0 here."),
            ({"eval_set": []}, "pass X_val and y_val"),
            ({"verbosity": -1}, "it is not needed here."),
            ({"max_iters": 9}, "did you mean 'max_iter'?"),
        ],
    )
    def test_of_parameters(self, given, message):
        for attempt, error in ((AGBMClassifier, TypeError), (AGBMClassifier().set_params, ValueError)):
            with pytest.raises(error, match=re.escape(message)):
                attempt(**given)

    def test_unknown_names(self):
        with pytest.raises(TypeError, match="unexpected keyword argument 'wibble'"):
            AGBMRegressor(wibble=1)
        with pytest.raises(ValueError, match="Invalid parameter 'wibble'"):
            AGBMRegressor().set_params(wibble=1)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("eval_set", "fit has no argument 'eval_set': pass X_val and y_val, and other sets as watch="),
            ("early_stopping_rounds", "set n_iter_no_change, a parameter of the estimator."),
            ("sample_weights", "did you mean 'sample_weight'?"),
            ("wibble", "fit has no argument 'wibble'."),
        ],
    )
    def test_of_arguments(self, name, message):
        with pytest.raises(TypeError, match=re.escape(message)):
            AGBMRegressor().fit([[1.0], [2.0]], [1.0, 2.0], **{name: None})

    @pytest.mark.parametrize(
        ("estimator", "loss", "message"),
        [
            (AGBMRegressor, "mse", "AGBMRegressor has no loss 'mse'; use loss='squared_error'."),
            (AGBMRegressor, "mae", "AGBMRegressor has no loss 'mae'; use loss='absolute_error'."),
            (AGBMRegressor, "RMSE", "use loss='squared_error'."),
            (AGBMRegressor, "binary", "AGBMRegressor has no loss 'binary'; use AGBMClassifier(loss='log_loss')."),
            (AGBMClassifier, "binary", "AGBMClassifier has no loss 'binary'; use loss='log_loss'."),
            (AGBMClassifier, "multi:softprob", "use loss='log_loss'."),
            (AGBMClassifier, "l2", "use AGBMRegressor(loss='squared_error')."),
            (AGBMRegressor, "reg:quantileerror", "use loss='quantile:0.9'."),
            (AGBMRegressor, "quantile", "loss='quantile' needs a number after a colon"),
            (AGBMRegressor, "survival:cox", "use AGBMSurvival(loss='cox')."),
            (agbm.AGBMRanker, "lambdarank", "use loss='ndcg'."),
            (AGBMRegressor, "squared_eror", "or a loss object. Did you mean 'squared_error'?"),
            (AGBMRegressor, "hinge", "loss='hinge' must be one of 'auto', 'squared_error'"),
        ],
    )
    def test_of_losses(self, estimator, loss, message):
        rows = {"qid": [1, 1]} if estimator is agbm.AGBMRanker else {}
        with pytest.raises(ValueError, match=re.escape(message)):
            estimator(loss=loss).fit([[1.0], [2.0]], [0, 1], **rows)

    @pytest.mark.parametrize("library", NAMES)
    def test_every_objective_has_a_loss(self, library):
        """Names of other libraries that agbm does not have."""
        for name in LIBRARIES[library].objectives:
            found = of_loss(name)
            if found is None:
                assert is_loss_name(name) or name in ("quantile", "huber", "tweedie")
            else:
                assert is_loss_name(found[1])

    def test_of_verbose(self):
        with pytest.raises(ValueError, match=r"'verbose' parameter of AGBMRegressor must be 0, .*, or 1\. Got -1"):
            AGBMRegressor(verbose=-1).fit([[1.0], [2.0]], [0.0, 1.0])

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("booster_", "AGBMRegressor has no attribute 'booster_'; the fitted state is model_; agbm.export"),
            ("evals_result_", "use history_, which has one entry per iteration, the initial function first."),
            ("best_score_", "use history_['validation_loss'][best_iteration_]."),
            ("save_model", "use save(path)."),
            ("wibble_", "'AGBMRegressor' object has no attribute 'wibble_'"),
        ],
    )
    def test_of_attributes(self, name, message):
        model = AGBMRegressor(max_iter=1, n_members=1)
        for one in (model, model.fit([[1.0], [2.0]], [0.0, 1.0])):
            assert not hasattr(one, name)
            with pytest.raises(AttributeError, match=re.escape(message)):
                getattr(one, name)

    def test_names_that_replace_attributes_exist(self):
        X = np.random.default_rng(0).normal(size=(100, 2))
        model = AGBMRegressor(max_iter=2).fit(pd.DataFrame(X, columns=["a", "b"]), X[:, 0])
        model.history_["validation_loss"][model.best_iteration_]
        for name in ("feature_names_in_", "n_iter_", "n_trees_", "split_counts_", "feature_importances_", "save"):
            assert hasattr(model, name)
        assert "loss" in model.resolved_params_

    def test_missing_attributes_before_fit(self):
        """The error of a property of the fitted model is its own."""
        with pytest.raises(AttributeError, match="has no attribute 'model_'"):
            AGBMRegressor().n_iter_  # noqa: B018
        assert pickle.loads(pickle.dumps(AGBMRegressor(max_iter=3))).max_iter == 3
