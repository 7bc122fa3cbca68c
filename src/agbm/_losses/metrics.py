"""Metrics of rankings (NDCG, average precision, reciprocal rank) and of survival analysis (concordance)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from .._base import _native
from .._base.sums import Array, exact_mean, rows_together
from .ranking import NO_CUT

_NAME = re.compile(r"(ndcg|map|mrr)(?:@([1-9][0-9]{0,8}))?")


class RankingMetric(NamedTuple):
    """A metric of the documents of a query, for which ties of scores are averaged over their orders."""

    kind: str
    """"ndcg", "map" or "mrr"."""
    cut: int | None
    """How many first positions count; None: all."""
    gain: str = "exponential"
    """For NDCG, "exponential" (2^relevance - 1) or "linear" (the relevance)."""

    @classmethod
    def named(cls, name: str) -> RankingMetric | None:
        """The metric with a name such as "ndcg@10" or "map"; None if there is none."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], None if found[2] is None else int(found[2]))

    def of_queries(self, relevance: Array, query: Array, score: Array, n_threads: int = 1) -> tuple[Array, Array]:
        """The numbers of the queries with relevant documents, ascending, and their metrics."""
        relevance, query, score = rows_together(relevance), rows_together(query), rows_together(score)
        lost, counts = np.empty(len(query)), np.empty(len(query))
        cut = NO_CUT if self.cut is None else self.cut
        exponential = self.gain == "exponential"
        _native.QueryLabels(self.kind, cut, cut, exponential, relevance, query).value(score, lost, n_threads)
        _native.ranking_marks(False, relevance, query, counts)
        rows = np.flatnonzero(counts)
        rows = rows[np.argsort(query[rows])]
        return query[rows], 1.0 - lost[rows]

    def mean(self, relevance: Array, query: Array, score: Array, weight: Array | None = None) -> float:
        """The mean over queries with relevant documents; weights are those of rows, equal within each query."""
        queries, metrics = self.of_queries(relevance, query, score)
        if not len(queries):
            raise ValueError(f"y: no query has a relevant document, so that {self.kind} is not defined.")
        of_query = None
        if weight is not None:
            found, first = np.unique(query, return_index=True)
            of_query = np.asarray(weight, dtype=np.float64)[first[np.searchsorted(found, queries)]]
        return exact_mean(metrics, of_query)


def concordance(y: Array, risk: Array, weight: Array | None = None) -> float:
    """The share of pairs of rows in which the row with the higher risk has its event first; ties of risk are half.

    y are bounds of times (2, row). Pairs count if it is certain which event is first: the time of one is an event, or
    has an upper bound, not after the other one. Two events at the same time do not count.
    """
    lower, upper = np.ascontiguousarray(y[0]), np.ascontiguousarray(y[1])
    ranks = np.unique(risk, return_inverse=True)[1].ravel().astype(np.uint32)
    weights = np.ones(len(ranks)) if weight is None else weight  # rows that are equal otherwise, for the same sums
    starts = np.lexsort((weights, ranks, lower == upper, -lower))
    ends = np.lexsort((weights, ranks, -upper))
    ends = ends[np.isfinite(upper[ends])]
    found = _native.concordance(
        lower, upper, ranks, None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
        starts.astype(np.uint32), ends.astype(np.uint32),
    )  # fmt: skip
    concordant, comparable = found
    if comparable == 0.0:
        raise ValueError("y has no pair of rows of which it is certain which event is first; the score needs some.")
    return concordant / comparable
