"""Quantities of the analysis."""

import numpy as np
import pytest

from agbm import boosting
from agbm.losses import HalfSquaredError
from agbm.theory import (
    ErrorTerm,
    Momentum,
    admissible_momentum,
    cosine,
    potential,
    rate_bound,
    restart_length,
)
from toys import VectorFitter, problem_of, strongest


def test_cosine():
    def of(target, fitted, weight=None):
        return cosine(np.array([target]), np.array([fitted]), weight)

    assert of([1.0, 0.0], [1.0, 1.0]) == pytest.approx(np.sqrt(0.5))
    assert of([1.0, 2.0], [2.0, 4.0]) == pytest.approx(1.0)
    assert of([1.0, 2.0], [0.0, 0.0]) == 0.0
    assert of([0.0, 0.0], [0.0, 0.0]) == 1.0
    # A weight counts a row as often.
    repeated = of([1.0, 3.0, 3.0], [2.0, 1.0, 1.0])
    assert of([1.0, 3.0], [2.0, 1.0], np.array([1.0, 2.0])) == pytest.approx(repeated)
    # Several outputs are one long vector.
    several = cosine(np.array([[1.0, 0.0], [2.0, -1.0]]), np.array([[1.0, 1.0], [2.0, 0.5]]))
    assert several == pytest.approx(of([1.0, 0.0, 2.0, -1.0], [1.0, 1.0, 2.0, 0.5]))


def test_admissible_momentum_is_the_theorems():
    assert admissible_momentum(1.0) == 0.2
    assert admissible_momentum(0.65) == pytest.approx(0.0404, abs=1e-4)
    assert admissible_momentum(0.3) == pytest.approx(0.00198, abs=1e-5)
    assert admissible_momentum(-0.5) == 0.0


def test_momentum():
    fixed, theory = Momentum(0.7), Momentum("theory")
    for momentum in (fixed, theory):
        momentum.observe(0.9, 0.5)
        momentum.observe(0.6)
    assert fixed.gamma == 0.7
    assert theory.gamma == admissible_momentum(0.5)
    theory.observe(1e-3)
    assert theory.gamma == 0.0


def test_bound_and_restart_length():
    assert rate_bound(4.0, 0.5, 0.1, 3) == pytest.approx(4.0 / (2 * 0.05 * 16))
    assert restart_length(0.5, 0.1, 0.4) == pytest.approx(10.0)
    assert restart_length(0.5, 0.0, 0.4) == np.inf


class TestProof:
    def test_error_term_by_hand(self):
        """theta = 0.5 and gamma = 0.05: s = 0.2 and t = 0.4."""
        term = ErrorTerm(theta=0.5, gamma=0.05)
        carried = 0.2 * 3.0**2 / (2 * 0.4) * 7.0
        assert term(2.0, 11.0, 3.0, 7.0) == pytest.approx(carried - (1 - 0.2 - 0.4) * 2.0**2 / (2 * 0.2) * 11.0)
        assert term(2.0, 11.0, 0.0, 0.0) == pytest.approx(-0.4 * 4.0 / 0.4 * 11.0)

    def test_potential_by_hand(self):
        assert potential(gap=5.0, alpha=0.3, theta=0.5, squared_distance=8.0) == pytest.approx(0.3 / 0.5 * 5.0 + 4.0)

    def test_the_auxiliary_sequence(self):
        """Lemma: h-hat^{m+1} = h^{m+1} + alpha_m (c^m - b_{m,2}), with h-hat the sum of alpha_j r^j."""
        problem = problem_of(HalfSquaredError(), np.random.default_rng(0).normal(size=30))
        h_hat = problem.start
        for step in boosting.agbm(
            problem, VectorFitter(strongest(0.3)), eta=1.0, momentum=Momentum(0.1), correction=1.0, length=lambda _: 20
        ):
            h_hat = h_hat + step.alpha * step.r
            if step.momentum is not None:
                np.testing.assert_allclose(h_hat, step.h + step.alpha * (step.c - step.momentum.explained), atol=1e-12)
