"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self, cast

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import distributed

from ._distributed.dask_blocks import partitions_of
from ._distributed.dask_rows import DaskRows
from ._distributed.dask_shards import talking_to_workers
from ._estimators import AGBMClassifier, AGBMRegressor, BaseAGBM
from ._storage.checkpoint import Checkpoint

__all__ = ["DaskAGBMClassifier", "DaskAGBMRegressor"]


class _OnDask(BaseAGBM):
    """What both estimators have that the local ones have not."""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, *,
        client: Any = None, checkpoint: Any = None,
    ) -> Self:  # fmt: skip
        """Fit to Dask collections with the same rows in each partition: data frames, arrays, or lists of delayed ones.

        client: of the cluster; the one that is in use by default. checkpoint: a file to save the run to every ten
        iterations; a fit that finds one, of the same run, resumes it.
        """
        client = distributed.get_client() if client is None else client
        rows, callbacks = DaskRows(client), self.callbacks
        try:
            if checkpoint is not None:
                self.callbacks = [*(callbacks or ()), Checkpoint(checkpoint)]
            with talking_to_workers(client):
                return self._fit(X, y, sample_weight, X_val, y_val, rows)
        finally:
            rows.close()
            self.callbacks = callbacks

    def _lazily(self, method: str, X: Any) -> Any:
        """What a method gives, for each partition of X when it is computed."""
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
        """What a method gives."""

    def to_local(self) -> Any:
        """The same model as the estimator for one machine, which knows nothing of Dask."""
        local: Any = _LOCAL[type(self)]()
        local.__dict__ = dict(self.__dict__)
        return local

    def save(self, path: Any) -> None:
        """See AGBMClassifier."""
        self.to_local().save(path)


def _is_lazy(X: Any) -> bool:
    return all(hasattr(part, "__dask_graph__") for part in X) if isinstance(X, list) else hasattr(X, "__dask_graph__")


class Predicted(NamedTuple):
    """What predictions look like."""

    columns: list[Any] | None
    """Names; None where there is one number or class a row."""
    dtype: Any

    def empty(self) -> NDArray[Any]:
        """Those of no rows."""
        return np.empty((0,) if self.columns is None else (0, len(self.columns)), self.dtype)


def _predict(X: Any, model: Any, method: str, kind: Predicted) -> NDArray[Any]:
    """A task: predictions of a partition, which may be empty."""
    return kind.empty() if X.shape[0] == 0 else cast(NDArray[Any], getattr(model, method)(X))


def _predict_frame(X: Any, model: Any, method: str, kind: Predicted) -> Any:
    """A task: the same with the index of the rows."""
    return _frame(X, kind, _predict(X, model, method, kind))


def _frame(X: Any, kind: Predicted, values: NDArray[Any] | None = None) -> Any:
    """Values, or none of them, with the index of X."""
    import pandas as pd

    values = kind.empty() if values is None else values
    if kind.columns is None:
        return pd.Series(values, index=X.index, name="0")
    return pd.DataFrame(values, index=X.index, columns=kind.columns)


class DaskAGBMRegressor(_OnDask, AGBMRegressor):
    """AGBMRegressor on a Dask cluster; it has the same parameters, and its model has the same bits."""

    def predict(self, X: Any) -> Any:
        """Predicted values; for a Dask collection, when they are computed."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def _predicted(self, method: str) -> Predicted:
        return Predicted(list(range(self.model_.n_outputs)) if self._labels.shape else None, np.float64)


class DaskAGBMClassifier(_OnDask, AGBMClassifier):
    """AGBMClassifier on a Dask cluster; it has the same parameters, and its model has the same bits."""

    def predict(self, X: Any) -> Any:
        """The most probable class; for a Dask collection, when it is computed."""
        return self._lazily("predict", X) if _is_lazy(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (row, class); for a Dask collection, when they are computed."""
        return self._lazily("predict_proba", X) if _is_lazy(X) else super().predict_proba(X)

    def _predicted(self, method: str) -> Predicted:
        return (
            Predicted(None, self.classes_.dtype) if method == "predict" else Predicted(list(self.classes_), np.float64)
        )


_LOCAL: dict[type, Callable[[], Any]] = {DaskAGBMRegressor: AGBMRegressor, DaskAGBMClassifier: AGBMClassifier}
