"""Reasons for predictions, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import logit

from .._base.sums import Array
from .._data.tables import Columns, as_table
from .._labels.base import Classes, Result
from .._labels.lifetimes import Lifetimes
from .._labels.matrices import LabelSets
from .._labels.relevances import Relevances
from .._losses import prediction_of
from .fitted import FittedModel

_FACTORS = "exp", "exp_of_first", "log_normal_mean"
"""What makes predictions of scores such that contributions are factors of the prediction."""


class _Unit(NamedTuple):
    """How changes of a prediction are measured."""

    scale: Callable[[Array], Array]
    """Features are ordered by how much they change this."""
    change: Callable[[Array, Array], Array]
    """From the first predictions to the second."""
    text: Callable[[float], str]
    """A change, with its sign."""


def _percent(change: float) -> str:
    percent = 100.0 * change
    return f"{percent:+.0f} %" if abs(percent) >= 10.0 else f"{percent:+.2g} %"


_LEAST = 1e-300
_DIFFERENCE = _Unit(lambda p: p, lambda old, new: new - old, lambda change: f"{change:+.3g}")
_FACTOR = _Unit(lambda p: np.log(np.maximum(p, _LEAST)), lambda old, new: new / np.maximum(old, _LEAST) - 1.0, _percent)
_PROBABILITY = _Unit(
    lambda p: logit(np.clip(p, _LEAST, 1.0 - 1e-16)), lambda old, new: new - old, lambda change: f"{change:+.2g}"
)


def reasons(model: FittedModel, X: Any, contributions: Array, top: int) -> list[str]:
    """For each row, its prediction in words, with the `top` features that change it most; see BaseAGBM.reasons.

    Contributions (row, output, column + 1) are those of the rows of X.
    """
    table = Columns(X.toarray() if issparse(X) else as_table(X))
    names = model.reader.names
    columns = [table.values(column) for column in range(model.n_columns)]
    found = []
    for row, of_row in enumerate(contributions):
        facts = [
            _fact(f"x{column}" if names is None else str(names[column]), None if absent[row] else values[row])
            for column, (values, absent) in enumerate(columns)
        ]
        found.append(" ".join(_sentences(model, of_row[:, :-1], of_row[:, -1:], facts, top)))
    return found


def _sentences(model: FittedModel, parts: Array, base: Array, facts: Sequence[str], top: int) -> list[str]:
    """One sentence for a classifier, about the class that is predicted; otherwise one for each prediction of a row."""
    labels, loss = model.labels, model.loss
    if isinstance(labels, (Classes, LabelSets)):
        probabilities = labels.results(Result.PROBABILITIES, loss, base + parts.sum(axis=1, keepdims=True))
        likely = int(probabilities[0].argmax())
        name = labels.classes[likely] if isinstance(labels, Classes) else f"label {likely}"

        def predict(raw: Array) -> Array:
            return np.asarray(labels.results(Result.PROBABILITIES, loss, raw)[:, likely])

        return [_sentence(f"The probability of {name}", predict, _PROBABILITY, parts, base, facts, top)]
    unit = _FACTOR if prediction_of(loss) in _FACTORS else _DIFFERENCE
    n_predictions = labels.predictions(loss, base).size

    def output(number: int) -> Callable[[Array], Array]:
        return lambda raw: np.asarray(labels.predictions(loss, raw)).reshape(raw.shape[1], -1)[:, number]

    name = "score" if isinstance(labels, Relevances) else "risk" if isinstance(labels, Lifetimes) else "prediction"
    subjects = [f"The {name}"] if n_predictions == 1 else [f"Prediction {k}" for k in range(n_predictions)]
    return [_sentence(subject, output(k), unit, parts, base, facts, top) for k, subject in enumerate(subjects)]


def _sentence(
    subject: str, predict: Callable[[Array], Array], unit: _Unit, parts: Array, base: Array, facts: Sequence[str],
    top: int,
) -> str:  # fmt: skip
    """The prediction of a row compared with that of the base value, and the features that change it most, in order."""
    scale = unit.scale(predict(np.append(base, base + parts, axis=1)))
    order = np.argsort(-np.abs(scale[1:] - scale[0]), kind="stable")
    steps = np.append(base, base + np.cumsum(parts[:, order], axis=1), axis=1)
    path = predict(steps)
    typical, final = float(path[0]), float(path[-1])
    total = float(unit.change(path[0], path[-1]))
    of_features = [
        (facts[column], float(change))
        for column, change in zip(order[:top], unit.change(path[:-1], path[1:])[:top], strict=True)
        if change != 0.0
    ]
    said = [_compared(subject, final, typical, total, unit)]
    for word, sign in (("mainly because", 1.0), ("despite", -1.0)):
        named = [f"{fact} ({unit.text(change)})" for fact, change in of_features if change * total * sign > 0.0]
        if named:
            said.append(f"{word} {_listed(named)}")
    rest = float(unit.change(path[min(top, len(order))], path[-1]))
    others = f" All other features: {unit.text(rest)}." if parts[:, order[top:]].any() else ""
    return ", ".join(said) + "." + others


def _compared(subject: str, final: float, typical: float, total: float, unit: _Unit) -> str:
    if total == 0.0:
        return f"{subject} is {final:.4g}, which is typical"
    if unit is _PROBABILITY:
        return f"{subject} is {final:.3g} instead of the typical {typical:.3g}"
    size = unit.text(total)[1:]
    return f"{subject} is {final:.4g}, {size} {'above' if total > 0.0 else 'below'} the typical {typical:.4g}"


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _fact(name: str, value: Any) -> str:
    return f"{name} is missing" if value is None else f"{name} = {value_text(value)}"


def value_text(value: Any) -> str:
    """The value of a feature. Whole numbers have no separators, since they may be years or postal codes."""
    if value is None or value != value:
        return "missing"
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        return str(value).removesuffix(" 00:00:00")
    if not isinstance(value, (float, np.floating)):
        return str(value)
    number = float(value)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.5g}"
