"""Exponential and logarithm with the same bits on every platform."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .._base import _native
from .._base.sums import Array


def exp(x: ArrayLike, n_threads: int = 1) -> Array:
    """The exponential, with x clipped to [-700, 700]. Unlike NumPy's, it has the same bits on every platform."""
    return _elementwise(_native.exp, x, n_threads)


def log(x: ArrayLike, n_threads: int = 1) -> Array:
    """The logarithm, with the same bits on every platform; -inf for zero, NaN for negative numbers."""
    return _elementwise(_native.log, x, n_threads)


def sigmoid(f: ArrayLike, n_threads: int = 1) -> Array:
    """The logistic function, with the same bits on every platform."""
    return _elementwise(_native.sigmoid, f, n_threads)


def _elementwise(kernel: Callable[[Array, Array, int], None], x: ArrayLike, n_threads: int) -> Array:
    numbers = np.asarray(x, dtype=np.float64, order="C")
    out = np.empty(numbers.shape)
    kernel(numbers, out, n_threads)
    return out
