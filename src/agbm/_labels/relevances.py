"""Labels of rankers: the relevance of a document, the query that it belongs to, and maybe a position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from .._base.collectives import anywhere, combined
from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._base.weights import refuse_dates
from .._data.blocks import exact, is_rounded
from .._data.hold_out import strata_of_queries
from .._data.rows import check_y_val
from .._data.tables import missing
from .._losses import Loss, LossFunction, named_loss, traits_of
from .base import Labels

RANKER = "ranker"
"""The type of estimator in scikit-learn's tags."""
COLUMNS = "columns relevance, query and, for clicks, position"
_WHOLE = "all rows of a query must be in one partition. Shuffle a data frame by its query: df.shuffle('query')."


@dataclass(frozen=True, eq=False)
class Relevances(Labels):
    """Labels of a ranker, as a matrix of numbers (row, part): relevance, query and, for clicks, position."""

    has_positions: bool = False
    """Whether training rows are clicks on documents whose positions are known."""
    numeric = True

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def one_for_all_outputs(self) -> bool:
        return True

    @property
    def single(self) -> bool:
        """Predictions are vectors."""
        return True

    @property
    def n_parts(self) -> int:
        """The numbers per row."""
        return 3 if self.has_positions else 2

    @staticmethod
    def check(y: Values) -> None:
        refuse_dates(y, "y")

    @staticmethod
    def exact(y: Values, name: str = "y") -> Any:
        """Labels with queries as numbers that float64 represents.

        Queries that are text, or integers that float64 would round, are numbered in ascending order.
        """
        labels = exact(y)
        if labels.ndim != 2 or labels.shape[1] not in (2, 3):  # refused later
            return labels
        query = labels[:, 1]
        if not anywhere(labels.dtype.kind not in "biuf" or is_rounded(query)):
            return labels
        if missing(query).any():
            raise ValueError(f"{name} has missing queries in its second column; every row needs a query.")
        try:
            found, numbers = np.unique(query, return_inverse=True)
            numbers = np.searchsorted(combined([found], add, _of_whole_queries), found)[numbers]
        except TypeError as error:
            raise TypeError(f"{name} has queries of several types, which cannot be sorted; use one type.") from error
        others = _numbers(labels[:, [0, *range(2, labels.shape[1])]], name)  # they may be text because of the queries
        return np.column_stack([others[:, 0], numbers, others[:, 1:]])

    @staticmethod
    def check_weights(y: AnyArray, weight: AnyArray, name: str) -> None:
        order = np.argsort(y[:, 1], kind="stable")
        query, of_row = y[order, 1], weight[order]
        differ = np.flatnonzero((query[1:] == query[:-1]) & (of_row[1:] != of_row[:-1]))
        if len(differ):
            rows = sorted(order[differ[0] : differ[0] + 2].tolist())
            raise ValueError(
                f"{name}: the rows of a query must have the same weight; those of rows {rows[0]} and {rows[1]}, which "
                "belong to one query, differ. Pass one weight per query."
            )

    @classmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        labels = cls(y.ndim == 2 and y.shape[1] == 3)
        if known is not None and known.has_positions != labels.has_positions:
            given, before = ("no", "some") if known.has_positions else ("some", "no")
            raise ValueError(
                f"position: there are {given} positions; with warm_start=True there must be as in the previous fit, "
                f"which had {before}."
            )
        return labels, labels._parts_first(y, "y")

    def encode(self, y: AnyArray) -> Array:
        return self._parts_first(y, "y")

    def encode_validation(self, y: Any, n_rows: int) -> Array:
        """Labels as numbers. Rows without positions have no bias: they are relevances, not clicks."""
        y = self.exact(y, "y_val")
        shape = np.shape(y)[1:]
        return self._parts_first(check_y_val(y, n_rows, numeric=True, shape=shape), "y_val")

    def _parts_first(self, y: AnyArray, name: str) -> Array:
        if y.ndim != 2 or y.shape[1] not in (2, 3):
            raise ValueError(f"{name} has shape {y.shape}; a ranker needs {COLUMNS}, or pass qid or group.")
        if y.shape[1] > self.n_parts:
            raise ValueError(f"{name} has positions, but the training rows have none; pass position, too.")
        parts = np.zeros((self.n_parts, len(y)))
        parts[: y.shape[1]] = _numbers(y, name).T
        if parts[0].min(initial=0.0) < 0.0:
            raise ValueError(
                f"{name} must contain relevances of at least 0; got {parts[0].min()}. Only their order, or their gain, "
                "matters: add a constant."
            )
        return parts

    def decode(self, encoded: Array) -> AnyArray:
        return np.ascontiguousarray(encoded.T)

    def groups(self, encoded: Array) -> AnyArray:
        return np.asarray(encoded[1])

    def strata(self, encoded: Array) -> NDArray[np.intp]:
        """Whether the query of each row has documents of different relevance."""
        return strata_of_queries(encoded[0], encoded[1])

    def check_unit(self, encoded: Array, unit: AnyArray, name: str) -> None:
        order = np.argsort(encoded[1], kind="stable")
        query, unit = encoded[1][order], unit[order]
        divided = np.flatnonzero((query[1:] == query[:-1]) & (unit[1:] != unit[:-1]))
        if len(divided):
            raise ValueError(
                f"{name} differs between the documents of query {query[divided[0]]:.17g}, which are held out together; "
                "pass the same value for all rows of a query."
            )

    def check_partitions(self, groups: Sequence[tuple[int, AnyArray]]) -> None:
        if self.has_positions:
            raise ValueError("y has positions, whose biases depend on all rows; use AGBMRanker on one machine.")
        partition = np.repeat([number for number, _ in groups], [len(queries) for _, queries in groups])
        query = np.concatenate([queries for _, queries in groups])
        order = np.lexsort((partition, query))
        query, where = query[order], partition[order]
        divided = np.flatnonzero(query[1:] == query[:-1])
        if len(divided):
            i = divided[0]
            raise ValueError(
                f"qid: query {query[i]:.17g} has rows in partitions {where[i]} and {where[i + 1]}; {_WHOLE}"
            )

    def loss_of(self, name: str | LossFunction) -> Loss:
        return named_loss("ranking", name)  # type: ignore[no-any-return]

    def check_loss(self, loss: Loss) -> None:
        if traits_of(loss).labels != "relevances":
            raise ValueError(
                f"loss={loss!r} sees one row at a time; a ranker needs a loss of queries: agbm.losses.LambdaRank, "
                "ListwiseCrossEntropy or PairwiseLogistic, or a name such as 'ndcg:10' or 'listwise'."
            )

    def predictions(self, loss: Loss, raw: Array) -> Array:
        """Scores, by which the documents of a query are sorted."""
        return np.asarray(raw[0])

    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "predict"):
            raise TypeError(f"init={model!r} has no method predict; use 'prior', 'zero' or a fitted model.")
        return model.predict  # type: ignore[no-any-return]


def _numbers(y: AnyArray, name: str) -> NDArray[np.float64]:
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{name} of a ranker must contain numbers: {error}.") from error


def _of_whole_queries(parts: Sequence[AnyArray]) -> AnyArray:
    """The distinct queries of all processes in ascending order, from those of each process."""
    queries = np.sort(np.concatenate(parts))
    divided = queries[1:][queries[1:] == queries[:-1]].tolist()
    if divided:
        raise ValueError(f"qid: query {divided[0]!r} has rows in several partitions; {_WHOLE}")
    return queries


def ranks(estimator: object) -> bool:
    """Whether an estimator is a ranker; like is_classifier of scikit-learn."""
    return bool(get_tags(estimator).estimator_type == RANKER)


def whole_queries(
    y: AnyArray, strata: NDArray[np.intp], cv: object, X: Table, groups: Values | None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of a splitter or an iterable, none of which may divide a query; y are labels by column.

    A number of folds is stratified by `strata`.
    """
    from sklearn.model_selection import StratifiedGroupKFold, check_cv  # slow to import

    groups = y[:, 1] if groups is None else groups
    if isinstance(cv, int):
        splits = list(StratifiedGroupKFold(cv).split(X, strata, groups))
    else:
        splits = list(check_cv(cv).split(X, y[:, 0], groups))
    for number, (train, test) in enumerate(splits):
        both = np.intersect1d(y[train, 1], y[test, 1])
        if len(both):
            raise ValueError(
                f"cv, fold {number}: {len(both)} queries are divided between training and test rows, such as query "
                f"{both[0]:.17g}; use a number of folds, or GroupKFold."
            )
    return splits
