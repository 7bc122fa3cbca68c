"""Accelerated gradient boosting machines with a scikit-learn interface."""

from .batches import Batches
from .checkpoint import Checkpoint
from .estimators import AGBMClassifier, AGBMRegressor
from .migration import from_params
from .model_file import ModelFileError
from .saving import load

__all__ = ["AGBMClassifier", "AGBMRegressor", "Batches", "Checkpoint", "ModelFileError", "from_params", "load"]
