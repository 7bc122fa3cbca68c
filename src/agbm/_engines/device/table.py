"""Tables of numbers on a device, in any memory order, and thresholds to compare their numbers with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .device import Device, DeviceArray


def check_table(X: DeviceArray, n_columns: int) -> None:
    """Raise ValueError unless X is a float32 or float64 table with the given number of columns."""
    if X.ndim != 2 or X.shape[1] != n_columns or X.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"X must have {n_columns} columns of float32 or float64 on the device; got {X.dtype} of shape {X.shape}."
        )


def table_arguments(X: DeviceArray) -> tuple[DeviceArray, int, int]:
    """A table as arguments of kernels: its numbers and its strides in numbers."""
    return X, int(X.strides[0]) // int(X.itemsize), int(X.strides[1]) // int(X.itemsize)


def table_to_device(device: Device, X: NDArray[Any]) -> DeviceArray:
    """A copy of a table on the device, in about the same memory order, since transposing takes longer than copying."""
    by_columns = abs(X.strides[0]) < abs(X.strides[1])
    return device.to_device(X.T).T if by_columns else device.to_device(X)


def rounded_down(thresholds: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """The largest numbers of a type that are not above the thresholds: its numbers are above both or above neither."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = thresholds.astype(dtype)
        below = np.nextafter(nearest, np.array(-np.inf, dtype=dtype))
    return np.where(nearest > thresholds, below, nearest)
