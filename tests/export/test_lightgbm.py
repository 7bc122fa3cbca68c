"""Models as LightGBM's files, against LightGBM."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import treelite
from hypothesis import given
from hypothesis import strategies as st

from agbm import AGBMClassifier, AGBMRegressor
from agbm.export import encode, to_lightgbm
from export_models import (
    LOG_LINK_WITH_TWO_OUTPUTS,
    MAKE,
    ONE,
    amounts,
    hard_rows,
    model,
    numbers,
    predictions,
    rows_of_categories,
    scores,
    table,
    with_unknown_numbers,
)
from profiles import examples

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def booster_of(fitted):
    return lightgbm.Booster(model_str=to_lightgbm(fitted))


def predict(booster, X, **options):
    """(row, output or class)."""
    return np.asarray(booster.predict(X, num_threads=1, **options)).reshape(len(X), -1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAKE)
def test_lightgbm_predicts_the_same(name, dtype):
    fitted = model(name)
    X = hard_rows(fitted, dtype)
    booster, numbers_of_X = booster_of(fitted), encode(fitted, X, dtype)
    np.testing.assert_allclose(predict(booster, numbers_of_X, raw_score=True), scores(fitted, X), **CLOSE)
    np.testing.assert_allclose(predict(booster, numbers_of_X), predictions(fitted, X), **CLOSE)


@pytest.mark.parametrize("name", LOG_LINK_WITH_TWO_OUTPUTS)
def test_several_outputs_with_a_log_link_are_refused(name):
    with pytest.raises(
        ValueError, match=r"with 2 outputs: LightGBM does not apply a link to several outputs; use to_onnx or"
    ):
        to_lightgbm(model(name))


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("squared", "regression"), ("absolute", "regression_l1"), ("quantile", "quantile"), ("huber", "huber"),
        ("poisson", "poisson"), ("gamma", "gamma"), ("tweedie", "tweedie"), ("log_loss", "binary"),
        ("three classes", "multiclass"),
    ],
)  # fmt: skip
def test_objectives_have_their_names(name, objective):
    assert booster_of(model(name)).dump_model()["objective"].split()[0] == objective


def test_lightgbm_round_trip():
    fitted = model("three classes, vector leaves")
    X = hard_rows(fitted)
    again = lightgbm.Booster(model_str=booster_of(fitted).model_to_string())
    np.testing.assert_allclose(predict(again, encode(fitted, X)), predictions(fitted, X), **CLOSE)


def test_categories_of_pandas_frames():
    fitted = model("three classes")
    X = hard_rows(fitted)
    frame = X.astype({"town": "category"})
    np.testing.assert_allclose(predict(booster_of(fitted), frame), predictions(fitted, X), **CLOSE)


def test_categories_that_json_lacks_need_matrices():
    days = pd.DataFrame({"day": pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02"] * 20)), "x": range(40)})
    fitted = AGBMRegressor(max_iter=3).fit(days, np.arange(40.0) % 2)
    assert "pandas_categorical:null" in to_lightgbm(fitted)
    np.testing.assert_allclose(predict(booster_of(fitted), encode(fitted, days)), predictions(fitted, days), **CLOSE)


def test_contributions_add_up():
    """Counts of rows are in the file, so that LightGBM's SHAP values work."""
    fitted = model("squared", **ONE)
    X = table()
    contributions = predict(booster_of(fitted), encode(fitted, X), pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), fitted.predict(X), **CLOSE)
    np.testing.assert_allclose(contributions[:, -1], np.average(fitted.predict(X)), rtol=1e-6)


def test_gains_and_feature_names():
    dump = booster_of(model("squared", **ONE)).dump_model()
    assert dump["feature_names"] == ["a", "b_c", "town", "code"]
    assert dump["tree_info"][0]["tree_structure"]["leaf_value"] == pytest.approx(amounts().mean())
    root = dump["tree_info"][1]["tree_structure"]
    assert root["split_gain"] > 0.0
    assert root["internal_count"] == 300


def test_duplicate_names_are_numbered():
    X = pd.DataFrame(np.arange(80.0).reshape(40, 2), columns=["a b", "a:b"])
    assert booster_of(AGBMRegressor(max_iter=1).fit(X, np.arange(40.0))).feature_name() == ["x0", "x1"]


def test_other_readers_of_the_file(tmp_path):
    fitted = model("three classes")
    (tmp_path / "model.txt").write_text(to_lightgbm(fitted))
    X = hard_rows(fitted)
    read = treelite.frontend.load_lightgbm_model(tmp_path / "model.txt")
    margins = treelite.gtil.predict(read, encode(fitted, X), nthread=1, pred_margin=True).reshape(len(X), -1)
    np.testing.assert_allclose(margins, scores(fitted, X), **CLOSE)


def test_unknown_categories_are_missing():
    fitted = model("squared")
    X = hard_rows(fitted)
    actual = predict(booster_of(fitted), with_unknown_numbers(encode(fitted, X)))
    np.testing.assert_allclose(actual, predictions(fitted, X), **CLOSE)


def test_infinities():
    X, y = numbers()
    fitted = AGBMClassifier(max_iter=10).fit(X, y)
    extreme = np.array([[np.inf] * 3, [-np.inf] * 3])
    expected = fitted.predictor("decision_function")(extreme)
    np.testing.assert_allclose(predict(booster_of(fitted), extreme, raw_score=True), expected, **CLOSE)


@pytest.mark.slow
@examples(10)
@given(seed=st.integers(0, 2**32 - 1), n_categories=st.integers(1, 150), share_missing=st.sampled_from([0.0, 0.3]))
def test_any_categories(seed, n_categories, share_missing):
    rng = np.random.default_rng(seed)
    X, new = rows_of_categories(rng, n_categories, share_missing)
    y = rng.normal(size=len(X))
    fitted = AGBMRegressor(max_iter=3, min_samples_leaf=2, categorical_features=[0]).fit(X, y)
    np.testing.assert_allclose(predict(booster_of(fitted), encode(fitted, new)), predictions(fitted, new), **CLOSE)
