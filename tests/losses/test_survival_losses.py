"""Losses of survival analysis against slow formulas."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

import survival_twin as twin
from agbm._losses import survival as cox_module
from agbm._losses.metrics import concordance
from agbm.losses import AcceleratedFailureTime, Cox, NormalDistribution, PiecewiseExponential
from profiles import examples

DISTRIBUTIONS = ["normal", "logistic", "extreme"]
STEP = 1e-5


def labels(time, event):
    return np.stack([time, np.where(event, time, np.inf)])


def times(seed, n, distinct=12):
    rng = np.random.default_rng(seed)
    event = rng.random(n) < 0.6
    event[0] = True
    return rng, rng.integers(1, distinct, n).astype(float), event


def bounds(seed, n):
    """Events, and times that are right-, interval- and left-censored."""
    rng = np.random.default_rng(seed)
    lower, kind = rng.exponential(1.0, n), rng.integers(0, 4, n)
    upper = np.where(kind == 0, lower, np.where(kind == 1, np.inf, lower + rng.exponential(0.5, n)))
    return rng, np.stack([np.where(kind == 3, 0.0, lower), upper])


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), distinct=st.integers(2, 50), weighted=st.booleans())
@examples(15)
def test_cox_is_the_partial_likelihood(ties, seed, n, distinct, weighted):
    rng, time, event = times(seed, n, distinct)
    y, f, weight = labels(time, event), rng.normal(size=(1, n)) * 2.0, rng.integers(1, 5, n) * 0.25
    weight = weight if weighted else None
    ones, loss = np.ones(n) if weight is None else weight, Cox(ties)
    assert loss.total(y, f, weight) == pytest.approx(twin.cox_total(time, event, f[0], ones, ties), abs=1e-9)
    found = loss.negative_gradient(y, f, weight)
    for i in range(n):
        up, down = f[0].copy(), f[0].copy()
        up[i], down[i] = up[i] + STEP, down[i] - STEP
        rise = twin.cox_total(time, event, up, ones, ties) - twin.cox_total(time, event, down, ones, ties)
        assert found[0, i] == pytest.approx(-rise / (2.0 * STEP) / ones[i], abs=1e-6)
    if weight is None:
        least = np.abs(found[0]) / 2.0
        wanted = np.maximum(twin.cox_hessian(time, event, f[0], ties), least)
        assert np.allclose(loss.hessian(y, f, None)[0], wanted, atol=1e-12)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_cox_has_the_same_bits_in_any_order(ties):
    rng, time, event = times(0, 40_000, 300)
    y, f, weight = labels(time, event), rng.normal(size=(1, 40_000)), rng.random(40_000).astype(np.float32) + 0.5
    weight = weight.astype(float)
    order, loss = rng.permutation(40_000), Cox(ties)
    for name in ("value", "negative_gradient", "hessian"):
        found = getattr(loss, name)(y, f, weight)
        moved = getattr(loss.with_threads(3), name)(y[:, order], f[:, order], weight[order])
        assert np.array_equal(moved, found[..., order])


def test_integer_weights_are_repetitions_for_breslow():
    rng, time, event = times(1, 500)
    y, f, weight = labels(time, event), rng.normal(size=(1, 500)) * 3.0, rng.integers(1, 6, 500)
    rows, loss = np.repeat(np.arange(500), weight), Cox()
    assert loss.total(y, f, weight.astype(float)) == loss.total(y[:, rows], f[:, rows], None)
    for name in ("negative_gradient", "hessian"):
        repeated = getattr(loss, name)(y[:, rows], f[:, rows], None)
        assert np.array_equal(getattr(loss, name)(y, f, weight.astype(float))[..., rows], repeated)


def test_cox_with_scores_that_are_far_apart_or_not_finite():
    rng, time, event = times(2, 50)
    y, f = labels(time, event), rng.normal(size=(1, 50)) * 200.0
    for name in ("value", "negative_gradient", "hessian"):
        assert np.isfinite(getattr(Cox("efron"), name)(y, f)).all()
    f[0, 3] = np.nan
    assert np.isnan(Cox().value(y, f)).all()


def test_cox_baseline_is_breslows():
    rng, time, event = times(3, 60)
    y, f, weight = labels(time, event), rng.normal(size=(1, 60)), rng.integers(1, 4, 60).astype(float)
    at, hazard = Cox().baseline(y, f, weight)
    wanted_at, wanted = twin.cumulative_baseline(time, event, f[0], weight)
    assert np.allclose(hazard[np.isin(at, wanted_at)], wanted)
    assert (np.diff(hazard) >= 0.0).all()


def test_the_order_of_times_is_kept_as_long_as_its_labels():
    _, time, event = times(4, 30)
    y = labels(time, event)
    before = len(cox_module._known)
    Cox().value(y, np.zeros((1, 30)))
    assert len(cox_module._known) == before  # y may change
    y.setflags(write=False)
    first = cox_module.order_of(y[:, :20])
    assert cox_module.order_of(y[:, :20]) is first
    assert cox_module.order_of(y[:, 10:]) is not first
    del y, first
    gc.collect()
    assert len(cox_module._known) == before


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@given(seed=st.integers(0, 10_000))
def test_lifetimes_are_likelihoods(distribution, seed):
    rng, y = bounds(seed, 30)
    f = np.stack([rng.normal(size=30), rng.normal(size=30) * 0.5])
    loss = AcceleratedFailureTime(distribution)
    wanted = [twin.lifetime_value(*y[:, i], *f[:, i], distribution) for i in range(30)]
    assert np.allclose(loss.value(y, f), wanted, rtol=1e-9, atol=1e-9)
    found = loss.negative_gradient(y, f)
    for k in range(2):
        up, down = f.copy(), f.copy()
        up[k], down[k] = up[k] + STEP, down[k] - STEP
        rise = (loss.value(y, up) - loss.value(y, down)) / (2.0 * STEP)
        assert np.allclose(found[k], -rise, rtol=1e-5, atol=1e-6)
    assert (loss.hessian(y, f) > 0.0).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_fixed_scale_needs_one_score_less(distribution):
    _, y = bounds(0, 100)
    loss, learned = AcceleratedFailureTime(distribution, scale=0.7), AcceleratedFailureTime(distribution)
    f = np.linspace(-1.0, 1.0, 100)[np.newaxis]
    both = np.concatenate([f, np.full((1, 100), np.log(0.7))])
    assert np.allclose(loss.value(y, f), learned.value(y, both), rtol=1e-12)
    assert np.allclose(loss.negative_gradient(y, f)[0], learned.negative_gradient(y, both)[0], rtol=1e-12)
    assert np.allclose(loss.hessian(y, f)[0], learned.hessian(y, both)[0], rtol=1e-12)


def test_tails_of_the_normal_distribution():
    z = np.concatenate([np.linspace(-8.0, 8.0, 401), np.geomspace(8.0, 1e4, 50), -np.geomspace(8.0, 37.0, 20)])
    loss, zeros = AcceleratedFailureTime("normal", scale=20.0), np.zeros((1, len(z)))
    time = np.exp(np.clip(z, -30.0, 30.0) * 20.0)
    at = np.log(time) / 20.0
    right = loss.value(labels(time, np.zeros(len(z), bool)), zeros)
    assert np.allclose(right, -special.log_ndtr(-at), rtol=1e-12, atol=0.0)
    left = loss.value(np.stack([np.zeros(len(z)), time]), zeros)
    assert np.allclose(left, -special.log_ndtr(at), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("width", [1e-8, 1e-5, 1e-3])
def test_narrow_intervals_have_the_density_of_events(distribution, width):
    time = np.geomspace(0.01, 20.0, 40)
    y = np.stack([time, time * (1.0 + width)])
    width = np.log(y[1]) - np.log(y[0])
    f, loss = np.zeros((2, 40)), AcceleratedFailureTime(distribution)
    exact = labels(np.sqrt(y[0] * y[1]), np.ones(40, bool))
    density = loss.value(exact, f) - np.log(exact[0])
    assert np.allclose(loss.value(y, f) + np.log(width), density, rtol=1e-4, atol=1e-4)
    assert np.allclose(loss.negative_gradient(y, f), loss.negative_gradient(exact, f), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("location", [-400.0, -30.0, 30.0, 400.0])
def test_extreme_lifetimes_stay_finite(distribution, location):
    _, y = bounds(1, 50)
    loss, f = AcceleratedFailureTime(distribution), np.stack([np.full(50, location), np.full(50, -1.0)])
    for name in ("value", "negative_gradient", "hessian"):
        assert np.isfinite(getattr(loss, name)(y, f)).all()
    assert (loss.hessian(y, f) > 0.0).all()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("with_offset", [False, True])
def test_constants_of_lifetimes_have_no_gradient(distribution, with_offset):
    rng, y = bounds(2, 400)
    weight, loss = rng.integers(1, 4, 400).astype(float), AcceleratedFailureTime(distribution)
    offset = rng.normal(size=(2, 400)) * 0.3 if with_offset else None
    constant = loss.best_constants(y, weight, offset)
    f = np.repeat(constant[:, np.newaxis], 400, axis=1) + (0.0 if offset is None else offset)
    assert np.abs(np.average(loss.negative_gradient(y, f), axis=1, weights=weight)).max() < 1e-7


KINDS = ["at the end", "right", "left", "interval", "status"]


def censored(rng, distribution, kind, share, unit, n):
    """Bounds of times of which about this share is known: all others are censored, or in intervals."""
    scale = 10.0 ** rng.uniform(-2.0, 1.0)
    errors = twin.ERRORS[distribution].rvs(size=n, random_state=rng)
    end = np.quantile(errors, share) + (0.0 if kind == "at the end" else rng.normal(size=n))
    time, end = unit * np.exp(scale * errors), unit * np.exp(scale * end)
    if kind == "left":
        return np.stack([np.where(time >= end, time, 0.0), np.maximum(time, end)])
    if kind == "status":  # known to be before or after a time
        return np.stack([np.where(time > end, end, 0.0), np.where(time > end, np.inf, end)])
    lower = upper = time
    if kind == "interval":
        width = scale * np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0.0, 2.0, n))
        lower, upper = time * np.exp(-width), time * np.exp(width)
    return np.stack([np.where(time <= end, lower, end), np.where(time <= end, upper, np.inf)])


def checked_constants(loss, y, weight, offset):
    loss.check(y)
    return loss.best_constants(y, weight, offset)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 10_000),
    n=st.sampled_from([4, 30, 300]),
    share=st.floats(0.01, 1.0),
    unit=st.sampled_from([1e-6, 1.0, 1e9]),
    weighted=st.booleans(),
    shifted=st.booleans(),
)
@examples(5)
def test_constants_of_lifetimes_have_the_largest_likelihood(
    distribution, kind, seed, n, share, unit, weighted, shifted
):
    rng = np.random.default_rng(seed)
    y = censored(rng, distribution, kind, share, unit, n)
    weight = rng.exponential(size=n) if weighted else None
    offset = rng.normal(size=(2, n)) * 0.5 if shifted else np.zeros((2, n))
    logs = np.log(y, where=(y > 0.0) & np.isfinite(y), out=np.where(y > 0.0, np.inf, -np.inf)) - offset[0]
    for loss in (AcceleratedFailureTime(distribution), AcceleratedFailureTime(distribution, scale=0.5)):
        offset = offset[: loss.traits.n_scores]
        decided = np.isfinite(y[1]).any() and (y[0] > 0.0).any()
        if not decided or (loss.scale is None and logs[0].max() <= logs[1].min()):
            with pytest.raises(ValueError, match=r"^y"):
                checked_constants(loss, y, weight, offset)
            continue
        found = checked_constants(loss, y, weight, offset)
        unit_of_scores = np.array([np.exp(found[1]), 1.0]) if loss.scale is None else np.array([0.5])
        widest = np.log(10.0 * np.ptp(logs[np.isfinite(logs)])) - offset[-1].min()

        def mean(x, loss=loss, offset=offset, found=found, unit_of_scores=unit_of_scores, widest=widest):
            scores = found + x * unit_of_scores
            if loss.scale is None and scores[1] > widest + 1e-10:
                return np.inf
            return np.average(loss.value(y, scores[:, np.newaxis] + offset), weights=weight)

        away = rng.normal(size=loss.traits.n_scores)
        away[-1] = -abs(away[-1])
        other = optimize.minimize(mean, away, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13})
        assert mean(0.0) <= other.fun + 1e-9 * max(1.0, abs(other.fun))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("weight_of_events", [1e-3, 1e-7, 1e-12])
def test_constants_of_lifetimes_with_hardly_an_event(distribution, weight_of_events):
    time = np.exp(np.random.default_rng(3).normal(size=300))
    end = np.quantile(time, 0.1)
    y, loss = labels(np.minimum(time, end), time <= end), AcceleratedFailureTime(distribution)
    weight = np.where(time <= end, weight_of_events, 1.0)
    location, log_scale = found = loss.best_constant(y, weight)
    residual = loss.negative_gradient(y, np.repeat(found[:, np.newaxis], 300, axis=1))
    means = np.average(residual, axis=1, weights=weight) * [np.exp(log_scale), 1.0]
    assert np.abs(means).max() < 1e-8 * weight_of_events
    assert location < 40.0


def test_narrow_intervals_have_the_constants_of_events():
    time = np.random.default_rng(4).exponential(size=100)
    for distribution in DISTRIBUTIONS:
        loss = AcceleratedFailureTime(distribution)
        wanted = loss.best_constant(labels(time, np.ones(100, bool)), None)
        found = loss.best_constant(np.stack([time, time * (1.0 + 1e-13)]), None)
        assert found == pytest.approx(wanted, abs=1e-6)


def test_uncensored_normal_times_are_a_normal_distribution():
    rng = np.random.default_rng(5)
    time, f = np.exp(rng.normal(size=200)), rng.normal(size=(2, 200))
    found, other = AcceleratedFailureTime(), NormalDistribution()
    y = labels(time, np.ones(200, bool))
    assert np.allclose(found.value(y, f), other.value(np.log(time), f) + np.log(time))
    assert np.allclose(found.negative_gradient(y, f), other.negative_gradient(np.log(time), f))
    assert np.allclose(found.hessian(y, f), other.hessian(np.log(time), f))


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60))
@examples(15)
def test_piecewise_hazards_are_likelihoods(seed, n):
    rng, time, event = times(seed, n, 30)
    y = labels(time, event)
    loss = PiecewiseExponential(4).learned_from(y, None)
    assert loss.traits.n_scores == 1 + len(loss.intervals)
    f = rng.normal(size=(loss.traits.n_scores, n)) - 1.0
    wanted = [twin.hazards_value(time[i], event[i], f[:, i], loss.intervals) for i in range(n)]
    assert np.allclose(loss.value(y, f), wanted)
    found, hessian = loss.negative_gradient(y, f), loss.hessian(y, f)
    for k in range(loss.traits.n_scores):
        up, down = f.copy(), f.copy()
        up[k], down[k] = up[k] + STEP, down[k] - STEP
        assert np.allclose(found[k], -(loss.value(y, up) - loss.value(y, down)) / (2.0 * STEP), atol=1e-5)
    exposed = np.exp(f[0] + f[1:]) * loss.exposure(time)
    exposed = np.concatenate([exposed.sum(axis=0)[np.newaxis], exposed])
    assert np.allclose(hessian, np.maximum(exposed, np.abs(found) / 2.0), rtol=1e-12, atol=1e-300)
    constant = loss.best_constant(y, None)
    means = loss.negative_gradient(y, np.repeat(constant[:, np.newaxis], n, axis=1)).mean(axis=1)
    assert np.abs(means).max() < 1e-9
    assert constant[1:].sum() == pytest.approx(0.0, abs=1e-12)


def test_intervals_have_about_as_many_events():
    rng = np.random.default_rng(6)
    time, event = rng.exponential(size=5_000), rng.random(5_000) < 0.5
    loss = PiecewiseExponential(8).learned_from(labels(time, event), None)
    counts = np.histogram(time[event], [*loss.intervals, np.inf])[0]
    assert len(loss.intervals) == 8
    assert np.ptp(counts) <= 2
    assert PiecewiseExponential([0.0, 1.0]).learned_from(labels(time, event), None).intervals == (0.0, 1.0)


def test_offsets_of_hazards_are_exposures():
    rng, time, event = times(7, 200, 30)
    y, loss = labels(time, event), PiecewiseExponential([0.0, 10.0, 20.0])
    offset = np.zeros((4, 200))
    offset[0] = rng.normal(size=200)
    constants = loss.best_constants(y, None, offset)
    f = constants[:, np.newaxis] + offset
    assert np.abs(loss.negative_gradient(y, f).mean(axis=1)).max() < 1e-12
    of_intervals = np.concatenate([np.zeros((1, 200)), np.repeat(offset[:1], 3, axis=0)])
    assert np.allclose(loss.best_constants(y, None, of_intervals), constants, rtol=1e-12)


@pytest.mark.parametrize(
    "loss", [*map(AcceleratedFailureTime, DISTRIBUTIONS), PiecewiseExponential([0.0, 0.5, 2.0])], ids=repr
)
def test_quantiles_invert_cumulative_hazards(loss):
    rng = np.random.default_rng(8)
    f = rng.normal(size=(loss.traits.n_scores, 20))
    for share in (0.01, 0.5, 0.99):
        at = loss.quantile(f, share)
        found = [loss.cumulative_hazard(f[:, [i]], at[[i]])[0, 0] for i in range(20)]
        assert np.allclose(found, -np.log1p(-share), rtol=1e-9)
    assert np.array_equal(loss.cumulative_hazard(f, np.zeros(1)), np.zeros((20, 1)))


@given(seed=st.integers(0, 10_000), n=st.integers(3, 25), weighted=st.booleans())
def test_concordance_counts_pairs(seed, n, weighted):
    rng, y = bounds(seed, n)
    y = np.round(y, 1)
    y[:, 0], y[:, 1] = 0.1, 5.0
    risk, weight = rng.integers(0, 4, n).astype(float), rng.integers(1, 4, n).astype(float)
    weight = weight if weighted else np.ones(n)
    found = concordance(y, risk, weight if weighted else None)
    assert found == pytest.approx(twin.concordance(*y, risk, weight), rel=1e-12)
    order = rng.permutation(n)
    assert concordance(y[:, order], risk[order], weight[order] if weighted else None) == found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cox("exact"), "ties='exact' must be one of 'breslow', 'efron'"),
        (lambda: AcceleratedFailureTime("gamma"), "distribution='gamma' must be one of"),
        (lambda: AcceleratedFailureTime(scale=0.0), "scale=0.0 must be a positive"),
        (lambda: PiecewiseExponential(0), "intervals=0 must be a number of intervals from 1"),
        (lambda: PiecewiseExponential([1.0, 2.0]), "0 first"),
        (lambda: PiecewiseExponential([0.0, 2.0, 1.0]), "ascending order"),
        (lambda: PiecewiseExponential("ten"), "intervals='ten' must be"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_theory():
    assert AcceleratedFailureTime("normal", scale=2.0).smoothness == 0.25
    assert AcceleratedFailureTime("logistic", scale=1.0).smoothness == 0.5
    assert AcceleratedFailureTime("extreme", scale=1.0).smoothness == np.inf
    _, y = bounds(9, 300)
    for distribution in ("normal", "logistic"):
        loss = AcceleratedFailureTime(distribution, scale=0.5)
        f = np.linspace(-4.0, 4.0, 300)[np.newaxis]
        rise = (loss.negative_gradient(y, f - STEP) - loss.negative_gradient(y, f + STEP)) / (2.0 * STEP)
        assert rise.min() > -1e-6
        assert rise.max() < loss.smoothness + 1e-6
