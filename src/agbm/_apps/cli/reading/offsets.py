"""Columns with offsets: raw scores that rows start from, or exposures, whose logarithms are such scores."""

from __future__ import annotations

import argparse
from collections.abc import MutableMapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._base.sums import Array
from ...._base.types import AnyArray
from ...._estimators.base import BaseAGBM
from ...._losses import log, named_loss, traits_of
from .files import DataFile, as_numbers


class OffsetColumn(NamedTuple):
    """A column with offsets, or with exposures. `kind` is the option that names it and the note in the model file."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"--{self.kind} {self.name}"

    def scores(self, file: DataFile) -> Array:
        """Return the offsets of all rows of a file; raises ValueError for missing and invalid ones."""
        values = as_numbers(file.vector(self.name)[0], f"--{self.kind}", self.name)
        if self.kind == "exposure":
            self._check(
                values, np.isfinite(values) & (values > 0.0), "positive numbers", "missing, infinite or not positive"
            )
            return log(values)
        self._check(values, np.isfinite(values), "finite numbers", "missing or infinite")
        return values

    def _check(self, values: Array, valid: NDArray[np.bool_], allowed: str, otherwise: str) -> None:
        invalid = int(np.sum(~valid))
        if invalid:
            raise ValueError(
                f"{self}: values must be {allowed}, but {invalid:,} of {len(values):,} are {otherwise}; remove "
                "these rows."
            )

    def check_loss(self, loss: object) -> None:
        """Raise ValueError if a loss, or the loss of a name, has no log link and the column has exposures."""
        if self.kind == "exposure" and not _has_log_link(loss):
            shown = loss if isinstance(loss, str) else type(loss).__name__
            raise ValueError(
                f"{self}: exposures need a loss with a log link, but the loss is {shown}; use --set loss=poisson, "
                "gamma or tweedie:1.5, or --offset with a column of raw scores."
            )


def _has_log_link(loss: object) -> bool:
    try:
        return traits_of(named_loss("regression", loss) if isinstance(loss, str) else loss).prediction == "exp"
    except ValueError:  # a loss of classification, or an invalid name, which fit rejects
        return False


def offset_column(arguments: argparse.Namespace) -> OffsetColumn | None:
    """Return the column that --offset or --exposure names."""
    for kind in ("offset", "exposure"):
        name = getattr(arguments, kind)
        if name is not None:
            return OffsetColumn(kind, name)
    return None


def noted_column(model: BaseAGBM) -> OffsetColumn | None:
    """Return the column that the notes of a model name."""
    for kind in ("offset", "exposure"):
        if kind in model.notes_:
            return OffsetColumn(kind, model.notes_[kind])
    return None


def note_column(column: OffsetColumn | None, notes: MutableMapping[str, str]) -> None:
    """Add the note on the column with offsets, so that predictions use it."""
    if column is not None:
        notes[column.kind] = column.name


def offsets_in(file: DataFile, column: OffsetColumn | None, otherwise: str) -> Array | None:
    """Return the offsets of a file for a model; `otherwise` says what to do if the file has no such column."""
    if column is None:
        return None
    if file.format == "svmlight":
        raise ValueError(f"{column}: svmlight files have no column names; {otherwise}.")
    known = [other.name for other in file.columns]
    if column.name not in known:
        raise ValueError(
            f"{file.name!r} lacks the column {column.name!r} with the {column.kind} of the model; {otherwise}. Its "
            f"columns are {known[:20]}."
        )
    return column.scores(file)


def of_rows(offsets: Array | None, rows: AnyArray | slice) -> Array | None:
    """Return the offsets of some rows, if there are any."""
    return None if offsets is None else offsets[rows]
