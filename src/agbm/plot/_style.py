"""Colours, axes and legends that all plots share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from .._model import reasons

# The colours of Okabe and Ito, which can be told apart with any colour vision; without yellow, too faint on paper.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PINK = "#0072B2", "#D55E00", "#CC79A7"
GREY = "0.5"
DASHES = "-", "--", "-.", (0, (1, 1))
_COLOURS = BLUE, ORANGE, GREEN, BLACK, PINK, SKY, RED
_MARKERS = "osD^vPXd"  # one more than colours: the pairs repeat after 56 lines
_LONGEST_NAME = 36


def new_axes(
    ax: Axes | None, height: float = 4.0, width: float = 6.4, grid: Literal["both", "x", "y"] = "both"
) -> Axes:
    """The given axes, or new ones of a size in inches."""
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis=grid, alpha=0.25)
        ax.set_axisbelow(True)
    return ax


def axes_for_rows(ax: Axes | None, names: Sequence[str]) -> Axes:
    """Axes with one row per name, wide enough for the longest."""
    height, width = max(2.4, 1.2 + 0.27 * len(names)), max(6.4, 4.6 + 0.08 * max(map(len, names)))
    ax = new_axes(ax, height, width, grid="x")
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return ax


def axes_below(ax: Axes) -> Axes:
    """Split axes in two: the new ones get the lower quarter and share the x-axis."""
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(f"ax={ax!r} is not in a grid, so it cannot be split in two; create it with plt.subplots.")
    parts = place.subgridspec(2, 1, height_ratios=(3, 1), hspace=0.08)
    ax.set_subplotspec(parts[0])
    return ax.figure.add_subplot(parts[1], sharex=ax)


def line_style(number: int) -> dict[str, Any]:
    """Colour and marker of a line; pairs repeat as late as possible."""
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}


def add_legend(ax: Axes, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend with any names; matplotlib would omit those that begin with an underscore."""
    place: dict[str, Any] = {}
    if len(names) > 3 and ax.figure.get_layout_engine() is not None:  # it makes room for the legend
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
    legend = ax.legend(handles, [str(number) for number in range(len(names))], **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=shortened(name), parse_math=False)


def plain_numbers(*axes: Axis) -> None:
    """Write numbers such as 1,500,000 at the ticks of an x- or y-axis, never with an offset or a common factor."""
    for axis in axes:
        axis.set_major_formatter("{x:,.15g}")


def shortened(name: str, length: int = _LONGEST_NAME) -> str:
    """A name on one line; long names lose their middle, since their ends tell them apart.

    Control characters and lone surrogates are replaced: fonts do not have them, and SVG files must not contain them.
    """
    name = " ".join(name.split())
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    half = length // 2
    return name if len(name) <= length else f"{name[:half]}…{name[-half + 1 :]}"


def value_text(value: object) -> str:
    """The value of a feature, short enough for a label."""
    return shortened(reasons.value_text(value), 20)
