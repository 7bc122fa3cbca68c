"""Loading of estimators from model files."""

from __future__ import annotations

import os
from typing import TypeVar, cast, overload

from .base import BaseAGBM, loaded
from .classifier import AGBMClassifier
from .ranker import AGBMRanker
from .regressor import AGBMRegressor
from .survival import AGBMSurvival

Estimator = AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival
E = TypeVar("E", bound=BaseAGBM)


@overload
def load(path: str | os.PathLike[str]) -> Estimator: ...


@overload
def load(path: str | os.PathLike[str], kind: type[E]) -> E: ...


def load(path: str | os.PathLike[str], kind: type[E] | None = None) -> Estimator | E:
    """Load a model that `save` has written. Its predictions have the same bits as those of the saved model.

    Files from any source are safe to load: they contain only data, all of which is checked. For a file that violates a
    rule of the format, raises a `ModelFileError` that names the rule. With `kind`, such as AGBMClassifier, the result
    has that type, and a model of another type raises TypeError.

    Examples
    --------
    >>> import agbm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> agbm.AGBMRegressor(max_iter=5).fit(X, y).save("diabetes.agbm")
    >>> agbm.load("diabetes.agbm", agbm.AGBMRegressor).predict(X[:2]).shape
    (2,)
    """
    estimator = cast(Estimator, loaded(path).estimator)
    if kind is not None and not isinstance(estimator, kind):
        raise TypeError(f"{os.fspath(path)!r} contains an {type(estimator).__name__}, not an {kind.__name__}.")
    return estimator
