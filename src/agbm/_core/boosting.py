"""The paper's algorithms, and the default algorithm of the estimators; nothing else.

Each algorithm is a generator: it yields one `Step` per iteration and knows nothing about validation, early stopping or
progress. The consumer of the steps decides when to stop. Comments carry the step numbers of "Accelerating Gradient
Boosting Machines" (Lu, Karimireddy, Ponomareva, Mirrokni, AISTATS 2020). Names are the paper's: f the model, h the
momentum model, g their combination, r the pseudo-residual, c the corrected residual, b a weak learner, eta the step,
gamma the momentum parameter, theta_m = 2 / (m + 2), alpha_m = eta gamma / theta_m. The accelerated algorithms take
these four from a schedule (see schedules.py), which may differ from the paper's.

Functions are values (output, row) on the rows of the objective, validation rows included; r and c cover the training
rows. All operations on functions are methods of the objective, since its rows may be on other machines (V is an array,
or a handle to one; see objective.py). `drop` leaves learners out of an iteration (see dropout.py); without dropout, the
residual is taken at g itself and the share is 1.

A run that waits for its next iteration keeps f and h only, since a model may have many members: everything else is
deleted before a step is yielded, and so is the step itself (`done.pop()`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, NamedTuple

import numpy as np
from scipy.optimize import brentq

from .learners import Fit, Fitter, V
from .objective import Objective
from .schedules import FadingSchedule, Schedule
from .theory import restart_length


class Drop(NamedTuple, Generic[V]):
    """f and h at the start of an iteration with dropout."""

    f: V
    h: V
    dropped_f: V | None = None
    """The part of the dropped learners in f; f has kept the share 1 - `share` of it."""
    dropped_h: V | None = None
    share: float = 1.0
    """The share of its weight that the new learner gets."""
    iterations: tuple[int, ...] = ()
    """The dropped iterations."""

    def seen(self, objective: Objective[V], g: V, theta: float) -> V:
        """The function at which the residual is taken: g without the dropped learners."""
        if self.dropped_f is None or self.dropped_h is None:
            return g
        dropped_g = objective.mix(1 - theta, self.dropped_f, theta, self.dropped_h)
        return objective.mix(1, g, self.share - 1, dropped_g)


def keep_all(f: V, h: V) -> Drop[V]:
    """No dropout."""
    return Drop(f, h)


Dropping = Callable[[V, V], Drop[V]]
"""Applies dropout to f and h before an iteration."""


class Step(NamedTuple, Generic[V]):
    """One iteration: f <- (1 - theta) f + theta h + eta * primary, then h <- h + alpha * momentum.

    Before a step that restarts, h <- f. Before a step that drops the learners of k earlier iterations, their weights in
    f and h are multiplied by k / (k + 1).
    """

    f: V
    train_loss: float
    validation_loss: float
    primary: Fit[V]
    eta: float
    cosine_residual: float
    theta: float = 0.0
    momentum: Fit[V] | None = None
    alpha: float = 0.0
    gamma: float = 0.0
    cosine_corrected: float = float("nan")
    restart: bool = False
    dropped: tuple[int, ...] = ()
    g: V | None = None
    h: V | None = None
    r: V | None = None
    c: V | None = None

    def without_vectors(self) -> Step[V]:
        """The step with no vector but f."""
        primary, momentum = self.primary.without_values(), self.momentum
        if momentum is not None:
            momentum = primary if momentum is self.primary else momentum.without_values()
        return self._replace(primary=primary, momentum=momentum, g=None, h=None, r=None, c=None)


def gbm(
    objective: Objective[V], fitter: Fitter[V], *, eta: float | None, max_iter: int, drop: Dropping[V] = keep_all
) -> Iterator[Step[V]]:
    """Algorithm 1, gradient boosting machine. `eta=None` means a line search along each learner."""
    f = objective.start
    for _ in range(max_iter):
        kept = drop(f, f)
        seen = kept.seen(objective, kept.f, theta=0.0)
        r, newton = objective.derivatives(seen)  # (1)
        b = fitter.fit(r, newton)  # (2)
        del newton  # large, and no longer needed
        step = kept.share * (line_search(objective, f, b.values) if eta is None else eta)  # (3)
        f = objective.mix(1, kept.f, step, b.values)  # (4)
        losses, (angle,) = objective.measure(f, (r, b))
        done = [Step(f, *losses, b, step, angle, r=r, dropped=kept.iterations)]
        del kept, seen, r, b
        yield done.pop()


def fading(
    objective: Objective[V], fitter: Fitter[V], *, schedule: FadingSchedule, max_iter: int, drop: Dropping[V] = keep_all
) -> Iterator[Step[V]]:
    """The default of the estimators, which is not in the paper: see docs/acceleration.md.

    The residual is taken at f + look_ahead * (f - h), where f would be if its newest learners had more weight.
    """
    ahead = schedule.look_ahead
    f = h = objective.start
    for m in range(max_iter):
        kept = drop(f, h)
        g = objective.mix(1 + ahead, kept.f, -ahead, kept.h) if ahead > 0.0 else kept.f
        seen = kept.seen(objective, g, theta=-ahead)
        r, newton = objective.derivatives(seen)
        b = fitter.fit(r, newton)
        del newton  # large, and no longer needed
        theta, eta, alpha = schedule.theta(m), kept.share * schedule.eta(m), kept.share * schedule.alpha(m)
        f = objective.mix(1, objective.mix(1 - theta, kept.f, theta, kept.h), eta, b.values)
        h = objective.mix(1, kept.h, alpha, b.values)
        losses, (angle,) = objective.measure(f, (r, b))
        schedule.observe(angle)
        gamma, dropped = schedule.gamma(m), kept.iterations
        done = [Step(f, *losses, b, eta, angle, theta, b, alpha, gamma, dropped=dropped, g=g, h=h, r=r)]
        del kept, g, seen, r, b
        yield done.pop()


def vagbm(
    objective: Objective[V], fitter: Fitter[V], *, schedule: Schedule, max_iter: int, drop: Dropping[V] = keep_all
) -> Iterator[Step[V]]:
    """Vanilla accelerated boosting (appendix), with gamma in step (5) as its remark proposes.

    gamma = 1 is the published form.
    """
    f = h = objective.start
    for m in range(max_iter):
        theta = schedule.theta(m)
        kept = drop(f, h)
        g = objective.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(objective, g, theta)
        r, newton = objective.derivatives(seen)  # (2)
        b = fitter.fit(r, newton)  # (3)
        del newton  # large, and no longer needed
        step = kept.share * schedule.eta(m)
        f = objective.mix(1, g, step, b.values)  # (4)
        losses, (angle,) = objective.measure(f, (r, b))
        schedule.observe(angle)
        gamma, alpha = schedule.gamma(m), kept.share * schedule.alpha(m)
        h = objective.mix(1, kept.h, alpha, b.values)  # (5)
        done = [Step(f, *losses, b, step, angle, theta, b, alpha, gamma, dropped=kept.iterations, g=g, h=h, r=r)]
        del kept, g, seen, r, b
        yield done.pop()


def agbm(
    objective: Objective[V],
    fitter: Fitter[V],
    *,
    schedule: Schedule,
    correction: float,
    length: Callable[[float], float],
    start: V | None = None,
    restart: bool = False,
    drop: Dropping[V] = keep_all,
) -> Iterator[Step[V]]:
    """Algorithm 2, accelerated gradient boosting machine, for length(gamma) iterations.

    `correction` scales the fitting error that c accumulates: 1 is Algorithm 2, 0 makes c equal to r, -1 is the sign of
    the authors' released scripts.
    """
    f = h = objective.start if start is None else start
    error = objective.zero_residual()  # c^{m-1} - b_{m-1,2}
    for m in count():
        theta = schedule.theta(m)
        last = m + 1 >= length(schedule.gamma(m))
        kept = drop(f, h)
        g = objective.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(objective, g, theta)
        r, newton = objective.derivatives(seen)  # (2)
        if m == 0:
            c = r  # (5)
            b1 = fitter.fit(r, newton)  # (3)
            b2: Fit[V] | None = b1  # (6): c^0 = r^0 has the same best learner
            schedule.observe(objective.cosine(r, b1))
            gamma, alpha = schedule.gamma(m), schedule.alpha(m)
        else:
            previous_alpha, gamma, alpha = alpha, schedule.gamma(m), schedule.alpha(m)
            ratio = previous_alpha / alpha if alpha > 0 else 0.0  # (m + 1) / (m + 2) if gamma is constant
            c = objective.mix(1, r, correction * ratio, error)  # (5)
            if alpha > 0:
                # The learner for c has no weight in f before the next iteration: the last iteration needs none.
                b1, b2 = fitter.fit_pair(r, c, newton, second=not last)  # (3), (6)
            else:
                b1, b2 = fitter.fit(r, newton), None  # (3): no momentum is admissible
        eta = kept.share * schedule.eta(m)
        f, h = objective.mix(1, g, eta, b1.values), kept.h  # (4)
        if b2 is not None:
            h = objective.mix(1, h, kept.share * alpha, b2.values)  # (7)
            error = objective.mix(1, c, -1, b2.explained)
        losses, cosines = objective.measure(f, (r, b1), *([] if b2 is None else [(c, b2)]))
        schedule.observe(*cosines)
        done = [Step(
            f, *losses, primary=b1, eta=eta, cosine_residual=cosines[0], theta=theta,
            momentum=b2, alpha=kept.share * alpha, gamma=gamma, restart=restart and m == 0,
            cosine_corrected=cosines[-1] if b2 is not None else float("nan"), dropped=kept.iterations,
            g=g, h=h, r=r, c=c,
        )]  # fmt: skip
        del kept, g, seen, r, c, b1, b2
        yield done.pop()
        if last:
            return


Rule = Callable[[Objective[V], V, Step[V]], bool]
"""Decides whether to restart, from the function before a step and the step."""


def loss_rises(objective: Objective[V], before: V, step: Step[V]) -> bool:
    """Option 2 of the paper: restart when L(f^m) > L(f^{m-1})."""
    return step.train_loss > objective.train_loss(before)


def gradient_turns(objective: Objective[V], before: V, step: Step[V]) -> bool:
    """The gradient test of O'Donoghue and Candes: the step goes against the negative gradient at its start."""
    assert step.r is not None  # every step has it
    return objective.inner(step.r, objective.mix(1, step.f, -1, before)) < 0.0


def validation_loss_rises(objective: Objective[V], before: V, step: Step[V]) -> bool:
    """Restart when the validation loss rises."""
    return objective.validation_loss(step.f) > objective.validation_loss(before)


def agbmr(
    objective: Objective[V],
    fitter: Fitter[V],
    *,
    schedule: Schedule,
    correction: float,
    max_iter: int,
    restart: Rule[V] | float = loss_rises,
    drop: Dropping[V] = keep_all,
) -> Iterator[Step[V]]:
    """AGBM with restarts: option 1 if `restart` is the strong-convexity constant mu, otherwise by a rule."""
    f = objective.start
    done = 0

    def length(gamma: float) -> float:
        # Option 1: M = sqrt(2 / (eta gamma mu)) iterations, at most those that are left.
        fixed = np.inf if callable(restart) else np.ceil(restart_length(schedule.eta(0), gamma, restart))
        return float(min(fixed, left))

    while done < max_iter:
        left = max_iter - done
        # (1) Run AGBM from f^p.
        for step in agbm(
            objective, fitter, schedule=schedule, correction=correction, length=length,
            start=f, restart=done > 0, drop=drop,
        ):  # fmt: skip
            yield step
            done += 1
            before, f = f, step.f  # (2) f^{p+1} = f^M
            if callable(restart) and restart(objective, before, step):
                break


def line_search(objective: Objective[V], f: V, b: V, largest: float = 1e6) -> float:
    """Step (3) of Algorithm 1: the eta >= 0 with the smallest loss along b.

    The loss is convex along b, so the search is for a root of its slope. `largest` bounds the step if the loss falls
    for ever, as on separable data. Steps are never negative, because weights of learners must not be.
    """

    def slope(eta: float) -> float:
        return objective.slope(objective.mix(1, f, eta, b), b)

    if not slope(0.0) < 0.0:
        return 0.0
    high = 1.0
    while slope(high) < 0.0:
        if high >= largest:
            return largest
        high = min(2.0 * high, largest)
    return float(brentq(slope, 0.0, high, xtol=1e-12))
