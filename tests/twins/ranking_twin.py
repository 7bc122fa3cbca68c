"""The losses and metrics of rankings in slow, plain NumPy: by trying all exchanges and all orders of ties."""

from __future__ import annotations

from itertools import permutations

import numpy as np


def gains_of(relevance, gain="exponential"):
    return 2.0**relevance - 1.0 if gain == "exponential" else relevance


def ndcg_of_order(relevance, cut, gain="exponential"):
    """NDCG of documents in the given order."""
    gains = gains_of(relevance, gain)
    discount = np.where(np.arange(len(gains)) < cut, 1.0 / np.log2(np.arange(len(gains)) + 2.0), 0.0)
    return (gains * discount).sum() / (np.sort(gains)[::-1] * discount).sum()


def precision_of_order(relevance, cut, gain=None):
    hit = relevance > 0
    precision = np.cumsum(hit) / np.arange(1, len(hit) + 1)
    return (precision * hit)[:cut].sum() / min(hit.sum(), cut)


def reciprocal_of_order(relevance, cut, gain=None):
    first = np.flatnonzero(relevance > 0)[0]
    return 1.0 / (first + 1) if first < cut else 0.0


OF_ORDER = {"ndcg": ndcg_of_order, "map": precision_of_order, "mrr": reciprocal_of_order}


def metric(kind, relevance, score, cut, gain="exponential"):
    """The mean over all orders that sort the scores; for few documents."""
    orders = [
        list(order) for order in permutations(range(len(score))) if (np.diff(np.asarray(score)[list(order)]) <= 0).all()
    ]
    return float(np.mean([OF_ORDER[kind](relevance[order], cut, gain) for order in orders]))


def change(kind, relevance, a, b, cut, gain):
    """By how much the metric changes if the documents at two positions are exchanged.

    The ideal DCG has the cut, but not the discounts: pairs beyond the cut count as well.
    """
    exchanged = relevance.copy()
    exchanged[[a, b]] = exchanged[[b, a]]
    n = len(relevance)
    if kind == "ndcg":
        gains, discount = gains_of(relevance, gain), 1.0 / np.log2(np.arange(n) + 2.0)
        ideal = (np.sort(gains)[::-1][:cut] * discount[:cut]).sum()
        return abs(((gains_of(exchanged, gain) - gains) * discount).sum()) / ideal
    return abs(OF_ORDER[kind](exchanged, n) - OF_ORDER[kind](relevance, n))


def lambdas(kind, relevance, score, cut, truncation, gain="exponential"):
    """Negative gradient and hessian of LambdaRank for one query, as means over equal documents."""
    relevance, score = np.asarray(relevance, float), np.asarray(score, float)
    seen = (relevance > 0).astype(float) if kind in ("map", "mrr") else relevance
    order = np.lexsort((seen, -score))
    seen, sorted_score = seen[order], score[order]
    n = len(seen)
    run = np.concatenate([[0], np.cumsum((np.diff(seen) != 0) | (np.diff(sorted_score) != 0))])
    pull, curvature = np.zeros(n), np.zeros(n)
    if not (seen > 0).any():
        return np.zeros(n), np.zeros(n)
    for a in range(n):
        for b in range(a + 1, n):
            if seen[a] == seen[b] or a >= truncation:
                continue
            weight = change(kind, seen, a, b, cut, gain)
            better, worse = (a, b) if seen[a] > seen[b] else (b, a)
            weight /= 0.01 + abs(sorted_score[a] - sorted_score[b])
            rho = 1.0 / (1.0 + np.exp(sorted_score[better] - sorted_score[worse]))
            pull[better] += weight * rho
            pull[worse] -= weight * rho
            curvature[[better, worse]] += weight * rho * (1.0 - rho)
    pull = np.array([pull[run == run[i]].mean() for i in range(n)])
    curvature = np.array([curvature[run == run[i]].mean() for i in range(n)])
    total = np.abs(pull).sum()
    if total > 0:
        factor = np.log2(1.0 + total) / total
        pull, curvature = pull * factor, curvature * factor
    curvature = np.maximum(curvature, np.abs(pull) / 6.0)
    back = np.empty(n, dtype=int)
    back[order] = np.arange(n)
    return pull[back], curvature[back]


def pairwise(relevance, score):
    """The mean logistic loss of pairs with different relevance."""
    terms = [
        np.log1p(np.exp(score[j] - score[i]))
        for i in range(len(score)) for j in range(len(score)) if relevance[i] > relevance[j]
    ]  # fmt: skip
    return float(np.mean(terms)) if terms else 0.0


def listwise(relevance, score, gain="exponential"):
    """The cross entropy of the softmax of scores."""
    gains = gains_of(np.asarray(relevance, float), gain)
    if gains.sum() == 0:
        return 0.0
    return float(np.log(np.exp(score).sum()) - (gains / gains.sum() * score).sum())
