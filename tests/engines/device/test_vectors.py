"""Vectors of a device have the bits of the native kernels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm._base import _native
from agbm._base.sums import exact_sum, inner_sums
from agbm._engines.device import vectors
from agbm._engines.device.vectors import Quantity, Sums
from agbm.losses import HalfSquaredError
from devices import a_device

SIZES = st.sampled_from([0, 1, 31, 32, 33, 255, 256, 257, 1000, 4000])
SEEDS = st.integers(0, 2**32 - 1)
DEVICES = st.integers(1, 2).map(a_device)
SPECIAL = [0.0, -0.0, 5e-324, -2e-310, 1e-160, 1.7e308, -1.7e308, 2.0**1016, np.inf, -np.inf, np.nan]

LABELS = {
    "squared_error": "any", "absolute_error": "any", "quantile": "any", "huber": "any", "expectile": "any",
    "log_cosh": "any", "poisson": "counts",
    "gamma": "positive", "tweedie": "counts", "logistic": "shares", "exponential": "shares", "normal": "any",
    "log_normal": "positive", "student_t": "any", "gamma_distribution": "positive", "negative_binomial": "counts",
    "zero_inflated_poisson": "counts", "zero_inflated_gamma": "counts", "multinomial": "codes",
    "shares_of_classes": "shares",
}  # fmt: skip
PARAMETERS = {
    "quantile": 0.3,
    "huber": 0.7,
    "expectile": 0.8,
    "log_cosh": 1.5,
    "tweedie": 1.4,
    "student_t": 5.0,
    "absolute_error": 0.4,
}


def numbers(rng, shape, special=0.05):
    """Numbers of all sizes, some of them zero, denormal, huge, infinite or NaN."""
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20, size=shape)
    return np.where(rng.random(shape) < special, rng.choice(SPECIAL, size=shape), x)


def assert_same_bits(found, expected):
    """All NaN count as one: their bits differ between processors."""
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected))


def assert_same_sum(found, expected):
    assert found.units == expected.units
    assert np.array_equal(found.not_finite, expected.not_finite, equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n_rows=SIZES, n_outputs=st.integers(1, 3), device=DEVICES)
def test_mixtures_and_products(seed, n_rows, n_outputs, device):
    rng = np.random.default_rng(seed)
    x, y = numbers(rng, (n_outputs, n_rows + 3)), numbers(rng, (n_outputs, n_rows))
    a, b = rng.normal(size=2)
    on_device = device.to_device(x)[:, :n_rows], device.to_device(y)
    out = np.empty((n_outputs, n_rows))
    _native.mix(a, x[:, :n_rows], b, y, out, 1)
    assert_same_bits(device.to_host(vectors.mix(device, a, on_device[0], b, on_device[1])), out)
    _native.multiply(x[:, :n_rows], y, out, 1)
    assert_same_bits(device.to_host(vectors.multiply(device, *on_device)), out)


def labels(rng, kind, shape):
    if kind == "counts":
        return rng.poisson(1.0, size=shape).astype(float)
    if kind == "shares":
        return np.where(rng.random(shape) < 0.5, rng.integers(0, 2, size=shape), rng.random(shape))
    return np.exp(rng.normal(size=shape)) if kind == "positive" else rng.normal(size=shape)


def scores(rng, shape, special):
    """Mostly numbers that occur in training."""
    f = rng.normal(size=shape) * rng.choice([0.1, 3.0, 1000.0])
    return np.where(rng.random(shape) < special, rng.choice(SPECIAL, size=shape), f)


def rows_of(rng, name, n_rows, special):
    """Parameter, labels and scores of a loss."""
    family = _native.loss_kinds()[name][0]
    n_scores = {"loss": int(rng.integers(1, 4)), "distribution": 2, "multinomial": int(rng.integers(2, 6))}[family]
    n_scores = 3 if name == "zero_inflated_gamma" else n_scores
    f = scores(rng, (n_scores, n_rows), special)
    if name == "multinomial":
        return float(n_scores), rng.integers(0, n_scores, size=n_rows).astype(float), f
    if name == "shares_of_classes":
        y = rng.random(size=f.shape)
        return float(n_scores), y / y.sum(axis=0), f
    return PARAMETERS.get(name, 0.0), labels(rng, LABELS[name], n_rows if family == "distribution" else f.shape), f


def test_all_losses_are_tested():
    assert LABELS.keys() == _native.loss_kinds().keys()


@pytest.mark.parametrize("name", LABELS)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, n_rows=SIZES, device=DEVICES, special=st.sampled_from([0.0, 0.05]))
def test_losses(name, seed, n_rows, device, special):
    rng = np.random.default_rng(seed)
    parameter, y, f = rows_of(rng, name, n_rows, special)
    several = _native.loss_kinds()[name][0] != "loss"
    first = n_rows // 3  # a part of the rows, as for validation
    on_device = device.to_device(y)[..., first:], device.to_device(f)[..., first:]
    y, f = y[..., first:], f[..., first:]
    native = {
        Quantity.VALUE: (_native.loss_value, f.shape[1:] if several else f.shape),
        Quantity.NEGATIVE_GRADIENT: (_native.loss_negative_gradient, f.shape),
        Quantity.HESSIAN: (_native.loss_hessian, f.shape),
    }
    for quantity, (kernel, shape) in native.items():
        expected = np.empty(shape)
        kernel(name, parameter, y, f, expected, 1)
        found = vectors.loss_rows(device, name, parameter, quantity, *on_device)
        assert found.shape == shape
        assert_same_bits(device.to_host(found), expected)
        if quantity == Quantity.VALUE:
            values = expected
    for weight in (None, rng.uniform(size=f.shape[1])):
        sums = Sums(device, 2)
        sums.add_loss(1, name, parameter, *on_device, None if weight is None else device.to_device(weight))
        nothing, total = sums.totals()
        assert_same_sum(nothing, exact_sum(np.zeros(0)))
        assert_same_sum(total, exact_sum(values, weight))


@st.composite
def wide_vectors(draw):
    """Numbers of all sizes, cancelling ones, zeros, and some that are not finite."""
    rng, n = np.random.default_rng(draw(SEEDS)), draw(SIZES)
    low, high = sorted(draw(st.tuples(st.integers(-1074, 1023), st.integers(-1074, 1023))))
    x = np.ldexp(rng.uniform(-1, 1, size=n), rng.integers(low, high + 1, size=n))
    if draw(st.booleans()):
        x[n // 2 :] = -x[: n - n // 2]
    x[rng.random(n) < draw(st.sampled_from([0.0, 0.5, 0.99]))] = draw(st.sampled_from([0.0, -0.0]))
    x[rng.random(n) < 0.01] = draw(st.sampled_from([1.0, 2.0**1014, 2.0**1015, -5e-324, math.inf, -math.inf, math.nan]))
    return x


@settings(max_examples=80, deadline=None)
@given(x=wide_vectors(), device=DEVICES, seed=SEEDS, weights=st.sampled_from(["none", "counts", "relative", "any"]))
def test_sums_are_exact(x, device, seed, weights):
    rng = np.random.default_rng(seed)
    weight = {
        "none": None,
        "counts": rng.integers(1, 1000, size=len(x)).astype(float),
        "relative": rng.uniform(size=len(x)),
        "any": np.abs(numbers(rng, len(x))),
    }[weights]
    on_device = device.to_device(x), None if weight is None else device.to_device(weight)
    sums = Sums(device, 2)
    sums.add(0, *on_device)
    sums.add(1, *on_device)
    sums.add(1, on_device[0], None)
    with np.errstate(all="ignore"):
        expected = exact_sum(x, weight)
        assert_same_sum(sums.totals()[0], expected)
        assert_same_sum(sums.totals()[1], expected + exact_sum(x))


@settings(max_examples=30, deadline=None)
@given(
    seed=SEEDS, n_rows=SIZES, n_outputs=st.integers(1, 3), device=DEVICES, weighted=st.booleans(), special=st.booleans()
)
def test_inner_products(seed, n_rows, n_outputs, device, weighted, special):
    rng = np.random.default_rng(seed)
    x, y = numbers(rng, (2, n_outputs, n_rows + 5), 0.01 * special)
    weight = rng.uniform(size=n_rows) if weighted else None
    sums = Sums(device, 4)
    on_device = device.to_device(x)[:, 5:], device.to_device(y)[:, :n_rows]
    sums.add_products(1, *on_device, None if weight is None else device.to_device(weight))
    expected = inner_sums(x[:, 5:], y[:, :n_rows], weight)
    for found, wanted in zip(sums.totals(), [exact_sum(np.zeros(0)), *expected], strict=True):
        assert_same_sum(found, wanted)


def test_counts_repeat_rows():
    """What makes weights exact: a row with weight 3 adds as much as three rows."""
    rng, device = np.random.default_rng(0), a_device()
    y, f = rng.normal(size=(2, 1, 700))
    counts = rng.integers(1, 5, size=700)
    sums = Sums(device, 2)
    for k, (repeats, weight) in enumerate([(np.ones(700, dtype=int), counts.astype(float)), (counts, None)]):
        rows = [device.to_device(np.repeat(x, repeats, axis=1)) for x in (y, f)]
        sums.add_loss(k, "squared_error", 0.0, *rows, None if weight is None else device.to_device(weight))
    first, second = sums.totals()
    assert first == second == HalfSquaredError().exact_total(y, f, counts.astype(float))
