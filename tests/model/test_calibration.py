"""Intervals and sets of classes of fitted models: calibration by fit (CV+) and by other rows (split)."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import binom

import agbm
from agbm import AGBMClassifier, AGBMRegressor, ModelFileError
from agbm._apps.cli import main
from agbm.losses import HalfSquaredError, Quantile
from agbm.methods import Fading
from toys import rewrite

SMALL = {"max_iter": 8, "max_leaf_nodes": 6, "n_iter_no_change": 5, "n_jobs": 1}
N = 400


def table(kind="numbers", n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    signal = X[:, 0] + np.sin(2 * X[:, 1])
    noisy = signal + rng.normal(size=n)
    y = {
        "numbers": noisy,
        "two outputs": np.column_stack([noisy, 3 * signal + rng.normal(size=n)]),
        "counts": rng.poisson(np.exp(signal / 2)).astype(float),
        "amounts": rng.gamma(2.0, np.exp(signal / 2)),
        "shares": 1 / (1 + np.exp(-noisy)),
        "two classes": np.array(["no", "yes"])[(noisy > 0).astype(int)],
        "three classes": np.digitize(noisy, [-1, 1]),
    }[kind]
    return X, y


def estimator(kind, **parameters):
    return (AGBMClassifier if "classes" in kind else AGBMRegressor)(**SMALL | parameters)


def ask(model, X, coverage=0.9, **more):
    return (model.predict_set if hasattr(model, "predict_set") else model.predict_interval)(X, coverage, **more)


def covered(model, X, y, coverage=0.9, **more):
    """Whether each row is covered; for several outputs, each of them."""
    found = ask(model, X, coverage, **more)
    if found.dtype == bool:
        return found[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return (found[..., 0] <= y) & (y <= found[..., 1])


def predictions_of_members(model, X):
    """Each member's own model, from its trees in the order of training."""
    inner = model.model_
    starts = inner.calibration.starts
    for k, ensemble in enumerate(inner.ensembles):
        start = np.repeat(starts[k][:, np.newaxis], len(X), axis=1)
        yield [*ensemble.staged(inner.reader.numbers(X), start, 1)][-1] if len(ensemble) else start


KINDS = {
    "numbers": {}, "two outputs": {}, "counts": {"loss": "poisson"}, "amounts": {"loss": "gamma"},
    "shares": {"loss": "cross_entropy"}, "two classes": {}, "three classes": {},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_bounds(kind):
    X, y = table(kind)
    model = estimator(kind, **KINDS[kind]).fit(X, y)
    for found in (ask(model, X), ask(model.calibrate(*table(kind, seed=1)), X)):
        if "classes" in kind:
            assert found.shape == (N, len(model.classes_))
            assert found.dtype == bool
            continue
        assert found.shape == (*y.shape, 2)
        assert (found[..., 0] <= found[..., 1]).all()
        assert np.isfinite(found).all()
        assert kind not in ("counts", "amounts", "shares") or (found >= 0).all()
        assert kind != "shares" or (found <= 1).all()


# CV+ by the rows that fit has held out.


@pytest.mark.parametrize(
    "parameters", [{}, {"n_members": 2}, {"n_members": 1, "early_stopping": True}, {"method": Fading(dropout=0.3)}]
)
def test_scores_are_those_of_held_out_rows(parameters):
    """The distances of labels from the model of each member, for a tenth of the rows."""
    X, y = table()
    model = AGBMRegressor(**SMALL | parameters).fit(X, y)
    for part, f in zip(model.model_.calibration.parts, predictions_of_members(model, X), strict=True):
        distances = np.abs(y - f[0])
        scores = part[0].values
        assert len(scores) == N // 10
        assert (np.diff(scores) >= 0).all()
        nearest = np.abs(scores[:, np.newaxis] - distances).min(axis=1)
        np.testing.assert_allclose(nearest, 0.0, atol=1e-8)


def test_held_out_rows_are_disjoint():
    """With labels that are all different, scores show which rows they are of."""
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    rows = []
    for part, f in zip(model.model_.calibration.parts, predictions_of_members(model, X), strict=True):
        rows += np.abs(part[0].values[:, np.newaxis] - np.abs(y - f[0])).argmin(axis=1).tolist()
    assert len(rows) == len(set(rows)) == N // 2


def test_intervals_are_those_of_the_definition():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    found = model.predict_interval(X[:30], 0.8)
    scores = [part[0].values for part in model.model_.calibration.parts]
    members = list(predictions_of_members(model, X[:30]))
    n = sum(map(len, scores))
    for row in range(30):
        lower = np.sort(np.concatenate([f[0, row] - s for f, s in zip(members, scores, strict=True)]))
        upper = np.sort(np.concatenate([f[0, row] + s for f, s in zip(members, scores, strict=True)]))
        k = math.floor(round(0.2 * (n + 1), 9))
        np.testing.assert_allclose(found[row], [lower[k - 1], upper[n - k]], atol=1e-8)


def test_sets_are_those_of_the_definition():
    X, y = table("three classes")
    model = AGBMClassifier(**SMALL).fit(X, y)
    found = model.predict_set(X[:50], 0.8)
    scores = [part[0].values for part in model.model_.calibration.parts]
    n = sum(map(len, scores))
    below = 0
    for f, s in zip(predictions_of_members(model, X[:50]), scores, strict=True):
        p = np.exp(f) / np.exp(f).sum(axis=0)
        below = below + (s[:, np.newaxis, np.newaxis] < 1 - p).sum(axis=0)
    assert np.array_equal(found, (below < 0.8 * (n + 1)).T)
    assert found.any(axis=0).all()
    assert not found.all()


def test_one_member_is_split_conformal_prediction():
    X, y = table()
    model = AGBMRegressor(**SMALL, n_members=1, early_stopping=True).fit(X, y)
    scores = model.model_.calibration.parts[0][0].values
    rank = math.ceil(round(0.9 * (len(scores) + 1), 9))
    found = model.predict_interval(X)
    np.testing.assert_allclose(found[:, 1] - model.predict(X), scores[rank - 1], atol=1e-8)
    np.testing.assert_allclose(model.predict(X) - found[:, 0], scores[rank - 1], atol=1e-8)


def test_rows_held_out_by_several_members_count_for_each():
    X, y = table()
    model = AGBMRegressor(**SMALL | {"validation_fraction": 0.5, "n_members": 3}).fit(X, y)
    assert [len(part[0].values) for part in model.model_.calibration.parts] == [200] * 3
    assert np.isfinite(model.predict_interval(X)).all()


@pytest.mark.parametrize("scoring", [None, "r2"])
@pytest.mark.parametrize("method", ["fading", "agbm", "gbm"])
def test_the_scores_are_of_the_best_iteration(method, scoring):
    X, y = table()
    parameters = {"max_iter": 60, "learning_rate": 0.6, "method": method, "early_stopping": True}
    model = AGBMRegressor(**SMALL | parameters, scoring=scoring).fit(X, y)
    assert model.best_iteration_ < model.n_iter_
    for part, f in zip(model.model_.calibration.parts, predictions_of_members(model, X), strict=True):
        nearest = np.abs(part[0].values[:, np.newaxis] - np.abs(y - f[0])).min(axis=1)
        np.testing.assert_allclose(nearest, 0.0, atol=1e-8)


def test_integer_weights_of_fit_are_repetitions():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y, np.full(N, 2))
    calibration = model.model_.calibration
    assert calibration.test_weight == 1
    assert all((part[0].weights == 2).all() for part in calibration.parts)
    assert AGBMRegressor(**SMALL).fit(X, y, np.ones(N, int)).model_.calibration.parts[0][0].weights is None
    relative = AGBMRegressor(**SMALL).fit(X, y, np.full(N, 2.0))
    plain = AGBMRegressor(**SMALL).fit(X, y)
    np.testing.assert_allclose(relative.predict_interval(X), plain.predict_interval(X), atol=1e-9)


def test_only_a_sample_of_many_rows_is_kept(monkeypatch):
    monkeypatch.setattr("agbm._fit.train.MOST_KEPT", 25)
    X, y = table("two outputs")
    model = AGBMRegressor(**SMALL).fit(X, y)
    assert [len(scores.values) for part in model.model_.calibration.parts for scores in part] == [25] * 10
    assert np.isfinite(model.predict_interval(X)).all()


def test_init_models_and_offsets():
    X, y = table()
    start = AGBMRegressor(**SMALL).fit(X, y)
    model = AGBMRegressor(**SMALL, init=start).fit(X, y)
    assert model.model_.calibration.starts is None
    assert covered(model, *table(seed=1)).mean() > 0.8
    X, y = table("counts")
    offset = np.linspace(-1, 1, N)
    model = AGBMRegressor(**SMALL, loss="poisson").fit(X, y, offset=offset)
    np.testing.assert_array_equal(
        model.predict_interval(X[:1], offset=offset[:1]), model.predict_interval(X, offset=offset)[:1]
    )
    assert (model.predict_interval(X, offset=offset)[:, 1] != model.predict_interval(X)[:, 1]).any()
    model.calibrate(X, y, offset=offset)
    assert covered(model, X, y, offset=offset).mean() >= 0.9


def test_other_learners():
    from sklearn.tree import DecisionTreeRegressor

    X, y = table()
    model = AGBMRegressor(
        method=Fading(learner=DecisionTreeRegressor(max_depth=2)), early_stopping=True, max_iter=5
    ).fit(X, y)
    assert covered(model, *table(seed=1)).mean() > 0.8


def test_many_rows_with_the_same_scores_are_covered_as_a_whole():
    """A model with two leaves and labels 0 and 1: a bit of rounding would decide about a quarter of all rows."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(3000, 1)).astype(float)
    k = (rng.random(3000) < np.where(X[:, 0] == 1, 0.8, 0.3)).astype(int)
    for model, y in ((AGBMClassifier(max_iter=30), k), (AGBMRegressor(max_iter=30), k.astype(float))):
        model.fit(X[:1500], y[:1500])
        for coverage in (0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95):
            assert covered(model, X[1500:], y[1500:], coverage).mean() > coverage - 0.04


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_coverage_of_models(kind):
    """Rows covered in 60 independent fits, one new row each from 25: CV+ covers at least 1 - 2 alpha - a small term.

    The bound below is that of the theorem, 1 - 2 * 0.2 - 2 (1 - 1/5) / (n/5 + 1) with n = 60 held-out rows. Rows of one
    fit are dependent, so every fit counts as one trial, of which the share that is covered is bounded: by Hoeffding's
    inequality, the mean of 60 is more than 0.34 below its expectation with probability exp(-2 * 60 * 0.34^2) < 1e-6.
    A second test, that coverage is about 0.8 in practice, has no error probability; it is far from its limits.
    """
    shares = []
    for seed in range(60):
        X, y = table(kind, 145, seed)
        model = estimator(kind, max_iter=5, max_leaf_nodes=3).fit(X[:120], y[:120])
        shares.append(covered(model, X[120:], y[120:], 0.8).mean())
    theorem = 1 - 2 * 0.2 - 2 * (1 - 1 / 5) / (60 / 5 + 1)
    assert np.mean(shares) >= theorem - 0.34
    assert 0.74 < np.mean(shares) < 0.9


# Split conformal prediction.


@pytest.mark.parametrize("kind", KINDS)
def test_coverage_of_calibrated_models(kind):
    """One new row for each of 1,000 sets of 19 calibration rows: at least 0.8 are covered, but for a probability 1e-6.

    The model is the same, so the trials are independent.
    """
    model = estimator(kind, **KINDS[kind]).fit(*table(kind))
    X, y = table(kind, 20_000, seed=7)
    n_covered = 0
    for begin in range(0, 20_000, 20):
        new = slice(begin + 19, begin + 20)
        model.calibrate(X[begin : begin + 19], y[begin : begin + 19])
        n_covered += covered(model, X[new], y[new], 0.8).ravel()[0]
    assert n_covered >= binom.ppf(1e-6, 1000, 0.8)


def test_split_calibration_is_its_definition():
    model = AGBMRegressor(**SMALL).fit(*table())
    X, y = table(n=99, seed=1)
    model.calibrate(X, y)
    scores = np.sort(np.abs(y - model.predict(X)))
    new = table(seed=2)[0]
    np.testing.assert_allclose(model.predict_interval(new)[:, 1], model.predict(new) + scores[89], rtol=1e-14)
    np.testing.assert_allclose(model.predict_interval(new, 0.95)[:, 0], model.predict(new) - scores[94], rtol=1e-14)


def test_calibrate_replaces_and_returns():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    before = model.predict_interval(X)
    other = pickle.loads(pickle.dumps(model))
    assert model.calibrate(*table(seed=1)) is model
    assert not np.array_equal(model.predict_interval(X), before)
    np.testing.assert_array_equal(other.predict_interval(X), before)


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_weights_of_calibration_rows(kind):
    model = estimator(kind).fit(*table(kind))
    X, y = table(kind, 60, seed=1)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    weighted = ask(model.calibrate(X, y, counts), X, 0.8)
    repeated = ask(model.calibrate(np.repeat(X, counts, axis=0), np.repeat(y, counts)), X, 0.8)
    np.testing.assert_array_equal(weighted, repeated)
    plain = ask(model.calibrate(X, y), X, 0.8)
    np.testing.assert_array_equal(ask(model.calibrate(X, y, np.full(60, 0.7)), X, 0.8), plain)
    with_zeros = np.append(np.ones(60), np.zeros(60))
    both = np.concatenate([X, X + 9.0]), np.concatenate([y, y])
    np.testing.assert_array_equal(ask(model.calibrate(*both, with_zeros), X, 0.8), plain)


def test_a_row_to_predict_has_the_largest_relative_weight():
    """Twin: the smallest score up to which the weights are at least 0.8 of all, with the new row beyond all."""
    model = AGBMRegressor(**SMALL).fit(*table())
    X, y = table(n=60, seed=1)
    weights = 0.95 ** np.arange(60)[::-1]
    model.calibrate(X, y, weights)
    scores = np.abs(y - model.predict(X))
    order = np.argsort(scores)
    reached = np.cumsum(weights[order]) >= 0.8 * (weights.sum() + weights.max())
    expected = scores[order][reached.argmax()]
    np.testing.assert_array_equal(model.predict_interval(X, 0.8)[:, 1], model.predict(X) + expected)


def test_decaying_weights_help_after_a_change():
    model = AGBMRegressor(**SMALL).fit(*table(n=1000))
    X, y = table(n=1500, seed=1)
    noise = np.random.default_rng(2).normal(size=1500)
    y = np.where(np.arange(1500) < 500, y, y + 3 * noise)  # rows are in the order of time
    past, later = slice(0, 1000), slice(1000, 1500)
    plain = covered(model.calibrate(X[past], y[past]), X[later], y[later]).mean()
    weights = 0.99 ** np.arange(1000)[::-1]
    decaying = covered(model.calibrate(X[past], y[past], weights), X[later], y[later]).mean()
    assert plain < 0.86 < decaying


# Groups.


@pytest.fixture
def grouped():
    """Rows of groups with very different noise, and a model."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=4000), "kind": rng.choice(["calm", "wild"], 4000)})
    y = X["a"] + rng.normal(size=4000) * np.where(X["kind"] == "wild", 3.0, 0.3)
    return AGBMRegressor(**SMALL).fit(X[:1000], y[:1000]), X, y


def test_coverage_within_groups(grouped):
    """Each group has about 750 calibration and 750 test rows; the coverage of 0.9 has a standard error of 0.016."""
    model, X, y = grouped
    past, new = slice(1000, 2500), slice(2500, 4000)
    inside = covered(model.calibrate(X[past], y[past]), X[new], y[new])
    wild = X["kind"][new] == "wild"
    assert inside[~wild].mean() > 0.98
    assert inside[wild].mean() < 0.85
    for group in ("kind", 1):
        inside = covered(model.calibrate(X[past], y[past], group=group), X[new], y[new])
        for of_group in (inside[wild], inside[~wild]):
            assert abs(of_group.mean() - 0.9) < 5 * 0.016


def test_a_group_is_calibrated_by_its_rows_alone(grouped):
    model, X, y = grouped
    for name in ("calm", "wild"):
        rows = (X["kind"] == name) & (X.index >= 1000)
        alone = model.calibrate(X[rows], y[rows]).predict_interval(X[rows])
        together = model.calibrate(X[1000:], y[1000:], group="kind").predict_interval(X[rows])
        np.testing.assert_array_equal(alone, together)
    weights = np.where(X.index % 2, 1.0, 0.5)[1000:]
    weighted = model.calibrate(X[1000:], y[1000:], weights, group="kind").predict_interval(X)
    assert np.isfinite(weighted).all()


def test_groups_of_numbers_and_missing_values():
    X, y = table(n=900)
    X[:, 2] = np.where(np.arange(900) % 3 == 0, np.nan, np.arange(900) % 3)
    model = AGBMRegressor(**SMALL).fit(X, y).calibrate(X, y, group=2)
    np.testing.assert_array_equal(model.model_.calibration.groups, [1.0, 2.0, np.nan])
    alone = AGBMRegressor(**SMALL).fit(X, y).calibrate(X[::3], y[::3])
    np.testing.assert_array_equal(model.predict_interval(X)[::3], alone.predict_interval(X)[::3])
    X[0, 2] = 5.0
    with pytest.raises(ValueError, match=r"groups in column 2 that calibrate has not seen: \[5\]"):
        model.predict_interval(X)


def test_groups_of_sparse_rows_and_classes():
    X, y = table("three classes")
    X[:, 2] = np.arange(N) % 2
    model = AGBMClassifier(**SMALL).fit(X, y)
    dense = model.calibrate(X, y, group=2).predict_set(X)
    np.testing.assert_array_equal(model.calibrate(sparse.csr_array(X), y, group=2).predict_set(X), dense)
    np.testing.assert_array_equal(model.predict_set(sparse.csr_array(X)), dense)


def test_unknown_groups(grouped):
    model, X, y = grouped
    calm = X[X["kind"] == "calm"]
    model.calibrate(calm, y[calm.index], group="kind")
    with pytest.raises(ValueError, match=r"column 'kind' that calibrate has not seen: \['wild'\]\. Calibrate with"):
        model.predict_interval(X)
    new = X.assign(kind="new")
    with pytest.raises(ValueError, match=r"not seen: \['unknown'\]"):
        model.predict_interval(new)
    with pytest.raises(ValueError, match="group='kind': 4000 rows have categories that fit has not seen"):
        model.calibrate(new, y, group="kind")
    with pytest.raises(ValueError, match="group='kinds': X has no column 'kinds'; similar names: 'kind'"):
        model.calibrate(X, y, group="kinds")
    with pytest.raises(ValueError, match="group=2: X has columns 0 to 1"):
        model.calibrate(X, y, group=2)


# Too few rows.


@pytest.mark.parametrize(("kind", "low"), [("numbers", -np.inf), ("counts", 0.0), ("shares", 0.0)])
def test_too_few_rows_for_the_coverage(kind, low):
    model = estimator(kind, **KINDS[kind]).fit(*table(kind))
    X, y = table(kind, 8, seed=1)
    model.calibrate(X, y)
    with pytest.warns(UserWarning, match=r"coverage=0\.9 needs 9 calibration rows, there are 8"):
        found = model.predict_interval(X)
    assert (found[:, 0] == low).all()
    assert (found[:, 1] == (1.0 if kind == "shares" else np.inf)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.predict_interval(X, 0.8)).all()


def test_too_few_rows_for_a_set():
    model = AGBMClassifier(**SMALL).fit(*table("three classes"))
    X, y = table("three classes", 8, seed=1)
    with pytest.warns(UserWarning, match="their sets contain all classes"):
        assert model.calibrate(X, y).predict_set(X).all()


def test_too_few_rows_in_a_group(grouped):
    model, X, y = grouped
    some = np.append(np.flatnonzero(X["kind"] == "calm")[:50], np.flatnonzero(X["kind"] == "wild")[:5])
    model.calibrate(X.iloc[some], y.iloc[some], group="kind")
    with pytest.warns(UserWarning, match=r"needs 9 calibration rows, group 'wild' of column 'kind' has 5;"):
        found = model.predict_interval(X)
    assert np.array_equal(np.isinf(found[:, 1]), X["kind"] == "wild")
    with pytest.warns(UserWarning, match=r"needs 99 .* has 5 \(2 groups have too few\)"):
        model.predict_interval(X, 0.99)
    model.calibrate(X, y, 0.5 ** np.arange(4000))
    with pytest.warns(UserWarning, match="needs 9 calibration rows of the weight of a row to predict, there are"):
        model.predict_interval(X)


# Models that change, and their files.


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_updates_drop_the_calibration(mode, calibrated, tmp_path):
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    if calibrated:
        model.calibrate(*table(seed=1))
    model.update(*table(seed=2), mode=mode)
    model.save(tmp_path / "m.agbm")
    for one in (model, agbm.load(tmp_path / "m.agbm")):
        with pytest.raises(ValueError, match=f"update\\(mode='{mode}'\\).*call calibrate with rows that neither fit"):
            one.predict_interval(X)
    assert np.isfinite(model.calibrate(*table(seed=3)).predict_interval(X)).all()


def test_an_update_with_a_new_model_has_its_own():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(*table(seed=1)).calibrate(X, y).update(X, y, mode="all")
    np.testing.assert_array_equal(model.predict_interval(X), AGBMRegressor(**SMALL).fit(X, y).predict_interval(X))


def test_an_earlier_iteration_has_none():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=r"does not have.*call calibrate"):
        model.at_iteration(3).predict_interval(X)
    assert np.isfinite(model.predict_interval(X)).all()


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: AGBMRegressor(**SMALL, early_stopping=False).fit(X, y),
        lambda X, y: AGBMRegressor(**SMALL).fit(X, y, X_val=X, y_val=y),
        lambda X, y: AGBMRegressor(**SMALL, validation_fraction=None).fit(X, y),
        lambda X, y: agbm.cv(AGBMRegressor(**SMALL), X, y).estimators[0],
    ],
    ids=["no early stopping", "X_val", "by training rows", "cv"],
)
def test_fits_without_held_out_rows(fit):
    X, y = table()
    model = fit(X, y)
    with pytest.raises(ValueError, match=r"fit keeps one only if it holds out rows .* Please call calibrate"):
        model.predict_interval(X)
    assert np.isfinite(model.calibrate(X, y).predict_interval(X)).all()


def bits(model):
    calibration = model.model_.calibration
    return [
        calibration.starts.tobytes(), calibration.test_weight,
        *(one.values.tobytes() for part in calibration.parts for one in part),
        *(None if one.weights is None else one.weights.tobytes() for part in calibration.parts for one in part),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["numbers", "two outputs", "three classes"])
def test_the_same_bits_for_batches_and_threads(kind):
    X, y = table(kind)
    weight = np.random.default_rng(0).random(N)
    expected = bits(estimator(kind).fit(X, y, weight))
    pieces = [slice(0, 150), slice(150, 151), slice(151, 151), slice(151, N)]
    batches = agbm.Batches(lambda: ((X[s], y[s], weight[s]) for s in pieces))
    assert bits(estimator(kind).fit(batches)) == expected
    assert bits(estimator(kind, n_jobs=3).fit(X, y, weight)) == expected


def test_calibrate_with_batches():
    model = AGBMRegressor(**SMALL, loss="poisson").fit(*table("counts"))
    X, y = table("counts", seed=1)
    X[:, 2] = np.arange(N) % 2
    weight, offset = np.random.default_rng(0).random(N), np.linspace(-1, 1, N)
    expected = model.calibrate(X, y, weight, group=2, offset=offset).predict_interval(X)
    pieces = [slice(0, 150), slice(150, 151), slice(151, 151), slice(151, N)]
    batches = agbm.Batches(lambda: ((X[s], y[s], weight[s], offset[s]) for s in pieces))
    np.testing.assert_array_equal(model.calibrate(batches, group=2).predict_interval(X), expected)


@pytest.mark.parametrize("method", ["fading", "agbm"])
def test_resumed_runs_have_the_same_bits(method, tmp_path):
    X, y = table()
    parameters = SMALL | {"method": method, "n_members": 2, "early_stopping": True}
    whole = AGBMRegressor(**parameters).fit(X, y)
    warm = AGBMRegressor(**parameters | {"max_iter": 4, "warm_start": True}).fit(X, y)
    assert bits(warm) != bits(whole)
    assert bits(warm.set_params(max_iter=8).fit(X, y)) == bits(whole)
    first = agbm.Checkpoint(tmp_path / "run", every=2)
    AGBMRegressor(**parameters, callbacks=[first, lambda record: record.iteration == 5]).fit(X, y)
    resumed = AGBMRegressor(**parameters, callbacks=[agbm.Checkpoint(tmp_path / "run", every=2)]).fit(X, y)
    assert bits(resumed) == bits(whole)


CALIBRATED = {
    "fit": lambda model, X, y: model,
    "split": lambda model, X, y: model.calibrate(X, y),
    "weights": lambda model, X, y: model.calibrate(X, y, np.linspace(0.1, 1, len(X))),
    "counts": lambda model, X, y: model.calibrate(X, y, np.arange(len(X)) % 3),
    "groups": lambda model, X, y: model.calibrate(X, y, group=2),
}


def with_groups(kind, seed=0):
    X, y = table(kind, seed=seed)
    X[:, 2] = np.where(np.arange(N) % 3 == 0, np.nan, np.arange(N) % 3)
    return X, y


@pytest.mark.parametrize("how", CALIBRATED)
@pytest.mark.parametrize("kind", ["numbers", "two outputs", "two classes", "three classes"])
def test_files_and_pickles(kind, how, tmp_path):
    X, y = with_groups(kind)
    model = CALIBRATED[how](estimator(kind).fit(X, y), *with_groups(kind, seed=1))
    expected = ask(model, X)
    assert len({row.tobytes() for row in expected}) > 1
    model.save(tmp_path / "m.agbm")
    loaded = agbm.load(tmp_path / "m.agbm")
    np.testing.assert_array_equal(ask(loaded, X), expected)
    loaded.save(tmp_path / "again.agbm")
    assert (tmp_path / "again.agbm").read_bytes() == (tmp_path / "m.agbm").read_bytes()
    np.testing.assert_array_equal(ask(pickle.loads(pickle.dumps(model)), X), expected)


def test_pickles_do_not_grow_with_predictions():
    X, y = table()
    model = AGBMRegressor(**SMALL).fit(X, y)
    before = len(pickle.dumps(model))
    model.predict_interval(X)
    assert len(pickle.dumps(model)) == before


def test_files_without_calibration(tmp_path):
    AGBMRegressor(**SMALL, early_stopping=False).fit(*table()).save(tmp_path / "m.agbm")
    assert b"calibration" not in (tmp_path / "m.agbm").read_bytes()


def entry(**changed):
    return lambda description, arrays: description["calibration"].update(changed)


def section(name, change):
    return lambda description, arrays: arrays.update({name: change(arrays[name])})


def at(place, value):
    def changed(array):
        array[place] = value
        return array

    return changed


DAMAGES = [
    ("fit", entry(of="nobody"), "'of' must be"),
    ("fit", entry(of="model"), "5 parts do not match"),
    ("split", entry(of="members"), "1 parts do not match"),
    ("fit", entry(parts=4), "4 parts do not match"),
    ("groups", entry(parts=4), "'calibration.count' does not match"),
    ("groups", entry(parts=10**12), "'calibration.count' does not match"),
    ("groups", entry(parts=0), "parts: must be from 1"),
    ("fit", entry(test_weight=0), "test_weight: must be from 1"),
    ("fit", entry(test_weight=1.5), "'test_weight' must be int"),
    ("groups", entry(column=3), "column: must be from 0 to 2"),
    ("groups", lambda description, arrays: description["calibration"].pop("column"), "'column' is missing"),
    ("fit", lambda description, arrays: description.update(calibration=[]), "'calibration' must be dict"),
    ("fit", section("calibration.count", at(0, -1)), "'calibration.count' does not match"),
    ("fit", section("calibration.count", at(0, 2**62)), "'calibration.count' does not match"),
    ("fit", section("calibration.count", lambda array: array[:-1]), "'calibration.count' does not match"),
    ("fit", section("calibration.score", at(1, np.nan)), "scores must be ascending"),
    ("fit", section("calibration.score", at(0, np.inf)), "scores must be ascending"),
    ("fit", section("calibration.score", lambda array: array[:-1]), "'calibration.count' does not match"),
    ("fit", section("calibration.start", at(0, np.inf)), "'calibration.start' must have finite"),
    ("fit", section("calibration.start", lambda array: array[:-1]), "'calibration.start' must have finite"),
    ("weights", section("calibration.weight", at(0, -1)), "weights must not be negative"),
    ("weights", section("calibration.weight", at(slice(None), 2**60)), "weights must not be negative"),
    ("weights", section("calibration.weight", lambda array: array[:-1]), "one weight per score"),
    ("groups", section("calibration.group", at(1, 0.0)), "one ascending number per part"),
    ("groups", section("calibration.group", at(0, np.nan)), "one ascending number per part"),
    ("groups", section("calibration.group", lambda array: array[:-1]), "one ascending number per part"),
    ("fit", lambda description, arrays: arrays.pop("calibration.score"), "'calibration.score' is missing"),
]


@pytest.mark.parametrize(("how", "change", "rule"), DAMAGES, ids=[f"{how}: {rule}" for how, _, rule in DAMAGES])
def test_damaged_files(how, change, rule, tmp_path):
    path = tmp_path / "m.agbm"
    CALIBRATED[how](AGBMRegressor(**SMALL).fit(*with_groups("numbers")), *with_groups("numbers", 1)).save(path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=rule):
        agbm.load(path)


# Errors.


class OwnLoss(HalfSquaredError):
    """A user-defined loss of the logarithm."""

    def inverse_link(self, f):
        return np.exp(f)


def test_user_defined_losses():
    X, y = table()
    model = AGBMRegressor(**SMALL, loss=OwnLoss()).fit(X, y).calibrate(X, y)
    found = model.predict_interval(X)
    np.testing.assert_allclose(found.mean(axis=1), model.predict(X))


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_single_quantile(calibrate):
    X, y = table()
    model = AGBMRegressor(**SMALL, loss="quantile:0.9").fit(X, y)
    with pytest.raises(ValueError, match=r"intervals around a single quantile .* loss=Quantile\(\[0.05, 0.5, 0.95\]\)"):
        model.calibrate(X, y) if calibrate else model.predict_interval(X)
    median = AGBMRegressor(**SMALL, loss=Quantile(0.5)).fit(X, y)
    assert covered(median, *table(seed=1)).mean() > 0.8


def test_several_labels_and_probabilities():
    X, y = table("two outputs")
    labels = AGBMClassifier(**SMALL).fit(X, (y > 0).astype(int))
    shares = AGBMClassifier(**SMALL, loss="cross_entropy").fit(X, table("shares")[1])
    for model, message in ((labels, "several labels per row"), (shares, "fitted to probabilities of classes")):
        with pytest.raises(ValueError, match=message):
            model.predict_set(X)
        with pytest.raises(ValueError, match=message):
            model.calibrate(X, y)


def test_labels_that_do_not_fit():
    X, y = table("three classes")
    model = AGBMClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=r"y has classes \[7\] that the model does not have; it has \[0, 1, 2\]"):
        model.calibrate(X[:2], [1, 7])
    with pytest.raises(ValueError, match="y has 3 rows, X has 2"):
        model.calibrate(X[:2], [1, 1, 1])
    with pytest.raises(ValueError, match="y=None: pass the labels"):
        model.calibrate(X)
    counts = AGBMRegressor(**SMALL, loss="poisson").fit(*table("counts"))
    with pytest.raises(ValueError, match="no negative values"):
        counts.calibrate(X[:2], [1.0, -1.0])
    counts.calibrate(X[:30], np.zeros(30))  # which no model could be fitted to
    assert np.isfinite(counts.predict_interval(X)).all()
    with pytest.raises(ValueError, match="must be that of the model"):
        counts.calibrate(X[:2], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="at least one non-zero"):
        counts.calibrate(X[:2], [1.0, 2.0], [0, 0])


def test_not_fitted_and_invalid_coverage():
    X, y = table()
    with pytest.raises(ValueError, match="not fitted"):
        AGBMRegressor().predict_interval(X)
    with pytest.raises(ValueError, match="not fitted"):
        AGBMClassifier().predict_set(X)
    with pytest.raises(ValueError, match="not fitted"):
        AGBMRegressor().calibrate(X, y)
    with pytest.raises(ValueError, match=r"coverage=90 must be a number between 0 and 1, such as 0\.9"):
        AGBMRegressor(**SMALL).fit(X, y).predict_interval(X, 90)


# The command.


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_the_command(kind, tmp_path, capsys):
    X, y = table(kind)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = estimator(kind).fit(frame, y)
    model.save(tmp_path / "m.agbm")
    frame.to_csv(tmp_path / "new.csv", index=False)
    files = [str(tmp_path / name) for name in ("m.agbm", "new.csv")]
    assert main(["predict", *files, "--interval", "0.8", "--out", str(tmp_path / "out.csv")]) == 0
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    expected = ask(model, frame, 0.8)
    if kind == "numbers":
        assert list(found) == ["prediction", "lower", "upper"]
        np.testing.assert_allclose(found[["lower", "upper"]], expected, rtol=1e-14)
    else:
        assert list(found) == ["prediction", "set"]
        names = {(True, True): "no|yes", (True, False): "no", (False, True): "yes", (False, False): ""}
        assert found["set"].tolist() == [names[tuple(row)] for row in expected.tolist()]
    model.update(frame, y, mode="weights").save(tmp_path / "m.agbm")
    capsys.readouterr()
    assert main(["predict", *files, "--interval", "0.8", "--out", str(tmp_path / "no.csv")]) == 1
    assert "--interval 0.8 needs a calibration" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


def test_the_command_with_several_outputs(tmp_path):
    X, y = table("two outputs")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    AGBMRegressor(**SMALL).fit(frame, y).save(tmp_path / "m.agbm")
    frame.to_csv(tmp_path / "new.csv", index=False)
    files = [str(tmp_path / name) for name in ("m.agbm", "new.csv")]
    assert main(["predict", *files, "--interval", "0.8", "--out", str(tmp_path / "out.csv")]) == 0
    names = ["prediction_0", "prediction_1", "lower_0", "lower_1", "upper_0", "upper_1"]
    assert list(pd.read_csv(tmp_path / "out.csv")) == names
