"""Descriptions of a learning task for the terminal, for reports and for the notes in model files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from ..._data.derivation import DateColumn
from ..._fit.progress import readable
from .. import report as report
from ..evaluation.tasks import Ranking, Regression, Survival
from .model import DECIMAL_COMMAS, FIRST_INDEX, FORM, note_of_form
from .output import listed
from .reading.data import Question
from .reading.labels import note_second
from .reading.offsets import note_column
from .reading.units import note_unit


def title(question: Question) -> str:
    """Return the file name with the numbers of rows and columns."""
    return f"{question.file.name}: {question.file.n_rows:,} rows, {len(question.file.columns):,} columns"


def describe(question: Question) -> dict[str, str]:
    """Return the lines that `agbm train` prints about the target and the features."""
    numbers = [name for name in question.features if name not in {*question.categorical, *question.dates}]
    facts = {"target": f"{question.target}: {_labels_in_words(question)}"}
    facts["task"] = f"{question.task.name}: {question.reason}"
    facts["numeric"] = f"{len(numbers):,}: {listed(numbers)}" if numbers else "none"
    if question.categorical:
        facts["categorical"] = f"{len(question.categorical):,}: {listed(question.categorical)}"
    if question.dates:
        facts["dates"] = "; ".join(_date_in_words(name, column) for name, column in question.dates.items())
    unread = {name: column.unread for name, column in question.dates.items()} | question.numbers
    if any(unread.values()):
        facts["missing text"] = unread_in_words(unread)
    if question.offset_column is not None:
        facts[question.offset_column.kind] = question.offset_column.name
    if question.identifiers:
        facts["left out"] = _identifiers_in_words(question.identifiers)
    without = question.file.n_rows - len(question.rows)
    if without:
        facts["dropped"] = f"{without:,} rows with a missing target"
    if question.streams:
        facts["memory"] = "the table is read in batches, in several passes"
    return facts


def _date_in_words(name: str, column: DateColumn) -> str:
    """Return the features that trees derive from a column of dates."""
    form = f" ({column.form})" if column.form else ""
    return f"{name}{form}: {', '.join(['elapsed time', *column.parts])}"


def unread_in_words(unread: Mapping[str, Sequence[str]]) -> str:
    """Return the columns with text that counts as missing, with examples."""
    return "; ".join(f"{name} ({listed(list(map(repr, texts)))})" for name, texts in unread.items() if texts)


def _identifiers_in_words(found: Mapping[str, str]) -> str:
    """Return the identifiers by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.items():
        by_reason.setdefault(reason, []).append(name or "the column without a name")
    return "; ".join(f"{listed(names)} ({reason})" for reason, names in by_reason.items())


def in_short(question: Question) -> dict[str, str]:
    """Return a shorter description, for a report that lists the columns separately."""
    return {
        "data": question.file.name,
        "target": question.target,
        "task": question.task.name,
        "labels": _labels_in_words(question),
        "columns": f"{len(question.features):,}, {len(question.categorical):,} of them categorical"
        + (f", {len(question.dates):,} dates" if question.dates else ""),
    }


def describe_columns(question: Question) -> list[report.Column]:
    """Return the columns for a report; missing and distinct values are counted only if the table is in memory."""
    if not question.streams:
        return report.describe_columns(question.table(question.rows), question.categorical or "from_dtype")
    kinds = dict.fromkeys(question.categorical, "category") | dict.fromkeys(question.dates, "date")
    return [report.Column(name, kinds.get(name, "number")) for name in question.features]


def _labels_in_words(question: Question) -> str:
    y = question.y[question.rows]
    if isinstance(question.task, Regression):
        low, high, mean = (readable(float(value), 6) for value in (y.min(), y.max(), y.mean()))
        return f"values from {low} to {high}, mean {mean}"
    if isinstance(question.task, Ranking):
        n_queries = len(np.unique(y[:, 1]))
        low, high = (readable(float(value), 6) for value in (y[:, 0].min(), y[:, 0].max()))
        return f"relevances from {low} to {high}; {n_queries:,} queries of {len(y) / n_queries:.3g} rows on average"
    if isinstance(question.task, Survival):
        low, high = (readable(float(value), 6) for value in (y[:, 0].min(), y[:, 0].max()))
        return f"times from {low} to {high}; {100 * y[:, 1].mean():.3g} % are events, the others are censored"
    classes, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shares = [f"{classes[i]} {100 * counts[i] / len(y):.3g} %" for i in order]
    return f"{len(classes):,} classes: {listed(shares, 6)}"


def notes_of(question: Question, rows: str, command: str) -> dict[str, str]:
    """Return notes for the model file on how the model was trained."""
    notes = {
        "command": command,
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": question.file.name,
        "target": question.target,
        "rows": rows,
    }
    form = note_of_form(question.file.form)
    if form:
        notes[FORM] = form
    if question.file.first_index is not None:
        notes[FIRST_INDEX] = str(question.file.first_index)
    with_commas = [column.name for column in question.file.columns if column.decimal_commas]
    if with_commas:
        notes[DECIMAL_COMMAS] = json.dumps(with_commas, ensure_ascii=False)
    note_column(question.offset_column, notes)
    note_second(question.second, notes)
    note_unit(None if question.unit is None else question.unit.column, notes)
    return notes
