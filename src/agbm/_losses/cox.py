"""Cox's partial likelihood, whose rows are compared with all rows at risk."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._base.sums import Array, rows_together
from .joint import JointLoss
from .lifetimes import check_right_censored

_TIES = ("breslow", "efron")


class TimeOrder(NamedTuple):
    """Rows by time, the latest first; times are numbered in this order."""

    rows: NDArray[np.uint32]
    first: NDArray[np.uint32]
    """For each time, the position of its first row; then the number of rows."""
    time_of: NDArray[np.uint32]
    """The number of the time of each row."""
    times: Array

    @classmethod
    def of(cls, time: Array) -> TimeOrder:
        """The order of some times."""
        times, number = np.unique(time, return_inverse=True)
        time_of = (len(times) - 1 - number.ravel()).astype(np.uint32)
        rows = np.argsort(time_of, kind="stable").astype(np.uint32)
        first = np.append(0, np.cumsum(np.bincount(time_of, minlength=len(times))))
        return cls(rows, first.astype(np.uint32), time_of, times[::-1].copy())


_known: dict[tuple[int, ...], TimeOrder] = {}
"""The orders of labels that cannot change, by their memory; an entry lives as long as its labels."""


def order_of(y: Array) -> TimeOrder:
    """The order of the rows of labels; kept for labels that are read-only, as those of a fit are."""
    owner = y if y.base is None else y.base
    if y.flags.writeable or not isinstance(owner, np.ndarray):
        return TimeOrder.of(y[0])
    key = (id(owner), y.ctypes.data, *y.shape, *y.strides)
    found = _known.get(key)
    if found is None:
        found = _known[key] = TimeOrder.of(y[0])
        weakref.finalize(owner, _known.pop, key, None)
    return found


class Cox(JointLoss):
    """Cox's proportional hazards: the negative logarithm of the partial likelihood, per row.

    The score is the logarithm of the hazard ratio. An event is compared with the rows at risk: those with an event, or
    censored, at its time or later. `ties` says how events at the same time count: "breslow" compares each with all rows
    at risk; "efron" leaves out a part of the others. With "efron", sample weights multiply the terms of rows, but a row
    of weight 2 is not the same as two rows. The loss is convex. A constant that is added to all scores does not change
    it.
    """

    smoothness = float("inf")
    constant_hessian = False
    n_scores = 1
    risk_signs = (1,)

    def __init__(self, ties: str = "breslow") -> None:
        if ties not in _TIES:
            raise ValueError(f"ties={ties!r} must be one of {', '.join(map(repr, _TIES))}.")
        self.ties = ties

    def _of(self, quantity: str, y: Array, f: Array, weight: Array | None) -> Array:
        order = order_of(y)
        y, f = rows_together(y), np.atleast_2d(rows_together(f))
        out = _native.empty((len(order.times),) if quantity == "baseline" else (f.shape[1],))
        weight = None if weight is None else rows_together(weight)
        _native.cox(*order[:3], self.ties == "efron", quantity, y, f, weight, out, self.n_threads)
        return out

    def value(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """See JointLoss; zero for rows without an event."""
        return self._of("value", y, f, weight)

    def negative_gradient(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """See JointLoss: events minus expected events."""
        return self._of("negative_gradient", y, f, weight).reshape(np.shape(f))

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """See JointLoss; that of one repetition of a row, and at least half of the residual, which bounds steps."""
        return self._of("hessian", y, f, weight).reshape(np.shape(f))

    def baseline(self, y: Array, f: Array, weight: Array | None) -> tuple[Array, Array]:
        """Times in ascending order, and the cumulative hazards of a row with score 0 (Breslow's estimate)."""
        order = order_of(y)
        increases = self._of("baseline", y, f, weight)[::-1]
        return order.times[::-1], np.cumsum(increases)

    def check(self, y: Array) -> None:
        """See check_right_censored."""
        check_right_censored(y, self)

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """Zero: the loss does not depend on it."""
        return np.zeros(1)

    def link(self, prediction: Array) -> Array:
        """The identity."""
        return np.asarray(prediction)

    def inverse_link(self, f: Array) -> Array:
        """The logarithm of the hazard ratio."""
        return np.asarray(f[0])
