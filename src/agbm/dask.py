"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Never, Protocol, Self, TypeAlias, cast

import distributed
import numpy as np
from dask.delayed import delayed
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ._base.types import Table, Values
from ._base.weights import refuse_dates
from ._data.blocks import is_rounded
from ._data.rows import Given
from ._data.units import GivenUnit
from ._engines.distributed.dask_blocks import partitions_of
from ._engines.distributed.dask_events import logged_iterations
from ._engines.distributed.dask_shards import talking_to_workers
from ._engines.distributed.dask_source import DaskSource
from ._estimators.base import BaseAGBM, CalibratedAGBM
from ._estimators.classifier import AGBMClassifier
from ._estimators.parameters import FitTable, Targets
from ._estimators.ranker import AGBMRanker
from ._estimators.regressor import AGBMRegressor
from ._estimators.survival import AGBMSurvival
from ._labels.lifetimes import as_matrix
from ._labels.matrices import LabelSets
from ._lifecycle.update import Wanted
from ._losses import traits_of
from ._migration.foreign import refuse_arguments
from ._storage.checkpoint import Checkpoint

__all__ = ["DaskAGBMClassifier", "DaskAGBMRanker", "DaskAGBMRegressor", "DaskAGBMSurvival"]


class _Lazy(Protocol):
    """A Dask collection, or a delayed object."""

    def __dask_graph__(self) -> object: ...


DaskTable: TypeAlias = "FitTable | _Lazy | Sequence[_Lazy]"
DaskValues: TypeAlias = "Targets | _Lazy | Sequence[_Lazy]"


class _OnDask(BaseAGBM):
    """The common part of the Dask estimators."""

    def fit(
        self,
        X: DaskTable,
        y: DaskValues | None = None,
        sample_weight: DaskValues | None = None,
        X_val: DaskTable | None = None,
        y_val: DaskValues | None = None,
        sample_weight_val: DaskValues | None = None,
        *,
        offset: DaskValues | None = None,
        offset_val: DaskValues | None = None,
        groups: DaskValues | str | None = None,
        time: DaskValues | str | None = None,
        watch: Mapping[str, Any] | None = None,
        client: distributed.Client | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        **unknown: Never,
    ) -> Self:
        """Fit to Dask collections with matching partitions: data frames, arrays, or lists of delayed objects.

        client is the client of the cluster, by default the current one. checkpoint is a file that the run is saved to
        every ten iterations; if the file already contains the same run, fit resumes it. offset is a collection like y.
        Iterations are logged as events: client.get_events("agbm").
        """
        refuse_arguments(unknown)
        client = distributed.get_client() if client is None else client
        rows, callbacks = DaskSource(client), self.callbacks
        try:
            saving = [] if checkpoint is None else [Checkpoint(checkpoint)]
            with talking_to_workers(client), logged_iterations(client) as log:
                self.callbacks = [*(callbacks or ()), *saving, log]
                validation = Given(X_val, y_val, sample_weight_val, offset_val)
                given = Given(X, y, sample_weight, offset, GivenUnit.of(X, groups, time))
                return self._fit(given, validation, watch, rows)
        finally:
            rows.close()
            self.callbacks = callbacks

    def update(
        self,
        X: DaskTable,
        y: DaskValues | None = None,
        sample_weight: DaskValues | None = None,
        X_val: DaskTable | None = None,
        y_val: DaskValues | None = None,
        sample_weight_val: DaskValues | None = None,
        *,
        mode: str,
        max_iter: int | str | None = None,
        old_weight: float | None = None,
        offset: DaskValues | None = None,
        offset_val: DaskValues | None = None,
        groups: DaskValues | str | None = None,
        time: DaskValues | str | None = None,
        client: distributed.Client | None = None,
    ) -> Self:
        """Change the fitted model with new rows, which are Dask collections; see AGBMClassifier.update.

        mode is "trees" or "all": the other modes need the rows on one machine.
        """
        check_is_fitted(self)
        client = distributed.get_client() if client is None else client
        rows = DaskSource(client)
        try:
            with talking_to_workers(client):
                given = Given(X, y, sample_weight, offset, GivenUnit.of(X, groups, time))
                validation = Given(X_val, y_val, sample_weight_val, offset_val)
                return self._update(given, validation, Wanted(mode, max_iter, old_weight), rows)
        finally:
            rows.close()

    def _lazily(self, method: str, X: Any, offset: Any) -> Any:
        """The results of a method as a lazy Dask collection with the partitions of X, which are those of offset."""
        check_is_fitted(self)
        model, kind = self.to_local(), self._form_of(method)
        columns, dtype = kind
        if offset is not None:
            _check_partitions(X, offset)
        if hasattr(X, "map_partitions"):
            meta = _frame(X._meta.iloc[:0], kind)
            return X.map_partitions(_predict_frame, offset, model, method, kind, meta=meta)
        if hasattr(X, "map_blocks"):
            X, offset = X.rechunk({1: -1}), _as_columns(offset)
            shape: dict[str, Any] = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (len(columns),))}
            return X.map_blocks(_predict, offset, model, method, kind, dtype=dtype, meta=kind.empty(), **shape)
        parts = partitions_of("X", X)
        offsets = [None] * len(parts) if offset is None else partitions_of("offset", offset)
        return [delayed(_predict)(*both, model, method, kind) for both in zip(parts, offsets, strict=True)]

    def apply(self, X: Any) -> Any:
        """The index of the leaf of each row in each tree; lazy for a Dask collection."""
        return self._lazily("apply", X, None) if _is_lazy(X) else super().apply(X)

    def _form_of(self, method: str) -> Predicted:
        return Predicted(list(range(self.n_trees_)), np.int32) if method == "apply" else self._predicted(method)

    @abstractmethod
    def _predicted(self, method: str) -> Predicted:
        """The form of the predictions of a method."""

    def to_local(self) -> Any:
        """The same model as an AGBMRegressor or AGBMClassifier, which does not depend on Dask."""
        local: Any = _LOCAL[type(self)]()
        local.__dict__ = dict(self.__dict__)
        return local

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file; see AGBMClassifier.save."""
        self.to_local().save(path)


class _CalibratedOnDask(_OnDask, CalibratedAGBM):
    """The common part of estimators whose intervals or sets of classes can be calibrated."""

    def calibrate(
        self,
        X: FitTable,
        y: Targets | None = None,
        sample_weight: Values | None = None,
        *,
        group: int | str | None = None,
        offset: Values | None = None,
    ) -> Self:
        """Calibrate intervals or sets of classes by rows in memory; see AGBMClassifier.calibrate."""
        _check_in_memory("calibrate", "pass a sample of the rows, such as X.compute()", X, y)
        return super().calibrate(X, y, sample_weight, group=group, offset=offset)


def _is_lazy(X: object) -> bool:
    return all(hasattr(part, "__dask_graph__") for part in X) if isinstance(X, list) else hasattr(X, "__dask_graph__")


def _check_in_memory(method: str, instead: str, *given: object) -> None:
    lazy = [type(one).__name__ for one in given if _is_lazy(one)]
    if lazy:
        raise TypeError(f"{method} needs rows in memory, got a Dask collection ({lazy[0]}); {instead}.")


class Predicted(NamedTuple):
    """The form of predictions."""

    columns: list[Any] | None
    """Column names; None if predictions have one number or class per row."""
    dtype: DTypeLike

    def empty(self) -> NDArray[Any]:
        """Predictions for no rows."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)


def _check_partitions(X: object, offset: object) -> None:
    """Raise an error if offset is another kind of Dask collection than X, or has other partitions."""
    kinds = [next((name for name in ("map_partitions", "map_blocks") if hasattr(of, name)), "") for of in (X, offset)]
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"offset must be a Dask collection like X ({type(X).__name__}), with the same partitions; got "
            f"{type(offset).__name__}."
        )
    n_X, n_offset = len(partitions_of("X", X)), len(partitions_of("offset", offset))
    if n_X != n_offset:
        raise ValueError(f"offset has {n_offset} partitions, X has {n_X}; they must have as many, with the same rows.")


def _as_columns(offset: Any) -> Any:
    """A Dask array of offsets with two axes, so that its blocks correspond to those of X."""
    return offset if offset is None else offset[:, np.newaxis] if offset.ndim == 1 else offset.rechunk({1: -1})


def _predict(X: Any, offset: Values | None, model: BaseAGBM, method: str, kind: Predicted) -> NDArray[Any]:
    """A Dask task: predictions for a partition, which may be empty."""
    if X.shape[0] == 0:
        return kind.empty()
    options = {} if offset is None else {"offset": offset}
    return cast(NDArray[Any], getattr(model, method)(X, **options))


def _predict_frame(X: Any, offset: Values | None, model: BaseAGBM, method: str, kind: Predicted) -> Any:
    """A Dask task: predictions for a partition of a data frame, with its index."""
    return _frame(X, kind, _predict(X, offset, model, method, kind))


def _frame(X: Any, kind: Predicted, values: NDArray[Any] | None = None) -> Any:
    """Predictions as a pandas object with the index of X; empty by default."""
    import pandas as pd

    values = kind.empty() if values is None else values
    if kind.columns is None:
        return pd.Series(values, index=X.index, name="0")
    return pd.DataFrame(values, index=X.index, columns=kind.columns)


class DaskAGBMRegressor(_CalibratedOnDask, AGBMRegressor):
    """AGBMRegressor on a Dask cluster, with the same parameters and, bit for bit, the same model."""

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predicted values; lazy for a Dask collection."""
        return self._lazily("predict", X, offset) if _is_lazy(X) else super().predict(X, offset)

    def predict_dist(self, X: Table, offset: Values | None = None) -> Any:
        """Distributions of rows in memory; see AGBMRegressor.predict_dist."""
        _check_in_memory("predict_dist", "map to_local().predict_dist over its partitions", X)
        return super().predict_dist(X, offset)

    def predict_interval(self, X: Table, coverage: float = 0.9, offset: Values | None = None) -> Any:
        """Intervals of rows in memory; see AGBMRegressor.predict_interval."""
        _check_in_memory("predict_interval", "map to_local().predict_interval over its partitions", X)
        return super().predict_interval(X, coverage, offset)

    def _predicted(self, method: str) -> Predicted:
        levels = traits_of(self.model_.loss).listed_quantiles
        if levels:
            return Predicted(list(levels), np.float64)
        return Predicted(list(range(self.model_.n_outputs)) if self._labels.shape else None, np.float64)


class DaskAGBMClassifier(_CalibratedOnDask, AGBMClassifier):
    """AGBMClassifier on a Dask cluster, with the same parameters and, bit for bit, the same model."""

    def predict(self, X: Any, offset: Any = None) -> Any:
        """The most probable class of each row, or its labels (row, label); lazy for a Dask collection."""
        return self._lazily("predict", X, offset) if _is_lazy(X) else super().predict(X, offset)

    def predict_set(self, X: Table, coverage: float = 0.9, offset: Values | None = None) -> Any:
        """Sets of classes of rows in memory; see AGBMClassifier.predict_set."""
        _check_in_memory("predict_set", "map to_local().predict_set over its partitions", X)
        return super().predict_set(X, coverage, offset)

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Probabilities (row, class); lazy for a Dask collection."""
        return self._lazily("predict_proba", X, offset) if _is_lazy(X) else super().predict_proba(X, offset)

    def _predicted(self, method: str) -> Predicted:
        if method != "predict":
            return Predicted(list(self.classes_), np.float64)
        several = isinstance(self._labels, LabelSets)
        return Predicted(list(self.classes_) if several else None, self.classes_.dtype)


class DaskAGBMSurvival(_OnDask, AGBMSurvival):
    """AGBMSurvival on a Dask cluster, with the same parameters and, bit for bit, the same model.

    Its loss must be "aft:..." or "piecewise_exponential": Cox's compares every row with all others. y has two columns
    (time, event), or columns "lower" and "upper" in a data frame.
    """

    def _with_labels(self, given: Given, name: str = "y") -> Given:
        y = given.y
        if hasattr(y, "map_partitions") and {"lower", "upper"} <= set(getattr(y, "columns", ())):
            meta = dict.fromkeys(("lower", "upper", "has_upper"), np.float64)
            return given._replace(y=y.map_partitions(_bounds_frame, meta=meta))
        return given if _is_lazy(y) else super()._with_labels(given, name)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """The risk of each row; lazy for a Dask collection."""
        return self._lazily("predict", X, offset) if _is_lazy(X) else super().predict(X, offset)

    def predict_time(self, X: Table, quantile: float = 0.5, offset: Values | None = None) -> Any:
        """Times of rows in memory; see AGBMSurvival.predict_time."""
        _check_in_memory("predict_time", "map to_local().predict_time over its partitions", X)
        return super().predict_time(X, quantile, offset)

    def _hazards(self, X: Table, times: Values | None, offset: Values | None, name: str) -> Any:
        _check_in_memory(name, f"map to_local().{name} over its partitions", X)
        return super()._hazards(X, times, offset, name)

    def _predicted(self, method: str) -> Predicted:
        return Predicted(None, np.float64)


class DaskAGBMRanker(_OnDask, AGBMRanker):
    """AGBMRanker on a Dask cluster, with the same parameters and, bit for bit, the same model.

    All rows of a query must be in one partition.
    """

    def fit(
        self,
        X: DaskTable,
        y: DaskValues | None = None,
        sample_weight: DaskValues | None = None,
        X_val: DaskTable | None = None,
        y_val: DaskValues | None = None,
        sample_weight_val: DaskValues | None = None,
        *,
        qid: DaskValues | None = None,
        qid_val: DaskValues | None = None,
        offset: DaskValues | None = None,
        offset_val: DaskValues | None = None,
        groups: DaskValues | str | None = None,
        time: DaskValues | str | None = None,
        client: distributed.Client | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit to Dask collections with matching partitions; qid has the query of each row.

        Every query must be in one partition: shuffle a data frame by the column of the query. See AGBMRanker.fit and
        DaskAGBMRegressor.fit.
        """
        _refuse_of_rankers(unknown)
        y, y_val = _with_queries(y, qid, "qid"), _with_queries(y_val, qid_val, "qid_val")
        return super().fit(
            X, y, sample_weight, X_val, y_val, sample_weight_val, offset=offset, offset_val=offset_val, groups=groups,
            time=time, client=client, checkpoint=checkpoint, **unknown,
        )  # fmt: skip

    def update(  # type: ignore[override]
        self,
        X: DaskTable,
        y: DaskValues | None = None,
        sample_weight: DaskValues | None = None,
        X_val: DaskTable | None = None,
        y_val: DaskValues | None = None,
        sample_weight_val: DaskValues | None = None,
        *,
        mode: str,
        max_iter: int | str | None = None,
        old_weight: float | None = None,
        qid: DaskValues | None = None,
        qid_val: DaskValues | None = None,
        offset: DaskValues | None = None,
        offset_val: DaskValues | None = None,
        groups: DaskValues | str | None = None,
        time: DaskValues | str | None = None,
        client: distributed.Client | None = None,
    ) -> Self:
        """Change the fitted model with new rows, which are Dask collections; see AGBMRanker.update."""
        y, y_val = _with_queries(y, qid, "qid"), _with_queries(y_val, qid_val, "qid_val")
        return super().update(
            X, y, sample_weight, X_val, y_val, sample_weight_val, mode=mode, max_iter=max_iter, old_weight=old_weight,
            offset=offset, offset_val=offset_val, groups=groups, time=time, client=client,
        )  # fmt: skip

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Scores; lazy for a Dask collection."""
        return self._lazily("predict", X, offset) if _is_lazy(X) else super().predict(X, offset)

    def score(
        self,
        X: Table,
        y: Values,
        sample_weight: Values | None = None,
        *,
        group: Values | None = None,
        qid: Values | None = None,
    ) -> float:
        """NDCG of rows in memory; see AGBMRanker.score."""
        _check_in_memory("score", "pass X.compute(), y.compute() and qid.compute()", X, y)
        return super().score(X, y, sample_weight, group=group, qid=qid)

    def _predicted(self, method: str) -> Predicted:
        return Predicted(None, np.float64)


def _bounds_frame(y: Any) -> Any:
    """A Dask task: bounds of times without missing and infinite ones."""
    import pandas as pd

    return pd.DataFrame(as_matrix(y), index=y.index, columns=["lower", "upper", "has_upper"])


def _refuse_of_rankers(unknown: Mapping[str, Any]) -> None:
    for name in ("group", "group_val", "position", "position_val", "watch"):
        if unknown.get(name) is not None:
            instead = "pass qid, the query of each row" if name.startswith("group") else "use AGBMRanker on one machine"
            raise ValueError(f"{name} does not work on a Dask cluster; {instead}.")


def _with_queries(y: DaskValues | None, qid: DaskValues | None, name: str) -> DaskValues | None:
    """Partitions of labels with two columns: relevance and query. Without qid, y must have these already."""
    if y is None or qid is None:
        return y
    relevances, queries = partitions_of("y", y), partitions_of(name, qid)
    if len(relevances) != len(queries):
        raise ValueError(f"{name} has {len(queries)} partitions, y has {len(relevances)}; they must have as many.")
    stack = delayed(_stacked, pure=True)
    return [stack(*both, name) for both in zip(relevances, queries, strict=True)]


def _stacked(y: Values, qid: Values, name: str) -> NDArray[Any]:
    """A Dask task: relevances and queries as columns, of objects if queries are no numbers that float64 has."""
    refuse_dates(y, "y")
    query = np.asarray(qid)
    if query.dtype.kind not in "biuf" or is_rounded(query):
        query = query.astype(object)
    try:
        return np.column_stack([np.asarray(y, dtype=np.float64), query])
    except ValueError as error:
        raise ValueError(f"y must be numbers, and {name} must have as many rows: {error}") from error


_LOCAL: dict[type, Callable[[], Any]] = {
    DaskAGBMRegressor: AGBMRegressor,
    DaskAGBMClassifier: AGBMClassifier,
    DaskAGBMRanker: AGBMRanker,
    DaskAGBMSurvival: AGBMSurvival,
}
