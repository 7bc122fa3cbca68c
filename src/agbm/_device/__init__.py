"""Training and prediction on a GPU: arrays and kernels of a device, with the bits of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._model import Predict
    from .source import DeviceRows

# Imports are in functions: most users have no GPU.


def rows_of_device(name: str) -> DeviceRows:
    """The source of rows for a device; raises ImportError or RuntimeError that says what is missing."""
    from .cuda import cuda_device
    from .source import DeviceRows

    return DeviceRows(cuda_device())


def predict_on_device(name: str) -> Predict:
    """A function that predicts on a device; raises ImportError or RuntimeError that says what is missing."""
    from .cuda import cuda_device
    from .prediction import prediction_on

    return prediction_on(cuda_device())
