"""Training on a GPU: arrays and kernels of a device, with the bits of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source import DeviceRows


def rows_of_device(name: str) -> DeviceRows:
    """The source of rows for a device; raises ImportError or RuntimeError that says what is missing."""
    from .cuda import cuda_device  # imported here: most users have no GPU
    from .source import DeviceRows

    return DeviceRows(cuda_device())
