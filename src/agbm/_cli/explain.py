"""`agbm explain`: show how much each feature contributes to predictions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from .._core.losses import Array
from .._estimators import AGBMClassifier, load
from ..export._view import feature_names
from ._data import Model, add_file, take
from ._files import output_format, write_pieces
from ._model import open_for
from ._output import add_command, printable, show_json, show_table
from ._paths import check_files

EXAMPLES = """
  agbm explain adult.agbm new.csv --rows 3
  agbm explain adult.agbm new.csv --out contributions.parquet"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm explain MODEL DATA [options]",
        help="show how much each feature contributes to predictions",
        description="Show how much each feature contributes to the score of a row (exact Shapley values). The "
        "contributions of a row and the base value, the mean score, add up to its score: log-odds, or the value before "
        "the inverse link.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", help="model file written by agbm train or model.save")
    add_file(parser)
    parser.add_argument("--rows", type=int, default=5, help="number of rows to show (default: %(default)s)")
    parser.add_argument("--top", type=int, default=8, help="number of features to show per row (default: %(default)s)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="write the contributions of all rows as csv, parquet or arrow"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the contributions of the first rows, or write those of all rows."""
    if arguments.out is not None:
        output_format(arguments.out)  # raises ValueError before the data are read
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})
    model = load(arguments.model)
    file, features = open_for(model, arguments.data, arguments.format, header=not arguments.no_header)
    if arguments.out is not None:
        n_rows = write_pieces((_columns(model, piece) for piece in file.pieces(features)), arguments.out)
        if arguments.json:
            show_json({"rows": n_rows, "out": str(arguments.out)})
        else:
            print(f"{arguments.out}: {n_rows:,} rows")
        return
    if arguments.rows < 1:
        raise ValueError(f"--rows {arguments.rows}: must be at least 1.")
    first = next(iter(file.pieces(features)))
    X = take(first, np.arange(min(arguments.rows, first.shape[0])))
    found = [_explained(model, X, row, output) for row in range(X.shape[0]) for output in range(_n_outputs(model))]
    if arguments.json:
        show_json({"rows": found})
        return
    for explained in found:
        _show(explained, arguments.top)


def _n_outputs(model: Model) -> int:
    return model.model_.n_outputs


def _contributions(model: Model, X: Any) -> Array:
    """Return contributions of shape (row, output, feature + 1), also for a single output."""
    found = model.predict_contributions(X)
    return found if found.ndim == 3 else found[:, np.newaxis]


def _of(model: Model, output: int) -> str:
    """Return the name of the class or output whose score is explained; empty for a regressor with one output."""
    if not isinstance(model, AGBMClassifier):
        return "" if _n_outputs(model) == 1 else str(output)
    return str(model.classes_[1 if _n_outputs(model) == 1 else output])


def _columns(model: Model, X: Any) -> dict[str, Any]:
    """Return the contributions by column name; with several outputs, names start with the output."""
    found = _contributions(model, X)
    names = [*feature_names(model), "base value"]
    several = found.shape[1] > 1
    return {
        f"{_of(model, output)}: {name}" if several else name: found[:, output, f]
        for output in range(found.shape[1])
        for f, name in enumerate(names)
    }


def _explained(model: Model, X: Any, row: int, output: int) -> dict[str, Any]:
    one = take(X, np.array([row]))
    contributions = _contributions(model, one)[0, output]
    names = feature_names(model)
    order = np.argsort(-np.abs(contributions[:-1]), kind="stable")
    return {
        "row": row,
        "of": _of(model, output),
        "prediction": np.asarray(model.predict(one))[0],
        "score": float(contributions.sum()),
        "base": float(contributions[-1]),
        "contributions": [
            {"feature": names[f], "value": _value(one, f), "adds": float(contributions[f])} for f in order.tolist()
        ],
    }


def _value(row: Any, f: int) -> Any:
    """Return the value of a feature in a table of one row."""
    return row.column(f)[0].as_py() if hasattr(row, "column") else float(row[0, f])


def _show(explained: dict[str, Any], top: int) -> None:
    of = f" of {explained['of']}" if explained["of"] else ""
    print(
        printable(f"row {explained['row']}: prediction {explained['prediction']}, score{of} {explained['score']:.5g}")
    )
    shown = [entry for entry in explained["contributions"][:top] if entry["adds"] != 0.0]
    rest = sum(entry["adds"] for entry in explained["contributions"][len(shown) :])
    rows = [[entry["feature"], _text(entry["value"]), f"{entry['adds']:+.4g}"] for entry in shown]
    rows += [["all others", "", f"{rest:+.4g}"], ["base value", "", f"{explained['base']:+.4g}"]]
    show_table(["feature", "value", "contribution"], rows)
    print()


def _text(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
