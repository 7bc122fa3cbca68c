"""The contents of a report."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._base.types import Table
from ..._data.derivation import Derivation, look
from ..._data.tables import Columns, as_table, categorical_mask, named_mask
from ..._estimators.classifier import AGBMClassifier
from ..._estimators.ranker import AGBMRanker
from ..._estimators.regressor import AGBMRegressor
from ..._estimators.survival import AGBMSurvival
from ..._fit.scoring import row_sets
from ..._losses import traits_of
from ..._model.settings import CategoricalFeatures
from ..evaluation.metrics import Metric, Tried
from ..evaluation.tasks import task_of
from .measured import Measured, Measuring

Estimator = AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival

# Contributions and partial dependence are drawn for a sample of this many rows, fewer if there are many features.
SAMPLE_ROWS = 500
SAMPLE_VALUES = 2_000_000


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
class Predictions:
    """Test rows with the predictions of a model."""

    y: NDArray[Any]
    predicted: Array
    """Probabilities with a column per class, or predicted values, with a column per quantile if there is a list."""
    sample: NDArray[Any]
    """The features of some of the rows."""
    measured: Measured = field(default_factory=Measured)
    """How well intervals and distributions agree with the labels."""


def predictions_of(
    model: Estimator, tables: Iterable[Any], y: NDArray[Any], offset: Array | None = None
) -> Predictions:
    """Return the predictions of a model for all test rows, which are read in parts, and a sample of the rows."""
    from ...plot._arguments import as_array  # needs matplotlib

    n_rows = min(len(y), SAMPLE_ROWS, max(1, SAMPLE_VALUES // model.n_features_in_))
    chosen = np.zeros(len(y), dtype=bool)
    chosen[np.random.default_rng(0).choice(len(y), n_rows, replace=False)] = True
    task = task_of(model)
    predicted, sample, begin, measuring = [], [], 0, Measuring(model, y)
    for table in tables:
        of_table = None if offset is None else offset[begin : begin + table.shape[0]]
        predicted.append(task.predict(model, table, of_table))
        measuring.add(table, begin, of_table)
        rows = np.flatnonzero(chosen[begin : begin + len(predicted[-1])])
        sample.append(as_array(model, table[rows] if hasattr(table, "dtype") else table.take(rows)))
        begin += len(predicted[-1])
    return Predictions(y, np.concatenate(predicted), np.concatenate(sample), measuring.done())


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
    """The agbm model whose predictions, importances, trees, theory and parameters are shown."""
    test: Predictions | None = None
    """Test rows with the predictions of this model."""
    loss: str = "loss"
    """Name of the loss in the curves of `tried`; the curves of "RMSE" are mean squared errors."""
    costs: tuple[float, float] = (1.0, 1.0)
    """Costs of a false positive and of a false negative."""
    shows_rows: bool = True
    """Whether the page may contain test rows, for the what-if panel."""


def whose(findings: Findings) -> str:
    """Say which model a section is about; empty if there is only one."""
    if len(findings.tried) < 2:
        return ""
    name = next((one.name for one in findings.tried if one.model is findings.model), "of agbm")
    return f"This section is about the model {name}. "


def loss_name(model: Estimator) -> str:
    """Return the name of the loss that is shown for a model."""
    loss = model.resolved_params_["loss"]
    return traits_of(loss).shown_as or f"loss {loss!r}"


def tried_from_model(name: str, model: Estimator, metrics: Sequence[Metric], seconds: float) -> Tried:
    """Return the results of a fitted model."""
    curve = {column: values.tolist() for column, values in model.history_.items()}
    if loss_name(model) == "RMSE":  # history_ has half the squared error
        for column in (f"{name}_loss" for name in row_sets(model.history_)):
            curve[column] = (2.0 * model.history_[column]).tolist()
    return Tried(
        name=name,
        seconds=seconds,
        trees=model.n_trees_,
        best=model.best_iteration_,
        curve=curve,
        metrics=metrics,
        parameters=changed_parameters(model),
    )


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator."""

    name: str
    value: object
    default: object

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


def describe_columns(X: Table, categorical_features: CategoricalFeatures = "from_dtype") -> list[Column]:
    """Return the columns of any table that `fit` accepts; values of sparse matrices are not counted."""
    table = as_table(X)
    columns = Columns(table)
    names = [f"x{name}" if isinstance(name, int) else str(name) for name in columns.names]
    if hasattr(table, "tocsr"):
        return [Column(name, "number") for name in names]
    found = []
    derivation = Derivation.of([look(table)], named_mask(table, categorical_features))
    categorical = derivation.others(categorical_mask(table, categorical_features))
    for f, name in enumerate(names):
        values, absent = columns.values(f)
        if f in derivation.lists:
            found.append(Column(name, "list", float(np.mean(absent))))
            continue
        distinct = len(set(values[~absent].tolist()))
        kind = "category" if categorical[f] or f in derivation.ordered else "number"
        found.append(Column(name, "date" if f in derivation.dates else kind, float(np.mean(absent)), distinct))
    return found
