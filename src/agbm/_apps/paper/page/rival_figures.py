"""The figures of the comparison with other proposals: losses against trees, time and learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from scipy.stats import gmean

from ..experiments.rival_comparison import Comparison
from ..experiments.rival_methods import DEFAULT, PLAIN, RIVALS
from ..experiments.rival_roles import CHECKPOINTS, RATES, TIMES, Run
from ..experiments.rivals import learners_of
from ..experiments.tables import KINDS
from .themes import THEMES, Look, Theme, colour, save, style

LOOKS = {
    PLAIN: Look("line"),
    DEFAULT: Look("blue"),
    "vagbm": Look("red"),
    "vagbm-0.1": Look("red", (4.0, 2.0)),
    "agbm": Look("green"),
    "agbm-released": Look("green", (4.0, 2.0)),
    "hybrid": Look("orange"),
    "dart": Look("pink"),
    "newton": Look("sky"),
}
"""The methods in the figures."""
KIND_TITLES = {"binary": "two classes, log loss", "regression": "numbers, squared error"}
_FIRST = CHECKPOINTS.index(5)
_TICKS = (5, 10, 25, 50, 100, 200, 400)
_TIME_TICKS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_TREE_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_MOST = 1.3
"""Upper end of the axes of losses, which are relative to those of plain boosting."""


class _Line(NamedTuple):
    x: Sequence[float]
    y: Sequence[float]


Lines = Callable[[Comparison, str, str], _Line | None]
"""The line of a method on tables of a kind."""


def draw(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw the figures in all themes; returns their files."""
    comparisons = [Comparison(learner, runs) for learner in learners_of(runs)]
    figures: list[tuple[str, Lines, str, Sequence[float]]] = [
        ("rivals-trees", _by_trees, "trees", _TICKS),
        ("rivals-seconds", _by_time, "time; 1 is that of 100 trees of plain boosting", _TIME_TICKS),
        ("rivals-rates", _by_rate, "trees, relative to plain boosting with rate 0.03", _TREE_TICKS),
    ]
    return [
        _draw(comparisons, lines, label, ticks, folder / stem, theme)
        for stem, lines, label, ticks in figures
        for theme in THEMES.values()
    ]


def _by_trees(comparison: Comparison, method: str, kind: str) -> _Line | None:
    """The loss with the best rate of each table after numbers of trees, relative to plain boosting at the end."""
    ratios = _relative(comparison, method, kind, lambda run: run.at_trees)
    return None if ratios is None else _Line(CHECKPOINTS[_FIRST:], ratios[_FIRST:])


def _by_time(comparison: Comparison, method: str, kind: str) -> _Line | None:
    ratios = _relative(comparison, method, kind, lambda run: run.at_times)
    return None if ratios is None else _Line(TIMES, ratios)


def _relative(
    comparison: Comparison, method: str, kind: str, losses: Callable[[Run], Sequence[float]]
) -> list[float] | None:
    if method not in comparison.methods or not (mine := comparison.of(method, None, kind)):
        return None
    base = comparison.of(PLAIN, None, kind)
    ratios = [np.divide(losses(run), base[name].test) for name, run in mine.items()]
    found: list[float] = gmean(ratios, axis=0).tolist()
    return found


def _by_rate(comparison: Comparison, method: str, kind: str) -> _Line | None:
    """Loss and trees with each rate, relative to plain boosting with the smallest."""
    if method not in comparison.methods or not comparison.of(method, None, kind):
        return None
    found = [comparison.single(method, rate, kind) for rate in RATES]
    return _Line([versus.trees for versus in found], [versus.test for versus in found])


def _draw(
    comparisons: Sequence[Comparison], lines: Lines, label: str, ticks: Sequence[float], stem: Path, theme: Theme
) -> Path:
    """One row of panels per kind of trees, one column per kind of labels."""
    n = len(comparisons)
    with mpl.rc_context(style(theme)):
        figure, axes = plt.subplots(
            n, len(KINDS), figsize=(7.6, 2.75 * n + 0.9), sharex=True, sharey="row", squeeze=False, layout="constrained"
        )
        for comparison, row in zip(comparisons, axes, strict=True):
            for kind, axis in zip(KINDS, row, strict=True):
                for method in reversed(LOOKS):  # plain boosting and the default on top
                    line = lines(comparison, method, kind)
                    if line is not None:
                        _plot(axis, line, method, theme, marked=lines is _by_rate)
                _finish(axis, ticks, f"{comparison.learner}: {KIND_TITLES[kind]}")
            row[0].set_ylabel("test loss, relative")
            row[0].set_ylim(_lowest(row) - 0.01, _MOST)  # for both panels
        for axis in axes[-1]:
            axis.set_xlabel(label)
        found = [axis.get_legend_handles_labels() for axis in axes.flat]
        handles = {name: handle for of_axis in found for handle, name in zip(*of_axis, strict=True)}
        names = [RIVALS[method].title for method in LOOKS if RIVALS[method].title in handles]
        figure.legend([handles[name] for name in names], names, loc="outside lower center", ncols=3)
        return save(figure, stem, theme)


def _plot(axis: Axes, line: _Line, method: str, theme: Theme, *, marked: bool) -> None:
    look = LOOKS[method]
    axis.plot(
        line.x, line.y, label=RIVALS[method].title, color=colour(theme, look.colour),
        linestyle=(0, look.dashes) if look.dashes else "-", linewidth=2.2 if method in (PLAIN, DEFAULT) else 1.3,
        marker="o" if marked else "", markersize=3.0,
    )  # fmt: skip
    if marked and method == PLAIN:
        for x, y, rate in zip(line.x, line.y, RATES, strict=True):
            if y < _MOST:
                axis.annotate(f"{rate:g}", (x, y), (0, -11), textcoords="offset points", fontsize=7.5, ha="center")


def _finish(axis: Axes, ticks: Sequence[float], title: str) -> None:
    axis.set_title(title, loc="left")
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_major_locator(MaxNLocator(6))


def _lowest(axes: Iterable[Axes]) -> float:
    """The lowest value of all lines."""
    lines = [np.asarray(line.get_ydata(), dtype=float) for axis in axes for line in axis.lines]
    return min((float(y.min()) for y in lines if len(y)), default=1.0)
