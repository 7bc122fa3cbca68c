"""What a report is about."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._data.tables import as_table, categorical_mask, column_names, columns_of
from .._estimators import AGBMClassifier, AGBMRegressor
from .._study.evaluation import Metric, Tried

Estimator = AGBMClassifier | AGBMRegressor


@dataclass(frozen=True)
class Column:
    """A column of the data."""

    name: str
    kind: str
    """ "number", "category", or what else it is."""
    missing: float = math.nan
    """Share of the rows that have no value."""
    distinct: int | None = None
    """Different values; None where nobody has counted."""


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows."""

    title: str
    command: str
    """What to type to have the same again."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """How it came about: version, date, seed, machine, threads."""
    data: Mapping[str, str] = field(default_factory=dict)
    """What was learned from: file, rows, target, task, classes."""
    columns: Sequence[Column] = ()
    tried: Sequence[Tried] = ()
    model: Estimator | None = None
    """The one of ours whose importances, trees, theory and parameters are shown."""


def tried_from_model(name: str, model: Estimator, metrics: Sequence[Metric], seconds: float) -> Tried:
    """What is kept of a fitted model."""
    return Tried(
        name=name,
        seconds=seconds,
        trees=model.n_trees_,
        best=model.best_iteration_,
        curve={column: values.tolist() for column, values in model.history_.items()},
        metrics=metrics,
        parameters=changed_parameters(model),
    )


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator."""

    name: str
    value: Any
    default: Any

    @property
    def changed(self) -> bool:
        """Whether it is not the default; as it is written, since values such as arrays do not compare."""
        return repr(self.value) != repr(self.default)


def parameters_of(model: Estimator) -> list[Parameter]:
    """All parameters of an estimator."""
    known = inspect.signature(type(model)).parameters
    return [Parameter(name, value, known[name].default) for name, value in model.get_params(deep=False).items()]


def changed_parameters(model: Estimator) -> dict[str, Any]:
    """Those that are not the defaults."""
    return {parameter.name: parameter.value for parameter in parameters_of(model) if parameter.changed}


def describe_columns(X: Any, categorical_features: Any = "from_dtype") -> list[Column]:
    """The columns of a table that fit takes; of a sparse matrix, which has numbers only, nothing is counted."""
    table = as_table(X)
    names = [f"x{name}" if isinstance(name, int) else str(name) for name in column_names(table)]
    if hasattr(table, "tocsr"):
        return [Column(name, "number") for name in names]
    found, column = [], columns_of(table)
    for f, (name, categorical) in enumerate(zip(names, categorical_mask(table, categorical_features), strict=True)):
        values, absent = column(f)
        distinct = len(set(values[~absent].tolist()))
        found.append(Column(name, "category" if categorical else "number", float(np.mean(absent)), distinct))
    return found
