"""Vectors of a device have the bits of the native kernels."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm import _native
from agbm._device import vectors
from emulated_device import EmulatedDevice

SIZES = st.sampled_from([0, 1, 31, 32, 33, 255, 256, 257, 1000, 5000])


def numbers(rng, shape):
    """Numbers of all sizes, some of them zero, denormal, huge, infinite or NaN."""
    special = [0.0, -0.0, 5e-324, -2e-310, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20, size=shape)
    return np.where(rng.random(shape) < 0.05, rng.choice(special, size=shape), x)


def assert_same_bits(found, expected):
    """All NaN count as one: their bits differ between processors."""
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_rows=SIZES, n_outputs=st.integers(1, 3), n_processors=st.integers(1, 2))
def test_sums_and_products(seed, n_rows, n_outputs, n_processors):
    rng, device = np.random.default_rng(seed), EmulatedDevice(n_processors)
    x, y = numbers(rng, (n_outputs, n_rows + 3)), numbers(rng, (n_outputs, n_rows))
    a, b = rng.normal(size=2)
    on_device = device.to_device(x)[:, :n_rows], device.to_device(y)
    out = np.empty((n_outputs, n_rows))
    _native.mix(a, x[:, :n_rows], b, y, out, 1)
    found = vectors.mix(device, a, on_device[0], b, on_device[1])
    assert_same_bits(device.to_host(found), out)
    _native.multiply(x[:, :n_rows], y, out, 1)
    found = vectors.multiply(device, *on_device)
    assert_same_bits(device.to_host(found), out)
