"""The paper's algorithms, and the default of the estimators; nothing else.

Each algorithm is a generator: it yields one `Step` after every iteration and knows nothing of validation, early
stopping or progress. Whoever consumes the steps decides when to stop. Comments carry the step numbers of "Accelerating
Gradient Boosting Machines" (Lu, Karimireddy, Ponomareva, Mirrokni, AISTATS 2020). Names are the paper's: f the model,
h the momentum model, g their combination, r the pseudo residual, c the corrected one, b a weak learner, eta the step,
gamma the momentum parameter, theta_m = 2 / (m + 2), alpha_m = eta gamma / theta_m. The accelerated algorithms take
these four from a schedule (see theory.py), which may be another than the paper's.

Functions are arrays (output, row) over the rows of the problem, validation rows included; r and c cover the training
rows. What is done with them is asked of the problem: its rows may be on other machines, with names in the place of the
arrays (see cluster.py). `drop` leaves learners out of an iteration (see dropout.py): without it, g is seen as it is and
the share is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .learners import Fit, Fitter
from .losses import Array
from .objective import Problem
from .theory import Fading, Schedule, restart_length


class Drop(NamedTuple):
    """f and h of one iteration: as they go on, and what of them the residual does not see."""

    f: Array
    h: Array
    dropped_f: Array | None = None
    """What the dropped learners had in f, of which f has kept the share 1 - `share`."""
    dropped_h: Array | None = None
    share: float = 1.0
    """Share of its weight that the iteration's learner gets."""
    iterations: tuple[int, ...] = ()
    """Those that were dropped."""

    def seen(self, problem: Problem, g: Array, theta: float) -> Array:
        """What the residual is taken at: g without the dropped learners."""
        if self.dropped_f is None or self.dropped_h is None:
            return g
        return problem.mix(1, g, self.share - 1, problem.mix(1 - theta, self.dropped_f, theta, self.dropped_h))


def keep_all(f: Array, h: Array) -> Drop:
    """No dropout."""
    return Drop(f, h)


Dropping = Callable[[Array, Array], Drop]
"""What becomes of f and h before an iteration."""


class Step(NamedTuple):
    """One iteration: f <- (1 - theta) f + theta h + eta * primary, then h <- h + alpha * momentum.

    Before a step that restarts, h <- f. Before a step that drops the learners of k earlier iterations, these get the
    share k / (k + 1) of their weights in f and h.
    """

    f: Array
    train_loss: float
    validation_loss: float
    primary: Fit
    eta: float
    cosine_residual: float
    theta: float = 0.0
    momentum: Fit | None = None
    alpha: float = 0.0
    gamma: float = 0.0
    cosine_corrected: float = float("nan")
    restart: bool = False
    dropped: tuple[int, ...] = ()
    g: Array | None = None
    h: Array | None = None
    r: Array | None = None
    c: Array | None = None


def gbm(
    problem: Problem, learner: Fitter, *, eta: float | None, max_iter: int, drop: Dropping = keep_all
) -> Iterator[Step]:
    """Algorithm 1, gradient boosting machine. `eta=None` searches the step along each learner."""
    f = problem.start
    for _ in range(max_iter):
        kept = drop(f, f)
        seen = kept.seen(problem, kept.f, theta=0.0)
        r = problem.residual(seen)  # (1)
        b = learner.fit(r, problem.newton(seen))  # (2)
        step = kept.share * (line_search(problem, f, b.values) if eta is None else eta)  # (3)
        f = problem.mix(1, kept.f, step, b.values)  # (4)
        losses, (angle,) = problem.measure(f, (r, b))
        yield Step(f, *losses, b, step, angle, r=r, dropped=kept.iterations)
        del r, b  # large, and done with


def fading(
    problem: Problem, learner: Fitter, *, schedule: Fading, max_iter: int, drop: Dropping = keep_all
) -> Iterator[Step]:
    """The default of the estimators, which is not in the paper: see docs/acceleration.md.

    The residual is taken at a point beyond f, seen from h: where f would be if its newest learners had more weight.
    """
    ahead = schedule.look_ahead
    f = h = problem.start
    for m in range(max_iter):
        kept = drop(f, h)
        g = problem.mix(1 + ahead, kept.f, -ahead, kept.h) if ahead > 0.0 else kept.f
        seen = kept.seen(problem, g, theta=-ahead)
        r = problem.residual(seen)
        b = learner.fit(r, problem.newton(seen))
        theta, eta, alpha = schedule.theta(m), kept.share * schedule.eta(m), kept.share * schedule.alpha(m)
        f = problem.mix(1, problem.mix(1 - theta, kept.f, theta, kept.h), eta, b.values)
        h = problem.mix(1, kept.h, alpha, b.values)
        losses, (angle,) = problem.measure(f, (r, b))
        schedule.observe(angle)
        yield Step(
            f, *losses, b, eta, angle, theta, b, alpha, schedule.gamma(m), dropped=kept.iterations,
            g=g, h=h, r=r,
        )  # fmt: skip
        del r, b  # large, and done with


def vagbm(
    problem: Problem,
    learner: Fitter,
    *,
    schedule: Schedule,
    max_iter: int,
    drop: Dropping = keep_all,
) -> Iterator[Step]:
    """Vanilla accelerated boosting (appendix), with gamma in step (5) as its remark proposes.

    gamma = 1 is the published form.
    """
    f = h = problem.start
    for m in range(max_iter):
        theta = schedule.theta(m)
        kept = drop(f, h)
        g = problem.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(problem, g, theta)
        r = problem.residual(seen)  # (2)
        b = learner.fit(r, problem.newton(seen))  # (3)
        step = kept.share * schedule.eta(m)
        f = problem.mix(1, g, step, b.values)  # (4)
        losses, (angle,) = problem.measure(f, (r, b))
        schedule.observe(angle)
        gamma, alpha = schedule.gamma(m), kept.share * schedule.alpha(m)
        h = problem.mix(1, kept.h, alpha, b.values)  # (5)
        yield Step(f, *losses, b, step, angle, theta, b, alpha, gamma, dropped=kept.iterations, g=g, h=h, r=r)


def agbm(
    problem: Problem,
    learner: Fitter,
    *,
    schedule: Schedule,
    correction: float,
    length: Callable[[float], float],
    start: Array | None = None,
    restart: bool = False,
    drop: Dropping = keep_all,
) -> Iterator[Step]:
    """Algorithm 2, accelerated gradient boosting machine, for length(gamma) iterations.

    `correction` scales the error that c carries on: 1 is Algorithm 2, 0 turns c into r, -1 is the sign of the
    authors' released scripts.
    """
    f = h = problem.start if start is None else start
    error = problem.zero_residual()  # c^{m-1} - b_{m-1,2}
    for m in count():
        theta = schedule.theta(m)
        last = m + 1 >= length(schedule.gamma(m))
        kept = drop(f, h)
        g = problem.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(problem, g, theta)
        r = problem.residual(seen)  # (2)
        newton = problem.newton(seen)
        if m == 0:
            c = r  # (5)
            b1: Fit = learner.fit(r, newton)  # (3)
            b2: Fit | None = b1  # (6): c^0 = r^0 has the same best learner
            schedule.observe(problem.cosine(r, b1))
            gamma, alpha = schedule.gamma(m), schedule.alpha(m)
        else:
            previous_alpha, gamma, alpha = alpha, schedule.gamma(m), schedule.alpha(m)
            ratio = previous_alpha / alpha if alpha > 0 else 0.0  # (m + 1) / (m + 2) where gamma is constant
            c = problem.mix(1, r, correction * ratio, error)  # (5)
            if alpha > 0:
                # The learner for c has no weight in f before the next iteration: the last one needs none.
                b1, b2 = learner.fit_pair(r, c, newton, second=not last)  # (3), (6)
            else:
                b1, b2 = learner.fit(r, newton), None  # (3): no momentum is admissible
        eta = kept.share * schedule.eta(m)
        f, h = problem.mix(1, g, eta, b1.values), kept.h  # (4)
        if b2 is not None:
            h = problem.mix(1, h, kept.share * alpha, b2.values)  # (7)
            error = problem.mix(1, c, -1, b2.explained)
        losses, cosines = problem.measure(f, (r, b1), *([] if b2 is None else [(c, b2)]))
        schedule.observe(*cosines)
        yield Step(
            f, *losses, primary=b1, eta=eta, cosine_residual=cosines[0], theta=theta,
            momentum=b2, alpha=kept.share * alpha, gamma=gamma, restart=restart and m == 0,
            cosine_corrected=cosines[-1] if b2 is not None else float("nan"), dropped=kept.iterations,
            g=g, h=h, r=r, c=c,
        )  # fmt: skip
        if last:
            return


Rule = Callable[[Problem, Array, Step], bool]
"""Whether to restart, from the function before a step and the step."""


def loss_rises(problem: Problem, before: Array, step: Step) -> bool:
    """Option 2 of the paper: until L(f^m) > L(f^{m-1})."""
    return step.train_loss > problem.train_loss(before)


def gradient_turns(problem: Problem, before: Array, step: Step) -> bool:
    """The gradient test of O'Donoghue and Candes: the step goes against the negative gradient that it started from."""
    assert step.r is not None  # every step has it
    return problem.inner(step.r, problem.mix(1, step.f, -1, before)) < 0.0


def validation_loss_rises(problem: Problem, before: Array, step: Step) -> bool:
    """On rows that the learners do not see."""
    return problem.validation_loss(step.f) > problem.validation_loss(before)


def agbmr(
    problem: Problem,
    learner: Fitter,
    *,
    schedule: Schedule,
    correction: float,
    max_iter: int,
    restart: Rule | float = loss_rises,
    drop: Dropping = keep_all,
) -> Iterator[Step]:
    """AGBM with restarts: option 1 where the strong-convexity constant mu is given, else when a rule says so."""
    f = problem.start
    done = 0

    def length(gamma: float) -> float:
        # Option 1: M = sqrt(2 / (eta gamma mu)) iterations, and never more than are left.
        fixed = np.inf if callable(restart) else np.ceil(restart_length(schedule.eta(0), gamma, restart))
        return float(min(fixed, left))

    while done < max_iter:
        left = max_iter - done
        # (1) Run AGBM from f^p.
        for step in agbm(
            problem, learner, schedule=schedule, correction=correction, length=length,
            start=f, restart=done > 0, drop=drop,
        ):  # fmt: skip
            yield step
            done += 1
            before, f = f, step.f  # (2) f^{p+1} = f^M
            if callable(restart) and restart(problem, before, step):
                break


def line_search(problem: Problem, f: Array, b: Array, largest: float = 1e6) -> float:
    """Step (3) of Algorithm 1: the eta >= 0 with the smallest loss along b.

    The loss is convex along b, so the step is where its slope crosses zero. `largest` ends the search where the loss
    falls for ever, as on separable data. Steps are not negative: weights of learners must not be either.
    """

    def slope(eta: float) -> float:
        return problem.slope(problem.mix(1, f, eta, b), b)

    if not slope(0.0) < 0.0:
        return 0.0
    high = 1.0
    while slope(high) < 0.0:
        if high >= largest:
            return largest
        high = min(2.0 * high, largest)
    return float(brentq(slope, 0.0, high, xtol=1e-12))
