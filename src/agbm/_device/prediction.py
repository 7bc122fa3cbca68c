"""Predictions of models on a device, for tables in memory."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import issparse

from .._core.learners import Model
from .._core.losses import Array
from .._model import Predict
from .._tree import Forest
from .device import Device
from .forest import DeviceForest
from .table import table_to_device

BYTES_AT_ONCE = 2**28
"""How much of a table is copied at a time."""

_ON_DEVICE: WeakKeyDictionary[Forest, DeviceForest] = WeakKeyDictionary()
"""Forests that were copied to the device, as long as they are in memory."""


def prediction_on(device: Device) -> Predict:
    """A function that predicts on a device. Sparse tables, and models without trees, are left to the CPU."""
    return partial(_predict, device)


def _predict(device: Device, model: Model, X: Any, n_threads: int) -> Array:
    if not isinstance(model, Forest) or issparse(X):
        return model.predict(X, n_threads)
    if model not in _ON_DEVICE:
        _ON_DEVICE[model] = DeviceForest(device, model)
    forest, step = _ON_DEVICE[model], max(1, BYTES_AT_ONCE // max(1, X.shape[1] * X.itemsize))
    parts = [
        device.to_host(forest.predict(table_to_device(device, X[first : first + step])))
        for first in range(0, max(1, len(X)), step)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
