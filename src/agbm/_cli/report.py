"""`agbm report`: write an HTML report about a model."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .. import _report as report
from .._core.methods import name_of
from .._estimators import AGBMClassifier, load
from .._study.evaluation import Metric, Tried
from ._data import Model, add_file
from ._model import evaluate, noted_metrics
from ._output import add_command, show_json
from ._paths import check_files, writing, written

EXAMPLES = """
  agbm report adult.agbm --out adult.html
  agbm report adult.agbm later.csv --target income --out later.html"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm report MODEL [DATA] --out PAGE [options]",
        help="write an HTML report about a model",
        description="Write a report about a model as a single HTML file that needs no network access: training data, "
        "convergence, metrics with confidence intervals, importances, trees, theory. With DATA the model is evaluated "
        "on its rows; otherwise the metrics are those that agbm train saved.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", help="model file written by agbm train or model.save")
    add_file(parser, needed=False)
    parser.add_argument("--target", metavar="COLUMN", help="target column of DATA (default: as in training)")
    parser.add_argument("--out", required=True, metavar="PAGE", type=Path, help="output file, such as m.html")
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Evaluate the model if there are data, and write the report."""
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})
    model = load(arguments.model)
    metrics, evaluated_on = noted_metrics(model), ""
    if arguments.data is not None:
        target = arguments.target or model.notes_.get("target")
        if target is None:
            raise ValueError(
                "--target is required: the model does not record its target; give the column with the labels."
            )
        metrics = evaluate(model, arguments.data, target, arguments.format, header=not arguments.no_header)
        evaluated_on = arguments.data
    elif arguments.target is not None:
        raise ValueError(
            f"--target {arguments.target}: there are no data to evaluate on; give DATA, or omit this option."
        )
    write_page(arguments.out, model, metrics, float(model.history_["seconds"][-1]), evaluated_on=evaluated_on)
    if arguments.json:
        show_json({"out": str(arguments.out), "metrics": metrics})
    else:
        print(written(arguments.out))


def write_page(
    path: Path,
    model: Model,
    metrics: Sequence[Metric],
    seconds: float,
    columns: Sequence[report.Column] = (),
    evaluated_on: str = "",
) -> None:
    """Write a report about one model, with the notes on its training."""
    notes = model.notes_
    task = "classification" if isinstance(model, AGBMClassifier) else "regression"
    data = {"task": task} | {name: notes[name] for name in ("data", "target", "rows") if name in notes}
    if evaluated_on:
        data["evaluated on"] = evaluated_on
    write_findings(
        path,
        title=f"{notes.get('target', 'A model')}: {task} with {name_of(model.method)}",
        command=notes.get("command", f"model.set_params(**{report.changed_parameters(model)!r}).fit(X, y)"),
        data=data,
        columns=columns,
        tried=[report.tried_from_model(name_of(model.method), model, metrics, seconds)],
        model=model,
        seed=str(model.get_params()["random_state"]),
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
) -> None:
    """Write a report, adding the version, date, seed and machine."""
    facts = {
        "agbm": version("agbm"),
        "report written": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    with writing(path):
        report.write(report.Findings(title, command, facts, data, columns, tried, model), path)
