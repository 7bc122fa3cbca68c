"""The scores of survival.py, and curves from the predictions of models that have none.

scikit-survival computes the scores: Harrell's C, Uno's C (with inverse probabilities of censoring as weights) and the
integrated Brier score.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

N_TIMES = 50
FIRST, LAST = 0.1, 0.9
"""Quantiles of the event times between which the Brier score is integrated."""


def as_outcomes(time: Array, event: Array) -> Array:
    """A structured array as scikit-survival expects it."""
    found = np.empty(len(time), dtype=[("event", bool), ("time", np.float64)])
    found["event"], found["time"] = event, time
    return found


def censored_at(time: Array, event: Array, last: float) -> tuple[Array, Array]:
    """Times and events if nothing was observed after `last`."""
    return np.minimum(time, last), event & (time <= last)


def grid(time: Array, event: Array, test_time: Array) -> Array:
    """Times for curves: quantiles of the event times of training rows, inside the times of the test rows."""
    times = np.unique(np.quantile(time[event], np.linspace(FIRST, LAST, N_TIMES)))
    return np.asarray(times[(times > test_time.min()) & (times < min(test_time.max(), time.max()))])


def steps_at(times: Array, at: Array, values: Array, before: float) -> Array:
    """The values of a right-continuous step function, which jumps `at` times, at other times."""
    position = np.searchsorted(at, times, side="right")
    return np.concatenate([[before], values])[position]


def breslow(time: Array, event: Array, score: Array) -> tuple[Array, Array]:
    """Event times and the cumulative baseline hazard of a Cox model at these, by Breslow's estimator.

    `score` has the logarithms of the relative hazards of the rows.
    """
    order = np.argsort(-time, kind="stable")
    at_risk = np.cumsum(np.exp(score[order]))[np.searchsorted(-time[order], -time, side="right") - 1]
    times, which = np.unique(time[event], return_inverse=True)
    hazards = np.bincount(which, 1.0 / at_risk[event], minlength=len(times))
    return times, np.cumsum(hazards)


def curves_of_cox(time: Array, event: Array, score: Array, test_score: Array, times: Array) -> Array:
    """Survival probabilities (row, time) of a Cox model with the baseline of its training rows."""
    centre = float(np.mean(score))  # cancels; large scores would overflow
    hazard = steps_at(times, *breslow(time, event, score - centre), before=0.0)
    return np.asarray(np.exp(-np.outer(np.exp(test_score - centre), hazard)))


def of_predictions(
    train: tuple[Array, Array], test: tuple[Array, Array], risk: Array, curves: Array, times: Array
) -> dict[str, list[float]]:
    """All scores, of risks (higher: earlier) and of survival probabilities (row, time) at `times`.

    `train` and `test` are times and events. Test rows that live longer than all training rows are censored at the last
    time of these: the weights are not defined later.
    """
    from sksurv import metrics

    known = as_outcomes(*train)
    outcomes = as_outcomes(*censored_at(*test, last=float(train[0].max())))
    return {
        "Harrell's C": [float(metrics.concordance_index_censored(outcomes["event"], outcomes["time"], risk)[0])],
        "Uno's C": [float(metrics.concordance_index_ipcw(known, outcomes, risk, tau=float(times[-1]))[0])],
        "integrated Brier": [float(metrics.integrated_brier_score(known, outcomes, curves, times))],
    }
