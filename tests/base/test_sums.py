"""Sums over rows: exact for any order and any distribution of the rows."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agbm._base import _native
from agbm._base.sums import ExactSum, exact_mean, exact_sum, inner_sums, rounded_inner_sums, weight_sum
from agbm._base.weights import Weights
from agbm._core.objective import LocalObjective
from agbm.losses import AbsoluteError, Gamma, HalfSquaredError, Huber, LogLoss, Multinomial, Poisson, Quantile
from profiles import examples

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST, SMALLEST = 1.7976931348623157e308, 5e-324


def fractions(x, weight=1.0):
    """The sum, computed with rational numbers."""
    pairs = zip(np.ravel(x).tolist(), np.broadcast_to(weight, np.shape(x)).ravel().tolist(), strict=True)
    return sum((Fraction(number) * Fraction(times) for number, times in pairs), Fraction(0))


def value(found):
    assert found.not_finite == 0.0
    return Fraction(found.units, 2**1074)


@st.composite
def wide_vectors(draw):
    """Vectors that fill several blocks and tasks, with numbers of all sizes, cancelling ones and zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([1, 15, 16, 17, 1023, 1024, 1025, 5000, 16384, 16385, 40_000]))
    low, high = sorted(draw(st.tuples(st.integers(-1074, 1023), st.integers(-1074, 1023))))
    x = np.ldexp(rng.uniform(-1, 1, size=n), rng.integers(low, high + 1, size=n))
    if draw(st.booleans()):
        x[n // 2 :] = -x[: n - n // 2]
    x[rng.random(n) < draw(st.sampled_from([0.0, 0.5, 0.99]))] = draw(st.sampled_from([0.0, -0.0]))
    return x


@given(st.lists(FINITE, max_size=40))
@example([])
@example([LARGEST] * 40)
@example([LARGEST, 1.0, SMALLEST, -LARGEST])
@example([-SMALLEST] * 3)
@example([2.0**1014, 2.0**1015, 1.0])
@example([2.0**-985, 2.0**-1074, -(2.0**-1022)])
def test_sums_are_exact(numbers):
    found = exact_sum(np.array(numbers))
    assert value(found) == fractions(numbers)
    try:
        expected = math.fsum(numbers)
    except OverflowError:  # also if only a partial sum overflows
        return
    assert float(found) == expected


@pytest.mark.slow
@given(x=wide_vectors(), seed=st.integers(0, 2**32 - 1))
def test_sums_do_not_depend_on_order_partition_or_threads(x, seed):
    rng = np.random.default_rng(seed)
    found = exact_sum(x)
    assert value(found) == fractions(x)
    assert found == exact_sum(x, n_threads=3) == exact_sum(rng.permutation(x))
    parts = np.split(x, np.sort(rng.integers(0, len(x) + 1, size=4)))
    assert found == sum(map(exact_sum, parts), ExactSum())
    assert found == exact_sum(np.stack([x, np.zeros_like(x)]))


@given(units=st.integers(-(2**2200), 2**2200))
@example(2**1074 + 2**1021)
@example(2**1074 + 2**1021 + 1)
@example(3 * 2**1021 + 2**1074)
@example((2**54 - 1) * 2**2044)
@example(-(2**2098))
def test_float_rounds_once_to_the_nearest(units):
    found = float(ExactSum(units))
    exact = Fraction(units, 2**1074)
    if math.isinf(found):
        assert abs(exact) >= Fraction(LARGEST) + Fraction(2) ** 970
        assert (found > 0) == (exact > 0)
        return
    error = abs(Fraction(found) - exact)
    for neighbour in (math.nextafter(found, math.inf), math.nextafter(found, -math.inf)):
        if math.isfinite(neighbour):
            other = abs(Fraction(neighbour) - exact)
            assert error < other or (error == other and math.frexp(found)[0] * 2**53 % 2 == 0)


@pytest.mark.parametrize("n_rows", [3, 5000, 40_000])
def test_non_finite_sums(n_rows):
    for bad in itertools.permutations([1.0, math.inf, -math.inf, math.nan, LARGEST], 2):
        x = np.ones(n_rows)
        x[[0, -1]] = bad
        found = float(exact_sum(x))
        assert np.array_equal(found, sum(bad), equal_nan=True)
        parts = exact_sum(x[:1]) + exact_sum(x[1:])
        assert np.array_equal(float(parts), found, equal_nan=True)
        assert np.array_equal(parts / weight_sum(None, n_rows), found / n_rows, equal_nan=True)
        assert parts.units == exact_sum(x[np.isfinite(x)]).units
    assert float(exact_sum(np.full(n_rows, LARGEST))) == math.inf
    assert float(exact_sum(np.full(n_rows, -LARGEST))) == -math.inf
    assert exact_mean(np.full(n_rows, LARGEST)) == math.inf, "too large to add up"


def test_sums_of_many_processes():
    part = exact_sum(np.full(1000, LARGEST))
    total = part
    for _ in range(90):  # 2^90 * 1000 numbers
        total = total + total
    assert value(total) == 1000 * 2**90 * Fraction(LARGEST)
    assert pickle.loads(pickle.dumps(total)) == total
    assert len(pickle.dumps(total)) < 500


@pytest.mark.slow
@examples(8)
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.sampled_from([1, 17, 1025, 20_000]), weighted=st.booleans())
def test_inner_products_round_each_row_and_nothing_else(seed, n_rows, weighted):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 2, n_rows + 3))[..., :n_rows] * 10.0 ** rng.integers(-9, 9, size=n_rows)
    weight = rng.uniform(size=n_rows) if weighted else None
    w = np.ones(n_rows) if weight is None else weight
    found = inner_sums(x, y, weight)
    assert [value(s) for s in found] == [fractions(x * x, w), fractions(x * y, w), fractions(y * y, w)]
    assert found == inner_sums(x, y, weight, n_threads=3)
    order = rng.permutation(n_rows)
    assert found == inner_sums(x[:, order], y[:, order], None if weight is None else weight[order])


@pytest.mark.parametrize("exponent", [-537, -520, -60, 0, 480, 510])
def test_rounded_inner_sums_are_the_nearest_doubles(exponent):
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = rng.integers(1, 6)
        x, y = rng.normal(size=(2, 1, n)) * 2.0 ** (exponent + rng.integers(0, 60, size=(2, 1, n)) / 2).round()
        if rng.random() < 0.5:  # products of few bits, whose sums are often half way between two doubles
            x, y = 2.0 ** np.floor(np.log2(np.abs(x))), -(2.0 ** np.floor(np.log2(np.abs(y))))
        np.testing.assert_array_equal(rounded_inner_sums(x, y), [float(each) for each in inner_sums(x, y)])
    x = np.array([[1.0, 2.0**-27, 2.0**-27]])
    assert rounded_inner_sums(x, np.ones((1, 3)))[0] == 1.0 + 2.0**-53 + 2.0**-53
    assert rounded_inner_sums(np.zeros((1, 2)), np.array([[np.inf, 1.0]]))[2] == np.inf


LOSSES = [HalfSquaredError(), LogLoss(), Poisson(), Gamma(), Huber(0.5), Quantile(0.2), Multinomial(3)]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n_rows", [1, 9, 40_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_total_of_a_loss(loss, n_rows, weighted):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=n_rows).astype(float)
    f = rng.normal(size=(3, n_rows) if isinstance(loss, Multinomial) else n_rows)
    weight = rng.uniform(size=n_rows) if weighted else None
    w = np.ones(n_rows) if weight is None else weight
    found = loss.exact_total(y, f, weight)
    assert value(found) == fractions(loss.value(y, f), w)
    assert loss.with_threads(3).exact_total(y, f, weight) == found
    cut = n_rows // 3
    parts = [
        loss.exact_total(y[rows], f[..., rows], None if weight is None else weight[rows])
        for rows in (slice(0, cut), slice(cut, None))
    ]
    assert parts[0] + parts[1] == found
    assert loss.total(y, f, weight) == float(found)


@pytest.mark.parametrize("loss", [*LOSSES, AbsoluteError()], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_start_and_curvature_do_not_depend_on_the_order(loss, weighted):
    rng = np.random.default_rng(1)
    n = 20_001
    y = rng.integers(0, 3, size=n).astype(float) if isinstance(loss, Multinomial) else rng.integers(0, 2, size=n) + 0.1
    f = rng.normal(size=(3, n) if isinstance(loss, Multinomial) else n)
    weight = 10.0 ** rng.uniform(-6, 0, size=n) if weighted else None
    start, hessian = loss.best_constant(y, weight), loss.hessian(y, f, weight)
    for _ in range(5):
        order = rng.permutation(n)
        w = None if weight is None else weight[order]
        assert np.array_equal(loss.best_constant(y[order], w), start)
        assert np.array_equal(loss.hessian(y[order], f[..., order], w), hessian[..., order])


@given(
    x=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    share=st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 0.9]),
    unit=st.sampled_from([1.0, 1 / 3, 1e-300, 1e300, 0.1]),
)
def test_equal_weights_of_any_size_leave_a_quantile_as_it_is(x, share, unit):
    y = np.array(x, dtype=float)
    expected = Quantile(share).best_constant(y, None)
    assert Quantile(share).best_constant(y, np.full(len(y), unit)) == expected


def test_quotients_that_overflow():
    tiny = exact_sum(np.array([-1e-300]))
    assert exact_sum(np.array([1e300])) / tiny == -math.inf
    assert exact_sum(np.array([-1e300])) / tiny == math.inf
    assert exact_sum(np.array([3e-300])) / tiny == -3.0
    with pytest.raises(ZeroDivisionError):
        tiny / ExactSum()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60))
@example([5e-324] * 2 + [0.0])  # two thirds of the smallest double
@example([5e-324, 0.0])
@example([1.5e-323, 0.0])
@example([1.7e308, 1.7e308])  # the sum is too large for a double, though not the mean
def test_kernels_round_means_once(numbers):
    y = np.array(numbers)
    assert _native.loss_mean("absolute_error", 1.0, y, np.zeros(len(y)), 1) == exact_mean(abs(y))


def test_the_mean_of_equal_numbers_is_that_number():
    for n, x in itertools.product([3, 10, 49, 1000], [0.1, 1 / 3, 1 / 49, 1e300]):
        assert exact_mean(np.full(n, x)) == x
        assert exact_mean(np.full((2, n), x)) == x
    assert exact_mean(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 3.0])) == (4.0 + 18.0) / 8.0


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_problems_with_parts_of_the_rows(weighted):
    rng = np.random.default_rng(2)
    n_train, n = 7000, 9000
    y, f, b = rng.normal(size=(3, 2, n))
    weight = rng.uniform(size=n) if weighted else None

    def problem(train, validation):
        rows = np.append(train, validation)
        weights = None if weight is None else Weights(None, weight[train])
        w = None if weight is None else weight[validation]
        of = LocalObjective(HalfSquaredError(), y[:, rows], len(train), f[:, rows], weights, validation_weight=w)
        return of, rows

    whole, _ = problem(np.arange(n_train), np.arange(n_train, n))
    parts = [problem(np.arange(k, n_train, 3), np.arange(n_train + k, n, 3)) for k in range(3)]

    def together(of):
        return sum((of(part, rows) for part, rows in parts), ExactSum())

    assert whole.train_loss_sum(f) == together(lambda p, rows: p.train_loss_sum(f[:, rows]))
    assert whole.validation_loss_sum(f) == together(lambda p, rows: p.validation_loss_sum(f[:, rows]))
    assert whole.train_weight_sum == together(lambda p, rows: p.train_weight_sum)
    assert whole.validation_weight_sum == together(lambda p, rows: p.validation_weight_sum)
    residual = whole.residual(f)
    for k in range(3):
        assert whole.inner_sums(residual, b)[k] == together(
            lambda p, rows, k=k: p.inner_sums(p.residual(f[:, rows]), b[:, rows])[k]
        )
    w = np.ones(n) if weight is None else weight
    assert whole.train_loss(f) == pytest.approx(
        np.sum(0.5 * (y - f)[:, :n_train] ** 2 * w[:n_train]) / np.sum(w[:n_train]), rel=1e-13
    )
    assert whole.inner(residual, b) == pytest.approx(np.sum(residual * b[:, :n_train] * w[:n_train]), rel=1e-10)


def test_kernels_accept_any_memory_layout():
    x = np.arange(24.0).reshape(3, 8)
    assert float(exact_sum(x[:, ::2])) == x[:, ::2].sum()
    assert float(exact_sum(x.T)) == x.sum()
    assert _native.exact_sum(x[:, 3:], None, 1) == _native.exact_sum(x[:, 3:].copy(), None, 1)
