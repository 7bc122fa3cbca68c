"""Losses of labels that are probabilities, against the NumPy twin and the losses of classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm.losses import CrossEntropy, LogLoss, Multinomial, MultinomialCrossEntropy
from loss_twin import twin_of

QUANTITIES = ("value", "negative_gradient", "hessian")


def shares(rng, n_classes, n):
    return np.ascontiguousarray(rng.dirichlet(np.full(n_classes, 0.5), n).T)


def close(got, expected, f):
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13 * (1.0 + np.abs(f).max(initial=0.0)))


@given(data=st.data())
def test_two_classes_against_the_twin(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n, largest = data.draw(st.integers(1, 300)), data.draw(st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
    y, f = rng.random(n), largest * rng.uniform(-1.0, 1.0, n)
    loss = CrossEntropy()
    for quantity in QUANTITIES:
        close(getattr(loss, quantity)(y, f), getattr(twin_of(loss), quantity)(y, f), f)


@given(data=st.data())
def test_many_classes_against_the_twin(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_classes, n = data.draw(st.sampled_from([2, 3, 7, 100])), data.draw(st.integers(1, 300))
    largest = data.draw(st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
    y, f = shares(rng, n_classes, n), largest * rng.uniform(-1.0, 1.0, (n_classes, n))
    loss = MultinomialCrossEntropy(n_classes)
    for quantity in QUANTITIES:
        got = getattr(loss, quantity)(y, f)
        assert got.shape == ((n,) if quantity == "value" else f.shape)
        close(got, getattr(twin_of(loss), quantity)(y, f), f)


@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_one_hot_labels_have_the_bits_of_codes(n_classes):
    rng = np.random.default_rng(0)
    codes, f = rng.integers(0, n_classes, 700), 3.0 * rng.normal(size=(n_classes, 700))
    y = np.ascontiguousarray(np.eye(n_classes)[codes].T)
    weight = rng.integers(1, 4, 700).astype(float)
    soft, hard = MultinomialCrossEntropy(n_classes), Multinomial(n_classes)
    for quantity in QUANTITIES:
        assert np.array_equal(getattr(soft, quantity)(y, f), getattr(hard, quantity)(codes.astype(float), f))
    assert soft.total(y, f, weight) == hard.total(codes.astype(float), f, weight)
    assert np.array_equal(soft.best_constant(y, weight), hard.best_constant(codes.astype(float), weight))
    binary = CrossEntropy().value(y[0], f[0])
    assert np.array_equal(binary, LogLoss().value(y[0], f[0]))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_gradient_is_the_slope(n_classes):
    rng = np.random.default_rng(1)
    y, f, step = shares(rng, n_classes, 50), rng.normal(size=(n_classes, 50)), 1e-6
    loss = MultinomialCrossEntropy(n_classes)
    for k in range(n_classes):
        move = np.zeros_like(f)
        move[k] = step
        slope = (loss.value(y, f + move) - loss.value(y, f - move)) / (2 * step)
        np.testing.assert_allclose(loss.negative_gradient(y, f)[k], -slope, atol=1e-8)


@pytest.mark.parametrize("weight", [None, np.random.default_rng(2).random(90)])
def test_best_constant_has_zero_gradient(weight):
    rng = np.random.default_rng(3)
    y, loss = shares(rng, 4, 90), MultinomialCrossEntropy(4)
    best = loss.best_constant(y, weight)
    slopes = loss.negative_gradient(y, np.tile(best[:, np.newaxis], 90))
    np.testing.assert_allclose(np.average(slopes, axis=1, weights=weight), 0.0, atol=1e-14)
    binary = CrossEntropy()
    slope = binary.negative_gradient(y[0], np.full(90, binary.best_constant(y[0], weight)))
    assert np.average(slope, weights=weight) == pytest.approx(0.0, abs=1e-14)


def test_the_same_bits_for_every_number_of_threads_and_any_layout():
    rng = np.random.default_rng(4)
    n = 3 * 16384 + 777
    y, f = shares(rng, 3, n), rng.normal(size=(3, n))
    loss = MultinomialCrossEntropy(3)
    for quantity in QUANTITIES:
        expected = getattr(loss, quantity)(y, f)
        for n_threads in (2, 4):
            assert getattr(loss.with_threads(n_threads), quantity)(y, f).tobytes() == expected.tobytes()
        part = getattr(loss, quantity)(y[:, 5:900], f[:, 5:900])
        assert np.array_equal(part, expected[..., 5:900])
        assert np.array_equal(getattr(loss, quantity)(np.asfortranarray(y), f), expected)
    totals = {loss.with_threads(n_threads).total(y, f, None) for n_threads in (1, 2, 4)}
    assert len(totals) == 1
    first, second = loss.exact_total(y[:, :100], f[:, :100], None), loss.exact_total(y[:, 100:], f[:, 100:], None)
    assert float(first + second) in totals


@pytest.mark.parametrize(
    ("y", "f"),
    [
        (np.zeros(4), np.zeros((3, 4))),
        (np.zeros((2, 4)), np.zeros((3, 4))),
        (np.zeros((3, 5)), np.zeros((3, 4))),
        (np.zeros((3, 4)), np.zeros((2, 4))),
        (np.zeros((3, 4)), np.zeros(4)),
    ],
)
def test_wrong_shapes(y, f):
    for quantity in QUANTITIES:
        with pytest.raises(ValueError, match=r"[yf]: "):
            getattr(MultinomialCrossEntropy(3), quantity)(y, f)


@pytest.mark.parametrize("y", [np.array([0.5, 1.5]), np.array([-0.1, 0.5])])
def test_invalid_labels_raise(y):
    with pytest.raises(ValueError, match="probabilities between 0 and 1 for loss CrossEntropy"):
        CrossEntropy().check(y)
    with pytest.raises(ValueError, match="probabilities between 0 and 1 for loss MultinomialCrossEntropy"):
        MultinomialCrossEntropy(2).check(np.stack([y, y]))
