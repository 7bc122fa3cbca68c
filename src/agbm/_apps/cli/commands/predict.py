"""`agbm predict`: predict the rows of a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ...._base import threads
from ...._base.sums import Array
from ...._base.types import AnyArray
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.loading import load
from ...._losses import traits_of
from ...._model.calibration import check_calibrated
from ....export._view import feature_names
from ..model import open_for
from ..output import show_json
from ..paths import check_files
from ..reading.data import Model, check_column
from ..reading.files import DataFile, Piece, output_format, write_pieces
from ..reading.offsets import OffsetColumn, noted_column, of_rows, offset_column, offsets_in
from ..shared_options import check_form, form_of
from ..status import status


def run(arguments: argparse.Namespace) -> None:
    """Predict batch by batch and write the results."""
    out = None if arguments.out == "-" else Path(arguments.out)
    to_csv = out is None or output_format(out) == "csv"
    if out is None and arguments.json:
        raise ValueError("--json cannot be combined with --out -, since both print; use a file for --out.")
    check_files(reads={"MODEL": arguments.model, "DATA": arguments.data}, writes={"--out": out})
    model = load(arguments.model)
    if arguments.proba and not isinstance(model, AGBMClassifier):
        raise ValueError("--proba: the model is no classifier and predicts no probabilities; omit this option.")
    if arguments.interval is not None:
        check_calibrated(model.model_, arguments.interval, f"--interval {arguments.interval}")
    if arguments.quantiles is not None:
        _check_levels(model, arguments.quantiles)
    with status(arguments):
        column = _offset_column(model, arguments)
        texts = _copied(model, arguments.keep, column) if to_csv else []
        numbers = [] if column is None else [column.name]
        file, features = open_for(model, arguments.data, form_of(arguments), texts=texts, numbers=numbers)
        check_form(arguments, file.format)
        offset = offsets_in(file, column, "use --no-offset to predict without it (an exposure of 1, or an offset of 0)")
    if arguments.keep and file.format == "svmlight":
        raise ValueError(
            f"--keep {' '.join(arguments.keep)}: svmlight files have no columns to copy; omit this option."
        )
    for name in arguments.keep:
        check_column(name, "--keep", [column.name for column in file.columns])
    n_rows = write_pieces(
        _predictions(model, file, features, offset, arguments), sys.stdout.buffer if out is None else out
    )
    if arguments.json:
        show_json({"rows": n_rows, "out": arguments.out})
    elif out is not None:
        print(f"{arguments.out}: {n_rows:,} rows")


def _offset_column(model: Model, arguments: argparse.Namespace) -> OffsetColumn | None:
    """Return the column with offsets: the one that an option names, or else that of the training data."""
    if arguments.no_offset:
        return None
    column = offset_column(arguments) or noted_column(model)
    if column is not None:
        column.check_loss(model.model_.loss)
    return column


def _copied(model: Model, keep: Sequence[str], column: OffsetColumn | None) -> list[str]:
    """Return the columns to copy from CSV to CSV as text, so that 007 stays 007."""
    as_numbers = {*feature_names(model), *([] if column is None else [column.name])}
    return [name for name in keep if name not in as_numbers]


def _predictions(
    model: Model, file: DataFile, features: list[str], offset: Array | None, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    begin = 0
    for X, kept in file.pieces_beside(features, arguments.keep):
        offsets = of_rows(offset, slice(begin, begin + X.shape[0]))
        found = _columns(model, X, offsets, arguments)
        if arguments.interval is not None:
            found |= _intervals(model, X, offsets, arguments.interval)
        if arguments.quantiles is not None:
            found |= _quantiles(model, X, offsets, arguments.quantiles)
        begin += X.shape[0]
        both = [name for name in kept if name in found]
        if both:
            raise ValueError(
                f"--keep {' '.join(both)}: a column of predictions has this name; omit or rename the column."
            )
        yield {**kept, **found}


def _columns(model: Model, X: Piece, offset: Array | None, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the predictions of a batch by column name."""
    if arguments.proba:
        return _named("probability", model.predict_proba(X, offset), [str(label) for label in model.classes_])
    if arguments.scores:
        scores = model.model_.raw_predict(X, threads.resolve(model.n_jobs), offset).T
        names = [str(label) for label in model.classes_] if isinstance(model, AGBMClassifier) else None
        return _named("score", scores if scores.shape[1] > 1 else scores[:, 0], names)
    levels = traits_of(model.model_.loss).listed_quantiles
    if levels:
        return _named("quantile", model.predict(X, offset), [f"{level:g}" for level in levels])
    return _named("prediction", np.asarray(model.predict(X, offset)), None)


def _check_levels(model: Model, levels: Sequence[float]) -> None:
    """Raise ValueError if a model does not predict these quantiles."""
    shown = f"--quantiles {' '.join(format(level, 'g') for level in levels)}"
    if not traits_of(model.model_.loss).is_distribution:
        raise ValueError(
            f"{shown}: the model has no distribution; train one with --set loss=distribution:normal, or with "
            "--quantiles, whose quantiles are predicted without this option."
        )
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError(f"{shown}: quantiles must be between 0 and 1.")


def _quantiles(model: Model, X: Piece, offset: Array | None, levels: Sequence[float]) -> dict[str, Any]:
    """Return the quantiles of the distributions of a batch by column name."""
    found = model.predict_dist(X, offset)
    return {f"quantile_{level:g}": found.ppf(level) for level in levels}


def _intervals(model: Model, X: Piece, offset: Array | None, coverage: float) -> dict[str, Any]:
    """Return the bounds of a batch by column name, or sets of classes as texts."""
    if isinstance(model, AGBMClassifier):
        classes = [str(label) for label in model.classes_]
        members = model.predict_set(X, coverage, offset)
        return {"set": np.array(["|".join(compress(classes, row)) for row in members.tolist()], dtype=object)}
    bounds = model.predict_interval(X, coverage, offset)
    return _named("lower", bounds[..., 0], None) | _named("upper", bounds[..., 1], None)


def _named(what: str, values: AnyArray, names: Sequence[str] | None) -> dict[str, Any]:
    if values.ndim == 1:
        return {what: values}
    names = [str(i) for i in range(values.shape[1])] if names is None else names
    return {f"{what}_{name}": values[:, i] for i, name in enumerate(names)}
