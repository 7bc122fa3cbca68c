"""An objective whose rows are in shards."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from ..._base.sums import Array, ExactSum
from ..._core.learners import Fit, Model, Newton
from ..._core.theory import cosine
from ..._uncertainty.conformal import Nonconformity
from .log import Log, RemoteFunction
from .median import MedianSearch
from .messages import START


class Facts(NamedTuple):
    """Facts about all rows together."""

    n_train: int
    n_outputs: int
    train_weight: ExactSum
    """Sum of the weights of the training rows."""
    validation_weight: ExactSum
    """Sum of the weights of the validation rows; 0 if there are none."""
    newton: bool
    """Whether learners make Newton steps with hessians that vary."""
    quantiles: tuple[float, ...] = ()
    """The quantiles of a Quantile loss, whose hessians depend on the median distance of all rows."""
    weight_step: float | None = None
    """The step of the weights, as `whole_weights` returns it; None if rows have no weights."""
    counts_rows: bool = True
    """Whether weights are numbers of repetitions."""
    has_loss: bool = True
    """Whether losses are known, and not only derivatives."""


class ClusterObjective:
    """An objective whose rows are in shards: functions are handles; see Objective."""

    def __init__(self, log: Log, facts: Facts) -> None:
        self._log = log
        self._facts = facts
        self.start = RemoteFunction(START, facts.n_outputs, log)
        self.n_train = facts.n_train
        self.has_validation = float(facts.validation_weight) > 0.0
        self.counts_rows, self.has_loss = facts.counts_rows, facts.has_loss

    def iteration(self) -> AbstractContextManager[None]:
        return nullcontext()

    def residual(self, f: RemoteFunction) -> RemoteFunction:
        return self._log.create("residual", [f])[0]

    def newton(self, f: RemoteFunction) -> Newton[RemoteFunction] | None:
        if not self._facts.newton:
            return None
        if not self._facts.quantiles:
            return Newton(self._log.create("hessian", [f])[0])
        medians = [self._median_distance(f, k) for k in range(self._facts.n_outputs)]
        (hessian,), (distance,) = self._log.create("hessian", [f], *medians), self._log.create("distance", [f])
        return Newton(hessian, distance, self._facts.quantiles)

    def derivatives(self, f: RemoteFunction) -> tuple[RemoteFunction, Newton[RemoteFunction] | None]:
        return self.residual(f), self.newton(f)

    def zero_residual(self) -> RemoteFunction:
        return self._log.create("zero_residual", [])[0]

    def mix(self, a: float, x: RemoteFunction, b: float, y: RemoteFunction) -> RemoteFunction:
        return self._log.create("mix", [x, y], a, b)[0]

    def train_loss(self, f: RemoteFunction) -> float:
        return self._losses_of(f)[0]

    def validation_loss(self, f: RemoteFunction) -> float:
        return self._losses_of(f)[1]

    def measure(
        self, f: RemoteFunction, *fits: tuple[RemoteFunction, Fit[RemoteFunction]]
    ) -> tuple[tuple[float, float], list[float]]:
        """The losses, and the cosines of the fits; one round of messages for all of them."""
        pairs = [function for r, fit in fits for function in (r, fit.explained)]
        train, validation, *products = self._log.ask("measure", [f, *pairs]).sums
        validation_loss = validation / self._facts.validation_weight if self.has_validation else math.nan
        f.losses = train / self._facts.train_weight, validation_loss
        return f.losses, [cosine(*products[i : i + 3]) for i in range(0, len(products), 3)]

    def cosine(self, r: RemoteFunction, fit: Fit[RemoteFunction]) -> float:
        return cosine(*self._log.ask("inner", [r, fit.explained]).sums)

    def inner(self, r: RemoteFunction, b: RemoteFunction) -> float:
        return float(self._log.ask("inner", [r, b]).sums[1])

    def slope(self, f: RemoteFunction, b: RemoteFunction) -> float:
        return -self.inner(self.residual(f), b)

    def fit_of(
        self, model: Model, function: int, values: RemoteFunction, newton: Newton[RemoteFunction] | None
    ) -> Fit[RemoteFunction]:
        hessian = [] if newton is None else [newton.hessian]
        return Fit(model, function, values, self._log.create("explained", [values, *hessian])[0])

    def unit(self, output: int) -> RemoteFunction:
        return self._log.create("unit", [], output)[0]

    def level_step(self, f: RemoteFunction, output: int) -> float:
        residual, hessian = self._log.ask("level", [f], output).sums
        return float(residual / hessian)

    def to_keep(self, f: RemoteFunction) -> RemoteFunction:
        return f

    def held_out_scores(self, kept: RemoteFunction, measure: Nonconformity) -> tuple[Array, Array | None]:
        """The scores of the validation rows: shards send one number per label and row, or two with weights."""
        scores, weights = self._log.ask("held_out", [kept], measure).sums
        return np.concatenate(scores, axis=-1), np.concatenate(weights) if weights else None

    def _median_distance(self, f: RemoteFunction, k: int) -> float:
        """The median distance between f and the labels of output k, over the rows where they differ."""
        search = MedianSearch(self._facts.weight_step)
        for _ in range(MedianSearch.steps):
            search = search.after(self._log.ask("tally", [f], k, search).sums[0])
        return search.found

    def _losses_of(self, f: RemoteFunction) -> tuple[float, float]:
        return self.measure(f)[0] if f.losses is None else f.losses
