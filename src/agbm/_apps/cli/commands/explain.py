"""`agbm explain`: show how much each feature contributes to predictions."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ...._base.sums import Array
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.loading import load
from ...._fit.progress import readable
from ...._model.reasons import value_text
from ....export._view import feature_names
from ..model import open_for
from ..output import show_json, show_table
from ..paths import check_files
from ..reading.data import Model, take
from ..reading.files import Piece, output_format, write_pieces
from ..shared_options import check_form, form_of
from ..status import printable, status


def run(arguments: argparse.Namespace) -> None:
    """Print the contributions of the first rows, or write those of all rows."""
    if arguments.out is not None:
        output_format(arguments.out)  # raises ValueError before the data are read
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": arguments.out})
    model = load(arguments.model)
    with status(arguments):
        file, features = open_for(model, arguments.data, form_of(arguments))
        check_form(arguments, file.format)
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
    found = [_explained(model, X, row) for row in range(X.shape[0])]
    if arguments.json:
        show_json({"rows": [explained for of_row in found for explained in of_row]})
        return
    for of_row in found:
        for explained in of_row:
            _show(explained, arguments.top, with_reason=explained is of_row[0])


def _n_outputs(model: Model) -> int:
    return model.model_.n_outputs


def _contributions(model: Model, X: Piece) -> Array:
    """Return contributions of shape (row, output, feature + 1), also for a single output."""
    found = model.predict_contributions(X)
    return found if found.ndim == 3 else found[:, np.newaxis]


def _of(model: Model, output: int) -> str:
    """Return the name of the class or output whose score is explained; empty for a regressor with one output."""
    if not isinstance(model, AGBMClassifier):
        return "" if _n_outputs(model) == 1 else str(output)
    return str(model.classes_[1 if _n_outputs(model) == 1 else output])


def _columns(model: Model, X: Piece) -> dict[str, Any]:
    """Return the contributions by column name; with several outputs, names start with the output."""
    found = _contributions(model, X)
    names = [*feature_names(model), "base value"]
    several = found.shape[1] > 1
    return {
        f"{_of(model, output)}: {name}" if several else name: found[:, output, f]
        for output in range(found.shape[1])
        for f, name in enumerate(names)
    }


def _explained(model: Model, X: Piece, row: int) -> list[dict[str, Any]]:
    """Return what is said about each output for a row."""
    one, names = take(X, np.array([row])), feature_names(model)
    reason, prediction = model.reasons(one)[0], np.asarray(model.predict(one))[0]
    return [
        {
            "row": row,
            "of": _of(model, output),
            "reason": reason,
            "prediction": prediction,
            "score": float(contributions.sum()),
            "base": float(contributions[-1]),
            "contributions": [
                {"feature": names[f], "value": _value(one, f), "adds": float(contributions[f])}
                for f in np.argsort(-np.abs(contributions[:-1]), kind="stable").tolist()
            ],
        }
        for output, contributions in enumerate(_contributions(model, one)[0])
    ]


def _value(row: Piece, f: int) -> Any:
    """Return the value of a feature in a table of one row."""
    return row.column(f)[0].as_py() if hasattr(row, "column") else float(row[0, f])


def _show(explained: dict[str, Any], top: int, with_reason: bool) -> None:
    of = f" of {explained['of']}" if explained["of"] else ""
    prediction, score = explained["prediction"], readable(explained["score"], 5)
    prediction = readable(prediction, 5) if isinstance(prediction, float) else prediction
    print(printable(f"row {explained['row']}: prediction {prediction}, score{of} {score}"))
    if with_reason:  # it is the same for all outputs
        print(printable(explained["reason"]))
    shown = [entry for entry in explained["contributions"][:top] if entry["adds"] != 0.0]
    rest = sum(entry["adds"] for entry in explained["contributions"][len(shown) :])
    rows = [[entry["feature"], value_text(entry["value"]), _signed(entry["adds"])] for entry in shown]
    rows += [["all others", "", _signed(rest)], ["base value", "", _signed(explained["base"])]]
    show_table(["feature", "value", "contribution"], rows)
    print()


def _signed(value: float) -> str:
    return readable(value) if value < 0.0 else f"+{readable(value)}"
