"""Comparison with other libraries: the same rows and metrics, and the predictions of each library."""

import subprocess
import sys
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, mean_squared_error
from threadpoolctl import threadpool_limits

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.evaluation import comparison
from agbm._apps.evaluation.comparison import compare
from agbm._apps.evaluation.contenders import DEFAULT, FIVE, ONE_MODEL, OURS, PACKAGES, PAPER, installed_peers
from agbm._apps.evaluation.metrics import Split
from agbm._apps.evaluation.peers import FITS, matrices
from agbm._apps.evaluation.tasks import Classification, KeyedUnit, Regression, Survival, Whole
from agbm._core.methods import METHODS, TITLES
from agbm.losses import Cox
from agbm.methods import GBM
from toys import three_parts

CANCER = Classification(np.array(["benign", "malignant"]))
TESTED = ("LightGBM", "XGBoost", "HistGradientBoosting")


def take(table, rows):
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]


def split(X, y, classifies):
    parts = three_parts(len(y), y if classifies else None)
    train, validation, test = ((take(X, part), y[part]) for part in parts)
    return Split(*train, *validation, *test)


def whole(data):
    """Training and validation rows together."""
    X = data.X, data.X_val
    if isinstance(data.X, pd.DataFrame):
        both = pd.concat(X)
    elif isinstance(data.X, pl.DataFrame):
        both = pl.concat(X)
    elif isinstance(data.X, pa.Table):
        both = pa.concat_tables(X)
    else:
        both = scipy.sparse.vstack(X).tocsc() if scipy.sparse.issparse(data.X) else np.concatenate(X)
    return Whole(both, np.concatenate([data.y, data.y_val]))


def run(data, classifies, *names, **changes):
    options = {"seed": 0, "threads": 1, "max_iter": 60, "patience": 5} | changes
    task = Classification(np.unique(data.y)) if classifies else Regression()
    return list(compare(data, whole(data), task, names, **options))


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    return split(X, np.array(["malignant", "benign"])[y], classifies=True)


@pytest.fixture(scope="module")
def three_classes():
    X, y = load_wine(return_X_y=True)
    return split(X, np.array(["red", "rosé", "white"])[y], classifies=True)


@pytest.fixture(scope="module")
def values():
    return split(*load_diabetes(return_X_y=True), classifies=False)


@pytest.fixture(scope="module")
def table():
    """Text and numbers with missing values; a town occurs only in the validation and test rows."""
    rng = np.random.default_rng(0)
    town = rng.choice(["Rome", "Oslo", "Lima"], 600).astype(object)
    size = rng.normal(size=600)
    y = np.where(rng.random(600) < 1 / (1 + np.exp(-3 * (town == "Oslo") - size)), "yes", "no")
    town[rng.random(600) < 0.1], size[rng.random(600) < 0.1] = None, np.nan
    town[[400, 550]] = "Cairo"
    X = pd.DataFrame({"town": town, "size": size, "kind": pd.Categorical(rng.choice(list("abc"), 600))})
    return Split(X[:360], y[:360], X[360:480], y[360:480], X[480:], y[480:])


def check_curves(data, classifies, tried):
    """Time and trees increase along the curve, and the model that was evaluated is at the index `best`."""
    for one in tried:
        assert one.failure == ""
        columns = [np.array(one.curve[name]) for name in ("trees", "seconds", "validation_loss")]
        trees, seconds, losses = columns
        assert len(trees) == len(seconds) == len(losses) == len(one.curve.get("train_loss", losses))
        assert (np.diff(trees) > 0).all()
        assert (np.diff(seconds) >= 0).all()
        assert seconds[-1] <= one.seconds
        assert one.trees == trees[one.best]
        start = np.array([np.mean(data.y == label) for label in np.unique(data.y)]) if classifies else data.y.mean()
        base = log_loss(data.y_val, np.tile(start, (len(data.y_val), 1))) if classifies else np.var(data.y_val)
        assert losses[one.best] < 0.9 * base  # in the same unit for all, and better than a constant
        if one.name != "HistGradientBoosting":  # it keeps the last model
            assert one.best == losses.argmin()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["two_classes", "three_classes", "values"])
def test_curves_are_of_one_quantity_and_lead_to_the_model(data, request):
    classifies, data = data != "values", request.getfixturevalue(data)
    assert {name: title for name, title in TITLES.items() if name != "fading"} == PAPER
    assert list(TITLES) == list(METHODS)
    tried = run(data, classifies, *OURS, FIVE, *TESTED)
    assert [one.name for one in tried] == [*OURS, FIVE, *TESTED]
    check_curves(data, classifies, tried)
    outputs = 3 if classifies and len(np.unique(data.y)) == 3 else 1
    for one in tried:
        # One of each member for all outputs, or one for each output.
        trees = {DEFAULT: 5, ONE_MODEL: 1}.get(one.name, outputs)
        assert one.curve["trees"][-1] % trees == 0
        per_iteration = {trees, 2 * trees} if one.name in (PAPER["agbm"], PAPER["agbmr"]) else {trees}
        assert set(np.diff(one.curve["trees"]).tolist()) <= per_iteration
        first = one.metrics[0]
        assert (first.name == "log loss") == classifies


def test_agbm_equals_its_estimators(two_classes, values):
    d = two_classes
    model = AGBMClassifier(method=GBM(second_order=True), max_iter=60, n_iter_no_change=5)
    model.fit(d.X, d.y, X_val=d.X_val, y_val=d.y_val)
    (one,) = run(d, True, PAPER["gbm"])
    assert one.metrics[0].value == pytest.approx(log_loss(d.y_test, model.predict_proba(d.X_test)), rel=1e-12)
    assert one.curve["validation_loss"][one.best] == pytest.approx(log_loss(d.y_val, model.predict_proba(d.X_val)))
    assert (one.trees, one.best) == (model.n_trees_, model.best_iteration_)
    assert one.parameters == {"max_iter": 60, "n_iter_no_change": 5, "method": "gbm", "method__second_order": True}

    d = values
    model = AGBMRegressor(max_iter=60, n_iter_no_change=5, max_depth=2, n_members=1, random_state=3)
    model.fit(d.X, d.y, X_val=d.X_val, y_val=d.y_val)
    (one,) = run(d, False, ONE_MODEL, seed=3, parameters={"max_depth": 2})
    assert one.metrics[0].value == pytest.approx(np.sqrt(mean_squared_error(d.y_test, model.predict(d.X_test))))
    assert one.curve["validation_loss"][one.best] == pytest.approx(mean_squared_error(d.y_val, model.predict(d.X_val)))
    assert one.parameters == {"max_iter": 60, "n_iter_no_change": 5, "max_depth": 2, "n_members": 1}

    model = AGBMRegressor(max_iter=60, n_iter_no_change=5, random_state=3)
    groups = np.arange(len(d.y) + len(d.y_val)) // 3
    rows = replace(whole(d), unit={"groups": groups})
    model.fit(rows.X, rows.y, groups=groups)
    (one,) = compare(d, rows, Regression(), [DEFAULT], seed=3, threads=1, max_iter=60, patience=5)
    assert one.metrics[0].value == np.sqrt(mean_squared_error(d.y_test, model.predict(d.X_test)))
    assert one.trees == model.n_trees_


def test_five_lightgbms_by_hand(table):
    """Each validates with other rows; whole groups, if there are groups."""
    d = table
    rows = whole(d)
    keys = np.arange(480, dtype=np.uint64) // 4
    for keyed in (None, KeyedUnit("groups", keys)):
        (one,) = compare(d, replace(rows, keyed=keyed), Classification(np.unique(d.y)), [FIVE], seed=0, threads=1)
        assert one.failure == ""
        found = []
        (X, X_test), _ = matrices([rows.X, d.X_test], "from_dtype")
        y = (rows.y == "yes").astype(int)
        for train, held_out in Classification(np.unique(d.y)).folds(rows.y, 5, 0, keyed):
            if keyed:
                assert not set(keys[train]) & set(keys[held_out])
            rows_of_model = lightgbm.Dataset(
                X[train], y[train], categorical_feature=[0, 2], params={"verbosity": -1, "num_threads": 1}
            )
            model = lightgbm.train(
                {"objective": "binary", "verbosity": -1, "num_threads": 1}, rows_of_model, 1000,
                valid_sets=[rows_of_model.create_valid(X[held_out], y[held_out])],
                callbacks=[lightgbm.early_stopping(20, verbose=False)],
            )  # fmt: skip
            found.append(model)
        mean = np.mean([model.predict(X_test) for model in found], axis=0)
        assert one.metrics[0].value == pytest.approx(log_loss(d.y_test, mean), rel=1e-9)
        assert one.trees == sum(model.best_iteration for model in found)
        assert one.seconds > 0.0


def test_censored_times_have_one_loss_and_one_evaluation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    time, end = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 900)
    y = np.column_stack([np.minimum(time, end), time <= end])
    data = Split(X[:500], y[:500], X[500:], y[500:], X[500:], y[500:])  # the losses of test rows are those of curves
    names = (ONE_MODEL, PAPER["gbm"], "XGBoost", "CatBoost", "LightGBM", "HistGradientBoosting", FIVE)
    tried = list(compare(data, whole(data), Survival(), names, seed=0, threads=1, max_iter=40, patience=5))
    bounds = np.stack([y[500:, 0], np.where(y[500:, 1] > 0.0, y[500:, 0], np.inf)])
    start = Cox().value(bounds, np.zeros((1, 400))).mean()
    for one in tried[:4]:
        assert one.failure == ""
        assert [metric.name for metric in one.metrics] == ["concordance"]
        assert one.metrics[0].value > 0.68
        assert 0.9 * start < min(one.curve["validation_loss"]) < 0.98 * start
    for one in tried[4:6]:
        assert "has no loss for censored times" in one.failure
    assert "not in survival" in tried[6].failure
    numbers = comparison._numbers(data, Survival(), "from_dtype")
    for name in ("XGBoost", "CatBoost"):
        fitted = FITS[name](numbers, comparison.Effort(40, 5, 0, 1))
        risk = np.log(fitted.predicted) if name == "XGBoost" else fitted.predicted
        found = Cox().value(bounds, risk[np.newaxis].astype(float)).mean()
        assert fitted.curve["validation_loss"][fitted.best] == pytest.approx(found, rel=1e-5)


def codes(X):
    """Categories as numbers, by pandas: the most frequent ones of the training rows first."""
    X = X.copy()
    for name in ("town", "kind"):
        known = X[name][:360].value_counts().index
        X[name] = X[name].astype(object).map(dict(zip(known, range(len(known)), strict=True)))
    return X.to_numpy(dtype=float)


def test_peers_equal_their_own_interfaces(table):
    """The estimators of each library on a data frame, or on codes computed with pandas."""
    d = table
    tried = {one.name: one for one in run(d, True, *TESTED)}
    check_curves(d, True, tried.values())
    X = codes(pd.concat([d.X, d.X_val, d.X_test], ignore_index=True))
    parts = X[:360], X[360:480], X[480:]
    y, y_val = (d.y == "yes").astype(int), (d.y_val == "yes").astype(int)
    assert np.isnan(parts[1][40, 0])  # Cairo

    settings = {"objective": "binary", "verbosity": -1, "num_threads": 1}
    rows = lightgbm.Dataset(parts[0], y, categorical_feature=[0, 2], params=settings)
    model = lightgbm.train(
        settings, rows, 60, valid_sets=[rows.create_valid(parts[1], y_val)],
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
    )  # fmt: skip
    by_hand = log_loss(d.y_test, model.predict(parts[2]))
    assert tried["LightGBM"].metrics[0].value == pytest.approx(by_hand, rel=1e-9)
    assert tried["LightGBM"].trees == model.best_iteration

    model = xgboost.XGBClassifier(
        n_estimators=60, early_stopping_rounds=5, n_jobs=1, enable_categorical=True, feature_types=["c", "q", "c"]
    )
    model.fit(parts[0], y, eval_set=[(parts[1], y_val)], verbose=False)
    by_hand = log_loss(d.y_test, model.predict_proba(parts[2]))
    assert tried["XGBoost"].metrics[0].value == pytest.approx(by_hand, rel=1e-6)
    assert tried["XGBoost"].trees == model.best_iteration + 1

    model = HistGradientBoostingClassifier(
        max_iter=60, n_iter_no_change=5, early_stopping=True, categorical_features=[0, 2]
    )
    with threadpool_limits(1):
        model.fit(parts[0], d.y, X_val=parts[1], y_val=d.y_val)
    by_hand = log_loss(d.y_test, model.predict_proba(parts[2]))
    assert tried["HistGradientBoosting"].metrics[0].value == pytest.approx(by_hand, rel=1e-9)
    assert tried["HistGradientBoosting"].trees == model.n_iter_


@pytest.mark.slow
@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, lambda X: X.to_numpy(dtype=object)])
def test_every_kind_of_table_gives_the_same(table, convert):
    d = table
    wanted = run(d, True, DEFAULT, FIVE, *TESTED)
    converted = Split(convert(d.X), d.y, convert(d.X_val), d.y_val, convert(d.X_test), d.y_test)
    found = run(converted, True, DEFAULT, FIVE, *TESTED)
    for one, other in zip(wanted, found, strict=True):
        assert one.metrics == other.metrics != ()


def test_sparse_rows(two_classes):
    d = two_classes
    X, X_val, X_test = (scipy.sparse.csc_array(np.where(part > 0.1, part, 0.0)) for part in (d.X, d.X_val, d.X_test))
    sparse = Split(X, d.y, X_val, d.y_val, X_test, d.y_test)
    dense = Split(X.toarray(), d.y, X_val.toarray(), d.y_val, X_test.toarray(), d.y_test)
    ours, light, xgb, refused = run(sparse, True, DEFAULT, *TESTED)
    assert [ours.metrics, light.metrics] == [one.metrics for one in run(dense, True, DEFAULT, "LightGBM")]
    assert xgb.metrics[0].value < 0.3
    assert refused.failure.startswith("TypeError: Sparse data was passed")
    assert "\n" not in refused.failure
    assert (refused.metrics, refused.trees) == ((), 0)


def test_a_single_column_with_more_categories_than_some_take():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"code": rng.integers(0, 300, 3000).astype(str)})
    y = (X["code"].astype(int) % 7).to_numpy(dtype=float) + rng.normal(size=3000)
    ours, light, xgb, refused = run(split(X, y, classifies=False), False, DEFAULT, *TESTED)
    assert "255" in refused.failure
    assert [one.metrics[2].name for one in (ours, light, xgb)] == ["R²"] * 3
    assert ours.metrics[2].value > 0.2


def test_failures_and_interrupts(two_classes, monkeypatch):
    def fail(error):
        def fit(data, effort):
            raise error

        return {**FITS, "LightGBM": fit}

    monkeypatch.setattr(comparison, "FITS", fail(RuntimeError("\nno memory left\n  at line 7")))
    light, ours = run(two_classes, True, "LightGBM", ONE_MODEL)
    assert light.failure == "RuntimeError: no memory left"
    assert ours.metrics
    monkeypatch.setattr(comparison, "FITS", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(two_classes, True, "LightGBM", ONE_MODEL)
    (ours,) = run(two_classes, True, ONE_MODEL, parameters={"learning_rate": -1.0})
    assert "learning_rate" in ours.failure


def test_results_come_one_by_one(two_classes, monkeypatch):
    fitted = []
    ours = comparison._fit_ours
    monkeypatch.setattr(comparison, "_fit_ours", lambda *args: fitted.append(args[3]) or ours(*args))
    tried = compare(two_classes, whole(two_classes), CANCER, [PAPER["gbm"], DEFAULT], seed=0, threads=1, max_iter=5)
    assert next(tried).name == PAPER["gbm"]
    assert fitted == [PAPER["gbm"]]


def test_errors_common_to_all_are_raised_first(two_classes, monkeypatch):
    d = two_classes

    def start(*names, data=d, **options):
        compare(data, whole(d), CANCER, names, seed=0, threads=1, **options)

    with pytest.raises(ValueError, match=r"\['gbmm'\] are unknown; known are \['agbm', 'agbm, one model', "):
        start(DEFAULT, "gbmm")
    with pytest.raises(ValueError, match=r"\['loss', 'method'\]"):
        start(DEFAULT, parameters={"method": "gbm", "loss": "exponential"})
    other = np.append(d.y_test[1:], "unclear")
    with pytest.raises(ValueError, match=r"the test rows have labels \['unclear'\]"):
        start(DEFAULT, data=replace(d, y_test=other))
    monkeypatch.setattr(comparison, "installed_peers", lambda: ["HistGradientBoosting"])
    with pytest.raises(
        ImportError, match=r"\['LightGBM', 'CatBoost'\] are not installed: pip install lightgbm catboost"
    ):
        start("LightGBM", FIVE, DEFAULT, "CatBoost")


@pytest.mark.slow
def test_peers_are_found_without_importing_them():
    assert set(TESTED) <= set(installed_peers())
    assert set(FITS) == set(PACKAGES)
    code = (
        "import sys; from agbm._apps.evaluation.contenders import installed_peers; installed_peers();"
        "assert not {'lightgbm', 'xgboost', 'catboost'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_categories_that_are_named_are_categories_for_all(table):
    X = np.column_stack([np.arange(9) % 3, np.arange(9)]).astype(float)
    (first, second), mask = matrices([X, X[::-1]], [0])
    assert mask.tolist() == [True, False]
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X[::-1])
    d = table
    numbers = [part.assign(kind=part["kind"].cat.codes) for part in (d.X, d.X_val, d.X_test)]
    coded = Split(numbers[0], d.y, numbers[1], d.y_val, numbers[2], d.y_test)
    named = run(coded, True, DEFAULT, *TESTED, parameters={"categorical_features": ["town", "kind"]})
    for one, other in zip(named, run(d, True, DEFAULT, *TESTED), strict=True):
        assert one.metrics == other.metrics
