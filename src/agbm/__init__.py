"""Accelerated gradient boosting machines with a scikit-learn interface."""

from .estimators import AGBMClassifier, AGBMRegressor

__all__ = ["AGBMClassifier", "AGBMRegressor"]
