"""The scores of the benchmark of rankings (benchmarks/tasks/ranking.py)."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from benchmarks.tasks import ranking as scores


@pytest.fixture(params=range(5))
def query(request):
    rng = np.random.default_rng(request.param)
    relevance = rng.integers(0, 4, 30)
    return relevance, rng.normal(size=30) + relevance


@pytest.mark.parametrize("cut", [1, 5, 10, 100])
@pytest.mark.parametrize("decimals", [None, 0])
def test_ndcg_is_that_of_scikit_learn_also_with_ties(query, cut, decimals):
    relevance, predicted = query
    predicted = predicted if decimals is None else predicted.round(decimals)
    expected = ndcg_score([2.0**relevance - 1.0], [predicted], k=cut)
    assert scores.ndcg(relevance, predicted, cut) == pytest.approx(expected)


def test_average_precision_is_that_of_scikit_learn(query):
    relevance, predicted = query
    expected = average_precision_score(relevance > 0, predicted)
    assert scores.average_precision(relevance, predicted) == pytest.approx(expected)


def test_average_precision_of_ties_does_not_depend_on_the_order_in_the_file():
    """If the first documents were taken first, a table sorted by relevance would give constants a perfect score."""
    relevance = np.repeat([1, 0], [10, 90])
    assert scores.average_precision(relevance, np.zeros(100)) < 0.3


def test_perfect_and_reversed_order(query):
    relevance, _ = query
    assert scores.ndcg(relevance, relevance, 10) == pytest.approx(1.0)
    assert scores.average_precision(relevance, relevance) == 1.0
    assert scores.ndcg(relevance, -relevance, 1) == 0.0


def test_queries_without_relevant_documents_are_left_out():
    relevance, predicted = np.array([0, 0, 1, 0, 0, 2, 1]), np.arange(7.0)
    found = scores.by_query(relevance, predicted, np.array([2, 2, 2, 1]))
    assert {name: len(values) for name, values in found.items()} == {"NDCG@1": 3, "NDCG@5": 3, "NDCG@10": 3, "MAP": 3}
    assert found["NDCG@1"] == [0.0, 1.0, 1.0]
    assert found["MAP"] == [0.5, 1.0, 1.0]
