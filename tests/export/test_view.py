"""The view of a model that all exports share, and the errors that they share."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

from agbm import AGBMClassifier, AGBMRegressor, export
from agbm.export._view import view
from agbm.losses import HalfSquaredError, Poisson
from agbm.methods import Fading
from export_models import MAKE_ALL, hard_rows, model, numbers, scores, table

EXPORTS = ["export_text", "plot_tree", "to_c", "to_graphviz", "to_js", "to_lightgbm", "to_onnx", "to_treelite"]


class MyLoss(HalfSquaredError):
    """May have any link."""


def refused():
    X, y = numbers()
    X = np.nan_to_num(X)
    few = {"max_iter": 2}
    yield (
        AGBMRegressor(method=Fading(learner=Ridge()), **few).fit(X, y),
        r"learner=Ridge\(\): only trees can be exported; use trees",
    )
    start = LinearRegression().fit(X, y)
    yield AGBMRegressor(init=start, **few).fit(X, y), r"init=LinearRegression\(\): .* use init='prior'"
    yield AGBMRegressor(loss=MyLoss(), **few).fit(X, y), r"loss=MyLoss\(\) is not one of agbm.losses; .* Use a loss of"
    counts = AGBMClassifier(loss=Poisson(), **few).fit(X, y > 0)
    yield counts, r"loss=Poisson\(\) does not give probabilities of 2 classes.*use loss='log_loss'"


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_unsupported_models_raise(name):
    for fitted, message in refused():
        with pytest.raises(ValueError, match=message):
            getattr(export, name)(fitted)
    with pytest.raises(NotFittedError):
        getattr(export, name)(AGBMRegressor())
    with pytest.raises(TypeError, match=r"model=Ridge\(\) must be a fitted AGBMClassifier, AGBMRegressor"):
        getattr(export, name)(Ridge())


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("to_onnx", "onnx", "onnx"), ("to_treelite", "treelite", "treelite"), ("plot_tree", "matplotlib", "plot")],
)
def test_missing_library_raises(monkeypatch, name, module, extra):
    for loaded in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'agbm\[{extra}\]'"):
        getattr(export, name)(model("squared"))


def value_at(tree, row):
    """The value of a tree for a row, split by split."""
    node = 0
    while tree.feature[node] >= 0:
        x = row[tree.feature[node]]
        if node in tree.members:
            yes = x in tree.members[node]
        else:
            yes = bool(tree.missing_yes[node]) if np.isnan(x) else x <= tree.threshold[node]
        node = tree.yes[node] if yes else tree.no[node]
    return tree.value[node]


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE_ALL)
def test_splits_lead_to_the_scores(name):
    fitted = model(name)
    X = hard_rows(fitted)[::3]
    seen, rows = view(fitted), export.encode(fitted, X)
    total = np.tile(seen.start, (len(X), 1))
    for tree in seen.trees:
        total[:, tree.outputs] += [value_at(tree, row) for row in rows]
    np.testing.assert_allclose(total, scores(fitted, X), rtol=1e-12, atol=1e-12)


def test_models_cover_the_hard_cases():
    """Otherwise the tests of the formats would not cover them."""
    trees = [tree for name in MAKE_ALL for tree in view(model(name)).trees]
    questions = [(tree, node) for tree in trees for node in np.flatnonzero(tree.inner)]
    assert any(len(members) and max(members) > 64 for tree in trees for members in tree.members.values())
    # Both kinds of children are on the yes side, so that missing categories have gone left and right.
    assert {tree.yes[node] < tree.no[node] for tree, node in questions if node in tree.members} == {True, False}
    assert {bool(tree.missing_yes[node]) for tree, node in questions if node not in tree.members} == {True, False}
    assert any(np.isinf(tree.threshold[node]) for tree, node in questions)
    assert not any(tree.inner.any() for tree in view(model("three single leaves")).trees)
    assert model("no trees").best_iteration_ == 0


def test_encode_gives_the_numbers_of_categories():
    fitted = model("squared")
    X = table()[:4].assign(town=["a", "never seen", None, "b"])
    towns = fitted.model_.categories[2]
    expected = [towns.index("a"), len(towns), np.nan, towns.index("b")]
    np.testing.assert_array_equal(export.encode(fitted, X)[:, 2], expected)
    only_categories = AGBMRegressor(max_iter=1).fit(table()[["town"]], np.arange(300.0))
    assert export.encode(only_categories, table()[["town"]]).dtype == np.float64
    assert export.encode(only_categories, table()[["town"]], np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="yet now missing:\n- b c"):
        export.encode(fitted, X[["a"]])
    numeric = AGBMRegressor(max_iter=1).fit(np.eye(20), np.arange(20.0))
    np.testing.assert_array_equal(export.encode(numeric, csr_array(np.eye(20))), np.eye(20))
    with pytest.raises(NotFittedError):
        export.encode(AGBMRegressor(), X)
