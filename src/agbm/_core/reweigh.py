"""New weights for the iterations of a fitted model, from other rows.

The model is start + sum over groups g of s_g u_g, where u_g is the part of a group of consecutive iterations. The first
group is the first iteration, and each other group has twice as many as the one before: a few numbers, which little data
suffices for. The scales s_g, and constants that are added to the start, minimise the loss of the rows plus two
penalties: one pulls scales to 1, the other stands for rows of the fit, which the model as it is fits best. Newton's
method finds them, from exact sums, so the result does not depend on the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._base.sums import Array, ExactSum, exact_sum, inner_sums
from .._losses.constants import solved
from .objective import LocalObjective

SPREAD = 1.0
"""The standard deviation of scales around 1 that the penalty corresponds to."""
MOST_STEPS = 20
MOST_HALVINGS = 20
TOLERANCE = 1e-10
REGULAR = 1e-12


class Reweighed(NamedTuple):
    """The scales of groups, and the constants that are added to the start, one per output."""

    scales: Array
    shift: Array


def groups_of(n_iterations: int) -> list[range]:
    """Consecutive iterations: 1, 2, 4, 8, ... of them."""
    firsts = [2**k - 1 for k in range(n_iterations.bit_length())]
    return [range(first, min(2 * first + 1, n_iterations)) for first in firsts]


def reweigh(objective: LocalObjective, parts: Sequence[Array], shifts: bool, old_per_new: float) -> Reweighed:
    """Fit scales of the parts (output, row) of a model; its start function is that of the objective.

    `shifts` says whether constants may be added to the start. For each row, `old_per_new` rows of the fit count as
    well: they are like the new ones, but their loss is smallest at the scales and constants of the model.
    """
    objective = replace(objective, second_order=True)
    n_outputs = len(objective.start)
    directions = [np.ascontiguousarray(part) for part in parts]
    directions += [_one_output(objective, k) for k in range(n_outputs)] if shifts else []
    found = np.array([1.0] * len(parts) + [0.0] * (len(directions) - len(parts)))
    problem = _Problem(objective, directions, len(parts), found, old_per_new)
    loss = problem.loss(found, penalty=0.0)
    for _ in range(MOST_STEPS):
        step, penalty = problem.newton_step(found)
        before = loss = problem.loss(found, penalty)
        for halving in range(MOST_HALVINGS):
            tried = found + step * 0.5**halving
            loss = problem.loss(tried, penalty)
            if loss < before:
                found = tried
                break
        if not loss < before - TOLERANCE * abs(before):
            break
    return Reweighed(found[: len(parts)], found[len(parts) :] if shifts else np.zeros(n_outputs))


class _Problem:
    """The loss of a combination of directions, and Newton steps on its coefficients."""

    def __init__(
        self, objective: LocalObjective, directions: Sequence[Array], n_scales: int, old: Array, old_per_new: float
    ) -> None:
        self._objective = objective
        self._directions = directions
        self._n_scales = n_scales
        self._old = old
        self._old_curvature = old_per_new * self._derivatives(old)[1]
        """That of the loss of the rows of the fit."""

    def loss(self, coefficients: Array, penalty: float) -> float:
        scales = coefficients[: self._n_scales]
        total = self._objective.train_loss_sum(self._function(coefficients))
        of_old = math.fsum((coefficients - self._old) * self._slope_of_old(coefficients))
        return float(total) + 0.5 * (penalty * float(np.sum((scales - 1.0) ** 2)) - of_old)

    def _slope_of_old(self, coefficients: Array) -> Array:
        """The negative slope of the loss of the rows of the fit."""
        return np.array([math.fsum(row) for row in self._old_curvature * (self._old - coefficients)])

    def newton_step(self, coefficients: Array) -> tuple[Array, float]:
        """The step, and the strength of the penalty.

        The penalty is in units of the loss: a residual varies by r^2 / hessian, which is 1 for a log-likelihood.
        """
        slope, curvature, noise = self._derivatives(coefficients)
        penalty = noise / SPREAD**2
        scales = np.arange(len(slope)) < self._n_scales
        slope[scales] -= penalty * (coefficients[scales] - 1.0)
        slope += self._slope_of_old(coefficients)
        curvature[scales, scales] += penalty
        curvature += self._old_curvature
        lower = np.where(scales, -coefficients, -np.inf)  # weights of learners must not be negative
        return _bounded_step(curvature, slope, lower), penalty

    def _derivatives(self, coefficients: Array) -> tuple[Array, Array, float]:
        """The negative slope of the loss of the new rows, its curvature, and the variance of residuals."""
        objective, n = self._objective, len(self._directions)
        f = self._function(coefficients)
        r, hessian = objective.residual(f), objective.hessian(f)
        trained = [direction[:, : objective.n_train] for direction in self._directions]
        slope = np.array([float(self._inner(r, direction)) for direction in trained])
        curvature = np.zeros((n, n))
        for i in range(n):
            bent = trained[i] if hessian is None else np.ascontiguousarray(trained[i] * hessian)
            for j in range(i + 1):
                curvature[i, j] = curvature[j, i] = float(self._inner(bent, trained[j]))
        ones = np.ones_like(r) if hessian is None else hessian
        return slope, curvature, self._inner(r, r) / exact_sum(ones, objective.train_weight, objective.n_threads)

    def _function(self, coefficients: Array) -> Array:
        f = self._objective.start
        for coefficient, direction in zip(coefficients.tolist(), self._directions, strict=True):
            f = self._objective.mix(1.0, f, coefficient, direction)
        return f

    def _inner(self, x: Array, y: Array) -> ExactSum:
        return inner_sums(x, y, self._objective.train_weight, self._objective.n_threads)[1]


def _bounded_step(curvature: Array, slope: Array, lower: Array) -> Array:
    """The Newton step, in which numbers that would pass their lower bounds stop there."""
    bounded = np.zeros(len(slope), dtype=bool)
    while True:
        step, free = np.where(bounded, lower, 0.0), ~bounded
        known = [math.fsum(row) for row in curvature[np.ix_(free, bounded)] * lower[bounded]]
        found = solved(_regular(curvature[np.ix_(free, free)]), slope[free] - known)
        step[free] = 0.0 if found is None else found
        passed = free & (step < lower)
        if not passed.any():
            return np.asarray(step)
        bounded |= passed


def _regular(curvature: Array) -> Array:
    """A curvature that equations can be solved with, even if parts of the model are zero or proportional."""
    return np.asarray(curvature + REGULAR * np.diagonal(curvature).max(initial=0.0) * np.eye(len(curvature)))


def _one_output(objective: LocalObjective, output: int) -> Array:
    """The function that is 1 in one output and 0 in the others."""
    one = np.zeros((len(objective.start), objective.n_rows))
    one[output] = 1.0
    return one
