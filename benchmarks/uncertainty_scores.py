"""The scores of uncertainty.py: functions of predictions and targets, without the libraries that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest, norm

Array = np.ndarray[Any, Any]

COVERAGE = 0.9
CENTRAL_LEVELS = ((1.0 - COVERAGE) / 2.0, (1.0 + COVERAGE) / 2.0)
"""Levels of the quantiles between which a target lies with the probability COVERAGE."""
LEVELS_OF_CRPS = np.arange(1, 100) / 100.0
BINS_OF_CALIBRATION = 15


def coverage(covered: Array) -> dict[str, float]:
    """The share of covered rows, with its counts."""
    return {"covered": int(np.sum(covered)), "test rows": len(covered), "coverage": float(np.mean(covered))}


def exact_interval(covered: int, n_rows: int) -> tuple[float, float]:
    """The 95 % interval of Clopper and Pearson for a share."""
    found = binomtest(covered, n_rows).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def of_intervals(bounds: Array, y: Array) -> dict[str, float]:
    """Coverage, mean width and mean Winkler (interval) score of intervals (row, bound)."""
    low, high = bounds[:, 0], bounds[:, 1]
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return {
        **coverage((low <= y) & (y <= high)),
        "width": float(np.mean(high - low)),
        "Winkler": float(np.mean(high - low + 2.0 / (1.0 - COVERAGE) * outside)),
    }


def pinball(predicted: Array, y: Array, level: float) -> Array:
    """The pinball loss per row of predictions for one level."""
    errors = y - predicted
    return np.maximum(level * errors, (level - 1.0) * errors)


def crossing(predicted: Array) -> float:
    """The share of rows in which a higher level has a lower prediction; columns are levels in ascending order."""
    return float(np.mean(np.any(np.diff(predicted, axis=1) < 0.0, axis=1)))


def normal_crps(mean: Array, std: Array, y: Array) -> Array:
    """The CRPS of normal distributions per row."""
    z = (y - mean) / std
    return np.asarray(std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi)))


def crps_of_quantiles(distribution: Any, y: Array) -> Array:
    """The CRPS per row, approximated by twice the mean pinball loss over the levels."""
    losses = sum(pinball(np.asarray(distribution.ppf(level)), y, float(level)) for level in LEVELS_OF_CRPS)
    return np.asarray(2.0 * losses / len(LEVELS_OF_CRPS))


def calibration_error(probabilities: Array, y: Array) -> float:
    """The expected calibration error of the most probable class, in bins with equal numbers of rows."""
    top = np.argmax(probabilities, axis=1)
    confidence = probabilities[np.arange(len(y)), top]
    gaps = (top == y) - confidence
    bins = np.array_split(gaps[np.argsort(confidence, kind="stable")], BINS_OF_CALIBRATION)
    return float(sum(abs(np.sum(own)) for own in bins) / len(y))
