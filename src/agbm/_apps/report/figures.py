"""Charts of a report: figures of matplotlib as SVG within the page, in the colours of its style sheet."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from .markup import Html, element

SIZE = (4.8, 3.5)
"""Width and height in inches. On a phone, a figure of this width is shown at three quarters of its size."""

# Colours of the charts, and the variables of page.css that replace them, which depend on light and dark mode.
_TEXT, _MUTED, _RULE = "#1c2227", "#57616b", "#dfe3e6"
_VARIABLES = {
    _TEXT: "--text", _MUTED: "--muted", "#808080": "--muted", _RULE: "--rule", "#ffffff": "--card", "#0072b2": "--c0",
    "#d55e00": "--c1", "#009e73": "--c2", "#cc79a7": "--c3", "#e69f00": "--c4", "#000000": "--c5", "#56b4e9": "--c6",
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
    return element("figure", element("figcaption", title), drawing)


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
