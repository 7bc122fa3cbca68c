"""Survival functions of fitted models, and the baseline hazard that those with Cox's loss need."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from .._base.sums import Array
from .._labels.lifetimes import Lifetimes
from .._losses import exp, traits_of
from .fitted import FittedModel


def cumulative_hazards(model: FittedModel, raw: Array, times: Array | None, name: str) -> Array:
    """The cumulative hazards (row, time) of rows with scores `raw`; `name` is the method that needs them."""
    loss: Any = model.loss
    known = cast(Lifetimes, model.labels).times
    if not traits_of(loss).has_baseline:
        return np.asarray(loss.cumulative_hazard(raw, known if times is None else times))
    baseline = _baseline_of(model, name)
    if times is not None:
        baseline = np.append(0.0, baseline)[np.searchsorted(known, times, side="right")]
    return np.asarray(exp(raw[0], loss.n_threads)[:, np.newaxis] * baseline)


def quantiles(model: FittedModel, raw: Array, share: float) -> Array:
    """The times by which rows have had their events with probability `share`; infinite if the model does not say."""
    loss: Any = model.loss
    if not traits_of(loss).has_baseline:
        return np.asarray(loss.quantile(raw, share))
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


class StepFunction(NamedTuple):
    """A function of time with the interface of scikit-survival's StepFunction, which its metrics accept.

    Between two entries of x it has the value at the first of them, and after the last one the value there.
    """

    x: Array
    """Times in ascending order."""
    y: Array
    """The value at each of them."""
    before: float
    """The value before the first one: 1 for survival functions, 0 for cumulative hazards."""

    @property
    def domain(self) -> tuple[float, None]:
        """The smallest time, and None: there is no largest one."""
        return 0.0, None

    def __call__(self, x: ArrayLike) -> Any:
        """The values at times x; NumPy arrays and numbers are accepted."""
        place = np.searchsorted(self.x, x, side="right")
        values = np.append(self.before, self.y)[place]
        return values if np.ndim(x) else float(values)
