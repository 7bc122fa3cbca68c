"""The scores of ranking.py: functions of relevances and predictions per query, without the libraries compared."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

CUTS = (1, 5, 10)


def ndcg(relevance: Array, predicted: Array, cut: int) -> float:
    """NDCG of one query with the gains 2^relevance - 1, for the first `cut` documents.

    Documents with equal predictions get their mean gain, which is the expectation over all orders of them.
    """
    gains = np.exp2(relevance.astype(np.float64)) - 1.0
    discounts = 1.0 / np.log2(np.arange(2, len(gains) + 2))
    discounts[cut:] = 0.0
    _, tied, counts = np.unique(-predicted, return_inverse=True, return_counts=True)
    mean_gains = np.bincount(tied, gains) / counts
    best = float(np.sort(gains)[::-1] @ discounts)
    return float(np.repeat(mean_gains, counts) @ discounts) / best


def average_precision(relevance: Array, predicted: Array) -> float:
    """Average precision of one query; documents with a relevance above 0 are relevant.

    Ties are broken by a random order that depends on the number of documents alone, so it is the same for all.
    """
    shuffled = np.random.default_rng(len(relevance)).permutation(len(relevance))
    order = shuffled[np.argsort(-predicted[shuffled], kind="stable")]
    relevant = relevance[order] > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(np.mean(precision[relevant]))


def by_query(relevance: Array, predicted: Array, sizes: Array) -> dict[str, list[float]]:
    """All scores of every query with a relevant document; `sizes` has the numbers of documents of the queries."""
    predicted = np.asarray(predicted, np.float64)
    ends = np.cumsum(sizes)
    queries = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    queries = [rows for rows in queries if np.any(relevance[rows] > 0)]
    found = {f"NDCG@{cut}": [ndcg(relevance[rows], predicted[rows], cut) for rows in queries] for cut in CUTS}
    return {**found, "MAP": [average_precision(relevance[rows], predicted[rows]) for rows in queries]}
