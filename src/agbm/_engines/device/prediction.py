"""Predictions of models on a device."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import issparse

from ..._base.sums import Array
from ..._base.types import Table, Values
from ..._core.learners import Model
from ..._data.rows import Given
from ..._data.tables import is_on_gpu
from ..._labels.base import Result
from ..._model.fitted import FittedModel
from ..._tree import Forest
from .device import Device
from .finish import finish_of, finished
from .forest import DeviceForest
from .matrix import DeviceMatrix, Matrix, blocks_on, matrix_of, received

_ON_DEVICE: WeakKeyDictionary[Forest, DeviceForest] = WeakKeyDictionary()
"""Forests that were copied to the device, as long as they are in memory."""


class DevicePredictions:
    """Predicts on a device, for tables on the host or on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def raw_predict(self, model: FittedModel, X: Table, n_threads: int, offset: Values | None) -> Array:
        """Scores (output, row) in host memory."""
        given = received(self._device, Given(X, None, None, offset))
        return model.raw_predict(given.X, n_threads, given.offset, partial(predict, self._device))

    def results(self, model: FittedModel, X: Table, n_threads: int, offset: Values | None, kind: Result) -> Any:
        """The results of a kind for the rows; on the device if X is there and the results are numbers."""
        finish = finish_of(model.labels, model.loss, kind)
        if is_on_gpu(X) and offset is None and finish is not None and isinstance(model.start, np.ndarray):
            numbers = model.reader.numbers(matrix_of(self._device, X))
            if isinstance(numbers, DeviceMatrix) and isinstance(model.folded, Forest):
                (table,) = numbers.blocks()
                sums = _on_device(self._device, model.folded).predict(table)[0]
                return self._device.returned(finished(self._device, finish, model.start, sums), X)
        found = model.labels.results(kind, model.loss, self.raw_predict(model, X, n_threads, offset))
        if not is_on_gpu(X) or found.dtype.kind not in "fiub":
            return found
        return self._device.returned(self._device.to_device(found), X)


def predict(device: Device, model: Model, X: Matrix, n_threads: int) -> Array:
    """Predict the values (function, output, row) of a model for a matrix of numbers.

    Sparse matrices, and models without trees, are left to the CPU.
    """
    if not isinstance(model, Forest) or issparse(X):
        return model.predict(np.asarray(X) if not issparse(X) else X, n_threads)
    parts = [device.to_host(_on_device(device, model).predict(block)) for block in blocks_on(device, X)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _on_device(device: Device, forest: Forest) -> DeviceForest:
    if forest not in _ON_DEVICE:
        _ON_DEVICE[forest] = DeviceForest(device, forest)
    return _ON_DEVICE[forest]
