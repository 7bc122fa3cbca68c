"""Updates of fitted models with new rows, in four modes."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm._core import reweigh
from agbm._core.reweigh import groups_of
from agbm._lifecycle.update import MODES
from agbm.export import to_lightgbm
from agbm.methods import AGBM, GBM, Fading
from toys import rewrite
from variants import made, methods

OLD, NEW, LATER = slice(0, 300), slice(300, 500), slice(500, 600)
modes = pytest.mark.parametrize("mode", MODES)


def drifting(kind="numbers"):
    """Rows with missing values and a category, of which the later ones follow another rule."""
    random = np.random.default_rng(3)
    X = pd.DataFrame(random.normal(size=(600, 3)), columns=list("abc"))
    X["d"] = pd.Categorical(random.choice(list("uvwxyz"), 600))
    score = X["a"] * 2 + np.sin(3 * X["b"]) + X["d"].isin(["u", "x"]) + (X.index >= 300) * (1.0 + X["c"])
    X.loc[::11, "a"] = np.nan
    noisy = score.fillna(0.0) + 0.3 * random.normal(size=600)
    if kind == "numbers":
        return X, noisy
    if kind == "two outputs":
        return X, np.column_stack([noisy, -noisy + X["c"]])
    return X, pd.cut(noisy, 2 if kind == "two classes" else 3, labels=False).map(dict(enumerate(["no", "so", "yes"])))


def fitted(kind="numbers", **parameters):
    """A model of the old rows, and all rows."""
    X, y = drifting(kind)
    estimator = AGBMRegressor if kind in ("numbers", "two outputs") else AGBMClassifier
    settings = {"max_iter": 6, "max_leaf_nodes": 6, "n_members": 2, "n_iter_no_change": 5} | parameters
    return estimator(**settings).fit(X[OLD], y[OLD]), X, y


def copied(model):
    """A copy with the same bytes; copy.deepcopy does not copy the padding of nodes."""
    return pickle.loads(pickle.dumps(model))


def bytes_of(model, folder):
    """The model file, but for how long it took."""
    model.history_["seconds"] = np.zeros_like(model.history_["seconds"])
    model.save(folder / "model.agbm")
    return (folder / "model.agbm").read_bytes()


def raw(model, X):
    """Raw scores (output, row)."""
    return model.model_.raw_predict(X, 1)


# Every mode.


@modes
@pytest.mark.parametrize("kind", ["numbers", "two outputs", "two classes", "three classes"])
def test_updated_models_predict_and_save(kind, mode, tmp_path):
    model, X, y = fitted(kind)
    before = model.predict(X)
    assert model.update(X[NEW], y[NEW], mode=mode) is model
    found = raw(model, X)
    assert not np.array_equal(model.predict(X), before)
    assert len(model.history_["iteration"]) > model.best_iteration_
    assert np.array_equal(model.history_["iteration"], np.arange(model.n_iter_ + 1))
    stages = list(model.staged_predict(X))
    assert len(stages) == model.best_iteration_
    if kind == "numbers":
        np.testing.assert_allclose(stages[-1], model.predict(X), atol=1e-12)
        np.testing.assert_allclose(model.at_iteration(3).predict(X), stages[2], atol=1e-12)
    np.testing.assert_allclose(
        model.predict_contributions(X).reshape(len(X), len(found), -1).sum(-1).T, found, atol=1e-9
    )
    assert model.apply(X).shape == (len(X), model.n_trees_)
    assert len(to_lightgbm(model)) > 1000
    model.save(tmp_path / "m.agbm")
    loaded = agbm.load(tmp_path / "m.agbm")
    np.testing.assert_array_equal(raw(loaded, X), found)
    assert loaded.model_.updates == model.model_.updates
    np.testing.assert_array_equal(loaded.history_["train_loss"], model.history_["train_loss"])
    loaded.update(X[LATER], y[LATER], mode="leaves")  # once more


@modes
@methods
@pytest.mark.parametrize("second_order", [False, True])
def test_updates_help_on_later_rows(mode, method, second_order):
    model, X, y = fitted(
        method=made(method, momentum="fading", shared_structure=True, second_order=second_order), max_iter=20
    )
    before = np.mean((model.predict(X[LATER]) - y[LATER]) ** 2)
    after = np.mean((model.update(X[NEW], y[NEW], mode=mode).predict(X[LATER]) - y[LATER]) ** 2)
    assert after < before


@modes
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        *(
            (kind, given)
            for kind in ("numbers", "three classes")
            for given in ({}, {"method": Fading(dropout=0.3)}, {"method": AGBM()})
        ),
        ("numbers", {"loss": "absolute_error"}),
    ],
)
def test_the_same_bits_for_batches_and_threads(kind, mode, parameters, tmp_path):
    model, X, y = fitted(kind, n_jobs=1, **parameters)
    weight = np.random.default_rng(0).random(600)
    X_new, y_new, w_new = X[NEW], y[NEW], weight[NEW]
    expected = bytes_of(copied(model).update(X_new, y_new, w_new, mode=mode), tmp_path)
    pieces = [slice(0, 70), slice(70, 71), slice(71, 71), slice(71, 200)]
    batches = agbm.Batches(lambda: ((X_new.iloc[s], y_new.iloc[s], w_new[s]) for s in pieces), bins="mmap")
    assert bytes_of(copied(model).update(batches, mode=mode), tmp_path) == expected
    threads = copied(model).set_params(n_jobs=3).update(X_new, y_new, w_new, mode=mode).set_params(n_jobs=1)
    assert bytes_of(threads, tmp_path) == expected


@modes
@pytest.mark.parametrize("loss", ["squared_error", "quantile:0.3"])
def test_integer_weights_are_repetitions(mode, loss, tmp_path):
    model, X, y = fitted(loss=loss, early_stopping=False)
    repeats = np.random.default_rng(1).integers(0, 4, 200)
    again = np.repeat(np.arange(300, 500), repeats)
    weighed = copied(model).update(X[NEW], y[NEW], repeats, mode=mode)
    repeated = copied(model).update(X.iloc[again], y.iloc[again], mode=mode)
    if mode in ("trees", "all"):  # the order of the rows affects nothing else without held-out rows
        np.testing.assert_allclose(weighed.predict(X), repeated.predict(X), atol=1e-9)
    else:
        np.testing.assert_array_equal(raw(weighed, X), raw(repeated, X))


@modes
def test_a_failed_update_changes_nothing(mode, tmp_path):
    model, X, y = fitted("three classes")
    before = bytes_of(model, tmp_path)
    with pytest.raises(ValueError, match="feature names should match"):
        model.update(X[NEW][["a", "b"]], y[NEW], mode=mode)
    with pytest.raises(ValueError, match=r"y has classes \['maybe'\] that the model does not have; it has \['no'"):
        model.update(X[NEW], y[NEW].replace("so", "maybe"), mode=mode)
    assert bytes_of(model, tmp_path) == before
    model.update(X[NEW], y[NEW].replace("so", "no"), mode=mode)  # a class may be absent
    assert model.classes_.tolist() == ["no", "so", "yes"]


@modes
def test_unknown_categories_and_missing_values(mode):
    model, X, y = fitted()
    new = X[NEW].assign(d=pd.Categorical(np.where(np.arange(200) % 3, "brand new", "u")), b=np.nan)
    assert np.isfinite(model.update(new, y[NEW], mode=mode).predict(new)).all()
    assert model.model_.categories == fitted()[0].model_.categories


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights"])
def test_warm_start_after_an_update(mode, tmp_path):
    model, X, y = fitted(warm_start=True)
    model.update(X[NEW], y[NEW], mode=mode).save(tmp_path / "m.agbm")
    for one in (model, agbm.load(tmp_path / "m.agbm")):
        with pytest.raises(
            ValueError, match=re.escape(f"warm_start=True cannot resume this model: update(mode='{mode}')")
        ):
            one.set_params(max_iter=200).fit(X[NEW], y[NEW])
        assert one.set_params(warm_start=False).fit(X[NEW], y[NEW]).model_.updates == ()


def test_warm_start_after_training_from_scratch():
    model, X, y = fitted(warm_start=True, early_stopping=False)
    model.update(X[NEW], y[NEW], mode="all")
    longer = copied(model).set_params(max_iter=9).fit(X[NEW], y[NEW])
    np.testing.assert_array_equal(raw(longer.at_iteration(6), X), raw(model, X))


def test_files_with_other_updates(tmp_path):
    model, X, y = fitted()
    model.update(X[NEW], y[NEW], mode="trees").save(tmp_path / "m.agbm")
    for wrong in (
        3,
        [3],
        [["trees"]],
        [["trees", -1]],
        [["trees", 5], ["trees", 3]],
        [["trees", True]],
        [["trees", 1.5]],
    ):

        def change(description, arrays, wrong=wrong):
            description["updates"] = wrong

        rewrite(tmp_path / "m.agbm", change)
        with pytest.raises(agbm.ModelFileError, match="updates"):
            agbm.load(tmp_path / "m.agbm")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "forest"}, r"mode='forest' must be one of \['trees', 'leaves', 'weights', 'all'\]"),
        ({"mode": "leaves", "max_iter": 3}, "max_iter has no effect with mode='leaves'"),
        ({"mode": "weights", "X_val": 1, "y_val": 1}, "X_val has no effect with mode='weights'"),
        ({"mode": "trees", "old_weight": 1.0}, "old_weight=1.0 works with mode='leaves' and mode='weights'"),
        ({"mode": "leaves", "old_weight": -1.0}, "old_weight=-1.0 must be a finite number, at least 0"),
        ({"mode": "trees", "max_iter": 0}, "max_iter"),
    ],
)
def test_bad_arguments(arguments, message):
    model, X, y = fitted()
    with pytest.raises(ValueError, match=message):
        model.update(X[NEW], y[NEW], **arguments)


def test_an_estimator_that_is_not_fitted():
    with pytest.raises(Exception, match="not fitted"):
        AGBMRegressor().update(np.zeros((3, 1)), np.zeros(3), mode="all")


def test_the_settings_are_those_of_the_model():
    model, X, y = fitted()
    expected = copied(model).update(X[NEW], y[NEW], mode="all").predict(X)
    model.set_params(learning_rate=0.9, max_leaf_nodes=2)
    np.testing.assert_array_equal(model.update(X[NEW], y[NEW], mode="all").predict(X), expected)


# More trees.


def test_more_trees_are_those_of_a_fit_that_starts_from_the_model():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    old = AGBMRegressor(max_iter=7, n_members=2, colsample_bytree=0.6).fit(X[:200], y[:200])
    model = copied(old).update(X[200:], y[200:], mode="trees", max_iter=9)
    again = AGBMRegressor(
        max_iter=9, n_members=2, colsample_bytree=0.6, init=old, random_state=_seed_that_gives(model.model_.seed)
    ).fit(X[200:], y[200:])
    np.testing.assert_allclose(model.predict(X), again.predict(X), atol=1e-9)
    assert model.best_iteration_ == old.best_iteration_ + again.best_iteration_
    assert model.n_trees_ == old.n_trees_ + again.n_trees_
    np.testing.assert_allclose(
        model.history_["train_loss"][old.best_iteration_ + 1 :], again.history_["train_loss"][1:]
    )
    for stage, expected in zip(model.staged_predict(X), old.staged_predict(X), strict=False):
        np.testing.assert_allclose(stage, expected, atol=1e-9)
    assert model.history_["restart"][old.best_iteration_ + 1]


def _seed_that_gives(seed):
    """A random state whose first draw is the seed of a model."""

    class Drawn(np.random.RandomState):
        def randint(self, *_):
            return seed

    return Drawn()


def test_early_stopping_of_more_trees():
    model, X, y = fitted(n_iter_no_change=2)
    first = model.best_iteration_
    model.update(X[NEW], y[NEW], X_val=X[LATER], y_val=y[LATER], mode="trees", max_iter=500)
    losses = model.history_["validation_loss"][first + 1 :]
    assert model.best_iteration_ == first + 1 + np.argmin(losses)
    assert model.n_iter_ < first + 500


def test_other_learners():
    X, y = make_regression(400, 3, noise=1.0, random_state=0)
    model = AGBMRegressor(method=GBM(learner=LinearRegression()), max_iter=3).fit(X[:200], y[:200])
    for mode in ("leaves", "weights"):
        with pytest.raises(ValueError, match=re.escape(f"update(mode='{mode}')() works with trees only")):
            model.update(X[200:], y[200:], mode=mode)
    before = np.mean((model.predict(X[200:]) - y[200:]) ** 2)
    model.update(X[200:], y[200:], mode="trees")
    assert model.best_iteration_ == 6
    assert np.mean((model.predict(X[200:]) - y[200:]) ** 2) < before


def test_a_model_that_starts_from_another():
    X, y = make_regression(400, 3, noise=1.0, random_state=0)
    y[200:] += 50.0
    for mode in MODES:
        model = AGBMRegressor(max_iter=5, init=LinearRegression().fit(X, y + 30.0)).fit(X[:200], y[:200])
        before = np.mean((model.predict(X[200:]) - y[200:]) ** 2)
        assert np.mean((model.update(X[200:], y[200:], mode=mode).predict(X[200:]) - y[200:]) ** 2) < before


# New leaf values.


def refitted(model, X, y, old_weight, step, l2, logistic):
    """Plain boosting with the structures of a model, in NumPy: the scores of the rows."""
    forest, leaves = model.model_.folded, model.apply(X)
    f = np.full(len(y), level(model.model_.start[0], y, old_weight * 300, logistic))
    for tree, begin in enumerate(forest.roots):
        end = np.append(forest.roots, len(forest.nodes))[tree + 1]
        nodes, value = forest.nodes[begin:end], forest.value[begin:end, 0] / step
        old, n_old = value[nodes["feature"] < 0], nodes["count"][nodes["feature"] < 0]
        p = expit(f) if logistic else f
        r = y - p
        h = np.maximum(p * (1 - p), np.abs(r) / 6) if logistic else np.ones(len(y))
        new = old.copy()
        for leaf in np.unique(leaves[:, tree]):
            rows = leaves[:, tree] == leaf
            prior = old_weight * n_old[leaf] * h[rows].mean()
            new[leaf] = (r[rows].sum() + prior * old[leaf]) / (h[rows].sum() + l2 + prior)
        f = f + step * new[leaves[:, tree]]
    return f


def level(old, y, n_old, logistic):
    """The constant with the smallest loss of the labels and of n_old rows, whose loss is a parabola around `old`."""
    curvature = np.maximum(expit(old) * expit(-old), np.abs(y - expit(old)) / 6).mean() if logistic else 1.0

    def slope(constant):
        return np.sum(y - (expit(constant) if logistic else constant)) + n_old * curvature * (old - constant)

    return brentq(slope, -1000.0, 1000.0, xtol=1e-12)


@pytest.mark.parametrize("old_weight", [0.0, 0.5])
@pytest.mark.parametrize("logistic", [False, True])
def test_leaves_are_those_of_plain_boosting(old_weight, logistic):
    X, y = make_regression(500, 4, noise=5.0, random_state=0)
    y = (y > 0).astype(float) if logistic else y
    kind = AGBMClassifier if logistic else AGBMRegressor
    model = kind(
        method=GBM(second_order=True), max_iter=8, learning_rate=0.3, l2_regularization=2.0, early_stopping=False
    ).fit(X[:300], y[:300])
    y_new = 1.0 - y[300:] if logistic else y[300:] + 40.0 * X[300:, 0]
    expected = refitted(model, X[300:], y_new, old_weight, 0.3, 2.0, logistic)
    model.update(X[300:], y_new, mode="leaves", old_weight=old_weight)
    np.testing.assert_allclose(raw(model, X[300:])[0], expected, rtol=1e-9, atol=1e-9)


@methods
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_the_rows_of_the_fit_give_the_model_again(method, shared, strategy):
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    model = AGBMClassifier(
        method=made(method, shared_structure=shared), max_iter=8, multi_strategy=strategy, early_stopping=False
    ).fit(X, y)
    before, losses = raw(model, X), model.history_["train_loss"]
    model.update(X, y, mode="leaves", old_weight=0.0)
    np.testing.assert_array_equal(raw(model, X), before)
    np.testing.assert_array_equal(model.history_["train_loss"], losses)


@pytest.mark.parametrize("loss", ["absolute_error", "quantile:0.8", "huber:9", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("l1", [0.0, 2.0])
def test_the_rows_of_the_fit_give_the_model_again_for_other_losses(loss, weighted, l1):
    X, y = make_regression(300, 4, noise=5.0, random_state=0)
    weight = np.random.default_rng(0).random(300) if weighted else None
    model = AGBMRegressor(loss=loss, max_iter=8, early_stopping=False, n_members=1, l1_regularization=l1)
    model.fit(X, np.abs(y), weight)
    before = raw(model, X)
    model.update(X, np.abs(y), weight, mode="leaves", old_weight=0.0)
    np.testing.assert_array_equal(raw(model, X), before)


@pytest.mark.parametrize("loss", ["squared_error", "quantile:0.8", "poisson"])
@pytest.mark.parametrize("n_rows", [30, 300])  # 30: at least one row is drawn
def test_the_samples_of_the_fit_are_drawn_again(loss, n_rows):
    X, y = make_regression(n_rows, 4, noise=5.0, random_state=0)
    model = AGBMRegressor(
        loss=loss,
        max_iter=8,
        n_members=1,
        early_stopping=False,
        subsample=0.6,
        method=Fading(dropout=0.2),
        random_state=None,
    ).fit(X, np.abs(y))
    other, before = copied(model), raw(model, X)
    model.update(
        agbm.Batches(lambda: [(X[:20], np.abs(y[:20])), (X[20:], np.abs(y[20:]))]), mode="leaves", old_weight=0
    )
    np.testing.assert_array_equal(raw(model, X), before)
    np.testing.assert_array_equal(model.model_.folded.nodes["count"], other.model_.folded.nodes["count"])
    other.update(X, np.abs(y)[::-1], mode="leaves", old_weight=0)
    assert np.abs(raw(other, X) - before).max() > 0.01


def test_leaves_without_new_rows_keep_their_values():
    X, y = make_regression(400, 3, noise=1.0, random_state=0)
    model = AGBMRegressor(method=GBM(), max_iter=1, learning_rate=1.0, max_leaf_nodes=8).fit(X, y)
    old, some = copied(model), model.apply(X)[:, 0] < 3
    model.update(X[some], y[some], mode="leaves", old_weight=0.0)
    change = raw(model, X)[0] - raw(old, X)[0]
    shift = model.model_.start - old.model_.start
    np.testing.assert_allclose(change[~some], shift[0], atol=1e-9)
    assert (np.abs(change[some] - shift[0]) > 1e-3).any()
    nodes = model.model_.folded.nodes
    assert nodes["count"][0] == some.sum()
    inner = np.flatnonzero(nodes["feature"] >= 0)
    left = nodes["left"][inner]
    np.testing.assert_array_equal(nodes["count"][inner], nodes["count"][left] + nodes["count"][left + 1])


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_new_leaves_stay_monotone(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * random.normal(size=600)
    model = AGBMRegressor(loss=loss, monotonic_cst=[1, 0], max_iter=20).fit(X[:300], y[:300])
    grid = np.column_stack([np.linspace(-2, 2, 200), np.zeros(200)])
    unbounded = AGBMRegressor(loss=loss, max_iter=20).fit(X[:300], y[:300])
    for one in (model, unbounded):
        one.update(X[300:], -y[300:], mode="leaves")  # as if the effect were turned round
    assert (np.diff(model.predict(grid)) >= -1e-12).all()
    assert (np.diff(unbounded.predict(grid)) < -1e-3).any()


def test_leaves_after_more_trees():
    X, y = make_regression(400, 4, noise=5.0, random_state=0)
    parameters = {"max_iter": 6, "n_members": 2, "early_stopping": False}
    model = AGBMRegressor(**parameters).fit(X, y).update(X, y, mode="trees")
    before = raw(model, X)
    model.update(X, y, mode="leaves", old_weight=0.0)  # the same rows, with a restart in the middle
    np.testing.assert_allclose(raw(model, X), before, atol=1e-9)
    assert model.best_iteration_ == 12


# New weights.


@pytest.mark.parametrize("old_weight", [0.0, 0.3])
@pytest.mark.parametrize("logistic", [False, True])
def test_new_weights_minimise_the_penalised_loss(logistic, old_weight):
    X, y = make_regression(600, 4, noise=20.0, random_state=0)
    y = (y > 0).astype(float) if logistic else y
    kind = AGBMClassifier if logistic else AGBMRegressor
    model = kind(max_iter=10, early_stopping=False).fit(X[:300], y[:300])
    new, y_new = X[300:], 1.0 - y[300:] if logistic else y[300:] * 0.5 + 30.0
    stages = np.array([raw(model.at_iteration(m), new)[0] for m in range(11)])
    weights = np.array([one.coefficients()[0] for one in model.model_.ensembles])
    n_trees = len(weights[0])
    values = np.array(
        [[forest.predict(new, 1)[0, 0] for forest in one.models] for one in model.model_.ensembles]
    )  # (member, iteration, row)
    assert n_trees == 10
    np.testing.assert_allclose(stages[-1] - stages[0], np.einsum("mi,mir->r", weights, values) / 5, atol=1e-9)
    u = np.array([np.einsum("mi,mir->r", weights[:, list(g)], values[:, list(g)]) / 5 for g in groups_of(10)])
    model.update(new, y_new, mode="weights", old_weight=old_weight)

    def derivatives(f):
        p = expit(f) if logistic else f
        r = y_new - p
        return r, np.maximum(p * (1 - p), np.abs(r) / 6) if logistic else np.ones(300)

    f, directions = raw(model, new)[0], np.vstack([u, np.ones(300)])
    found = np.linalg.lstsq(directions.T, f - stages[0], rcond=None)[0]
    change = found - np.append(np.ones(len(u)), 0.0)
    (r, h), (_, h_before) = derivatives(f), derivatives(stages[-1])
    penalty = np.append(np.full(len(u), (r @ r) / h.sum() / reweigh.SPREAD**2), 0.0)
    of_old_rows = old_weight * directions @ (h_before * (change @ directions))  # as many as new ones
    slope = (directions @ r - penalty * change - of_old_rows) / (np.abs(directions) @ np.abs(r))
    bounded = np.append(found[:-1] <= 1e-6, False)
    np.testing.assert_allclose(slope[~bounded], 0.0, atol=2e-3)
    assert (slope[bounded] < 1e-3).all()
    assert (found[:-1] > -1e-9).all()


# The level.


@pytest.mark.parametrize("mode", ["leaves", "weights"])
def test_few_rows_of_one_class_hardly_move_the_mean_score(mode):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    y = (rng.random(1000) < expit(3 * X[:, 0] - 3)).astype(int)
    model = AGBMClassifier(max_iter=20, n_members=2).fit(X, y)
    before, negatives = model.predict_proba(X)[:, 1].mean(), X[y == 0][:20]
    with pytest.raises(ValueError, match=re.escape("y has only one class (0)")):
        model.update(negatives, np.zeros(20, int), mode=mode, old_weight=0.0)
    after = model.update(negatives, np.zeros(20, int), mode=mode).predict_proba(X)[:, 1].mean()
    assert 0.8 * before < after < before


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "absolute_error"])
@pytest.mark.parametrize("mode", ["leaves", "weights"])
def test_the_more_old_rows_count_the_less_the_level_moves(mode, loss):
    X, y = make_regression(300, 3, noise=1.0, random_state=0)
    old = AGBMRegressor(loss=loss, max_iter=3, n_members=2).fit(X[:280], np.abs(y[:280]))
    starts = [
        copied(old).update(X[280:], np.abs(y[280:]) * 3, mode=mode, old_weight=weight).model_.start[0]
        for weight in (0.0, 0.1, 1.0, 30.0)
    ]
    moves = np.array(starts) - old.model_.start[0]
    assert (moves[:-1] > 1.2 * moves[1:]).all()
    assert moves[-1] > 0.0


@pytest.mark.parametrize("mode", ["trees", "all"])
def test_more_trees_need_two_classes(mode):
    model, X, y = fitted("two classes")
    one = y[NEW][y[NEW] == "so"]
    with pytest.raises(ValueError, match=re.escape("y has only one class ('so'), and this update does not combine")):
        model.update(X.loc[one.index], one, mode=mode)


def test_the_level_of_a_ranking_stays_zero():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    for mode in ("leaves", "weights"):
        model = agbm.AGBMRanker(max_iter=3).fit(X, X[:, 0] > 0.0, qid=qid)
        assert model.update(X, X[:, 1] > 0.0, qid=qid, mode=mode).model_.start.tolist() == [0.0]


def test_groups_cover_all_iterations():
    for n in range(1, 70):
        groups = groups_of(n)
        assert [i for group in groups for i in group] == list(range(n))
        assert [len(group) for group in groups[:-1]] == [2**k for k in range(len(groups) - 1)]


def test_new_weights_keep_the_trees():
    model, X, y = fitted()
    leaves = model.apply(X)
    model.update(X[NEW], y[NEW], mode="weights")
    np.testing.assert_array_equal(model.apply(X), leaves)
    assert np.isnan(model.history_["validation_loss"]).all()
    members = [list(one.staged(*rows(model, X[NEW])))[-1][0] for one in model.model_.ensembles]
    loss = np.mean([np.mean((member - y[NEW]) ** 2) / 2 for member in members])
    np.testing.assert_allclose(model.history_["train_loss"][model.best_iteration_], loss)


def rows(model, X):
    numbers = model.model_.reader.numbers(X)
    return numbers, np.broadcast_to(model.model_.start[:, np.newaxis], (1, len(numbers))), 1


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
def test_offsets(mode):
    """For the squared error, a model of y - offset is the model of y with this offset."""
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(800, 3)), rng.normal(size=800)
    y = X[:, 0] + offset + 0.1 * rng.normal(size=800)
    settings = {"max_iter": 20, "n_members": 2, "early_stopping": False}
    with_offset = AGBMRegressor(**settings).fit(X[:400], y[:400], offset=offset[:400])
    without = AGBMRegressor(**settings).fit(X[:400], (y - offset)[:400])
    with_offset.update(X[400:], y[400:], mode=mode, offset=offset[400:])
    without.update(X[400:], (y - offset)[400:], mode=mode)
    np.testing.assert_allclose(with_offset.predict(X), without.predict(X), atol=1e-12)
