"""The section about a ranking of test rows: the metric by the number of positions, and the worst queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base.sums import Array
from ..._losses.metrics import RankingMetric
from .figures import figures
from .findings import Predictions
from .markup import Section, element, joined, number, percent, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POSITIONS = 20
MOST_QUERIES = 10
HISTOGRAM_BINS = 20


def ranking(test: Predictions) -> Section:
    """Return the section."""
    relevance, query = np.asarray(test.y, dtype=np.float64).T
    cuts = np.arange(1, MOST_POSITIONS + 1)
    curve, other = (_means(relevance, query, scores, cuts) for scores in (test.predicted, np.zeros(len(query))))
    queries, of_queries = RankingMetric("ndcg", 10).of_queries(relevance, query, test.predicted)

    def draw(left: Axes, right: Axes) -> None:
        from ...plot._style import BLUE, GREY

        left.plot(cuts, curve, color=BLUE, marker="o", markersize=3.5, label="model")
        left.plot(cuts, other, color=GREY, linestyle=":", label="random order")
        left.set(xlabel="positions", ylabel="mean NDCG")
        left.legend(loc="best")
        right.hist(of_queries, bins=HISTOGRAM_BINS, range=(0.0, 1.0), color=BLUE)
        right.set(xlabel="NDCG@10", ylabel="queries")

    n_queries = len(np.unique(query))
    text = (
        f"The test rows are {len(query):,} documents of {n_queries:,} queries. {n_queries - len(queries):,} queries "
        "have no relevant document and are left out. NDCG compares the order of the documents by their scores with the "
        "best order, which has 1. Gains are 2^relevance - 1."
    )
    perfect = (
        f"{percent(float(np.mean(of_queries > 1.0 - 1e-9)))} of the queries have the best order in the first ten "
        f"positions; half have an NDCG@10 of at least {number(float(np.median(of_queries)))}."
    )
    charts = figures(draw, "NDCG by the number of positions", "NDCG@10 of the queries")
    worst = _worst(relevance, query, test.predicted, queries, of_queries)
    return Section("queries", "Queries", joined([element("p", text), charts, element("p", perfect), worst]))


def _means(relevance: Array, query: Array, scores: Array, cuts: Iterable[int]) -> list[float]:
    return [RankingMetric("ndcg", int(cut)).mean(relevance, query, scores) for cut in cuts]


def _worst(relevance: Array, query: Array, scores: Array, queries: Array, of_queries: Array) -> Any:
    """Return a table of the queries with the lowest metric, with the rank of their most relevant document."""
    rows = []
    for place in np.argsort(of_queries, kind="stable")[:MOST_QUERIES]:
        documents = np.flatnonzero(query == queries[place])
        best = documents[relevance[documents] == relevance[documents].max()]
        rank = 1 + int((scores[documents] > scores[best].max()).sum())
        first = int(documents[0])
        rows.append(
            [
                f"row {first:,}", f"{len(documents):,}", f"{int((relevance[documents] > 0).sum()):,}",
                number(float(of_queries[place])), f"{rank:,}",
            ]
        )  # fmt: skip
    header = ["first document", "documents", "relevant", "NDCG@10", "position of the most relevant"]
    return table("Queries with the lowest NDCG@10, by their first test row", header, rows, "stack")
