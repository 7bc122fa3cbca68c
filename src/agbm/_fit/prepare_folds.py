"""Preparation of a cross-validation: one run per fold, all on one table that is read and binned once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._base.sums import Array
from .._base.weights import Weights
from .._core.learners import Fitter
from .._core.objective import start_residual
from .._core.ring import RingPart
from .._data.blocks import dense, naming
from .._data.crosses import with_crosses
from .._data.reader import TableReader
from .._data.rows import VALIDATION, Given, Rows, RowSet, plain
from .._labels.base import Classes, Labels, StartScores
from .._tree import SharedBins, TreeLearner
from .planning import (
    Request,
    Units,
    divided_threads,
    learner_of,
    loss_of,
    make_plan,
    objective_of,
    weigh_rows,
)
from .prepare_table import check_table
from .run import Member, Run, make_members
from .views import audition_rows, found_crosses, given_crosses, needs_audition

Split = tuple["NDArray[np.intp]", "NDArray[np.intp]"]
"""The training rows and the test rows of a fold."""


class Folds(NamedTuple):
    """The runs of all folds, whose validation rows are the test rows of their folds."""

    runs: Sequence[Run]
    splits: Sequence[Split]
    X: Any
    """All rows as numbers."""
    start: Array | None
    """The scores of an init model for all rows."""


class _Table(NamedTuple):
    """The checked rows that the folds are taken from."""

    reader: TableReader
    labels: Labels
    X: Any
    y: NDArray[Any]
    weight: NDArray[Any] | None
    start: Array | None
    used: NDArray[np.intp]
    """The rows with positive weight."""
    weights: Weights | None
    """Theirs, without class weights, which come from y."""
    bins: SharedBins | None
    """None for learners other than trees."""


def prepared_folds(
    request: Request, given: Given, split: Callable[[NDArray[Any], NDArray[np.intp] | None], Iterable[tuple[Any, Any]]]
) -> Folds:
    """The runs of all folds; `split` returns pairs of training and test rows for the checked y and its strata."""
    request = request.for_labels(dense(given.y))
    reader, X, y, weight = check_table(request, given)
    request, kept, _, labels, encoded = weigh_rows(request, y, weight)
    X = plain(X)
    strata = labels.strata(encoded)
    if strata is not None and len(strata) < len(y):
        of_kept, strata = strata, np.zeros(len(y), dtype=np.intp)
        strata[kept] = of_kept
    splits = [_checked_split(number, len(y), *rows) for number, rows in enumerate(split(y, strata))]
    if not splits:
        raise ValueError("cv has no folds; pass a number of folds, a splitter or pairs of training and test rows.")
    start = StartScores(request.settings.init, labels, loss_of(request, labels))(given.X)
    used = np.arange(len(y))[kept]
    weights = None if weight is None else Weights.of(weight[used])
    bins = _bins(request, X, used, weights) if request.settings.method.learner is None else None
    table = _Table(reader, labels, X, y, weight, start, used, weights, bins)
    runs = []
    for number, rows in enumerate(splits):
        with naming(f"cv, fold {number}"):
            runs.append(_fold(request, table, *rows, n_folds=len(splits)))
    return Folds(runs, splits, X, start)


def _fold(request: Request, table: _Table, train: NDArray[np.intp], test: NDArray[np.intp], n_folds: int) -> Run:
    """The run that fit would prepare for these training and validation rows, with the bins of the table."""
    labels, weight = table.labels, table.weight
    request, kept, weights, found, encoded = weigh_rows(
        request, table.y[train], None if weight is None else weight[train]
    )
    _check_classes(labels, found)
    train = train[kept]
    loss = loss_of(request, labels)
    starts = (None, None) if table.start is None else (table.start[:, train], table.start[:, test])
    rows = Rows(train, encoded, weights, starts[0])
    reader, bins = _with_views(request, table, labels, rows)
    plan = make_plan(request, reader, labels, loss, Units.of(labels, encoded), True, lambda parts: "")
    at_once, n_threads = divided_threads(request, loss, n_folds * plan.n_members)
    plan = plan._replace(members_at_once=at_once, n_threads=n_threads)
    of_test = None if weight is None else weight[test].astype(np.float64)
    if of_test is not None and not of_test.any():
        raise ValueError("sample_weight: all test rows have weight zero; use other folds.")
    rows = rows.followed_by(
        RowSet(VALIDATION, len(test), of_test), test, labels.encode_validation(table.y[test], len(test)), starts[1]
    )

    def member(number: int) -> Member:
        n_train = len(train)
        f0, objective = objective_of(request, plan, labels, rows, RingPart(n_train))
        learner = learner_of(request, plan, reader, labels, objective, number)
        residual = start_residual(objective)
        if isinstance(learner, TreeLearner) and bins is not None:
            fitter: Fitter[Any] = bins.bind(learner, rows.X, n_train, objective.train_weights, residual)
        else:
            fitter = learner.bind(table.X[rows.X], n_train, objective.train_weights, residual)
        return Member(f0, objective, learner, fitter, plan.seed_of(number), None)

    members = make_members(plan, member, [0] * plan.n_members)  # all have the same rows
    return Run(plan, reader, labels, members, rows.watched)


def _with_views(request: Request, table: _Table, labels: Labels, rows: Rows) -> tuple[TableReader, SharedBins | None]:
    """The reader of a fold, whose training rows choose crosses, and the bins of all rows."""
    crosses = given_crosses(request.settings, table.reader, labels, table.X)
    if needs_audition(request, table.reader, labels, table.X, rows.n):
        sample = audition_rows(labels, rows, rows.n)
        crosses = found_crosses(request, table.reader, labels, replace(sample, X=table.X[sample.X]))
    if not crosses:
        return table.reader, table.bins
    return table.reader.with_crosses(crosses), _bins(request, with_crosses(table.X, crosses), table.used, table.weights)


def _bins(request: Request, X: Any, used: NDArray[np.intp], weights: Weights | None) -> SharedBins:
    return SharedBins(X, used, request.settings.max_bins, weights, request.n_threads)


def _checked_split(number: int, n_rows: int, train: ArrayLike, test: ArrayLike) -> Split:
    """The training and test rows of a fold, which may be given as masks."""
    found = []
    for name, given in (("training", train), ("test", test)):
        rows = np.asarray(given)
        try:
            found.append(np.arange(n_rows)[rows if rows.size > 0 else rows.astype(np.intp)])
        except IndexError as error:
            raise ValueError(f"cv, fold {number}: rows must be from 0 to {n_rows - 1}; {error}.") from error
        if len(found[-1]) == 0:
            raise ValueError(f"cv, fold {number} has no {name} rows; use fewer folds or another splitter.")
    return found[0], found[1]


def _check_classes(labels: Labels, found: Labels) -> None:
    """Raise ValueError if the training rows of a fold lack a class."""
    if not isinstance(labels, Classes) or not isinstance(found, Classes):
        return
    lacking = sorted(set(labels.classes.tolist()) - set(found.classes.tolist()))
    if lacking:
        raise ValueError(
            f"the training rows have no row of class {', '.join(map(repr, lacking))}, which cannot be learned; use "
            "fewer folds, a stratified splitter, or drop rare classes."
        )
