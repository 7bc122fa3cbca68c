"""Losses per iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from .._base.sums import Array
from .._estimators.base import BaseAGBM
from .._estimators.cross_validation import CrossValidation
from .._fit.scoring import row_sets
from ._arguments import named_models
from ._style import GREY, add_legend, line_style, new_axes, plain_numbers

# For each value of `against`: the column of history_, and the label of the x-axis.
_X_AXES = {"trees": ("trees", "trees"), "iterations": ("iteration", "iterations"), "seconds": ("seconds", "seconds")}

Run: TypeAlias = "BaseAGBM | CrossValidation"


def convergence(
    models: Run | Mapping[str, Run] | Sequence[Run],
    against: str = "trees",
    *,
    metric: str = "loss",
    log: bool = False,
    ax: Axes | None = None,
) -> Any:
    """Plot the training loss (dashed) and the validation loss (solid) per iteration, with a star at the best one.

    models is a fitted model, a result of agbm.cv, a dict of these by name, or a list. against, the x-axis, is "trees",
    "iterations" or "seconds". A model that was fitted without validation rows has only a training loss; to see both,
    fit it with X_val and y_val, or with early_stopping=True. metric is the loss or a metric of `scoring`; other rows
    that were watched in fit are drawn dotted. Of a cross-validation, the means over the folds are drawn, with a band of
    one standard deviation around that of the validation rows.
    """
    if against not in _X_AXES:
        raise ValueError(f"against={against!r} must be one of {list(_X_AXES)}.")
    column, label = _X_AXES[against]
    named = {name: _Run.of(model) for name, model in named_models(models, also=CrossValidation).items()}
    losses = [finite_losses(run.history, metric) for run in named.values()]
    for name, found in zip(named, losses, strict=True):
        if not found:
            raise ValueError(f"metric={metric!r}: {name!r} has not recorded it; fit with scoring={metric!r}.")
        if not np.isfinite(named[name].history[column]).any():
            raise ValueError(f"against={against!r}: {name!r} comes from a file, which has no seconds; use 'trees'.")
    if log:
        _check_positive(dict(zip(named, losses, strict=True)), metric)
    curves = {
        name: Curve(run.history[column], found, run.best, run.spread.get(metric))
        for (name, run), found in zip(named.items(), losses, strict=True)
    }
    ax = new_axes(ax, max(4.0, 0.25 * (len(named) + 4)))  # the legend has one line per model
    draw_curves(ax, curves)
    ax.set(xlabel=label, ylabel=metric.replace("_", " "))
    if log:
        _make_log(ax)
    return ax


class _Run(NamedTuple):
    """The history of a model or of a cross-validation."""

    history: Mapping[str, Array]
    best: int
    spread: Mapping[str, Array]
    """The standard deviations over the folds of metrics of the validation rows; empty for a model."""

    @classmethod
    def of(cls, run: Run) -> _Run:
        if not isinstance(run, CrossValidation):
            return cls(run.history_, run.best_iteration_, {})
        kept = {name.removesuffix("_mean"): of for name, of in run.history.items() if not name.endswith("_std")}
        spread = {name.removesuffix("_std"): of for name, of in run.history.items() if name.endswith("_std")}
        validation = {name.removeprefix("validation_"): of for name, of in spread.items() if name.startswith("val")}
        return cls(kept, run.best_iteration, validation)


@dataclass(frozen=True)
class Curve:
    """The losses of a run against trees, iterations or seconds."""

    x: Array
    losses: Mapping[str, Array]
    """By rows: "training", names of rows that were watched, "validation", which comes last; NaN is not drawn."""
    best: int
    """Index of the iteration to mark, on the line of the last loss."""
    spread: Array | None = None
    """Half the height of a band around the last loss."""


def draw_curves(ax: Axes, curves: Mapping[str, Curve]) -> None:
    """Draw curves by the names of their models, with a legend."""
    handles = []
    for number, (name, curve) in enumerate(curves.items()):
        every = (0.02 * (number % 4), 0.1)  # fractions of the axes, so that markers of different lines do not overlap
        for kind, loss in curve.losses.items():
            width, dashes = _line_of(kind)
            (line,) = ax.plot(
                curve.x, loss, linestyle=dashes, linewidth=width, markevery=every, markersize=4.5, label=name,
                **line_style(number),
            )  # fmt: skip
        if curve.spread is not None:
            low, high = loss - curve.spread, loss + curve.spread
            ax.fill_between(curve.x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        x, y, colour = curve.x[curve.best], loss[curve.best], line.get_color()
        ax.plot(x, y, "*", color=colour, markersize=13, markeredgecolor="white", label="_best", zorder=3)
        handles.append(line)
    _explain_lines(ax, list(curves), handles, list(dict.fromkeys(kind for c in curves.values() for kind in c.losses)))
    plain_numbers(ax.xaxis, ax.yaxis)


def _line_of(kind: str) -> tuple[float, str]:
    """The width and the style of the line of some rows."""
    return {"training": (1.0, "--"), "validation": (1.8, "-")}.get(kind, (1.4, ":"))


def finite_losses(history: Mapping[str, Any], metric: str = "loss") -> dict[str, Array]:
    """The known values of a metric by rows, with NaN for values that cannot be drawn; the validation rows are last."""
    rows = [name for name in row_sets(history) if f"{name}_{metric}" in history]
    rows.sort(key=lambda name: (name == "validation", name != "train"))
    losses = {"training" if name == "train" else name: history[f"{name}_{metric}"] for name in rows}
    finite = {kind: np.where(np.isfinite(loss), loss, np.nan) for kind, loss in losses.items()}
    return {kind: loss for kind, loss in finite.items() if not np.isnan(loss).all()}


def _check_positive(losses: Mapping[str, Mapping[str, Array]], metric: str) -> None:
    for name, kinds in losses.items():
        for kind, loss in kinds.items():
            if np.nanmin(loss) <= 0.0:
                raise ValueError(
                    f"log=True needs positive values, but the {kind} {metric} of {name!r} reaches "
                    f"{np.nanmin(loss):.4g}; use log=False."
                )


def _explain_lines(ax: Axes, named: Sequence[str], handles: Sequence[Any], kinds: Sequence[str]) -> None:
    """Add a legend: the models, if there are several, and what lines and stars mean."""
    several = len(named) > 1
    colour = GREY if several else handles[0].get_color()
    meanings = {}
    for kind in sorted(kinds, key=lambda kind: (kind != "validation", kind != "training")):
        width, style = _line_of(kind)
        meanings[kind] = Line2D([], [], color=colour, linewidth=width, linestyle=style)
    meanings["best iteration"] = Line2D([], [], color=colour, linestyle="none", marker="*", markersize=11)
    names = named if several else []
    add_legend(ax, [*handles[: len(names)], *meanings.values()], [*names, *meanings])


def _make_log(ax: Axes) -> None:
    low, high = ax.dataLim.intervaly
    ax.set_yscale("log")
    if high < 100.0 * low:  # powers of ten would be one or two ticks
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        plain_numbers(ax.yaxis)
        ax.yaxis.set_minor_formatter(NullFormatter())
