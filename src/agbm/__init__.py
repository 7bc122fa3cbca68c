"""Accelerated gradient boosting machines with a scikit-learn interface."""

from .checkpoint import Checkpoint
from .estimators import AGBMClassifier, AGBMRegressor
from .model_file import ModelFileError
from .saving import load

__all__ = ["AGBMClassifier", "AGBMRegressor", "Checkpoint", "ModelFileError", "load"]
