"""Predictions of models on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..._base.sums import Array
from ..._base.types import AnyArray, Table, Values
from ..._core.learners import Model
from ..._data.rows import Given
from ..._data.tables import is_on_gpu
from ..._labels.base import Result
from ..._losses import Loss
from ..._model.fitted import FittedModel
from ..._tree import Forest
from .device import Device, DeviceArray
from .finish import finish_of, finished
from .forest import DeviceForest
from .matrix import BYTES_AT_ONCE, DeviceMatrix, Matrix, blocks_on, matrix_of, received

_ON_DEVICE: WeakKeyDictionary[Forest, DeviceForest] = WeakKeyDictionary()
"""Forests that were copied to the device, as long as they are in memory."""


class ModelOnDevice:
    """A fitted model that predicts on a device, for tables on the host or on the device.

    Results are on the device if X is there and they are numbers.
    """

    def __init__(self, device: Device, model: FittedModel) -> None:
        self._device, self._model = device, model

    def raw_predict(self, X: Table, n_threads: int, offset: Values | None) -> Array:
        """Scores (output, row) in host memory."""
        given = received(self._device, Given(X, None, None, offset))
        return self._model.raw_predict(given.X, n_threads, given.offset, partial(predict, self._device))

    def results(self, X: Table, n_threads: int, offset: Values | None, kind: Result) -> Any:
        """The results of a kind for the rows."""
        model = self._model
        here = self._here(X) if offset is None else None
        finish = finish_of(model.labels, model.loss, kind)
        if here is not None and finish is not None and isinstance(model.start, np.ndarray):
            forest, table = here
            return self._device.returned(finished(self._device, finish, model.start, forest.predict(table)[0]), X)
        return self._returned(model.labels.results(kind, model.loss, self.raw_predict(X, n_threads, offset)), X)

    def staged(
        self, X: Table, n_threads: int, offset: Values | None, finish: Callable[[Loss, Array], AnyArray]
    ) -> Iterator[Any]:
        """The results of `finish` after each iteration. Trees are evaluated on the device, which gets X once."""
        given = received(self._device, Given(X, None, None, offset))
        copies: list[Matrix] = []

        def predict_copied(model: Model, numbers: Matrix, n_threads: int) -> Array:
            if not copies:
                copies.append(_copied(self._device, numbers) if isinstance(model, Forest) else numbers)
            return predict(self._device, model, copies[0], n_threads)

        stages = self._model.staged_raw_predict(given.X, n_threads, given.offset, predict_copied)
        return (self._returned(finish(self._model.loss, raw), X) for raw in stages)

    def leaves(self, X: Table, n_threads: int) -> Any:
        """The leaves that rows reach, as FittedModel.leaves."""
        here = self._here(X)
        if here is not None:
            forest, table = here
            return self._device.returned(forest.leaves(table), X)
        given = received(self._device, Given(X, None))
        return self._returned(self._model.leaves(given.X, n_threads, partial(leaves, self._device)), X)

    def contributions(self, X: Table, n_threads: int, background: Table | None = None, *, pairs: bool = False) -> Any:
        """Contributions of the columns to the scores, as FittedModel.contributions."""
        rows = received(self._device, Given(X, None)).X
        others = None if background is None else received(self._device, Given(background, None)).X
        find = partial(contributions, self._device)
        return self._returned(self._model.contributions(rows, n_threads, others, pairs=pairs, find=find), X)

    def _here(self, X: Table) -> tuple[DeviceForest, DeviceArray] | None:
        """The forest, and X as a table of its numbers, if both are on the device."""
        if not is_on_gpu(X) or not isinstance(self._model.folded, Forest):
            return None
        numbers = self._model.reader.numbers(matrix_of(self._device, X))
        if not isinstance(numbers, DeviceMatrix):
            return None
        (table,) = numbers.blocks()
        return _on_device(self._device, self._model.folded), table

    def _returned(self, found: AnyArray, X: Table) -> Any:
        if not is_on_gpu(X) or found.dtype.kind not in "fiub":
            return found
        return self._device.returned(self._device.to_device(found), X)


def predict(device: Device, model: Model, X: Matrix, n_threads: int) -> Array:
    """Predict the values (function, output, row) of a model for a matrix of numbers.

    Sparse matrices, and models without trees, are left to the CPU.
    """
    if not isinstance(model, Forest) or issparse(X):
        return model.predict(_on_host(X), n_threads)
    parts = [device.to_host(_on_device(device, model).predict(block)) for block in blocks_on(device, X)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def leaves(device: Device, forest: Forest, X: Matrix, n_threads: int) -> NDArray[np.int32]:
    """The leaves (row, tree) that rows reach, as Forest.leaves; sparse matrices are left to the CPU."""
    if issparse(X):
        return forest.leaves(X, n_threads)
    on_device = _on_device(device, forest)
    return np.concatenate([device.to_host(on_device.leaves(block)) for block in blocks_on(device, X)])


def contributions(
    device: Device, forest: Forest, X: Matrix, n_threads: int, background: Matrix | None = None, *, pairs: bool = False
) -> Array:
    """Forest.contributions. Sparse matrices, background rows and pairs are left to the CPU."""
    if issparse(X) or background is not None or pairs:
        others = None if background is None else _on_host(background)
        return forest.contributions(_on_host(X), n_threads, others, pairs=pairs)
    on_device, n_per_row = _on_device(device, forest), forest.n_outputs * forest.n_functions * (forest.n_features + 1)
    step = max(1, BYTES_AT_ONCE // (8 * n_per_row))
    tables = (block[i : i + step] for block in blocks_on(device, X) for i in range(0, block.shape[0], step))
    columns = np.concatenate([device.to_host(on_device.contributions(table)) for table in tables], axis=-1)
    return forest.by_function(columns.transpose(2, 0, 1))


def _on_host(X: Matrix) -> Matrix:
    return X if issparse(X) else np.asarray(X)


def _copied(device: Device, X: Matrix) -> Matrix:
    """A matrix on the device; sparse matrices stay on the host."""
    return X if issparse(X) else DeviceMatrix(device, list(blocks_on(device, X)))


def _on_device(device: Device, forest: Forest) -> DeviceForest:
    if forest not in _ON_DEVICE:
        _ON_DEVICE[forest] = DeviceForest(device, forest)
    return _ON_DEVICE[forest]
