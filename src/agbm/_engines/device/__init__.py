"""Training and prediction on a GPU: arrays and kernels of a device, with the same bits as on the CPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scipy.sparse import issparse

from ..._data.rows import RemoteMatrix
from ..._data.tables import is_on_gpu
from ..._model.settings import DeviceName

if TYPE_CHECKING:
    from ..._base.types import AnyArray
    from ..._core.learners import Predict
    from ..._model.fitted import FittedModel
    from .prediction import ModelOnDevice
    from .source import DeviceSource

# Imports are in functions: most users have no GPU.

FEWEST_NUMBERS = 1_500_000
"""Rows times columns of the smallest table for which device="auto" uses a GPU. On about 50,000 rows of 28 columns, a
default fit takes as long on an H200, which then mostly waits for launches, as on 16 cores next to it."""


def chosen_device(name: DeviceName, X: object) -> DeviceName:
    """The device for a table: for "auto", the GPU if X is there, or if X is dense and large and a GPU can be used."""
    if name != "auto":
        return name
    if is_on_gpu(X) or isinstance(X, RemoteMatrix):
        return "cuda"
    return "cuda" if not issparse(X) and _is_large(X) and _has_gpu() else "cpu"


def _is_large(X: object) -> bool:
    """Whether X is a table of FEWEST_NUMBERS or more; the size of batches is not known."""
    shape: Any = getattr(X, "shape", ())
    return len(shape) == 2 and bool(shape[0] * shape[1] >= FEWEST_NUMBERS)


def _has_gpu() -> bool:
    from .cuda import cuda_device

    try:
        cuda_device()
    except (ImportError, RuntimeError):
        return False
    return True


def rows_of_device(name: DeviceName) -> DeviceSource:
    """The source of rows for a device; raises ImportError or RuntimeError that names what is missing."""
    from .cuda import cuda_device
    from .source import DeviceSource

    return DeviceSource(cuda_device())


def model_on_device(name: DeviceName, model: FittedModel) -> ModelOnDevice:
    """A model that predicts on a device; raises ImportError or RuntimeError that names what is missing."""
    from .cuda import cuda_device
    from .prediction import ModelOnDevice

    return ModelOnDevice(cuda_device(), model)


def predict_elsewhere(name: DeviceName, X: AnyArray) -> Predict | None:
    """What predicts for a checked table on the device that is chosen for it; None for threads of this process."""
    if chosen_device(name, X) == "cpu":
        return None
    from .cuda import cuda_device
    from .prediction import predict

    return partial(predict, cuda_device())
