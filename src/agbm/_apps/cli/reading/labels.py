"""The labels of commands: one column of a file, or two for rankings and survival analysis."""

from __future__ import annotations

import argparse
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._estimators.base import BaseAGBM
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.ranker import AGBMRanker
from ...._estimators.survival import AGBMSurvival
from .files import DataFile, as_numbers


class SecondColumn(NamedTuple):
    """The column beside the target. `kind` is the option that names it and the note in the model file."""

    kind: str
    """"group": the queries of rankings; "event": whether the target is the time of an event."""
    name: str

    def __str__(self) -> str:
        return f"--{self.kind} {self.name}"

    def labels(self, file: DataFile, option: str, target: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the labels (row, 2) of all rows, and which rows have none; `option` is that of the target."""
        values, absent = file.vector(target)
        numbers = as_numbers(values, option, target)
        second, missing = file.vector(self.name)
        if self.kind == "group":
            if (missing & ~absent).any():
                raise ValueError(f"{self}: the query of {int(missing.sum()):,} rows is missing; remove these rows.")
            found = _numbered(second, missing)
        else:
            found, absent = self._events(second, missing), absent | missing
        return np.column_stack([np.where(absent, 0.0, numbers), np.where(absent, 0.0, found)]), absent

    def _events(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
        events = np.where(missing, 0.0, as_numbers(values, f"--{self.kind}", self.name))
        others = np.setdiff1d(events, [0.0, 1.0])
        if len(others):
            raise ValueError(
                f"{self}: the column must contain 1 for an event and 0 for a censored time (or true and false); got "
                f"{others[0]:g}."
            )
        return events


def _numbered(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the number of each distinct value."""
    if missing.any():
        values = np.where(missing, values[~missing][0], values) if not missing.all() else np.zeros(len(values))
    return np.unique(values, return_inverse=True)[1].ravel().astype(np.float64)


def second_column(arguments: argparse.Namespace) -> SecondColumn | None:
    """Return the column that --group or --event names; raises ValueError for options that do not go together."""
    if arguments.group is not None and (arguments.time is not None or arguments.event is not None):
        raise ValueError(f"--group {arguments.group}: rankings have no --time and --event; omit one or the other.")
    if (arguments.time is None) != (arguments.event is None):
        given, other = ("time", "event") if arguments.event is None else ("event", "time")
        raise ValueError(f"--{given} {getattr(arguments, given)} needs --{other}: survival analysis has both columns.")
    if arguments.time is not None and arguments.target is not None:
        raise ValueError(
            f"--target {arguments.target}: with --time and --event, the time is the target; omit --target."
        )
    found = "group" if arguments.group is not None else "event" if arguments.event is not None else None
    if found is not None and arguments.task is not None:
        raise ValueError(f"--task {arguments.task} cannot be combined with --{found}; omit one of them.")
    return None if found is None else SecondColumn(found, getattr(arguments, found))


def note_second(column: SecondColumn | None, notes: MutableMapping[str, str]) -> None:
    """Add the note on the second column, so that the model can be evaluated on other files."""
    if column is not None:
        notes[column.kind] = column.name


def noted_second(model: BaseAGBM) -> SecondColumn | None:
    """Return the second column of the labels of a model; None if these have one column."""
    kind = "group" if isinstance(model, AGBMRanker) else "event" if isinstance(model, AGBMSurvival) else None
    if kind is None:
        return None
    if kind not in model.notes_:
        what = "queries" if kind == "group" else "events"
        raise ValueError(
            f"the model does not record the column with its {what}, as models of agbm train do; set "
            f"model.notes_[{kind!r}] to its name before model.save."
        )
    return SecondColumn(kind, model.notes_[kind])


def labels_in(model: BaseAGBM, file: DataFile, target: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels of all rows of a file for a model, and which rows have none; raises ValueError if all are so.

    Labels of rows without one are arbitrary.
    """
    column = noted_second(model)
    if column is not None:
        y, absent = column.labels(file, "--target", target)
    else:
        y, absent = file.vector(target)
    if absent.all():
        raise ValueError(
            f"{file.name!r}: all values of the target {target!r} are missing; the model cannot be evaluated."
        )
    if column is None and not isinstance(model, AGBMClassifier):
        y = as_numbers(y, "--target", target)
    elif column is None and model.classes_.dtype.kind == "U":
        y = np.where(absent, model.classes_[0], y).astype(str)
    return y, absent


def label_types(model: BaseAGBM, target: str) -> tuple[list[str], list[str]]:
    """Return the columns of labels to read as text, and those to read as numbers."""
    column = noted_second(model)
    if column is not None:
        return [], [target] if column.kind == "group" else [target, column.name]
    kind = model.classes_.dtype.kind if isinstance(model, AGBMClassifier) else "f"
    return [target] if kind in "UO" else [], [target] if kind in "iuf" else []
