"""Partial dependence by recursion: means over the training rows, computed from the trees alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats.mstats import mquantiles
from sklearn.utils import Bunch

from .._base.sums import Array
from .._base.types import Table
from .._estimators.base import BaseAGBM
from ..export._view import feature_names
from ._arguments import feature_columns
from ._style import BLUE, value_text


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that need predictions of rows."""
    if kind != "average":
        raise ValueError(f"kind={kind!r} needs the predictions of rows; use method='brute', or kind='average'.")
    if options.get("sample_weight") is not None:
        raise ValueError("sample_weight: method='recursion' averages over the training rows; use method='brute'.")
    asked = options.get("response_method", "decision_function")
    if asked not in ("auto", "decision_function"):
        raise ValueError(f"response_method={asked!r}: method='recursion' averages raw scores; use method='brute'.")


def draw_panel(
    axis: Axes, model: BaseAGBM, X: Table, panel: Sequence[int], known: Mapping[int, Sequence[Any]], output: int,
    options: Mapping[str, Any],
) -> None:  # fmt: skip
    """Draw the mean scores of the training rows; `known` has the categories to show."""
    from sklearn.inspection import PartialDependenceDisplay  # slow to import

    if len(panel) == 1 and known:
        points = np.arange(float(len(known[panel[0]])))[:, np.newaxis]
        category_dots(axis, model, panel[0], known[panel[0]], model.model_.partial_dependence(panel, points)[output])
        return
    if len(known) not in (0, len(panel)):
        raise ValueError(
            f"features: {[feature_names(model)[f] for f in panel]} are a number and a category, which cannot be drawn "
            "together; use one panel for each."
        )
    options = {name: value for name, value in options.items() if name not in ("response_method", "sample_weight")}
    resolution, shares = options.pop("grid_resolution", 100), options.pop("percentiles", (0.05, 0.95))
    columns = dict(zip(panel, feature_columns(model, X, list(panel)), strict=True))
    axes, deciles = [], {}
    for feature in panel:
        if feature in known:
            axes.append(np.arange(len(known[feature]), dtype=np.float64))
        else:
            column = columns[feature][np.isfinite(columns[feature])]
            if len(column) == 0:
                name = feature_names(model)[feature]
                raise ValueError(f"All values of feature {name!r} in X are missing; pass rows that have some.")
            axes.append(_axis(column, resolution, shares))
            deciles[feature] = np.asarray(mquantiles(column, prob=np.arange(0.1, 1.0, 0.1)))
    grid = np.array(list(product(*axes)))
    average = model.model_.partial_dependence(panel, grid).reshape(-1, *map(len, axes))
    shown = [_objects(known[f]) if f in known else axis for f, axis in zip(panel, axes, strict=True)]
    display = PartialDependenceDisplay(
        [Bunch(grid_values=shown, average=average)],
        features=[tuple(panel)],
        feature_names=feature_names(model),
        target_idx=output,
        deciles=deciles,
        is_categorical=[tuple(f in known for f in panel)],
    )
    display.plot(ax=[axis], **options)


def category_dots(axis: Axes, model: BaseAGBM, feature: int, categories: Sequence[Any], means: NDArray[Any]) -> None:
    """Draw means as dots: scikit-learn's display places its bars by the categories' numeric values."""
    places = range(len(categories))
    axis.plot(places, means, "o", color=BLUE, markersize=6)
    axis.set_xticks(places, [value_text(category) for category in categories], parse_math=False)
    axis.tick_params(axis="x", rotation=90 if len(categories) > 4 else 0)
    axis.margins(x=0.5 / len(categories))
    axis.set_xlabel(feature_names(model)[feature])


def _axis(column: Array, resolution: int, shares: tuple[float, float]) -> Array:
    """The points of a feature, as scikit-learn chooses them: all values if there are few, or an even grid."""
    values = np.unique(column)
    if len(values) < resolution:
        return values
    low, high = mquantiles(column, prob=shares)
    return np.linspace(low, high, resolution) if low < high else np.array([low])


def _objects(categories: Sequence[Any]) -> NDArray[Any]:
    shown = np.empty(len(categories), dtype=object)
    shown[:] = categories
    return shown
