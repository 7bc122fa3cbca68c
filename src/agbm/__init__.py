"""Accelerated gradient boosting machines with a scikit-learn interface."""

from .checkpoint import Checkpoint
from .estimators import AGBMClassifier, AGBMRegressor

__all__ = ["AGBMClassifier", "AGBMRegressor", "Checkpoint"]
