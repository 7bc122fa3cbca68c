"""Sums over rows, exact until they are rounded once.

They depend neither on the order of the rows nor on how these are shared out to threads or machines: sums of parts add
up to the sum of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _native

Array = NDArray[np.float64]

_UNITS_IN_ONE = 2**1074
"""Every double is a whole number of 2^-1074, the smallest one."""
_TOO_MANY_UNITS = 2**1024 * _UNITS_IN_ONE


@dataclass(slots=True)  # frozen ones take twice as long to make
class ExactSum:
    """A sum of doubles, not rounded. `float` rounds it, to the nearest double."""

    units: int = 0
    """The sum of all finite numbers, in units of 2^-1074."""
    not_finite: float = 0.0
    """The sum of all others, infinite or NaN; 0 where there are none."""

    @classmethod
    def of_native(cls, sum_: tuple[bytes, float]) -> ExactSum:
        """A sum as a kernel gives it."""
        return cls(int.from_bytes(sum_[0], "little", signed=True), sum_[1])

    @classmethod
    def of_count(cls, n: int) -> ExactSum:
        """The sum of n ones."""
        return cls(n * _UNITS_IN_ONE)

    def __add__(self, other: ExactSum) -> ExactSum:
        """The sum of both."""
        return ExactSum(self.units + other.units, self.not_finite + other.not_finite)

    def __float__(self) -> float:
        """The nearest double; infinite where the sum is beyond all of them."""
        return _nearest(self.units, _UNITS_IN_ONE) if self.not_finite == 0.0 else self.not_finite

    def __truediv__(self, other: ExactSum) -> float:
        """The double nearest to the quotient of two sums; infinite or NaN where one of them is."""
        if self.not_finite == other.not_finite == 0.0 and abs(self.units) < _TOO_MANY_UNITS:
            return _nearest(self.units, other.units)
        return float(self) / float(other)


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds quotients of integers correctly
    except OverflowError:
        return math.inf if (numerator > 0) == (denominator > 0) else -math.inf


def rows_together(x: ArrayLike) -> Array:
    """Numbers as the kernels read them: a row's neighbour is next to it. A copy only where that is not so."""
    x = np.asarray(x, dtype=np.float64)
    return x if x.ndim > 0 and x.strides[-1] == x.itemsize and x.flags.aligned else np.array(x, order="C", ndmin=1)


def _together(weight: Array | None) -> Array | None:
    return None if weight is None else rows_together(weight)


def exact_sum(x: Array, weight: Array | None = None, n_threads: int = 1) -> ExactSum:
    """The sum of a vector over rows or a function (output, row), each number times the weight of its row."""
    return ExactSum.of_native(_native.exact_sum(np.atleast_2d(rows_together(x)), _together(weight), n_threads))


def weight_sum(weight: Array | None, n_rows: int, n_threads: int = 1) -> ExactSum:
    """The sum of the weights of rows; None where all are 1."""
    return ExactSum.of_count(n_rows) if weight is None else exact_sum(weight, None, n_threads)


def exact_mean(x: Array, weight: Array | None = None, n_threads: int = 1) -> float:
    """The weighted mean of a vector over rows, or of all numbers of a function (output, row)."""
    weights = weight_sum(weight, x.shape[-1], n_threads)
    n_outputs = x.size // x.shape[-1]
    return exact_sum(x, weight, n_threads) / ExactSum(weights.units * n_outputs, weights.not_finite)


def inner_sums(
    x: Array, y: Array, weight: Array | None = None, n_threads: int = 1
) -> tuple[ExactSum, ExactSum, ExactSum]:
    """<x, x>, <x, y> and <y, y> of functions (output, row), each product times the weight of its row."""
    xx, xy, yy = _native.inner_products(rows_together(x), rows_together(y), _together(weight), n_threads)
    return ExactSum.of_native(xx), ExactSum.of_native(xy), ExactSum.of_native(yy)


def step_of_sums(total: float) -> float:
    """A power of two: float64 adds whole numbers of it exactly, if their sizes come to no more than `total`.

    For sums of many groups of rows at once. Whole numbers stay what they are, unless they are too many for float64.
    """
    return math.ldexp(1.0, max(math.frexp(total)[1] - 51, -1000)) if math.isfinite(total) else 1.0


def weight_step(weight: Array) -> float:
    """The step for whole_weights."""
    return step_of_sums(float(exact_sum(weight)))


def whole_weights(weight: Array, step: float) -> Array:
    """Weights in steps, as above; one that is not zero is one step at least."""
    return np.asarray(np.ceil(weight / step))


_SIGN = np.uint64(1 << 63)


def ordered_bits(x: Array) -> NDArray[np.uint64]:
    """The bits of numbers, turned such that they are in the order of the numbers, as the kernels do it."""
    bits = (x + 0.0).view(np.uint64)  # -0 becomes 0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def of_ordered_bits(bits: NDArray[np.uint64]) -> Array:
    """The numbers of such bits."""
    return np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)
