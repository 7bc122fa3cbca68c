"""Quantities of the analysis."""

import numpy as np
import pytest

from agbm.theory import Momentum, admissible_momentum, cosine, rate_bound, restart_length


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
