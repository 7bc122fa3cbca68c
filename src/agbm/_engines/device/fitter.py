"""Trees grown on rows of a device, as a weak learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._base import _native
from ..._base.weights import Weights
from ..._core.learners import DivergedError, Fit, Model, Newton
from ..._core.ring import RingPart
from ..._tree import Forest, TreeLearner
from ..._tree.learner import TreesOfIterations, as_forest
from ..._tree.sampling import Sample
from . import vectors
from .bins import BinnedRows
from .device import Device, DeviceArray
from .growth import DeviceTreeRows, TreeInputs


class DeviceWeights(NamedTuple):
    """Weights of the training rows on a device; see Weights."""

    relative: DeviceArray | None
    """(1, row)."""
    repeats: DeviceArray | None
    steps: DeviceArray | None
    n_repeated: int | None
    """The sum of the repeats; None without repeats."""

    @classmethod
    def of(cls, device: Device, weights: Weights | None) -> DeviceWeights:
        """Copy weights to the device."""
        if weights is None:
            return cls(None, None, None, None)
        relative, repeats = weights.relative, weights.repeats
        return cls(
            None if relative is None else device.to_device(relative[np.newaxis]),
            None if repeats is None else device.to_device(repeats),
            None if relative is None else device.to_device(weights.in_steps.astype(np.int64)),
            None if repeats is None else int(repeats.sum()),
        )


class DeviceFitter(TreesOfIterations[DeviceArray]):
    """Trees bound to binned rows of a device."""

    def __init__(self, learner: TreeLearner, rows: BinnedRows, part: RingPart, weights: DeviceWeights) -> None:
        super().__init__(learner, rows.bins, part, rows.order)
        self._rows = rows
        self._weights = weights
        self._growers = learner.growers(_native.DeviceGrower, rows.bins, rows.bins.matrix(0))
        self._tree_rows: dict[tuple[int, ...], DeviceTreeRows] = {}

    def with_learner(self, learner: TreeLearner) -> DeviceFitter:
        """The same binned rows for another learner."""
        return DeviceFitter(learner, self._rows, self._part, self._weights)

    def values(self, model: Model) -> Sequence[DeviceArray]:
        """The values of a model, whose trees must have been grown with the same bins."""
        forest = as_forest(model)
        values = self._rows.values(forest, self._bins.left_codes(forest), self._part)
        return _by_function(self._rows.device, [values], forest.n_functions)

    def _grow(
        self, residuals: Sequence[DeviceArray], newton: Newton[DeviceArray] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, DeviceArray]:
        device, rows, n_repeated = self._rows.device, self._rows_of(outputs), self._weights.n_repeated
        values = device.empty((len(outputs) * len(residuals), self._rows.n_rows), np.float64)
        inputs, chosen = self._inputs(residuals, newton, outputs), self._sampled_rows(sample)
        try:
            with self._growers.of(outputs) as grower:
                parts = grower.grow(
                    **rows.growth(inputs, self._part, chosen, values),
                    n_repeated=self._part.n_train if n_repeated is None else n_repeated,
                    **self._growth(newton, outputs, sample),
                )
        except OverflowError as error:
            raise DivergedError("a residual is not finite") from error
        return self._forest(*parts, len(outputs), len(residuals)), values

    def _fits(
        self, model: Forest, values: Sequence[DeviceArray], newton: Newton[DeviceArray] | None, n_functions: int
    ) -> list[Fit[DeviceArray]]:
        device, n = self._rows.device, self._part.n_train
        fits = []
        for j, function in enumerate(_by_function(device, values, n_functions)):
            explained = function[:, :n]
            if newton is not None:
                explained = vectors.multiply(device, explained, newton.hessian)
            fits.append(Fit(model, j, function, explained))
        return fits

    def _rows_of(self, outputs: range) -> DeviceTreeRows:
        """The rows for a tree of some outputs; trees with the same monotonic constraints share them."""
        monotone = self._learner.monotone
        of_outputs = tuple(monotone[outputs.start if len(monotone) > 1 else 0]) if monotone else ()
        if of_outputs not in self._tree_rows:
            self._tree_rows[of_outputs] = DeviceTreeRows(self._rows, of_outputs)
        return self._tree_rows[of_outputs]

    def _inputs(
        self, residuals: Sequence[DeviceArray], newton: Newton[DeviceArray] | None, outputs: range
    ) -> TreeInputs:
        """As `weighted` in _tree/learner.py, on the device."""
        device, weights = self._rows.device, self._weights
        found = [r[k : k + 1] for k in outputs for r in residuals]
        hessians = [] if newton is None else [newton.hessian[k : k + 1] for k in outputs]
        distances = [] if newton is None or newton.distance is None else [newton.distance[k] for k in outputs]
        if weights.relative is not None:
            found = [vectors.multiply(device, r, weights.relative) for r in found]
            hessians = [vectors.multiply(device, h, weights.relative) for h in hessians] or [weights.relative]
        shares = [] if newton is None else [newton.shares[k] for k in outputs if newton.shares]
        return TreeInputs(
            [r[0] for r in found], [h[0] for h in hessians], weights.repeats, distances, shares, weights.steps
        )


def _by_function(device: Device, values: Sequence[DeviceArray], n_functions: int) -> list[DeviceArray]:
    """The values (output, row) of each function, from those of trees, (output and function, row)."""
    n_outputs = sum(len(of_tree) for of_tree in values) // n_functions
    if len(values) == 1 and n_functions == 1:
        return [values[0]]
    found = [device.empty((n_outputs, values[0].shape[1]), np.float64) for _ in range(n_functions)]
    column = 0
    for of_tree in values:
        for row in range(len(of_tree)):
            output, function = divmod(column, n_functions)
            found[function][output] = of_tree[row]
            column += 1
    return found
