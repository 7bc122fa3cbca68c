"""Reliability diagrams of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.rows import some_of
from .._estimators import AGBMClassifier
from ._arguments import named_models
from ._style import DASHES, GREY, add_legend, axes_below, line_style, new_axes


def calibration(models: Any, X: Any, y: Any, *, bins: int = 10, ax: Any = None) -> Any:
    """Plot a reliability diagram of binary classifiers: observed frequencies against predicted probabilities.

    models is a fitted classifier, a dict of classifiers by name, or a list; X and y are test rows. The lower axes show
    the number of rows per bin; all bins have the same width.
    """
    from sklearn.calibration import calibration_curve  # slow to import

    named = named_models(models)
    if not isinstance(bins, (int, np.integer)) or bins < 2:
        raise ValueError(f"bins={bins!r} must be an integer of at least 2.")
    for name, model in named.items():
        _check_two_classes(name, model, y)
    ax = new_axes(ax, 5.4)
    counts = axes_below(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", color=GREY)
    edges, handles = np.linspace(0.0, 1.0, bins + 1), []
    for number, model in enumerate(named.values()):
        probabilities = model.predict_proba(X)[:, 1]
        share, mean = calibration_curve(y, probabilities, n_bins=bins, pos_label=model.classes_[1])
        style = {**line_style(number), "linestyle": DASHES[number % len(DASHES)]}
        handles += ax.plot(mean, share, markersize=6, **style)
        in_bins = np.bincount(
            np.searchsorted(edges[1:-1], probabilities), minlength=bins
        )  # the bins of calibration_curve
        counts.stairs(in_bins, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.5)
    if len(named) > 1:
        add_legend(ax, handles, list(named))
    label = next(iter(named.values())).classes_[1]
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_ylabel(f"share of class {label}", parse_math=False)
    ax.tick_params(labelbottom=False)
    counts.set(ylabel="rows", ylim=(0, None))
    counts.set_xlabel(f"predicted probability of class {label}", parse_math=False)
    counts.spines[["top", "right"]].set_visible(False)
    counts.grid(alpha=0.25)
    return ax


def _check_two_classes(name: str, model: Any, y: Any) -> None:
    if not isinstance(model, AGBMClassifier):
        raise TypeError(f"models: {name!r} is not a classifier; calibration needs predicted probabilities.")
    classes = model.classes_.tolist()
    if len(classes) != 2:
        raise ValueError(
            f"models: {name!r} has {len(classes)} classes, calibration needs two; fit one model per class, such as "
            f"y == {classes[0]!r}."
        )
    unknown = [label for label in np.unique(y).tolist() if label not in classes]
    if unknown:
        raise ValueError(f"y has labels {some_of(unknown)} that {name!r} does not know; its classes are {classes}.")
