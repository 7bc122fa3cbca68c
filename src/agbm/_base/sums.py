"""Exact sums over rows, rounded only once at the end.

They do not depend on the order of the rows, nor on how rows are distributed over threads or machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .collectives import combined, combined_lazily, count

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)
_UNITS_IN_ONE = 2**1074
"""Every finite double is an integer multiple of 2^-1074, the smallest positive one."""
_TOO_MANY_UNITS = 2**1024 * _UNITS_IN_ONE


@dataclass(slots=True)  # not frozen: creating frozen instances takes twice as long
class ExactSum:
    """An exact sum of doubles. `float` rounds it to the nearest double."""

    units: int = 0
    """The sum of all finite numbers, in units of 2^-1074."""
    not_finite: float = 0.0
    """The sum of all infinite numbers and NaN; 0 if there are none."""

    @classmethod
    def of_native(cls, sum_: tuple[bytes, float]) -> ExactSum:
        """Convert a sum that a kernel has returned."""
        return cls(int.from_bytes(sum_[0], "little", signed=True), sum_[1])

    @classmethod
    def of_count(cls, n: int) -> ExactSum:
        """The sum of n ones."""
        return cls(n * _UNITS_IN_ONE)

    def __add__(self, other: ExactSum) -> ExactSum:
        """The sum of both."""
        return ExactSum(self.units + other.units, self.not_finite + other.not_finite)

    def __float__(self) -> float:
        """The nearest double; infinite if the sum is too large for a double."""
        return _nearest(self.units, _UNITS_IN_ONE) if self.not_finite == 0.0 else self.not_finite

    def __truediv__(self, other: ExactSum) -> float:
        """The double nearest to the quotient; computed from the rounded sums if one of them is not finite."""
        if self.not_finite == other.not_finite == 0.0 and abs(self.units) < _TOO_MANY_UNITS:
            return _nearest(self.units, other.units)
        return float(self) / float(other)


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds quotients of integers correctly
    except OverflowError:
        return math.inf if (numerator > 0) == (denominator > 0) else -math.inf


def empty(shape: tuple[int, ...]) -> Array:
    """An uninitialised array. Within a run, the memory of large ones is reused; NumPy makes small ones faster."""
    return np.empty(shape) if math.prod(shape) < _native.REUSED_NUMBERS else _native.empty(shape)


def rows_together(x: ArrayLike) -> Array:
    """An array whose last axis (rows) is contiguous, as the kernels need it; a copy only if necessary."""
    if type(x) is np.ndarray and x.dtype is _FLOAT64 and x.ndim > 0 and x.flags.c_contiguous and x.flags.aligned:
        return x  # the usual case, for which the rest would take longer than some kernels
    x = np.asarray(x, dtype=np.float64)
    return x if x.ndim > 0 and x.strides[-1] == x.itemsize and x.flags.aligned else np.array(x, order="C", ndmin=1)


def _together(weight: Array | None) -> Array | None:
    return None if weight is None else rows_together(weight)


def exact_sum(x: Array, weight: Array | None = None, n_threads: int = 1) -> ExactSum:
    """The weighted sum of a vector over rows, or of all numbers of a function (output, row)."""
    return cast(ExactSum, combined(_sum_here(x, weight, n_threads), add))


def _sum_here(x: Array, weight: Array | None, n_threads: int) -> ExactSum:
    return ExactSum.of_native(_native.exact_sum(np.atleast_2d(rows_together(x)), _together(weight), n_threads))


def weight_sum(weight: Array | None, n_rows: int, n_threads: int = 1) -> ExactSum:
    """The sum of the weights of rows. A weight of None means that all are 1."""
    return ExactSum.of_count(count(n_rows)) if weight is None else exact_sum(weight, None, n_threads)


def exact_mean(x: Array, weight: Array | None = None, n_threads: int = 1) -> float:
    """The weighted mean of a vector over rows, or of all numbers of a function (output, row)."""
    return exact_means(lambda: [x], weight, n_threads)[0]


def exact_means(vectors: Callable[[], Iterable[Array]], weight: Array | None = None, n_threads: int = 1) -> list[float]:
    """The weighted means of several vectors or functions over the same rows, which are made only if they are needed."""

    def sums() -> list[ExactSum]:
        """For each vector, the sum of its numbers and that of their weights."""
        found: list[ExactSum] = []
        of_rows = None if weight is None else _sum_here(weight, None, n_threads)
        for x in vectors():
            weights = ExactSum.of_count(x.shape[-1]) if of_rows is None else of_rows
            size = math.prod(x.shape[:-1])
            found += [_sum_here(x, weight, n_threads), ExactSum(weights.units * size, weights.not_finite)]
        return found

    total = combined_lazily(sums, each_added)
    return [x / weights for x, weights in zip(total[::2], total[1::2], strict=True)]


def sums_of_parts(parts: Sequence[tuple[Array, Array | None]]) -> list[tuple[ExactSum, ExactSum]]:
    """For each part of the rows (numbers and their weights), the weighted sum and the sum of the weights."""

    def sums() -> list[ExactSum]:
        found: list[ExactSum] = []
        for x, weight in parts:
            of_weights = ExactSum.of_count(len(x)) if weight is None else _sum_here(weight, None, 1)
            found += [_sum_here(x, weight, 1), of_weights]
        return found

    total = combined_lazily(sums, each_added)
    return list(zip(total[::2], total[1::2], strict=True))


def each_added(a: Sequence[ExactSum], b: Sequence[ExactSum]) -> list[ExactSum]:
    """The sums of two lists, one by one."""
    return [x + y for x, y in zip(a, b, strict=True)]


def inner_sums(
    x: Array, y: Array, weight: Array | None = None, n_threads: int = 1
) -> tuple[ExactSum, ExactSum, ExactSum]:
    """The weighted inner products <x, x>, <x, y> and <y, y> of functions (output, row)."""
    xx, xy, yy = _native.inner_products(rows_together(x), rows_together(y), _together(weight), n_threads)
    return ExactSum.of_native(xx), ExactSum.of_native(xy), ExactSum.of_native(yy)


def rounded_inner_sums(
    x: Array, y: Array, weight: Array | None = None, n_threads: int = 1
) -> tuple[float, float, float]:
    """The same inner products, each rounded to the nearest double."""
    return _native.rounded_inner_products(rows_together(x), rows_together(y), _together(weight), n_threads)


def step_of_sums(total: float) -> float:
    """A power of two whose integer multiples float64 adds exactly, if their absolute values sum to at most `total`.

    It is used to sum many groups of rows at once. If `total` is below 2^51, the step is at most 1, so integers are
    summed exactly.
    """
    return math.ldexp(1.0, max(math.frexp(total)[1] - 51, -1000)) if math.isfinite(total) else 1.0


def weight_step(weight: Array) -> float:
    """The step for `whole_weights`."""
    return step_of_sums(float(exact_sum(weight)))


def whole_weights(weight: Array, step: float) -> Array:
    """Weights as integer numbers of steps, rounded up, so that positive weights stay positive."""
    return np.asarray(np.ceil(weight / step))


_SIGN = np.uint64(1 << 63)


def ordered_bits(x: Array) -> NDArray[np.uint64]:
    """Map numbers to unsigned integers in the same order, as the kernels do."""
    bits = (x + 0.0).view(np.uint64)  # -0 becomes 0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def of_ordered_bits(bits: NDArray[np.uint64]) -> Array:
    """The inverse of `ordered_bits`."""
    return np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)
