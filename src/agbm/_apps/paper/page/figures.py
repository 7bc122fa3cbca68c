"""The figures of the paper's experiments, drawn with matplotlib as SVG, each in a light and a dark theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from ...._base.types import AnyArray
from ..experiments.angles import DEPTHS, Angles, Sample
from ..experiments.curves import LEVELS, STUMPS, Curve, Line
from ..experiments.proof import Track
from ..experiments.restarts import TOLERANCES, Run, Setting
from .themes import THEMES, Look, Theme, colour, look, plain_powers, save, style
from .theory_sections import find, sample_name, settings_of
from .wording import number

MOST_POINTS = 150
"""Points of a line; more cannot be seen."""
WIDE = 20.0
"""Losses that fall by more than this factor have a logarithmic axis."""
DEEPEST = 1e5
"""Lines that fall by more than this factor leave the panel."""


class Plan(NamedTuple):
    """A figure of losses: one column of panels per step."""

    stem: str
    data: str
    levels: int
    steps: Sequence[float]
    methods: Sequence[str]
    """Methods without momentum."""
    momenta: Sequence[float]
    """Of AGBM with both signs."""

    def lines(self, step: float) -> list[Line]:
        """The lines of a column."""
        choices = [(method, None) for method in self.methods] + [("agbm", gamma) for gamma in self.momenta]
        choices += [("agbm-minus", gamma) for gamma in self.momenta]
        return [Line(self.data, self.levels, method, step, gamma) for method, gamma in choices]


PLANS = (
    Plan("a1a", STUMPS, LEVELS, (1.0, 0.1, 0.01), ["gbm"], (0.1, 0.3, 1.0)),
    Plan("stumps", STUMPS, 1, (1.0, 0.1, 0.01), ["gbm"], (0.1, 0.3, 1.0)),
    Plan("vanilla", "housing", LEVELS, (1.0, 0.3, 0.1, 0.03), ["gbm", "vagbm"], (0.01, 0.1, 1.0)),
)


def draw_losses(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Draw the figures of training and test loss whose curves are all there."""
    by_line = {curve.line: curve for curve in curves}
    plans = [plan for plan in PLANS if all(line in by_line for step in plan.steps for line in plan.lines(step))]
    return [_draw_plan(plan, by_line, folder, theme) for plan in plans for theme in THEMES.values()]


def _draw_plan(plan: Plan, by_line: Mapping[Line, Curve], folder: Path, theme: Theme) -> Path:
    """Training loss above test loss."""
    n = len(plan.steps)
    with mpl.rc_context(style(theme)):
        size = (8.4 if n == 3 else 9.2, 5.0)
        figure, axes = plt.subplots(2, n, figsize=size, sharex=True, squeeze=False, layout="constrained")
        for column, step in enumerate(plan.steps):
            of_step = [by_line[line] for line in plan.lines(step)]
            for row, name in enumerate(("train", "test")):
                _losses(axes[row][column], of_step, name, theme)
            axes[0][column].set_title(f"η = {step:g}")
            axes[1][column].set_xlabel("number of trees")
        axes[0][0].set_ylabel("training loss")
        axes[1][0].set_ylabel("test loss")
        _legend_below(figure, plan.lines(plan.steps[0]), theme)
        return save(figure, folder / plan.stem, theme)


def _legend_below(figure: Figure, lines: Sequence[Line], theme: Theme) -> None:
    """One entry per colour, and one for the dashes of the released code's sign."""
    solid = [line for line in lines if line.method != "agbm-minus"]
    handles = [Line2D([], [], label=line.title, **_drawn(look(line), theme)) for line in solid]
    dashed = _drawn(look(lines[-1]), theme) | {"color": theme.muted}
    handles.append(Line2D([], [], label="sign of the released code", **dashed))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.6)


def _drawn(of: Look, theme: Theme) -> dict[str, Any]:
    """A look as arguments of matplotlib."""
    return {"color": colour(theme, of.colour), "linestyle": (0, of.dashes) if of.dashes else "-"}


def _losses(axis: Axes, curves: Sequence[Curve], name: str, theme: Theme) -> None:
    _limit(axis, curves, name)
    for curve in curves:
        losses, drawn = getattr(curve, name), _drawn(look(curve.line), theme)
        axis.plot(curve.trees, losses, **drawn)
        if curve.diverged:
            _cross(axis, curve.trees, losses, drawn["color"])


def _limit(axis: Axes, curves: Sequence[Curve], name: str) -> None:
    """Limits such that starts and lowest losses can be seen; lines that rise far above their start leave the panel."""
    lowest = min(min(getattr(curve, name)) for curve in curves)
    start = max(getattr(curve, name)[0] for curve in curves)
    if start > WIDE * lowest:
        _logarithmic(axis, max(lowest, start / DEEPEST) / 1.5, 10.0 * start)
    else:
        room = start - lowest or 1.0
        axis.set_ylim(lowest - 0.05 * room, start + 0.6 * room)
        axis.yaxis.set_major_locator(MaxNLocator(6))


def _logarithmic(axis: Axes, low: float, high: float) -> None:
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 1e3 * low else (1.0, 3.0), numticks=8))
    axis.yaxis.set_major_formatter(plain_powers())
    axis.yaxis.set_minor_locator(NullLocator())


def _cross(axis: Axes, x: Sequence[float], y: Sequence[float], color: str) -> None:
    """Mark a run that diverges at its end, or where it leaves the panel."""
    limit = axis.get_ylim()[1]
    k = next((k for k, value in enumerate(y) if value > limit), None)
    place = (x[-1], y[-1]) if k is None else (float(np.interp(limit, y[k - 1 : k + 1], x[k - 1 : k + 1])), limit)
    axis.plot(*place, "x", color=color, markersize=5.5, markeredgewidth=1.5, clip_on=False, zorder=3)


def _thinned(n: int, *, logarithmic: bool) -> AnyArray:
    """Indices of the points that are drawn."""
    spaced = np.geomspace(1, n, MOST_POINTS) - 1 if logarithmic else np.linspace(0, n - 1, MOST_POINTS)
    return np.unique(np.rint(spaced).astype(int))


def draw_tracks(tracks: Sequence[Track], folder: Path) -> list[Path]:
    """Draw the quantities of the proof, one figure per problem."""
    problems = dict.fromkeys(track.problem for track in tracks)
    mine = [[track for track in tracks if track.problem == problem] for problem in problems]
    return [_draw_tracks(of, folder, theme) for of in mine for theme in THEMES.values()]


_TRACKS = ("blue", "green", "orange", "red")


def _draw_tracks(tracks: Sequence[Track], folder: Path, theme: Theme) -> Path:
    with mpl.rc_context(style(theme)):
        figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.2), layout="constrained")
        for track, name in zip(tracks, _TRACKS, strict=True):
            _draw_track(axes, track, colour(theme, name))
        figure.get_layout_engine().set(hspace=0.07)
        (cosines, momenta), (gaps, potentials) = axes
        of_gbm = max((track.columns["gap_of_gbm"] for track in tracks), key=len)
        _line(gaps, of_gbm, color=theme.line)
        cosines.set(title="Cosine between a residual and its fit", ylim=(0, 1.02))
        momenta.set(title="Momentum γ", yscale="log")
        gaps.set(title="Gap L(f) − L*", xscale="log", yscale="log")
        potentials.set(title="Potential V, minus its start V⁰", xscale="log")
        _set_scales(momenta, gaps, potentials)
        for axis in axes[1]:
            axis.set_xlabel("iteration")
        _kinds(cosines, theme, {"residual r": "-", "corrected residual c": ":"}, "upper right")
        _kinds(momenta, theme, {"used": "-", "admitted so far": ":"}, "center right")
        _kinds(gaps, theme, {"gap": "-", "bound of Theorem 4.1": "--"}, "lower left")
        _kinds(potentials, theme, {"V − V⁰": "-", "its bound, Σδ": "--"}, "upper left")
        handles = [Line2D([], [], color=colour(theme, name), label=_track_name(track)) for track, name in
                   zip(tracks, _TRACKS, strict=True)]  # fmt: skip
        handles.append(Line2D([], [], color=theme.line, label="GBM"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return save(figure, folder / f"theory-{tracks[0].problem}", theme)


def _track_name(track: Track) -> str:
    return f"γ = {number(track.gamma, 2)}{', admissible' if track.admissible else ''}"


def _set_scales(momenta: Axes, gaps: Axes, potentials: Axes) -> None:
    for axis in (momenta, gaps):
        axis.yaxis.set_major_locator(LogLocator(numticks=8))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(plain_powers())
    for axis in (gaps, potentials):
        axis.xaxis.set_major_formatter(plain_powers())
    potentials.set_yscale("symlog", linthresh=1.0)
    thousands = [1e3**k for k in range(1, 6)]
    potentials.yaxis.set_major_locator(FixedLocator([*(-x for x in thousands), 0.0, *thousands]))
    potentials.yaxis.set_minor_locator(NullLocator())
    potentials.yaxis.set_major_formatter(plain_powers())


def _kinds(axis: Axes, theme: Theme, kinds: Mapping[str, str], place: str) -> None:
    """A legend of the kinds of lines in a panel, whatever their colours."""
    handles = [Line2D([], [], color=theme.muted, linestyle=kind, label=name) for name, kind in kinds.items()]
    axis.legend(handles=handles, loc=place, fontsize=8.5)


def _line(axis: Axes, values: Sequence[float], **drawn: Any) -> None:
    """A line of values per iteration."""
    kept = _thinned(len(values), logarithmic=axis.get_xscale() == "log")
    axis.plot(kept + 1, np.asarray(values)[kept], **drawn)


def _draw_track(axes: AnyArray, track: Track, color: str) -> None:
    (cosines, momenta), (gaps, potentials) = axes
    columns = track.columns
    _line(cosines, columns["cosine_residual"], color=color)
    _line(cosines, columns["cosine_corrected"], color=color, linestyle=":")
    momenta.axhline(track.gamma, color=color)
    _line(momenta, [max(value, 1e-9) for value in columns["admitted"]], color=color, linestyle=":")
    _line(gaps, columns["gap"], color=color)
    _line(gaps, columns["bound"], color=color, linestyle="--")
    _line(potentials, [value - track.start_potential for value in columns["potential"]], color=color)
    _line(potentials, columns["error_terms"], color=color, linestyle="--")  # NaN if not defined


# Methods, momenta (None: the admitted one), titles and looks
_RESTARTS: Sequence[tuple[str, float | None, str, Look]] = (
    ("gbm", 0.0, "GBM", Look("line")),
    ("agbm", 0.1, "AGBM, γ = 0.1", Look("pink")),
    ("option 1", 0.1, "option 1, γ = 0.1", Look("orange")),
    ("option 2", 0.1, "option 2, γ = 0.1", Look("green")),
    ("option 1", None, "option 1, admissible γ", Look("blue")),
)
_BOUND = "its bound: half the gap after each period", Look("blue", (1.0, 2.0))


def draw_restarts(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw gaps against trees: one column of panels per problem, one row per kind of trees."""
    return [_draw_restarts(runs, folder, theme) for theme in THEMES.values()]


def _draw_restarts(runs: Sequence[Run], folder: Path, theme: Theme) -> Path:
    settings = settings_of(runs)
    problems = list(dict.fromkeys((setting.data, setting.condition) for setting in settings))
    levels = list(dict.fromkeys(setting.levels for setting in settings))
    with mpl.rc_context(style(theme)):
        size = (2.3 * len(problems), 2.2 * len(levels) + 0.8)
        figure, axes = plt.subplots(
            len(levels), len(problems), figsize=size, sharey=True, squeeze=False, layout="constrained"
        )
        for row, level in zip(axes, levels, strict=True):
            for (data, condition), axis in zip(problems, row, strict=True):
                _restarts(axis, runs, Setting(data, condition, level), theme)
            row[0].set_ylabel("exact trees" if level is None else f"trees of depth {level}")
        for (data, condition), axis in zip(problems, axes[0], strict=True):
            axis.set_title(f"{data}, σ/μ = {condition:g}")
        for axis in axes[-1]:
            axis.set_xlabel("number of trees")
        looks = [(title, of) for _, _, title, of in _RESTARTS] + [_BOUND]
        handles = [Line2D([], [], label=title, **_drawn(of, theme)) for title, of in looks]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return save(figure, folder / "restarts", theme)


def _restarts(axis: Axes, runs: Sequence[Run], setting: Setting, theme: Theme) -> None:
    _logarithmic(axis, TOLERANCES[-1] / 2.0, 30.0)
    found = [find(runs, setting, method, gamma) for method, gamma, _, _ in _RESTARTS]
    if all(run.needed[-1] == 1 for run in found):  # the squared error and exact trees
        axis.text(0.5, 0.5, "one tree reaches\nthe optimum", transform=axis.transAxes, color=theme.muted,
                  ha="center", va="center")  # fmt: skip
        axis.set_xticks([])
        return
    end = max(run.trees[-1] for run in found)
    for (*_, of), run in zip(_RESTARTS, found, strict=True):
        drawn = _drawn(of, theme)
        axis.plot(run.trees, run.gaps, **drawn)
        if run.diverged:
            _cross(axis, run.trees, run.gaps, drawn["color"])
    _bound(axis, found[-1], end, theme)
    axis.set_xlim(0, 1.02 * end)
    axis.xaxis.set_major_locator(MaxNLocator(4))


def _bound(axis: Axes, run: Run, end: int, theme: Theme) -> None:
    """Theorem 4.2: the gap is halved by every period. Its first iteration grows one tree, the others two."""
    trees = 2.0 * run.period - 1.0
    n = int(min(end // trees, 20.0))
    steps = [*(trees * np.arange(n + 1)), float(end)]
    axis.plot(steps, [0.5 ** min(k, n) for k in range(n + 2)], drawstyle="steps-post", **_drawn(_BOUND[1], theme))


_SAMPLE_COLOURS = ("orange", "green", "sky", "blue", "line", "pink", "red")


def draw_angles(angles: Sequence[Angles], folder: Path) -> list[Path]:
    """Draw cosines against depth: of the residuals of GBM and AGBM, and of noise; one line per sample."""
    return [_draw_angles(angles, folder, theme) for theme in THEMES.values()]


def _draw_angles(angles: Sequence[Angles], folder: Path, theme: Theme) -> Path:
    looks = _sample_looks([one.sample for one in angles])
    panels = {
        (0, 0): ("GBM: smallest", "smallest_gbm"), (0, 1): ("AGBM, r and c: smallest", "smallest_agbm"),
        (0, 2): ("noise: mean", "noise"), (1, 0): ("GBM: median", "median_gbm"),
        (1, 1): ("AGBM, r and c: median", "median_agbm"),
    }  # fmt: skip
    with mpl.rc_context(style(theme)):
        figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.0), sharex=True, sharey=True, layout="constrained")
        for place, (title, attribute) in panels.items():
            for sample, of in looks.items():
                found = {one.depth: getattr(one, attribute) for one in angles if one.sample == sample}
                axes[place].plot(found.keys(), found.values(), marker="o", markersize=2.8, **_drawn(of, theme))
            axes[place].set(title=title, ylim=(0, 1))
        axes[0, 0].set_xticks(DEPTHS)
        axes[0, 2].tick_params(labelbottom=True)
        for axis in (*axes[1], axes[0, 2]):
            axis.set_xlabel("depth of the tree")
        for axis in axes[:, 0]:
            axis.set_ylabel("cosine")
        names = {one.sample: sample_name(one).replace("rows, ", "rows,\n") for one in angles}
        handles = [Line2D([], [], label=names[sample], **_drawn(of, theme)) for sample, of in looks.items()]
        axes[1, 2].axis("off")
        axes[1, 2].legend(handles=handles, loc="center", fontsize=8.5).set_in_layout(False)
        return save(figure, folder / "angles", theme)


def _sample_looks(samples: Sequence[Sample]) -> dict[Sample, Look]:
    """One colour per data set and number of rows; dashes where trees use a part of the columns."""
    rows = list(dict.fromkeys((sample.data, sample.n_rows) for sample in samples))
    colours = dict(zip(rows, _SAMPLE_COLOURS, strict=False))
    return {
        sample: Look(colours[sample.data, sample.n_rows], (4.0, 2.0) if sample.columns < 1.0 else ())
        for sample in samples
    }
