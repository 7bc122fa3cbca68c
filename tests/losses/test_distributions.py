"""Losses that are negative log-likelihoods: scipy.stats and numerical derivatives are the oracles."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import special, stats
from scipy.optimize import minimize

from agbm import losses
from agbm._base import _native
from agbm._losses import best_constant_with
from agbm._losses.distributions import DistributionLoss
from agbm._losses.frozen import ZeroInflated
from distributions import DISTRIBUTIONS
from profiles import examples

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
        offset = rng.normal(0.0, 0.3, (loss.traits.n_scores, 400))
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
            loss.value(np.ones(4), np.ones((loss.traits.n_scores, 3)))


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
def test_invalid_labels_raise(loss, y):
    with pytest.raises(ValueError, match=f"y must .* for loss {type(loss).__name__}"):
        loss.check(np.array(y))


@examples(60)
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


def test_subclasses_are_not_built_in_distributions():
    assert all(isinstance(loss, DistributionLoss) for loss in ALL)
    with pytest.raises(ValueError, match="no such loss"):
        _native.loss_value("cauchy", 0.0, np.ones(2), np.ones(2), np.ones(2), 1)


def labels_of_all_kinds(n=3_000):
    rng = np.random.default_rng(0)
    normal = rng.normal(size=n)
    return {
        "skewed": np.exp(normal),
        "very skewed": np.exp(1.5 * normal),
        "one outlier": np.append(10.0 + normal[1:], 1e6),
        "zeros": np.where(rng.random(n) < 0.9, 0.0, rng.exponential(1.0, n)),
        "zeros and large amounts": np.where(rng.random(n) < 0.6, 0.0, 500.0 + 100.0 * np.exp(normal)),
        "uniform": rng.random(n),
        "capped": np.clip(normal, -2.1, 2.1),
        "two peaks": np.where(rng.random(n) < 0.3, -50.0, 50.0) + normal,
        "integers": rng.integers(0, 6, n).astype(float),
        "counts": rng.poisson(0.2, n).astype(float),
        "many counts": rng.poisson(30.0, n).astype(float),
        "a code among numbers": np.where(
            rng.random(n) < 0.01, -999.0, np.where(rng.random(n) < 0.5, 0.0, np.exp(normal))
        ),
        "tied in tails": np.where(rng.random(n) < 0.02, np.where(normal > 0, 9.0, -9.0), normal),
        "two values": np.where(normal > 1.0, 7.0, -2.0),
        "few labels": normal[:15],
    }


KINDS = labels_of_all_kinds()
every_kind = pytest.mark.parametrize("kind", KINDS)


def learned(kind, bins=20, weight=None):
    return losses.HistogramDistribution(bins).learned_from(KINDS[kind], weight)


def one_row(loss, seed):
    """The distribution with random scores."""
    return loss.frozen(np.random.default_rng(seed).normal(size=(loss.traits.n_scores, 1)))


def whole(loss, y):
    """The distribution of all labels, which a fit starts with."""
    return loss.frozen(loss.best_constant(y, None)[:, np.newaxis])


def integrated(found, pieces, function, below=np.inf):
    """The integral up to a number of a function times the density, plus the sum over atoms."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    total = sum(function(p.low) * found.pdf(p.low)[0] for p in pieces if p.low == p.high <= below)
    for p in pieces:
        ends = [p.low, p.mean, p.high]
        if p.low == -np.inf:
            ends = p.high - np.arange(60, -1, -1) * (p.high - p.mean)
        if p.high == np.inf:
            ends = p.low + np.arange(61) * (p.mean - p.low)
        ends = np.minimum(ends, below)
        x = (0.5 * (ends[:-1] + ends[1:]) + 0.5 * np.diff(ends) * nodes[:, np.newaxis]).ravel()
        sizes = (0.5 * np.diff(ends) * weights[:, np.newaxis]).ravel()
        total += (sizes[sizes > 0.0] * (function(x) * found.pdf(x[:, np.newaxis])[:, 0])[sizes > 0.0]).sum()
    return total


class TestHistogram:
    @every_kind
    def test_methods_agree_with_the_density(self, kind):
        loss = learned(kind)
        found, pieces = one_row(loss, seed=1), loss.pieces
        mean, std = found.mean()[0], found.std()[0]
        np.testing.assert_allclose(integrated(found, pieces, np.ones_like), 1.0)
        np.testing.assert_allclose(integrated(found, pieces, lambda x: x), mean, atol=1e-7 * std)
        np.testing.assert_allclose(integrated(found, pieces, lambda x: (x - mean) ** 2), std**2)
        for x in found.ppf(np.array([[0.003], [0.2], [0.5], [0.77], [0.995]])).ravel():
            np.testing.assert_allclose(integrated(found, pieces, np.ones_like, below=x), found.cdf(x)[0])

    @every_kind
    def test_quantiles_invert_the_cdf(self, kind):
        loss = learned(kind)
        found = one_row(loss, seed=2)
        shares = np.random.default_rng(3).random((2_000, 1))
        at = found.ppf(shares)
        assert (found.cdf(at) >= shares - 1e-12).all()
        assert (found.cdf(np.nextafter(at, -np.inf)) <= shares + 1e-9).all()
        np.testing.assert_array_equal(found.isf(1.0 - shares), found.ppf(1.0 - (1.0 - shares)))
        assert (np.diff(found.ppf(np.sort(shares, axis=0)), axis=0) >= 0.0).all()
        np.testing.assert_allclose(found.cdf(at) + found.sf(at), 1.0)
        assert (found.ppf(0.0)[0], found.isf(0.0)[0]) == (-np.inf, np.inf)
        drawn = found.rvs(size=(50_000, 1), random_state=0)
        for x in np.quantile(drawn, [0.1, 0.4, 0.9]):
            assert abs((drawn <= x).mean() - found.cdf(x)[0]) < 0.01

    @every_kind
    def test_the_loss_is_the_negative_log_density(self, kind):
        loss, y = learned(kind), KINDS[kind]
        f = np.random.default_rng(4).normal(size=(loss.traits.n_scores, len(y)))
        np.testing.assert_allclose(loss.value(y, f), -loss.frozen(f).logpdf(y), rtol=1e-12, atol=1e-12)

    @every_kind
    def test_a_fit_starts_with_the_distribution_of_all_labels(self, kind):
        y = KINDS[kind]
        loss = learned(kind)
        found = whole(loss, y)
        np.testing.assert_allclose(loss.inverse_link(loss.best_constant(y, None)[:, np.newaxis])[0], found.mean()[0])
        np.testing.assert_allclose(found.mean()[0], y.mean(), rtol=1e-3 if kind == "many counts" else 1e-9)
        for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
            at, room = found.ppf(share)[0], {"few labels": 0.05, "many counts": 0.02}.get(kind, 0.004)
            assert (y < at).mean() - room <= share <= (y <= at).mean() + room

    @pytest.mark.parametrize("kind", ["skewed", "uniform", "two peaks", "one outlier"])
    def test_bins_have_equal_counts(self, kind):
        y, loss = KINDS[kind], learned(kind)
        codes = loss._codes(y)
        counts = np.bincount(codes.astype(int))
        assert len(counts) == 20
        assert counts.min() >= 149
        assert counts.max() <= 151
        assert loss.learned_from(y[:10], None) is loss
        assert len(losses.HistogramDistribution(20).learned_from(y[:500], None).signs) == 10  # 50 labels each

    def test_tails(self):
        """Of an outermost bin with 150 labels, a tail has ten or fewer; its mean distance is that of the labels."""
        y = np.sort(KINDS["skewed"])
        first, last = learned("skewed").pieces[0], learned("skewed").pieces[-1]
        assert (first.low, last.high) == (-np.inf, np.inf)
        assert 5 <= (y < first.high).sum() <= 10
        assert 5 <= (y >= last.low).sum() <= 10
        np.testing.assert_allclose([first.mean, last.mean], [y[y < first.high].mean(), y[y >= last.low].mean()])
        beyond = np.array([last.low, last.low + 3.0 * (last.mean - last.low)])
        density = whole(learned("skewed"), y).logpdf(beyond[:, np.newaxis])[:, 0]
        np.testing.assert_allclose(density[0] - density[1], 3.0)

    def test_atoms(self):
        def atoms(kind):
            return [piece.low for piece in learned(kind).pieces if piece.low == piece.high]

        assert atoms("zeros") == [0.0]
        assert atoms("zeros and large amounts") == [0.0]
        assert atoms("capped") == [-2.1, 2.1]  # 1.8 % each, less than half a bin: the outermost pieces
        assert atoms("a code among numbers") == [-999.0, 0.0]
        assert atoms("tied in tails") == [-9.0, 9.0]
        assert atoms("integers") == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert atoms("counts") == np.unique(KINDS["counts"]).tolist()
        assert atoms("two values") == [-2.0, 7.0]
        assert atoms("skewed") == atoms("one outlier") == atoms("few labels") == []
        zeros = whole(learned("zeros"), KINDS["zeros"])
        assert zeros.pdf(0.0)[0] == pytest.approx((KINDS["zeros"] == 0.0).mean())
        assert zeros.cdf(0.0)[0] == pytest.approx((KINDS["zeros"] == 0.0).mean())
        assert zeros.cdf(-1e-9)[0] == 0.0
        assert whole(learned("integers"), KINDS["integers"]).pdf(2.5)[0] == 0.0

    def test_one_outlier_affects_only_the_tail(self):
        found = whole(learned("one outlier"), KINDS["one outlier"])
        np.testing.assert_allclose(found.mean()[0], KINDS["one outlier"].mean())
        assert found.ppf(0.99)[0] == pytest.approx(12.33, abs=0.15)
        assert found.median()[0] == pytest.approx(np.median(KINDS["one outlier"]), abs=0.01)

    @every_kind
    @pytest.mark.parametrize("bins", [20, [-30.0, 0.0, 0.5, 4.0, 70.0]], ids=["number", "edges"])
    def test_weights_are_repetitions(self, kind, bins):
        y, repeats = KINDS[kind], np.random.default_rng(1).integers(1, 4, len(KINDS[kind]))
        weighted = learned(kind, bins, repeats.astype(float))
        assert weighted.pieces == losses.HistogramDistribution(bins).learned_from(np.repeat(y, repeats), None).pieces

    @examples(60)
    @given(
        st.lists(st.floats(-1e9, 1e9) | st.sampled_from([-3.0, 0.0, 0.25, 7.0]), min_size=2, max_size=120),
        st.integers(2, 12),
    )
    @example([0.0, 1.0, -1.0, -2.0] * 4 + [2.0, 2.0, 5e-324, 5e-324], 2)  # no number between two of them
    @example([1.0, 2.0, -3.0, -4.0] * 4 + [1.0 + 2.0**-52] * 2 + [1.0 + 2.0**-51] * 2, 2)
    def test_any_labels(self, given_labels, n):
        y = np.array(given_labels)
        assume(y.min() < y.max())
        loss = losses.HistogramDistribution(n).learned_from(y, None)  # whose pieces are checked
        found = whole(loss, y)
        np.testing.assert_allclose(found.mean()[0], y.mean(), atol=0.01 * np.ptp(y))
        assert np.isfinite(found.logpdf(y[:, np.newaxis])).all()
        shares = np.linspace(0.01, 0.99, 25)[:, np.newaxis]
        assert (found.cdf(found.ppf(shares)) >= shares - 1e-9).all()

    def test_given_edges(self):
        y = np.array([-9.0, 0.25, 0.25, 1.0, 1.0, 2.0, 90.0])
        loss = losses.HistogramDistribution([0.0, 1.0, 3.0, 4.0, 5.0]).learned_from(y, None)
        expected = [0.5 / 3.0, (1.0 + 1.0 + 2.0) / 3.0, 3.5, 4.99]  # outside counts as the edge, with 1 % of room
        np.testing.assert_allclose(loss.bin_means(), expected)
        assert loss._codes(y).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 3.0]
        assert loss.frozen(np.zeros((4, 2))).pdf(np.array([-0.1, 5.1])).tolist() == [0.0, 0.0]
        assert loss.frozen(np.zeros((4, 1))).cdf(5.0)[0] == 1.0

    def test_bins_of_given_edges_are_uniform_without_labels(self):
        edges, f = np.array([-1.0, 0.0, 0.5, 4.0]), np.log([[0.2, 0.1], [0.5, 0.05], [0.3, 0.85]])
        found = losses.HistogramDistribution(edges).frozen(f)
        for row in range(2):
            other = stats.rv_histogram((np.exp(f[:, row]), edges), density=False)
            np.testing.assert_allclose([found.mean()[row], found.std()[row]], [other.mean(), other.std()])
            for x in (-2.0, -0.5, 0.0, 0.3, 3.0, 5.0):
                np.testing.assert_allclose(found.cdf(x)[row], other.cdf(x), atol=1e-12)
                np.testing.assert_allclose(found.sf(x)[row], other.sf(x), atol=1e-12)
                np.testing.assert_allclose(found.pdf(x)[row], other.pdf(x), atol=1e-12)
            for q in (0.05, 0.3, 0.65, 0.99):
                np.testing.assert_allclose(found.ppf(q)[row], other.ppf(q))
                np.testing.assert_allclose(found.isf(q)[row], other.isf(q))

    def test_labels_outside_the_bins(self):
        """They count as the nearest ones; predicted distributions give them no probability."""
        loss, f = learned("two values"), np.array([[0.3], [-0.2]])
        y = np.array([-50.0, -2.0, 2.4, 2.6, 7.0, 90.0])
        found = loss.value(y, np.repeat(f, 6, axis=1))
        assert found.tolist() == found[[1, 1, 1, 4, 4, 4]].tolist()
        assert (loss.frozen(f).pdf(y[:, np.newaxis])[[0, 2, 3, 5]] == 0.0).all()

    def test_labels_that_do_not_vary(self):
        with pytest.raises(ValueError, match=r"y has only one value, 2\.0; a histogram needs labels that vary"):
            losses.HistogramDistribution(5).learned_from(np.full(9, 2.0), None)

    @pytest.mark.parametrize("wrong", [1, 0, True, 2_000, [1.0, 2.0], [1.0, 1.0, 2.0], [0.0, np.inf, 1.0], "20", None])
    def test_wrong_bins(self, wrong):
        with pytest.raises(ValueError, match=r"bins=.* must be a number of bins"):
            losses.HistogramDistribution(wrong)

    def test_wrong_pieces(self):
        good = [
            (0, -np.inf, 1.0, 0.0, 0.5),
            (0, 1.0, 1.0, 1.0, 0.5),
            (1, 1.0, 3.0, 2.5, 1.0),
            (2, 3.0, np.inf, 4.0, 1.0),
        ]
        assert losses.HistogramDistribution(3, good).bin_means().tolist() == [0.5, 2.5, 4.0]
        for at, wrong in (
            (0, (0, -np.inf, 1.0, 1.0, 0.5)), (0, (0, -np.inf, 1.0, 0.0, 0.4)), (0, (1, -np.inf, 1.0, 0.0, 0.5)),
            (1, (0, 1.0, 1.0, 1.5, 0.5)), (2, (1, 1.0, np.inf, 2.5, 1.0)), (2, (1, 0.9, 3.0, 2.5, 1.0)),
            (2, (1, 1.0, 3.0, np.nan, 1.0)), (3, (3, 3.0, np.inf, 4.0, 1.0)), (3, (2, 3.0, np.inf, np.inf, 1.0)),
            (3, (2, 3.0, 4.0)), (3, (2, 3.0, 5.0, 4.0, -1.0)), (3, "x"), (3, None),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="pieces must be those of a fitted loss"):
                losses.HistogramDistribution(3, [*good[:at], wrong, *good[at + 1 :]])
        for wrong in ([], 3, good[:2], "pieces"):
            with pytest.raises(ValueError, match="pieces must be those of a fitted loss"):
                losses.HistogramDistribution(3, wrong)
