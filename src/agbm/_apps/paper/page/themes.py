"""The light and the dark theme of the figures: colours, style of matplotlib, and how figures are saved as SVG.

Matplotlib is imported only by what draws, since pages without figures do not need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..experiments.curves import Line
from .wording import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

# Texts take a font of the reader's system. It is narrower than that of matplotlib, with which places are computed.
_FONT = re.compile(r"'DejaVu Sans'[^;\"]*")
# Texts, which stay as they are, and what makes the files of matplotlib long: digits that cannot be seen, rotations by
# nothing, and indentation.
_LONG = re.compile(r"(>[^<\n]+<)|(?<=\.\d\d)\d+| transform=\"rotate\(-0 [^\"]*\"|^ +", re.MULTILINE)


@dataclass(frozen=True)
class Theme:
    """Colours of figures on a light or dark background."""

    name: str
    text: str
    muted: str
    grid: str
    line: str
    """The line that is black on a light background."""
    colours: Mapping[str, str]
    """The colours of Okabe and Ito, darker or lighter for contrast with the background."""


THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "light": Theme(
            "light", text="#1c2227", muted="#57616b", grid="#dfe3e6", line="#000000",
            colours=MappingProxyType({
                "blue": "#0072b2", "red": "#d55e00", "green": "#009e73", "pink": "#c0609b", "orange": "#d98f00",
                "sky": "#3fa3dd",
            }),
        ),
        "dark": Theme(
            "dark", text="#e5e8ea", muted="#a3acb5", grid="#3a4249", line="#f4f6f7",
            colours=MappingProxyType({
                "blue": "#4a9fe0", "red": "#ff8a4c", "green": "#2fc69a", "pink": "#e59cc6", "orange": "#f0b83c",
                "sky": "#8fd3ff",
            }),
        ),
    }
)  # fmt: skip


class Look(NamedTuple):
    """How a line is drawn: the name of a colour of the themes ("line" is black or white), and lengths of dashes."""

    colour: str
    dashes: tuple[float, ...] = ()


# Warm colours for strong momentum.
_OF_GAMMA = {1.0: "red", 0.3: "orange", 0.1: "green", 0.03: "blue", 0.01: "sky"}
_OF_METHOD = {"gbm": Look("line"), "gbm-search": Look("line", (1.0, 2.0)), "vagbm": Look("pink")}


def look(line: Line) -> Look:
    """The look of a line in all figures: one colour per method and gamma, dashes for the released code's sign."""
    if line.gamma is None:
        return _OF_METHOD[line.method]
    return Look(_OF_GAMMA[line.gamma], (4.0, 2.0) if line.method == "agbm-minus" else ())


def colour(theme: Theme, name: str) -> str:
    """A colour of a look in this theme."""
    return theme.line if name == "line" else theme.colours[name]


def css_variables() -> str:
    """The colours of lines as variables of a style sheet, `--plot-blue` and so on."""
    names = ["line", *THEMES["light"].colours]
    light, dark = (
        ":root { " + " ".join(f"--plot-{name}: {colour(theme, name)};" for name in names) + " }"
        for theme in (THEMES["light"], THEMES["dark"])
    )
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def style(theme: Theme) -> dict[str, Any]:
    """Parameters of matplotlib (`rc_context`) for figures in this theme, on a transparent background."""
    return {
        "svg.fonttype": "none", "svg.hashsalt": "agbm",  # texts remain texts; the same bytes each time
        "figure.facecolor": "none", "savefig.facecolor": "none", "axes.facecolor": "none",
        "font.size": 9.5, "axes.titlesize": 9.5, "axes.labelsize": 9.5, "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5, "legend.fontsize": 9.0, "legend.frameon": False, "legend.handlelength": 2.2,
        "text.color": theme.text, "axes.labelcolor": theme.text, "axes.titlecolor": theme.text,
        "xtick.color": theme.muted, "ytick.color": theme.muted, "xtick.labelcolor": theme.text,
        "ytick.labelcolor": theme.text, "axes.edgecolor": theme.muted, "axes.linewidth": 0.7,
        "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.minor.width": 0.5, "ytick.minor.width": 0.5,
        "xtick.major.size": 3.0, "ytick.major.size": 3.0, "xtick.minor.size": 1.8, "ytick.minor.size": 1.8,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
        "grid.color": theme.grid, "grid.linewidth": 0.6, "lines.linewidth": 1.4, "lines.solid_capstyle": "round",
        "lines.solid_joinstyle": "round", "axes.titlepad": 6.0,
    }  # fmt: skip


def save(figure: Figure, stem: Path, theme: Theme) -> Path:
    """Write `{stem}-{theme}.svg`, close the figure and return the path."""
    from matplotlib import pyplot

    path = stem.with_name(f"{stem.name}-{theme.name}.svg")
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = path.read_text(encoding="utf-8")
    path.write_text(_LONG.sub(r"\1", _FONT.sub("system-ui,sans-serif", text)), encoding="utf-8")
    return path


def plain_powers() -> FuncFormatter:
    """Labels of logarithmic axes as plain text, such as 0.01, 100 and 10⁻⁴."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{'−' if value < 0 else ''}{number(abs(value), 1)}")
