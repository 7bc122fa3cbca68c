"""What a fit on blocks learns from labels, weights and offsets, step by step.

The rows may be in several processes. Each step is evaluated for the rows of every process, see Labelled; whatever
depends on all rows is combined, see _base/collectives.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_y

from .._base.collectives import combined, count
from .._base.sums import Array, ExactSum, weight_step, whole_weights
from .._base.weights import Weights, check_sample_weight
from .._core.objective import start_residual
from .._core.ring import RingPart
from .._data.blocks import Gathered, RowsHere, dense, naming
from .._data.hold_out import scrambled
from .._data.rows import VALIDATION, Rows, RowSet
from .._labels.base import Labels
from .._losses import Loss
from .planning import Request, Units, l2_of, objective_of, ring_of, unit_of, weigh_rows
from .run import Plan


class LabelFacts(NamedTuple):
    """What a process has learned from its labels and weights; all but the last is the same in every process."""

    kind: type[Labels]
    learned: Loss | None
    """The loss with what it learned from the labels; None if it learns nothing."""
    labels: Labels
    units: Units
    no_weights: Weights | None
    """The weights of no rows; None if rows have no weights."""
    n_labels: int
    """Numbers per label."""
    n_used: int
    """The number of rows here with positive weight."""


class Begun(NamedTuple):
    """What is known about all rows of a member before the first iteration."""

    start: object
    """The start function: constants, or a model."""
    l2: float | list[float]
    train_weight: ExactSum
    validation_weight: ExactSum
    quantiles: tuple[float, ...]
    weight_step: float | None
    """The unit of integer weights, as for `whole_weights`; None if training rows have no weights."""
    counts_rows: bool
    newton: bool
    """Whether learners make Newton steps with hessians that vary."""


def weigh(given: Gathered, request: Request) -> tuple[RowsHere, LabelFacts]:
    """A step: the rows with positive weight, and their encoded labels."""
    y = dense(given.y)
    request = request.for_labels(y)
    request.kind.check(y)
    y, numeric = request.kind.exact(y), request.kind.numeric
    y = _check_y(y, multi_output=numeric, y_numeric=numeric, estimator=request.settings.estimator)
    sample_weight = None if given.weight is None else check_sample_weight(given.weight, y)
    request, kept, weights, labels, encoded = weigh_rows(request, y, sample_weight)
    offset = labels.encode_offset(given.offset, len(y))
    whole = None if sample_weight is None else whole_weights(sample_weight, weight_step(sample_weight))
    unit = unit_of(request, labels, given.unit, kept, encoded, len(y))
    starts = None if offset is None else offset[:, kept]
    rows = Rows(np.arange(len(y))[kept], encoded, weights, starts, unit=unit)
    no_weights = None if weights is None else weights[:0]
    units = Units.of(labels, encoded)
    n_labels = len(np.atleast_2d(encoded))
    found = LabelFacts(request.kind, request.learned, labels, units, no_weights, n_labels, rows.n)
    return RowsHere(given.n_rows, rows, rows.n, sample_weight, whole), found


def divide(here: RowsHere, request: Request, plan: Plan, labels: Labels) -> tuple[RowsHere, list[int]]:
    """A step: draw the rows that members hold out; returns the number of training rows of each member."""
    ring = ring_of(request, plan, labels, here.rows, here.first)
    if ring is None:
        return here, [here.n_train] * plan.n_members
    return replace(here, ring=ring, on_ring=here.rows.on_ring(ring)), [part.n_train for part in ring.parts]


def begin(
    here: RowsHere, request: Request, plan: Plan, labels: Labels, weighs_validation: bool
) -> tuple[RowsHere, Begun]:
    """A step: the start function and the objective of a member; `weighs_validation`: whether X_val has weights."""
    part = here.part or RingPart(here.n_train)
    start, objective = objective_of(request, plan, labels, here.rows, part, here.first)
    weighs = weighs_validation or (plan.held_out and here.rows.weights is not None)
    if weighs and objective.validation_weight is None:  # other processes have all validation rows
        objective = replace(objective, validation_weight=np.empty(0))
    start_residual(objective)  # raises an error if its squares underflow
    weight = objective.train_weight
    found = Begun(
        start, l2_of(request, objective), objective.train_weight_sum, objective.validation_weight_sum,
        objective.quantiles, None if weight is None else weight_step(weight), objective.counts_rows,
        plan.method.second_order and not objective.loss.constant_hessian,
    )  # fmt: skip
    return replace(here, objective=objective), found


def numbered(here: RowsHere, first: int) -> tuple[RowsHere, None]:
    """A step: set the number of the first row."""
    return replace(here, first=first), None


def encode_validation(given: Gathered, first: int, labels: Labels, no_weights: Weights | None) -> tuple[RowsHere, None]:
    """A step: the labels, weights and offsets of rows of X_val, of which the first has this number."""
    with naming("X_val"):
        weight = None if given.weight is None else check_sample_weight(given.weight, given.y).astype(np.float64)
    n = given.total
    y, offset = labels.encode_validation(given.y, n), labels.encode_offset(given.offset, n, "offset_val")
    if weight is not None:
        labels.check_weights(y.T, weight, "sample_weight_val")
    rows = Rows(np.arange(n), y, no_weights, offset, (RowSet(VALIDATION, n, weight),))
    return RowsHere(given.n_rows, rows, 0, first=first), None


def of_member(here: RowsHere, number: int) -> tuple[RowsHere, None]:
    """A step: the rows of a member, training rows first."""
    if here.ring is None or here.on_ring is None:
        return here, None
    part = here.ring.parts[number]
    return replace(here, rows=here.on_ring.of(part), n_train=part.n_train, part=part), None


def in_shared_order(here: RowsHere) -> tuple[RowsHere, None]:
    """A step: all rows, in the order that members share."""
    if here.ring is None or here.on_ring is None:
        return here, None
    part = here.ring.parts[0]
    return replace(here, rows=here.on_ring.of(part._replace(first=part.begin))), None


def check_groups(here: RowsHere, number: int, labels: Labels) -> tuple[RowsHere, None]:
    """A step: raise ValueError if rows that the loss sees together are in several processes."""
    groups = labels.groups(here.rows.y)
    if groups is not None:
        combined([(number, np.unique(groups))], add, labels.check_partitions)
    return here, None


def digest(here: RowsHere) -> tuple[RowsHere, int]:
    """A step: a number by which a checkpoint recognises labels, weights and start scores."""
    rows = here.rows
    bits = scrambled(_numbers(here), 0)
    weights = () if rows.weights is None else (rows.weights.repeats, rows.weights.relative)
    vectors: list[Array] = [*np.atleast_2d(rows.y), *(() if rows.start is None else rows.start)]
    vectors += [np.asarray(part, dtype=np.float64) for part in weights if part is not None]
    for vector in vectors:
        bits = scrambled(bits ^ np.ascontiguousarray(vector).view(np.uint64), 0)
    if rows.unit is not None:
        bits = scrambled(bits ^ rows.unit, 0)
    return here, combined(int(bits.sum(dtype=np.uint64)), add) % 2**64


def weigh_at_random(here: RowsHere) -> tuple[RowsHere, None]:
    """A step: random weights, whose sums per category show whether the same rows have the same categories."""
    largest = 2 ** (52 - count(here.rows.n).bit_length())  # such that sums are exact
    repeats = (1 + scrambled(_numbers(here), 1) % np.uint64(largest - 1)).astype(np.int64)
    rows = replace(here.rows, weights=Weights(repeats, None))
    return replace(here, rows=rows, sample_weight=None, whole_weight=None), None


def _numbers(here: RowsHere) -> NDArray[np.uint64]:
    return np.arange(here.first, here.first + here.rows.n, dtype=np.uint64)


def sample_weights_of(here: RowsHere) -> list[tuple[Any]]:
    """For each block, the weights of its rows."""
    return [(weight,) for weight in here.sample_weights()]


def before(counts: Sequence[int]) -> list[int]:
    """For each process, the sum of the counts of those before it."""
    return [int(n) for n in np.cumsum(counts) - np.asarray(counts)]
