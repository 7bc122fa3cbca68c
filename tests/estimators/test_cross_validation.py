"""Cross-validation: each fold equals the fit of its rows, without leakage from the test rows."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm.dask import DaskAGBMRegressor
from agbm.methods import Fading


def table(n=240, seed=0):
    """Few distinct values per feature, which all folds have: their bins are those of the whole table."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 4)).astype(float)
    X[rng.random((n, 4)) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1] - X[:, 2]) + rng.normal(size=n)
    return X, y, rng


def three_classes(y):
    return np.array(["a", "b", "c"])[np.digitize(y, [0.0, 5.0])]


CASES = {
    "regression": (AGBMRegressor(max_iter=12, n_members=2, early_stopping=False), lambda y: y),
    "quantile": (AGBMRegressor(max_iter=8, n_members=1, loss="quantile:0.8", early_stopping=False), lambda y: y),
    "two outputs": (AGBMRegressor(max_iter=8, n_members=1, early_stopping=False), lambda y: np.column_stack([y, -y])),
    "paper": (AGBMRegressor(method="agbmr", max_iter=12, early_stopping=False), lambda y: y),
    "dropout": (AGBMRegressor(max_iter=10, method=Fading(dropout=0.3), n_members=2, early_stopping=False), lambda y: y),
    "subsample": (AGBMRegressor(max_iter=8, subsample=0.6, n_members=2, early_stopping=False), lambda y: y),
    "two classes": (AGBMClassifier(max_iter=12, class_weight="balanced", early_stopping=False), lambda y: y > 2),
    "three classes": (AGBMClassifier(max_iter=8, n_members=1, early_stopping=False), three_classes),
    "other learner": (
        AGBMRegressor(max_iter=6, method=Fading(learner=Ridge()), categorical_features=None),
        lambda y: y,
    ),
}


@pytest.mark.parametrize("weight", [None, "counts", "floats"])
@pytest.mark.parametrize("case", CASES)
def test_fold_equals_fit_of_its_rows(case, weight):
    estimator, labels = CASES[case]
    X, y, rng = table()
    if case == "other learner":
        X = np.nan_to_num(X)
    y = labels(y)
    weights = {None: None, "counts": rng.integers(0, 4, len(y)), "floats": rng.random(len(y))}[weight]
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    result = agbm.cv(estimator, X, y, cv=splits, sample_weight=weights, scoring="r2" if y.dtype == float else None)

    predict = "predict_proba" if isinstance(estimator, AGBMClassifier) else "predict"
    for k, (train, test) in enumerate(splits):
        of = {} if weights is None else {"sample_weight": weights[train], "sample_weight_val": weights[test]}
        alone = AGBMClassifier if isinstance(estimator, AGBMClassifier) else AGBMRegressor
        alone = alone(
            **{**estimator.get_params(deep=False), "early_stopping": False, "scoring": result.estimators[k].scoring}
        )
        alone.fit(X[train], y[train], X_val=X[test], y_val=y[test], **of)
        fold = result.estimators[k]
        n = result.n_iter + 1
        several = fold.resolved_params_["n_members"] > 1
        for name in alone.history_.keys() - {"seconds", "validation_loss" if several else ""}:
            np.testing.assert_array_equal(fold.history_[name], alone.history_[name][:n], err_msg=name)
        chosen = alone.at_iteration(result.best_iteration)
        np.testing.assert_array_equal(getattr(fold, predict)(X), getattr(chosen, predict)(X))
        np.testing.assert_array_equal(result.predictions[test], getattr(chosen, predict)(X[test]))
        if not several:
            assert result.scores["validation_loss"][k] == alone.history_["validation_loss"][result.best_iteration]


def test_the_validation_loss_is_that_of_the_model():
    X, y, rng = table()
    weights = rng.random(len(y))
    result = agbm.cv(AGBMRegressor(max_iter=6, n_members=3, early_stopping=False), X, y, cv=3, sample_weight=weights)
    for k, (_, test) in enumerate(result.splits):
        by_hand = np.average((y[test] - result.predictions[test]) ** 2, weights=weights[test]) / 2
        assert result.scores["validation_loss"][k] == pytest.approx(by_hand, rel=1e-12)
    train, test = result.splits[0]
    alone = AGBMRegressor(max_iter=6, n_members=3, early_stopping=False)
    alone.fit(X[train], y[train], weights[train], X[test], y[test], weights[test])
    assert result.scores["validation_loss"][0] < alone.history_["validation_loss"][result.best_iteration]  # convex


def test_sparse_and_categorical_tables():
    X, y, rng = table()
    dense, sparse = np.nan_to_num(X), csr_matrix(np.nan_to_num(X))
    estimator = AGBMRegressor(max_iter=8, n_members=1, early_stopping=False)
    of_dense, of_sparse = agbm.cv(estimator, dense, y, cv=3), agbm.cv(estimator, sparse, y, cv=3)
    np.testing.assert_array_equal(of_dense.predictions, of_sparse.predictions)

    frame = pd.DataFrame(X[:, :2], columns=["p", "q"])
    frame.insert(1, "city", rng.choice(["a", "b", "c", "d"], len(y)))
    y = y + frame["city"].map({"a": 0.0, "b": 9.0, "c": -5.0, "d": 3.0}).to_numpy()
    result = agbm.cv(estimator, frame, y, cv=KFold(3))
    for (train, test), fold in zip(result.splits, result.estimators, strict=True):
        alone = AGBMRegressor(max_iter=result.best_iteration, n_members=1, early_stopping=False)
        alone.fit(frame.iloc[train], y[train])
        np.testing.assert_array_equal(fold.predict(frame), alone.predict(frame))
        np.testing.assert_array_equal(result.predictions[test], alone.predict(frame.iloc[test]))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_labels_of_the_test_fold_do_not_affect_training(class_weight):
    rng = np.random.default_rng(1)
    n = 600
    X = pd.DataFrame({"number": rng.normal(size=n), "name": rng.choice([f"n{i}" for i in range(60)], n)})
    y = rng.random(n) < 0.4
    splits = list(KFold(3).split(X))
    other = y.copy()
    other[splits[0][1]] = ~y[splits[0][1]]
    estimator = AGBMClassifier(max_iter=5, max_bins=16, early_stopping=False, n_members=1, class_weight=class_weight)
    first, second = (agbm.cv(estimator, X, labels, cv=splits) for labels in (y, other))
    histories = [result.estimators[0].history_ for result in (first, second)]
    np.testing.assert_array_equal(*[history["train_loss"] for history in histories])
    assert (histories[0]["validation_loss"] != histories[1]["validation_loss"]).all()
    changed = [result.estimators[1].history_["train_loss"] for result in (first, second)]
    assert (changed[0][1:] != changed[1][1:]).all()


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_results_do_not_depend_on_n_jobs(n_jobs):
    X, y, _ = table()
    one, many = (agbm.cv(AGBMRegressor(max_iter=10, n_jobs=jobs), X, y, cv=3) for jobs in (1, n_jobs))
    np.testing.assert_array_equal(one.predictions, many.predictions)
    for name in one.history.keys() - {"seconds"}:
        np.testing.assert_array_equal(one.history[name], many.history[name])


def test_history_and_best_iteration():
    X, y, rng = table()
    y = y + rng.normal(scale=4.0, size=len(y))
    result = agbm.cv(AGBMRegressor(n_iter_no_change=7), X, y, scoring=["neg_mean_absolute_error", "r2"])
    frame = pd.DataFrame(result.history)
    assert list(frame.columns[:3]) == ["iteration", "trees", "seconds"]
    assert len(frame) == result.n_iter + 1 == result.best_iteration + 8
    assert frame["validation_neg_mean_absolute_error_mean"].argmax() == result.best_iteration
    of_folds = np.array([fold.history_["validation_r2"] for fold in result.estimators])
    np.testing.assert_allclose(frame["validation_r2_mean"], of_folds.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(frame["validation_r2_std"], of_folds.std(axis=0), rtol=1e-14)
    np.testing.assert_array_equal(result.scores["validation_r2"], of_folds[:, result.best_iteration])
    assert (frame["trees"] == 5 * frame["iteration"]).all()
    assert all(fold.best_iteration_ == result.best_iteration for fold in result.estimators)
    assert f"best_iteration={result.best_iteration}, train_loss=" in repr(result)
    final = AGBMRegressor(**result.best_params).fit(X, y)
    assert final.best_iteration_ == result.best_iteration


def test_splitters():
    X, y, rng = table(120)
    estimator = AGBMRegressor(max_iter=4, n_members=1)
    groups = rng.integers(0, 8, len(y))
    result = agbm.cv(estimator, X, y, cv=GroupKFold(4), groups=groups)
    assert all(not set(groups[train]) & set(groups[test]) for train, test in result.splits)

    repeated = agbm.cv(estimator, X, y, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0))
    assert len(repeated.estimators) == 6
    by_hand = np.mean(
        [[f.predict(X)[i] for (_, test), f in zip(repeated.splits, repeated.estimators, strict=True) if i in test]
         for i in range(10)], axis=1
    )  # fmt: skip
    np.testing.assert_allclose(repeated.predictions[:10], by_hand, rtol=1e-14)

    shuffled = agbm.cv(estimator, X, y, cv=ShuffleSplit(2, test_size=0.2, random_state=0))
    tested = np.unique(np.concatenate([test for _, test in shuffled.splits]))
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(shuffled.predictions)), tested)

    masks = [(np.arange(120) >= 40, np.arange(120) < 40)]
    assert len(agbm.cv(estimator, X, y, cv=masks).splits[0][1]) == 40
    classes = agbm.cv(AGBMClassifier(max_iter=2, n_members=1), X, y > 2, cv=4)
    wanted = StratifiedKFold(4).split(X, y > 2)
    assert all((a[1] == b[1]).all() for a, b in zip(classes.splits, wanted, strict=True))
    assert classes.predictions.shape == (120, 2)


@pytest.mark.parametrize("kind", ["counts", "shares", "several labels", "times", "queries"])
def test_folds_are_stratified(kind):
    """Rare labels are in the training and in the test rows of every fold, although they are neighbours."""
    X, rare = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) < 3
    query = np.arange(60) % 12
    estimator, y, weight = {
        "counts": (AGBMRegressor(loss="poisson"), rare * 2.0, np.arange(60) != 30),
        "shares": (AGBMClassifier(loss="cross_entropy"), 0.8 * rare, None),
        "several labels": (AGBMClassifier(), np.column_stack([np.arange(60) % 2, rare]), None),
        "times": (agbm.AGBMSurvival(), np.column_stack([1.0 + np.arange(60), rare]), None),
        "queries": (agbm.AGBMRanker(), np.column_stack([rare, query]), None),
    }[kind]
    result = agbm.cv(estimator.set_params(max_iter=2), X, y, cv=3, sample_weight=weight)
    for train, test in result.splits:
        assert rare[train].sum() == 2
        assert rare[test].sum() == 1
        assert len(test) == 20
        if kind == "queries":
            assert set(query[train]).isdisjoint(query[test])


def test_init_models_and_callbacks():
    X, y, _ = table()
    start = DummyRegressor(strategy="constant", constant=7.0).fit(X, y)
    records = []
    estimator = AGBMRegressor(max_iter=9, init=start, callbacks=[lambda r: records.append(r) or r.iteration == 3])
    result = agbm.cv(estimator, X, y, cv=3)
    assert result.n_iter == 3
    np.testing.assert_allclose([r.validation_loss for r in records], result.history["validation_loss_mean"], rtol=1e-14)
    test = result.splits[0][1]
    np.testing.assert_array_equal(result.predictions[test], result.estimators[0].predict(X[test]))
    np.testing.assert_allclose(
        result.history["validation_loss_mean"][0], np.mean([((y[t] - 7.0) ** 2).mean() / 2 for _, t in result.splits])
    )
    assert not hasattr(estimator, "model_")


def test_divergence_warning_points_at_the_call():
    X, y, _ = table()
    with pytest.warns(UserWarning, match="Training diverged") as caught:
        agbm.cv(AGBMRegressor(method="gbm", learning_rate=50.0, max_iter=50), X, y, cv=3)
    assert caught[0].filename == __file__


def test_errors():
    X, y, _ = table(60)
    model = AGBMRegressor(max_iter=2)
    with pytest.raises(TypeError, match="use cross_validate of scikit-learn"):
        agbm.cv(make_pipeline(StandardScaler(), model), X, y)
    with pytest.raises(TypeError, match=r"must be a table in memory.*got Batches"):
        agbm.cv(model, agbm.Batches(lambda: iter([X])), y)
    with pytest.raises(ValueError, match="remove Checkpoint"):
        agbm.cv(AGBMRegressor(callbacks=[agbm.Checkpoint("x")]), X, y)
    with pytest.raises(ValueError, match=r"cv, fold 0: the training rows have no row of class 2"):
        agbm.cv(AGBMClassifier(max_iter=2), X, np.repeat([2, 0, 1], 20), cv=KFold(3))
    with pytest.raises(ValueError, match="cv has no folds"):
        agbm.cv(model, X, y, cv=[])
    with pytest.raises(ValueError, match="fold 0 has no test rows"):
        agbm.cv(model, X, y, cv=[(np.arange(60), [])])
    with pytest.raises(ValueError, match="fold 1: rows must be from 0 to 59"):
        agbm.cv(model, X, y, cv=[([0, 1], [2, 3]), ([0, 1], [60])])
    with pytest.raises(ValueError, match="scoring='rmse' must be"):
        agbm.cv(model, X, y, scoring="rmse")
    with pytest.raises(ValueError, match="fold 0: sample_weight: all test rows have weight zero"):
        agbm.cv(model, X, y, cv=KFold(3), sample_weight=np.repeat([0, 1], [20, 40]))
    with pytest.raises(ValueError, match="max_depth"):
        agbm.cv(AGBMRegressor(max_depth=0), X, y)
    with pytest.raises(ValueError, match="learner"):
        agbm.cv(AGBMRegressor(method=Fading(learner=DecisionTreeRegressor()), subsample=0.5), np.nan_to_num(X), y)


def test_dask_estimators_are_refused():
    X, y, _ = table(60)
    with pytest.raises(TypeError, match="DaskAGBMRegressor is for Dask"):
        agbm.cv(DaskAGBMRegressor(), X, y)
    lazy = da.from_array(X)
    with pytest.raises(TypeError, match="must be a table in memory"):
        agbm.cv(AGBMRegressor(), lazy, y)


def test_convergence_plot():
    X, y, _ = table()
    result = agbm.cv(AGBMRegressor(max_iter=10), X, y, cv=3, scoring="r2")
    ax = agbm.plot.convergence(result, against="iterations")
    drawn = {line.get_linestyle(): line.get_ydata() for line in ax.get_lines() if len(line.get_ydata()) > 1}
    np.testing.assert_array_equal(drawn["-"], result.history["validation_loss_mean"])
    np.testing.assert_array_equal(drawn["--"], result.history["train_loss_mean"])
    (band,) = ax.collections
    top = result.history["validation_loss_mean"] + result.history["validation_loss_std"]
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(top.max())
    model = AGBMRegressor(max_iter=10).fit(X, y)
    assert len(agbm.plot.convergence({"cv": result, "fit": model}).collections) == 1
    with pytest.raises(TypeError, match="CrossValidation"):
        agbm.plot.importances(result)
