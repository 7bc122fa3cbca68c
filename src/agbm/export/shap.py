"""Export to shap.TreeExplainer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._base.sums import Array
from .._estimators.base import BaseAGBM
from ._view import Tree, View, view


def to_shap(model: BaseAGBM, dtype: DTypeLike = np.float64) -> dict[str, Any]:
    """A fitted model in the form that shap.TreeExplainer accepts: ``shap.TreeExplainer(to_shap(model))``.

    Its SHAP values are those of predict_contributions, up to rounding, also with background rows, as in
    ``shap.TreeExplainer(to_shap(model, np.float32), rows)``; with model_output="probability", they are those of the
    probability of the second class. With background rows, shap rounds
    thresholds to float32, so that values next to a threshold may change sides: use dtype=np.float32, and pass X and the
    background rows as float32, for which the thresholds are then exact. Raises ValueError if trees split on categories:
    this form has thresholds only.
    """
    fitted = view(model)
    fitted.check_has_no_crosses("The shap package")
    _check_thresholds(fitted)
    single = _is_single(dtype)
    found: dict[str, Any] = {
        "trees": [_tree(tree, fitted.n_outputs, single) for tree in fitted.trees],
        "base_offset": fitted.start.copy(),
        "internal_dtype": np.float64,
        "input_dtype": np.float32 if single else np.float64,
    }
    if fitted.link.name == "sigmoid" and fitted.link.slope == 1.0:
        found |= {"tree_output": "log_odds", "objective": "binary_crossentropy"}
    elif fitted.link.name == "identity":
        found["tree_output"] = "raw_value"
    return found


def _check_thresholds(fitted: View) -> None:
    by_set = {int(tree.feature[node]) for tree in fitted.trees for node in tree.members}
    if by_set:
        names = [fitted.feature_names[feature] for feature in sorted(by_set)]
        raise ValueError(
            f"Features {names} are categorical, and shap.TreeExplainer has no splits on sets of categories that "
            "models can be translated to; use predict_contributions(X) or explain(X), which support them."
        )


def _is_single(dtype: DTypeLike) -> bool:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} must be np.float32 or np.float64.")
    return np.dtype(dtype) == np.float32


def _tree(tree: Tree, n_outputs: int, single: bool) -> dict[str, Any]:
    rows = tree.count.astype(np.float64)
    threshold = _rounded_down(tree.threshold) if single else tree.threshold
    return {
        "children_left": tree.yes,
        "children_right": tree.no,
        "children_default": np.where(tree.missing_yes, tree.yes, tree.no),
        "features": tree.feature,
        "thresholds": np.where(tree.inner, threshold, -1.0),
        "values": _expected_values(tree, rows, n_outputs),
        "node_sample_weight": rows if len(rows) > 1 else np.ones(1),  # shap rejects nodes without rows
    }


def _rounded_down(threshold: Array) -> Array:
    """Thresholds that float32 represents: every float32 is above both, or neither, the old and the new one."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)


def _expected_values(tree: Tree, rows: Array, n_outputs: int) -> Array:
    """The values (node, output) of all nodes; that of an inner node is the mean over its training rows."""
    value = np.zeros((len(rows), n_outputs))
    value[:, tree.outputs] = tree.value
    for node in np.flatnonzero(tree.inner)[::-1]:  # children come after their parents
        children = [tree.yes[node], tree.no[node]]
        value[node] = np.average(value[children], axis=0, weights=rows[children])
    return value
