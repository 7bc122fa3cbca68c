"""Offsets of exported models: an input of ONNX, and sums with raw scores elsewhere."""

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite

from agbm import AGBMClassifier, AGBMRegressor
from agbm.export import encode, to_lightgbm, to_onnx, to_treelite

SMALL = {"max_iter": 8, "min_samples_leaf": 3}


@pytest.fixture(scope="module")
def claims():
    """Features with a category, numbers of claims, and logarithms of exposures."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=300).round(1), "town": rng.choice(list("abcd"), 300)})
    offset = np.log(rng.uniform(0.1, 3.0, 300))
    return X, rng.poisson(np.exp(offset + 0.5 * X["age"])).astype(float), offset


@pytest.fixture(scope="module")
def rates(claims):
    X, y, offset = claims
    return AGBMRegressor(loss="poisson", **SMALL).fit(X, y, offset=offset)


def run(proto, feed):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)


class TestOnnx:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_expected_counts(self, claims, rates, dtype):
        X, _, offset = claims
        exported = to_onnx(rates, dtype=dtype, offset=True)
        (found,) = run(exported, {"X": encode(rates, X, dtype), "offset": offset[:, np.newaxis].astype(dtype)})
        assert found.dtype == dtype
        tolerance = 1e-12 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, rates.predict(X, offset=offset), rtol=tolerance)
        assert np.abs(found / rates.predict(X) - 1.0).max() > 0.5

    def test_columns(self, claims, rates):
        X, _, offset = claims
        feed = {"age": X[["age"]].to_numpy(), "town": X[["town"]].to_numpy(object), "offset": offset[:, np.newaxis]}
        (found,) = run(to_onnx(rates, dtype=np.float64, columns=True, offset=True), feed)
        np.testing.assert_allclose(found, rates.predict(X, offset=offset), rtol=1e-12)

    def test_a_feature_of_the_same_name(self, claims):
        X, y, offset = claims
        model = AGBMRegressor(**SMALL).fit(X.rename(columns={"age": "offset"}), y, offset=offset)
        with pytest.raises(ValueError, match="another input is also named 'offset'; use columns=False"):
            to_onnx(model, columns=True, offset=True)
        assert to_onnx(model, columns=True)  # without an input for offsets, the name is free

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_classes(self, claims, n_classes):
        X, y, _ = claims
        shape = (len(y), 1 if n_classes == 2 else n_classes)
        offset = np.random.default_rng(1).normal(scale=2.0, size=shape)
        model = AGBMClassifier(**SMALL).fit(X, np.minimum(y, n_classes - 1).astype(int), offset=offset)
        exported = to_onnx(model, dtype=np.float64, offset=True)
        label, probabilities = run(exported, {"X": encode(model, X), "offset": offset})
        assert np.array_equal(label, model.predict(X, offset=offset))
        assert not np.array_equal(label, model.predict(X))
        np.testing.assert_allclose(probabilities, model.predict_proba(X, offset=offset), rtol=1e-9)

    def test_several_outputs(self, claims):
        X, y, offset = claims
        offsets = np.column_stack([offset, -offset])
        model = AGBMRegressor(**SMALL).fit(X, np.column_stack([y, 2.0 * y]), offset=offsets)
        (found,) = run(to_onnx(model, dtype=np.float64, offset=True), {"X": encode(model, X), "offset": offsets})
        np.testing.assert_allclose(found, model.predict(X, offset=offsets), rtol=1e-9, atol=1e-12)


def test_the_offset_is_added_to_raw_scores_of_the_other_formats(claims, rates):
    X, _, offset = claims
    expected, encoded = rates.predict(X, offset=offset), encode(rates, X)
    booster = lightgbm.Booster(model_str=to_lightgbm(rates))
    np.testing.assert_allclose(np.exp(booster.predict(encoded, raw_score=True) + offset), expected, rtol=1e-12)
    np.testing.assert_allclose(booster.predict(encoded) * np.exp(offset), expected, rtol=1e-12)
    margin = treelite.gtil.predict(to_treelite(rates), encoded, pred_margin=True)[:, 0, 0]
    np.testing.assert_allclose(np.exp(margin + offset), expected, rtol=1e-12)
