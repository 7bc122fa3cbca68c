"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, cast

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import distributed

from ._base_estimator import BaseAGBM
from ._data.rows import Given
from ._distributed.dask_blocks import partitions_of
from ._distributed.dask_rows import DaskRows
from ._distributed.dask_shards import talking_to_workers
from ._estimators import AGBMClassifier, AGBMRegressor
from ._label_matrices import LabelSets
from ._migration.foreign import refuse_arguments
from ._storage.checkpoint import Checkpoint

__all__ = ["DaskAGBMClassifier", "DaskAGBMRegressor"]


class _OnDask(BaseAGBM):
    """The common part of both Dask estimators."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, watch: Mapping[str, Any] | None = None,
        client: Any = None, checkpoint: Any = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to Dask collections with matching partitions: data frames, arrays, or lists of delayed objects.

        client is the client of the cluster, by default the current one. checkpoint is a file that the run is saved to
        every ten iterations; if the file already contains the same run, fit resumes it.
        """
        refuse_arguments(unknown)
        client = distributed.get_client() if client is None else client
        rows, callbacks = DaskRows(client), self.callbacks
        try:
            if checkpoint is not None:
                self.callbacks = [*(callbacks or ()), Checkpoint(checkpoint)]
            with talking_to_workers(client):
                given, validation = Given(X, y, sample_weight), Given(X_val, y_val, sample_weight_val)
                return self._fit(given, validation, watch, rows)
        finally:
            rows.close()
            self.callbacks = callbacks

    def _lazily(self, method: str, X: Any) -> Any:
        """The results of a method as a lazy Dask collection with the partitions of X."""
        check_is_fitted(self)
        model, kind = self.to_local(), self._predicted(method)
        columns, dtype = kind
        if hasattr(X, "map_partitions"):
            return X.map_partitions(_predict_frame, model, method, kind, meta=_frame(X._meta.iloc[:0], kind))
        if hasattr(X, "map_blocks"):
            X = X.rechunk({1: -1})
            shape: dict[str, Any] = {"drop_axis": 1} if columns is None else {"chunks": (X.chunks[0], (len(columns),))}
            return X.map_blocks(_predict, model, method, kind, dtype=dtype, meta=kind.empty(), **shape)
        return [delayed(_predict)(part, model, method, kind) for part in partitions_of("X", X)]

    @abstractmethod
    def _predicted(self, method: str) -> Predicted:
        """The form of the results of a method."""

    def to_local(self) -> Any:
        """The same model as an AGBMRegressor or AGBMClassifier, which does not depend on Dask."""
        local: Any = _LOCAL[type(self)]()
        local.__dict__ = dict(self.__dict__)
        return local

    def save(self, path: Any) -> None:
        """Write the fitted model to a file; see AGBMClassifier.save."""
        self.to_local().save(path)


def _is_lazy(X: Any) -> bool:
    return all(hasattr(part, "__dask_graph__") for part in X) if isinstance(X, list) else hasattr(X, "__dask_graph__")


class Predicted(NamedTuple):
    """The form of predictions."""

    columns: list[Any] | None
    """Column names; None if predictions have one number or class per row."""
    dtype: Any

    def empty(self) -> NDArray[Any]:
        """Predictions for no rows."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)


def _predict(X: Any, model: Any, method: str, kind: Predicted) -> NDArray[Any]:
    """A Dask task: predictions for a partition, which may be empty."""
    return kind.empty() if X.shape[0] == 0 else cast(NDArray[Any], getattr(model, method)(X))


def _predict_frame(X: Any, model: Any, method: str, kind: Predicted) -> Any:
    """A Dask task: predictions for a partition of a data frame, with its index."""
    return _frame(X, kind, _predict(X, model, method, kind))


def _frame(X: Any, kind: Predicted, values: NDArray[Any] | None = None) -> Any:
    """Predictions as a pandas object with the index of X; empty by default."""
    import pandas as pd

    values = kind.empty() if values is None else values
    if kind.columns is None:
        return pd.Series(values, index=X.index, name="0")
    return pd.DataFrame(values, index=X.index, columns=kind.columns)


class DaskAGBMRegressor(_OnDask, AGBMRegressor):
    """AGBMRegressor on a Dask cluster, with the same parameters and, bit for bit, the same model."""

    def predict(self, X: Any) -> Any:
        """Predicted values; lazy for a Dask collection."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def _predicted(self, method: str) -> Predicted:
        return Predicted(list(range(self.model_.n_outputs)) if self._labels.shape else None, np.float64)


class DaskAGBMClassifier(_OnDask, AGBMClassifier):
    """AGBMClassifier on a Dask cluster, with the same parameters and, bit for bit, the same model."""

    def predict(self, X: Any) -> Any:
        """The most probable class of each row, or its labels (row, label); lazy for a Dask collection."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (row, class); lazy for a Dask collection."""
        return self._lazily("predict_proba", X) if _is_lazy(X) else super().predict_proba(X)

    def _predicted(self, method: str) -> Predicted:
        if method != "predict":
            return Predicted(list(self.classes_), np.float64)
        several = isinstance(self._labels, LabelSets)
        return Predicted(list(self.classes_) if several else None, self.classes_.dtype)


_LOCAL: dict[type, Callable[[], Any]] = {DaskAGBMRegressor: AGBMRegressor, DaskAGBMClassifier: AGBMClassifier}
