"""Accelerated gradient boosting machines with a scikit-learn interface."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from . import dask as dask
    from . import export as export
    from . import losses as losses
    from . import methods as methods
    from . import mlflow as mlflow
    from . import plot as plot
    from ._apps.report.api import Report, report
    from ._core.training import Record, Watcher
    from ._data.batches import Batches
    from ._estimators.classifier import AGBMClassifier
    from ._estimators.cross_validation import CrossValidation, cv
    from ._estimators.loading import load
    from ._estimators.ranker import AGBMRanker
    from ._estimators.regressor import AGBMRegressor
    from ._estimators.survival import AGBMSurvival
    from ._estimators.translation import from_params
    from ._model.predictor import Predictor
    from ._storage.checkpoint import Checkpoint
    from ._storage.container import ModelFileError

__version__ = _version("agbm")

__all__ = [
    "AGBMClassifier",
    "AGBMRanker",
    "AGBMRegressor",
    "AGBMSurvival",
    "Batches",
    "Checkpoint",
    "CrossValidation",
    "ModelFileError",
    "Predictor",
    "Record",
    "Report",
    "Watcher",
    "__version__",
    "cv",
    "from_params",
    "load",
    "report",
]

# Names and modules are imported when they are first used, so that the command `agbm --help` does not wait for NumPy and
# scikit-learn. Type checkers and editors read the imports above.
_HOMES = {
    "AGBMClassifier": "_estimators.classifier",
    "AGBMRanker": "_estimators.ranker",
    "AGBMRegressor": "_estimators.regressor",
    "AGBMSurvival": "_estimators.survival",
    "Batches": "_data.batches",
    "Checkpoint": "_storage.checkpoint",
    "CrossValidation": "_estimators.cross_validation",
    "ModelFileError": "_storage.container",
    "Predictor": "_model.predictor",
    "Record": "_core.training",
    "Report": "_apps.report.api",
    "Watcher": "_core.training",
    "cv": "_estimators.cross_validation",
    "from_params": "_estimators.translation",
    "load": "_estimators.loading",
    "report": "_apps.report.api",
}
_MODULES = ("dask", "export", "losses", "methods", "mlflow", "plot")


if not _TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> _Any:
        if name in _MODULES:
            return _import_module(f".{name}", __name__)
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f".{_HOMES[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
