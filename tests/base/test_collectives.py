"""Statistics of all rows are bitwise equal for any partition of the rows among processes."""

import pickle
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm._base.collectives import anywhere, combined, count, distinct, evaluate, largest, merged, ranked, smallest
from agbm._base.weights import Weights, check_sample_weight, class_factors
from agbm._data.hold_out import held_out_rows, strata_of_numbers, time_windows
from agbm._losses import best_constant_with
from agbm.losses import (
    AbsoluteError,
    Exponential,
    Gamma,
    GammaDistribution,
    HalfSquaredError,
    HistogramDistribution,
    Huber,
    LogLoss,
    Multinomial,
    MultinomialCrossEntropy,
    NegativeBinomialDistribution,
    NormalDistribution,
    PiecewiseExponential,
    Poisson,
    Quantile,
    StudentTDistribution,
    Tweedie,
    ZeroInflatedGammaDistribution,
    ZeroInflatedPoissonDistribution,
)
from agbm.losses import AcceleratedFailureTime as Aft
from profiles import examples

AMOUNTS = [HalfSquaredError(), AbsoluteError(), Quantile(0.3), Quantile([0.1, 0.5, 0.9]), Huber(0.7), Poisson(),
           Gamma(), Tweedie(1.4), NormalDistribution(), StudentTDistribution(), GammaDistribution(),
           ZeroInflatedGammaDistribution()]  # fmt: skip
COUNTS = [NegativeBinomialDistribution(), ZeroInflatedPoissonDistribution(), Poisson()]


def everywhere(function, parts):
    """What every process gets, each with its own arguments of `parts`; contributions travel as pickles."""
    known = []
    while True:
        outcomes = [pickle.loads(pickle.dumps(evaluate(function, *part, known=known))) for part in parts]
        contributions = [outcome.contribution for outcome in outcomes]
        if all(contribution is None for contribution in contributions):
            return [outcome.result for outcome in outcomes]
        assert None not in contributions  # all processes are at the same number
        known.append(merged(contributions))


def divided(cuts, *vectors):
    """Vectors over rows (their last axis), cut into parts."""
    split = [[None] * (len(cuts) + 1) if v is None else np.split(v, cuts, axis=-1) for v in vectors]
    return list(zip(*split, strict=True))


def cuts_of(rng, n_rows, n_parts):
    """Positions that divide rows into parts, of which some may be empty."""
    return np.sort(rng.integers(0, n_rows + 1, n_parts - 1))


def same_bits(a, b):
    assert np.asarray(a, dtype=np.float64).tobytes() == np.asarray(b, dtype=np.float64).tobytes()


@given(seed=st.integers(0, 10_000), n_rows=st.integers(1, 60), n_parts=st.integers(1, 6), weighted=st.booleans())
@examples(15)
def test_statistics_of_all_rows(seed, n_rows, n_parts, weighted):
    rng = np.random.default_rng(seed)
    x = rng.integers(-5, 6, n_rows) / 2
    bits = rng.integers(0, 2**64, n_rows, dtype=np.uint64) >> rng.integers(0, 60, n_rows).astype(np.uint64)
    weight = rng.integers(1, 5, n_rows).astype(np.float64) if weighted else None
    total = n_rows if weight is None else int(weight.sum())
    wanted = rng.integers(1, total + 1, 3)

    def numbers(x, bits, weight):
        return [
            count(len(x)), smallest(x), largest(x), float(anywhere(x > 2.0)), *distinct(np.unique(x)),
            *ranked(bits, wanted, weight),
        ]  # fmt: skip

    expected = numbers(x, bits, weight)
    order = np.argsort(bits)
    at = np.searchsorted(np.cumsum(np.ones(n_rows) if weight is None else weight[order]), wanted)
    assert [int(found) for found in expected[-3:]] == bits[order][at].tolist()
    for found in everywhere(numbers, divided(cuts_of(rng, n_rows, n_parts), x, bits, weight)):
        assert found == expected


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), weighted=st.booleans(), shifted=st.booleans())
@examples(3)
@pytest.mark.parametrize("loss", AMOUNTS, ids=repr)
def test_constants_of_amounts(loss, seed, n_parts, weighted, shifted):
    rng = np.random.default_rng(seed)
    check_constants(loss, rng.gamma(2.0, 1.0, 40), rng, n_parts, weighted, shifted)


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), weighted=st.booleans(), shifted=st.booleans())
@examples(3)
@pytest.mark.parametrize("loss", COUNTS, ids=repr)
def test_constants_of_counts(loss, seed, n_parts, weighted, shifted):
    rng = np.random.default_rng(seed)
    check_constants(loss, np.append(rng.poisson(1.5, 40), [0, 3]).astype(float), rng, n_parts, weighted, shifted)


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), weighted=st.booleans(), shifted=st.booleans())
@examples(3)
@pytest.mark.parametrize("loss", [LogLoss(), Exponential(), Multinomial(3), MultinomialCrossEntropy(3)], ids=repr)
def test_constants_of_classes(loss, seed, n_parts, weighted, shifted):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3 if isinstance(loss, Multinomial) else 2, 30).astype(float)
    if isinstance(loss, MultinomialCrossEntropy):
        y = np.ascontiguousarray(rng.dirichlet([1.0, 2.0, 3.0], 30).T)
    check_constants(loss, y, rng, n_parts, weighted, shifted)


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), weighted=st.booleans(), shifted=st.booleans())
@examples(3)
@pytest.mark.parametrize("loss", [Aft("normal"), Aft("extreme", 0.5), PiecewiseExponential(4)], ids=repr)
def test_constants_of_times(loss, seed, n_parts, weighted, shifted):
    rng = np.random.default_rng(seed)
    times = rng.gamma(2.0, 1.0, 40)
    y = np.stack([times, np.where(rng.random(40) < rng.choice([0.1, 0.7]), times, np.inf)])
    y[1, :2] = times[:2]
    check_constants(loss, y, rng, n_parts, weighted, shifted)


def check_constants(loss, y, rng, n_parts, weighted, shifted):
    n_rows = y.shape[-1]
    weight = rng.integers(1, 4, n_rows).astype(float) if weighted else None

    def constants(y, weight, offset):
        learned = loss.learned_from(y, weight) if loss.traits.learns_from_labels else loss
        learned.check(y)
        return best_constant_with(learned, y, weight, offset)

    n_scores = np.size(constants(y, weight, None))
    offset = None
    if shifted:
        offset = rng.normal(0.0, 0.3, (n_scores, n_rows))
        offset = offset if np.ndim(constants(y, weight, None)) else offset[0]
    expected = constants(y, weight, offset)
    for found in everywhere(constants, divided(cuts_of(rng, n_rows, n_parts), y, weight, offset)):
        same_bits(found, expected)


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), weighted=st.booleans(), edges=st.booleans())
def test_bins_of_a_histogram_distribution(seed, n_parts, weighted, edges):
    rng = np.random.default_rng(seed)
    loss = HistogramDistribution([-2.0, 0.0, 0.5, 3.0] if edges else 6)
    weight = rng.integers(1, 4, 90).astype(float) if weighted else None
    of_numbers = rng.normal(size=90)
    for y in (of_numbers, np.exp(2.0 * of_numbers), np.maximum(of_numbers, 0.0), np.rint(of_numbers)):
        expected = loss.learned_from(y, weight).pieces
        parts = divided(cuts_of(rng, 90, n_parts), y, weight)
        for found in everywhere(lambda y, weight: loss.learned_from(y, weight).pieces, parts):
            assert found == expected


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 5), counts=st.booleans(), balanced=st.booleans())
def test_weights(seed, n_parts, counts, balanced):
    rng = np.random.default_rng(seed)
    given_weight = rng.integers(0, 4, 30) if counts else rng.random(30)
    given_weight[0] = 1
    codes = np.append([0, 1, 2], rng.integers(0, 3, 27))

    def weights(weight, codes):
        weight = check_sample_weight(weight, np.empty((len(weight), 1)))
        kept = weight > 0
        factors = class_factors("balanced" if balanced else {1: 3.0}, codes[kept], [0, 1, 2], weight[kept])
        found = Weights.of(weight[kept], factors)
        return found.total, found.in_steps

    expected = weights(given_weight, codes)
    found = everywhere(weights, divided(cuts_of(rng, 30, n_parts), given_weight, codes))
    for one, parts in zip(expected, zip(*found, strict=True), strict=True):
        same_bits(np.concatenate(parts), one)


@given(
    seed=st.integers(0, 10_000), n_rows=st.integers(8, 80), n_parts=st.integers(1, 5), n_members=st.integers(1, 4),
    share=st.floats(0.05, 0.5), n_classes=st.integers(0, 4),
)  # fmt: skip
def test_held_out_rows(seed, n_rows, n_parts, n_members, share, n_classes):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n_rows) if n_classes else None
    if classes is not None:
        classes[:2] = 0  # a class with more than one row
    expected = held_out_rows(n_rows, share, n_members, classes, seed)
    cuts = cuts_of(rng, n_rows, n_parts)

    def held_out(first, classes, rows):
        return held_out_rows(len(rows), share, n_members, classes, seed, None, int(first))

    firsts = np.append(0, cuts)
    parts = [(first, *part) for first, part in zip(firsts, divided(cuts, classes, np.arange(n_rows)), strict=True)]
    found = everywhere(held_out, parts)
    for number in range(n_members):
        of_member = expected.rows(number)
        np.testing.assert_array_equal(np.concatenate([part.rows(number) for part in found]), of_member)
        assert of_member.any()


@given(seed=st.integers(0, 10_000), n_rows=st.integers(1, 60), n_parts=st.integers(1, 6), n_outputs=st.integers(1, 3))
def test_strata_of_numbers(seed, n_rows, n_parts, n_outputs):
    rng = np.random.default_rng(seed)
    y = rng.choice([0.0, 1.0, 2.5], size=(n_outputs, n_rows), p=[0.6, 0.3, 0.1])
    expected = strata_of_numbers(y)
    most = [[value for value in (0.0, 1.0, 2.5) if 2 * (row == value).sum() > n_rows] for row in y]
    assert (expected is None) == (not any(most))
    if expected is not None:
        differs = np.any([row != value for row, values in zip(y, most, strict=True) for value in values], axis=0)
        np.testing.assert_array_equal(expected > 0, differs)
    found = everywhere(strata_of_numbers, divided(cuts_of(rng, n_rows, n_parts), y))
    if expected is None:
        assert found == [None] * n_parts
    else:
        np.testing.assert_array_equal(np.concatenate(found), expected)


def test_groups_are_held_out_whole():
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 40, 200)).astype(float)
    for classes in (None, (groups % 13 == 5).astype(int)):  # of three groups
        expected = held_out_rows(200, 0.2, 2, classes, 3, groups)
        for number in range(2):
            of_part = expected.rows(number)
            assert set(groups[of_part]).isdisjoint(groups[~of_part])
            if classes is not None:
                assert set(classes[of_part]) == set(classes[~of_part]) == {0, 1}
        for cuts in (np.searchsorted(groups, [7.0, 20.0]), [0, 50, 111, 113]):  # whole groups, and divided ones
            found = everywhere(
                lambda groups, classes: held_out_rows(len(groups), 0.2, 2, classes, 3, groups),
                divided(cuts, groups, classes),
            )
            for number in range(2):
                of_parts = np.concatenate([part.rows(number) for part in found])
                np.testing.assert_array_equal(of_parts, expected.rows(number))


def test_groups_have_the_rarest_class_of_their_rows():
    groups, classes = np.repeat(np.arange(40), 5), np.zeros(200, dtype=int)
    classes[::25] = 1  # one row of every fifth group
    held_out = held_out_rows(200, 0.1, 5, classes, 0, groups)
    assert [classes[held_out.rows(number)].sum() for number in range(5)] == [1] * 5


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.01, 0.6))
def test_windows_of_time(seed, n_windows, share):
    rng = np.random.default_rng(seed)
    time = rng.integers(0, 30, 60).astype(np.uint64)
    expected = time_windows(time, share, n_windows)
    cuts = cuts_of(rng, 60, 4)
    assert everywhere(lambda part: time_windows(part, share, n_windows), divided(cuts, time)) == [expected] * 4


def test_combined_contributions():
    assert everywhere(lambda x: combined(x, add, sum), [([1],), ([2, 3],)]) == [6, 6]
    assert combined([1, 2], add, sum) == 3


def test_errors_end_an_evaluation():
    def fails(x):
        if smallest(x) < 0.0:
            raise ValueError("negative")

    with pytest.raises(ValueError, match="negative"):
        everywhere(fails, [(np.array([1.0]),), (np.array([-1.0]),)])
    assert smallest(np.array([2.0])) == 2.0  # this process has all rows again
