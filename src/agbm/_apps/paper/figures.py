"""The figures, drawn with matplotlib as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator

from ..._base.types import AnyArray
from ...methods import AGBM, GBM
from ...plot._style import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY
from .curves import Curve, Line, Plan
from .proof import Track

_OF_GAMMA = {0.01: SKY, 0.1: BLUE, 0.3: GREEN, 1.0: ORANGE}

_STYLE: dict[str, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "legend.frameon": False, "lines.linewidth": 1.4, "svg.hashsalt": "agbm", "svg.fonttype": "path",
}  # fmt: skip


def draw_curves(plan: Plan, curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Draw one figure: training loss above test loss, one column of panels per step size."""
    styles = {line.title: _line_style(line) for line in plan.lines}
    with mpl.rc_context(_STYLE):
        size = (2.6 * len(plan.steps) + 0.6, 5.6)
        figure, axes = plt.subplots(2, len(plan.steps), figsize=size, sharex=True, squeeze=False, layout="constrained")
        for column, step in enumerate(plan.steps):
            of_step = [curve for curve in curves if curve.figure == plan.name and curve.step == step]
            for row, name in enumerate(("train", "test")):
                _panel(axes[row][column], of_step, styles, name)
            axes[0][column].set_title(f"η = {step:g}")
            axes[1][column].set_xlabel("number of trees")
        axes[0][0].set_ylabel("training loss")
        axes[1][0].set_ylabel("test loss")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.suptitle(f"{plan.title}: mean of five splits, × marks a run that diverges")
        return _save(figure, folder / plan.name)


def _panel(axis: Axes, curves: Sequence[Curve], styles: Mapping[str, Mapping[str, Any]], name: str) -> None:
    for curve in curves:
        losses, style = getattr(curve, name), styles[curve.title]
        axis.plot(curve.trees, losses, label=curve.title, **style)
        if curve.diverged:
            axis.plot(curve.trees[-1:], losses[-1:], "x", color=style["color"], markersize=7)
    lowest = min(min(getattr(curve, name)) for curve in curves)
    start = max(getattr(curve, name)[0] for curve in curves)
    if start > 20 * lowest:
        axis.set_yscale("log")
        axis.set_ylim(lowest / 1.5, 10 * start)
    elif start > lowest:
        axis.set_ylim(lowest - 0.05 * (start - lowest), start + 0.6 * (start - lowest))


def _line_style(line: Line) -> dict[str, Any]:
    """One colour per method and momentum; lines with the released code's sign are dashed."""
    method = line.parameters["method"]
    if isinstance(method, AGBM):
        return {"color": _OF_GAMMA[cast(float, method.momentum)], "linestyle": "--" if method.correction < 0 else "-"}
    return {"color": BLACK if isinstance(method, GBM) else PINK, "linestyle": "-"}


def draw_tracks(tracks: Sequence[Track], folder: Path) -> list[Path]:
    """Draw the quantities of the proof for all runs on one problem."""
    with mpl.rc_context(_STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.6), layout="constrained")
        for track, colour in zip(tracks, (BLUE, GREEN, ORANGE, RED), strict=True):
            _draw_track(axes, track, colour)
        (cosines, momenta), (gaps, potentials) = axes
        of_gbm = max((track.columns["gap_of_gbm"] for track in tracks), key=len)
        gaps.plot(range(1, len(of_gbm) + 1), of_gbm, color=BLACK, label="GBM with the same step")
        gaps.legend(fontsize=8)
        cosines.set(title="cosine between a residual and its fit", xlabel="iteration", ylim=(0, 1.02))
        momenta.set(title="momentum used (—) and admitted so far (···)", xlabel="iteration", yscale="log")
        gaps.set(
            title="L(f) - L* (—) and the bound of Theorem 4.1 (- -)", xlabel="iteration", yscale="log", xscale="log"
        )
        potentials.set(title="V - V⁰ (—) and its bound, the sum of δ (- -)", xlabel="iteration", xscale="log")
        potentials.set_yscale("symlog", linthresh=1.0)
        potentials.yaxis.set_major_locator(SymmetricalLogLocator(base=1000.0, linthresh=1.0))
        figure.legend(*cosines.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
        figure.suptitle(f"Quantities of the proof of Theorem 4.1 on {tracks[0].problem}, η = {tracks[0].eta:g}")
        return _save(figure, folder / f"theory-{tracks[0].problem}")


def _draw_track(axes: AnyArray, track: Track, colour: str) -> None:
    (cosines, momenta), (gaps, potentials) = axes
    columns = track.columns
    iterations = range(1, len(columns["gap"]) + 1)
    kind = "admissible" if track.admissible else "not admissible"
    cosines.plot(iterations, columns["cosine_residual"], color=colour, label=f"γ = {track.gamma:.2g} ({kind}): r")
    cosines.plot(iterations, columns["cosine_corrected"], color=colour, linestyle=":", label="c")
    momenta.axhline(track.gamma, color=colour)
    momenta.plot(iterations, [max(value, 1e-9) for value in columns["admitted"]], color=colour, linestyle=":")
    gaps.plot(iterations, columns["gap"], color=colour)
    gaps.plot(iterations, columns["bound"], color=colour, linestyle="--")
    potentials.plot(iterations, [value - track.start_potential for value in columns["potential"]], color=colour)
    potentials.plot(iterations, columns["error_terms"], color=colour, linestyle="--")  # NaN if not defined


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(paths[0], dpi=200)
    figure.savefig(paths[1], metadata={"Date": None})
    plt.close(figure)
    return paths
