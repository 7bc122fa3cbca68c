"""Rows of a device, as a fit needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._core.learners import Fitter, Learner, Model
from .._core.losses import Array
from .._core.objective import LocalObjective, Objective, start_residual
from .._core.weights import Weights
from .._data.rows import Given
from .._preparation import BlockRows, LocalRows
from .._tree import TreeLearner
from .._tree.bins import Bins, sample_of
from .bins import GROUP_COLUMNS, DeviceBins
from .device import Device, DeviceArray
from .fitter import DeviceFitter, DeviceWeights
from .matrix import DeviceMatrix, received
from .objective import DeviceObjective
from .prediction import predict
from .rows import BinnedRows
from .tree_rows import DeviceTreeRows


class DeviceRows(LocalRows):
    """Rows on this machine that are copied to a device; see RowSource."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def received(self, given: Given) -> Given:
        """The given rows, with X as a matrix of the device if it is on a GPU, and everything else on the host."""
        return received(self._device, given)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[DeviceArray], Fitter[DeviceArray]]:
        """See RowSource. Blocks are binned by the CPU."""
        matrix, bins, local = self._encoded(rows, learner), rows.reader.bins, rows.objective
        columns = matrix.columns()
        codes = np.zeros((-(-len(columns) // GROUP_COLUMNS), columns.shape[1], GROUP_COLUMNS), dtype=np.uint8)
        for feature, column in enumerate(columns):
            codes[feature // GROUP_COLUMNS, :, feature % GROUP_COLUMNS] = column
        on_device = BinnedRows.of(self._device, bins, self._device.to_device(codes), columns.shape[1])
        return self._bound(local), DeviceFitter(learner, on_device, local.n_train, self._weights(local))

    def bind_table(
        self, X: Any, learner: Learner, local: LocalObjective, again: Callable[[], Any] | None
    ) -> tuple[Objective[DeviceArray], Fitter[DeviceArray]]:
        """See LocalRows. Thresholds and categories are found by the CPU, codes by the device."""
        if not isinstance(learner, TreeLearner):
            raise ValueError('device="cuda" grows trees; with another learner, use device="cpu".')
        if issparse(X):
            raise ValueError('device="cuda" needs dense X; with a sparse matrix, use device="cpu", or X.toarray().')
        weights, residual = local.train_weights, start_residual(local)
        bins = _bins_of(X, local.n_train, learner, weights, residual)
        codes = DeviceBins(self._device, bins).encode(X)
        rows = BinnedRows.of(self._device, bins, codes, len(X))
        features = (lambda: X) if again is None else again
        return self._bound(local), DeviceTableFitter(learner, rows, local.n_train, self._weights(local), features)

    def _bound(self, local: LocalObjective) -> DeviceObjective:
        return DeviceObjective(local, self._device)

    def _weights(self, local: LocalObjective) -> DeviceWeights:
        return DeviceWeights.of(self._device, local.train_weights)


class DeviceTableFitter(DeviceFitter):
    """Trees bound to the rows of a table."""

    def __init__(
        self, learner: TreeLearner, rows: BinnedRows, n_train: int, weights: DeviceWeights,
        features: Callable[[], Any], tree_rows: dict[tuple[int, ...], DeviceTreeRows] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learner, rows, n_train, weights, tree_rows)
        self._features = features

    def with_learner(self, learner: TreeLearner) -> DeviceTableFitter:
        """See DeviceFitter."""
        rows = self._rows, self._n_train, self._weights
        return DeviceTableFitter(learner, *rows, self._features, self._tree_rows)

    def values(self, model: Model) -> Sequence[DeviceArray]:
        """See Fitter. Trees of an earlier run may have been grown with other bins."""
        device = self._rows.device
        values = predict(device, model, self._features(), self._learner.n_threads)
        return [device.to_device(of_function) for of_function in values]


def _bins_of(
    X: NDArray[Any] | DeviceMatrix, n_train: int, learner: TreeLearner, weights: Weights | None, residual: Array
) -> Bins:
    """The bins of the training rows. Of those on the device, only a sample is copied to the host."""
    if not isinstance(X, DeviceMatrix):
        return learner.bins_of(X[:n_train], weights, residual)
    sample = sample_of(n_train)
    if sample is None:
        sample = np.arange(n_train)
    of_sample = None if weights is None else weights[sample]
    return Bins.from_sample(np.asarray(X[sample]), None, learner.max_bins, of_sample, {}, learner.n_threads)
