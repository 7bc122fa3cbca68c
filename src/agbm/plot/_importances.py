"""Importances of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .._estimators.base import BaseAGBM
from ..export._view import check_fitted, feature_names
from ._arguments import check_top
from ._style import BLUE, axes_for_rows, shortened


def importances(model: BaseAGBM, kind: str = "gain", *, top: int = 20, ax: Axes | None = None) -> Any:
    """Plot the `top` most important features as bars, by their share of the gain or by their number of splits.

    kind is "gain" (feature_importances_) or "splits" (split_counts_); docs/explain.md explains both.
    """
    attributes = {"gain": "feature_importances_", "splits": "split_counts_"}
    if kind not in attributes:
        raise ValueError(f"kind={kind!r} must be one of {list(attributes)}.")
    check_fitted(model)
    model.model_.check_has_trees("importances")
    check_top(top)
    values = getattr(model, attributes[kind])
    if not values.any():
        raise ValueError(
            "model has no splits, so no feature has an importance; fit it to more rows, or with a smaller "
            "min_samples_leaf or min_split_gain."
        )
    shown = np.argsort(-values, kind="stable")[:top]
    ax = axes_for_rows(ax, [shortened(feature_names(model)[feature]) for feature in shown])
    bars = ax.barh(range(len(shown)), values[shown], color=BLUE, height=0.7)
    ax.bar_label(bars, fmt="{:.3g}", padding=3, fontsize="small")
    ax.margins(x=0.12)
    ax.set_xlabel("share of the gain of all splits" if kind == "gain" else "splits")
    if len(shown) < len(values):
        ax.set_title(f"{len(shown)} of {len(values)} features", fontsize="medium")
    return ax
