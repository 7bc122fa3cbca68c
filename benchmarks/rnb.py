"""Regularised Newton boosting (arXiv 2605.00581), a baseline for benchmarks.

Each iteration makes a full Newton step with damped hessians: a multiple of the square root of the norm of the residual
is added to every hessian. The published method uses the norm itself. Here the norm is relative to that of the initial
residual, and the multiple is in units of the hessians, so that the unit of the labels does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from agbm._core.boosting import Dropping, Step, keep_all
from agbm._core.learners import Fitter, Newton
from agbm._core.losses import Exponential, LogLoss, Multinomial
from agbm._core.objective import LocalObjective
from agbm._core.sums import Array, exact_mean
from agbm.methods import Method


def regularized_newton(
    objective: LocalObjective, fitter: Fitter[Array], *, damping: float, max_iter: int, drop: Dropping[Array] = keep_all
) -> Iterator[Step[Array]]:
    """Gradient boosting with steps of length 1 and damped hessians; `damping` has the unit of the hessians."""
    f = objective.start
    first = objective.residual(f)
    first_square = objective.inner(first, first)
    for _ in range(max_iter):
        kept = drop(f, f)
        seen = kept.seen(objective, kept.f, theta=0.0)
        r = objective.residual(seen)
        newton = objective.newton(seen)
        hessian = np.ones_like(r) if newton is None else newton.hessian
        relative_square = objective.inner(r, r) / first_square if first_square > 0.0 else 0.0
        b = fitter.fit(r, Newton(hessian + damping * relative_square**0.25))
        f = objective.mix(1, kept.f, kept.share, b.values)
        losses, (angle,) = objective.measure(f, (r, b))
        yield Step(f, *losses, b, kept.share, angle, r=r, dropped=kept.iterations)


class RegularizedNewton(Method):
    """Regularised Newton boosting as a method of the estimators, for rows in memory."""

    second_order = True

    def steps(
        self,
        objective: Any,
        fitter: Fitter[Any],
        *,
        learning_rate: float,
        max_iter: int,
        drop: Dropping[Any] = keep_all,
    ) -> Iterator[Step[Any]]:
        """See Method. The damping is the unit of the hessians divided by `learning_rate`."""
        damping = hessian_unit(objective) / learning_rate
        return regularized_newton(objective, fitter, damping=damping, max_iter=max_iter, drop=drop)


def hessian_unit(objective: LocalObjective) -> float:
    """The mean hessian at the initial prediction, or 1 for classification, where hessians have no unit."""
    hessian = objective.hessian(objective.start)
    if hessian is None or isinstance(objective.loss, (LogLoss, Exponential, Multinomial)):
        return 1.0
    return exact_mean(hessian, objective.train_weight, objective.n_threads)
