"""The paper's algorithms, and nothing else.

Each algorithm is a generator: it yields one `Step` after every iteration and knows nothing of validation, early
stopping or progress. Whoever consumes the steps decides when to stop. Comments carry the step numbers of "Accelerating
Gradient Boosting Machines" (Lu, Karimireddy, Ponomareva, Mirrokni, AISTATS 2020). Names are the paper's: f the model,
h the momentum model, g their combination, r the pseudo residual, c the corrected one, b a weak learner, eta the step,
gamma the momentum parameter, theta_m = 2 / (m + 2), alpha_m = eta gamma / theta_m.

Functions are arrays (output, row) over the rows of the problem, validation rows included; r and c cover the training
rows. `drop` leaves learners out of an iteration (see dropout.py): without it, g is seen as it is and the share is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .learners import Fit, Fitter
from .losses import Array
from .problem import Problem
from .theory import Momentum, cosine, restart_length


class Drop(NamedTuple):
    """f and h of one iteration: as they go on, and what of them the residual does not see."""

    f: Array
    h: Array
    hidden_f: Array | float = 0.0
    hidden_h: Array | float = 0.0
    share: float = 1.0
    """Share of its weight that the iteration's learner gets."""
    iterations: tuple[int, ...] = ()
    """Those that were dropped."""

    def seen(self, g: Array, theta: float) -> Array:
        """What the residual is taken at: g without the dropped learners."""
        if not self.iterations:
            return g
        return np.asarray(g - ((1 - theta) * self.hidden_f + theta * self.hidden_h))


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
        seen = kept.seen(kept.f, theta=0.0)
        r = problem.residual(seen)  # (1)
        b = learner.fit(r, problem.hessian(seen))  # (2)
        step = kept.share * (line_search(problem, f, b.values) if eta is None else eta)  # (3)
        f = problem.mix(1, kept.f, step, b.values)  # (4)
        yield Step(f, problem.train_loss(f), b, step, _cosine(problem, r, b), r=r, dropped=kept.iterations)
        del r, b  # large, and done with


def vagbm(
    problem: Problem,
    learner: Fitter,
    *,
    eta: float,
    momentum: Momentum,
    max_iter: int,
    drop: Dropping = keep_all,
) -> Iterator[Step]:
    """Vanilla accelerated boosting (appendix), with gamma in step (5) as its remark proposes.

    gamma = 1 is the published form.
    """
    f = h = problem.start
    for m in range(max_iter):
        theta = 2 / (m + 2)
        kept = drop(f, h)
        g = problem.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(g, theta)
        r = problem.residual(seen)  # (2)
        b = learner.fit(r, problem.hessian(seen))  # (3)
        step = kept.share * eta
        f = problem.mix(1, g, step, b.values)  # (4)
        angle = _cosine(problem, r, b)
        momentum.observe(angle)
        gamma = momentum.gamma
        alpha = gamma * step / theta
        h = problem.mix(1, kept.h, alpha, b.values)  # (5)
        yield Step(
            f, problem.train_loss(f), b, step, angle, theta, b, alpha, gamma, dropped=kept.iterations, g=g, h=h, r=r
        )


def agbm(
    problem: Problem,
    learner: Fitter,
    *,
    eta: float,
    momentum: Momentum,
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
    error = np.zeros_like(f[:, : problem.n_train])  # c^{m-1} - b_{m-1,2}
    for m in count():
        theta = 2 / (m + 2)
        last = m + 1 >= length(momentum.gamma)
        kept = drop(f, h)
        g = problem.mix(1 - theta, kept.f, theta, kept.h)  # (1)
        seen = kept.seen(g, theta)
        r = problem.residual(seen)  # (2)
        hessian = problem.hessian(seen)
        if m == 0:
            c = r  # (5)
            b1: Fit = learner.fit(r, hessian)  # (3)
            b2: Fit | None = b1  # (6): c^0 = r^0 has the same best learner
            momentum.observe(_cosine(problem, r, b1))
            gamma = momentum.gamma
            alpha = gamma * eta / theta
        else:
            gamma = momentum.gamma
            previous_alpha, alpha = alpha, gamma * eta / theta
            ratio = previous_alpha / alpha if alpha > 0 else 0.0  # (m + 1) / (m + 2) where gamma is constant
            c = problem.mix(1, r, correction * ratio, error)  # (5)
            if alpha > 0:
                # The learner for c has no weight in f before the next iteration: the last one needs none.
                b1, b2 = learner.fit_pair(r, c, hessian, second=not last)  # (3), (6)
            else:
                b1, b2 = learner.fit(r, hessian), None  # (3): no momentum is admissible
        f, h = problem.mix(1, g, kept.share * eta, b1.values), kept.h  # (4)
        if b2 is not None:
            h = problem.mix(1, h, kept.share * alpha, b2.values)  # (7)
            error = problem.mix(1, c, -1, b2.explained)
        cosines = [_cosine(problem, target, b) for target, b in ((r, b1), (c, b2)) if b is not None]
        momentum.observe(*cosines)
        yield Step(
            f=f, train_loss=problem.train_loss(f), primary=b1, eta=kept.share * eta, cosine_residual=cosines[0],
            theta=theta, momentum=b2, alpha=kept.share * alpha, gamma=gamma, restart=restart and m == 0,
            cosine_corrected=cosines[-1] if b2 is not None else float("nan"), dropped=kept.iterations,
            g=g, h=h, r=r, c=c,
        )  # fmt: skip
        if last:
            return


def agbmr(
    problem: Problem,
    learner: Fitter,
    *,
    eta: float,
    momentum: Momentum,
    correction: float,
    max_iter: int,
    strong_convexity: float | None = None,
    drop: Dropping = keep_all,
) -> Iterator[Step]:
    """AGBM with restarts: option 1 where the strong-convexity constant mu is given, else option 2."""
    f = problem.start
    loss = problem.train_loss(f)
    done = 0

    def length(gamma: float) -> float:
        # Option 1: M = sqrt(2 / (eta gamma mu)) iterations, and never more than are left.
        fixed = np.inf if strong_convexity is None else np.ceil(restart_length(eta, gamma, strong_convexity))
        return float(min(fixed, left))

    while done < max_iter:
        left = max_iter - done
        # (1) Run AGBM from f^p.
        for step in agbm(
            problem, learner, eta=eta, momentum=momentum, correction=correction, length=length,
            start=f, restart=done > 0, drop=drop,
        ):  # fmt: skip
            yield step
            done += 1
            f = step.f  # (2) f^{p+1} = f^M
            rose = step.train_loss > loss
            loss = step.train_loss
            if strong_convexity is None and rose:  # Option 2: until L(f^m) > L(f^{m-1})
                break


def line_search(problem: Problem, f: Array, b: Array, largest: float = 1e6) -> float:
    """Step (3) of Algorithm 1: the eta >= 0 with the smallest loss along b.

    The loss is convex along b, so the step is where its slope crosses zero. `largest` ends the search where the loss
    falls for ever, as on separable data. Steps are not negative: weights of learners must not be either.
    """

    def slope(eta: float) -> float:
        return problem.slope(f + eta * b, b)

    if not slope(0.0) < 0.0:
        return 0.0
    high = 1.0
    while slope(high) < 0.0:
        if high >= largest:
            return largest
        high = min(2.0 * high, largest)
    return float(brentq(slope, 0.0, high, xtol=1e-12))


def _cosine(problem: Problem, target: Array, fit: Fit) -> float:
    return cosine(target, fit.explained, problem.train_weight, problem.n_threads)
