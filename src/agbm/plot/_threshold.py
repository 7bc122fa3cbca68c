"""Costs of wrong decisions against the threshold of a decision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .._base.sums import Array
from .._base.types import Table, Values
from ._arguments import Models, check_labels, named_classifiers
from ._calibration import Outcomes, outcomes
from ._style import DASHES, GREY, add_legend, line_style, new_axes, plain_numbers, shortened


def threshold_costs(
    models: Models,
    X: Table,
    y: Values,
    *,
    false_positive: float = 1.0,
    false_negative: float = 1.0,
    ax: Axes | None = None,
) -> Any:
    """Plot the mean cost per row of decisions by a binary classifier against their threshold.

    A row is positive, that is, assigned to the second class, if its predicted probability is at least the threshold.
    models is a fitted classifier, a dict of classifiers by name, or a list; X and y are test rows. false_positive and
    false_negative are the costs of the two kinds of errors. A star marks the lowest cost. The dotted line is the best
    threshold for calibrated probabilities, false_positive / (false_positive + false_negative).
    """
    named = named_classifiers(models)
    check_costs(false_positive, false_negative)
    for name, model in named.items():
        if len(model.classes_) != 2:
            raise ValueError(f"models: {name!r} has {len(model.classes_)} classes, threshold_costs needs two.")
        check_labels(name, model, y)
    return draw_costs(
        new_axes(ax),
        {name: outcomes(y, model.predict_proba(X), model.classes_) for name, model in named.items()},
        f"class {next(iter(named.values())).classes_[1]}",
        false_positive,
        false_negative,
    )


def check_costs(false_positive: float, false_negative: float) -> None:
    """Raise ValueError unless both costs are positive numbers."""
    for name, cost in (("false_positive", false_positive), ("false_negative", false_negative)):
        if not (math.isfinite(cost) and cost > 0.0):
            raise ValueError(f"{name} must be a positive number; got {cost!r}.")


def draw_costs(
    ax: Axes, predicted: Mapping[str, Outcomes], event: str, false_positive: float, false_negative: float
) -> Axes:
    """Draw the costs for outcomes by the names of their models."""
    handles = []
    for number, found in enumerate(predicted.values()):
        thresholds, costs = costs_by_threshold(found, false_positive, false_negative)
        style = {**line_style(number), "linestyle": DASHES[number % len(DASHES)], "drawstyle": "steps-pre"}
        style["marker"] = style["marker"] if len(predicted) > 1 else ""
        handles += ax.plot(thresholds, costs, linewidth=1.8, markevery=(0.02 * (number % 4), 0.1), **style)
        best, colour = int(costs.argmin()), style["color"]
        ax.plot(thresholds[best], costs[best], "*", color=colour, markersize=13, markeredgecolor="white", zorder=3)
    ax.axvline(false_positive / (false_positive + false_negative), linestyle=":", color=GREY)
    if len(predicted) > 1:
        add_legend(ax, handles, list(predicted))
    ax.set_xlabel(f"threshold of the predicted probability of {shortened(event)}", parse_math=False)
    ax.set(xlim=(-0.02, 1.02), ylim=(0.0, None), ylabel="mean cost per row")
    plain_numbers(ax.yaxis)
    return ax


def costs_by_threshold(found: Outcomes, false_positive: float, false_negative: float) -> tuple[Array, Array]:
    """Thresholds from 0 to 1, and the mean cost per row at each; it is constant from one, exclusive, to the next."""
    probabilities, occurred = found
    thresholds = np.unique([0.0, *probabilities, 1.0])
    n_below = np.searchsorted(np.sort(probabilities), thresholds)
    missed = np.searchsorted(np.sort(probabilities[occurred]), thresholds)
    false_alarms = np.count_nonzero(~occurred) - (n_below - missed)
    return thresholds, (false_positive * false_alarms + false_negative * missed) / len(probabilities)
