"""Plots of intervals and distributions of labels, and of how often they are right."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from scipy.stats import binom

from .._base.sums import Array
from .._base.types import Table, Values
from .._base.weights import refuse_dates
from .._data.rows import some_of
from .._estimators.base import BaseAGBM
from .._estimators.classifier import AGBMClassifier
from .._labels.base import Numbers
from .._losses import traits_of
from ..export._view import check_fitted, feature_names
from ._arguments import check_labels, feature_position
from ._style import BLACK, BLUE, GREY, ORANGE, SKY, add_legend, line_style, new_axes, plain_numbers, shortened

LEVELS = np.arange(1, 20) / 20
"""The nominal coverages that are compared with the observed ones."""
BAND = 0.025, 0.975


# Drawing
def intervals(
    model: BaseAGBM,
    X: Table,
    y: Values | None = None,
    *,
    feature: str | int | None = None,
    coverage: float = 0.9,
    offset: Values | None = None,
    ax: Axes | None = None,
) -> Any:
    """Plot the intervals of a regressor as a band, with its predictions as a line and the labels y as dots.

    feature, a name or a position, is the x-axis; None: rows are sorted by their prediction. Rows with the same value of
    the feature may have different intervals, since other features differ: the band is then ragged. Rows with a missing
    value of the feature are left out. The line is the prediction; for a list of quantiles, the middle one. An infinite
    bound is drawn at the edge of the axes.
    """
    check_fitted(model)
    if isinstance(model, AGBMClassifier):
        raise TypeError("model is a classifier, which has sets of classes, not intervals; use plot.coverage.")
    bounds = model.predict_interval(X, coverage, offset)
    _check_one_output(model, "intervals")
    line = point_predictions(model, model.predict(X, offset))
    y = None if y is None else _numbers(y, line.shape)
    position = None if feature is None else feature_position(model, feature)
    x = line if position is None else _feature_values(model, X, position)
    order = np.argsort(x, kind="stable")
    order = order[~np.isnan(x[order])]
    x = np.arange(1.0, len(order) + 1.0) if position is None else x[order]
    ax = new_axes(ax)
    _label_axes(ax, model, position, x)
    bounds, line, y = bounds[order], line[order], None if y is None else y[order]
    shown = _within_axes(ax, bounds, line, y)
    handles: list[Artist] = [ax.fill_between(x, shown[:, 0], shown[:, 1], color=SKY, alpha=0.35, linewidth=0)]
    handles += ax.plot(x, line, color=BLUE, linewidth=1.5, zorder=3)  # above the dots
    names = [f"{100 * coverage:g} % interval", _line_name(model)]
    if y is not None:
        handles += ax.plot(x, y, linestyle="none", marker="o", markersize=3, color=BLACK, alpha=0.4)
        names.append("label")
    add_legend(ax, handles, names)
    ax.set_ylabel(names[1] if y is None else f"{names[1]} and label")
    return ax


def coverage(model: BaseAGBM, X: Table, y: Values, *, offset: Values | None = None, ax: Axes | None = None) -> Any:
    """Plot the share of labels within the intervals, or sets of classes, of a model against their nominal coverage.

    X and y are test rows. Nominal coverages are 0.05, 0.1, ..., 0.95. The band around the diagonal is where 95 % of the
    shares are if the coverage is exact for each row; it covers the sampling of these rows only, not that of the rows
    that have calibrated the model. Several outputs have one line each.
    """
    found = covered(model, X, y, offset)
    return draw_coverage(new_axes(ax, 5.0, 5.4), found, len(cast(Sized, y)))


def pit(
    model: BaseAGBM, X: Table, y: Values, *, offset: Values | None = None, bins: int = 20, ax: Axes | None = None
) -> Any:
    """Plot a histogram of the probability integral transform, for models with predict_dist.

    The transform of a label is the probability that its predicted distribution gives to smaller numbers. If the
    distributions are right, it is uniform: all bins have the same height, up to chance. The band contains the height of
    a bin with a probability of 95 %. A U shape means distributions that are too narrow, a hill those that are too wide,
    a slope predictions that are too high or too low on average. Where a number has a probability of its own, as for
    counts and for zeros, the transform is drawn at random from the range of probabilities that the number takes up,
    with a fixed seed.
    """
    if not isinstance(bins, (int, np.integer)) or bins < 2:
        raise ValueError(f"bins={bins!r} must be an integer of at least 2.")
    distribution = _distribution_of(model, X, offset)
    y = _numbers(y, np.shape(distribution.mean()))
    return draw_pit(new_axes(ax), transformed(distribution, y, places_of(len(y))), bins=int(bins))


def draw_coverage(ax: Axes, found: Array, n_rows: int) -> Axes:
    """Draw observed coverages at LEVELS, (level) or (level, output), of a number of rows."""
    low, high = (binom.ppf(share, n_rows, LEVELS) / n_rows for share in BAND)
    ax.fill_between(LEVELS, low, high, color=GREY, alpha=0.25, linewidth=0)
    ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", color=GREY)
    handles = []
    for number, shares in enumerate(np.atleast_2d(found.T)):
        handles += ax.plot(LEVELS, shares, markersize=5, **line_style(number))
    if len(handles) > 1:
        add_legend(ax, handles, [f"output {number}" for number in range(len(handles))])
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="nominal coverage", ylabel="observed coverage")
    return ax


def draw_pit(ax: Axes, values: Array, *, bins: int = 20) -> Axes:
    """Draw the histogram of transformed labels."""
    counts, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    ax.bar(edges[:-1], counts, width=1.0 / bins, align="edge", color=BLUE, edgecolor="white", linewidth=0.5)
    low, high = binom.ppf(BAND, len(values), 1.0 / bins)
    ax.axhspan(low, high, color=ORANGE, alpha=0.25, linewidth=0)
    ax.axhline(len(values) / bins, color=BLACK, linestyle="--", linewidth=1.2)
    ax.set(xlim=(0.0, 1.0), xlabel="probability of smaller labels (PIT)", ylabel="rows")
    plain_numbers(ax.yaxis)
    return ax


# Numbers
def covered(model: BaseAGBM, X: Table, y: Values, offset: Values | None = None) -> Array:
    """The share of labels in the intervals or sets of each nominal coverage: (level), or (level, output)."""
    check_fitted(model)
    if isinstance(model, AGBMClassifier):
        sets = [model.predict_set(X, float(level), offset) for level in LEVELS]
        check_labels("model", model, y)
        _check_length(y, len(sets[0]))
        codes = np.searchsorted(model.classes_, np.asarray(y))
        return np.array([of_rows[np.arange(len(codes)), codes].mean() for of_rows in sets])
    bounds = np.stack([model.predict_interval(X, float(level), offset) for level in LEVELS])
    y = _numbers(y, bounds.shape[1:-1])
    return np.asarray(((bounds[..., 0] <= y) & (y <= bounds[..., 1])).mean(axis=1))


def places_of(n_rows: int) -> Array:
    """For each row, where its label is within a jump of its distribution: random numbers with a fixed seed."""
    return np.random.default_rng(0).uniform(size=n_rows)


def transformed(distribution: Any, y: Array, places: Array) -> Array:
    """The probability integral transform of each label, at a place from 0 to 1 within a jump of its distribution."""
    below, upto = distribution.cdf(np.nextafter(y, -np.inf)), distribution.cdf(y)
    return np.asarray(below + places * (upto - below))


def _distribution_of(model: BaseAGBM, X: Table, offset: Values | None) -> Any:
    """The predicted distributions; raises an error that names another plot if there are none."""
    check_fitted(model)
    if isinstance(model, AGBMClassifier):
        raise TypeError("model is a classifier, which has no predict_dist; use plot.calibration or plot.coverage.")
    loss = model.model_.loss
    if traits_of(loss).listed_quantiles:
        raise ValueError(f"loss={loss!r} gives quantiles, not a whole distribution; use plot.coverage.")
    distribution = model.predict_dist(X, offset)
    _check_one_output(model, "pit")
    return distribution


def point_predictions(model: BaseAGBM, predicted: Array) -> Array:
    """One number per row: the prediction or, for a list of quantiles, the middle one."""
    traits = traits_of(model.model_.loss)
    return predicted[:, traits.middle] if traits.listed_quantiles else predicted


# Arguments
def _line_name(model: BaseAGBM) -> str:
    traits = traits_of(model.model_.loss)
    if not traits.quantiles:
        return "prediction"
    level = traits.quantiles[traits.middle]
    return "median" if level == 0.5 else f"{level:g} quantile"


def _check_one_output(model: BaseAGBM, name: str) -> None:
    shape = cast(Numbers, model.model_.labels).shape
    if shape:
        raise ValueError(f"plot.{name} needs one label per row; the model has {shape[0]}. Fit one alone.")


def _check_length(y: Any, n_rows: int) -> None:
    if np.ndim(y) != 1 or len(y) != n_rows:
        raise ValueError(f"y has shape {np.shape(y)}; it must have one label for each of the {n_rows} rows of X.")


def _numbers(y: Values, shape: tuple[int, ...]) -> Array:
    """Labels as finite numbers, of a shape."""
    refuse_dates(y, "y")
    numbers: Array = np.asarray(y, dtype=np.float64)
    if numbers.shape != shape:
        raise ValueError(f"y has shape {numbers.shape}; for these rows of X, it must have the shape {shape}.")
    odd = numbers[~np.isfinite(numbers)]
    if len(odd):
        raise ValueError(f"y has values {some_of(np.unique(odd).tolist())}; all must be finite.")
    return numbers


def _feature_values(model: BaseAGBM, X: Table, position: int) -> Array:
    """The numbers of a feature, or the codes of its categories; that of unknown ones follows the last."""
    column = model.model_.reader.numbers(X)[:, [position]]
    return np.array(column.toarray() if hasattr(column, "toarray") else column, dtype=np.float64).ravel()


def _label_axes(ax: Axes, model: BaseAGBM, position: int | None, x: Array) -> None:
    """Label the x-axis, which shows a feature, or row numbers if `position` is None."""
    title = "rows, sorted by prediction" if position is None else shortened(feature_names(model)[position])
    ax.set_xlabel(title, parse_math=False)
    plain_numbers(ax.yaxis)
    if position in model.model_.listed_values:
        names = [shortened(str(name), 20) for name in model.model_.listed_values[position]]
        names += ["unknown"] * bool((x >= len(names)).any())
        ax.set_xticks(range(len(names)), names, parse_math=False)
    elif position in model.model_.reader.derivation.dates:
        ax.xaxis_date()
    else:
        plain_numbers(ax.xaxis)


def _within_axes(ax: Axes, bounds: Array, line: Array, y: Array | None) -> Array:
    """Bounds with infinite ones at the limits of the axes, which are then set."""
    if np.isfinite(bounds).all():
        return bounds
    seen = [bounds[np.isfinite(bounds)], line, *([] if y is None else [y])]
    low, high = min(part.min(initial=np.inf) for part in seen), max(part.max(initial=-np.inf) for part in seen)
    room = 0.1 * (high - low) or 1.0
    ax.set_ylim(low - room, high + room)
    return np.clip(bounds, low - room, high + room)
