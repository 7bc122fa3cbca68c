"""Loading of estimators from model files."""

from __future__ import annotations

import os
from typing import cast

from .base import loaded
from .classifier import AGBMClassifier
from .ranker import AGBMRanker
from .regressor import AGBMRegressor
from .survival import AGBMSurvival


def load(path: str | os.PathLike[str]) -> AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival:
    """Load a model that `save` has written. Its predictions have the same bits as those of the saved model.

    Files from any source are safe to load: they contain only data, all of which is checked. For a file that violates a
    rule of the format, raises a `ModelFileError` that names the rule.

    Examples
    --------
    >>> import agbm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> agbm.AGBMRegressor(max_iter=5).fit(X, y).save("diabetes.agbm")
    >>> agbm.load("diabetes.agbm").predict(X[:2]).shape
    (2,)
    """
    return cast(AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival, loaded(path).estimator)
