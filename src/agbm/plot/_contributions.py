"""Contributions of features to predictions: a waterfall chart for one row, a beeswarm plot for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from numpy.typing import ArrayLike, NDArray

from .._base.sums import Array
from .._base.types import Table
from .._estimators.base import BaseAGBM
from ..export._view import check_fitted, feature_names
from ._arguments import check_top, feature_columns, output_index, output_suffix
from ._style import BLUE, GREY, ORANGE, axes_for_rows, plain_numbers, shortened, value_text


def contributions(model: BaseAGBM, X: Table, *, target: object = None, top: int = 12, ax: Axes | None = None) -> Any:
    """Plot the contributions of features to raw scores (predict_contributions).

    The `top` features with the largest mean absolute contribution come first; the others are added up. A single row
    gives a waterfall chart, whose bars lead from the base value, the expected score, to the score of the row. Several
    rows give a beeswarm plot: each feature has a strip of dots, one dot per row, coloured by the value of the feature
    (grey: missing values, categories and sums of features). target is a class, or the index of an output, if the model
    has several.
    """
    check_fitted(model)
    check_top(top)
    shape = getattr(X, "shape", None) or np.shape(cast(ArrayLike, X))
    if len(shape) != 2 or shape[0] == 0:
        raise ValueError(
            f"X must be a table with at least one row, got shape {shape}; pass a single row as X[:1], not X[0]."
        )
    output = output_index(model, target)
    added = model.predict_contributions(X)
    added = added if added.ndim == 2 else added[:, output]
    values, base = added[:, :-1], added[:, -1]
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    shown, rest = order[:top].tolist(), order[top:]
    parts = [values[:, feature] for feature in shown]
    columns = feature_columns(model, X, shown)
    names = [shortened(feature_names(model)[feature]) for feature in shown]
    if len(values) == 1:
        names = [f"{name} = {value_text(column[0])}" for name, column in zip(names, columns, strict=True)]
    if len(rest):
        parts.append(values[:, rest].sum(axis=1))
        names.append(f"{len(rest)} others")
    ax = axes_for_rows(ax, names)
    if len(values) == 1:
        _waterfall(ax, float(base[0]), np.array(parts)[:, 0])
    else:
        _strips(ax, parts, columns)
    score = f"raw score{output_suffix(model, output)}"
    plain_numbers(ax.xaxis)
    ax.set_xlabel(score if len(values) == 1 else f"contribution to the {score}", parse_math=False)
    return ax


def _waterfall(ax: Axes, base: float, parts: Array) -> None:
    """Draw bars below each other, each starting where the previous one ends."""
    ends = base + np.cumsum(parts)
    rows = np.arange(len(parts))
    colours = [BLUE if part >= 0 else ORANGE for part in parts]
    ax.barh(rows, parts, left=ends - parts, color=colours, height=0.7, zorder=2)
    ax.vlines(ends[:-1], rows[:-1], rows[1:], color=GREY, linewidth=0.8, zorder=1)
    text: dict[str, Any] = {"fontsize": "small", "annotation_clip": False}
    text["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    for row, part, end in zip(rows, parts, ends, strict=True):
        right = part >= 0
        ax.annotate(
            f"{part:+.3g}", (end, row), (4 if right else -4, 0), textcoords="offset points", va="center",
            ha="left" if right else "right", **text,
        )  # fmt: skip
    bottom, score = len(parts) - 0.5, float(ends[-1])
    for x, words, y, side, dashes in (
        (base, "base value", -0.5, "bottom", ":"),
        (score, "score", bottom, "top", "-"),
    ):
        ax.axvline(x, color="0.3", linestyle=dashes, linewidth=1.0, zorder=0)
        ax.annotate(f"{words} {x:.4g}", (x, y), ha="center", va=side, **text)
    low, high = min(base, ends.min()), max(base, ends.max())
    room = 0.25 * (high - low) or 1.0  # for the labels
    ax.set(xlim=(low - room, high + room), ylim=(bottom + 0.7, -1.2))


def _strips(ax: Axes, parts: Sequence[Array], columns: Sequence[NDArray[Any]]) -> None:
    """Draw the contributions of all rows as dots, spread vertically where they are dense."""
    map_of_values = plt.get_cmap("cividis")
    ax.axvline(0.0, color="0.3", linewidth=1.0, zorder=1)
    for row, part in enumerate(parts):
        ranks = _ranks(columns[row]) if row < len(columns) else None  # the sum of the other features has no value
        colours: Any = GREY
        if ranks is not None:
            colours = np.where(np.isnan(ranks)[:, np.newaxis], (0.5, 0.5, 0.5, 1.0), map_of_values(ranks))
        ax.scatter(part, row + _spread(part), c=colours, s=9, linewidths=0, zorder=2, rasterized=len(part) > 1000)
    bar = ax.figure.colorbar(ScalarMappable(cmap=map_of_values), ax=ax, aspect=40, pad=0.02, ticks=[0.0, 1.0])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("feature value", labelpad=-8)
    bar.outline.set_visible(False)


def _ranks(column: NDArray[Any]) -> Array | None:
    """Ranks of the values among the distinct ones, from 0 to 1, NaN for missing values; None for categories."""
    if column.dtype == object:
        return None
    different, place = np.unique(column, return_inverse=True)
    highest = max(int(np.count_nonzero(~np.isnan(different))) - 1, 1)
    return np.where(np.isnan(column), np.nan, place / highest)


def _spread(values: Array, half: float = 0.36) -> Array:
    """Vertical offsets of the dots from the middle of their strip, so that dots at one place do not overlap."""
    low, width = values.min(), max(float(np.ptp(values)), 1e-300)
    places = ((values - low) / width * 99.0).astype(np.intp)
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], np.arange(100))
    number = np.empty(len(values), dtype=np.intp)
    number[order] = np.arange(len(values)) - firsts[places[order]]  # its position among the dots at its place
    most = max(int(number.max()), 1)
    side = np.where(number % 2 == 0, 1.0, -1.0)
    return np.asarray(side * ((number + 1) // 2) * (2.0 * half / max(most, 12)))
