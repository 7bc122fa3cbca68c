"""Plots of partial dependence by recursion."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor

from agbm import AGBMClassifier, AGBMRegressor, plot
from agbm.methods import Fading


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 5, n), "c": rng.choice(list("pqr"), n)})
    X["d"] = rng.choice(list("uv"), n)
    X.loc[::7, "a"] = np.nan
    y = np.nan_to_num(X["a"]) * X["b"] + 3.0 * (X["c"] == "q")
    return AGBMRegressor(max_iter=20).fit(X, y), X, y


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_lines_dots_and_pairs(fitted):
    model, X, _ = fitted
    axes = plot.partial_dependence(model, X, ["a", "b", "c", ("a", "b"), ("c", "d")], method="recursion")
    x, drawn = axes[0].get_lines()[0].get_data()
    assert len(x) == 100
    finite = X["a"].dropna()
    assert finite.quantile(0.04) < x[0] < finite.quantile(0.06)
    np.testing.assert_array_equal(drawn, model.model_.partial_dependence([0], x[:, np.newaxis])[0])
    np.testing.assert_array_equal(axes[1].get_lines()[0].get_xdata(), range(5))
    dots = axes[2].get_lines()[0].get_ydata()
    assert [text.get_text() for text in axes[2].get_xticklabels()] == model.model_.categories[2]
    np.testing.assert_array_equal(dots, model.model_.partial_dependence([2], np.arange(3.0)[:, np.newaxis])[0])
    assert axes[0].get_ylabel() == "mean score"


def test_it_is_close_to_brute_force_if_features_are_independent(fitted):
    model, X, _ = fitted
    lines = [
        plot.partial_dependence(model, X, ["b"], method=method).get_lines()[0].get_data()
        for method in ("recursion", "brute")
    ]
    np.testing.assert_array_equal(lines[0][0], lines[1][0])
    assert np.corrcoef(lines[0][1], lines[1][1])[0, 1] > 0.97 or np.ptp(lines[1][1]) < 0.1


def test_classes_and_options(fitted):
    _, X, y = fitted
    classes = np.digitize(y, [0.0, 2.0])
    model = AGBMClassifier(max_iter=5).fit(X, classes)
    axis = plot.partial_dependence(
        model, X, ["a"], target=2, method="recursion", grid_resolution=20, percentiles=(0.2, 0.8),
        response_method="decision_function", line_kw={"linewidth": 4},
    )  # fmt: skip
    line = axis.get_lines()[0]
    assert line.get_linewidth() == 4
    points = line.get_xdata()[:, np.newaxis]
    assert len(points) == 20
    np.testing.assert_array_equal(line.get_ydata(), model.model_.partial_dependence([0], points)[2])
    assert axis.get_ylabel() == "mean score of class 2"


def test_errors(fitted):
    model, X, y = fitted
    for options, message in [
        ({"kind": "both"}, "kind='both' needs the predictions of rows"),
        ({"sample_weight": np.ones(len(X))}, "averages over the training rows"),
        ({"response_method": "predict_proba"}, "averages raw scores"),
    ]:
        with pytest.raises(ValueError, match=message):
            plot.partial_dependence(model, X, ["a"], method="recursion", **options)
    with pytest.raises(ValueError, match="All values of feature 'a' in X are missing"):
        plot.partial_dependence(model, X.assign(a=np.nan), ["a"], method="recursion")
    with pytest.raises(ValueError, match="a number and a category"):
        plot.partial_dependence(model, X, [("a", "c")], method="recursion")
    with pytest.raises(ValueError, match="method='fast' must be"):
        plot.partial_dependence(model, X, ["a"], method="fast")
    start = DummyRegressor().fit(X, y)
    with pytest.raises(ValueError, match="needs init='prior'"):
        plot.partial_dependence(AGBMRegressor(max_iter=2, init=start).fit(X, y), X, ["a"], method="recursion")
    other = AGBMRegressor(max_iter=2, method=Fading(learner=DummyRegressor())).fit(X[["b"]], y)
    with pytest.raises(ValueError, match="works with trees only"):
        plot.partial_dependence(other, X[["b"]], ["b"], method="recursion")
