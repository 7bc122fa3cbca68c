"""Models on the command line: what they have to say of themselves, and files that they can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from .._core.losses import Array
from .._estimators import AGBMClassifier
from .._study.evaluation import Metric, judged
from ..export._view import feature_names
from ._data import Model, as_numbers, check_column, warn_of_missed
from ._files import DataFile, open_table
from ._output import listed

FIRST_INDEX = "first index"
"""The note of what the columns of an svmlight file began with."""
DECIMAL_COMMAS = "decimal commas"
"""The note of the columns that had decimal commas."""


def important(model: Model) -> dict[str, float]:
    """Features that the model uses, with their shares of the gain, the most important first."""
    features, gains = model.model_.gains()
    order = np.argsort(-gains, kind="stable")
    order = order[gains[order] > 0.0]
    return dict(zip(feature_names(model, features[order]), (gains[order] / gains.sum()).tolist(), strict=True))


def shares_in_words(shares: Mapping[str, float]) -> str:
    """The first of some shares of a whole."""
    return listed([f"{name} {100 * share:.3g} %" for name, share in shares.items()], 8) or "nothing: there is no split"


def noted_metrics(model: Model) -> list[Metric]:
    """The metrics that `agbm train` has noted; none where the note is not what it writes."""
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
    """Columns that had decimal commas when the model was trained, as noted; none where the note is something else."""
    try:
        found = json.loads(model.notes_.get(DECIMAL_COMMAS, "[]"))
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def open_for(
    model: Model,
    path: str,
    format: str | None,
    *,
    header: bool = True,
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> tuple[DataFile, list[str]]:
    """A file that has what a model needs, and the names of these columns.

    Features that were text to the model are text, whatever they look like in this file, and the others are numbers;
    so are further columns in `texts` and `numbers`.
    """
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    text = [
        names[f] for f, known in model.model_.categories.items() if names and any(isinstance(c, str) for c in known)
    ]
    first = model.notes_.get(FIRST_INDEX)
    file = open_table(
        path, format, header=header, text=[*text, *texts],
        numeric=[name for name in [*names, *numbers] if name not in text], decimal_commas=_with_decimal_commas(model),
        n_features=model.n_features_in_, first_index=int(first) if first in ("0", "1") else None,
    )  # fmt: skip
    if file.n_rows == 0:
        raise ValueError(f"{path!r} has no rows.")
    if file.format == "svmlight":
        if names and names != [column.name for column in file.columns]:
            raise ValueError(f"{path!r} is an svmlight file without names; the model needs columns {names[:10]}.")
        return file, names
    known = [column.name for column in file.columns]
    if not names:
        raise ValueError(f"the model was trained without names of columns and cannot find them in {path!r}.")
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{path!r} has no columns {missing}, which the model needs; its columns are {known[:20]}.")
    for column in file.columns:
        if column.name in text and column.kind != "category" and not file.vector(column.name)[1].all():
            raise ValueError(
                f"{path!r}: column {column.name!r} was text to the model, and is not here; write it as text."
            )
    warn_of_missed(file)
    return file, names


def judge(model: Model, path: str, target: str, format: str | None, *, header: bool = True) -> list[Metric]:
    """Metrics of a model on the rows of a file that have a label."""
    kind = model.classes_.dtype.kind if isinstance(model, AGBMClassifier) else "f"
    texts, numbers = [target] if kind in "UO" else [], [target] if kind in "iuf" else []
    file, features = open_for(model, path, format, header=header, texts=texts, numbers=numbers)
    if file.format != "svmlight":
        check_column(target, "--target", [column.name for column in file.columns])
    y, absent = file.vector(target)
    if absent.all():
        raise ValueError(f"{path!r}: no row has a value of the target {target!r}, by which to judge the model.")
    predict = model.predict_proba if isinstance(model, AGBMClassifier) else model.predict
    found: Array = np.concatenate([predict(piece) for piece in file.pieces(features)])[~absent]
    y = y[~absent]
    if not isinstance(model, AGBMClassifier):
        return judged(as_numbers(y, "--target", target), found, None)[0]
    labels = y.astype(str) if model.classes_.dtype.kind == "U" else y
    return judged(labels, found, model.classes_)[0]
