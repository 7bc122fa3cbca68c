"""Quantities of the paper's analysis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm import AGBMRegressor
from agbm._base.sums import inner_sums
from agbm._core import boosting
from agbm._core.ensemble import Ensemble, Update
from agbm._core.schedules import FadingSchedule, PaperSchedule
from agbm._core.theory import (
    ErrorTerm,
    admissible_momentum,
    cosine,
    potential,
    rate_bound,
    restart_length,
)
from agbm.losses import HalfSquaredError
from agbm.methods import VAGBM, Fading
from toys import StretchedSquaredError, VectorFitter, problem_of, strongest


def test_cosine():
    def of(target, fitted, weight=None):
        return cosine(*inner_sums(np.array([target]), np.array([fitted]), weight))

    assert of([1.0, 0.0], [1.0, 1.0]) == pytest.approx(np.sqrt(0.5))
    assert of([1.0, 2.0], [2.0, 4.0]) == pytest.approx(1.0)
    assert of([1.0, 2.0], [0.0, 0.0]) == 0.0
    assert of([0.0, 0.0], [0.0, 0.0]) == 1.0
    # A weight has the same effect as repeating a row.
    repeated = of([1.0, 3.0, 3.0], [2.0, 1.0, 1.0])
    assert of([1.0, 3.0], [2.0, 1.0], np.array([1.0, 2.0])) == pytest.approx(repeated)
    # Several outputs are treated as one long vector.
    several = cosine(*inner_sums(np.array([[1.0, 0.0], [2.0, -1.0]]), np.array([[1.0, 1.0], [2.0, 0.5]])))
    assert several == pytest.approx(of([1.0, 0.0, 2.0, -1.0], [1.0, 1.0, 2.0, 0.5]))


def test_admissible_momentum_is_the_theorems():
    assert admissible_momentum(1.0) == 0.2
    assert admissible_momentum(0.65) == pytest.approx(0.0404, abs=1e-4)
    assert admissible_momentum(0.3) == pytest.approx(0.00198, abs=1e-5)
    assert admissible_momentum(-0.5) == 0.0


def test_momentum():
    fixed, theory = PaperSchedule(0.2, 0.7), PaperSchedule(0.2, "theory")
    for momentum in (fixed, theory):
        momentum.observe(0.9, 0.5)
        momentum.observe(0.6)
        assert momentum.eta(3) == 0.2
        assert momentum.theta(3) == 0.4
        assert momentum.alpha(3) == momentum.gamma(3) * 0.2 / 0.4
    assert fixed.gamma(3) == 0.7
    assert theory.gamma(3) == admissible_momentum(0.5)
    theory.observe(1e-3)
    assert theory.gamma(3) == theory.alpha(3) == 0.0


class TestFading:
    def test_by_hand(self):
        fading = FadingSchedule(rate=0.1, entry=0.5, fade=0.25, growth=1.0)
        fading.observe(0.0)
        assert fading.eta(0) == 0.5
        assert [fading.theta(m) for m in (0, 1, 100)] == [0.25, 0.25, 0.25]
        assert [fading.alpha(m) for m in (0, 1, 4, 100)] == [0.1, 0.2, 0.5, 0.5]
        assert FadingSchedule(rate=0.6, entry=0.5, fade=0.25, growth=1.0).eta(0) == 0.6
        ahead = FadingSchedule(rate=0.1, entry=0.5, fade=0.25, growth=1.0, look_ahead=3.0)
        assert [ahead.eta(m) for m in (0, 100)] == [0.2, 0.5]

    @given(
        st.floats(1e-6, 2.0), st.floats(0.0, 1.0, exclude_min=True), st.floats(0.0, 1.0), st.floats(0.0, 10.0),
        st.floats(0.0, 10.0), st.integers(1, 40),
    )  # fmt: skip
    def test_a_weight_never_rises_after_its_entry_and_is_never_negative(
        self, rate, entry, fade, growth, look_ahead, iterations
    ):
        """It does not fall below alpha either, its weight in h."""
        s = FadingSchedule(rate, entry, fade, growth, look_ahead)
        updates = [Update(s.theta(m), s.eta(m), m, s.alpha(m), m, False, ()) for m in range(iterations)]
        ensemble = Ensemble(functions=[(m, 0) for m in range(iterations)], updates=updates)
        before = np.zeros(iterations)
        for m in range(iterations):
            weights, lasting = ensemble.coefficients(m + 1)
            assert (weights[:m] <= before[:m] * (1 + 1e-12)).all()
            assert (weights >= lasting * (1 - 1e-12)).all()
            assert (lasting >= 0).all()
            assert weights[m] == s.eta(m)
            before = weights

    @given(
        st.floats(1e-3, 1.0), st.floats(1e-3, 1.0), st.floats(1e-3, 0.999), st.floats(1e-3, 1.0),
    )  # fmt: skip
    def test_contracts_on_a_quadratic_with_a_strong_learner(self, eta, share, theta, product):
        """See docs/acceleration.md: for 0 < eta lambda <= 1, alpha <= eta, theta in (0, 1)."""
        curvature, alpha = product / eta, share * eta
        step = np.array([[1 - theta - eta * curvature, theta], [-alpha * curvature, 1.0]])
        assert np.abs(np.linalg.eigvals(step)).max() < 1.0
        problem = problem_of(StretchedSquaredError(np.full(3, curvature)), np.zeros(3), start=np.ones(3))
        fading = boosting.fading(
            problem, VectorFitter(lambda r: r.copy()), schedule=FadingSchedule(alpha, eta, theta, 0.0), max_iter=5
        )
        for m, result in enumerate(fading, start=1):
            expected = np.linalg.matrix_power(step, m) @ np.ones(2)
            np.testing.assert_allclose([result.f[0, 0], result.h[0, 0]], expected, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("method", ["fading", "vagbm"])
    def test_the_closed_form_of_the_weights(self, regression, method):
        """A tree keeps alpha; the excess of its entry weight is multiplied by 1 - fade in every later iteration."""
        fading = Fading(entry=6.0, fade=0.25, growth=0.05, look_ahead=0.0)
        method = fading if method == "fading" else VAGBM(momentum=fading)
        model = AGBMRegressor(method=method, n_members=1, learning_rate=0.1, max_iter=30, max_depth=2).fit(*regression)
        m = np.arange(30)
        alpha = 0.1 * (1 + 0.05 * m)
        weights, lasting = model.model_.ensembles[0].coefficients()
        np.testing.assert_allclose(weights, alpha + (0.6 - alpha) * 0.75 ** (29 - m), rtol=1e-12)
        np.testing.assert_allclose(lasting, alpha, rtol=1e-12)
        np.testing.assert_allclose(model.history_["theta"][1:], 0.25)
        np.testing.assert_allclose(model.history_["momentum"][1:], alpha * 0.25 / 0.6)

    @pytest.mark.parametrize("method", ["fading", "vagbm"])
    @pytest.mark.parametrize("fade", [0.0, 0.3, 1.0])
    def test_without_growth_from_the_weight_at_entry_it_is_plain_boosting(self, regression, method, fade):
        X, y = regression
        common = {"n_members": 1, "colsample_bynode": 1.0, "learning_rate": 0.2, "max_iter": 50, "max_depth": 3}
        plain = AGBMRegressor(method="gbm", **common).fit(X, y).predict(X)
        fading = Fading(entry=1.0, growth=0.0, fade=fade)
        faded = AGBMRegressor(method=fading if method == "fading" else VAGBM(momentum=fading), **common)
        np.testing.assert_allclose(faded.fit(X, y).predict(X), plain, rtol=1e-12)


def test_bound_and_restart_length():
    assert rate_bound(4.0, 0.5, 0.1, 3) == pytest.approx(4.0 / (2 * 0.05 * 16))
    assert restart_length(0.5, 0.1, 0.4) == pytest.approx(10.0)
    assert restart_length(0.5, 0.0, 0.4) == np.inf


class TestProof:
    def test_error_term_by_hand(self):
        """With theta = 0.5 and gamma = 0.05, s = 0.2 and t = 0.4."""
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
            problem, VectorFitter(strongest(0.3)), schedule=PaperSchedule(1.0, 0.1), correction=1.0, length=lambda _: 20
        ):
            h_hat = h_hat + step.alpha * step.r
            if step.momentum is not None:
                np.testing.assert_allclose(h_hat, step.h + step.alpha * (step.c - step.momentum.explained), atol=1e-12)
