"""Infinite values in X: the largest and the smallest number, for every part that looks at values."""

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite
from scipy.sparse import csr_array

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches, Checkpoint, plot
from agbm.export import encode, export_text, to_lightgbm, to_onnx, to_treelite

LARGEST = np.finfo(np.float64).max


def rows(n=600, dtype=np.float64):
    """Both infinities in some columns, one in others, beside missing values, zeros and the largest numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(dtype)
    X[rng.random(n) < 0.2, 0] = np.inf
    X[rng.random(n) < 0.2, 0] = -np.inf
    X[rng.random(n) < 0.1, 1] = np.inf
    X[rng.random(n) < 0.1, 1] = np.nan
    X[:, 2] = rng.choice(np.array([-np.inf, np.finfo(dtype).min, 0.0, np.finfo(dtype).max, np.inf], dtype), n)
    X[:, 3] = np.where(rng.random(n) < 0.8, 0.0, np.where(rng.random(n) < 0.5, -np.inf, X[:, 3]))
    size = np.sign(np.nan_to_num(X, nan=0.5))
    return X, size @ [1.0, 0.5, 0.7, 2.0, 0.3] + 2.0 * np.isinf(X[:, 0]) + 0.1 * rng.normal(size=n)


def without_infinity(X):
    """Numbers beyond all others in their place."""
    finite = np.where(np.abs(X) == np.finfo(X.dtype).max, X / 2, X)
    return np.where(np.isinf(X), np.copysign(np.finfo(X.dtype).max, X), finite).astype(X.dtype)


FORMS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "sparse": csr_array,
    "frame": lambda X: pd.DataFrame(X, columns=list("abcde")),
    "blocks": lambda X: Batches(lambda: [X[:100], X[100:100], X[100:350], X[350:]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_infinities_are_the_largest_and_smallest_numbers(form, dtype, weights):
    X, y = rows(dtype=dtype)
    rng = np.random.default_rng(1)
    weight = {None: None, "whole": rng.integers(1, 4, len(y)), "any": rng.uniform(0.5, 1.5, len(y))}[weights]
    finite = without_infinity(X)
    parameters = {"n_members": 1, "max_iter": 20, "early_stopping": True, "max_bins": 64}
    expected = AGBMRegressor(**parameters).fit(finite, y, weight)
    model = AGBMRegressor(**parameters).fit(FORMS[form](X), y, weight)
    assert expected.n_trees_ > 5
    predicted = expected.predict(finite)
    assert np.array_equal(model.predict(X if form == "blocks" else FORMS[form](X)), predicted)
    assert np.array_equal(model.predictor()(X), predicted)
    assert np.array_equal(model.predictor()(X[:3]), predicted[:3]), "few rows are walked"


def test_infinities_can_be_split_from_finite_numbers():
    X = np.repeat([[-np.inf], [-LARGEST], [0.0], [LARGEST], [np.inf]], 20, axis=0)
    y = np.repeat([4.0, -1.0, 0.0, 1.0, -3.0], 20)
    model = AGBMRegressor(method="gbm", learning_rate=1.0, max_iter=3, l2_regularization=0.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
    assert {-np.inf, LARGEST} <= set(model.model_.folded.nodes["threshold"].tolist())


def test_only_in_prediction():
    """They follow the largest and the smallest number, also where missing values have a side of their own."""
    X, y = rows()
    X = np.where(np.isinf(X), np.nan, np.clip(X, -3.0, 3.0))
    model = AGBMRegressor(max_iter=20).fit(X, y)
    ends = np.array([[np.inf] * 5, [-np.inf] * 5])
    assert np.array_equal(model.predict(ends), model.predict(np.clip(ends, -4.0, 4.0)))


def test_of_categories_are_categories():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.choice([np.inf, -np.inf, 1.0, np.nan], 400), rng.normal(size=400)])
    y = np.select([X[:, 0] == np.inf, X[:, 0] == -np.inf, X[:, 0] == 1.0], [3.0, -2.0, 5.0], -7.0)
    model = AGBMRegressor(max_iter=100, colsample_bynode=1.0, categorical_features=[0]).fit(X, y)
    assert np.abs(model.predict(X) - y).max() < 0.1
    assert set(model.model_.categories[0]) == {np.inf, -np.inf, 1.0}


def test_in_model_files_and_checkpoints(tmp_path):
    X, y = rows()
    model = AGBMClassifier(max_iter=10, categorical_features=[2]).fit(X, y > 0)
    model.save(tmp_path / "model.agbm")
    loaded = agbm.load(tmp_path / "model.agbm")
    assert -np.inf in model.model_.folded.nodes["threshold"]
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for form in ("C", "blocks"):  # blocks find the bins of known thresholds again
        for n in (5, 10):
            callbacks = [Checkpoint(tmp_path / form, every=1)]
            kept = AGBMRegressor(max_iter=n, callbacks=callbacks).fit(FORMS[form](X), y)
        assert np.array_equal(kept.predict(X), AGBMRegressor(max_iter=10).fit(X, y).predict(X))


def test_contributions_add_up():
    X, y = rows()
    settings = {"max_iter": 20, "early_stopping": False}  # rows that are held out may lie between two thresholds
    model = AGBMRegressor(**settings).fit(X, y)
    given = model.predict_contributions(X)
    np.testing.assert_allclose(given.sum(axis=1), model.predict(X), rtol=1e-10)
    finite = without_infinity(X)
    assert np.array_equal(AGBMRegressor(**settings).fit(finite, y).predict_contributions(finite), given)
    assert np.array_equal(model.predict_contributions(csr_array(X)), given)


@pytest.fixture(scope="module")
def extreme():
    """A model with thresholds at -infinity, at the largest numbers and, for missing values, at infinity."""
    values = np.array([-np.inf, -LARGEST, -1e308, -1.0, 0.0, 1.0, 1e308, LARGEST, np.inf, np.nan])
    rng = np.random.default_rng(3)
    X = np.column_stack([np.tile(values, 60), rng.permutation(np.tile(values, 60))])
    y = np.tile(rng.normal(size=len(values)), 60) + np.sign(np.nan_to_num(X[:, 1]))
    model = AGBMRegressor(max_iter=60, max_depth=6, min_samples_leaf=2, l2_regularization=0.0).fit(X, y)
    assert {-np.inf, LARGEST, np.inf} <= set(model.model_.folded.nodes["threshold"].tolist())
    return model, X


def test_lightgbm_export_handles_infinities(extreme):
    model, X = extreme
    found = lightgbm.Booster(model_str=to_lightgbm(model)).predict(encode(model, X))
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-9, atol=1e-9)


def test_treelite_takes_the_same_way(extreme):
    model, X = extreme
    found = treelite.gtil.predict(to_treelite(model), encode(model, X)).ravel()
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_onnx_export_handles_infinities(extreme, dtype):
    model, X = extreme
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    session = onnxruntime.InferenceSession(to_onnx(model, dtype=dtype).SerializeToString())
    (found,) = session.run(["prediction"], {"X": X})
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-5, atol=1e-5)


def test_in_words(extreme):
    model, _ = extreme
    nodes = model.model_.folded.nodes
    tree = (
        int(np.searchsorted(model.model_.folded.roots, np.flatnonzero(nodes["threshold"] == -np.inf)[0], "right")) - 1
    )
    text = export_text(model, tree)
    assert "<= -inf" in text
    assert "is a number" not in text.split("<= -inf")[0].splitlines()[-1]


@pytest.mark.slow
def test_partial_dependence_is_of_finite_numbers():
    X, y = rows()
    axes = plot.partial_dependence(AGBMRegressor(max_iter=5).fit(X, y), X, [0, 1])
    for axis in axes:
        assert np.isfinite(axis.lines[0].get_xdata()).all()
