"""The arguments that several plots share: models, features, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._base.types import Table, Values
from .._core.methods import title_of
from .._data.dates import from_days
from .._data.rows import some_of
from .._estimators.base import BaseAGBM
from .._estimators.classifier import AGBMClassifier
from .._labels.matrices import LabelSets
from ..export._view import check_fitted, feature_names

Models: TypeAlias = "BaseAGBM | Mapping[str, BaseAGBM] | Sequence[BaseAGBM]"
"""Fitted models: one, several by name, or several that are named after their methods."""


def named_models(models: object, also: type | tuple[()] = ()) -> dict[str, Any]:
    """Models by name; those of a list are named after their method, with their position if methods repeat.

    `also` is another type with an attribute `method` that is accepted.
    """
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, (list, tuple)):
        methods = [title_of(getattr(model, "method", "")) for model in models]
        same = len(set(methods)) < len(methods)
        named = {
            f"{method} {k}" if same else method: m for k, (method, m) in enumerate(zip(methods, models, strict=True))
        }
    else:
        named = {title_of(getattr(models, "method", "")): models}
    if not named:
        raise ValueError(f"models={models!r} must contain at least one model.")
    for model in named.values():
        if not isinstance(model, also):
            check_fitted(model)
    return named


def named_classifiers(models: Models) -> dict[str, AGBMClassifier]:
    """Classifiers by name, as `named_models`."""
    named = named_models(models)
    for name, model in named.items():
        if not isinstance(model, AGBMClassifier):
            raise TypeError(f"models: {name!r} is not a classifier; this plot needs predicted probabilities.")
        check_one_class(model, f"models: {name!r}")
    return named


def check_one_class(model: BaseAGBM, name: str) -> None:
    """Raise ValueError for a classifier with several labels per row; `name` is the model in the message."""
    if isinstance(model.model_.labels, LabelSets):
        raise ValueError(f"{name} has several labels per row; this plot needs one class per row. Fit one label alone.")


def check_labels(name: str, model: AGBMClassifier, y: Values) -> None:
    """Raise ValueError if y has labels that are not classes of the model."""
    classes = model.classes_.tolist()
    unknown = [label for label in np.unique(np.asanyarray(y)).tolist() if label not in classes]
    if unknown:
        raise ValueError(
            f"y has labels {some_of(unknown)} that {name!r} does not know; its classes are {some_of(classes)}."
        )


def feature_position(model: BaseAGBM, feature: str | int) -> int:
    """The position of a feature that is given by name or position."""
    names = feature_names(model)
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"features: {feature!r} is not a feature of the model; it has {_some(names)}.")
        return names.index(feature)
    if not isinstance(feature, (int, np.integer)) or not 0 <= feature < len(names):
        raise ValueError(f"features: {feature!r} must be a name or a position from 0 to {len(names) - 1}.")
    return int(feature)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def output_index(model: BaseAGBM, target: object) -> int:
    """The index of the output that `target` names; 0 if there is only one."""
    n_outputs = model.model_.n_outputs
    if n_outputs == 1:
        if target is not None:
            raise ValueError(f"target={target!r}: the model has one output; use target=None.")
        return 0
    names = model.classes_.tolist() if isinstance(model, AGBMClassifier) else list(range(n_outputs))
    if target not in names:
        kind = "classes" if isinstance(model, AGBMClassifier) else "outputs"
        raise ValueError(f"target={target!r} must be one of the {kind} of the model: {_some(list(map(str, names)))}.")
    return names.index(target)


def output_suffix(model: BaseAGBM, output: int) -> str:
    """Text to append to "score", such as " of class b"; empty for a single output of a regressor."""
    if isinstance(model.model_.labels, LabelSets):
        return f" of label {output}"
    if isinstance(model, AGBMClassifier):
        return f" of class {model.classes_[1 if model.model_.n_outputs == 1 else output]}"
    return f" of output {output}" if model.model_.n_outputs > 1 else ""


def check_top(top: int) -> None:
    """Raise ValueError unless `top` is a number of features."""
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise ValueError(f"top={top!r} must be a positive integer.")


def as_array(model: BaseAGBM, X: Table) -> NDArray[Any]:
    """A table of any kind as an array: numbers with NaN or, if there are others, objects with None."""
    reader = model.model_.reader
    columns, dates = feature_columns(model, X, range(model.n_features_in_)), reader.derivation.dates
    all_numbers = not dates and not reader.derivation.lists and not model.model_.listed_values
    array = np.empty((len(columns[0]), len(columns)), dtype=np.float64 if all_numbers else object)
    for feature, column in enumerate(columns):
        array[:, feature] = list(from_days(column)) if feature in dates else column
    for feature in reader.derivation.lists:
        numbers = np.column_stack(feature_columns(model, X, reader.with_parts([[feature]])[0]))
        array[:, feature] = np.fromiter(numbers, dtype=object, count=len(numbers))
    return array


def feature_columns(model: BaseAGBM, X: Table, features: Sequence[int]) -> list[NDArray[Any]]:
    """Some features of X as the model sees them: numbers with NaN, or categories with None, for missing values.

    All unknown categories of a feature are one value, which is unknown as well.
    """
    table = model.model_.reader.numbers(X)
    table = table[:, list(features)]
    numbers = np.array(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    columns: list[NDArray[Any]] = []
    for feature, column in zip(features, numbers.T, strict=True):
        known = model.model_.listed_values.get(feature)
        if known is not None:
            names = np.empty(len(column), dtype=object)  # np.array would make an axis of categories that are tuples
            values = [*known, _unknown(known)]
            names[:] = [None if np.isnan(code) else values[min(int(code), len(known))] for code in column]
            column = names
        columns.append(column)
    return columns


def _unknown(known: Sequence[Any]) -> Any:
    """A value that is no category, of the type of the categories if these are numbers."""
    if known and all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in known):
        return max(known) + 1
    text = "(unknown)"
    while text in known:
        text = f"({text})"
    return text
