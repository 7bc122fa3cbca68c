"""Models in ONNX, against onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import agbm.export.onnx
from agbm import AGBMClassifier, AGBMRegressor
from agbm.export import encode, to_onnx
from agbm.export.onnx import rounded_down
from export_models import MAKE_ALL, hard_rows, model, numbers, with_unknown_numbers
from profiles import examples

# What single precision costs: of a probability, and of a prediction relative to the largest one.
PROBABILITY, PREDICTION = 1e-6, 2e-6


def run(proto, feed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def assert_same(results, fitted, X, dtype):
    if hasattr(fitted, "classes_"):
        np.testing.assert_array_equal(results["label"], fitted.predict(X))
        expected, actual = fitted.predict_proba(X), results["probabilities"]
        tolerance = PROBABILITY
    else:
        expected, actual = fitted.predict(X), results["prediction"]
        tolerance = PREDICTION * np.abs(expected).max()
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance if dtype == np.float32 else 1e-8 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAKE_ALL)
def test_onnxruntime_predicts_the_same(name, dtype):
    fitted = model(name)
    X = hard_rows(fitted, dtype)
    assert_same(run(to_onnx(fitted, dtype=dtype), {"X": encode(fitted, X, dtype)}), fitted, X, dtype)


def run_reference(exported, X):
    """Outputs of the reference implementation of the onnx package, by name."""
    evaluator = ReferenceEvaluator(exported)
    return dict(zip(evaluator.output_names, evaluator.run(None, {"X": X}), strict=True))


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_the_reference_implementation_predicts_the_same(strategy):
    X, y = numbers()
    fitted = AGBMClassifier(max_iter=4, multi_strategy=strategy).fit(X, y)
    assert_same(run_reference(to_onnx(fitted, dtype=np.float64), X), fitted, X, np.float64)


def test_the_reference_implementation_reads_sets_of_categories():
    fitted = model("squared")
    X = hard_rows(fitted)
    found = run_reference(to_onnx(fitted, dtype=np.float64), encode(fitted, X, np.float64))
    assert_same(found, fitted, X, np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["squared", "log_loss", "three classes"])
def test_one_input_per_column(name, dtype):
    fitted = model(name)
    X = hard_rows(fitted, dtype)
    feed = {name: X[[name]].to_numpy(dtype) for name in ("a", "b c")}
    feed["code"] = X["code"].astype(float).to_numpy(dtype)[:, np.newaxis]
    feed["town"] = X[["town"]].fillna("").to_numpy(object)
    assert_same(run(to_onnx(fitted, dtype=dtype, columns=True), feed), fitted, X, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unknown_categories_are_missing(dtype):
    fitted = model("squared")
    X = hard_rows(fitted, dtype)
    codes = with_unknown_numbers(encode(fitted, X, dtype))
    assert_same(run(to_onnx(fitted, dtype=dtype), {"X": codes}), fitted, X, dtype)


def test_thresholds_are_exact_for_float32():
    """Rows at the thresholds tell rounding down from rounding to the nearest number."""
    fitted = model("squared")
    X = hard_rows(fitted, np.float32)
    feed = {"X": encode(fitted, X, np.float32)}
    assert_same(run(to_onnx(fitted), feed), fitted, X, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agbm.export.onnx, "rounded_down", lambda thresholds, dtype: thresholds.astype(dtype))
        nearest = run(to_onnx(fitted), feed)["prediction"]
    assert np.abs(nearest - fitted.predict(X)).max() > 0.01


@given(st.floats(allow_nan=False), st.floats(width=32, allow_nan=False))
def test_rounding_down_keeps_the_order(threshold, x):
    rounded = rounded_down(np.array([threshold]), np.dtype(np.float32))[0]
    assert rounded.dtype == np.float32
    assert (np.float32(x) <= rounded) == (x <= threshold)


@pytest.mark.slow
@examples(15)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(1, 4),
    n_categories=st.integers(1, 150),
    share_missing=st.sampled_from([0.0, 0.2, 0.7]),
    n_classes=st.integers(2, 4),
    depth=st.integers(1, 6),
    strategy=st.sampled_from(["one_output_per_tree", "multi_output_tree"]),
)
def test_any_table(seed, n_features, n_categories, share_missing, n_classes, depth, strategy):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, n_features + 1)).round(int(rng.integers(0, 4)))
    X[:, 0] = rng.integers(0, n_categories, len(X))
    X[rng.random(X.shape) < share_missing] = np.nan
    y = np.r_[0, 1, rng.integers(0, n_classes, len(X) - 2)]
    fitted = AGBMClassifier(
        max_iter=3, max_depth=depth, min_samples_leaf=2, categorical_features=[0], multi_strategy=strategy
    ).fit(X, y)
    X_new = X.copy()
    X_new[: len(X) // 2, 0] = rng.integers(0, 2 * n_categories, len(X) // 2)
    results = run(to_onnx(fitted, dtype=np.float64), {"X": encode(fitted, X_new)})
    assert_same(results, fitted, X_new, np.float64)


@pytest.mark.parametrize(
    "labels", [[False, True], [2, 9], [1.0, 3.0], ["a", "b"], np.array(["a", "b"], dtype=object), [1, 2, 3]]
)
def test_labels_keep_their_type(labels):
    X, y = numbers()
    fitted = AGBMClassifier(max_iter=10).fit(X, np.asarray(labels)[np.minimum(y, len(labels) - 1)])
    label = run(to_onnx(fitted, dtype=np.float64), {"X": X})["label"]
    assert label.tolist() == fitted.predict(X).tolist()
    assert set(label.tolist()) == set(np.asarray(labels).tolist())


def test_a_model_of_many_trees_in_single_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X)) > 0
    fitted = AGBMClassifier(max_iter=400, early_stopping=False).fit(X, y)
    probabilities = run(to_onnx(fitted), {"X": X})["probabilities"]
    np.testing.assert_allclose(probabilities, fitted.predict_proba(X), rtol=0.0, atol=PROBABILITY)


def test_export_to_a_file(tmp_path):
    fitted = model("log_loss")
    onnx.save(to_onnx(fitted), tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    assert [output.name for output in proto.graph.output] == ["label", "probabilities"]
    assert {opset.domain: opset.version for opset in proto.opset_import} == {"": 18, "ai.onnx.ml": 5}


def test_a_column_without_categories():
    X = pd.DataFrame({"x": np.arange(40.0), "empty": pd.Series([None] * 40, dtype="category")})
    fitted = AGBMRegressor(max_iter=2).fit(X, np.arange(40.0))
    feed = {"x": X[["x"]].to_numpy(), "empty": np.full((40, 1), "")}
    assert_same(run(to_onnx(fitted, dtype=np.float64, columns=True), feed), fitted, X, np.float64)


def test_errors():
    fitted = model("squared")
    with pytest.raises(ValueError, match=r"dtype=<class 'int'> must be float32 or float64"):
        to_onnx(fitted, dtype=int)
    dates = pd.DataFrame({"day": pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02"] * 20))})
    by_day = AGBMRegressor(max_iter=2).fit(dates, np.arange(40.0))
    with pytest.raises(ValueError, match=r"categories of feature 'day' are neither text nor numbers.*columns=False"):
        to_onnx(by_day, columns=True)
    tenths = AGBMRegressor(max_iter=2, categorical_features=[0]).fit(np.array([[0.1], [0.2]] * 20), np.arange(40.0))
    with pytest.raises(ValueError, match=r"feature 'x0' are neither text nor numbers of type float32"):
        to_onnx(tenths, columns=True)
    exact = run(to_onnx(tenths, columns=True, dtype=np.float64), {"x0": np.array([[0.1], [0.2], [0.3]])})["prediction"]
    np.testing.assert_allclose(exact, tenths.predict(np.array([[0.1], [0.2], [0.3]])), rtol=1e-12)
    labelled = AGBMClassifier(max_iter=2).fit(pd.DataFrame({"label": np.arange(20.0)}), [1, 2] * 10)
    with pytest.raises(ValueError, match=r"another input is also named 'label'; use columns=False"):
        to_onnx(labelled, columns=True)
    halves = AGBMClassifier(max_iter=2).fit(np.arange(20.0)[:, np.newaxis], np.array([1, 2] * 10, dtype=np.float16))
    with pytest.raises(ValueError, match=r"classes \[1.0, 2.0\] are of type float16, which ONNX does not support"):
        to_onnx(halves)


def test_constant_trees_are_pruned():
    """As an inner node and as a leaf: onnxruntime before 1.24 took such a root for a leaf."""
    X = np.arange(40.0)[:, np.newaxis]
    y = 100.0 * (X[:, 0] < 10.0) + X[:, 0]
    fitted = AGBMRegressor(max_iter=3, max_depth=2, min_samples_leaf=10).fit(X, y)
    proto = to_onnx(fitted, dtype=np.float64)
    node = next(node for node in proto.graph.node if node.op_type == "TreeEnsemble")
    ensemble = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert 1 in [ensemble["nodes_trueleafs"][root] for root in ensemble["tree_roots"]]
    for root in ensemble["tree_roots"]:
        assert ensemble["nodes_truenodeids"][root] != ensemble["nodes_falsenodeids"][root]
    assert_same(run(proto, {"X": X}), fitted, X, np.float64)
