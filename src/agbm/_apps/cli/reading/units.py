"""Columns that say which rows are held out together: groups, or times, of which the later rows validate and test."""

from __future__ import annotations

import argparse
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._base.types import AnyArray
from ...._data.dates import likely_form, parse
from ...._data.units import Keys, Unit, keys_of
from ...._estimators.base import BaseAGBM
from ...evaluation.tasks import KeyedUnit
from .files import DataFile

Option = Literal["groups", "time-order"]
NOTES: dict[Option, str] = {"groups": "groups", "time-order": "time order"}
"""The notes in model files."""


class UnitColumn(NamedTuple):
    """The column of an option."""

    option: Option
    name: str

    def __str__(self) -> str:
        return f"--{self.option} {self.name}"

    @property
    def unit(self) -> Unit:
        """The argument of fit."""
        return "groups" if self.option == "groups" else "time"

    def read(self, file: DataFile) -> UnitValues:
        """The values of all rows of a file; raises ValueError for missing and unreadable ones."""
        values, absent = file.vector(self.name)
        if absent.any():
            raise ValueError(f"{self}: {int(absent.sum()):,} values are missing; every row needs one.")
        if self.unit == "time" and values.dtype.kind in "OU":
            values = self._dates(values)
        try:
            keys = keys_of(self.unit, values, len(values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self}: {error}") from error
        assert keys is not None
        return UnitValues(self, values, keys)

    def _dates(self, values: AnyArray) -> AnyArray:
        """Text as dates, if it has one of the known forms."""
        texts, places = np.unique(np.array([str(value) for value in values.tolist()]), return_inverse=True)
        dates = parse(texts.tolist(), likely_form(texts.tolist()))
        unread = np.flatnonzero(np.isnat(dates))
        if len(unread):
            raise ValueError(f"{self}: {str(texts[unread[0]])!r} is not a date of the form that most values have.")
        return dates[places]


@dataclass(frozen=True, eq=False)
class UnitValues:
    """The groups or times of all rows of a file."""

    column: UnitColumn
    values: AnyArray
    keys: Keys

    def argument(self, rows: NDArray[np.intp]) -> dict[str, Any]:
        """The argument of fit for some rows."""
        return {self.column.unit: self.values[rows]}

    def keyed(self, rows: NDArray[np.intp]) -> KeyedUnit:
        """What splits of some rows must not divide."""
        return KeyedUnit(self.column.unit, self.keys[rows])

    def __str__(self) -> str:
        noun = "groups" if self.column.unit == "groups" else "times, the last for testing"
        return f"{self.column.name}: {len(np.unique(self.keys)):,} {noun}"


def unit_column(arguments: argparse.Namespace) -> UnitColumn | None:
    """The column that --groups or --time-order names."""
    if arguments.groups is not None:
        return UnitColumn("groups", arguments.groups)
    return None if arguments.time_order is None else UnitColumn("time-order", arguments.time_order)


def note_unit(column: UnitColumn | None, notes: MutableMapping[str, str]) -> None:
    """Add the note on the column, so that updates and reports of the model use it."""
    if column is not None:
        notes[NOTES[column.option]] = column.name


def noted_unit(model: BaseAGBM, file: DataFile) -> UnitColumn | None:
    """The column that the notes of a model name, if a file has it."""
    known = [column.name for column in file.columns] if file.format != "svmlight" else []
    for option, note in NOTES.items():
        if model.notes_.get(note) in known:
            return UnitColumn(option, model.notes_[note])
    return None
