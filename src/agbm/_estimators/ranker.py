"""The estimator for rankings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._base.sums import Array
from .._base.weights import check_sample_weight
from .._data.rows import Given
from .._labels.queries import Asked, with_queries
from .._labels.relevances import RANKER, Relevances
from .._life.update import Wanted
from .._losses.metrics import RankingMetric
from .._migration.foreign import refuse_arguments
from .._model.predictor import Predictor
from .base import ESTIMATORS, BaseAGBM
from .parameters import CONSTRAINTS, documentation

SCORE = RankingMetric("ndcg", 10)


class AGBMRanker(BaseAGBM):
    __doc__ = f"""Accelerated gradient boosting for rankings.
{documentation(classifies=False, losses='"auto", "ndcg", "ndcg:10", "map", "mrr", "listwise", "pairwise"')}
    Examples
    --------
    >>> import numpy as np
    >>> from agbm import AGBMRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(500, 3)), np.repeat(np.arange(50), 10)
    >>> y = np.clip(np.round(X[:, 0] + 1), 0, 4)
    >>> model = AGBMRanker(max_iter=30).fit(X, y, qid=qid)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    _kind = Relevances

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, group: Any = None, qid: Any = None, position: Any = None,
        group_val: Any = None, qid_val: Any = None, position_val: Any = None, offset: Any = None,
        offset_val: Any = None, watch: Mapping[str, Any] | None = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to documents X of shape (rows, features) and their relevances y, numbers of at least 0.

        The query of each row is given by qid, one value of any type per row, in any order; or by group, the numbers of
        rows of queries that follow each other. Weights are those of queries: one per row, the same for all rows of a
        query, or with group one per query. Early stopping holds out whole queries, or uses X_val, y_val and group_val
        or qid_val. position has, for clicks as relevances, the position at which each document was shown: the model
        then explains clicks by its score plus a bias per position, and predicts without the bias; position_val is
        that of X_val, without which y_val are relevances. watch has other rows by name, as (X, y), (X, y,
        sample_weight) or (X, y, sample_weight, offset), where y has two columns: relevance and query. y,
        y_val and the labels in agbm.Batches may have these columns as well, instead of group or qid. See
        docs/guides/ranking.md, and AGBMRegressor.fit for everything else.
        """
        refuse_arguments(unknown)
        given = with_queries(self._received(Given(X, y, sample_weight, offset)), Asked(group, qid, position))
        validation = self._received(Given(X_val, y_val, sample_weight_val, offset_val))
        asked_val = Asked(group_val, qid_val, position_val)
        return self._fit(given, with_queries(validation, asked_val, "_val"), watch)

    def update(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, mode: str, max_iter: int | str | None = None,
        old_weight: float | None = None, offset: Any = None, offset_val: Any = None, group: Any = None,
        qid: Any = None, position: Any = None, group_val: Any = None, qid_val: Any = None, position_val: Any = None,
    ) -> Self:  # fmt: skip
        """Change the fitted model with new rows; see AGBMRegressor.update. Queries are passed as to fit."""
        check_is_fitted(self)
        given = with_queries(Given(X, y, sample_weight, offset), Asked(group, qid, position))
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        asked_val = Asked(group_val, qid_val, position_val)
        return self._update(given, with_queries(validation, asked_val, "_val"), Wanted(mode, max_iter, old_weight))

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Scores: the documents of a query are ranked by falling score. offset is added to them.

        Only scores of documents of the same query can be compared.
        """
        return cast(Array, self._finished(X, offset, "predictions"))

    def predictor(self) -> Predictor:
        """Return a function equivalent to predict for numeric arrays; it is faster, since it skips most checks."""
        return self._predictor("predictions")

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[Array]:
        """Scores after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.predictions(loss, raw))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None, qid: Any = None) -> float:
        """The mean NDCG of the first 10 positions, over queries with relevant documents.

        Gains are 2^relevance - 1, and ties of scores are averaged over their orders. y, group, qid and sample_weight
        are as in fit.
        """
        given = with_queries(self._received(Given(X, y, sample_weight)), Asked(group, qid, None))
        scores = self.predict(given.X)
        encoded = self._labels.encode_validation(given.y, len(scores))
        weight = None if given.weight is None else check_sample_weight(given.weight, scores).astype(np.float64)
        return SCORE.mean(encoded[0], encoded[1], scores, weight)

    @property
    def _labels(self) -> Relevances:
        check_is_fitted(self)
        return self.model_.labels  # type: ignore[return-value]

    def _one_column(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = RANKER
        tags.target_tags.required = True
        return tags


ESTIMATORS[AGBMRanker.__name__] = AGBMRanker
