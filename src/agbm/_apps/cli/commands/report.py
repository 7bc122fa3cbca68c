"""`agbm report`: write an HTML report about a model."""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...._core.methods import title_of
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.loading import load
from ... import report as report
from ...evaluation.metrics import Metric, Tried
from ...evaluation.tasks import task_of
from ..model import NEEDED, noted_metrics, open_labelled
from ..output import show_json
from ..paths import check_files, writing, written
from ..reading.data import Model, take
from ..reading.files import DataFile
from ..reading.labels import labels_in
from ..reading.offsets import noted_column, of_rows, offsets_in
from ..shared_options import check_form, form_of
from ..status import status


def run(arguments: argparse.Namespace) -> None:
    """Evaluate the model if there are data, and write the report."""
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})
    report.check_matplotlib()
    model = load(arguments.model)
    costs = _costs(model, arguments)
    metrics, test = noted_metrics(model), None
    if arguments.data is not None:
        target = arguments.target or model.notes_.get("target")
        if target is None:
            raise ValueError(
                "--target is required: the model does not record its target; give the column with the labels."
            )
        with status(arguments):
            file, features = open_labelled(model, arguments.data, target, form_of(arguments))
            check_form(arguments, file.format)
        test = predictions_in(model, file, features, target)
        metrics = task_of(model).evaluate(test.y, test.predicted)[0]
    elif arguments.target is not None:
        raise ValueError(
            f"--target {arguments.target}: there are no data to evaluate on; give DATA, or omit this option."
        )
    write_page(
        arguments.out,
        model,
        metrics,
        float(model.history_["seconds"][-1]),
        test=test,
        evaluated_on=arguments.data or "",
        costs=costs,
        shows_rows=not arguments.no_rows,
    )
    if arguments.json:
        show_json({"out": str(arguments.out), "metrics": metrics})
    else:
        print(written(arguments.out))


def _costs(model: Model, arguments: argparse.Namespace) -> tuple[float, float]:
    """Return the costs of a false positive and of a false negative."""
    if arguments.costs is None:
        return 1.0, 1.0
    false_positive, false_negative = arguments.costs
    given = f"--costs {false_positive:g} {false_negative:g}"
    if not (0.0 < false_positive < np.inf and 0.0 < false_negative < np.inf):
        raise ValueError(f"{given}: both costs must be positive numbers.")
    if arguments.data is None:
        raise ValueError(f"{given}: there are no data to evaluate on; give DATA, or omit this option.")
    if not isinstance(model, AGBMClassifier) or len(model.classes_) != 2:
        raise ValueError(f"{given}: the model must be a classifier with two classes; omit this option.")
    return false_positive, false_negative


def predictions_in(model: Model, file: DataFile, features: Sequence[str], target: str) -> report.Predictions:
    """Return the predictions of a model for the rows of a file whose target is not missing."""
    y, absent = labels_in(model, file, target)
    offset = of_rows(offsets_in(file, noted_column(model), NEEDED), ~absent)
    return report.predictions_of(model, _present(file, features, ~absent), y[~absent], offset)


def _present(file: DataFile, features: Sequence[str], present: NDArray[np.bool_]) -> Iterator[Any]:
    """Yield the rows of a file that are present, in batches."""
    begin = 0
    for piece in file.pieces(features):
        rows = np.flatnonzero(present[begin : begin + piece.shape[0]])
        begin += piece.shape[0]
        if len(rows):
            yield take(piece, rows)


def write_page(
    path: Path,
    model: Model,
    metrics: Sequence[Metric],
    seconds: float,
    columns: Sequence[report.Column] = (),
    *,
    test: report.Predictions | None = None,
    evaluated_on: str = "",
    costs: tuple[float, float] = (1.0, 1.0),
    shows_rows: bool = True,
) -> None:
    """Write a report about one model, with the notes on its training."""
    notes, name = model.notes_, title_of(model.method)
    task = task_of(model).name
    data = {"task": task} | {name: notes[name] for name in ("data", "target", "rows") if name in notes}
    if "rows" in data:
        data["rows"] = re.sub(r"\d+", lambda found: f"{int(found[0]):,}", data["rows"])
    if evaluated_on:
        data["evaluated on"] = evaluated_on if test is None else f"{evaluated_on}: {len(test.y):,} rows"
    write_findings(
        path,
        title=f"{notes.get('target', 'A model')}: {task} with {name}",
        command=notes.get("command", f"model.set_params(**{report.changed_parameters(model)!r}).fit(X, y)"),
        data=data,
        columns=columns,
        tried=[report.tried_from_model(name, model, metrics, seconds)],
        model=model,
        seed=str(model.get_params()["random_state"]),
        test=test,
        costs=costs,
        shows_rows=shows_rows,
    )


def write_findings(
    path: Path,
    *,
    title: str,
    command: str,
    data: Mapping[str, str],
    columns: Sequence[report.Column],
    tried: Sequence[Tried],
    model: Model | None,
    seed: str,
    test: report.Predictions | None = None,
    costs: tuple[float, float] = (1.0, 1.0),
    shows_rows: bool = True,
) -> None:
    """Write a report, adding the version, date, seed and machine."""
    facts = {
        "agbm": version("agbm"),
        "report written": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    loss = next((metric.name for one in tried for metric in one.metrics), "loss")  # the libraries minimise the first
    findings = report.Findings(
        title=title,
        command=command,
        facts=facts,
        data=data,
        columns=columns,
        tried=tried,
        model=model,
        test=test,
        loss=loss if model is None else report.loss_name(model),
        costs=costs,
        shows_rows=shows_rows,
    )
    with writing(path):
        report.write(findings, path)
