"""Metrics of survival models on test rows: the integrated Brier score and the concordance, with intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._losses.metrics import concordance
from .metrics import Metric, Z

# For the interval of the concordance, each row is compared with at most this many others.
PARTNERS = 5_000


def kaplan_meier(time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The Kaplan-Meier estimate: the distinct times, and the probability that the event is after each of them."""
    times, first, counts = _distinct(time)
    events = np.bincount(first, event, len(times))
    at_risk = counts[::-1].cumsum()[::-1]
    return times, np.cumprod(1.0 - events / at_risk)


def not_censored(time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The same for censoring, before which events at the same time happen."""
    times, first, counts = _distinct(time)
    events = np.bincount(first, event, len(times))
    at_risk = counts[::-1].cumsum()[::-1] - events
    censored = np.bincount(first, ~event, len(times))
    return times, np.asarray(np.cumprod(1.0 - censored / np.maximum(at_risk, 1.0)), dtype=np.float64)


def _distinct(time: Array) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    return np.unique(time, return_inverse=True, return_counts=True)


def at(steps: tuple[Array, Array], times: Array) -> Array:
    """The values of a step function that begins with 1, at any times."""
    return np.append(1.0, steps[1])[np.searchsorted(steps[0], times, side="right")]


def integrated_brier(time: Array, event: NDArray[np.bool_], survival: Array, times: Array) -> Array:
    """The Brier score of each row, integrated over ascending times and divided by their range.

    survival (row, time) has the predicted probabilities that the event is after each time. At time t, a row that has
    had its event counts S(t)^2 / G(its time), one that is still observed (1 - S(t))^2 / G(t), and one that was censored
    before counts nothing. G is the Kaplan-Meier estimate of the probability that a row is not censored yet (Graf et
    al., "Assessment and comparison of prognostic classification schemes for survival data", 1999).
    """
    steps = not_censored(time, event)
    gone = (time[:, np.newaxis] <= times) & event[:, np.newaxis]
    there = time[:, np.newaxis] > times
    scores = np.where(gone, survival**2 * _inverse(at(steps, time))[:, np.newaxis], 0.0)
    scores += np.where(there, (1.0 - survival) ** 2 * _inverse(at(steps, times)), 0.0)
    if len(times) == 1:
        return np.asarray(scores[:, 0])
    return np.asarray(np.trapezoid(scores, times, axis=1) / (times[-1] - times[0]))


def _inverse(probability: Array) -> Array:
    """1 / probability; 0 where it is 0, since no row counts there."""
    return np.divide(1.0, probability, out=np.zeros_like(probability), where=probability > 0.0)


def concordance_metric(time: Array, event: NDArray[np.bool_], risk: Array) -> tuple[Metric | None, Array]:
    """Harrell's concordance, and for each row the share of its pairs that are in the wrong order.

    Pairs count if it is certain which event is first. None if there are no such pairs; rows without them are left out.
    The interval is that of a U-statistic: its variance follows from the mean of each row over its pairs.
    """
    bounds = np.stack([time, np.where(event, time, np.inf)])
    try:
        value = concordance(bounds, risk)
    except ValueError:
        return None, np.zeros(0)
    partners = np.arange(len(time))
    if len(partners) > PARTNERS:
        partners = np.random.default_rng(0).choice(partners, PARTNERS, replace=False)
    concordant, comparable = _pairs(time, event, risk, partners)
    deviation = float((concordant - value * comparable).std()) / float(comparable.mean())
    half = 2.0 * Z * deviation / math.sqrt(len(time))
    found = Metric("concordance", value, max(0.0, value - half), min(1.0, value + half), lower_is_better=False)
    some = comparable > 0.0
    return found, 1.0 - concordant[some] / comparable[some]


def _pairs(time: Array, event: NDArray[np.bool_], risk: Array, partners: NDArray[np.intp]) -> tuple[Array, Array]:
    """For each row, the number of concordant and of comparable pairs with some partners."""
    concordant, comparable = np.zeros(len(time)), np.zeros(len(time))
    for first in range(0, len(time), 500):
        rows = slice(first, first + 500)
        t, e, r = time[rows, np.newaxis], event[rows, np.newaxis], risk[rows, np.newaxis]
        before = e & ((t < time[partners]) | ((t == time[partners]) & ~event[partners]))
        after = event[partners] & ((time[partners] < t) | ((time[partners] == t) & ~e))
        half = 0.5 * (r == risk[partners])
        comparable[rows] = (before | after).sum(axis=1)
        concordant[rows] = (before * ((r > risk[partners]) + half) + after * ((r < risk[partners]) + half)).sum(axis=1)
    return concordant, comparable
