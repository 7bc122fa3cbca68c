"""Plots of uncertainty, against an independent computation."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm, poisson
from sklearn.exceptions import NotFittedError

from agbm import AGBMClassifier, AGBMRegressor, plot
from agbm.losses import Quantile

mpl.use("Agg")
import matplotlib.pyplot as plt

LEVELS = [0.05 * k for k in range(1, 20)]
FEW = {"max_iter": 10, "n_members": 1, "early_stopping": False, "max_depth": 3, "max_leaf_nodes": None}


pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (600, 3))
    return X, 2.0 * X[:, 0] + (0.3 + 0.3 * X[:, 1]) * rng.normal(size=600)


@pytest.fixture(scope="module")
def squares(rows):
    X, y = rows
    return AGBMRegressor(**FEW).fit(X[:300], y[:300]).calibrate(X[300:450], y[300:450])


@pytest.fixture(scope="module")
def quantiles(rows):
    X, y = rows
    model = AGBMRegressor(loss=Quantile([0.05, 0.4, 0.5, 0.95]), **FEW)
    return model.fit(X[:300], y[:300]).calibrate(X[300:450], y[300:450])


def band(collection):
    """Lower and upper ends of a band, by their places."""
    [path] = collection.get_paths()
    x, y = path.vertices.T
    return {place: (y[x == place].min(), y[x == place].max()) for place in np.unique(x)}


@pytest.mark.parametrize("name", ["squares", "quantiles"])
def test_intervals_against_a_feature(name, rows, request):
    model, (X, y) = request.getfixturevalue(name), (rows[0][450:], rows[1][450:])
    ax = plot.intervals(model, X, y, feature=1, coverage=0.8)
    order = np.argsort(X[:, 1])
    line, dots = ax.lines
    predicted = model.predict(X)
    point = predicted[:, 2] if name == "quantiles" else predicted
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([X[:, 1], point])[order])
    np.testing.assert_array_equal(dots.get_xydata(), np.column_stack([X[:, 1], y])[order])
    ends, bounds = band(ax.collections[0]), model.predict_interval(X, 0.8)
    assert len(ends) == len(X)
    for value, pair in zip(X[:, 1], bounds, strict=True):
        np.testing.assert_array_equal(ends[value], pair)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["80 % interval", "median" if name == "quantiles" else "prediction", "label"]
    assert ax.get_xlabel() == "x1"


def test_intervals_of_rows_sorted_by_prediction(squares, rows):
    X = rows[0][450:]
    ax = plot.intervals(squares, X)
    [line] = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 151))
    np.testing.assert_array_equal(line.get_ydata(), np.sort(squares.predict(X)))
    ends, bounds = band(ax.collections[0]), squares.predict_interval(X, 0.9)
    order = np.argsort(squares.predict(X), kind="stable")
    np.testing.assert_array_equal([ends[k + 1.0] for k in range(150)], bounds[order])


def test_intervals_against_categories_missing_values_and_dates():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"_$side_{$": rng.choice(["east", "west"], 300), "level": rng.normal(size=300)})
    X["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 300), unit="D")
    y = X["level"] + (X["_$side_{$"] == "west") + 0.1 * rng.normal(size=300)
    model = AGBMRegressor(**FEW).fit(X[:150], y[:150]).calibrate(X[150:], y[150:])
    new = X[:40].copy()
    new.loc[0, "_$side_{$"], new.loc[1, "_$side_{$"], new.loc[2, "level"] = "north", None, np.nan
    ax = plot.intervals(model, new, feature="_$side_{$")
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert sorted(ticks[:2]) == ["east", "west"]
    assert ticks[2:] == ["unknown"]
    places = [[*ticks[:2], "north"].index(name) for name in new["_$side_{$"] if not pd.isna(name)]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.sort(places))
    ax = plot.intervals(model, new, feature="level")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.sort(new["level"])[:39])
    ax = plot.intervals(model, new, feature="day")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.sort(mpl.dates.date2num(new["day"])))


def test_infinite_bounds_are_drawn_at_the_edge(rows):
    X, y = rows
    model = AGBMRegressor(**FEW).fit(X[:300], y[:300]).calibrate(X[300:305], y[300:305])
    with pytest.warns(UserWarning, match="coverage=0.9 needs 9 calibration rows, there are 5"):
        ax = plot.intervals(model, X[450:], y[450:], feature=0)
    ends = np.array(list(band(ax.collections[0]).values()))
    assert ends.min() == ax.get_ylim()[0] < y[450:].min()
    assert ends.max() == ax.get_ylim()[1] > y[450:].max()


@pytest.mark.parametrize("name", ["squares", "quantiles"])
def test_coverage_of_intervals(name, rows, request):
    model, (X, y) = request.getfixturevalue(name), (rows[0][450:], rows[1][450:])
    ax = plot.coverage(model, X, y)
    diagonal, line = ax.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    expected = [
        np.mean([low <= label <= high for label, (low, high) in zip(y, model.predict_interval(X, level), strict=True)])
        for level in LEVELS
    ]
    np.testing.assert_allclose(line.get_xdata(), LEVELS)
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert 0.0 < expected[0] < expected[-1] <= 1.0
    for level, (low, high) in band(ax.collections[0]).items():
        assert low == binom(150, level).ppf(0.025) / 150
        assert high == binom(150, level).ppf(0.975) / 150


def test_coverage_of_sets_of_classes(rows):
    X, y = rows
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])]
    model = AGBMClassifier(**FEW).fit(X[:300], labels[:300]).calibrate(X[300:450], labels[300:450])
    ax = plot.coverage(model, X[450:], pd.Series(labels[450:], index=range(7, 157)))
    expected = []
    for level in LEVELS:
        sets = [set(model.classes_[row]) for row in model.predict_set(X[450:], level)]
        expected.append(np.mean([label in found for label, found in zip(labels[450:], sets, strict=True)]))
    np.testing.assert_allclose(ax.lines[1].get_ydata(), expected)
    assert 0.0 < expected[0] < expected[-1]


def test_coverage_of_several_outputs_has_a_line_each(rows):
    X, y = rows
    both = np.column_stack([y, y**2])
    model = AGBMRegressor(**FEW).fit(X[:300], both[:300]).calibrate(X[300:450], both[300:450])
    ax = plot.coverage(model, X[450:], both[450:])
    bounds = model.predict_interval(X[450:], 0.5)
    inside = (bounds[:, :, 0] <= both[450:]) & (both[450:] <= bounds[:, :, 1])
    assert [line.get_ydata()[9] for line in ax.lines[1:]] == inside.mean(axis=0).tolist()
    with pytest.raises(ValueError, match=r"plot.intervals needs one label per row; the model has 2"):
        plot.intervals(model, X, feature=0)


def heights(ax):
    return [bar.get_height() for bar in ax.patches if isinstance(bar, mpl.patches.Rectangle)][:-1]  # the last: the band


def test_pit_of_a_continuous_distribution(rows):
    X, y = rows
    model = AGBMRegressor(loss="distribution:normal", **FEW).fit(X[:300], y[:300])
    ax = plot.pit(model, X[300:], y[300:], bins=10)
    raw = model.predict_dist(X[300:])
    values = norm.cdf((y[300:] - raw.mean()) / raw.std())
    assert heights(ax) == np.histogram(values, np.linspace(0, 1, 11))[0].tolist()
    [line] = ax.lines
    assert line.get_ydata()[0] == 30.0
    span = ax.patches[-1]
    assert [span.get_y(), span.get_y() + span.get_height()] == [binom(300, 0.1).ppf(q) for q in (0.025, 0.975)]


def test_pit_of_counts_is_random_with_a_fixed_seed(rows):
    X, _ = rows
    y = np.random.default_rng(1).poisson(np.exp(X[:, 0])).astype(float)
    model = AGBMRegressor(loss="poisson", **FEW).fit(X[:300], y[:300])
    first, second = (heights(plot.pit(model, X, y)) for _ in range(2))
    assert first == second
    mean, place = model.predict(X), np.random.default_rng(0).uniform(size=600)
    values = poisson.cdf(y - 1, mean) + place * poisson.pmf(y, mean)
    assert first == np.histogram(values, np.linspace(0, 1, 21))[0].tolist()
    assert max(first) < 60  # without randomness, half of the rows would share two bins


def test_pit_of_amounts_with_zeros(rows):
    X, _ = rows
    rng = np.random.default_rng(2)
    y = np.where(rng.random(600) < 0.6, 0.0, rng.gamma(3.0, np.exp(X[:, 0])))
    model = AGBMRegressor(loss="distribution:zero_inflated_gamma", **FEW).fit(X, y)
    distribution, place = model.predict_dist(X), np.random.default_rng(0).uniform(size=600)
    values = np.where(y == 0.0, place * distribution.zero, distribution.cdf(y))
    assert heights(plot.pit(model, X, y)) == np.histogram(values, np.linspace(0, 1, 21))[0].tolist()


def test_offsets_are_used(rows):
    X, _ = rows
    y, exposure = np.random.default_rng(1).poisson(np.exp(X[:, 0])).astype(float), np.full(600, np.log(3.0))
    model = AGBMRegressor(loss="poisson", **FEW).fit(X[:300], y[:300]).calibrate(X[300:], y[300:])
    line = plot.intervals(model, X, offset=exposure).lines[0]
    np.testing.assert_allclose(line.get_ydata(), np.sort(3.0 * model.predict(X)))
    inside = model.predict_interval(X, 0.5, exposure)
    share = np.mean((inside[:, 0] <= y) & (y <= inside[:, 1]))
    assert plot.coverage(model, X, y, offset=exposure).lines[1].get_ydata()[9] == share
    assert heights(plot.pit(model, X, y, offset=exposure)) != heights(plot.pit(model, X, y))


def test_plots_are_drawn_on_given_axes(squares, rows):
    _, axes = plt.subplots(1, 2)
    assert plot.intervals(squares, rows[0], ax=axes[0]) is axes[0]
    assert plot.coverage(squares, *rows, ax=axes[1]) is axes[1]


def test_errors(squares, quantiles, rows):
    X, y = rows
    classifier = AGBMClassifier(**FEW).fit(X, y > 0).calibrate(X, y > 0)
    plain = AGBMRegressor(**FEW).fit(X, y)
    for draw in (plot.intervals, plot.coverage):
        with pytest.raises(ValueError, match="needs a calibration, which this model does not have"):
            draw(plain, X, y)
    for draw in (plot.intervals, plot.coverage, plot.pit):
        with pytest.raises(NotFittedError):
            draw(AGBMRegressor(), X, y)
    with pytest.raises(TypeError, match=r"sets of classes, not intervals; use plot\.coverage"):
        plot.intervals(classifier, X)
    with pytest.raises(TypeError, match=r"no predict_dist; use plot\.calibration"):
        plot.pit(classifier, X, y > 0)
    with pytest.raises(ValueError, match=r"gives quantiles, not a whole distribution; use plot\.coverage"):
        plot.pit(quantiles, X, y)
    with pytest.raises(ValueError, match=r"predict_dist\(\) needs a loss that is a distribution"):
        plot.pit(squares, X, y)
    with pytest.raises(ValueError, match=r"coverage=1\.5"):
        plot.intervals(squares, X, coverage=1.5)
    with pytest.raises(ValueError, match="'z' is not a feature"):
        plot.intervals(squares, X, feature="z")
    with pytest.raises(ValueError, match=r"y has shape \(599,\)"):
        plot.coverage(squares, X, y[1:])
    with pytest.raises(ValueError, match=r"y has shape \(599,\); it must have one label for each of the 600"):
        plot.coverage(classifier, X, y[1:] > 0)
    with pytest.raises(ValueError, match=r"y has values \[?nan"):
        plot.coverage(squares, X, np.where(X[:, 0] > 0, np.nan, y))
    for draw in (plot.intervals, plot.coverage):
        with pytest.raises(ValueError, match=r"y has dates or times \(timedelta64"):
            draw(squares, X, np.arange(600).astype("timedelta64[s]"))
    with pytest.raises(ValueError, match="bins=1 must be"):
        plot.pit(squares, X, y, bins=1)
