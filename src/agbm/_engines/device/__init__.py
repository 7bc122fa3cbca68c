"""Training and prediction on a GPU: arrays and kernels of a device, with the same bits as on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .prediction import DevicePredictions
    from .source import DeviceSource

# Imports are in functions: most users have no GPU.


def rows_of_device(name: str) -> DeviceSource:
    """The source of rows for a device; raises ImportError or RuntimeError that names what is missing."""
    from .cuda import cuda_device
    from .source import DeviceSource

    return DeviceSource(cuda_device())


def predictions_on_device(name: str) -> DevicePredictions:
    """Predictions on a device; raises ImportError or RuntimeError that names what is missing."""
    from .cuda import cuda_device
    from .prediction import DevicePredictions

    return DevicePredictions(cuda_device())
