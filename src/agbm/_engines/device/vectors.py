"""Arithmetic of the boosting loop on functions (output, row) of a device, with the same bits as the native kernels."""

from __future__ import annotations

import math
from enum import IntEnum
from functools import cache

import numpy as np

from ..._base import _native
from ..._base.sums import ExactSum
from .device import Device, DeviceArray, blocks_for

N_THREADS = 256
DIGIT_BITS = 32
N_DIGITS = 68
N_SLOTS = N_DIGITS + 3
"""The integers of a sum: its digits, and the numbers of infinite, negative infinite and NaN terms."""


class Quantity(IntEnum):
    """A quantity that a loss defines for each row."""

    VALUE = 0
    NEGATIVE_GRADIENT = 1
    HESSIAN = 2


def mix(device: Device, a: float, x: DeviceArray, b: float, y: DeviceArray) -> DeviceArray:
    """The function a x + b y."""
    out = device.empty(x.shape, np.float64)
    _over_rows(device, "agbm_mix", float(a), x, _stride(x), float(b), y, _stride(y), out, *x.shape)
    return out


def multiply(device: Device, x: DeviceArray, y: DeviceArray) -> DeviceArray:
    """The function x y."""
    out = device.empty(x.shape, np.float64)
    _over_rows(device, "agbm_multiply", x, _stride(x), y, _stride(y), out, *x.shape)
    return out


def loss_rows(
    device: Device, name: str, parameter: float, quantity: Quantity, y: DeviceArray, f: DeviceArray
) -> DeviceArray:
    """One quantity of every row, of the loss whose native kernels have this name; see _native.loss_value.

    Scores f are (output, row). Values are (row) for losses with several scores per row, and in the shape of f for
    others; derivatives are in the shape of f.
    """
    family, kind = _kinds()[name]
    one_per_row = quantity == Quantity.VALUE and family != "loss"
    out = device.empty(f.shape[1:] if one_per_row else f.shape, np.float64)
    y = _as_outputs(y)
    kernel = f"agbm_{family}_rows"
    _over_rows(device, kernel, kind, int(quantity), float(parameter), y, _stride(y), f, _stride(f), out, *f.shape)
    return out


class Sums:
    """Exact sums over rows that are copied from the device together, since every copy waits for the device."""

    def __init__(self, device: Device, n: int) -> None:
        self._device = device
        self._sums = device.zeros((n, N_SLOTS), np.uint64)

    def add(self, k: int, x: DeviceArray, weight: DeviceArray | None) -> None:
        """Add the weighted sum of a vector over rows, or of all numbers of a function, to sum k."""
        x = _as_outputs(x)
        self._over_rows("agbm_exact_sum", x.shape, x, _stride(x), weight, self._sums[k])

    def add_loss(
        self, k: int, name: str, parameter: float, y: DeviceArray, f: DeviceArray, weight: DeviceArray | None
    ) -> None:
        """Add the weighted sum of the losses of all rows and outputs to sum k; see loss_rows."""
        family, kind = _kinds()[name]
        if family != "loss":
            return self.add(k, loss_rows(self._device, name, parameter, Quantity.VALUE, y, f), weight)
        y, args = _as_outputs(y), (weight, self._sums[k])
        self._over_rows("agbm_loss_sum", f.shape, kind, float(parameter), y, _stride(y), f, _stride(f), *args)
        return None

    def add_products(self, k: int, x: DeviceArray, y: DeviceArray, weight: DeviceArray | None) -> None:
        """Add the weighted inner products <x, x>, <x, y> and <y, y> of functions to sums k, k + 1 and k + 2."""
        args = x, _stride(x), y, _stride(y), weight, self._sums[k : k + 3]
        self._over_rows("agbm_inner_products", x.shape, *args)

    def totals(self) -> list[ExactSum]:
        """All sums."""
        return [_total(slots) for slots in self._device.to_host(self._sums).view(np.int64).tolist()]

    def _over_rows(self, kernel: str, shape: tuple[int, int], *args: object) -> None:
        _over_rows(self._device, kernel, *args, *shape)


def _total(slots: list[int]) -> ExactSum:
    """The sum from its digits, which may be negative or longer than 32 bits."""
    units = 0
    for digit in reversed(slots[:N_DIGITS]):
        units = (units << DIGIT_BITS) + digit
    positive, negative, not_numbers = slots[N_DIGITS:]
    if not_numbers or (positive and negative):
        return ExactSum(units, math.nan)
    return ExactSum(units, math.inf if positive else -math.inf if negative else 0.0)


@cache
def _kinds() -> dict[str, tuple[str, int]]:
    return _native.loss_kinds()


def _over_rows(device: Device, kernel: str, *args: object) -> None:
    """Launch a kernel with a loop over rows, whose number is the last argument, if there are any."""
    n_rows = int(args[-1])  # type: ignore[call-overload]
    if n_rows > 0:
        device.launch(kernel, blocks_for(device, n_rows, N_THREADS), N_THREADS, *args)


def _as_outputs(x: DeviceArray) -> DeviceArray:
    """A vector over rows as a function with one output."""
    return x.reshape(1, -1) if x.ndim == 1 else x


def _stride(x: DeviceArray) -> int:
    """The distance between outputs, in numbers."""
    return int(x.strides[0]) // int(x.itemsize)
