"""Training on a Dask cluster: the same model, bit for bit, as on one machine with the same rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import distributed

from ._core.learners import Fitter
from ._core.losses import Loss, is_built_in
from ._core.objective import LocalObjective, Objective
from ._core.sums import weight_step
from ._core.weights import Weights
from ._data.blocks import BlockReader, Blocks, BlockTable, WithValidation
from ._distributed.dask_blocks import DaskBlocks, call_named, partitions_of
from ._distributed.dask_shards import DaskShards, Held, talking_to_workers
from ._distributed.dask_tasks import PartPlan, Recipe, encode_part, make_shard
from ._distributed.growth import ClusterFitter
from ._distributed.log import Log, RemoteFunction
from ._distributed.objective import ClusterObjective, Facts
from ._estimators import AGBMClassifier, AGBMRegressor, _BaseAGBM
from ._storage.checkpoint import Checkpoint
from ._tree import TreeLearner


class _OnDask(_BaseAGBM):
    """What both estimators have that the local ones have not."""

    _client: Any
    _shards: list[DaskShards]

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, *,
        client: Any = None, checkpoint: Any = None,
    ) -> Self:  # fmt: skip
        """Fit to Dask collections with the same rows in each partition: data frames, arrays, or lists of delayed ones.

        client: of the cluster; the one that is in use by default. checkpoint: a file to save the run to every ten
        iterations; a fit that finds one, of the same run, goes on from there.
        """
        self._client = distributed.get_client() if client is None else client
        self._shards, callbacks = [], self.callbacks
        try:
            if checkpoint is not None:
                self.callbacks = [*(callbacks or ()), Checkpoint(checkpoint)]
            with talking_to_workers(self._client):
                return self._fit(X, y, sample_weight, X_val, y_val)
        finally:
            for shards in self._shards:
                shards.close()
            self.callbacks = callbacks
            del self._client, self._shards

    def _blocks_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Blocks, Any, Any] | None:
        return DaskBlocks(self._client, X, y, sample_weight), None, None

    def _bind_blocks(
        self, loss: Loss, learner: TreeLearner, table: BlockTable, reader: BlockReader, problem: LocalObjective
    ) -> tuple[Objective[RemoteFunction], TreeLearner, Fitter[RemoteFunction]]:
        """See _BaseAGBM: the rows stay with the workers."""
        self._check_row_wise(loss)
        start = None if problem.start.strides[-1] else problem.start[:, 0].copy()
        recipe = Recipe(reader.bins, self._joint(loss), start, self.second_order)
        make = self._maker(table, reader, recipe, problem.weights)
        rows = table.places.n_rows
        self._shards.append(DaskShards(self._client, rows, make))
        log = Log(self._shards[-1], self._n_outputs)
        facts = Facts(
            problem.n_train, self._n_outputs, problem.train_weight_sum, problem.validation_weight_sum,
            self.second_order and not loss.constant_hessian, problem.quantile,
            None if problem.train_weight is None else weight_step(problem.train_weight),
        )  # fmt: skip
        return ClusterObjective(log, facts), learner, ClusterFitter(learner, reader.bins, log, problem.n_train)

    def _check_row_wise(self, loss: Loss) -> None:
        """The hessians of a loss of the user's may depend on other rows, which a worker does not have."""
        if self.second_order and not (loss.constant_hessian or is_built_in(loss) or getattr(loss, "row_wise", False)):
            raise ValueError(
                f"loss={loss!r}: on a cluster, its hessian sees the rows of one worker at a time. If the hessian of a "
                "row depends on no other rows, say so with an attribute row_wise = True; else use second_order=False."
            )

    def _maker(
        self, table: BlockTable, reader: BlockReader, recipe: Recipe, weights: Weights | None
    ) -> Callable[[Sequence[int], str], Held]:
        """A function that has a worker make the shard of some partitions."""
        found: Any = table.blocks
        sources = {"": found}
        if isinstance(found, WithValidation):
            sources = {"": cast(Any, found.training), "X_val: ": cast(Any, found.validation)}
        blocks = [
            (f"{of}{source.noun}", i, seen, block)
            for of, source in sources.items()
            for i, (seen, block) in enumerate(zip(source.seen, source.blocks, strict=True))
        ]
        n_train = table.places.n_train
        plans = [PartPlan.of(places, n_train, weights) for places in table.places.of_blocks()]
        # All parts need these two: they travel once, and not with each.
        lazy_reader, estimator = (delayed(given, traverse=False) for given in (reader, self._for_reading()))
        call = delayed(call_named, pure=False)
        parts = [
            call(encode_part, noun, i, seen, block, lazy_reader, estimator, plan)
            for (noun, i, seen, block), plan in zip(blocks, plans, strict=True)
        ]
        client = self._client

        def make(partitions: Sequence[int], worker: str) -> Held:
            there = {"workers": [worker], "allow_other_workers": True}
            futures = client.compute([parts[i] for i in partitions], **there)
            shard = client.submit(make_shard, recipe, *futures, actor=True, pure=False, **there)
            return Held(worker, shard, dict(zip(partitions, futures, strict=True)))

        return make

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
        return Predicted(list(range(self._n_outputs)) if self._label_shape else None, np.float64)


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
