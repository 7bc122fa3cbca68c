"""Preparation of runs on tables in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .._base.identity import identity_of
from .._base.sums import Array
from .._base.types import AnyArray
from .._base.weights import check_sample_weight
from .._data.blocks import dense, naming
from .._data.crosses import CrossedTable
from .._data.derivation import Derivation, has_more_than_numbers, look
from .._data.digest import digest_of_table
from .._data.offsets import added, check_both
from .._data.profile import profile_of_table
from .._data.reader import TableReader
from .._data.rows import VALIDATION, Given, RemoteMatrix, Rows, RowSet, plain
from .._data.tables import Categories, as_table, categorical_mask, column_names, named_mask
from .._data.units import warn_of_copies
from .._labels.base import Labels, StartScores
from .planning import Request, Units, loss_of, make_plan, unit_of, weigh_rows
from .run import Run
from .sources import LocalSource, RowSource
from .table_members import members_of_table
from .views import audition_rows, found_crosses, given_crosses, needs_audition


def prepared_table(
    request: Request, source: RowSource, given: Given, validation: Given | None, watched: Mapping[str, Given]
) -> Run:
    """A run on a table."""
    request = request.for_labels(dense(given.y))
    reader, X, y, sample_weight = check_table(request, given)
    request, kept, weights, labels, encoded = weigh_rows(request, y, sample_weight)
    loss = loss_of(request, labels)
    start_scores = StartScores(request.settings.init, labels, loss)
    start = added(start_scores(given.X), labels.encode_offset(given.offset, len(y)))
    if encoded.shape[-1] < len(y):
        X, start = X[kept], None if start is None else start[:, kept]
    unit = unit_of(request, labels, given.unit, kept, encoded, len(y))
    rows = Rows(plain(X), encoded, weights, start, unit=unit)
    X = rows.X
    categorical = np.array(sorted(reader.categories.of), dtype=np.intp)  # their codes look like numbers

    def identity(parts: dict[str, str]) -> str:
        return identity_of(parts, [categorical, *rows.arrays()])

    reader, rows = _with_views(request, reader, labels, rows)
    plan = make_plan(request, reader, labels, loss, Units.of(labels, rows.y), validation is not None, identity)
    if plan.held_out and request.unit == "rows":
        warn_of_copies(X, rows.y, request.n_threads)
    n_given = rows.n
    others = watched if validation is None else {VALIDATION: validation, **watched}
    for name, more in others.items():
        name_of_offset = "offset_val" if name == VALIDATION else f"offset of watch[{name!r}]"
        check_both(given.offset is not None, more.offset is not None, name_of_offset)
        rows = rows.followed_by(*_rows_of(name, more, reader, labels, start_scores))

    here = cast(LocalSource, source)  # the rows of others are in blocks
    members = members_of_table(request, reader, labels, rows, plan, here)
    n_watched = sum(of.n for of in rows.watched)
    data = profile = None
    if not plan.is_trial:
        profile = profile_of_table(X, reader.n_columns, reader.categories)
        data = digest_of_table(rows, n_given, rows.n - n_watched, labels.n_outputs, request.n_threads)
    return Run(plan, reader, labels, members, rows.watched, data, request.unit, profile)


def _with_views(request: Request, reader: TableReader, labels: Labels, rows: Rows) -> tuple[TableReader, Rows]:
    """The reader and the rows with the crosses of a new model."""
    if request.known is not None:  # its crosses are there
        return reader, rows
    crosses = given_crosses(request.settings, reader, labels, rows.X)
    if needs_audition(request, reader, labels, rows.X, rows.n):
        crosses = found_crosses(request, reader, labels, audition_rows(labels, rows, rows.n))
    X = CrossedTable(rows.X, crosses) if crosses else rows.X
    return reader.with_crosses(crosses), replace(rows, X=X)


def check_table(request: Request, given: Given) -> tuple[TableReader, Any, AnyArray, Any]:
    """The reader of the table, and the checked X, y and weights; from here on, X is a matrix of numbers."""
    y = dense(given.y)
    request.kind.check(y)
    y = request.kind.exact(y)
    X, reader = (given.X, request.known.reader) if request.known is not None else _learned_reader(request, given)
    X, y = reader.numbers_and_labels(X, y, request.kind.numeric)
    return reader, X, y, None if given.weight is None else check_sample_weight(given.weight, X)


def _learned_reader(request: Request, given: Given) -> tuple[Any, TableReader]:
    """X, in the memory of this process if it has categories, and a reader of tables with its columns."""
    X, table, wanted = given.X, as_table(given.X), request.settings.categorical_features
    if isinstance(table, RemoteMatrix) and named_mask(table, wanted).any():
        X = table = np.asarray(table)  # the list of categories is made in this process
    weight = None
    if given.weight is not None and has_more_than_numbers(table):
        weight = check_sample_weight(given.weight, table)
    looks = [look(table, weight)]
    derivation = Derivation.of(looks, named_mask(table, wanted))
    derivation.warn_of_unread(looks, column_names(table))
    mask = derivation.others(categorical_mask(table, wanted))
    reader = TableReader.of_columns(request.settings.estimator, X).with_derivation(derivation)
    categories = Categories.learn(table, mask, weight)
    if categories.of:
        categories.warn_of_unique_text(table.shape[0], named_mask(table, wanted), column_names(table))
    return X, reader.with_categories(categories)


def _rows_of(
    name: str, given: Given, reader: TableReader, labels: Labels, start_scores: StartScores
) -> tuple[RowSet, Any, Array, Array | None]:
    """The features, encoded labels and init scores of validation rows, or of others that are only evaluated."""
    watched = name != VALIDATION
    with naming(f"watch[{name!r}]" if watched else "X_val"):
        X = reader.numbers(given.X)
        weight = None if given.weight is None else check_sample_weight(given.weight, X).astype(np.float64)
    with naming(f"watch[{name!r}]") if watched else nullcontext():  # these errors name y_val and offset_val
        y = labels.encode_validation(given.y, X.shape[0])
        if weight is not None:
            labels.check_weights(y.T, weight, "sample_weight" if watched else "sample_weight_val")
        offset = labels.encode_offset(given.offset, X.shape[0], "offset" if watched else "offset_val")
    return RowSet(name, X.shape[0], weight), X, y, added(start_scores(given.X), offset)
