"""Views: the crosses of columns that trees see as further features; see docs/design.md.

With "auto", two short runs on at most AUDITION_ROWS rows decide. The first has no crosses, and shows which columns
matter. The second has all crosses of these, and shows which crosses matter. How much lower its loss on held-out rows is
decides which members of the model see these. All this depends on nothing but the rows, so that models have the same
bits wherever the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base.types import AnyArray
from .._base.weights import joined
from .._core.methods import METHODS
from .._data.blocks import UNUSED, Block, RowsHere
from .._data.crosses import SIGNS, Cross, candidates, with_crosses
from .._data.hold_out import held_out_rows
from .._data.reader import TableReader
from .._data.rows import Rows
from .._data.tables import position_of
from .._labels.base import Labels
from .._model.settings import Settings
from .._tree import Forest
from .._tree.forest import gain_by_feature
from . import auto
from .constraints import monotone_outputs
from .planning import Request, Units, loss_of, make_plan
from .run import Run
from .table_members import members_of_table
from .train import follow, members_of

AUDITION_ROWS = 10_000
HELD_OUT = 0.2
ITERATIONS = 10
COLUMNS = 8
"""Crosses are those of this many columns."""
KEPT = 16
FOR_ALL = 0.95
"""All members see the crosses if the loss on held-out rows is less than this part of that without them.

More iterations than a short run has would tell more, but not enough for their time: some crosses only make the first
iterations better. Members that see none cost little where crosses help, and the model gains by the difference.
"""
FOR_SOME = 0.998
"""Some members see them if it is less than this part."""


def given_crosses(settings: Settings, reader: TableReader, labels: Labels, X: Any) -> list[Cross]:
    """The crosses of columns of X that the parameter `views` lists."""
    views = settings.views
    if views is None or isinstance(views, str):
        return []
    where, crosses = f"views={views!r}", []
    if issparse(X) and len(views) > 0:
        raise ValueError(f"{where} needs a dense table, but X is sparse; pass X.toarray(), or use views=None.")
    for entry in views:
        if isinstance(entry, Cross):  # from a trial
            crosses.append(entry)
            continue
        if not isinstance(entry, (tuple, list)) or len(entry) != 3 or entry[1] not in SIGNS:
            raise ValueError(
                f"{where}: {entry!r} must be (column, sign, column) with the sign '+', '-' or '*', such as "
                "('width', '*', 'height')."
            )
        left, right = (position_of(entry[i], reader.names, reader.n_columns, where) for i in (0, 2))
        crosses.append(Cross(left, entry[1], right))
    used = {column for cross in crosses for column in (cross.left, cross.right)}
    others = sorted(used.difference(reader.numeric))
    if others:
        raise ValueError(f"{where}: columns {others} are categories or dates; crosses need numbers.")
    constrained = sorted(used.difference(_crossable(settings, reader, labels)))
    if constrained:
        raise ValueError(
            f"{where}: columns {constrained} have constraints, which their crosses would violate; use others, or no "
            "constraints for them."
        )
    return crosses


def needs_audition(request: Request, reader: TableReader, labels: Labels, X: Any, n_rows: int) -> bool:
    """Whether short runs have to find the crosses of a fit; X has its columns. Those of sparse tables are too many."""
    settings = request.settings
    return (
        settings.views == "auto"
        and not issparse(X)
        and auto.tries_crosses(settings.method, loss_of(request, labels), n_rows)
        and len(_crossable(settings, reader, labels)) > 1
    )


def audition_rows(labels: Labels, rows: Rows, n_rows: int, first: int = 0) -> Rows:
    """The rows of the short runs, among the training rows here, of which the first has the number `first`.

    There are n_rows in all processes. Classes have about their shares.
    """
    chosen, y = np.arange(rows.n_given), rows.y[..., : rows.n_given]
    if n_rows > AUDITION_ROWS:
        drawn = held_out_rows(len(chosen), AUDITION_ROWS / n_rows, 1, labels.strata(y), 0, None, first)
        chosen = np.flatnonzero(drawn.rows(0))
    return Rows(
        rows.X[chosen],
        y[..., chosen],
        None if rows.weights is None else rows.weights[chosen],
        None if rows.start is None else rows.start[..., chosen],
        unit=None if rows.unit is None else rows.unit[chosen],
    )


def take_audition_rows(here: RowsHere, labels: Labels, n_rows: int) -> tuple[RowsHere, Rows]:
    """A step: the same for the rows of blocks, whose features are not known yet."""
    rows = audition_rows(labels, here.rows, n_rows, here.first)
    return replace(here, rows=rows, n_train=rows.n), rows


def read_audition_rows(block: Block, places: NDArray[np.uint32], reader: TableReader) -> AnyArray:
    """A pass: the features of the rows of a block that have a place."""
    used = places != UNUSED
    if not used.any():
        return np.empty((0, reader.n_features))
    X = reader.numbers(block.X)[used]
    return np.asarray(X.toarray() if issparse(X) else X)


def joined_rows(parts: Sequence[Rows], X: AnyArray) -> Rows:
    """Rows of several processes with their features."""
    weights = [part.weights for part in parts if part.weights is not None]
    starts = [part.start for part in parts if part.start is not None]
    units = [part.unit for part in parts if part.unit is not None]
    return Rows(
        X,
        np.concatenate([part.y for part in parts], axis=-1),
        joined(weights) if weights else None,
        np.concatenate(starts, axis=-1) if starts else None,
        unit=np.concatenate(units) if units else None,
    )


def found_crosses(request: Request, reader: TableReader, labels: Labels, rows: Rows) -> list[Cross]:
    """The crosses that make held-out rows of a short run better; X of the rows has no crosses."""
    n_members = auto.n_members(request.settings.n_members, request.settings.method, rows.n)
    request = replace(request, settings=_short(request.settings), seed=0, in_this_process=True)
    X = np.asarray(rows.X, dtype=np.float64)
    plain = _short_run(request, reader, labels, replace(rows, X=X))
    columns = [f for f in _crossable(request.settings, reader, labels) if plain.gains[f] > 0.0]
    columns = sorted(sorted(columns, key=lambda f: -plain.gains[f])[:COLUMNS])
    crosses = candidates(X, columns)
    crossed = _short_run(request, reader.with_crosses(crosses), labels, replace(rows, X=with_crosses(X, crosses)))
    for_all = crossed.loss < FOR_ALL * plain.loss
    if not for_all and (n_members == 1 or not crossed.loss < FOR_SOME * plain.loss):
        return []
    gains = crossed.gains[reader.n_features :]
    best = [i for i in np.argsort(-gains, kind="stable")[:KEPT] if gains[i] > 0.0]
    return [crosses[i]._replace(for_all=for_all) for i in best]


class _ShortRun(NamedTuple):
    """What is known after a short run."""

    loss: float
    """The lowest one on held-out rows."""
    gains: NDArray[np.float64]
    """Of each feature, in all splits."""


def _short(settings: Settings) -> Settings:
    """Settings for one member on the rows of an audition."""
    return replace(
        settings, views=None, n_members=1, max_iter=ITERATIONS, n_iter_no_change=ITERATIONS, early_stopping=True,
        learning_rate=auto.LEARNING_RATE, validation_fraction=HELD_OUT, callbacks=None, warm_start=False, verbose=0,
        scoring=None, device="cpu", method=METHODS["fading"],
    )  # fmt: skip


def _short_run(request: Request, reader: TableReader, labels: Labels, rows: Rows) -> _ShortRun:
    plan = make_plan(
        request, reader, labels, loss_of(request, labels), Units.of(labels, rows.y), False, lambda parts: ""
    )
    run = Run(plan, reader, labels, members_of_table(request, reader, labels, rows, plan), ())
    trained = follow(run, request.settings, members_of(run, request.settings))
    gains = np.zeros(reader.n_features)
    forests = [model for model in trained.ensembles[0].models if isinstance(model, Forest)]
    if forests:
        features, of_feature = gain_by_feature(forests, [1.0] * len(forests))
        gains[features] = of_feature
    return _ShortRun(float(np.min(trained.history["validation_loss"])), gains)


def _crossable(settings: Settings, reader: TableReader, labels: Labels) -> list[int]:
    """The columns of numbers without constraints, which crosses of them would violate."""
    if settings.interaction_cst is not None:
        return []
    constrained = np.asarray(monotone_outputs(settings.monotonic_cst, reader.columns, labels).any(axis=0))
    return [f for f in reader.numeric if not constrained[f]]
