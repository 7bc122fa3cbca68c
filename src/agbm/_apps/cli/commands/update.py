"""`agbm update`: change a model with the rows of a file, and show the effect on held-out rows."""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...._base.sums import Array
from ...._data.batches import Batches
from ...._estimators.loading import load
from ...._fit.progress import readable
from ...._lifecycle.update import MODES
from ...evaluation.metrics import Metric, paired_difference
from ...evaluation.tasks import Task, task_of
from ..model import NEEDED, open_labelled
from ..output import plain, show, show_json, show_table, speaks, table_width, terminal_width
from ..paths import check_files, save, written
from ..reading.data import Model, rows_of, take
from ..reading.files import DataFile, available_memory
from ..reading.labels import labels_in
from ..reading.offsets import noted_column, of_rows, offsets_in
from ..reading.units import UnitColumn, UnitValues, noted_unit, unit_column
from ..shared_options import check_form, form_of
from ..status import status


def run(arguments: argparse.Namespace) -> None:
    """Update the model in one mode, or compare all modes, and print the metrics of the held-out rows."""
    _check(arguments)
    model = load(arguments.model)
    target = arguments.target or model.notes_.get("target")
    if target is None:
        raise ValueError("--target is required: the model does not record its target; give the column with the labels.")
    with status(arguments):
        file, features = open_labelled(model, arguments.data, target, form_of(arguments))
        check_form(arguments, file.format)
        labelled = Labelled.of(model, file, features, target, unit_column(arguments) or noted_unit(model, file))
    rows, test = labelled.hold_out(arguments.test_fraction, arguments.seed)
    if speaks(arguments):
        print(f"Updating {arguments.model} with {file.name}")
        show(_rows_in_words(rows, test, labelled, arguments.test_fraction))
    model.set_params(n_jobs=arguments.jobs)
    modes = MODES if arguments.mode is None else (arguments.mode,)
    tried = [Tried.of("before", model, 0.0, labelled, test)]
    for mode in modes:
        began = time.perf_counter()
        changed = labelled.update(pickle.loads(pickle.dumps(model)), rows, mode, arguments)
        tried.append(Tried.of(mode, changed, time.perf_counter() - began, labelled, test))
    if arguments.out is not None:
        changed = tried[-1].model.set_params(n_jobs=None)
        changed.notes_.update(_notes(arguments, file, rows, test, tried[-1]))
        save(changed, arguments.out)
    _say(arguments, tried)


def _check(arguments: argparse.Namespace) -> None:
    """Raise errors that would otherwise occur after the training."""
    if not 0.0 <= arguments.test_fraction < 1.0:
        raise ValueError(f"--test-fraction must be at least 0 and below 1; got {arguments.test_fraction}.")
    if arguments.mode is None and arguments.out is not None:
        raise ValueError(f"--out {arguments.out} needs --mode: without it, all modes are compared and none is saved.")
    if arguments.mode is not None and arguments.out is None:
        raise ValueError(f"--mode {arguments.mode} needs --out, the file for the updated model.")
    if arguments.mode is None and arguments.test_fraction == 0.0:
        raise ValueError("--test-fraction 0 leaves no rows to compare the modes on; use --mode, or a larger share.")
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})


@dataclass(frozen=True, eq=False)
class Labelled:
    """The rows of a file with a target, for a model; rows without a label are left out."""

    file: DataFile
    features: list[str]
    y: NDArray[Any]
    """The labels of all rows."""
    present: NDArray[np.intp]
    """The rows that have a label."""
    task: Task
    offset: Array | None
    unit: UnitValues | None

    @classmethod
    def of(cls, model: Model, file: DataFile, features: list[str], target: str, unit: UnitColumn | None) -> Labelled:
        """The labelled rows of a file; `unit` has their groups or times."""
        y, absent = labels_in(model, file, target)
        offset = offsets_in(file, noted_column(model), NEEDED)
        units = None if unit is None else unit.read(file)
        return cls(file, features, y, np.flatnonzero(~absent), task_of(model), offset, units)

    def hold_out(self, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The remaining rows, and a share of the rows: random ones, whole groups, or the last ones."""
        keyed = None if self.unit is None else self.unit.keyed(self.present)
        remaining, held_out = self.task.hold_out(self.y[self.present], share, seed, keyed)
        return self.present[remaining], self.present[held_out]

    def update(self, model: Model, rows: NDArray[np.intp], mode: str, arguments: argparse.Namespace) -> Model:
        """Update a model with some rows; the result is the same whether or not the table is in memory."""
        options: dict[str, Any] = {"mode": mode}
        if mode in ("trees", "all"):
            options["max_iter"] = arguments.max_iter
            options |= {} if self.unit is None else self.unit.argument(rows)
        else:
            options["old_weight"] = arguments.old_weight
        if not self._fits:
            batches = Batches(lambda: ((X, self.y[numbers]) for X, numbers in self.pieces(rows)))
            return model.update(batches, offset=of_rows(self.offset, rows), **options)
        offset = of_rows(self.offset, rows)
        self.task.update(model, take(self._all, rows), self.y[rows], offset=offset, **options)
        return model

    def evaluate(self, model: Model, rows: NDArray[np.intp]) -> tuple[list[Metric], Array]:
        """The metrics of some rows, and the loss of each."""
        if not len(rows):
            return [], np.zeros(0)
        task, pieces = self.task, self.pieces(rows)
        found = np.concatenate([task.predict(model, X, of_rows(self.offset, part)) for X, part in pieces])
        return task.evaluate(self.y[rows], found)

    @cached_property
    def _fits(self) -> bool:
        return self.file.bytes_in_memory(len(self.features)) <= available_memory() // 2

    @cached_property
    def _all(self) -> Any:
        return self.file.table(self.features)

    def pieces(self, rows: NDArray[np.intp]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Batches of some rows in ascending order, and the numbers of these rows."""
        return rows_of([self._all] if self._fits else self.file.pieces(self.features), rows)


@dataclass(frozen=True, eq=False)
class Tried:
    """A model before or after an update, with its results on the held-out rows."""

    name: str
    model: Model
    seconds: float
    metrics: Sequence[Metric]
    losses: Array

    @classmethod
    def of(cls, name: str, model: Model, seconds: float, labelled: Labelled, test: NDArray[np.intp]) -> Tried:
        """Evaluate a model."""
        return cls(name, model, seconds, *labelled.evaluate(model, test))

    def change(self, before: Tried) -> Metric | None:
        """The difference in the mean loss of the held-out rows; None if there are none."""
        return None if before is self or not self.metrics else paired_difference("", self.losses, before.losses)


def _rows_in_words(rows: NDArray[np.intp], test: NDArray[np.intp], labelled: Labelled, share: float) -> dict[str, str]:
    how = "at random" if labelled.unit is None else f"by {labelled.unit.column.option} ({labelled.unit.column.name})"
    held_out = f"{len(test):,} held out {how} ({100 * share:g} %)" if len(test) else "none held out"
    return {"rows": f"{len(rows):,} for the update, {held_out}"}


def _notes(
    arguments: argparse.Namespace, file: DataFile, rows: NDArray[np.intp], test: NDArray[np.intp], tried: Tried
) -> dict[str, str]:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    notes = {
        "update": f"{arguments.command_line} ({when})",
        "update data": file.name,
        "update rows": f"{len(rows)} for the update, {len(test)} for testing, {file.n_rows} in the file",
    }
    if tried.metrics:  # those of the training data are about another model
        notes["metrics"] = json.dumps(plain(list(tried.metrics)), ensure_ascii=False)
    return notes


def _say(arguments: argparse.Namespace, tried: Sequence[Tried]) -> None:
    before = tried[0]
    if arguments.json:
        found = [
            {"mode": one.name, "trees": one.model.n_trees_, "seconds": one.seconds, "metrics": list(one.metrics)}
            | {"change": one.change(before)}
            for one in tried
        ]
        out = None if arguments.out is None else str(arguments.out)
        show_json({"model": arguments.model, "out": out, "models": found, "command": arguments.command_line})
        return
    header, rows = _table(tried)
    if table_width(header, rows) > terminal_width():  # seconds matter least
        header, rows = header[:-1], [row[:-1] for row in rows]
    show_table(header, rows)
    if arguments.out is not None:
        show({"saved to": written(arguments.out)})


def _table(tried: Sequence[Tried]) -> tuple[list[str], list[list[str]]]:
    """The metrics of the models, and how much their losses differ from that of the first one."""
    before = tried[0]
    names = [metric.name for metric in before.metrics]
    loss = task_of(before.model).loss
    rows = []
    for one in tried:
        change = one.change(before)
        values = [readable(metric.value) for metric in one.metrics] + (
            ["" if change is None else str(change)] if names else []
        )
        seconds = "" if one is before else readable(one.seconds, 3)
        rows.append([one.name, *values, f"{one.model.n_trees_:,}", seconds])
    return ["model", *names, *([f"change of {loss}"] if names else []), "trees", "seconds"], rows
