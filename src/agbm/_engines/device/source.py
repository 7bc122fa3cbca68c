"""Rows of a device, as a fit needs them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import issparse

from ..._base.weights import Weights
from ..._core.learners import Fitter, Learner, Model
from ..._core.objective import LocalObjective, Objective, start_residual
from ..._core.ring import Ring, RingPart
from ..._data.rows import Given
from ..._fit.sources import BlockRows, LocalSource, LocalTable
from ..._tree import CodedRows, TableBins, TreeLearner
from ..._tree.bins import Bins, sample_of
from .bins import GROUP_COLUMNS, BinnedRows, DeviceBins
from .device import Device, DeviceArray
from .fitter import DeviceFitter, DeviceWeights
from .matrix import DeviceMatrix, Matrix, received
from .objective import DeviceObjective
from .prediction import predict


class DeviceSource(LocalSource):
    """Rows on this machine that are copied to a device; see RowSource."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._copied: tuple[CodedRows, BinnedRows] | None = None
        """Blocks, and a copy of them on the device."""

    def received(self, given: Given) -> Given:
        """The given rows, with X as a matrix of the device if it is on a GPU, and everything else on the host."""
        return received(self._device, given)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[DeviceArray], Fitter[DeviceArray]]:
        """The objective and the fitter on the device; blocks are binned by the CPU."""
        local, coded = rows.objective, rows.shared.coded(rows.reader, learner.n_threads)
        if self._copied is None or self._copied[0] is not coded:
            self._copied = coded, self._copy(coded)
        return self._bound(local), DeviceFitter(learner, self._copied[1], rows.part, self._weights(local))

    def _copy(self, coded: CodedRows) -> BinnedRows:
        columns = coded.matrix.columns()
        codes = np.zeros((-(-len(columns) // GROUP_COLUMNS), columns.shape[1], GROUP_COLUMNS), dtype=np.uint8)
        for feature, column in enumerate(columns):
            codes[feature // GROUP_COLUMNS, :, feature % GROUP_COLUMNS] = column
        on_device = self._device.to_device(codes)
        return BinnedRows.of(self._device, coded.bins, on_device, columns.shape[1], coded.order)

    def table(self, X: Matrix, n_given: int, weights: Weights | None, ring: Ring | None) -> LocalTable:
        return DeviceTable(self._device, X, n_given, weights, ring)

    def _bound(self, local: LocalObjective) -> DeviceObjective:
        return DeviceObjective(local, self._device)

    def _weights(self, local: LocalObjective) -> DeviceWeights:
        return DeviceWeights.of(self._device, local.train_weights)


class DeviceTable(LocalTable):
    """A table for all members of a model. Thresholds and categories are found by the CPU, codes by the device."""

    def __init__(self, device: Device, X: Matrix, n_given: int, weights: Weights | None, ring: Ring | None) -> None:
        super().__init__(X, n_given, weights, ring)
        self._device = device
        self._bins: TableBins | None = None
        self._shared: BinnedRows | None = None
        """None if each member has its own categories."""

    def bind(
        self, learner: Learner, part: RingPart, local: LocalObjective
    ) -> tuple[Objective[DeviceArray], Fitter[DeviceArray]]:
        if not isinstance(learner, TreeLearner):
            raise ValueError('device="cuda" grows trees; with another learner, use device="cpu".')
        if issparse(self._X):
            raise ValueError('device="cuda" needs dense X; with a sparse matrix, use device="cpu", or X.toarray().')
        if self._bins is None:
            self._bins = self._table_bins(learner)
            if not self._bins.crowded:
                self._shared = self._encoded(self._bins.shared)
        rows = self._shared
        if rows is None:
            own = self._bins.own_categories(learner, part, local.train_weights, start_residual(local))
            rows = self._encoded(self._bins.shared.with_categories(own))
        weights = DeviceWeights.of(self._device, local.train_weights)
        fitter = DeviceTableFitter(learner, rows, part, weights, self._X)
        return DeviceObjective(local, self._device), fitter

    def _table_bins(self, learner: TreeLearner) -> TableBins:
        """Of rows on the device, which have no categories, only a sample is copied to the host."""
        n, weights = self._n_given, self._weights
        if not isinstance(self._X, DeviceMatrix):
            return TableBins(learner, self._X, n, weights, self._order)
        sample = sample_of(n)
        rows = np.arange(n) if sample is None else sample
        return TableBins(learner, np.asarray(self._X[rows]), len(rows), None if weights is None else weights[rows])

    def _encoded(self, bins: Bins) -> BinnedRows:
        """The rows in the order that members share."""
        rows = None if self._order is None else np.append(self._order, np.arange(self._n_given, len(self._X)))
        codes = DeviceBins(self._device, bins).encode(self._X, rows)
        return BinnedRows.of(self._device, bins, codes, len(self._X), self._order)


class DeviceTableFitter(DeviceFitter):
    """Trees bound to the rows of a table."""

    def __init__(
        self, learner: TreeLearner, rows: BinnedRows, part: RingPart, weights: DeviceWeights, X: Matrix
    ) -> None:
        """X has the rows in the order of their numbers."""
        super().__init__(learner, rows, part, weights)
        self._X = X

    def with_learner(self, learner: TreeLearner) -> DeviceTableFitter:
        return DeviceTableFitter(learner, self._rows, self._part, self._weights, self._X)

    def values(self, model: Model) -> Sequence[DeviceArray]:
        """The values of a model, whose trees may have been grown with other bins, in an earlier run."""
        device = self._rows.device
        values = self._in_order(predict(device, model, self._X, self._learner.n_threads))
        return [device.to_device(np.ascontiguousarray(of_function)) for of_function in values]
