"""Accelerated gradient boosting machines with a scikit-learn interface."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from types import ModuleType as _ModuleType

from ._core.training import Record, Watcher
from ._data.batches import Batches
from ._estimators import AGBMClassifier, AGBMRegressor, load
from ._migration.translation import from_params
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

# Imported when they are first used: `import agbm; agbm.losses.Quantile(0.9)`.
_MODULES = ("dask", "export", "losses", "methods", "plot")


def __getattr__(name: str) -> _ModuleType:
    if name in _MODULES:
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
