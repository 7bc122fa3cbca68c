"""Accelerated gradient boosting machines with a scikit-learn interface."""

from importlib.metadata import version as _version

from ._core.training import Record, Watcher
from ._data.batches import Batches
from ._estimators import AGBMClassifier, AGBMRegressor, load
from ._migration import from_params
from ._predictor import Predictor
from ._storage.checkpoint import Checkpoint
from ._storage.container import ModelFileError

__version__ = _version("agbm")

__all__ = [
    "AGBMClassifier",
    "AGBMRegressor",
    "Batches",
    "Checkpoint",
    "ModelFileError",
    "Predictor",
    "Record",
    "Watcher",
    "__version__",
    "from_params",
    "load",
]
