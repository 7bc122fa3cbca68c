"""Calibrations in model files: the scores of calibration rows, with weights and groups if there are any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .._base.types import AnyArray
from .._uncertainty.conformal import WEIGHT_UNITS, Calibration, SortedScores
from . import container as model_file
from .container import ModelFileError, Stored, entry_of

_ENTRY = "calibration"
LARGEST_SUM = 1 << 62
"""Of the weights, so that sums of 64-bit integers do not overflow."""


def described(calibration: Calibration | None) -> dict[str, Any]:
    """The entry of the description of a model; none without a calibration."""
    if calibration is None:
        return {}
    kind = "members" if calibration.of_members else "model" if calibration.group is None else "groups"
    found: dict[str, Any] = {"of": kind, "parts": len(calibration.parts), "test_weight": calibration.test_weight}
    return {_ENTRY: found if calibration.group is None else {**found, "column": calibration.group}}


def to_arrays(calibration: Calibration | None) -> dict[str, AnyArray]:
    """The sections with the scores; none without a calibration."""
    if calibration is None:
        return {}
    lists = [scores for part in calibration.parts for scores in part]
    arrays: dict[str, AnyArray] = {
        "calibration.count": np.array([len(scores.values) for scores in lists], dtype=np.int64),
        "calibration.score": np.concatenate([scores.values for scores in lists]).astype(np.float64),
    }
    if any(scores.weights is not None for scores in lists):
        weights = [np.ones(len(one.values), np.int64) if one.weights is None else one.weights for one in lists]
        arrays["calibration.weight"] = np.concatenate(weights).astype(np.int64)
    if calibration.starts is not None:
        arrays["calibration.start"] = np.asarray(calibration.starts, dtype=np.float64).ravel()
    if calibration.groups is not None:
        arrays["calibration.group"] = np.asarray(calibration.groups, dtype=np.float64)
    return arrays


def restored(stored: Stored, n_labels: int, n_outputs: int, n_members: int, n_columns: int) -> Calibration | None:
    """The calibration in a file, checked; `n_labels` are the labels of a row that have scores of their own."""
    if _ENTRY not in stored.description:
        return None
    entry = stored.entry(_ENTRY, dict)
    kind = entry_of(entry, "of", str)
    if kind not in ("members", "model", "groups"):
        raise ModelFileError(f"calibration: 'of' must be 'members', 'model' or 'groups', got {kind!r}")
    n_parts = model_file.whole(entry, "parts", 1, LARGEST_SUM)
    if kind != "groups" and n_parts != (n_members if kind == "members" else 1):
        raise ModelFileError(f"calibration: {n_parts} parts do not match the model")
    lists = _restored_lists(stored, n_parts, n_labels)
    parts = [lists[i : i + n_labels] for i in range(0, len(lists), n_labels)]
    weight = model_file.whole(entry, "test_weight", 1, WEIGHT_UNITS)
    if kind == "members":
        return Calibration(parts, weight, of_members=True, starts=_restored_starts(stored, n_members, n_outputs))
    if kind == "model":
        return Calibration(parts, weight)
    column = model_file.whole(entry, "column", 0, n_columns - 1)
    groups = stored.array("calibration.group", np.float64)
    if len(groups) != n_parts or not (groups[:-1] < groups[1:])[: n_parts - 1 - int(np.isnan(groups[-1]))].all():
        raise ModelFileError("calibration: section 'calibration.group' must have one ascending number per part")
    return Calibration(parts, weight, group=column, groups=groups)


def _restored_lists(stored: Stored, n_parts: int, n_labels: int) -> Sequence[SortedScores]:
    counts, values = stored.array("calibration.count", np.int64), stored.array("calibration.score", np.float64)
    if len(counts) != n_parts * n_labels or (counts < 1).any() or sum(counts.tolist()) != len(values):
        raise ModelFileError("sizes: section 'calibration.count' does not match the parts and scores")
    weights: NDArray[np.int64] | None = None
    if "calibration.weight" in stored.names():
        weights = stored.array("calibration.weight", np.int64)
        if len(weights) != len(values):
            raise ModelFileError("sizes: section 'calibration.weight' must have one weight per score")
        if (weights < 0).any() or sum(weights.tolist()) > LARGEST_SUM:
            raise ModelFileError("calibration: weights must not be negative, and add up to at most 2^62")
    lists = []
    for begin, end in pairwise(np.append(0, np.cumsum(counts)).tolist()):
        scores = values[begin:end]
        if np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
            raise ModelFileError("calibration: scores must be ascending numbers")
        lists.append(SortedScores(scores, None if weights is None else weights[begin:end]))
    return lists


def _restored_starts(stored: Stored, n_members: int, n_outputs: int) -> Array:
    starts = stored.array("calibration.start", np.float64)
    if len(starts) != n_members * n_outputs or not np.isfinite(starts).all():
        raise ModelFileError("calibration: section 'calibration.start' must have finite numbers per member and output")
    return starts.reshape(n_members, n_outputs)
