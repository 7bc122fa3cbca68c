"""Reliability diagrams of classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from .._base.sums import Array
from .._base.types import Table, Values
from ._arguments import Models, check_labels, named_classifiers
from ._style import DASHES, GREY, add_legend, axes_below, line_style, new_axes, plain_numbers, shortened

Outcomes = tuple[Array, NDArray[np.bool_]]
"""For each row, the predicted probability of an event, and whether it occurred."""


def calibration(models: Models, X: Table, y: Values, *, bins: int = 10, ax: Axes | None = None) -> Any:
    """Plot a reliability diagram of classifiers: observed frequencies against predicted probabilities.

    models is a fitted classifier, a dict of classifiers by name, or a list; X and y are test rows. With two classes,
    the probability is that of the second class. With more, it is that of the predicted class, and the frequency is the
    share of correct predictions. The lower axes show the number of rows per bin; all bins have the same width.
    """
    named = named_classifiers(models)
    if not isinstance(bins, (int, np.integer)) or bins < 2:
        raise ValueError(f"bins={bins!r} must be an integer of at least 2.")
    for name, model in named.items():
        check_labels(name, model, y)
    classes = next(iter(named.values())).classes_
    return draw_calibration(
        new_axes(ax, 5.4),
        {name: outcomes(y, model.predict_proba(X), model.classes_) for name, model in named.items()},
        f"class {classes[1]}" if len(classes) == 2 else None,
        bins=bins,
    )


def outcomes(y: Values, probabilities: Array, classes: NDArray[Any]) -> Outcomes:
    """The second of two classes is the event; with more classes, a correct prediction is."""
    if len(classes) == 2:
        return probabilities[:, 1], np.asarray(y) == classes[1]
    return probabilities.max(axis=1), classes[probabilities.argmax(axis=1)] == np.asarray(y)


def draw_calibration(ax: Axes, predicted: Mapping[str, Outcomes], event: str | None, *, bins: int = 10) -> Axes:
    """Draw a reliability diagram of outcomes by the names of their models; event is None for correct predictions."""
    from sklearn.calibration import calibration_curve  # slow to import

    counts = axes_below(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", color=GREY)
    edges, handles = np.linspace(0.0, 1.0, bins + 1), []
    for number, (probabilities, occurred) in enumerate(predicted.values()):
        share, mean = calibration_curve(occurred, probabilities, n_bins=bins, pos_label=True)
        style = {**line_style(number), "linestyle": DASHES[number % len(DASHES)]}
        handles += ax.plot(mean, share, markersize=6, **style)
        in_bins = np.bincount(np.searchsorted(edges[1:-1], probabilities), minlength=bins)  # as in calibration_curve
        counts.stairs(in_bins, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.5)
    if len(predicted) > 1:
        add_legend(ax, handles, list(predicted))
    event = None if event is None else shortened(event)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_ylabel("share of correct predictions" if event is None else f"share of {event}", parse_math=False)
    ax.tick_params(labelbottom=False)
    counts.set(ylabel="rows", ylim=(0, None))
    counts.set_xlabel(f"predicted probability of {event or 'the predicted class'}", parse_math=False)
    counts.spines[["top", "right"]].set_visible(False)
    counts.grid(alpha=0.25)
    counts.locator_params(axis="y", nbins=3)
    plain_numbers(counts.yaxis)
    return ax
