"""Preparation of runs on tables in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .._base.identity import identity_of
from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._base.weights import check_sample_weight
from .._core.ring import RingPart
from .._data.blocks import (
    dense,
    naming,
)
from .._data.derivation import Derivation, has_more_than_numbers, look
from .._data.digest import digest_of_table
from .._data.offsets import added, check_both
from .._data.reader import TableReader
from .._data.rows import VALIDATION, Given, RemoteMatrix, Rows, RowSet, plain
from .._data.tables import Categories, as_table, categorical_mask, column_names, named_mask
from .._labels.base import Labels, StartScores
from .planning import Request, Units, learner_of, loss_of, make_plan, objective_of, ring_of, weigh_rows
from .run import Member, Run, make_members
from .sources import LocalSource, RowSource


def prepared_table(
    request: Request, source: RowSource, given: Given, validation: Given | None, watched: Mapping[str, Given]
) -> Run:
    """A run on a table."""
    X = given.X
    request = request.for_labels(dense(given.y))
    reader, checked, y, sample_weight = check_table(request, X, given.y, given.weight)
    request, kept, weights, labels, encoded = weigh_rows(request, y, sample_weight)
    loss = loss_of(request, labels)
    start_scores = StartScores(request.settings.init, labels, loss)
    start = added(start_scores(X), labels.encode_offset(given.offset, len(y)))
    if encoded.shape[-1] < len(y):
        checked, start = checked[kept], None if start is None else start[:, kept]
    rows = Rows(plain(checked), encoded, weights, start)
    categorical = np.array(sorted(reader.categories.of), dtype=np.intp)  # their codes look like numbers

    def identity(parts: dict[str, str]) -> str:
        return identity_of(parts, [categorical, *rows.arrays()])

    plan = make_plan(request, reader, labels, loss, Units.of(labels, rows.y), validation is not None, identity)
    n_given = rows.n
    others = watched if validation is None else {VALIDATION: validation, **watched}
    for name, more in others.items():
        name_of_offset = "offset_val" if name == VALIDATION else f"offset of watch[{name!r}]"
        check_both(given.offset is not None, more.offset is not None, name_of_offset)
        rows = rows.followed_by(*_rows_of(name, more, reader, labels, start_scores))

    ring = ring_of(request, plan, labels, rows.y[..., :n_given])
    parts = [RingPart(n_given)] * plan.n_members if ring is None else ring.parts
    on_ring = None if ring is None else replace(rows, X=None).on_ring(ring)
    here = cast(LocalSource, source)  # the rows of others are in blocks
    table = here.table(rows.X, n_given, rows.weights, ring)

    def member(number: int) -> Member:
        part, seed = parts[number], plan.seed_of(number)
        of_member = rows if on_ring is None else on_ring.of(part)
        f0, objective = objective_of(request, plan, labels, of_member, part.n_train)
        learner = learner_of(request, plan, reader, labels, objective, seed)
        bound, fitter = table.bind(learner, part, objective)
        return Member(f0, bound, learner, fitter, seed, plan.earlier_of(number))

    members = make_members(plan, member, parts)
    n_watched = sum(of.n for of in rows.watched)
    data = digest_of_table(rows, n_given, rows.n - n_watched, labels.n_outputs, request.n_threads)
    return Run(plan, reader, labels, members, rows.watched, data)


def check_table(
    request: Request, X: Table, y: Values, sample_weight: Values | None
) -> tuple[TableReader, Any, AnyArray, Any]:
    """The reader of the table, and the checked X, y and weights."""
    y = dense(y)
    request.kind.check(y)
    y, numeric = request.kind.exact(y), request.kind.numeric
    if request.known is not None:
        reader = request.known.reader
        checked, y = reader.numbers_and_labels(X, y, numeric)
    else:
        table, wanted = as_table(X), request.settings.categorical_features
        if isinstance(table, RemoteMatrix) and named_mask(table, wanted).any():
            X = table = np.asarray(table)  # the list of categories is made in this process
        weight = None
        if sample_weight is not None and has_more_than_numbers(table):
            weight = check_sample_weight(sample_weight, table)
        looks = [look(table, weight)]
        derivation = Derivation.of(looks, named_mask(table, wanted))
        derivation.warn_of_unread(looks, column_names(table))
        mask = derivation.others(categorical_mask(table, wanted))
        reader = TableReader.of_columns(request.settings.estimator, X).with_derivation(derivation)
        reader = reader.with_categories(Categories.learn(table, mask, weight))
        checked, y = reader.numbers_and_labels(X, y, numeric)
    return reader, checked, y, None if sample_weight is None else check_sample_weight(sample_weight, checked)


def _rows_of(
    name: str, given: Given, reader: TableReader, labels: Labels, start_scores: StartScores
) -> tuple[RowSet, Any, Array, Array | None]:
    """The features, encoded labels and init scores of validation rows, or of others that are only evaluated."""
    watched = name != VALIDATION
    with naming(f"watch[{name!r}]" if watched else "X_val"):
        numbers = reader.numbers(given.X)
        weight = None if given.weight is None else check_sample_weight(given.weight, numbers).astype(np.float64)
    with naming(f"watch[{name!r}]") if watched else nullcontext():  # these errors name y_val and offset_val
        y = labels.encode_validation(given.y, numbers.shape[0])
        if weight is not None:
            labels.check_weights(y.T, weight, "sample_weight" if watched else "sample_weight_val")
        offset = labels.encode_offset(given.offset, numbers.shape[0], "offset" if watched else "offset_val")
    return RowSet(name, numbers.shape[0], weight), numbers, y, added(start_scores(given.X), offset)
