"""The contents of a report."""

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
    """Type of the column, such as "number" or "category"."""
    missing: float = math.nan
    """Share of missing values."""
    distinct: int | None = None
    """Number of distinct values; None if unknown."""


@dataclass(frozen=True)
class Findings:
    """Everything that a report shows."""

    title: str
    command: str
    """Command that reproduces the result."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Provenance: version, date, seed, machine."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Training data: file, rows, target, task, classes."""
    columns: Sequence[Column] = ()
    tried: Sequence[Tried] = ()
    model: Estimator | None = None
    """The agbm model whose importances, trees, theory and parameters are shown."""


def tried_from_model(name: str, model: Estimator, metrics: Sequence[Metric], seconds: float) -> Tried:
    """Return the results of a fitted model."""
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
        """Whether the value differs from the default; compared by repr, since arrays have no single truth value."""
        return repr(self.value) != repr(self.default)


def parameters_of(model: Estimator) -> list[Parameter]:
    """Return all parameters of an estimator."""
    known = inspect.signature(type(model)).parameters
    return [Parameter(name, value, known[name].default) for name, value in model.get_params(deep=False).items()]


def changed_parameters(model: Estimator) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    return {parameter.name: parameter.value for parameter in parameters_of(model) if parameter.changed}


def describe_columns(X: Any, categorical_features: Any = "from_dtype") -> list[Column]:
    """Return the columns of any table that `fit` accepts; values of sparse matrices are not counted."""
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
