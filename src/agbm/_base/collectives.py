"""Results over all rows, where several processes have some of the rows each.

What a fit learns from labels (classes, weights, a validation split, start scores) is written as if all rows were in
memory: every number that depends on all rows comes from `combined` or from a function that uses it. In a process that
has all rows, the result for its own rows is that of all rows. Elsewhere, all processes evaluate the same function of
their own rows (`evaluate`). The evaluation ends at the first number that is not known yet, and returns what this
process contributes; it starts again once the contributions of all are combined. Hence processes need not wait for each
other, and a lost one can be replaced at any moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .types import AnyArray

T = TypeVar("T")

DIGIT_BITS = 8
"""Bits that one step of `ranked` determines."""


class Contribution(NamedTuple):
    """What one process contributes to a number that depends on all rows."""

    value: Any
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any] | None


class Outcome(NamedTuple):
    """How an evaluation ended: with a result, or with a contribution to a number that is not known yet."""

    result: Any = None
    contribution: Contribution | None = None


class _UnknownError(Exception):
    """Ends an evaluation; only `evaluate` sees it."""

    def __init__(self, contribution: Contribution) -> None:
        super().__init__("a number that depends on other rows")
        self.contribution = contribution


class _Evaluations(threading.local):
    known: list[Any] | None = None
    """The numbers that are known and have not been asked for yet; None if this process has all rows."""


_here = _Evaluations()


def combined(value: T, merge: Callable[[T, T], T], finish: Callable[[T], Any] | None = None) -> Any:
    """The value for all rows, from that for the rows of this process; merge must not depend on the order.

    If there is a function `finish`, it is called once with the value for all rows, and its result is returned.
    """
    return combined_lazily(lambda: value, merge, finish)


def combined_lazily(make: Callable[[], T], merge: Callable[[T, T], T], finish: Callable[[T], Any] | None = None) -> Any:
    """Like `combined`, for a value that takes time to make: it is made only while the result is not known."""
    if _here.known is None:
        return make() if finish is None else finish(make())
    if _here.known:
        return _here.known.pop(0)
    raise _UnknownError(Contribution(make(), merge, finish))


def evaluate(function: Callable[..., Any], *arguments: object, known: Sequence[Any]) -> Outcome:
    """Call a function of the rows of this process, which are not all rows; `known` are the combined numbers so far."""
    outer, _here.known = _here.known, list(known)
    try:
        return Outcome(function(*arguments))
    except _UnknownError as end:
        return Outcome(contribution=end.contribution)
    finally:
        _here.known = outer


def merged(contributions: Sequence[Contribution]) -> Any:
    """The number that the contributions of all processes give."""
    first = contributions[0]
    if any(contribution.merge != first.merge for contribution in contributions):
        raise RuntimeError("Processes ask for different numbers: what they evaluate must not depend on their own rows.")
    value = reduce(first.merge, [contribution.value for contribution in contributions])
    return value if first.finish is None else first.finish(value)


def has_all_rows() -> bool:
    """Whether this process has all rows."""
    return _here.known is None


def count(n: int) -> int:
    """The sum of a number over all processes."""
    return int(combined(n, add))


def smallest(x: AnyArray, initial: float = np.inf) -> float:
    """The smallest number; `initial` if there are none."""
    return float(combined(float(x.min(initial=initial)), min))


def largest(x: AnyArray, initial: float = -np.inf) -> float:
    """The largest number; `initial` if there are none."""
    return float(combined(float(x.max(initial=initial)), max))


def anywhere(x: ArrayLike) -> bool:
    """Whether something is true for a row of any process."""
    return bool(combined(bool(np.any(x)), max))


def distinct(x: AnyArray) -> AnyArray:
    """The distinct values in ascending order, which `x` contains for this process."""
    return np.asarray(combined(x, union))


def union(a: AnyArray, b: AnyArray) -> AnyArray:
    """The distinct values of both in ascending order."""
    return np.unique(np.concatenate([a, b]))


def ranked(x: AnyArray, wanted: ArrayLike, weight: AnyArray | None = None) -> AnyArray:
    """For each wanted weight, the smallest number with at least that weight at or below it.

    Weights are integers; None means 1 for every number. Where other processes have numbers, too, these must be of type
    uint64: every step counts how the numbers continue that agree with the bits known so far, from the highest on.
    """
    if has_all_rows() and weight is None:
        places = np.array(wanted, dtype=np.intp) - 1
        return np.asarray(np.partition(x, places)[places])
    if has_all_rows():
        numbers, total = _in_order(x, weight)
        return np.asarray(numbers[np.searchsorted(total[1:], wanted)])
    left = np.array(wanted, dtype=np.float64)
    known = np.zeros(len(left), dtype=np.uint64)
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        tallies = np.cumsum(combined_lazily(partial(_tallies, x, weight, known, shift), add), axis=1)
        digit = (tallies < left[:, np.newaxis]).sum(axis=1)
        before = np.where(digit > 0, tallies[np.arange(len(left)), digit - 1], 0.0)
        known, left = known << np.uint64(DIGIT_BITS) | digit.astype(np.uint64), left - before
    return known


def _in_order(x: AnyArray, weight: AnyArray | None) -> tuple[AnyArray, NDArray[np.float64]]:
    """The numbers in ascending order, and the sums of the weights of the first ones."""
    order = np.argsort(x)
    total = np.arange(len(x) + 1.0) if weight is None else np.append(0.0, np.cumsum(weight[order]))
    return x[order], total


def _tallies(
    x: NDArray[np.uint64], weight: AnyArray | None, known: NDArray[np.uint64], shift: int
) -> NDArray[np.float64]:
    """The weight of the numbers that begin with known bits, by the bits that follow: (known bits, following bits)."""
    numbers, total = _in_order(x, weight)
    first = known[:, np.newaxis] << np.uint64(DIGIT_BITS) | np.arange(2**DIGIT_BITS, dtype=np.uint64)
    last = first << np.uint64(shift) | np.uint64((1 << shift) - 1)
    below = np.searchsorted(numbers, first[:, :1] << np.uint64(shift))
    return np.diff(total[np.hstack([below, np.searchsorted(numbers, last, side="right")])], axis=1)
