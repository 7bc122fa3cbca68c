"""An objective whose functions are on a device."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from ..._base.sums import Array, ExactSum
from ..._core.learners import Fit, Model, Newton
from ..._core.objective import LocalObjective
from ..._core.theory import cosine
from ..._losses import is_built_in
from ..._uncertainty.conformal import Nonconformity
from . import vectors
from .device import Device, DeviceArray
from .vectors import Quantity, Sums


class DeviceObjective:
    """An objective whose functions are device arrays (output, row); see Objective.

    A loss without kernels for devices, such as a custom one, is evaluated by the objective on the host. This gives the
    same bits and costs copies of the scores and the results.
    """

    def __init__(self, local: LocalObjective, device: Device) -> None:
        self.local = local
        """The same objective on the host."""
        self.n_train, self.n_rows = local.n_train, local.n_rows
        self.has_validation, self.has_loss, self.counts_rows = local.has_validation, local.has_loss, local.counts_rows
        self.start: DeviceArray = device.to_device(local.start)
        self._device = device
        self._kernel = _row_kernel(local.loss)
        self._y = None if self._kernel is None else device.to_device(local.y)
        self._train_weight = _copy(device, local.train_weight)
        self._validation_weight = _copy(device, local.validation_weight)

    def iteration(self) -> AbstractContextManager[None]:
        return self._device.on(self._stream)

    @cached_property
    def _stream(self) -> Any:
        return self._device.new_stream()

    def residual(self, f: DeviceArray) -> DeviceArray:
        if self._kernel is None:
            return self._device.to_device(self.local.residual(self._training_scores(f)))
        return self._of_training_rows(Quantity.NEGATIVE_GRADIENT, f)

    def newton(self, f: DeviceArray) -> Newton[DeviceArray] | None:
        if not self.local.second_order or self.local.loss.constant_hessian:
            return None
        if self._kernel is not None and not self.local.quantiles:
            return Newton(self._of_training_rows(Quantity.HESSIAN, f))
        # The curvature of a quantile's loss depends on the median distance of all rows.
        newton = self.local.newton(self._training_scores(f))
        assert newton is not None
        return Newton(self._device.to_device(newton.hessian), _copy(self._device, newton.distance), newton.shares)

    def derivatives(self, f: DeviceArray) -> tuple[DeviceArray, Newton[DeviceArray] | None]:
        return self.residual(f), self.newton(f)

    def zero_residual(self) -> DeviceArray:
        return self._device.zeros((self.start.shape[0], self.n_train), np.float64)

    def mix(self, a: float, x: DeviceArray, b: float, y: DeviceArray) -> DeviceArray:
        return vectors.mix(self._device, a, x, b, y)

    def train_loss(self, f: DeviceArray) -> float:
        if self._kernel is None:
            return self.local.train_loss(self._training_scores(f))
        sums = Sums(self._device, 1)
        self._add_train_loss(sums, 0, f)
        return sums.totals()[0] / self.local.train_weight_sum

    def validation_loss(self, f: DeviceArray) -> float:
        if not self.has_validation:
            return math.nan
        if self._kernel is None:
            return self.local.validation_loss(self.to_host(f))
        sums = Sums(self._device, 1)
        self._add_validation_loss(sums, 0, f)
        return sums.totals()[0] / self.local.validation_weight_sum

    def measure(
        self, f: DeviceArray, *fits: tuple[DeviceArray, Fit[DeviceArray]]
    ) -> tuple[tuple[float, float], list[float]]:
        """The losses, and the cosines of the fits; all sums are copied from the device at once."""
        sums = Sums(self._device, 2 + 3 * len(fits))
        if self._kernel is not None:
            self._add_train_loss(sums, 0, f)
            self._add_validation_loss(sums, 1, f)
        for number, (r, fit) in enumerate(fits):
            self._add_products(sums, 2 + 3 * number, r, fit.explained)
        train, validation, *products = sums.totals()
        cosines = [cosine(*products[i : i + 3]) for i in range(0, len(products), 3)]
        if self._kernel is None:
            scores = self.to_host(f)
            return (self.local.train_loss(scores), self.local.validation_loss(scores)), cosines
        validation_loss = validation / self.local.validation_weight_sum if self.has_validation else math.nan
        return (train / self.local.train_weight_sum, validation_loss), cosines

    def cosine(self, r: DeviceArray, fit: Fit[DeviceArray]) -> float:
        return cosine(*self._products(r, fit.explained))

    def inner(self, r: DeviceArray, b: DeviceArray) -> float:
        return float(self._products(r, b)[1])

    def slope(self, f: DeviceArray, b: DeviceArray) -> float:
        return -self.inner(self.residual(f), b)

    def explained_by(self, values: DeviceArray, newton: Newton[DeviceArray] | None) -> DeviceArray:
        """The part of the residual that a function explains; see Fit."""
        b = values[:, : self.n_train]
        return b if newton is None else vectors.multiply(self._device, b, newton.hessian)

    def fit_of(
        self, model: Model, function: int, values: DeviceArray, newton: Newton[DeviceArray] | None
    ) -> Fit[DeviceArray]:
        return Fit(model, function, values, self.explained_by(values, newton))

    def unit(self, output: int) -> DeviceArray:
        return self._device.to_device(self.local.unit(output))

    def level_step(self, f: DeviceArray, output: int) -> float:
        """The Newton step of a constant, evaluated on the host."""
        residual, hessian = self.local.level_sums(self.to_keep(f), output)
        return residual / hessian

    def to_keep(self, f: DeviceArray) -> Array:
        """A copy on the host, where `held_out_scores` needs it."""
        return self.to_host(f[..., self.local.validation_rows])

    def held_out_scores(self, kept: Array, measure: Nonconformity) -> tuple[Array, Array | None]:
        return self.local.held_out_scores(kept, measure)

    def to_host(self, f: DeviceArray) -> Array:
        """A copy of a function as a NumPy array."""
        return self._device.to_host(f)

    def _training_scores(self, f: DeviceArray) -> Array:
        return self.to_host(f[:, : self.n_train])

    def _of_training_rows(self, quantity: Quantity, f: DeviceArray) -> DeviceArray:
        return vectors.loss_rows(self._device, *self._loss, quantity, *self._rows(slice(self.n_train), f))

    def _add_train_loss(self, sums: Sums, k: int, f: DeviceArray) -> None:
        sums.add_loss(k, *self._loss, *self._rows(slice(self.n_train), f), self._train_weight)

    def _add_validation_loss(self, sums: Sums, k: int, f: DeviceArray) -> None:
        sums.add_loss(k, *self._loss, *self._rows(self.local.validation_rows, f), self._validation_weight)

    def _add_products(self, sums: Sums, k: int, r: DeviceArray, b: DeviceArray) -> None:
        sums.add_products(k, r, b[:, : self.n_train], self._train_weight)

    def _products(self, r: DeviceArray, b: DeviceArray) -> list[ExactSum]:
        sums = Sums(self._device, 3)
        self._add_products(sums, 0, r, b)
        return sums.totals()

    @property
    def _loss(self) -> tuple[str, float]:
        assert self._kernel is not None
        return self._kernel

    def _rows(self, rows: slice, f: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Labels and scores of some rows."""
        assert self._y is not None
        return self._y[..., rows], f[:, rows]


def _row_kernel(loss: object) -> tuple[str, float] | None:
    return loss.row_kernel if is_built_in(loss) else None


def _copy(device: Device, array: Array | None) -> DeviceArray | None:
    return None if array is None else device.to_device(array)
