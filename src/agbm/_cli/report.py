"""`agbm report`: one page about a model, to look at and to hand on."""

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
from ._model import judge, noted_metrics
from ._output import add_command, show_json
from ._paths import check_files, writing, written

EXAMPLES = """
  agbm report adult.agbm --out adult.html
  agbm report adult.agbm later.csv --target income --out later.html"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its arguments."""
    parser = add_command(
        commands,
        "agbm report MODEL [DATA] --out PAGE [options]",
        help="write a page about a model",
        description="Write one page about a model that needs no network: what it was trained on, convergence, metrics "
        "with intervals, importances, trees, theory. With data, the metrics are of its rows; else those that agbm "
        "train has noted.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", help="a file that agbm train or model.save wrote")
    add_file(parser, needed=False)
    parser.add_argument("--target", metavar="COLUMN", help="of the data (default: as noted in the model)")
    parser.add_argument("--out", required=True, metavar="PAGE", type=Path, help="the file to write, such as m.html")
    parser.add_argument("--json", action="store_true", help="say what was done as a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Judge where there are data, and write the page."""
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})
    model = load(arguments.model)
    metrics, judged_by = noted_metrics(model), ""
    if arguments.data is not None:
        target = arguments.target or model.notes_.get("target")
        if target is None:
            raise ValueError("--target is missing: the model has no note of it; name the column with the labels.")
        metrics = judge(model, arguments.data, target, arguments.format, header=not arguments.no_header)
        judged_by = arguments.data
    elif arguments.target is not None:
        raise ValueError(f"--target {arguments.target}: there are no data to judge by; name a file, or leave it out.")
    write_page(arguments.out, model, metrics, float(model.history_["seconds"][-1]), judged_by=judged_by)
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
    judged_by: str = "",
) -> None:
    """A page about one model, with what its notes say of its making."""
    notes = model.notes_
    task = "classification" if isinstance(model, AGBMClassifier) else "regression"
    data = {"task": task} | {name: notes[name] for name in ("data", "target", "rows") if name in notes}
    if judged_by:
        data["judged by"] = judged_by
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
    """A page, with the facts that all pages have."""
    facts = {
        "agbm": version("agbm"),
        "page written": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    with writing(path):
        report.write(report.Findings(title, command, facts, data, columns, tried, model), path)
