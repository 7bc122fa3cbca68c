"""Models in Treelite, against its own predictions."""

import numpy as np
import pytest
import treelite
from hypothesis import given
from hypothesis import strategies as st

from agbm import AGBMClassifier
from agbm.export import encode, to_treelite
from export_models import (
    MAKE_ALL,
    ONE,
    hard_rows,
    model,
    numbers,
    predictions,
    rows_of_categories,
    scores,
    with_unknown_numbers,
)
from profiles import examples

CLOSE = {"rtol": 1e-13, "atol": 1e-13}


def predict(exported, X, **options):
    """(row, output or class)."""
    return treelite.gtil.predict(exported, X, nthread=1, **options).reshape(len(X), -1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAKE_ALL)
def test_treelite_predicts_the_same(name, dtype):
    fitted = model(name)
    X = hard_rows(fitted, dtype)
    exported, numbers_of_X = to_treelite(fitted), encode(fitted, X, dtype)
    np.testing.assert_allclose(predict(exported, numbers_of_X, pred_margin=True), scores(fitted, X), **CLOSE)
    # Treelite's softmax is one of float32 numbers.
    close = {"rtol": 3e-7} if "three" in name else CLOSE
    np.testing.assert_allclose(predict(exported, numbers_of_X), predictions(fitted, X), **close)


def test_file_round_trip(tmp_path):
    fitted = model("three classes, vector leaves")
    to_treelite(fitted).serialize(tmp_path / "model.tl")
    X = hard_rows(fitted)
    again = predict(treelite.Model.deserialize(tmp_path / "model.tl"), encode(fitted, X), pred_margin=True)
    np.testing.assert_allclose(again, scores(fitted, X), **CLOSE)


def test_metadata():
    exported = to_treelite(model("three classes", **ONE))
    assert (exported.num_tree, exported.num_feature) == (24, 4)
    assert to_treelite(model("three classes, vector leaves", **ONE)).num_tree == 8
    tree = exported.get_tree_accessor(0)
    assert tree.get_field("data_count")[0] == 300
    assert tree.get_field("gain")[0] > 0.0


def test_unknown_categories_are_missing():
    fitted = model("squared")
    X = hard_rows(fitted)
    actual = predict(to_treelite(fitted), with_unknown_numbers(encode(fitted, X)))
    np.testing.assert_allclose(actual, predictions(fitted, X), **CLOSE)


def test_infinities():
    X, y = numbers()
    fitted = AGBMClassifier(max_iter=10).fit(X, y)
    extreme = np.array([[np.inf] * 3, [-np.inf] * 3, [1e-40] * 3])
    expected = fitted.predictor("decision_function")(extreme)
    np.testing.assert_allclose(predict(to_treelite(fitted), extreme, pred_margin=True), expected, **CLOSE)


@examples(10)
@given(seed=st.integers(0, 2**32 - 1), n_categories=st.integers(1, 150), share_missing=st.sampled_from([0.0, 0.3]))
def test_any_categories(seed, n_categories, share_missing):
    rng = np.random.default_rng(seed)
    X, new = rows_of_categories(rng, n_categories, share_missing)
    fitted = AGBMClassifier(max_iter=3, min_samples_leaf=2, categorical_features=[0])
    fitted.fit(X, np.r_[0, 1, rng.integers(0, 2, len(X) - 2)])
    np.testing.assert_allclose(predict(to_treelite(fitted), encode(fitted, new)), predictions(fitted, new), **CLOSE)
