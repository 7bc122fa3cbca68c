"""Conformal prediction on arrays, against its definition computed by brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm._uncertainty.conformal import (
    ClassShare,
    Residual,
    SortedScores,
    class_sets,
    exact_coverage,
    intervals,
    rows_needed,
    scores_of_labels,
    wanted_weight,
    whole_weights,
)
from agbm.losses import CrossEntropy, Exponential, Gamma, HalfSquaredError, LogLoss, Multinomial, Poisson, Tweedie
from profiles import examples

MEASURES = {
    "distance": Residual(HalfSquaredError()),
    "poisson": Residual(Poisson(), 1.0, lowest=0.0),
    "tweedie": Residual(Tweedie(1.3), 1.3, lowest=0.0),
    "gamma": Residual(Gamma(), 2.0, lowest=0.0),
    "probability": Residual(CrossEntropy(), lowest=0.0, highest=1.0),
}


def brute_interval(lists, test_weight, coverage, measure, raws, row):
    """The definition: every bound as often as its weight says, sorted; +-inf (as clipped) if there are too few."""
    lower, upper, total = [], [], 0
    for scores, raw in zip(lists, raws, strict=True):
        summary = measure.summary(raw[:, [row]])
        weights = np.ones(len(scores.values), int) if scores.weights is None else scores.weights
        for score, weight in zip(scores.values, weights.tolist(), strict=True):
            lower += [float(measure.lower(summary, np.array([score]))[0])] * weight
            upper += [float(measure.upper(summary, np.array([score]))[0])] * weight
            total += weight
    n = total + test_weight
    rank = math.ceil(coverage * n)
    if rank > total:
        everything = np.array([np.inf])
        return float(measure.lower(summary, everything)[0]), float(measure.upper(summary, everything)[0])
    # With one new row this is the floor(alpha (n + 1))-th smallest lower bound.
    assert test_weight > 1 or total - rank + 1 == math.floor((1 - coverage) * n)
    return sorted(lower)[total - rank], sorted(upper)[rank - 1]


@st.composite
def calibrations(draw, n_labels=1):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_members, n_rows = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    sizes = [draw(st.integers(0, 12)) for _ in range(n_members)]
    digits = draw(st.sampled_from([0, 1, 12]))  # with few digits there are ties
    weighted, infinite = draw(st.booleans()), draw(st.booleans())
    lists = []
    for n in sizes:
        values = np.abs(np.round(rng.normal(size=n), digits))
        values[: n // 4 if infinite else 0] = np.inf
        lists.append(SortedScores.of(values, rng.integers(0, 4, n) if weighted else None))
    raws = [np.round(rng.normal(size=(n_labels, n_rows)), digits) for _ in range(n_members)]
    coverage = Fraction(draw(st.integers(1, 99)), 100)
    return lists, draw(st.sampled_from([1, 3])) if weighted else 1, coverage, raws


@pytest.mark.parametrize("name", MEASURES)
@given(calibrations())
def test_intervals_are_those_of_the_definition(name, given):
    lists, test_weight, coverage, raws = given
    measure = MEASURES[name]
    found = intervals(lists, test_weight, coverage, measure, raws)
    expected = [
        brute_interval(lists, test_weight, coverage, measure, raws, row) for row in range(raws[0].shape[1])
    ]  # fmt: skip
    np.testing.assert_array_equal(found, expected)


@examples(40)
@given(calibrations(n_labels=3))
def test_sets_are_those_of_the_definition(given):
    lists, test_weight, coverage, raws = given
    measure = ClassShare(Multinomial(3), 3)
    found = class_sets(lists, test_weight, coverage, measure, raws)
    for row in range(raws[0].shape[1]):
        for label in range(3):
            below = total = 0
            for scores, raw in zip(lists, raws, strict=True):
                weights = np.ones(len(scores.values), int) if scores.weights is None else scores.weights
                of_label = measure.score(np.array([label]), raw[:, [row]])[0]
                below += int(weights[scores.values < of_label].sum())
                total += int(weights.sum())
            enough = math.ceil(coverage * (total + test_weight)) <= total
            assert found[row, label] == (not enough or below < coverage * (total + test_weight))


def test_many_rows_are_computed_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    lists = [SortedScores.of(rng.random(40), None) for _ in range(3)]
    raws = [rng.normal(size=(1, 100)) for _ in range(3)]
    given = (lists, 1, Fraction(4, 5), MEASURES["distance"], raws)
    whole = intervals(*given)
    monkeypatch.setattr("agbm._uncertainty.conformal.ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(intervals(*given), whole)


@pytest.mark.parametrize(
    ("coverage", "n", "rank"),
    [(0.9, 9, 9), (0.9, 10, 10), (0.9, 8, None), (0.95, 19, 19), (0.8, 4, 4), (0.7 + 0.2, 9, 9), (1 - 0.1, 19, 18),
     (np.float32(0.9), 9, 9), (Fraction(9, 10), 9, 9), (0.5, 1, 1), (1 / 3, 2, 1), (0.99, 98, None), (0.99, 99, 99)],
)  # fmt: skip
def test_ranks_are_exact(coverage, n, rank):
    """In floating point, 0.9 * 10 > 9 for the double nearest to 0.9."""
    scores = [SortedScores(np.arange(n, dtype=float))]
    assert wanted_weight(scores, 1, exact_coverage(coverage)) == rank
    if rank is not None:
        found = intervals(scores, 1, exact_coverage(coverage), MEASURES["distance"], [np.zeros((1, 1))])
        np.testing.assert_array_equal(found, [[-(rank - 1.0), rank - 1.0]])


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 1.5, "0.9", None, math.nan, True, 1e-15, 1 - 1e-15])
def test_invalid_coverage_raises(coverage):
    with pytest.raises(ValueError, match=r"coverage=.*must be a number between 0 and 1"):
        exact_coverage(coverage)


@given(st.integers(1, 999))
def test_rows_needed_are_the_first_that_are_enough(thousandths):
    coverage = Fraction(thousandths, 1000)
    n = rows_needed(coverage)
    assert wanted_weight([SortedScores(np.zeros(n))], 1, coverage) is not None
    assert wanted_weight([SortedScores(np.zeros(n - 1))], 1, coverage) is None


@pytest.mark.parametrize("name", MEASURES)
@given(data=st.data())
def test_an_interval_at_the_score_contains_the_label(name, data):
    """To the last bit: where many rows are alike, a whole share of them would be missed otherwise."""
    measure = MEASURES[name]
    largest = {"distance": 1e300, "probability": 1.0}.get(name, 1e100)
    numbers = st.floats(-largest if name == "distance" else 1e-3, largest)
    raws = st.floats(-1e300, 1e300) if name == "distance" else st.floats(-100, 100)
    y, raw = (np.array(data.draw(st.lists(of, min_size=5, max_size=5))) for of in (numbers, raws))
    score = measure.score(y, raw[np.newaxis])
    summary = measure.summary(raw[np.newaxis])
    assert (measure.lower(summary, score) <= y).all()
    assert (measure.upper(summary, score) >= y).all()
    assert not np.isnan(score).any()


@pytest.mark.parametrize("name", MEASURES)
def test_intervals_are_nested(name):
    measure, rng = MEASURES[name], np.random.default_rng(0)
    summary = measure.summary(rng.normal(size=(1, 200)))
    thresholds = np.sort(np.append(rng.exponential(size=50), [0.0, np.inf]))
    lower = np.array([measure.lower(summary, np.full(200, t)) for t in thresholds])
    upper = np.array([measure.upper(summary, np.full(200, t)) for t in thresholds])
    assert (np.diff(lower, axis=0) <= 0).all()
    assert (np.diff(upper, axis=0) >= 0).all()
    np.testing.assert_array_equal(lower[-1], measure.lowest)
    np.testing.assert_array_equal(upper[-1], measure.highest)


def test_names_of_scores():
    y, raw = np.array([3.0, 0.0, 1.0]), np.array([[0.5, -1.0, 2.0]])
    np.testing.assert_allclose(MEASURES["distance"].score(y, raw), [2.5, 1.0, 1.0])
    mu = np.exp(raw[0])
    np.testing.assert_allclose(MEASURES["poisson"].score(y, raw), np.abs(y - mu) / np.sqrt(mu))
    np.testing.assert_allclose(MEASURES["tweedie"].score(y, raw), np.abs(y - mu) / mu**0.65)
    np.testing.assert_allclose(MEASURES["gamma"].score(y, raw), np.abs(y - mu) / mu)
    codes, p = np.array([1.0, 0.0, 1.0]), 1 / (1 + np.exp(-raw[0]))
    np.testing.assert_allclose(ClassShare(LogLoss(), 1).score(codes, raw), 1 - np.where(codes == 1, p, 1 - p))
    p = 1 / (1 + np.exp(-2 * raw[0]))
    np.testing.assert_allclose(ClassShare(Exponential(), 1).score(codes, raw), 1 - np.where(codes == 1, p, 1 - p))


def test_raw_scores_that_are_not_finite():
    measure = MEASURES["poisson"]
    raw = np.array([[-800.0, 800.0, -np.inf, np.inf, np.nan]])
    score = measure.score(np.ones(5), raw)
    assert not np.isnan(score).any()
    found = intervals([SortedScores.of(np.arange(20.0), None)], 1, Fraction(9, 10), measure, [raw])
    assert not np.isnan(found).any()
    assert (found[:, 0] >= 0.0).all()
    assert (found[:, 0] <= found[:, 1]).all()


@pytest.mark.parametrize("name", [*MEASURES, "classes"])
def test_scores_of_training_allow_for_rounding(name):
    """They are at least those of raw scores that differ in their last bits, and hardly larger."""
    measure = ClassShare(Multinomial(3), 3) if name == "classes" else MEASURES[name]
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(measure.n_scores, 500))
    y = rng.integers(0, 3, 500).astype(float) if name == "classes" else rng.random(500)
    found = scores_of_labels(measure, y, raw, np.ones_like(raw))[0]
    for _ in range(5):
        other = measure.score(y, raw + 1e-13 * rng.normal(size=raw.shape))
        assert (found >= other).all()
    np.testing.assert_allclose(found, measure.score(y, raw), rtol=1e-8, atol=1e-8)


def test_integer_weights_are_repetitions():
    rng = np.random.default_rng(0)
    values, weights = rng.random(30), rng.integers(0, 5, 30)
    raws = [rng.normal(size=(1, 9))]
    for coverage in (Fraction(1, 2), Fraction(9, 10)):
        weighted = intervals([SortedScores.of(values, weights)], 1, coverage, MEASURES["distance"], raws)
        repeated = SortedScores.of(np.repeat(values, weights), None)
        np.testing.assert_array_equal(weighted, intervals([repeated], 1, coverage, MEASURES["distance"], raws))


def test_equal_relative_weights_equal_no_weights():
    rng = np.random.default_rng(0)
    values, raws = rng.random(30), [rng.normal(size=(1, 9))]
    weights = whole_weights(np.full(30, 0.3), 0.3)
    one = int(whole_weights(np.array([0.3]), 0.3)[0])
    for coverage in (Fraction(1, 2), Fraction(9, 10), Fraction(30, 31), Fraction(98, 100)):
        weighted = intervals([SortedScores.of(values, weights)], one, coverage, MEASURES["distance"], raws)
        plain = intervals([SortedScores.of(values, None)], 1, coverage, MEASURES["distance"], raws)
        np.testing.assert_array_equal(weighted, plain)


def test_sample_is_drawn_from_all_scores():
    scores = SortedScores.of(np.random.default_rng(0).random(1000), np.arange(1000))
    sample = scores.sample(100, seed=3)
    assert len(sample.values) == 100
    assert (np.diff(sample.values) > 0).all()
    of = dict(zip(scores.values, scores.weights, strict=True))
    assert [of[value] for value in sample.values] == sample.weights.tolist()
    assert scores.sample(1000, seed=3) is scores


@pytest.mark.parametrize("discrete", [False, True])
def test_coverage_of_split_conformal_prediction(discrete):
    """Covered in 4,000 independent repetitions, each with its own calibration rows and one new row.

    If the probability were below 0.8, fewer rows would be covered than the bound with probability 1 - 1e-6 at least.
    For continuous scores it is rank / (n + 1) = 0.8 exactly here, so the test also bounds it from above, with the same
    error probability. With ties, it may be larger.
    """
    rng, n, repetitions, coverage = np.random.default_rng(0), 19, 4000, Fraction(4, 5)
    covered = 0
    for _ in range(repetitions):
        y, raw = rng.normal(size=n + 1), np.round(rng.normal(size=(1, n + 1)), 1)
        y = np.round(y) if discrete else y
        measure = MEASURES["distance"]
        scores = SortedScores.of(measure.score(y[:n], raw[:, :n]), None)
        ((lower, upper),) = intervals([scores], 1, coverage, measure, [raw[:, n:]])
        covered += lower <= y[n] <= upper
    low = next(k for k in range(repetitions) if binomial_tail(repetitions, 0.8, k) > 1e-6)
    high = repetitions - next(k for k in range(repetitions) if binomial_tail(repetitions, 0.2, k) > 1e-6)
    assert covered >= low
    assert discrete or covered <= high


def binomial_tail(n, p, k):
    """P(at most k of n) in floating point."""
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log(1 - p)
        for i in range(max(0, k - 200), k + 1)
    ]
    return math.fsum(map(math.exp, logs))
