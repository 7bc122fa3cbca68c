"""The baseline hazard of a fit with Cox's loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._base.sums import Array
from .._core.objective import LocalObjective
from .._labels.lifetimes import Lifetimes
from .._losses import has_event, traits_of
from .run import Run


def baseline_of_fit(run: Run, functions: Sequence[Array]) -> Array | None:
    """The cumulative hazard of a row with score 0 at the times of the labels (Breslow); None for losses without one.

    `functions` are those of the members on all of their rows, which may be the rows of an update. Scores of rows that
    the model was trained on are too far apart, so the rows that the members have held out are used, all together; the
    given validation rows if there are any; the training rows only if no other row has an event.
    """
    if not traits_of(run.plan.loss).has_baseline:
        return None
    loss, times = cast(Any, run.plan.loss), cast(Lifetimes, run.labels).times
    y, f, weight = _rows_for_baseline(run, functions)
    at, hazard = loss.baseline(y, f, weight)
    place = np.searchsorted(at, times, side="right")
    return np.append(0.0, hazard)[place]


def _rows_for_baseline(run: Run, functions: Sequence[Array]) -> tuple[Array, Array, Array | None]:
    objectives: list[LocalObjective] = [cast(Any, member.objective).local for member in run.members]
    first = objectives[0]
    if not run.plan.held_out:  # all members have the same rows
        f = np.mean(functions, axis=0)
        validation, training = (
            (first.validation_rows, first.validation_weight),
            (slice(first.n_train), first.train_weight),
        )
        for rows, weight in (validation, training):
            if has_event(first.y[:, rows]).any():
                return first.y[:, rows], f[:, rows], weight
    held_out = [
        (of.y[:, of.validation_rows], f[:, of.validation_rows], of.validation_weight)
        for of, f in zip(objectives, functions, strict=True)
    ]
    if not any(has_event(y).any() for y, _, _ in held_out):
        return first.train_y, functions[0][:, : first.n_train], first.train_weight
    ys, fs, weights = zip(*held_out, strict=True)
    weight = None if weights[0] is None else np.concatenate(weights)
    return np.concatenate(ys, axis=1), np.concatenate(fs, axis=1), weight
