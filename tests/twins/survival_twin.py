"""Slow formulas of survival analysis in NumPy and SciPy."""

import numpy as np
from scipy import stats

ERRORS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def cox_total(time, event, f, weight, ties):
    """The negative logarithm of the partial likelihood, as R's coxph defines it for weights."""
    total = 0.0
    for at in np.unique(time[event]):
        tied = (time == at) & event
        at_risk, of_tied = (weight * np.exp(f))[time >= at].sum(), (weight * np.exp(f))[tied].sum()
        total -= (weight * f)[tied].sum()
        n = tied.sum()
        for k in range(n):
            total += weight[tied].mean() * np.log(at_risk - (k / n * of_tied if ties == "efron" else 0.0))
    return total


def cox_hessian(time, event, f, ties):
    """The second derivative of the total by each score, for weights of 1."""
    e, found = np.exp(f), np.zeros(len(f))
    for at in np.unique(time[event]):
        tied, at_risk = (time == at) & event, time >= at
        n = tied.sum()
        for k in range(n):
            out = k / n if ties == "efron" else 0.0
            share = np.where(at_risk, e * np.where(tied, 1.0 - out, 1.0), 0.0)
            share = share / (e[at_risk].sum() - out * e[tied].sum())
            found += share * (1.0 - share)
    return found


def cumulative_baseline(time, event, f, weight):
    """Breslow's estimate at each time of an event."""
    times = np.unique(time[event])
    steps = [weight[(time == t) & event].sum() / (weight * np.exp(f))[time >= t].sum() for t in times]
    return times, np.cumsum(steps)


def lifetime_value(lower, upper, location, log_scale, distribution):
    """The negative log-likelihood of one row."""
    errors, scale = ERRORS[distribution], np.exp(log_scale)

    def z(t):
        return (np.log(t) - location) / scale

    if lower == upper:
        return -errors.logpdf(z(lower)) + log_scale + np.log(lower)
    if np.isinf(upper):
        return -errors.logsf(z(lower)) if lower > 0.0 else 0.0
    if lower == 0.0:
        return -errors.logcdf(z(upper))
    a, b = z(lower), z(upper)
    larger, smaller = (errors.logcdf(b), errors.logcdf(a)) if b < 0.0 else (errors.logsf(a), errors.logsf(b))
    return -larger - np.log1p(-np.exp(smaller - larger))  # in logarithms: far from the centre, probabilities underflow


def hazards_value(time, event, f, edges):
    """The negative log-likelihood of one row; its log hazards between edges are f[0] + f[1:]."""
    total, ends = 0.0, [*edges[1:], np.inf]
    for score, low, high in zip(f[0] + f[1:], edges, ends, strict=True):
        total += np.exp(score) * max(0.0, min(time, high) - low)
        if event and (low < time <= high or (low == 0.0 and time == 0.0)):
            total -= score
    return total


def concordance(lower, upper, risk, weight):
    """Harrell's concordance, pair by pair."""
    right = total = 0.0
    for i in range(len(risk)):
        for j in range(len(risk)):
            first = upper[i] < lower[j] or (upper[i] == lower[j] and upper[j] > lower[j])
            if i != j and np.isfinite(upper[i]) and first:
                total += weight[i] * weight[j]
                right += weight[i] * weight[j] * (0.5 if risk[i] == risk[j] else float(risk[i] > risk[j]))
    return right / total
