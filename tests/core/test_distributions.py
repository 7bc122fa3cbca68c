"""Losses that are negative log-likelihoods: scipy.stats and numerical derivatives are the oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from scipy.optimize import minimize

from agbm import _native, losses
from agbm._core.losses import DISTRIBUTIONS, DistributionLoss, best_constant_with
from agbm._core.losses.frozen import Binned, ZeroInflated

HISTOGRAM = losses.HistogramDistribution([-1.0, 2.0, 4.0, 7.0, 60.0])
WITH_SPREAD = [kind() for name, kind in DISTRIBUTIONS.items() if name != "histogram"]
ALL = [*WITH_SPREAD, HISTOGRAM]
COUNTS = (losses.NegativeBinomialDistribution, losses.ZeroInflatedPoissonDistribution)


def labels(loss, rng, n):
    amounts = rng.gamma(2.0, 3.0, n)
    if isinstance(loss, COUNTS):
        return np.floor(amounts) * (rng.random(n) < 0.7)
    if isinstance(loss, losses.ZeroInflatedGammaDistribution):
        return amounts * (rng.random(n) < 0.7)
    return amounts


def scores(loss, rng, n, spread=0.7):
    centre = {"normal": (5.0, 1.0), "student_t": (5.0, 1.0), "zero_inflated_gamma": (0.0, 1.5, 0.5)}
    middle = np.zeros(4) if loss is HISTOGRAM else np.array(centre.get(loss._kernel, (1.0, 0.5)))
    return middle[:, np.newaxis] + rng.normal(0.0, spread, (len(middle), n))


def log_density(loss, y, f):
    frozen = loss.frozen(f)
    return frozen.logpmf(y) if isinstance(loss, COUNTS) else frozen.logpdf(y)


def of_name(loss):
    return type(loss).__name__


@pytest.mark.parametrize("loss", ALL, ids=of_name)
class TestEach:
    def test_value_is_the_negative_log_likelihood(self, loss):
        rng = np.random.default_rng(0)
        y, f = labels(loss, rng, 500), scores(loss, rng, 500)
        np.testing.assert_allclose(loss.value(y, f), -log_density(loss, y, f), rtol=1e-10, atol=1e-10)

    def test_gradient_is_the_derivative_of_the_value(self, loss):
        rng = np.random.default_rng(1)
        y, f = labels(loss, rng, 300), scores(loss, rng, 300)
        found = loss.negative_gradient(y, f)
        for k in range(len(f)):
            step = np.zeros_like(f)
            step[k] = 1e-5
            numeric = -(loss.value(y, f + step) - loss.value(y, f - step)) / 2e-5
            np.testing.assert_allclose(found[k], numeric, rtol=2e-5, atol=2e-5)

    def test_mean_is_that_of_the_distribution(self, loss):
        f = scores(loss, np.random.default_rng(2), 50)
        np.testing.assert_allclose(loss.inverse_link(f), loss.frozen(f).mean(), rtol=1e-12)

    def test_hessian_is_at_least_the_expected_second_derivative(self, loss):
        """The Fisher information, estimated by the mean of squared gradients over labels drawn from the distribution.

        Bounds on the length of steps may only increase it.
        """
        rng = np.random.default_rng(3)
        f = scores(loss, rng, 1, spread=0.0)
        many = np.repeat(f, 200_000, axis=1)
        y = np.asarray(loss.frozen(many).rvs(size=many.shape[1], random_state=rng), dtype=np.float64)
        information = (loss.negative_gradient(y, many) ** 2).mean(axis=1)
        hessian = loss.hessian(y, many).mean(axis=1)
        # The zero-inflated ones use the information that is there if it is known which zeros are additional.
        assert (hessian >= 0.9 * information).all()
        assert (hessian <= 4.0 * information + 1e-3).all()

    def test_the_bits_do_not_depend_on_threads(self, loss):
        rng = np.random.default_rng(4)
        y, f = labels(loss, rng, 70_000), scores(loss, rng, 70_000)
        threaded = loss.with_threads(3)
        assert loss.value(y, f).tobytes() == threaded.value(y, f).tobytes()
        assert loss.hessian(y, f).tobytes() == threaded.hessian(y, f).tobytes()
        cut = np.concatenate([loss.negative_gradient(y[i::2], f[:, i::2]) for i in range(2)], axis=1)
        whole = loss.negative_gradient(y, f)
        assert np.concatenate([whole[:, ::2], whole[:, 1::2]], axis=1).tobytes() == cut.tobytes()

    @pytest.mark.parametrize("weighted", [False, True])
    def test_best_constants_have_the_largest_likelihood(self, loss, weighted):
        rng = np.random.default_rng(5)
        y = labels(loss, rng, 400)
        weight = rng.integers(1, 4, 400).astype(float) if weighted else None
        found = loss.best_constant(y, weight)

        def total(score):
            return loss.total(y, np.repeat(np.asarray(score)[:, np.newaxis], len(y), axis=1), weight)

        other = minimize(total, found, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10})
        assert total(found) <= other.fun + 1e-6 * abs(other.fun)

    def test_best_constants_with_offsets(self, loss):
        rng = np.random.default_rng(6)
        y = labels(loss, rng, 400)
        offset = rng.normal(0.0, 0.3, (len(loss.mean_signs), 400))
        found = best_constant_with(loss, y, None, offset)
        slope = loss.negative_gradient(y, found[:, np.newaxis] + offset).mean(axis=1)
        np.testing.assert_allclose(slope, 0.0, atol=1e-7)

    def test_no_link(self, loss):
        with pytest.raises(ValueError, match="use init='prior' or init='zero'"):
            loss.link(np.ones(3))

    def test_wrong_shapes(self, loss):
        with pytest.raises(ValueError, match=r"^(y|f): must"):
            loss.value(np.ones(3), np.ones((5, 3)))
        with pytest.raises(ValueError, match=r"^(y|f): must"):
            loss.value(np.ones(4), np.ones((len(loss.mean_signs), 3)))


@pytest.mark.parametrize("loss", WITH_SPREAD, ids=of_name)
def test_labels_that_are_all_equal(loss):
    with pytest.raises(ValueError, match=r"y has only one value, 2\.0; loss="):
        loss.best_constant(np.full(5, 2.0), None)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (losses.LogNormalDistribution(), [1.0, 0.0]),
        (losses.GammaDistribution(), [1.0, -1.0]),
        (losses.NegativeBinomialDistribution(), [1.0, 0.5]),
        (losses.ZeroInflatedPoissonDistribution(), [0.0, 0.0]),
        (losses.ZeroInflatedGammaDistribution(), [-1.0, 1.0]),
    ],
    ids=str,
)
def test_labels_that_are_not_allowed(loss, y):
    with pytest.raises(ValueError, match=f"y must .* for loss {type(loss).__name__}"):
        loss.check(np.array(y))


@settings(max_examples=200)
@given(st.floats(-14.0, 14.0))
def test_gamma_functions(log_k):
    """Through the gamma distribution at its mean: value, gradient and hessian contain them one by one."""
    k, f = np.exp(log_k), np.array([[0.0], [log_k]])
    y, loss = np.array([1.0]), losses.GammaDistribution()
    expected = special.gammaln(k) - k * log_k + k
    np.testing.assert_allclose(loss.value(y, f)[0], expected, rtol=1e-9, atol=1e-11 * max(1.0, k * abs(log_k)))
    slope = k * (log_k - special.digamma(k))
    np.testing.assert_allclose(loss.negative_gradient(y, f)[1, 0], slope, rtol=1e-8, atol=1e-14 * k * k + 1e-10)
    information = k * (k * special.polygamma(1, k) - 1.0)
    np.testing.assert_allclose(
        loss.hessian(y, f)[1, 0], max(information, abs(slope)), rtol=1e-6, atol=1e-15 * k * k + 1e-10
    )


def test_zero_inflated_methods_agree():
    zero = np.array([0.2, 0.5, 0.05])
    for mixed in (ZeroInflated(zero, stats.poisson([2.0, 0.5, 9.0])), ZeroInflated(zero, stats.gamma([2.0, 1.0, 5.0]))):
        drawn = mixed.rvs(size=(100_000, 3), random_state=0)
        np.testing.assert_allclose(drawn.mean(axis=0), mixed.mean(), rtol=0.02)
        np.testing.assert_allclose(drawn.std(axis=0), mixed.std(), rtol=0.02)
        for x in (-1.0, 0.0, 1.0, 3.5):
            np.testing.assert_allclose((drawn <= x).mean(axis=0), mixed.cdf(x), atol=0.01)
            np.testing.assert_allclose(mixed.cdf(x) + mixed.sf(x), 1.0, rtol=1e-12)
        for q in (0.01, 0.3, 0.5, 0.9):
            at = mixed.ppf(q)
            assert (mixed.cdf(at) >= q - 1e-12).all()
            assert (mixed.cdf(at - 1e-6) < q).all()
            np.testing.assert_allclose(mixed.isf(1.0 - q), at, rtol=1e-6)
        low, high = mixed.interval(0.8)
        np.testing.assert_allclose([low, high], [mixed.ppf(0.1), mixed.isf(0.1)])
        np.testing.assert_allclose(mixed.median(), mixed.ppf(0.5))
        np.testing.assert_allclose(mixed.logpmf(0.0), np.log(mixed.pdf(0.0)))


def test_student_t_with_many_degrees_of_freedom_is_normal():
    rng = np.random.default_rng(7)
    y, f = rng.normal(size=50), rng.normal(size=(2, 50))
    found = losses.StudentTDistribution(1e7)
    np.testing.assert_allclose(found.value(y, f), losses.NormalDistribution().value(y, f), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="df=-1"):
        losses.StudentTDistribution(-1)


def test_no_other_class_is_a_distribution():
    assert all(isinstance(loss, DistributionLoss) for loss in ALL)
    with pytest.raises(ValueError, match="no such loss"):
        _native.loss_value("cauchy", 0.0, np.ones(2), np.ones(2), np.ones(2), 1)


class TestHistogram:
    def test_bins_have_as_many_labels(self):
        y = np.random.default_rng(0).gamma(2.0, size=1_000)
        learned = losses.HistogramDistribution(10).learned_from(y, None)
        assert len(learned.bins) == 11
        assert (learned.bins[0], learned.bins[-1]) == (y.min(), y.max())
        counts = np.histogram(y, learned.bins)[0]
        assert counts.min() >= 99
        assert counts.max() <= 101
        assert learned.learned_from(y[:10], None) is learned
        repeats = np.random.default_rng(1).integers(1, 4, 1_000)
        weighted = losses.HistogramDistribution(10).learned_from(y, repeats.astype(float))
        assert weighted.bins == losses.HistogramDistribution(10).learned_from(np.repeat(y, repeats), None).bins

    def test_equal_labels(self):
        y = np.array([0.0] * 50 + [1.0, 2.0, 3.0])
        assert losses.HistogramDistribution([0.0, 1.0, 3.0]).learned_from(y, None).bins == (0.0, 1.0, 3.0)
        assert losses.HistogramDistribution(53).learned_from(y, None).bins == (0.0, 1.0, 2.0, 3.0)
        with pytest.raises(ValueError, match="too few values for bins"):
            losses.HistogramDistribution(5).learned_from(np.array([0.0, 0.0, 1.0]), None)

    def test_methods_agree_with_scipy(self):
        edges, shares = np.array([-1.0, 0.0, 0.5, 4.0]), np.array([[0.2, 0.5, 0.3], [0.1, 0.0, 0.9]])
        found = Binned(edges, shares)
        for row in range(2):
            other = stats.rv_histogram((shares[row], edges), density=False)
            np.testing.assert_allclose(found.mean()[row], other.mean())
            np.testing.assert_allclose(found.std()[row], other.std())
            for x in (-2.0, -0.5, 0.0, 0.3, 3.0, 5.0):
                np.testing.assert_allclose(found.cdf(x)[row], other.cdf(x), atol=1e-12)
                np.testing.assert_allclose(found.sf(x)[row], other.sf(x), atol=1e-12)
                np.testing.assert_allclose(found.pdf(x)[row], other.pdf(x), atol=1e-12)
            for q in (0.05, 0.3, 0.65, 0.99):
                np.testing.assert_allclose(found.ppf(q)[row], other.ppf(q))
                np.testing.assert_allclose(found.isf(q)[row], other.isf(q))
        assert np.array_equal(found.ppf(0.0), [-np.inf, -np.inf])
        drawn = found.rvs(size=(50_000, 2), random_state=0)
        np.testing.assert_allclose(drawn.mean(axis=0), found.mean(), rtol=0.03)

    @pytest.mark.parametrize("wrong", [1, 0, True, 2_000, [1.0, 2.0], [1.0, 1.0, 2.0], [0.0, np.inf, 1.0], "20", None])
    def test_wrong_bins(self, wrong):
        with pytest.raises(ValueError, match=r"bins=.* must be a number of bins"):
            losses.HistogramDistribution(wrong)
