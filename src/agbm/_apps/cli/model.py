"""Models of commands: importances and saved metrics, opening data files for a model, and evaluating it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..._base.sums import Array
from ..._core.methods import title_of
from ..._fit.progress import readable
from ..._labels.matrices import LabelSets
from ...export._view import feature_names
from ..evaluation.metrics import Metric
from ..evaluation.tasks import task_of
from .output import listed, unbroken
from .reading.data import Model, check_column, warn_of_missed
from .reading.files import DataFile, open_table
from .reading.labels import label_types, labels_in, noted_second
from .reading.offsets import noted_column, of_rows, offsets_in
from .shared_options import USUAL, Form, is_encoding

FORM = "csv"
"""Note in the model file: how the csv file with the training data was stored, where it differs from the usual."""
FIRST_INDEX = "first index"
"""Note in the model file: the index of the first column of the svmlight training file."""
DECIMAL_COMMAS = "decimal commas"
"""Note in the model file: the columns of the training file with decimal commas."""
NEEDED = "add it, since a model with offsets is evaluated with them"
"""Advice for evaluation rows without offsets."""


def important(model: Model) -> dict[str, float]:
    """Return the features that the model uses with their shares of the gain, the most important first."""
    features, gains = model.model_.gains()
    order = np.argsort(-gains, kind="stable")
    order = order[gains[order] > 0.0]
    return dict(zip(feature_names(model, features[order]), (gains[order] / gains.sum()).tolist(), strict=True))


def training_in_words(model: Model, seconds: float | None = None) -> str:
    """Return the method, the size of the model and the iterations as text; model files have no times."""
    n_members = len(model.model_.ensembles)
    members = f"{n_members} members, " if n_members > 1 else ""
    took = "" if seconds is None else f", {readable(seconds, 3)} s"
    return (
        f"{title_of(model.method)}: {members}{model.n_trees_:,} trees, iteration {model.best_iteration_:,} of "
        f"{model.n_iter_:,}{took}"
    )


def shares_in_words(shares: Mapping[str, float]) -> str:
    """Return the first shares as text, in percent, for `show`."""
    shown = [unbroken(f"{name} {100 * share:.3g} %") for name, share in shares.items()]
    return listed(shown, 8) or "none: the model has no splits"


def metrics_in_words(metrics: Sequence[Metric]) -> str:
    """Return metrics with their intervals as text, for `show`."""
    return "; ".join(unbroken(f"{metric.name} {metric}") for metric in metrics)


def noted_metrics(model: Model) -> list[Metric]:
    """Return the metrics that `agbm train` saved in the model; an empty list if the note is missing or invalid."""
    kinds = {"name": str, "value": float, "low": float, "high": float, "lower_is_better": bool}
    try:
        found = json.loads(model.notes_.get("metrics", "[]"))
        return [
            Metric(**{name: metric[name] for name in kinds})
            for metric in found
            if all(isinstance(metric[name], kind) for name, kind in kinds.items())
        ]
    except (ValueError, KeyError, TypeError):
        return []


def _with_decimal_commas(model: Model) -> list[str]:
    """Return the columns of the training file with decimal commas; an empty list if the note is missing or invalid."""
    try:
        found = json.loads(model.notes_.get(DECIMAL_COMMAS, "[]"))
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def note_of_form(form: Form) -> str:
    """Return the note on how a csv file was stored; empty if there is nothing unusual about it."""
    fields = {name: value for name, value in vars(form).items() if name != "format" and value != getattr(USUAL, name)}
    return json.dumps(fields, ensure_ascii=False) if fields else ""


def _trained_form(model: Model) -> Form:
    """Return how the training data were stored; fields of the note that are invalid are ignored."""
    try:
        found = json.loads(model.notes_.get(FORM, "{}"))
    except ValueError:
        found = None
    found = found if isinstance(found, dict) else {}
    missing, decimal, encoding = found.get("missing"), found.get("decimal"), found.get("encoding")
    return Form(
        header=found.get("header") is not False,
        missing=tuple(text for text in missing if isinstance(text, str)) if isinstance(missing, list) else (),
        decimal=decimal if decimal in (".", ",") else None,
        encoding=encoding if isinstance(encoding, str) and is_encoding(encoding) else None,
    )


def open_for(
    model: Model,
    path: str,
    form: Form,
    *,
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> tuple[DataFile, list[str]]:
    """Open a file for a model; return the file and the names of the model's features.

    What `form` does not specify is as in the training data. Columns are read with the types the model was trained with:
    text features as text, whatever they look like in this file, and others as numbers, except for dates. `texts` and
    `numbers` name further columns to read as text or as numbers.
    """
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    text = [
        names[f] for f, known in model.model_.categories.items() if names and any(isinstance(c, str) for c in known)
    ]
    neither = {*text, *(names[f] for f in model.model_.reader.derived)}  # dates are read as the file has them
    first = model.notes_.get(FIRST_INDEX)
    file = open_table(
        path, form.completed(_trained_form(model)), text=[*text, *texts],
        numeric=[name for name in [*names, *numbers] if name not in neither],
        decimal_commas=_with_decimal_commas(model), n_features=model.n_features_in_,
        first_index=int(first) if first in ("0", "1") else None,
    )  # fmt: skip
    _check_columns(file, names, text)
    warn_of_missed(file)
    return file, names


def _check_columns(file: DataFile, names: Sequence[str], text: Sequence[str]) -> None:
    """Raise ValueError if a file lacks features of a model, or if they have other types."""
    known = [column.name for column in file.columns]
    if file.n_rows == 0:
        raise ValueError(f"{file.name!r} has no rows.")
    if file.format == "svmlight":
        if names and names != known:
            raise ValueError(
                f"{file.name!r} is an svmlight file without column names; the model needs columns {names[:10]}."
            )
        return
    if not names:
        raise ValueError("the model was trained without column names, so it can only read svmlight files.")
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(
            f"{file.name!r} lacks the columns {missing} that the model needs; its columns are {known[:20]}."
        )
    for column in file.columns:
        if column.name in text and column.kind != "category" and not file.vector(column.name)[1].all():
            raise ValueError(
                f"{file.name!r}: column {column.name!r} must be text, as in the training data of the model."
            )


def pieces_with(file: DataFile, features: Sequence[str], offset: Array | None) -> Iterator[tuple[Any, Array | None]]:
    """Yield the features of a file in batches, each with the offsets of its rows, if there are any."""
    begin = 0
    for piece in file.pieces(features):
        yield piece, of_rows(offset, slice(begin, begin + piece.shape[0]))
        begin += piece.shape[0]


def evaluate(model: Model, path: str, target: str, form: Form) -> list[Metric]:
    """Evaluate a model on the rows of a file whose target is not missing."""
    file, features = open_labelled(model, path, target, form)
    y, absent = labels_in(model, file, target)
    task, offset = task_of(model), offsets_in(file, noted_column(model), NEEDED)
    found = np.concatenate([task.predict(model, *both) for both in pieces_with(file, features, offset)])
    return task.evaluate(y[~absent], found[~absent])[0]


def open_labelled(model: Model, path: str, target: str, form: Form) -> tuple[DataFile, list[str]]:
    """Open a file with the features of a model and the target; return the file and the names of the features."""
    if isinstance(model.model_.labels, LabelSets):
        raise ValueError(f"{path!r}: the model has several labels per row, which a report cannot evaluate; omit DATA.")
    texts, numbers = label_types(model, target)
    column, second = noted_column(model), noted_second(model)
    numbers += [] if column is None else [column.name]
    file, features = open_for(model, path, form, texts=texts, numbers=numbers)
    if file.format != "svmlight":
        known = [column.name for column in file.columns]
        check_column(target, "--target", known)
        if second is not None:
            check_column(second.name, f"{path!r}: --{second.kind}", known)
    return file, features
