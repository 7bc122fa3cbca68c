"""The contents of a report."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from ..evaluation.tasks import Task, task_of
from .drift import Drift
from .measured import Measured, Measuring, some_rows
from .segments import Segment, Segments

Estimator = AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival

# Contributions and partial dependence are drawn for a sample of this many rows, fewer if there are many features.
SAMPLE_ROWS = 500
SAMPLE_VALUES = 2_000_000

# Segments and drift are those of more rows.
NUMBERED_ROWS = 20_000
NUMBERED_VALUES = 5_000_000


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
    rows: NumberedRows | None = None
    """More of the rows, as numbers."""


class NumberedRows(NamedTuple):
    """Some of the rows, with the columns of a model as numbers."""

    places: NDArray[np.intp]
    """The numbers of the rows among all rows, ascending."""
    numbers: NDArray[Any]
    """The values of all columns; see TableReader."""
    new: Mapping[int, Mapping[str, int]]
    """For categorical columns, the categories that fit has not seen, with their numbers of rows."""


def predictions_of(
    model: Estimator, tables: Iterable[Any], y: NDArray[Any], offset: Array | None = None,
    groups: NDArray[Any] | None = None,
) -> Predictions:  # fmt: skip
    """Return the predictions of a model for all test rows, which are read in parts, and samples of the rows.

    Coverage is measured by `groups`, one per row; see has_intervals.
    """
    from ...plot._arguments import as_array  # needs matplotlib

    chosen = _chosen(len(y), min(SAMPLE_ROWS, SAMPLE_VALUES // model.n_features_in_), seed=0)
    numbered = _chosen(len(y), min(NUMBERED_ROWS, NUMBERED_VALUES // model.n_features_in_), seed=2)
    task = task_of(model)
    predicted, sample, begin, measuring = [], [], 0, Measuring(model, y, groups)
    rows = _RowsAsNumbers(model)
    for table in tables:
        part = slice(begin, begin + table.shape[0])
        of_table = None if offset is None else offset[part]
        predicted.append(task.predict(model, table, of_table))
        measuring.add(table, begin, of_table)
        sample.append(as_array(model, some_rows(table, np.flatnonzero(chosen[part]))))
        rows.add(some_rows(table, np.flatnonzero(numbered[part])))
        begin = part.stop
    found = NumberedRows(np.flatnonzero(numbered), rows.numbers(), rows.new)
    return Predictions(y, np.concatenate(predicted), np.concatenate(sample), measuring.done(), found)


def _chosen(n_rows: int, most: int, seed: int) -> NDArray[np.bool_]:
    """A mask of at most so many rows, but at least one."""
    chosen = np.zeros(n_rows, dtype=bool)
    chosen[np.random.default_rng(seed).choice(n_rows, min(n_rows, max(1, most)), replace=False)] = True
    return chosen


def numbers_of(model: Estimator, table: Any) -> NDArray[Any]:
    """The columns of a table as numbers; see TableReader."""
    numbers = model.model_.reader.numbers(table)[:, : model.n_features_in_]
    return np.asarray(numbers.toarray() if hasattr(numbers, "toarray") else numbers)


class _RowsAsNumbers:
    """Rows that are read in parts, as numbers."""

    def __init__(self, model: Estimator) -> None:
        self._model = model
        self._parts: list[NDArray[Any]] = [np.empty((0, model.n_features_in_))]
        self.new: dict[int, Counter[str]] = {}

    def add(self, table: Any) -> None:
        """Add the rows of a table."""
        if not table.shape[0]:
            return
        numbers = numbers_of(self._model, table)
        self._parts.append(numbers)
        for f, known in self._model.model_.categories.items():
            unknown = numbers[:, f] >= len(known)
            if unknown.any():
                values = Columns(as_table(table)).values(f)[0][unknown]
                self.new.setdefault(f, Counter()).update(map(str, values.tolist()))

    def numbers(self) -> NDArray[Any]:
        """All rows."""
        return np.concatenate(self._parts)


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
    positive: int | None = None
    """The index of the positive one of two classes; None for other tasks."""
    segments: Segments | None = None
    """Where the losses of the test rows are high."""
    drift: Drift | None = None
    """How the test rows differ from the training rows."""
    two: Two | None = None
    """The best of several models, and the default."""
    costs: tuple[float, float] = (1.0, 1.0)
    """Costs of a false positive and of a false negative."""
    shows_rows: bool = True
    """Whether the page may contain test rows, for the what-if panel."""


@dataclass(frozen=True, eq=False)
class Two:
    """Two of the models that were compared, on the same test rows."""

    names: tuple[str, str]
    task: Task
    y: NDArray[Any]
    predicted: tuple[Array, Array]
    losses: tuple[Array, Array]
    """The losses of the rows, or of the queries of a ranking."""
    positive: int | None = None
    """The index of the positive one of two classes."""
    segments: Sequence[Segment] = ()
    """Where the losses differ: those of the second model minus those of the first."""
    n_rows: int = 0
    """Rows that the segments were measured on."""


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
