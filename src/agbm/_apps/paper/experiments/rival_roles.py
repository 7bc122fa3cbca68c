"""Runs of a method in the ways in which it can be used: with one learning rate, or with the best of all rates.

Results are means over the splits. They are what is stored: all curves would be a hundred times as large.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...._base.sums import Array
from .rival_methods import GPBOOST, GPBOOST_PLAIN, PLAIN

RATES = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""Learning rates of every method; for Boulevard, the values of lambda."""
CHECKPOINTS = (0, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400)
"""Numbers of trees at which the model is measured."""
CLOCK_RATE, CLOCK_TREES = 0.12, 100
"""The unit of time is what plain boosting takes for this number of trees with this rate on the same rows."""
TIMES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Times at which the model is measured."""
_DIGITS = 5


@dataclass
class Curve:
    """The measurements of a run, with one entry per checkpoint that it reached.

    Losses are mean log losses, or mean squared errors divided by the variance of the training labels.
    """

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    test: list[float] = field(default_factory=list)
    best_validation: list[float] = field(default_factory=list)
    """The lowest validation loss so far."""
    best_test: list[float] = field(default_factory=list)
    """The test loss of the iteration with the lowest validation loss so far."""
    best_trees: list[int] = field(default_factory=list)
    """Number of trees of that iteration."""
    seconds: list[float] = field(default_factory=list)
    """Processor time so far."""
    best_seconds: list[float] = field(default_factory=list)
    """Processor time until the iteration with the lowest validation loss so far."""
    diverged: bool = False


@dataclass(frozen=True)
class Trace:
    """A method with one rate on one split."""

    table: str
    kind: str
    learner: str
    split: int
    method: str
    rate: float
    curve: Curve


@dataclass(frozen=True)
class Run:
    """A method on one table in one role, with early stopping; means over the splits."""

    table: str
    kind: str
    learner: str
    method: str
    rate: float | None
    """The learning rate; None: on each split the one with the lowest validation loss, from as many fits as rates."""
    test: float
    """The test loss of the iteration with the lowest validation loss."""
    trees: float
    """Number of trees at that iteration."""
    seconds: float
    """Processor time until that iteration."""
    diverged: int
    """Number of fits that diverged."""
    at_trees: Sequence[float]
    """The test loss of the best iteration so far at each checkpoint."""
    at_times: Sequence[float]
    """The same at each of TIMES; empty for single rates."""


class _Role(NamedTuple):
    """A role on one split, with the fields of Run."""

    test: float
    trees: float
    seconds: float
    diverged: int
    at_trees: Array
    at_times: Array


def baseline_of(method: str) -> str:
    """Plain boosting in the same library."""
    return GPBOOST_PLAIN if method in GPBOOST else PLAIN


def summarise(traces: Iterable[Trace]) -> list[Run]:
    """The runs of all methods in all roles."""
    curves: dict[tuple[str, str, str], dict[str, dict[int, dict[float, Curve]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for trace in traces:
        of_method = curves[trace.table, trace.kind, trace.learner][trace.method]
        of_method[trace.split][trace.rate] = trace.curve
    return [
        _mean((table, kind, learner, method), rate, roles)
        for (table, kind, learner), methods in curves.items()
        for method, splits in methods.items()
        for rate, roles in _roles(splits, methods[baseline_of(method)]).items()
    ]


def _roles(
    splits: Mapping[int, Mapping[float, Curve]], baseline: Mapping[int, Mapping[float, Curve]]
) -> dict[float | None, list[_Role]]:
    """The roles of a method on each split."""
    roles: dict[float | None, list[_Role]] = defaultdict(list)
    clock = CHECKPOINTS.index(CLOCK_TREES)
    for number, curves in splits.items():
        unit = _whole(baseline[number][CLOCK_RATE].seconds)[clock]
        for rate, curve in curves.items():
            roles[rate].append(_role([curve], unit)._replace(at_times=np.zeros(0)))
        roles[None].append(_role(list(curves.values()), unit))
    return roles


def _role(curves: Sequence[Curve], unit: float) -> _Role:
    """The best of some fits, by the validation loss at the end or at any checkpoint or time."""
    validation = np.array([_whole(curve.best_validation) for curve in curves])
    test = np.array([_whole(curve.best_test) for curve in curves])
    times = [_at(curve, unit) for curve in curves]
    at_times = _of_lowest(np.array([v for v, _ in times]), np.array([t for _, t in times]))
    best = curves[int(np.argmin(validation[:, -1]))]
    return _Role(
        best.best_test[-1], best.best_trees[-1], best.best_seconds[-1], sum(curve.diverged for curve in curves),
        _of_lowest(validation, test), at_times,
    )  # fmt: skip


def _whole(values: Sequence[float]) -> Array:
    """The values at all checkpoints; those that a run did not reach are the last ones that it did."""
    return np.array([*values, *[values[-1]] * (len(CHECKPOINTS) - len(values))])


def _at(curve: Curve, unit: float) -> tuple[Array, Array]:
    """Best validation loss and its test loss at each of TIMES, interpolated between the checkpoints."""
    times = np.multiply(TIMES, unit)
    validation, test = (np.interp(times, curve.seconds, of) for of in (curve.best_validation, curve.best_test))
    return validation, test


def _of_lowest(validation: Array, test: Array) -> Array:
    """In each column, the entry of `test` in the row with the lowest validation loss."""
    found: Array = np.take_along_axis(test, np.argmin(validation, axis=0)[np.newaxis], axis=0)[0]
    return found


def _mean(of: tuple[str, str, str, str], rate: float | None, roles: Sequence[_Role]) -> Run:
    def mean(values: Sequence[Any]) -> Any:
        return np.add.reduce(values, axis=0) / len(values)

    table, kind, learner, method = of
    test, trees, seconds = _rounded([float(mean([role[k] for role in roles])) for k in range(3)])
    at_trees, at_times = (_rounded(mean([role[k] for role in roles]).tolist()) for k in (4, 5))
    diverged = sum(role.diverged for role in roles)
    return Run(table, kind, learner, method, rate, test, trees, seconds, diverged, at_trees, at_times)


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


_OF_ROLE = ("rate", "test", "trees", "seconds", "diverged", "at_trees", "at_times")


def to_json(runs: Sequence[Run]) -> dict[str, Any]:
    """The runs in a compact form, as JSON can write it: one entry per table and method."""
    entries: dict[tuple[str, str, str, str], list[Any]] = defaultdict(list)
    for run in runs:
        entries[run.table, run.kind, run.learner, run.method].append([getattr(run, name) for name in _OF_ROLE])
    of = "table", "kind", "learner", "method"
    return {"entries": [{**dict(zip(of, key, strict=True)), "roles": roles} for key, roles in entries.items()]}


def from_json(content: Mapping[str, Any]) -> list[Run]:
    """The runs from the result of to_json."""
    return [
        Run(entry["table"], entry["kind"], entry["learner"], entry["method"], *role)
        for entry in content["entries"]
        for role in entry["roles"]
    ]
