"""MLflow models: log a fitted model to MLflow as a model file, which is loaded without running code from it.

``pip install 'agbm[mlflow]'``. The functions follow the conventions of MLflow's own flavors, such as mlflow.lightgbm::

    info = agbm.mlflow.log_model(model, name="churn", input_example=X[:5])
    model = agbm.mlflow.load_model(info.model_uri)           # the estimator
    served = mlflow.pyfunc.load_model(info.model_uri)        # what MLflow's tools use
    served.predict(X, params={"method": "predict_proba"})
    agbm.mlflow.autolog()                                    # logs every later fit

See docs/guides/deployment.md.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from ._base.types import Table
from ._estimators.base import BaseAGBM
from ._estimators.classifier import AGBMClassifier
from ._estimators.loading import load
from ._estimators.ranker import AGBMRanker
from ._estimators.regressor import AGBMRegressor
from ._estimators.survival import AGBMSurvival

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # MLflow warns about type hints of its own
        import mlflow
        import mlflow.artifacts
        import mlflow.pyfunc
        from mlflow.entities import Metric
        from mlflow.models import Model, ModelSignature, infer_signature
        from mlflow.models.model import ModelInfo
        from mlflow.utils.autologging_utils import autologging_integration, get_autologging_config
        from mlflow.utils.autologging_utils.safety import safe_patch
except ImportError as error:
    raise ImportError(f"agbm.mlflow needs MLflow and pandas: pip install 'agbm[mlflow]' ({error}).") from error

__all__ = ["FLAVOR_NAME", "autolog", "get_default_pip_requirements", "load_model", "log_model", "save_model"]

FLAVOR_NAME = "agbm"
_MODEL_FILE = "model.agbm"
MOST_AT_ONCE = 1000
"""Metrics that MLflow accepts in one batch."""
_METHODS = (
    "predict", "predict_proba", "decision_function", "predict_interval", "predict_set", "predict_time",
    "predict_contributions",
)  # fmt: skip
"""What pyfunc models can be asked for."""
_PARAMETERS = {"method": "predict"}
"""Parameters of pyfunc predictions, with their defaults."""


def get_default_pip_requirements() -> list[str]:
    """The packages that a logged model needs, with the versions of this environment."""
    return [f"agbm=={version('agbm')}", f"numpy=={np.__version__}", f"scikit-learn=={sklearn.__version__}"]


def save_model(
    model: BaseAGBM,
    path: str | Path,
    *,
    mlflow_model: Model | None = None,
    signature: ModelSignature | None = None,
    input_example: Table | None = None,
    pip_requirements: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save a fitted estimator as an MLflow model in a new folder.

    Without a signature, it is inferred from input_example, some rows of X. The model must be one that model.save can
    write: no custom learner, loss or init estimator. pip_requirements replaces get_default_pip_requirements();
    mlflow_model is for MLflow itself.
    """
    if signature is None and input_example is not None:
        signature = infer_signature(input_example, model.predict(input_example), _PARAMETERS)
    described = Model() if mlflow_model is None else mlflow_model
    described.add_flavor(FLAVOR_NAME, agbm_version=version("agbm"), model_class=type(model).__name__)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / _MODEL_FILE
        model.save(file)
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=__name__,
            data_path=str(file),
            mlflow_model=described,
            signature=signature,
            input_example=input_example,
            pip_requirements=get_default_pip_requirements() if pip_requirements is None else pip_requirements,
            metadata=metadata,
        )


def log_model(
    model: BaseAGBM,
    name: str,
    *,
    registered_model_name: str | None = None,
    signature: ModelSignature | None = None,
    input_example: Table | None = None,
    pip_requirements: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **more: Any,
) -> ModelInfo:
    """Log a fitted estimator to MLflow, in the active run if there is one; see save_model for the other arguments.

    registered_model_name also adds a version to MLflow's model registry. Further arguments, such as run_id, step, tags
    and params, are those of mlflow.models.Model.log.
    """
    info: ModelInfo = Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        flavor_name=FLAVOR_NAME,
        registered_model_name=registered_model_name,
        metadata=metadata,
        model=model,
        signature=signature,
        input_example=input_example,
        pip_requirements=pip_requirements,
        **more,
    )
    return info


def load_model(model_uri: str | Path, dst_path: str | None = None) -> Any:
    """Load the estimator of an MLflow model that save_model or log_model has made.

    model_uri is a folder or a URI of MLflow, such as models:/churn/1; dst_path is a folder to download it to.
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path))
    if FLAVOR_NAME not in Model.load(str(folder)).flavors:
        raise ValueError(f"{model_uri} is not a model of agbm.mlflow; mlflow.pyfunc.load_model loads any MLflow model.")
    return load(folder / "data" / _MODEL_FILE)


@autologging_integration(FLAVOR_NAME)  # type: ignore[untyped-decorator,no-untyped-call]
def autolog(log_models: bool = True, disable: bool = False, silent: bool = False) -> None:
    """Log all later fits of agbm's estimators, in the active run if there is one: parameters, losses, and the model.

    log_models=False leaves out the model. disable=True ends this, and silent=True suppresses messages of MLflow.
    """
    for estimator in (AGBMClassifier, AGBMRegressor, AGBMRanker, AGBMSurvival):
        safe_patch(FLAVOR_NAME, estimator, "fit", _logged_fit, manage_run=True)  # type: ignore[no-untyped-call]


def _logged_fit(fit: Callable[..., BaseAGBM], model: BaseAGBM, *args: Any, **named: Any) -> BaseAGBM:
    fitted, run = fit(model, *args, **named), mlflow.active_run()
    assert run is not None  # by safe_patch
    mlflow.log_params(model.get_params(deep=False))
    mlflow.log_params({f"resolved_{name}": value for name, value in model.resolved_params_.items()})
    now, history = int(1000 * time.time()), model.history_
    metrics = [
        Metric(name, value, now, iteration)
        for name, column in history.items()
        if column.dtype.kind == "f"
        for iteration, value in enumerate(column.tolist())
        if math.isfinite(value)
    ]
    for begin in range(0, len(metrics), MOST_AT_ONCE):
        mlflow.MlflowClient().log_batch(run.info.run_id, metrics=metrics[begin : begin + MOST_AT_ONCE])
    mlflow.log_metric("best_iteration", model.best_iteration_)
    if get_autologging_config(FLAVOR_NAME, "log_models", True):  # type: ignore[no-untyped-call]
        log_model(model, name="model")
    return fitted


class _Served:
    """A model as MLflow's pyfunc uses it."""

    def __init__(self, model: BaseAGBM) -> None:
        self._model = model

    def get_raw_model(self) -> Any:
        """The estimator; PyFuncModel.get_raw_model returns it."""
        return self._model

    def predict(self, data: Table, params: dict[str, Any] | None = None) -> Any:
        """Predictions of the method that params names."""
        method = (_PARAMETERS | (params or {}))["method"]
        possible = [name for name in _METHODS if hasattr(self._model, name)]
        if method not in possible:
            raise ValueError(f"params: method must be one of {possible} for this model; got {method!r}.")
        return getattr(self._model, method)(data)


def _load_pyfunc(data_path: str) -> _Served:
    """Called by MLflow with the path of the model file."""
    return _Served(load(data_path))
