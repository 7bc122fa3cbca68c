"""`agbm report`: write an HTML report about a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._estimators.classifier import AGBMClassifier
from ...._estimators.loading import load
from ...._fit.progress import counting
from ... import report as report
from ..model import NEEDED, noted_metrics, open_for, open_labelled
from ..output import show_json, speaks
from ..paths import check_files, writing, written
from ..reading.data import Model, check_column, take
from ..reading.files import DataFile
from ..reading.labels import labels_in
from ..reading.offsets import noted_column, of_rows, offsets_in
from ..reading.units import UnitColumn, noted_unit
from ..shared_options import check_form, form_of
from ..status import status


def run(arguments: argparse.Namespace) -> None:
    """Evaluate the model if there are data, and write the report."""
    check_files(
        reads={"MODEL": arguments.model, "DATA": arguments.data, "--training": arguments.training},
        writes={"--out": arguments.out},
    )
    report.check_matplotlib()
    model = load(arguments.model)
    costs = _costs(model, arguments)
    target = _target(model, arguments)
    rows, training = None, None
    if arguments.data is not None:
        with status(arguments):
            file, features = open_labelled(model, arguments.data, target, form_of(arguments))
            check_form(arguments, file.format)
            training = _training(model, arguments)
            rows = TestRows.of(model, file, features, target, arguments.groups)
    with progress(arguments) as update:
        update(0, report.USUAL_STEPS, "predictions")
        test = None if rows is None else report.predictions_of(model, *rows)
        findings = report.findings_about(
            model,
            metrics=noted_metrics(model),
            test=test,
            evaluated_on=arguments.data or "",
            positive=arguments.positive,
            costs=costs,
            training=training,
            shows_rows=not arguments.no_rows,
        )
        page = report.to_html(findings, update)
    with writing(arguments.out):
        report.write(page, arguments.out)
    if arguments.json:
        show_json({"out": str(arguments.out), **_facts(findings)})
    else:
        print(written(arguments.out))


def _target(model: Model, arguments: argparse.Namespace) -> str:
    """Return the column with the labels; empty without data, which options about test rows need."""
    if arguments.data is not None:
        target = arguments.target or model.notes_.get("target")
        if target is None:
            raise ValueError(
                "--target is required: the model does not record its target; give the column with the labels."
            )
        return str(target)
    for option in ("target", "training", "positive", "groups"):
        given = getattr(arguments, option)
        if given is not None:
            raise ValueError(f"--{option} {given}: there are no data to evaluate on; give DATA, or omit this option.")
    return ""


def _facts(findings: report.Findings) -> dict[str, Any]:
    drift = () if findings.drift is None else findings.drift.columns
    return {
        "positive": findings.data.get("positive class"),
        "metrics": findings.tried[0].metrics,
        "segments": [vars(one) for one in (() if findings.segments is None else findings.segments.found)],
        "drift": [
            {"column": one.column, "psi": one.psi, "chance": one.chance, "drift": one.size, "notes": one.notes}
            for one in drift
        ],
    }


def _training(model: Model, arguments: argparse.Namespace) -> NDArray[Any] | None:
    """Return the rows of the training file as numbers."""
    if arguments.training is None:
        return None
    file, features = open_for(model, arguments.training, form_of(arguments))
    return np.concatenate([report.numbers_of(model, piece) for piece in file.pieces(features)])


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


class TestRows(NamedTuple):
    """The rows of a file whose target is not missing."""

    tables: Iterator[Any]
    y: NDArray[Any]
    offset: NDArray[Any] | None
    groups: NDArray[Any] | None

    @classmethod
    def of(
        cls, model: Model, file: DataFile, features: Sequence[str], target: str, groups: str | None = None
    ) -> TestRows:
        """Those of an open file. Groups are those of a column, by default the one that the model was trained with."""
        y, absent = labels_in(model, file, target)
        offset = of_rows(offsets_in(file, noted_column(model), NEEDED), ~absent)
        return cls(_present(file, features, ~absent), y[~absent], offset, _groups(model, file, groups, ~absent))


def _groups(model: Model, file: DataFile, name: str | None, present: NDArray[np.bool_]) -> NDArray[Any] | None:
    """Return the group of each row that is present."""
    if not report.has_intervals(model):
        if name is not None:
            raise ValueError(f"--groups {name}: the model has no intervals, whose coverage would be shown by group.")
        return None
    if name is not None:
        check_column(name, "--groups", [column.name for column in file.columns])
    column = noted_unit(model, file) if name is None else UnitColumn("groups", name)
    return None if column is None or column.unit != "groups" else np.asarray(column.read(file).values[present])


def _present(file: DataFile, features: Sequence[str], present: NDArray[np.bool_]) -> Iterator[Any]:
    """Yield the rows of a file that are present, in batches."""
    begin = 0
    for piece in file.pieces(features):
        rows = np.flatnonzero(present[begin : begin + piece.shape[0]])
        begin += piece.shape[0]
        if len(rows):
            yield take(piece, rows)


@contextmanager
def progress(arguments: argparse.Namespace) -> Iterator[report.Update]:
    """Show how much of a page has been drawn, unless options say otherwise."""
    with counting("report") if speaks(arguments) else nullcontext(report.silent) as update:
        yield update


def write_page(arguments: argparse.Namespace, path: Path, findings: Callable[[], report.Findings]) -> None:
    """Draw a page about findings, and write it to a file."""
    with progress(arguments) as update:
        update(0, report.USUAL_STEPS, "predictions")
        page = report.to_html(findings(), update)
    with writing(path):
        report.write(page, path)
