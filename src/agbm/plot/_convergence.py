"""Losses per iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from .._core.losses import Array
from ._arguments import named_models
from ._style import GREY, add_legend, line_style, new_axes

# For each value of `against`: the column of history_, and the label of the x-axis.
_X_AXES = {"trees": ("trees", "trees"), "iterations": ("iteration", "iterations"), "seconds": ("seconds", "seconds")}


def convergence(models: Any, against: str = "trees", *, log: bool = False, ax: Any = None) -> Any:
    """Plot the training loss (dashed) and the validation loss (solid) per iteration, with a star at the best one.

    models is a fitted model, a dict of models by name, or a list. against, the x-axis, is "trees", "iterations" or
    "seconds". A model that was fitted without validation rows has only a training loss; to see both, fit it with X_val
    and y_val, or with early_stopping=True.
    """
    if against not in _X_AXES:
        raise ValueError(f"against={against!r} must be one of {list(_X_AXES)}.")
    column, label = _X_AXES[against]
    named = named_models(models)
    losses = [_finite_losses(name, model, log) for name, model in named.items()]
    ax = new_axes(ax, max(4.0, 0.25 * (len(named) + 4)))  # the legend has one line per model
    handles = []
    for number, (name, model) in enumerate(named.items()):
        for kind, loss in losses[number].items():
            width, dashes = (1.0, "--") if kind == "training" else (1.8, "-")
            every = (
                0.02 * (number % 4),
                0.1,
            )  # fractions of the axes, so that markers of different lines do not overlap
            (line,) = ax.plot(
                model.history_[column], loss, linestyle=dashes, linewidth=width, markevery=every, markersize=4.5,
                label=name, **line_style(number),
            )  # fmt: skip
        best = int(np.nanargmin(loss))  # the last loss: of the validation rows if there are any
        x, colour = model.history_[column][best], line.get_color()
        ax.plot(x, loss[best], "*", color=colour, markersize=13, markeredgecolor="white", label="_best", zorder=3)
        handles.append(line)
    _explain_lines(ax, named, handles)
    ax.set(xlabel=label, ylabel="loss")
    if log:
        _make_log(ax)
    return ax


def _finite_losses(name: str, model: Any, log: bool) -> dict[str, Array]:
    """The losses, with NaN for values that cannot be drawn; the validation loss comes last, if there is one."""
    losses = {"training": model.history_["train_loss"], "validation": model.history_["validation_loss"]}
    losses = {kind: np.where(np.isfinite(loss), loss, np.nan) for kind, loss in losses.items()}
    losses = {kind: loss for kind, loss in losses.items() if not np.isnan(loss).all()}
    for kind, loss in losses.items():
        if log and np.nanmin(loss) <= 0.0:
            raise ValueError(
                f"log=True needs positive losses, but the {kind} loss of {name!r} reaches {np.nanmin(loss):.4g}; use "
                "log=False."
            )
    return losses


def _explain_lines(ax: Any, named: Mapping[str, Any], handles: Sequence[Any]) -> None:
    """Add a legend: the models, if there are several, and the meaning of solid lines, dashed lines and stars."""
    several = len(named) > 1
    colour = GREY if several else handles[0].get_color()
    meanings = {"training": Line2D([], [], color=colour, linestyle="--", linewidth=1.0)}
    if any(handle.get_linestyle() == "-" for handle in handles):
        meanings = {"validation": Line2D([], [], color=colour, linewidth=1.8), **meanings}
    meanings["best iteration"] = Line2D([], [], color=colour, linestyle="none", marker="*", markersize=11)
    names = list(named) if several else []
    add_legend(ax, [*handles[: len(names)], *meanings.values()], [*names, *meanings])


def _make_log(ax: Any) -> None:
    low, high = ax.dataLim.intervaly
    ax.set_yscale("log")
    if high < 100.0 * low:  # powers of ten would be one or two ticks
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
