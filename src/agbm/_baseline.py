"""Survival functions of fitted models, and the baseline hazard that those with Cox's loss need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ._core.losses import Array, Cox, LifetimeLoss, exp, has_event
from ._core.objective import LocalObjective
from ._lifetimes import Lifetimes
from ._model import FittedModel
from ._run import Run


def baseline_of_fit(run: Run, functions: Sequence[Array]) -> Array | None:
    """The cumulative hazard of a row with score 0 at the times of the labels (Breslow); None for losses without one.

    `functions` are those of the members on all of their rows, which may be the rows of an update. Scores of rows that
    the model was trained on are too far apart, so the rows that the members have held out are used, all together; the
    given validation rows if there are any; the training rows only if there are no others with an event.
    """
    if not isinstance(run.plan.loss, Cox):
        return None
    loss, times = run.plan.loss, cast(Lifetimes, run.labels).times
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


def cumulative_hazards(model: FittedModel, raw: Array, times: Array | None, name: str) -> Array:
    """The cumulative hazards (row, time) of rows with scores `raw`; `name` is the method that needs them."""
    loss: Any = model.loss
    known = cast(Lifetimes, model.labels).times
    if not isinstance(loss, Cox):
        return np.asarray(loss.cumulative_hazard(raw, known if times is None else times))
    baseline = _baseline_of(model, name)
    if times is not None:
        baseline = np.append(0.0, baseline)[np.searchsorted(known, times, side="right")]
    return np.asarray(exp(raw[0], loss.n_threads)[:, np.newaxis] * baseline)


def quantiles(model: FittedModel, raw: Array, share: float) -> Array:
    """The times by which rows have had their events with probability `share`; infinite if the model does not say."""
    loss: Any = model.loss
    if isinstance(loss, LifetimeLoss):
        return loss.quantile(raw, share)
    known, baseline = cast(Lifetimes, model.labels).times, _baseline_of(model, "predict_time")
    wanted = -math.log1p(-share) * exp(-raw[0], loss.n_threads)
    return np.append(known, math.inf)[np.searchsorted(baseline, wanted)]


def _baseline_of(model: FittedModel, name: str) -> Array:
    if model.baseline is None:
        raise ValueError(
            f"{name} needs the baseline hazard of loss={model.loss!r}, which only the models of fit and update "
            "have: at_iteration and agbm.cv give models without it. Fit the model again, or use predict."
        )
    return model.baseline
