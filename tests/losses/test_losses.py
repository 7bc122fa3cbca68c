"""Every loss: derivatives, best constants, links, extreme scores, labels; the kernels compared with NumPy."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from agbm._base import _native
from agbm._losses import exp, has_kernels, log
from agbm.losses import (
    AbsoluteError,
    Expectile,
    Exponential,
    Gamma,
    HalfSquaredError,
    Huber,
    LogCosh,
    LogLoss,
    Multinomial,
    MultinomialCrossEntropy,
    Poisson,
    Quantile,
    Tweedie,
)
from loss_twin import twin_of

NUMBERS = np.array([-2.0, 0.0, 0.5, 30.0, 1.25])
LABELS = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
CODES = np.array([0.0, 2.0, 1.0, 1.0, 2.0])
COUNTS = np.array([0.0, 1.0, 3.0, 12.0, 0.5])
LOSSES = {
    "squared": (HalfSquaredError(), NUMBERS),
    "absolute": (AbsoluteError(), NUMBERS),
    "quantile": (Quantile(0.8), NUMBERS),
    "huber": (Huber(1.5), NUMBERS),
    "expectile": (Expectile(0.8), NUMBERS),
    "log-cosh": (LogCosh(1.5), NUMBERS),
    "poisson": (Poisson(), COUNTS),
    "gamma": (Gamma(), COUNTS + 0.1),
    "tweedie": (Tweedie(1.3), COUNTS),
    "logistic": (LogLoss(), LABELS),
    "exponential": (Exponential(), LABELS),
    "3 classes": (Multinomial(3), CODES),
    "7 classes": (Multinomial(7), CODES),
}
PARABOLAS_ABOVE = ("absolute", "quantile", "huber", "log-cosh")
"""Losses whose curvature is that of a parabola above them."""
QUANTITIES = ("value", "negative_gradient", "hessian")
every_loss = pytest.mark.parametrize("name", LOSSES)


def scores_like(loss, y, f):
    """Scores of about f for every row; for several classes, some near f and some near -f."""
    if not isinstance(loss, Multinomial):
        return np.full(len(y), f)
    return f * np.cos(np.arange(loss.n_classes))[:, np.newaxis] + 0.1 * np.arange(len(y))


def along_each_score(loss, y, scores, step):
    """For each score of a row: its index, and the scores with this one decreased and increased."""
    for k in range(1 if scores.ndim == 1 else len(scores)):
        move = np.zeros_like(scores)
        np.atleast_2d(move)[k] = step
        yield k, scores - move, scores + move


@every_loss
def test_gradient(name):
    loss, y = LOSSES[name]
    for f in np.linspace(-3.1, 3.1, 12):
        scores, step = scores_like(loss, y, f), 1e-6
        residual = np.atleast_2d(loss.negative_gradient(y, scores))
        for k, down, up in along_each_score(loss, y, scores, step):
            slope = (loss.value(y, up) - loss.value(y, down)) / (2 * step)
            np.testing.assert_allclose(residual[k], -slope, rtol=1e-5, atol=1e-7)


@every_loss
def test_hessian(name):
    loss, y = LOSSES[name]
    for f in np.linspace(-3.1, 3.1, 12):
        scores, step = scores_like(loss, y, f), 1e-5
        if name in PARABOLAS_ABOVE:  # the parabola with that curvature lies above the loss
            for other in np.linspace(-40, 40, 33):
                move = other - scores
                parabola = loss.value(y, scores) - loss.negative_gradient(y, scores) * move
                parabola = parabola + 0.5 * loss.hessian(y, scores) * move**2
                far = np.abs(y - scores) >= np.median(np.abs(y - scores))  # closer rows have less curvature
                far = far | (name in ("huber", "log-cosh"))
                assert np.all((loss.value(y, np.full(len(y), other)) <= parabola + 1e-9)[far])
        else:
            hessian = np.atleast_2d(loss.hessian(y, scores))
            factor = 1.0 if scores.ndim == 1 else len(scores) / (len(scores) - 1)
            for k, down, up in along_each_score(loss, y, scores, step):
                bend = (loss.negative_gradient(y, down) - loss.negative_gradient(y, up)) / (2 * step)
                expected = factor * np.atleast_2d(bend)[k]
                if not isinstance(loss, (HalfSquaredError, Expectile, Exponential)):  # no step is longer than that
                    longest = 2 if isinstance(loss, Tweedie) else 6
                    residual = np.atleast_2d(loss.negative_gradient(y, scores))[k]
                    expected = np.maximum(expected, np.abs(residual) / longest)
                np.testing.assert_allclose(hessian[k], expected, rtol=1e-4, atol=1e-7)
            assert np.all(hessian <= loss.smoothness + 1e-12)


@every_loss
@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5, 3.0, 0.7])])
def test_best_constant(name, weight):
    loss, y = LOSSES[name]
    found = loss.best_constant(y, weight)
    if isinstance(loss, Multinomial):  # convex: the smallest loss is where the slopes are zero
        slopes = np.average(loss.negative_gradient(y, np.tile(found[:, np.newaxis], len(y))), axis=1, weights=weight)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-10)
        assert found.mean() == pytest.approx(0.0, abs=1e-12)
        return

    def total(f):
        return np.average(loss.value(y, np.full(len(y), f)), weights=weight)

    best = minimize_scalar(total, bounds=(-5, 35), method="bounded", options={"xatol": 1e-9})
    assert total(found) <= best.fun + 1e-9


@every_loss
def test_integer_weights_equal_repeated_rows(name):
    loss, y = LOSSES[name]
    times = np.array([1, 2, 3, 1, 4])
    expected = loss.best_constant(np.repeat(y, times), None)
    assert loss.best_constant(y, times.astype(float)) == pytest.approx(expected, abs=1e-9)


@every_loss
def test_the_hessian_counts_weights_as_rows(name):
    loss, y = LOSSES[name]
    times = np.array([1, 2, 3, 1, 4])
    scores = scores_like(loss, y, 0.4)
    repeated = loss.hessian(np.repeat(y, times), np.repeat(scores, times, axis=-1), None)
    weighted = loss.hessian(y, scores, times.astype(float))
    np.testing.assert_allclose(np.repeat(weighted, times, axis=-1), repeated, rtol=1e-12)


def test_losses_are_smallest_at_their_kink():
    y = np.array([1.0, 2.0])
    for loss in (AbsoluteError(), Quantile(0.9), Quantile(0.1)):
        assert np.array_equal(loss.negative_gradient(y, y), [0.0, 0.0])


@every_loss
def test_extreme_scores(name):
    loss, y = LOSSES[name]
    for f in (-1e4, 1e4, -700.0, 700.0):
        scores = scores_like(loss, y, f)
        for quantity in (loss.value, loss.negative_gradient, loss.hessian):
            assert np.isfinite(quantity(y, scores)).all()
        assert np.all(loss.hessian(y, scores) > 0)
        assert np.isfinite(loss.inverse_link(scores)).all()


@every_loss
def test_nan_scores_give_nan_losses(name):
    loss, y = LOSSES[name]
    scores = scores_like(loss, y, 0.5)
    np.atleast_2d(scores)[-1, 1] = np.nan
    for quantity in (loss.value, loss.negative_gradient):
        assert np.isnan(quantity(y, scores)[..., 1]).all()


@every_loss
def test_the_best_constant_predicts_the_mean_or_the_quantile(name):
    loss, y = LOSSES[name]
    best = loss.best_constant(y, None)
    if isinstance(loss, Multinomial):
        shares = np.bincount(y.astype(int), minlength=loss.n_classes) / len(y)
        np.testing.assert_allclose(loss.inverse_link(best), shares, atol=1e-11)
        return
    predicted = loss.inverse_link(np.array([best]))[0]
    if name in ("absolute", "quantile"):
        assert predicted == np.sort(y)[2 if name == "absolute" else 3]
    elif name not in ("huber", "expectile", "log-cosh"):
        assert predicted == pytest.approx(y.mean())


@every_loss
def test_links_are_inverse_to_each_other(name):
    loss, _ = LOSSES[name]
    scores = scores_like(loss, np.zeros(7), 0.0) + np.linspace(-3, 3, 7)
    if isinstance(loss, Multinomial):
        scores = np.cos(np.arange(loss.n_classes))[:, np.newaxis] * np.linspace(-3, 3, 7)
        np.testing.assert_allclose(loss.inverse_link(scores).sum(axis=0), 1.0)
        scores -= scores.mean(axis=0)
    np.testing.assert_allclose(loss.link(loss.inverse_link(scores)), scores, rtol=1e-9, atol=1e-9)


class TestKernels:
    @pytest.mark.slow
    @every_loss
    @given(data=st.data())
    def test_against_the_twin(self, name, data):
        loss, y = LOSSES[name]
        n = data.draw(st.integers(1, 300))
        largest = data.draw(st.sampled_from([1e-300, 1e-3, 1.0, 30.0, 1e3, 1e5]))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        y = rng.choice(y, n)
        f = largest * rng.uniform(-1.0, 1.0, (loss.n_classes, n) if isinstance(loss, Multinomial) else n)
        f[..., rng.random(n) < 0.1] = 0.0
        self.compare(loss, y, f)

    @pytest.mark.parametrize(("n_classes", "n"), [(2, 1), (2, 257), (3, 0), (100, 400), (1000, 37), (3000, 17)])
    def test_any_number_of_classes(self, n_classes, n):
        rng = np.random.default_rng(n)
        y = rng.integers(0, n_classes, n).astype(float)
        self.compare(Multinomial(n_classes), y, 5.0 * rng.normal(size=(n_classes, n)))

    @staticmethod
    def compare(loss, y, f):
        twin = twin_of(loss)
        for quantity in QUANTITIES:
            got, expected = getattr(loss, quantity)(y, f), getattr(twin, quantity)(y, f)
            assert got.shape == (y.shape if quantity == "value" else f.shape)
            assert got.dtype == np.float64
            # The terms of a difference are precise relative to their own size, which is at most this.
            terms = np.abs(expected) + twin.hessian(y, f) + (1.0 + np.abs(y)) * (1.0 + np.abs(f))
            terms = terms if terms.shape == expected.shape else terms.max(axis=0)
            np.testing.assert_array_less(np.abs(got - expected), 1e-13 * terms)

    @every_loss
    def test_the_same_bits_for_every_number_of_threads(self, name):
        loss, y = LOSSES[name]
        rng = np.random.default_rng(0)
        n = 3 * 16384 + 777
        y = rng.choice(y, n)
        f = 3.0 * rng.normal(size=(loss.n_classes, n) if isinstance(loss, Multinomial) else n)
        for quantity in QUANTITIES:
            expected = getattr(loss, quantity)(y, f)
            for n_threads in (2, 4):
                got = getattr(loss.with_threads(n_threads), quantity)(y, f)
                assert got.tobytes() == expected.tobytes()
            # The bits of a row do not depend on other rows, except for the median distance in hessians of quantiles.
            if quantity != "hessian":
                part = getattr(loss, quantity)(y[5:1000], f[..., 5:1000])
                assert part.tobytes() == np.ascontiguousarray(expected[..., 5:1000]).tobytes()

    @every_loss
    def test_any_layout(self, name):
        loss, y = LOSSES[name]
        f = scores_like(loss, y, 0.7)
        packed = np.zeros(len(y), dtype=[("pad", "i1"), ("y", "f8")])  # y is not aligned
        packed["y"] = y
        strided = np.zeros((*f.shape, 2))
        strided[..., 1] = f
        still = f.copy()
        still.setflags(write=False)
        shapes = [(packed["y"], np.asfortranarray(f)), (y[::-1][::-1], strided[..., 1]), (y.tolist(), still)]
        if f.ndim == 2:
            shapes += [(y, f[::-1].copy()[::-1]), (y, np.hstack([f, f])[:, : len(y)])]
        for quantity in QUANTITIES:
            for labels, scores in shapes:
                np.testing.assert_array_equal(getattr(loss, quantity)(labels, scores), getattr(loss, quantity)(y, f))

    @every_loss
    def test_wrong_shapes(self, name):
        loss, y = LOSSES[name]
        f = scores_like(loss, y, 0.7)
        for quantity in (loss.value, loss.negative_gradient, loss.hessian):
            for labels, scores in ((y, f[..., :-1]), (y, f[np.newaxis]), (y[np.newaxis], f)):
                with pytest.raises(ValueError, match=r"^(y|f): must"):
                    quantity(labels, scores)

    @every_loss
    def test_several_outputs(self, name):
        loss, y = LOSSES[name]
        if isinstance(loss, Multinomial):
            return  # its labels belong to all scores of a row
        labels, weight = np.stack([y, y[::-1]]), np.linspace(0.5, 2.0, len(y))
        scores = np.stack([scores_like(loss, y, 0.7), scores_like(loss, y, -0.3)])
        for quantity in QUANTITIES:
            apart = [getattr(loss, quantity)(labels[k], scores[k]) for k in range(2)]
            np.testing.assert_array_equal(getattr(loss, quantity)(labels, scores), apart)
        apart = [loss.exact_total(labels[k], scores[k], weight) for k in range(2)]
        assert loss.exact_total(labels, scores, weight) == apart[0] + apart[1]
        with pytest.raises(ValueError, match=r"^f: must have scores for as many outputs"):
            loss.value(labels, scores[:1])

    @every_loss
    @pytest.mark.parametrize("n_threads", [1, 3])
    def test_derivatives_are_the_same_together(self, name, n_threads):
        loss, y = LOSSES[name]
        if not has_kernels(loss)[1]:
            return
        y = np.resize(y, 20_000)
        f = scores_like(loss, y, 0.7)
        gradient, hessian = loss.with_threads(n_threads).derivatives(y, f)
        np.testing.assert_array_equal(gradient, loss.negative_gradient(y, f))
        np.testing.assert_array_equal(hessian, loss.hessian(y, f))

    def test_wrong_results_of_derivatives(self):
        arrays = {"y": np.zeros(2), "f": np.zeros(2), "negative_gradient": np.zeros(2), "hessian": np.zeros(2)}
        _native.loss_derivatives("logistic", 0.0, **arrays, n_threads=1)
        of_classes = {"y": np.zeros(2), "f": np.zeros((3, 2)), "negative_gradient": np.zeros(6), "hessian": np.zeros(6)}
        _native.loss_derivatives("multinomial", 3.0, **of_classes, n_threads=1)
        for wrong in ("negative_gradient", "hessian"):
            with pytest.raises(ValueError, match=rf"^{wrong}: wrong size"):
                _native.loss_derivatives("logistic", 0.0, **(arrays | {wrong: np.zeros(5)}), n_threads=1)
            with pytest.raises(ValueError, match=rf"^{wrong}: wrong size"):
                _native.loss_derivatives("multinomial", 3.0, **(of_classes | {wrong: np.zeros(5)}), n_threads=1)

    @pytest.mark.parametrize(("n_classes", "n_rows"), [(2, 1), (3, 700), (60, 1000)])
    def test_derivatives_of_classes_are_the_same_together(self, n_classes, n_rows):
        rng = np.random.default_rng(n_classes)
        scores = 4.0 * rng.normal(size=(n_classes, n_rows + 3))[:, :n_rows]
        codes = rng.integers(0, n_classes, size=n_rows).astype(float)
        shares = rng.dirichlet(np.ones(n_classes), size=n_rows).T
        for loss, labels in ((Multinomial(n_classes), codes), (MultinomialCrossEntropy(n_classes), shares)):
            for n_threads in (1, 3):
                gradient, hessian = loss.with_threads(n_threads).derivatives(labels, scores)
                assert np.array_equal(gradient, loss.negative_gradient(labels, scores))
                assert np.array_equal(hessian, loss.hessian(labels, scores))

    def test_wrong_classes(self):
        for codes in ([0.0, 3.0], [-1.0, 0.0], [0.5, 1.0], [np.nan, 1.0], [np.inf, 1.0]):
            with pytest.raises(ValueError, match=r"^y: must be class codes"):
                Multinomial(3).negative_gradient(np.array(codes), np.zeros((3, 2)))
        with pytest.raises(ValueError, match=r"^f: must have scores of as many classes"):
            Multinomial(3).value(np.zeros(2), np.zeros((4, 2)))
        with pytest.raises(ValueError, match=r"^name: no such loss"):
            _native.loss_value("hinge", 0.0, np.zeros(2), np.zeros(2), np.zeros(2), 1)
        with pytest.raises(ValueError, match=r"^out: wrong size"):
            _native.loss_hessian("multinomial", 3.0, np.zeros(2), np.zeros((3, 2)), np.zeros(2), 1)


def ulps(got, exact):
    return np.abs((got - exact) / np.spacing(exact.astype(float))).max()


class TestElementaryFunctions:
    """Tested through losses that reduce to exp or log for some labels."""

    def test_exp(self):
        x = np.concatenate([np.linspace(-700, 700, 200_001), np.linspace(-1, 1, 200_001), [0.0, -0.0, 1e-300]])
        exact = np.exp(x.astype(np.longdouble))
        assert ulps(Exponential().value(np.zeros(len(x)), x), exact) < 1.0
        assert ulps(Poisson().hessian(np.zeros(len(x)), x), exact) < 1.0
        assert Exponential().value(np.zeros(3), np.array([0.0, 1e4, -1e4])).tolist() == [1.0, *np.exp([700.0, -700.0])]

    def test_log1p(self):
        x = np.concatenate([np.linspace(0, 700, 200_001), np.linspace(0, 2, 200_001)])
        exact = np.log1p(np.exp(-x.astype(np.longdouble)))
        assert ulps(LogLoss().value(np.ones(len(x)), x), exact) < 3.0  # one of them from the exponential

    def test_log(self):
        for n_classes in (*range(2, 40), 1000, 4096, 100_003):
            got = Multinomial(n_classes).value(np.zeros(1), np.zeros((n_classes, 1)))
            assert ulps(got, np.log(np.array([n_classes], dtype=np.longdouble))) < 2.0

    def test_bits(self):
        """The same on every platform: no library functions, no fused multiply-adds, any vector width."""
        f = np.arange(-5000.0, 5001.0) / 64.0
        y = np.arange(len(f)) % 2.0
        digest = hashlib.sha256()
        for loss in (LogLoss(), Exponential(), Poisson(), Gamma(), Tweedie(1.5)):
            for quantity in QUANTITIES:
                digest.update(getattr(loss, quantity)(y, f).astype("<f8").tobytes())
        for quantity in QUANTITIES:
            scores = np.stack([f, f[::-1] / 3.0, 0.1 * f])
            digest.update(getattr(Multinomial(3), quantity)(y, scores).astype("<f8").tobytes())
        assert digest.hexdigest()[:16] == "f27dfaf5eeddd2f6"

    def test_bits_of_predictions(self):
        """Links and their inverses do not use library functions either."""
        f = np.arange(-5000.0, 5001.0) / 64.0
        digest = hashlib.sha256()
        for loss in (LogLoss(), Exponential(), Poisson()):
            predicted = loss.inverse_link(f)
            digest.update(predicted.astype("<f8").tobytes())
            digest.update(loss.link(predicted).astype("<f8").tobytes())
        digest.update(Multinomial(3).inverse_link(np.stack([f, f[::-1] / 3.0, 0.1 * f])).astype("<f8").tobytes())
        assert digest.hexdigest()[:16] == "f68e7f8ea96768ba"

    def test_log_of_any_number(self):
        x = np.concatenate([np.geomspace(1e-307, 1e308, 100_001), np.linspace(0.5, 2.0, 100_001)])
        exact = np.log(x.astype(np.longdouble))
        assert np.abs(log(x) - exact).max() < 2.0 * np.spacing(700.0)
        assert ulps(log(x)[exact != 0], exact[exact != 0]) < 2.0
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(log([0.0, np.inf, 5e-324]), np.log([0.0, np.inf, 5e-324]))
        assert np.isnan(log([-1.0, np.nan])).all()
        assert log(1.0).shape == ()

    def test_sigmoid(self):
        x = np.append(
            np.random.default_rng(0).normal(scale=20.0, size=5_000), [0.0, -0.0, 800.0, -800.0, np.inf, -np.inf]
        )
        for n_threads in (1, 3):
            np.testing.assert_array_equal(LogLoss().with_threads(n_threads).inverse_link(x), 1.0 / (1.0 + exp(-x)))
        assert np.isnan(LogLoss().inverse_link(np.array([np.nan]))).all()
        assert LogLoss().inverse_link(np.array(1.0)).shape == ()

    def test_bits_of_a_row_do_not_depend_on_other_rows(self):
        scores = np.random.default_rng(0).normal(size=(37, 50)) * 5
        whole = Multinomial(37).inverse_link(scores)
        for i in range(50):
            np.testing.assert_array_equal(Multinomial(37).inverse_link(scores[:, i : i + 1])[:, 0], whole[:, i])


def test_repr_of_losses():
    made = [Quantile(0.8), Huber(1.5), Tweedie(1.3), AbsoluteError(), Poisson(), LogLoss(), Multinomial(3)]
    names = [
        "Quantile(quantile=0.8)", "Huber(delta=1.5)", "Tweedie(power=1.3)", "AbsoluteError()", "Poisson()", "LogLoss()",
        "Multinomial(n_classes=3)",
    ]  # fmt: skip
    assert [repr(loss) for loss in made] == names
    assert [repr(loss.with_threads(2)) for loss in made] == names


@every_loss
def test_losses_can_be_copied(name):
    loss, y = LOSSES[name]
    f = scores_like(loss, y, 0.7)
    threaded = loss.with_threads(2)
    assert loss.n_threads == 1
    for other in (threaded, copy.deepcopy(threaded), pickle.loads(pickle.dumps(threaded))):
        assert other.n_threads == 2
        assert type(other) is type(loss)
        np.testing.assert_array_equal(other.hessian(y, f), loss.hessian(y, f))


def test_constant_labels_have_a_finite_prior():
    for loss in (LogLoss(), Exponential()):
        assert np.isfinite(loss.best_constant(np.ones(3), None))
    assert Huber(1.0).best_constant(np.full(3, 7.0), None) == 7.0
    assert Quantile(0.9).hessian(np.ones(3), np.ones(3)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Poisson(), [-1.0, 2.0]),
        (Poisson(), [0.0, 0.0]),
        (Tweedie(), [-0.5, 1.0]),
        (Gamma(), [0.0, 1.0]),
        (Multinomial(3), [0.0, 3.0]),
        (Multinomial(3), [-1.0, 2.0]),
        (Multinomial(3), [0.5, 2.0]),
    ],
)
def test_invalid_labels_raise(loss, y):
    with pytest.raises(ValueError, match=f"y must .* loss {type(loss).__name__}, got values from"):
        loss.check(np.array(y))


@pytest.mark.parametrize(
    ("make", "name"),
    [(Quantile, "quantile"), (Huber, "delta"), (Tweedie, "power"), (Multinomial, "n_classes")],
)
def test_invalid_parameters_raise(make, name):
    with pytest.raises(ValueError, match=f"{name}=-1 must be"):
        make(-1)
