"""Contributions of features in the form that the plots of shap accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse


def explanation(model: Any, X: Any, numbers_of: Callable[[Any], Any]) -> Any:
    """A shap.Explanation for the rows of X; `numbers_of` returns X as numbers, with codes for categories.

    Plots take their colours from these numbers and show the values of X. Outputs are on the last axis, as in shap.
    """
    try:
        from shap import Explanation  # an optional dependency, and slow to import
    except ImportError as error:
        raise ImportError(
            "explain() needs shap: pip install 'agbm[explain]'. predict_contributions() works without it."
        ) from error
    contributions = model.predict_contributions(X)
    values = contributions if contributions.ndim == 2 else np.moveaxis(contributions, 1, -1)
    n_features = values.shape[1] - 1
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return Explanation(
        values=values[:, :n_features],
        base_values=values[:, n_features],
        data=_dense(numbers_of(X)),
        display_data=_dense(X),
        feature_names=[f"Feature {j}" for j in range(n_features)] if names is None else list(names),
        output_names=None if classes is None or values.ndim == 2 else [str(label) for label in classes],
    )


def _dense(X: Any) -> Any:
    return X.toarray() if issparse(X) else np.asarray(X)
