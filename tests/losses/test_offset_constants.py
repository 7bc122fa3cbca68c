"""The best constant of rows that start from offsets: compared with a search by scipy, and exact in its sums."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from agbm._losses import best_constant_with
from agbm.losses import (
    AbsoluteError,
    Exponential,
    Gamma,
    HalfSquaredError,
    Huber,
    LogLoss,
    Multinomial,
    Poisson,
    Quantile,
    Tweedie,
)

LOSSES = [
    HalfSquaredError(), AbsoluteError(), Quantile(0.8), Huber(0.7), Poisson(), Gamma(), Tweedie(1.3), LogLoss(),
    Exponential(),
]  # fmt: skip


def data(loss, n=60, seed=0, wide=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n).astype(float) if isinstance(loss, LogLoss | Exponential) else rng.gamma(2.0, size=n)
    return y, rng.integers(1, 5, n).astype(float), wide * rng.normal(size=n)


@pytest.mark.parametrize("wide", [0.1, 5.0])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_constant_is_better(loss, wide):
    y, weight, offset = data(loss, wide=wide)
    found = best_constant_with(loss, y, weight, offset)
    total = lambda c: loss.total(y, c + offset, weight)  # noqa: E731
    searched = minimize_scalar(total, bounds=(found - 3.0, found + 3.0), method="bounded", options={"xatol": 1e-10})
    assert total(found) <= searched.fun * (1.0 + 1e-12)
    assert total(found) < min(total(found - 3.0), total(found + 3.0))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bits_do_not_depend_on_order_or_on_how_rows_are_repeated(loss):
    y, weight, offset = data(loss)
    found = best_constant_with(loss, y, weight, offset)
    order = np.random.default_rng(1).permutation(len(y))
    assert best_constant_with(loss, y[order], weight[order], offset[order]) == found
    times = weight.astype(int)
    assert best_constant_with(loss, np.repeat(y, times), None, np.repeat(offset, times)) == found


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_offsets_of_zero_equal_no_offsets(loss):
    y, weight, offset = data(loss)
    assert best_constant_with(loss, y, weight, 0.0 * offset) == loss.best_constant(y, weight)


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie(1.5)], ids=repr)
def test_offsets_whose_exponentials_overflow(loss):
    y, weight, offset = data(loss)
    found = best_constant_with(loss, y, weight, offset)
    assert best_constant_with(loss, y, weight, offset + 5e3) == pytest.approx(found - 5e3)
    assert best_constant_with(loss, y, weight, offset - 5e3) == pytest.approx(found + 5e3)


@pytest.mark.parametrize("loss", [LogLoss(), Exponential()], ids=repr)
def test_one_class_only(loss):
    found = best_constant_with(loss, np.ones(5), None, np.linspace(-1.0, 1.0, 5))
    assert np.isfinite(found)
    assert found > 5.0


class TestClasses:
    def problem(self, n=200, wide=1.0, n_classes=3):
        rng = np.random.default_rng(0)
        y = rng.integers(0, n_classes, n).astype(float)
        y[y == 2] = np.where(rng.random(np.sum(y == 2)) < 0.7, 0.0, 2.0)  # a rare class
        return y, rng.integers(1, 4, n).astype(float), wide * rng.normal(size=(n_classes, n))

    @pytest.mark.parametrize("wide", [0.1, 1.0, 10.0, 100.0])
    def test_no_constants_are_better(self, wide):
        y, weight, offset = self.problem(wide=wide)
        loss = Multinomial(3)
        found = best_constant_with(loss, y, weight, offset)
        gradient = loss.negative_gradient(y, found[:, np.newaxis] + offset) @ weight / weight.sum()
        assert np.abs(gradient).max() < 1e-10
        assert found.sum() == pytest.approx(0.0, abs=1e-9 * (1.0 + wide))

        def total(free):
            return loss.total(y, np.append(free, 0.0)[:, np.newaxis] + offset, weight)

        assert loss.total(y, found[:, np.newaxis] + offset, weight) <= minimize(total, np.zeros(2)).fun * (1 + 1e-9)

    def test_a_good_model_as_offset_needs_no_constants(self):
        """Offsets that are nearly certain, and right on average: where iterations that shift odds would be slow."""
        rng = np.random.default_rng(1)
        score = 8.0 * rng.normal(size=(4, 5000))
        p = np.exp(score - score.max(axis=0))
        y = (rng.random(5000) < np.cumsum(p / p.sum(axis=0), axis=0)).argmax(axis=0).astype(float)
        found = best_constant_with(Multinomial(4), y, None, score)
        assert np.abs(found).max() < 0.2

    def test_bits_do_not_depend_on_order(self):
        y, weight, offset = self.problem()
        found = best_constant_with(Multinomial(3), y, weight, offset)
        order = np.random.default_rng(1).permutation(len(y))
        assert np.array_equal(best_constant_with(Multinomial(3), y[order], weight[order], offset[:, order]), found)

    def test_a_class_without_rows(self):
        offset = np.random.default_rng(0).normal(size=(3, 40))
        found = best_constant_with(Multinomial(3), np.arange(40.0) % 2, None, offset)
        assert np.isfinite(found).all()
        assert found[2] < found[:2].min() - 10.0

    def test_user_defined_losses_of_several_scores_have_none(self):
        class Mine(Multinomial):
            pass

        with pytest.raises(ValueError, match="use init='zero'"):
            best_constant_with(Mine(3), np.arange(6.0) % 3, None, np.ones((3, 6)))


def test_user_defined_losses_search_where_the_slope_is_zero():
    class Mine(HalfSquaredError):
        pass

    y, weight, offset = data(HalfSquaredError())
    expected = np.average(y - offset, weights=weight)
    assert best_constant_with(Mine(), y, weight, offset) == pytest.approx(expected, abs=1e-14)
