"""Predictions from scores on a device, with the same bits as the methods of labels on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._base.sums import Array
from ..._labels.base import Classes, Labels, Numbers, Result
from ..._losses import Loss, prediction_of
from .device import Device, DeviceArray, blocks_for

N_THREADS = 256
LINKS = {"identity": 0, "exp": 1, "sigmoid": 2, "sigmoid_of_double": 3}
"""Inverse links of losses with one score; Link in formulas/links.hpp."""


class Finish(NamedTuple):
    """How scores become predictions."""

    kernel: str
    link: int
    n_columns: int
    """Of the result; 0 for a vector."""
    classes: Array | None
    """What the results are indices of; None if they are numbers."""


def finish_of(labels: Labels, loss: Loss, kind: Result) -> Finish | None:
    """How scores become results of a kind; None if there is no kernel for it."""
    name = prediction_of(loss)
    if type(labels) is Numbers:
        values = kind is Result.PREDICTIONS and labels.single and name in LINKS
        return Finish("agbm_predicted_values", LINKS[name or ""], 0, None) if values else None
    if type(labels) is not Classes:
        return None
    n_outputs = labels.n_outputs
    if kind is Result.SCORES:
        return Finish("agbm_scores", 0, 0 if n_outputs == 1 else n_outputs, None)
    if kind is Result.PREDICTIONS:
        return Finish("agbm_most_probable", 0, 0, labels.classes) if labels.classes.dtype.kind in "fiub" else None
    if n_outputs == 1:
        return Finish("agbm_two_probabilities", LINKS[name], 2, None) if name in LINKS else None
    return Finish("agbm_softmax", 0, n_outputs, None) if name == "softmax" else None


def finished(device: Device, finish: Finish, start: Array, sums: DeviceArray) -> DeviceArray:
    """Predictions for the sums (output, row) of trees, which are scores after `start`, one per output, is added."""
    n_outputs, n_rows = sums.shape
    shape = (n_rows, finish.n_columns) if finish.n_columns else (n_rows,)
    out = device.empty(shape, np.float64 if finish.classes is None else np.int64)
    args = finish.link, device.to_device(start), sums, n_outputs, out, n_rows
    device.launch(finish.kernel, blocks_for(device, n_rows, N_THREADS), N_THREADS, *args)
    return out if finish.classes is None else device.to_device(finish.classes)[out]
