"""Arithmetic of the boosting loop on functions (output, row) of a device, with the bits of the native kernels."""

from __future__ import annotations

import numpy as np

from .device import Device, DeviceArray, blocks_for

N_THREADS = 256


def mix(device: Device, a: float, x: DeviceArray, b: float, y: DeviceArray) -> DeviceArray:
    """The function a x + b y."""
    out = device.empty(x.shape, np.float64)
    _over_rows(device, "agbm_mix", x, a, x, _stride(x), b, y, _stride(y), out, *x.shape)
    return out


def multiply(device: Device, x: DeviceArray, y: DeviceArray) -> DeviceArray:
    """The function x y."""
    out = device.empty(x.shape, np.float64)
    _over_rows(device, "agbm_multiply", x, x, _stride(x), y, _stride(y), out, *x.shape)
    return out


def _over_rows(device: Device, kernel: str, of: DeviceArray, *args: object) -> None:
    """Launch a kernel with a loop over the rows of a function, if it has any."""
    if of.shape[-1] > 0:
        device.launch(kernel, blocks_for(device, of.shape[-1], N_THREADS), N_THREADS, *args)


def _stride(x: DeviceArray) -> int:
    """The distance between outputs, in numbers."""
    return int(x.strides[0]) // int(x.itemsize)
