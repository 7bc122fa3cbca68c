"""Charts of a report: figures of matplotlib as SVG within the page, in the colours of its style sheet."""

from __future__ import annotations

import hashlib
import io
import json
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from .markup import Html, element

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SIZE = (4.8, 3.5)
"""Width and height in inches. On a phone, a figure of this width is shown at three quarters of its size."""

# Colours of the charts, and the variables of page.css that replace them, which depend on light and dark mode.
BAR = "#aab2b9"
"""The colour of bars that others are compared with."""
_TEXT, _MUTED, _RULE = "#1c2227", "#57616b", "#dfe3e6"
_VARIABLES = {
    _TEXT: "--text", _MUTED: "--muted", "#808080": "--muted", BAR: "--bar", _RULE: "--rule", "#ffffff": "--card",
    "#0072b2": "--c0", "#d55e00": "--c1", "#009e73": "--c2", "#cc79a7": "--c3", "#e69f00": "--c4", "#000000": "--c5",
    "#56b4e9": "--c6",
}  # fmt: skip
_STYLE = {
    "svg.fonttype": "none",  # texts remain texts: they can be searched for, and take the font of the page
    "svg.hashsalt": "agbm",  # the same page every time
    "savefig.dpi": 200,  # of parts that are pixels
    "figure.facecolor": "none", "savefig.facecolor": "none", "axes.facecolor": "none",
    "font.size": 11.0, "axes.labelsize": 11.0, "xtick.labelsize": 10.0, "ytick.labelsize": 10.0,
    "legend.fontsize": 10.0, "legend.frameon": False,
    "text.color": _TEXT, "axes.labelcolor": _TEXT, "xtick.color": _MUTED, "ytick.color": _MUTED,
    "xtick.labelcolor": _TEXT, "ytick.labelcolor": _TEXT, "axes.edgecolor": _MUTED,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": _RULE, "grid.linewidth": 0.8,
}  # fmt: skip


def check_matplotlib() -> None:
    """Raise ImportError, with the command that installs it, if matplotlib is missing."""
    from ... import plot  # noqa: F401


def figures(draw: Callable[..., object], *titles: str, size: tuple[float, float] = SIZE, kind: str = "") -> Html:
    """Return charts side by side: `draw` is called with the axes of one figure per title; `kind` is a CSS class."""
    check_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE), warnings.catch_warnings():
        # Samples are arrays, which have no column names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        axes = [Figure(figsize=size, layout="constrained").subplots() for _ in titles]
        draw(*axes)
        parts = [_figure(ax.figure, title) for ax, title in zip(axes, titles, strict=True)]
    return element("div", *parts, class_=f"figures {kind}".strip())


def _figure(figure: Any, title: str) -> Html:
    """The chart as SVG, with the points of its lines and bars, whose values the page shows under the pointer."""
    written = io.BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    svg = ElementTree.fromstring(written.getvalue())
    _clean(svg, hashlib.sha256(title.encode("utf-8", "replace") + written.getvalue()).hexdigest()[:8])
    width, height = svg.attrib.pop("width"), svg.attrib.pop("height")
    svg.attrib |= {
        "role": "img",
        "aria-label": title,
        "style": f"width:{width};aspect-ratio:{width[:-2]}/{height[:-2]}",
    }
    drawing = Html(ElementTree.tostring(svg, encoding="unicode", short_empty_elements=False))
    points = _points_of(figure)
    data = json.dumps(points, allow_nan=False, ensure_ascii=False, separators=(",", ":")) if len(points) > 2 else False
    return element("figure", element("figcaption", title), drawing, data_points=data)


def _clean(svg: ElementTree.Element, prefix: str) -> None:
    """Make an SVG file part of a page: no name spaces, metadata or styles, unique ids, colours of the page."""
    for parent in list(svg.iter()):
        for child in list(parent):
            if child.tag.endswith(("metadata", "style")):
                parent.remove(child)
    used = set(re.findall(r"#([\w-]+)", " ".join(_references(svg))))
    for node in svg.iter():
        node.tag = node.tag.rpartition("}")[2]
        node.attrib = {name.rpartition("}")[2]: value for name, value in node.attrib.items()}
        if node.get("id") is not None:
            name = node.attrib.pop("id")
            node.attrib |= {"id": f"{prefix}-{name}"} if name in used else {}
        for name in ("href", "clip-path"):
            if not node.get(name, "data:").startswith("data:"):
                node.set(name, node.attrib[name].replace("#", f"#{prefix}-"))
        if "style" in node.attrib:
            style = re.sub(r"font-family: [^;]*;? ?", "", node.attrib["style"])  # texts have the font of the page
            node.set("style", re.sub(r"#[0-9a-f]{6}", lambda found: _coloured(found[0]), style))


def _references(svg: ElementTree.Element) -> list[str]:
    return [
        value
        for node in svg.iter()
        for name, value in node.attrib.items()
        if name.endswith(("href", "clip-path")) and not value.startswith("data:")
    ]


def _coloured(colour: str) -> str:
    variable = _VARIABLES.get(colour)
    return colour if variable is None else f"var({variable})"


# The points of charts, whose values the page shows under the pointer
STEP = 12
"""Points of a line are at least so many thousandths of the width or height of the chart apart."""


def _points_of(figure: Figure) -> list[Any]:
    """The labels of both axes, and for each line and each group of bars its name and points.

    Points are four numbers each: the place in thousandths of the width and the height of the drawing, from its upper
    left corner, and the values, which may also be texts. Dotted lines are for orientation, and have no points.
    """
    first = figure.axes[0]
    found: list[Any] = [_in_one_line(first.get_xlabel()), _in_one_line(first.get_ylabel())]
    for ax in figure.axes:
        found += [_line(figure, ax, line) for line in ax.get_lines() if _has_values(ax, line)]
        found += [_bars(figure, ax, bars) for bars in ax.containers if hasattr(bars, "patches")]
    return [*found[:2], *(series for series in found[2:] if series[1])]


def _in_one_line(label: str) -> str:
    return " ".join(label.split())


def _has_values(ax: Axes, line: Any) -> bool:
    return line.get_linestyle() != ":" and line.get_transform() == ax.transData and not line.get_rasterized()


def _line(figure: Figure, ax: Axes, line: Any) -> list[Any]:
    x, y = (np.ma.filled(np.asarray(of, dtype=np.float64), np.nan) for of in line.get_data(orig=False))
    return [_name(line), _points(figure, ax, x, y)]


def _bars(figure: Figure, ax: Axes, bars: Any) -> list[Any]:
    """The ends of bars, with the middle of their other side."""
    sides = np.array([[bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()] for bar in bars.patches])
    if not len(sides):
        return ["", []]
    x, y, width, height = sides.T
    if bars.orientation == "horizontal":
        return [_name(bars), _points(figure, ax, x + width, y + height / 2.0)]
    return [_name(bars), _points(figure, ax, x + width / 2.0, y + height)]


def _name(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label.strip()


def _points(figure: Figure, ax: Axes, x: Array, y: Array) -> list[Any]:
    """Points within the axes, without those that are next to each other."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return []
    place = figure.transFigure.inverted().transform(ax.transData.transform(np.column_stack([x, y])))
    place[:, 1] = 1.0 - place[:, 1]
    place *= 1000.0
    box = ax.get_position()
    inside = (place[:, 0] >= 1000 * box.x0 - STEP) & (place[:, 0] <= 1000 * box.x1 + STEP)
    inside &= (place[:, 1] >= 1000 * (1 - box.y1) - STEP) & (place[:, 1] <= 1000 * (1 - box.y0) + STEP)
    cells = np.floor(place / STEP)
    apart = np.append(True, (np.diff(cells, axis=0) != 0).any(axis=1))
    kept = inside & apart
    values = [_values(ax.xaxis, x[kept]), _values(ax.yaxis, y[kept])]
    found: list[Any] = []
    for (left, top), first, second in zip(np.rint(place[kept]).astype(int).tolist(), *values, strict=True):
        found += [left, top, first, second]
    return found


def _values(axis: Axis, values: NDArray[Any]) -> list[Any]:
    """Numbers with the digits that are shown, or the texts at fixed ticks."""
    from matplotlib.ticker import FixedLocator, ScalarFormatter

    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if isinstance(locator, FixedLocator) and not isinstance(formatter, ScalarFormatter):
        ticks = np.asarray(locator(), dtype=np.float64)
        nearest = np.abs(values[:, np.newaxis] - ticks).argmin(axis=1)
        return [formatter(ticks[k], k) for k in nearest.tolist()]
    return [float(f"{value:.5g}") for value in values.tolist()]
