"""The losses and metrics of rankings against slow twins, and edge cases of queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import ranking_twin as twin
from agbm._losses import named_loss
from agbm._losses.metrics import RankingMetric
from agbm.losses import LambdaRank, ListwiseCrossEntropy, PairwiseLogistic

queries = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.5]), min_size=n, max_size=n).map(np.array),
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0]), min_size=n, max_size=n).map(np.array),
    )
)
LOSSES = [
    LambdaRank(), LambdaRank("ndcg", 3), LambdaRank("ndcg", 2, "linear"), LambdaRank("map"), LambdaRank("mrr"),
    ListwiseCrossEntropy(), ListwiseCrossEntropy("linear"), PairwiseLogistic(),
]  # fmt: skip


def labels(relevance, query=None):
    return np.stack([relevance, np.zeros(len(relevance)) if query is None else query])


def many_queries(n_queries=40, seed=0, levels=4):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n_queries)
    query = np.repeat(np.arange(n_queries), sizes).astype(float)
    relevance = rng.integers(0, levels, len(query)).astype(float)
    return labels(relevance, query), np.round(rng.normal(size=(1, len(query))), 1)


@pytest.mark.parametrize("kind", ["ndcg", "map", "mrr"])
@pytest.mark.parametrize("cut", [1, 3, 100])
@given(query=queries)
def test_metrics_average_the_orders_of_ties(kind, cut, query):
    relevance, score = query
    numbers, found = RankingMetric(kind, cut).of_queries(relevance, np.full(len(score), 7.0), score)
    if not relevance.any():
        assert len(numbers) == 0
        return
    assert numbers.tolist() == [7.0]
    np.testing.assert_allclose(found, twin.metric(kind, relevance, score, cut), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cut", [1, 5, None])
def test_ndcg_is_that_of_scikit_learn(cut):
    rng = np.random.default_rng(1)
    relevance, score = rng.integers(0, 4, (30, 9)).astype(float), np.round(rng.normal(size=(30, 9)), 1)
    relevance[:, 0] = 1.0  # none without relevant documents
    query = np.repeat(np.arange(30.0), 9)
    _, found = RankingMetric("ndcg", cut).of_queries(relevance.ravel(), query, score.ravel())
    expected = [ndcg_score([2.0**r - 1.0], [s], k=cut) for r, s in zip(relevance, score, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["ndcg", "map", "mrr"])
@pytest.mark.parametrize("cut", [None, 2])
@given(query=queries)
def test_lambdas_weigh_pairs_by_the_change_of_the_metric(kind, cut, query):
    relevance, score = query
    loss = LambdaRank(kind, cut)
    truncation = 100 if cut is None else max(cut, loss.least_truncation)
    pull, curvature = twin.lambdas(kind, relevance, score, cut or 100, truncation)
    y, f = labels(relevance), score[np.newaxis]
    np.testing.assert_allclose(loss.negative_gradient(y, f)[0], pull, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loss.hessian(y, f)[0], curvature, rtol=1e-9, atol=1e-12)


def test_only_pairs_within_the_truncation_count(monkeypatch):
    monkeypatch.setattr(LambdaRank, "least_truncation", 2)
    rng = np.random.default_rng(3)
    relevance, score = rng.integers(0, 3, 30).astype(float), np.round(rng.normal(size=30), 1)
    loss = LambdaRank("ndcg", 2)
    pull, _ = twin.lambdas("ndcg", relevance, score, 2, 2)
    found = loss.negative_gradient(labels(relevance), score[np.newaxis])[0]
    np.testing.assert_allclose(found, pull, rtol=1e-9, atol=1e-12)


@given(query=queries)
def test_convex_losses_are_those_of_the_twin_and_have_their_derivatives(query):
    relevance, score = query
    y = labels(relevance)
    for loss, twin_loss in ((PairwiseLogistic(), twin.pairwise), (ListwiseCrossEntropy(), twin.listwise)):
        np.testing.assert_allclose(loss.total(y, score[np.newaxis], None), twin_loss(relevance, score), atol=1e-12)
        residual = loss.negative_gradient(y, score[np.newaxis])[0]
        for i in range(len(score)):
            step = np.where(np.arange(len(score)) == i, 1e-5, 0.0)
            slope = (twin_loss(relevance, score + step) - twin_loss(relevance, score - step)) / 2e-5
            np.testing.assert_allclose(residual[i], -slope, atol=1e-9)


@pytest.mark.parametrize("loss", [PairwiseLogistic(), ListwiseCrossEntropy()])
def test_convex_losses_are_as_smooth_as_they_say(loss):
    rng = np.random.default_rng(0)
    relevance = np.array([0.0, 0.0, 1.0, 2.0, 0.0])
    y = labels(relevance)
    steepest = 0.0
    for _ in range(300):
        f, step = rng.normal(size=(1, 5)), 1e-4 * rng.normal(size=(1, 5))
        difference = loss.negative_gradient(y, f - step) - loss.negative_gradient(y, f + step)
        steepest = max(steepest, np.linalg.norm(difference) / np.linalg.norm(2 * step))
    assert 0.1 < steepest <= loss.smoothness


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bits_depend_neither_on_the_order_of_rows_nor_on_threads(loss):
    y, f = many_queries()
    order = np.random.default_rng(5).permutation(f.shape[1])
    y[1] = y[1] * 2.0**40 - 0.5  # any numbers
    for n_threads in (1, 3):
        other = loss.with_threads(n_threads)
        assert np.array_equal(other.negative_gradient(y[:, order], f[:, order]), loss.negative_gradient(y, f)[:, order])
        assert np.array_equal(other.hessian(y[:, order], f[:, order]), loss.hessian(y, f)[:, order])
        assert other.total(y[:, order], f[:, order], None) == loss.total(y, f, None)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_queries_do_not_affect_each_other(loss):
    y, f = many_queries()
    one = y[1] == 3
    assert np.array_equal(loss.negative_gradient(y, f)[:, one], loss.negative_gradient(y[:, one], f[:, one]))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_queries_of_equal_relevance_have_no_gradient(loss):
    y = labels(np.array([1.0, 0.0, 0.0, 2.0, 2.0]), np.array([0.0, 1, 1, 2, 2]))
    f = np.array([[3.0, 1.0, 0.0, 5.0, -5.0]])
    if not isinstance(loss, ListwiseCrossEntropy):
        assert not loss.negative_gradient(y, f).any()
    assert not loss.negative_gradient(y, f)[0, :3].any()
    assert (loss.hessian(y, f) > 0.0).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_non_finite_scores(loss):
    y, f = many_queries()
    f[0, np.flatnonzero(y[1] == 5)[0]] = np.nan
    assert np.isnan(loss.negative_gradient(y, f)[0, y[1] == 5]).all()
    assert np.isfinite(loss.negative_gradient(y, f)[0, y[1] != 5]).all()
    assert np.isnan(loss.total(y, f, None))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_weights_of_queries_are_repetitions(loss):
    y, f = many_queries(10)
    weight = 1.0 + y[1] % 3
    copies = [(np.stack([y[0], y[1] + 100 * k])[:, weight > k], f[:, weight > k]) for k in range(3)]
    repeated = np.concatenate([c[0] for c in copies], axis=1), np.concatenate([c[1] for c in copies], axis=1)
    total, of_repeated = loss.exact_total(y, f, weight), loss.exact_total(*repeated, None)
    assert total / loss.total_weight(y, weight) == of_repeated / loss.total_weight(repeated[0], None)


@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_large_relevances_do_not_overflow(gain):
    relevance = np.array([0.0, 40.0, 1_000.0, 5_000.0, 1e9] if gain == "exponential" else [0.0, 1e200, 1e307, 1e308, 0])
    y, f = labels(relevance), np.array([[0.5, 0.4, 0.3, 0.2, 0.1]])
    for loss in (LambdaRank("ndcg", None, gain), ListwiseCrossEntropy(gain)):
        assert np.isfinite(loss.negative_gradient(y, f)).all()
        assert np.isfinite(loss.total(y, f, None))
    assert LambdaRank("ndcg", None, gain).total(y, f, None) > 0.0


def test_many_levels_keep_their_order():
    relevance = np.arange(60.0)
    perfect = RankingMetric("ndcg", None).mean(relevance, np.zeros(60), relevance)
    assert perfect == pytest.approx(1.0)
    residual = LambdaRank().negative_gradient(labels(relevance), np.zeros((1, 60)))[0]
    assert residual[-1] > 0.0 > residual[0]


@pytest.mark.parametrize("cut", [None, 10])
def test_long_queries_equal_short_ones(cut):
    n = 1_500  # more than a thread sums alone
    rng = np.random.default_rng(0)
    relevance, score = rng.integers(0, 3, n).astype(float), rng.permutation(n) / 100.0
    order = np.argsort(-score)
    gain, discount = 2.0 ** relevance[order] - 1.0, 1.0 / np.log2(np.arange(n) + 2.0)
    ideal = (np.sort(gain)[::-1] * discount)[:cut].sum()
    better, step = gain[:, None] - gain, score[order][:, None] - score[order]
    rho = 1.0 / (1.0 + np.exp(np.sign(better) * step))
    pulls = better * np.abs(discount[:, None] - discount) / ideal * rho / (0.01 + np.abs(step))
    if cut is not None:
        pulls[30:, 30:] = 0.0
    pull = pulls.sum(axis=1)
    pull *= np.log2(1.0 + np.abs(pull).sum()) / np.abs(pull).sum()
    found = LambdaRank("ndcg", cut).negative_gradient(labels(relevance), score[np.newaxis])[0]
    np.testing.assert_allclose(found[order], pull, rtol=1e-9, atol=1e-12)
    y = labels(relevance)
    of_pairs = np.where(better != 0.0, np.sign(better) * rho, 0.0).sum(axis=1) / np.count_nonzero(better > 0.0)
    found = PairwiseLogistic().negative_gradient(y, score[np.newaxis])[0]
    np.testing.assert_allclose(found[order], of_pairs, rtol=1e-9, atol=1e-12)


def test_long_queries_take_linear_memory_and_time():
    n = 100_000
    rng = np.random.default_rng(0)
    y, f = labels(rng.integers(0, 3, n).astype(float)), rng.normal(size=(1, n))
    residual = LambdaRank("ndcg", 10).negative_gradient(y, f)
    assert np.count_nonzero(residual) > n / 2
    assert ListwiseCrossEntropy().negative_gradient(y, f).sum() == pytest.approx(0.0, abs=1e-9)


def test_positions_explain_clicks():
    rng = np.random.default_rng(0)
    n_queries, n = 2_000, 6
    query = np.repeat(np.arange(n_queries), n).astype(float)
    position = np.tile(np.arange(n), n_queries).astype(float)
    clicks = (rng.random(len(query)) < 0.6 / (1.0 + position)).astype(float)  # nothing but position
    f = np.zeros((1, len(query)))
    plain = PairwiseLogistic().negative_gradient(np.stack([clicks, query]), f)[0]
    aware = PairwiseLogistic().negative_gradient(np.stack([clicks, query, position]), f)[0]
    of_first = [abs(gradient[position == 0].sum()) for gradient in (plain, aware)]
    assert of_first[1] < 0.05 * of_first[0]
    order = rng.permutation(len(query))
    y = np.stack([clicks, query, position])
    again = PairwiseLogistic().negative_gradient(y[:, order], f[:, order])[0]
    assert np.array_equal(again, aware[order])


@pytest.mark.parametrize(
    ("name", "message"),
    [("ndcg:0", "number of positions"), ("ndcg:x", "number of positions"), ("lambdarank", "must be one of")],
)
def test_invalid_names_raise(name, message):
    with pytest.raises(ValueError, match=message):
        named_loss("ranking", name)


def test_invalid_settings_raise():
    with pytest.raises(ValueError, match="metric='auc'"):
        LambdaRank("auc")
    for cut in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="cut="):
            LambdaRank("ndcg", cut)
    with pytest.raises(ValueError, match="gain='squared'"):
        ListwiseCrossEntropy("squared")
    assert repr(named_loss("ranking", "ndcg:5")) == "LambdaRank(gain='exponential', metric='ndcg', cut=5)"
