"""Plots show the values of the model, and can be read without colours."""

import re
import sys
from importlib import import_module

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy.sparse import csr_matrix
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.inspection import partial_dependence
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix

import agbm
from agbm import AGBMClassifier, AGBMRegressor, export, plot
from agbm.methods import Fading
from agbm.plot._style import BLUE

mpl.use("Agg")
import matplotlib.pyplot as plt

ODD_NAMES = ["_hidden", "$x_{$", "plain"]
"""A legend would leave the first out, and mathtext cannot read the second."""


pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X, y


@pytest.fixture(scope="module")
def models(cancer):
    X, y = cancer
    return {
        method: AGBMClassifier(method=method, max_iter=20, early_stopping=False).fit(
            X[::2], y[::2], X_val=X[1::2], y_val=y[1::2]
        )
        for method in ("fading", "gbm", "vagbm", "agbm", "agbmr")
    }


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return AGBMClassifier(max_iter=5, early_stopping=False).fit(X, names[y]), X


@pytest.fixture(scope="module")
def houses():
    """A table with columns of all kinds, and a model of it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "district": rng.choice(["north", "$south_{$", "east"], 300),
            "_rooms": rng.integers(1, 9, 300),
            "area in $m^2$": rng.normal(60, 20, 300),
            "kind": pd.Categorical(rng.choice(["a", "b"], 300)),
            "code": rng.choice([100.0, 200.0, 3000.0], 300),
        }
    )
    X.loc[::10, "district"] = None
    X.loc[::7, "area in $m^2$"] = np.nan
    y = X["_rooms"] + 9.0 * (X["district"] == "$south_{$") + X["area in $m^2$"].fillna(0.0) / 10 + (X["code"] == 200.0)
    return AGBMRegressor(max_iter=20, categorical_features=["district", "kind", "code"]).fit(X, y), X


def lines_of(ax):
    return [line for line in ax.lines if len(line.get_xdata()) > 1]


def stars_of(ax):
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_marker() == "*"]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("against", "column"), [("trees", "trees"), ("iterations", "iteration"), ("seconds", "seconds")]
)
def test_lines_are_the_history(models, against, column):
    ax = plot.convergence(models, against)
    lines = lines_of(ax)
    assert len(lines) == 2 * len(models)
    for number, model in enumerate(models.values()):
        training, validation = lines[2 * number : 2 * number + 2]
        for line, name in ((training, "train_loss"), (validation, "validation_loss")):
            assert np.array_equal(line.get_xdata(), model.history_[column])
            assert np.array_equal(line.get_ydata(), model.history_[name])
        assert (training.get_linestyle(), validation.get_linestyle()) == ("--", "-")
        best = np.argmin(model.history_["validation_loss"])
        assert stars_of(ax)[number] == (model.history_[column][best], model.history_["validation_loss"][best])
    assert ax.get_xlabel() == against
    assert legend_of(ax) == [*models, "validation", "training", "best iteration"]


@pytest.mark.slow
def test_lines_differ_in_colour_and_in_marker(models):
    lines = lines_of(plot.convergence({f"{name} {k}": m for k in range(9) for name, m in models.items()}))
    of_models = [(line.get_color(), line.get_marker()) for line in lines[1::2]]
    assert len(set(of_models)) == len(of_models) == 45
    few = of_models[:7]
    assert len({colour for colour, _ in few}) == len({marker for _, marker in few}) == 7


@pytest.mark.slow
def test_star_marks_the_best_iteration(cancer):
    X, y = cancer
    model = AGBMClassifier(early_stopping=True, learning_rate=0.5, n_iter_no_change=5).fit(X, y)
    assert model.best_iteration_ < model.n_iter_
    best = model.best_iteration_
    assert stars_of(plot.convergence(model, "iterations")) == [(best, model.history_["validation_loss"][best])]


def test_a_model_without_validation_rows_has_one_line(iris):
    model, _ = iris
    ax = plot.convergence(model)
    (line,) = lines_of(ax)
    assert np.array_equal(line.get_ydata(), model.history_["train_loss"])
    assert stars_of(ax) == [(model.n_trees_, model.history_["train_loss"][-1])]
    assert legend_of(ax) == ["training", "best iteration"]


def test_non_finite_losses_are_left_out(iris):
    model, _ = iris
    broken = AGBMRegressor(max_iter=3).fit([[0.0], [1.0]] * 10, [0.0, 1.0] * 10)
    broken.history_["train_loss"] = np.array([1.0, 0.5, np.inf, 2.0])
    ax = plot.convergence([model, broken], "iterations", log=True)
    np.testing.assert_array_equal(lines_of(ax)[1].get_ydata(), [1.0, 0.5, np.nan, 2.0])
    assert stars_of(ax)[1] == (3, 2.0)  # the iteration that the model uses


def test_no_iteration_at_all():
    model = AGBMRegressor(callbacks=[lambda record: True]).fit([[0.0], [1.0]], [0.0, 1.0])
    assert stars_of(plot.convergence(model)) == [(0, 0.125)]


def test_names_of_models(models, iris):
    gbm, other = models["gbm"], models["agbm"]
    assert legend_of(plot.convergence([gbm, other]))[:2] == ["gradient boosting", "AGBM (paper)"]
    assert legend_of(plot.convergence([gbm, gbm]))[:2] == ["gradient boosting 0", "gradient boosting 1"]
    odd = dict.fromkeys(ODD_NAMES, gbm)
    assert legend_of(plot.convergence(odd, log=True))[:3] == ODD_NAMES


def test_convergence_errors(models):
    with pytest.raises(ValueError, match=r"against='time' must be one of \['trees', 'iterations', 'seconds'\]"):
        plot.convergence(models, "time")
    with pytest.raises(NotFittedError, match="AGBMRegressor"):
        plot.convergence(AGBMRegressor())
    with pytest.raises(TypeError, match=r"model=Ridge\(\) must be a fitted AGBMClassifier, AGBMRegressor"):
        plot.convergence({"a": models["gbm"], "b": Ridge()})
    with pytest.raises(ValueError, match=r"models=\[\] must contain at least one model"):
        plot.convergence([])
    exact = AGBMRegressor(method="gbm", learning_rate=1.0, max_iter=3, l2_regularization=0.0, max_depth=3)
    exact.fit([[0.0], [1.0]] * 10, [0.0, 1.0] * 10)
    with pytest.raises(
        ValueError, match=r"log=True needs positive values, but the training loss of 'gradient boosting' reaches 0"
    ):
        plot.convergence(exact, log=True)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "attribute"), [("gain", "feature_importances_"), ("splits", "split_counts_")])
def test_bars_are_the_importances(models, kind, attribute, tmp_path):
    models["gbm"].save(tmp_path / "model.agbm")
    for model in (models["gbm"], agbm.load(tmp_path / "model.agbm")):
        ax = plot.importances(model, kind, top=7)
        widths = np.array([bar.get_width() for bar in ax.patches])
        values = getattr(model, attribute)
        assert np.array_equal(widths, np.sort(values)[::-1][:7])
        by_name = dict(zip(model.feature_names_in_, values, strict=True))
        assert [by_name[text.get_text()] for text in ax.get_yticklabels()] == widths.tolist()
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first one is above
        assert ax.get_title() == "7 of 30 features"


@pytest.mark.slow
def test_features_without_names_and_with_names_of_any_kind():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [3.0, 2.0, 1.0]
    plain = AGBMRegressor(max_iter=3).fit(X, y)
    assert [text.get_text() for text in plot.importances(plain).get_yticklabels()] == ["x0", "x1", "x2"]
    frame = pd.DataFrame(X, columns=ODD_NAMES)
    odd = AGBMRegressor(max_iter=3).fit(frame, y)
    for ax in (plot.importances(odd), plot.contributions(odd, frame), plot.partial_dependence(odd, frame, ODD_NAMES)):
        assert ax is not None  # and can be drawn, when the test ends
    assert [text.get_text() for text in plot.importances(odd).get_yticklabels()] == ODD_NAMES


@pytest.mark.slow
def test_long_names_keep_their_ends():
    names = [f"{k} is the beginning of a name that goes on and on and ends with {k}" for k in range(30)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 30)), columns=names)
    model = AGBMRegressor(max_iter=5).fit(X, X.sum(axis=1))
    ax = plot.importances(model, top=30)
    shown = [text.get_text() for text in ax.get_yticklabels()]
    assert len(set(shown)) == 30
    assert max(map(len, shown)) <= 36
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert min(box.x0 for box in boxes) >= 0.0  # nothing is cut
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_importances_errors(models):
    with pytest.raises(ValueError, match=r"kind='weight' must be one of \['gain', 'splits'\]"):
        plot.importances(models["gbm"], "weight")
    with pytest.raises(ValueError, match=r"top=0 must be a positive integer"):
        plot.importances(models["gbm"], top=0)
    with pytest.raises(ValueError, match=r"model has no splits.*smaller min_samples_leaf"):
        plot.importances(AGBMRegressor(min_samples_leaf=2).fit([[0.0], [1.0]], [0.0, 1.0]))
    other = AGBMRegressor(method=Fading(learner=Ridge()), max_iter=2).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"importances\(\) works with trees only; this model has learner=Ridge\(\)"):
        plot.importances(other)


@pytest.mark.slow
@pytest.mark.parametrize("top", [3, 12, 100])
def test_bars_lead_from_the_base_value_to_the_score(models, cancer, top):
    model, row = models["gbm"], cancer[0][4:5]
    ax = plot.contributions(model, row, top=top)
    *values, base = model.predict_contributions(row)[0]
    order = np.argsort(-np.abs(values), kind="stable")
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert len(bars) == (top + 1 if top < 30 else 30)
    assert bars[0][0] == pytest.approx(base)
    ends = np.array([x + width for x, width in bars])
    np.testing.assert_allclose(ends[:-1], [x for x, _ in bars[1:]], rtol=1e-12)
    assert ends[-1] == pytest.approx(model.decision_function(row)[0])
    np.testing.assert_allclose([w for _, w in bars[:top]], np.array(values)[order][:top], rtol=1e-9, atol=1e-12)
    for _, width in bars:
        assert (width >= 0) == (to_hex(ax.patches[bars.index((_, width))].get_facecolor()) == BLUE.lower())
    texts = [text.get_text() for text in ax.texts]
    assert texts[-2:] == [f"base value {base:.4g}", f"score {ends[-1]:.4g}"]
    labels = [text.get_text() for text in ax.get_yticklabels()]
    first = order[0]
    assert labels[0] == f"{model.feature_names_in_[first]} = {row.iloc[0, first]:.4g}"
    assert (labels[-1] == f"{30 - top} others") == (top < 30)
    assert ax.get_xlabel() == "raw score of class 1"


def test_values_of_a_row_are_those_of_the_table(houses):
    model, X = houses
    labels = {text.get_text() for text in plot.contributions(model, X[70:71]).get_yticklabels()}
    rooms, kind, code = X.iloc[70][["_rooms", "kind", "code"]]
    assert labels == {
        "district = missing", f"_rooms = {rooms}", "area in $m^2$ = missing", f"kind = {kind}", f"code = {code:.0f}"
    }  # fmt: skip


def test_dots_are_the_contributions(houses):
    model, X = houses
    ax = plot.contributions(model, X, top=3)
    values = model.predict_contributions(X)
    order = np.argsort(-np.abs(values[:, :-1]).mean(axis=0))
    strips = [strip.get_offsets() for strip in ax.collections]
    assert len(strips) == 4
    drawn = [*(values[:, feature] for feature in order[:3]), values[:, order[3:]].sum(axis=1)]
    for row, (strip, value) in enumerate(zip(strips, drawn, strict=True)):
        np.testing.assert_array_equal(strip[:, 0], value)
        assert np.abs(strip[:, 1] - row).max() < 0.5
    assert [text.get_text() for text in ax.get_yticklabels()] == [*model.feature_names_in_[order[:3]], "2 others"]
    total = values[:, -1] + sum(strip[:, 0] for strip in strips)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)


def test_colours_of_dots_follow_the_values_of_the_feature(houses):
    model, X = houses
    ax = plot.contributions(model, X)
    strips = dict(zip([text.get_text() for text in ax.get_yticklabels()], ax.collections, strict=False))
    rooms = strips["_rooms"].get_facecolors()
    lightness = rooms[:, :3].sum(axis=1)
    by_value = [lightness[X["_rooms"] == value].mean() for value in range(1, 9)]
    assert np.all(np.diff(by_value) > 0)  # lighter and lighter, in grey print too
    area = strips["area in $m^2$"].get_facecolors()
    assert np.all(area[X["area in $m^2$"].isna()] == [0.5, 0.5, 0.5, 1.0])
    assert len(np.unique(area, axis=0)) > 50
    assert {to_hex(colour) for colour in strips["district"].get_facecolors()} == {"#808080"}


def test_a_class_or_an_output_must_be_named(iris):
    model, X = iris
    ax = plot.contributions(model, X[:1], target="virginica")
    assert ax.get_xlabel() == "raw score of class virginica"
    last = ax.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(model.decision_function(X[:1])[0, 2])
    with pytest.raises(
        ValueError, match=r"target=None must be one of the classes of the model: setosa, versicolor, vir"
    ):
        plot.contributions(model, X)
    with pytest.raises(ValueError, match=r"target='rose' must be one of the classes"):
        plot.partial_dependence(model, X, [0], target="rose")
    two = AGBMRegressor(max_iter=3).fit(X, X[:, :2])
    assert plot.contributions(two, X, target=1).get_xlabel() == "contribution to the raw score of output 1"
    with pytest.raises(ValueError, match=r"target=2 must be one of the outputs of the model: 0, 1\."):
        plot.contributions(two, X, target=2)
    one = AGBMRegressor(max_iter=3).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"target=1: the model has one output; use target=None"):
        plot.contributions(one, X, target=1)


@pytest.mark.slow
def test_contributions_take_tables_of_every_kind():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = AGBMRegressor(max_iter=3).fit(X, X[:, 0])
    wanted = plot.contributions(model, X).collections[0].get_offsets()
    for table in (X.tolist(), csr_matrix(X)):
        np.testing.assert_array_equal(plot.contributions(model, table).collections[0].get_offsets(), wanted)
    for wrong in (X[0], X[:0]):
        with pytest.raises(
            ValueError, match=r"X must be a table with at least one row, got shape .*X\[:1\], not X\[0\]"
        ):
            plot.contributions(model, wrong)


@pytest.mark.slow
def test_lines_are_mean_predictions(houses):
    model, X = houses
    axes = plot.partial_dependence(model, X, ["_rooms", 2])
    for ax, name in zip(axes, ["_rooms", "area in $m^2$"], strict=True):
        (line,) = lines_of(ax)
        x, y = line.get_data()
        assert np.all(np.diff(x) > 0)
        low, high = X[name].quantile([0.05, 0.95])
        assert low - 2 <= x[0] < x[-1] <= high + 2
        means = [model.predict(X.assign(**{name: value})).mean() for value in x[::7]]
        np.testing.assert_allclose(y[::7], means, rtol=1e-12)
        assert ax.get_xlabel() == name
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[0].get_ylabel() == "mean prediction"
    assert axes[0].figure is axes[1].figure
    assert plt.get_fignums() == [axes[0].figure.number]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["district", "kind", "code"])
def test_categories_are_dots(houses, name):
    model, X = houses
    before = X.copy()
    ax = plot.partial_dependence(model, X, [name], max_categories=2)
    (dots,) = ax.lines
    common = X[name].value_counts().index[:2]
    assert dots.get_linestyle() == "None"
    assert np.array_equal(dots.get_xdata(), [0, 1])
    values = [model.predict(X.assign(**{name: value})).mean() for value in common]
    np.testing.assert_allclose(dots.get_ydata(), values, rtol=1e-12)
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert labels == [str(int(value)) if name == "code" else value for value in common]
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.slow
def test_weights_count_in_all_panels(houses):
    model, X = houses
    weight = np.arange(300.0)
    axes = plot.partial_dependence(model, X, ["_rooms", "kind"], sample_weight=weight)
    for ax, name, value in zip(axes, ["_rooms", "kind"], [1, X["kind"].mode()[0]], strict=True):
        mean = np.average(model.predict(X.assign(**{name: value})), weights=weight)
        assert ax.lines[0].get_ydata()[0] == pytest.approx(mean, rel=1e-12)


@pytest.mark.slow
def test_single_rows_pairs_and_classes_are_those_of_scikit_learn(houses, iris):
    model, X = houses
    axes = plot.partial_dependence(
        model, X, ["_rooms", "district"], kind="both", subsample=20, random_state=0, grid_resolution=8
    )
    assert len(axes[0].lines) == 21
    assert axes[0].lines[-1].get_linestyle() == "--"
    assert len(axes[1].lines) == 1
    pairs = plot.partial_dependence(model, X, [("district", "code"), (1, 2)], grid_resolution=10)
    assert (pairs[0].get_ylabel(), pairs[0].get_xlabel()) == ("district", "code")
    assert (pairs[1].get_xlabel(), pairs[1].get_ylabel()) == ("_rooms", "area in $m^2$")
    classifier, flowers = iris
    ax = plot.partial_dependence(classifier, flowers, [2], target="virginica")
    expected = partial_dependence(classifier, flowers, [2], response_method="predict_proba")["average"][2]
    np.testing.assert_allclose(lines_of(ax)[0].get_ydata(), expected, rtol=1e-12)
    assert ax.get_ylabel() == "mean prediction of class virginica"


def test_partial_dependence_on_given_axes_and_its_errors(houses, iris):
    model, X = houses
    _, axes = plt.subplots(1, 2)
    assert plot.partial_dependence(model, X, ["kind", "_rooms"], ax=axes).tolist() == axes.tolist()
    assert plot.partial_dependence(model, X, ["kind"], ax=axes[:1]) is axes[0]
    assert len(lines_of(axes[1])) == 1
    assert len(plt.get_fignums()) == 1
    with pytest.raises(ValueError, match=r"ax has 2 axes, features has 1 entries; pass one for each, or ax=None"):
        plot.partial_dependence(model, X, ["kind"], ax=axes)
    with pytest.raises(ValueError, match=r"features: 'garden' is not a feature of the model; it has district, _rooms"):
        plot.partial_dependence(model, X, ["garden"])
    with pytest.raises(ValueError, match=r"features: 5 must be a name or a position from 0 to 4"):
        plot.partial_dependence(model, X, [5])
    with pytest.raises(ValueError, match=r"features='kind' must be a list, such as \['kind'\]"):
        plot.partial_dependence(model, X, "kind")
    with pytest.raises(ValueError, match=r"features=\[\] must name at least one"):
        plot.partial_dependence(model, X, [])
    with pytest.raises(
        ValueError, match=r"All values of feature 'area in \$m\^2\$' in X are missing; pass rows that have some"
    ):
        plot.partial_dependence(model, X[::7], [2])
    with pytest.raises(TypeError, match=r"X must be an array or a pandas data frame, .*got list"):
        plot.partial_dependence(iris[0], iris[1].tolist(), [0], target="setosa")


@pytest.mark.parametrize("form", ["days", "times", "text", "zone", "durations", "array"])
def test_lines_of_dates_are_mean_predictions(form):
    random = np.random.default_rng(0)
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(
        random.integers(0, 60 if form == "durations" else 900, 300), "D"
    )
    when = pd.Series(
        days + pd.to_timedelta(random.integers(0, 1440, 300), "min") if form in ("times", "zone") else days
    )
    frame = pd.DataFrame({"when": when, "a": random.normal(size=300)})
    y = np.sin(days.day_of_year / 58) + frame["a"]
    kinds = {"text": lambda: when.astype(str), "zone": lambda: when.dt.tz_localize("UTC")}
    kinds["durations"] = lambda: when - pd.Timestamp("2022-01-01")
    frame["when"] = kinds.get(form, lambda: when)()
    frame.loc[::9, "when"] = None
    X = frame.to_numpy(dtype=object) if form == "array" else frame
    model = AGBMRegressor(max_iter=20).fit(X, y)
    ax = plot.partial_dependence(model, X, [0], kind="both")
    *rows, line = ax.lines
    assert len(rows) == 300
    points = line.get_xdata()
    for place in (0, len(points) // 2, -1):
        value = pd.Timedelta(points[place], "D") if form == "durations" else pd.Timestamp(points[place])
        changed = frame.assign(when=value)
        expected = model.predict(changed.to_numpy(dtype=object) if form == "array" else changed)
        np.testing.assert_allclose(line.get_ydata()[place], expected.mean(), rtol=1e-9)
        np.testing.assert_allclose([row.get_ydata()[place] for row in rows], expected, rtol=1e-9)
    if form != "durations":
        assert len({pd.Timestamp(point).time() for point in points}) == 1
    name = "x0" if form == "array" else "when"
    assert ax.get_xlabel() == (f"{name}, days" if form == "durations" else name)
    plt.close("all")


def test_a_feature_without_effect_is_a_flat_line():
    X = np.column_stack([np.arange(40), np.ones(40)])  # whole numbers
    X[:, 1] = X[:, 0] % 2
    model = AGBMRegressor(max_iter=3, max_depth=1, colsample_bynode=1.0).fit(X, X[:, 0])
    line = lines_of(plot.partial_dependence(model, X.astype(int), [1]))[0]
    assert np.ptp(line.get_ydata()) == 0.0


def test_calibration_is_that_of_scikit_learn(models, cancer):
    X, y = cancer
    ax = plot.calibration(models, X, y, bins=5)
    (counts,) = [other for other in ax.figure.axes if other is not ax]
    diagonal, *lines = ax.lines
    assert np.array_equal(diagonal.get_data(), [[0, 1], [0, 1]])
    assert len(lines) == len(counts.patches) == len(models)
    for line, steps, model in zip(lines, counts.patches, models.values(), strict=True):
        probabilities = model.predict_proba(X)[:, 1]
        share, mean = calibration_curve(y, probabilities, n_bins=5)
        assert np.array_equal(line.get_data(), [mean, share])
        rows, edges, _ = steps.get_data()
        assert rows.tolist() == np.histogram(probabilities, edges)[0].tolist()
        assert rows.sum() == len(y)
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines)
    assert legend_of(ax) == list(models)
    assert counts.get_xlabel() == "predicted probability of class 1"


def test_calibration_of_labels_that_are_text(cancer):
    X, y = cancer
    labels = np.where(y == 1, "$good", "_bad")
    model = AGBMClassifier(max_iter=10).fit(X, labels)
    ax = plot.calibration(model, X, labels)
    share, mean = calibration_curve(labels == "_bad", model.predict_proba(X)[:, 1], n_bins=10)
    assert np.array_equal(ax.lines[1].get_data(), [mean, share])
    assert ax.get_ylabel() == "share of class _bad"
    assert ax.get_legend() is None


def test_calibration_of_several_classes_is_that_of_the_predicted_one(iris):
    model, X = iris
    y = np.roll(model.predict(X), 9)  # some predictions are wrong
    ax = plot.calibration(model, X, y, bins=4)
    probabilities = model.predict_proba(X).max(axis=1)
    share, mean = calibration_curve(model.predict(X) == y, probabilities, n_bins=4)
    assert np.array_equal(ax.lines[1].get_data(), [mean, share])
    assert 0.0 < share.min() < 1.0
    assert ax.get_ylabel() == "share of correct predictions"
    assert ax.figure.axes[1].get_xlabel() == "predicted probability of the predicted class"


def test_costs_are_those_of_the_errors(models, cancer):
    X, y = cancer
    ax = plot.threshold_costs(models, X, y, false_positive=2.0, false_negative=5.0)
    lines = [line for line in lines_of(ax) if line.get_drawstyle() == "steps-pre"]
    assert len(lines) == len(stars_of(ax)) == len(models)
    for line, star, model in zip(lines, stars_of(ax), models.values(), strict=True):
        probabilities = model.predict_proba(X)[:, 1]
        thresholds, costs = line.get_data()
        assert (thresholds[0], thresholds[-1]) == (0.0, 1.0)
        for threshold, cost in zip(thresholds, costs, strict=True):
            (_, false_positives), (false_negatives, _) = confusion_matrix(y, probabilities >= threshold)
            assert cost == pytest.approx((2.0 * false_positives + 5.0 * false_negatives) / len(y), rel=1e-12)
        assert star == (thresholds[costs.argmin()], costs.min())
    assert legend_of(ax) == list(models)
    assert ax.lines[-1].get_xdata()[0] == 2.0 / 7.0
    assert ax.get_xlabel() == "threshold of the predicted probability of class 1"


def test_costs_of_one_class_only(models, cancer):
    X, y = cancer
    ax = plot.threshold_costs(models["gbm"], X[y == 1], y[y == 1])
    _, costs = lines_of(ax)[0].get_data()
    assert costs[0] == 0.0
    assert np.all(np.diff(costs) >= 0.0)
    assert ax.get_legend() is None


def test_costs_errors(models, cancer, iris, houses):
    X, y = cancer
    with pytest.raises(ValueError, match=r"models: 'agbm' has 3 classes, threshold_costs needs two"):
        plot.threshold_costs(iris[0], iris[1], iris[0].predict(iris[1]))
    with pytest.raises(TypeError, match=r"models: 'agbm' is not a classifier"):
        plot.threshold_costs(houses[0], houses[1], np.zeros(300))
    with pytest.raises(ValueError, match=r"y has labels \[2\] that 'gradient boosting' does not know"):
        plot.threshold_costs(models["gbm"], X, 2 * y)
    with pytest.raises(ValueError, match=r"false_negative must be a positive number; got 0"):
        plot.threshold_costs(models["gbm"], X, y, false_negative=0)
    with pytest.raises(ValueError, match=r"false_positive must be a positive number; got inf"):
        plot.threshold_costs(models["gbm"], X, y, false_positive=np.inf)


def test_large_numbers_are_written_in_full():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.choice([98103.0, 98038.0], 200), "area": 1e6 * rng.random(200)})
    y = 1e6 * (X["code"] == 98103.0) + X["area"]
    model = AGBMRegressor(max_iter=5, categorical_features=["code"]).fit(X, y)
    axes = [plot.convergence(model), plot.contributions(model, X), *plot.partial_dependence(model, X, ["code", "area"])]
    for ax in axes:
        ax.figure.canvas.draw()
        ticks = [text.get_text() for text in (*ax.get_xticklabels(), *ax.get_yticklabels())]
        assert not [tick for tick in ticks if re.search(r"\de\+?\d", tick)]
        assert "1e" not in ax.yaxis.get_offset_text().get_text() + ax.xaxis.get_offset_text().get_text()
    assert [text.get_text() for text in axes[2].get_xticklabels()] in (["98103", "98038"], ["98038", "98103"])
    assert any("," in text.get_text() for text in axes[0].get_yticklabels())


def test_names_without_glyphs():
    X = np.random.default_rng(0).normal(size=(50, 2))
    table = pd.DataFrame(X, columns=pd.Index(["a\0b", "half \ud800"], dtype=object))
    model = AGBMRegressor(max_iter=3).fit(table, X.sum(axis=1))
    labels = {text.get_text() for text in plot.importances(model).get_yticklabels()}
    assert labels == {"a\N{REPLACEMENT CHARACTER}b", "half \N{REPLACEMENT CHARACTER}"}


def test_calibration_errors(models, cancer, houses):
    X, y = cancer
    with pytest.raises(TypeError, match=r"models: 'agbm' is not a classifier"):
        plot.calibration(houses[0], houses[1], np.zeros(300))
    with pytest.raises(ValueError, match=r"y has labels \[2\] that 'gradient boosting' does not know"):
        plot.calibration(models["gbm"], X, 2 * y)
    with pytest.raises(ValueError, match=r"bins=1 must be an integer of at least 2"):
        plot.calibration(models["gbm"], X, y, bins=1)
    with pytest.raises(ValueError, match=r"is not in a grid.*plt\.subplots"):
        plot.calibration(models["gbm"], X, y, ax=plt.figure().add_axes((0, 0, 1, 1)))


@pytest.mark.slow
def test_plots_on_given_axes(models, cancer):
    X, y = cancer
    model = models["gbm"]
    figure, axes = plt.subplots(2, 4, figsize=(24, 10), layout="constrained")
    draws = [
        lambda ax: plot.convergence(models, ax=ax),
        lambda ax: plot.importances(model, ax=ax),
        lambda ax: plot.contributions(model, X[:1], ax=ax),
        lambda ax: plot.contributions(model, X, ax=ax),
        lambda ax: plot.calibration(models, X, y, ax=ax),
        lambda ax: plot.threshold_costs(models, X, y, ax=ax),
        lambda ax: plot.partial_dependence(model, X, [0], ax=ax),
        lambda ax: plot.tree(model, ax=ax),
    ]
    for ax, draw in zip(axes.flat, draws, strict=True):
        assert draw(ax) is ax
        assert ax.has_data()
    assert plt.get_fignums() == [figure.number]
    assert plot.tree is export.plot_tree


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    monkeypatch.delitem(sys.modules, "agbm.plot")
    with pytest.raises(ImportError, match=r"^agbm\.plot needs matplotlib: pip install 'agbm\[plot\]'\.$"):
        import_module("agbm.plot")
