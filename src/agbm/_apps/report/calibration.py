"""Calibration: predictions in groups of about the same number of rows, and the mean of what occurred in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._base.sums import Array
from ..evaluation.metrics import Z, wilson
from .figures import SIZE, figures
from .markup import Html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 20
ROWS_PER_GROUP = 40
CENTRE = (0.02, 0.95)
"""Quantiles of the predictions between which a second chart shows them, if that is a small part of the first one."""
SMALL = 0.5


class Groups(NamedTuple):
    """Rows in groups by their predictions."""

    predicted: Array
    """The mean prediction of each group."""
    observed: Array
    low: Array
    high: Array
    """The mean of what occurred, and its 95 % interval."""
    rows: Array
    """The number of rows."""


def grouped(predicted: Array, observed: Array, shares: bool) -> Groups:
    """Groups of rows; equal predictions are in one group. `shares`: whether `observed` is 0 or 1."""
    n_groups = int(np.clip(len(predicted) // ROWS_PER_GROUP, 2, MOST_GROUPS))
    edges = np.unique(np.quantile(predicted, np.arange(1, n_groups) / n_groups, method="lower"))
    place = np.searchsorted(edges, predicted)
    _, place = np.unique(place, return_inverse=True)
    rows = np.bincount(place).astype(np.float64)
    means = [np.bincount(place, of) / rows for of in (predicted, observed)]
    if shares:
        return Groups(means[0], means[1], *wilson(means[1] * rows, rows), rows)
    variance = np.bincount(place, (observed - means[1][place]) ** 2) / rows
    half = Z * np.sqrt(variance / rows)
    return Groups(means[0], means[1], means[1] - half, means[1] + half, rows)


def calibration_charts(found: Mapping[str, Groups], predictions: Array, labels: tuple[str, str], shares: bool) -> Html:
    """Charts of groups by the names of their models: of all predictions, and of the part where most of them are."""
    ends = np.quantile(predictions, CENTRE)
    whole = (0.0, 1.0) if shares else (float(predictions.min()), float(predictions.max()))
    zooms = ends[0] < ends[1] and ends[1] - ends[0] < SMALL * (whole[1] - whole[0])

    def draw(*axes: Axes) -> None:
        for ax in axes:
            _draw(ax, found)
            ax.set_xlabel(labels[0], parse_math=False)
            ax.set_ylabel(labels[1], parse_math=False)
        if shares:
            axes[0].set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        if zooms:
            _zoom(axes[1], found, *ends.tolist())

    titles = ["Calibration", *(["Calibration where most predictions are"] if zooms else [])]
    return figures(draw, *titles, size=SIZE)


def _draw(ax: Axes, found: Mapping[str, Groups]) -> None:
    from ...plot._style import GREY, add_legend, line_style, plain_numbers

    handles = []
    for number, groups in enumerate(found.values()):
        style = line_style(number)
        ax.vlines(groups.predicted, groups.low, groups.high, color=style["color"], linewidth=1.2, alpha=0.55)
        handles += ax.plot(groups.predicted, groups.observed, markersize=4.5, linewidth=1.0, **style)
    ends = np.array([[*groups.predicted, *groups.observed] for groups in found.values()]).ravel()
    ax.axline((float(ends.mean()),) * 2, slope=1.0, linestyle=":", color=GREY)
    if len(found) > 1:
        add_legend(ax, handles, list(found))
    plain_numbers(ax.xaxis, ax.yaxis)
    ax.locator_params(axis="x", nbins=4)
    ax.locator_params(axis="y", nbins=6)


def _zoom(ax: Axes, found: Mapping[str, Groups], low: float, high: float) -> None:
    """Show the groups between two predictions."""
    inside = [(groups.predicted >= low) & (groups.predicted <= high) for groups in found.values()]
    tops = [of[mask] for groups, mask in zip(found.values(), inside, strict=True) for of in (groups.low, groups.high)]
    heights = np.concatenate([*tops, [low, high]])
    room = 0.04 * (high - low), 0.04 * float(np.ptp(heights))
    ax.set(xlim=(low - room[0], high + room[0]), ylim=(heights.min() - room[1], heights.max() + room[1]))
