"""Input data of commands: the arguments that describe a table and its target, and the rows to train and test on."""

from __future__ import annotations

import argparse
import json
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._base.sums import Array
from ...._core.methods import METHODS
from ...._data.batches import Batches
from ...._data.derivation import DateColumn, Derivation, look
from ...._data.hold_out import seed_of
from ...._estimators.classifier import AGBMClassifier
from ...._estimators.ranker import AGBMRanker
from ...._estimators.regressor import AGBMRegressor
from ...._estimators.survival import AGBMSurvival
from ...._fit.scoring import scorers_of
from ...._migration.foreign import of_estimator
from ...._model.settings import Settings
from ....losses import Quantile
from ...evaluation.metrics import Metric, Split
from ...evaluation.tasks import Classification, Fold, KeyedUnit, Ranking, Regression, Survival, Task, Whole, task_of
from ..shared_options import check_form, form_of
from ..status import status
from .files import Column, DataFile, Piece, as_numbers, available_memory, open_table, pyarrow
from .identifiers import identifiers
from .labels import SecondColumn, second_column
from .offsets import OffsetColumn, of_rows, offset_column
from .text_numbers import Mixed
from .units import UnitValues, unit_column

Model = AGBMClassifier | AGBMRegressor | AGBMRanker | AGBMSurvival

# A target of integers with at most this many distinct values is treated as classes.
MOST_CLASSES_OF_NUMBERS = 20
# More classes than this are treated as a mistake.
MOST_CLASSES_OF_TEXTS = 1_000


@dataclass(frozen=True)
class Question:
    """A learning task: a table, its target and its features. Rows are referred to by their index in the file."""

    file: DataFile
    target: str
    features: list[str]
    categorical: list[str]
    """Features that are treated as categories, including all text columns."""
    task: Task
    reason: str
    """Why it is this task."""
    rows: NDArray[np.intp]
    """The rows whose target is not missing."""
    y: NDArray[Any]
    """The labels of all rows."""
    second: SecondColumn | None
    """The column beside the target, for tasks whose labels have two."""
    weight: Array | None
    offset: Array | None
    offset_column: OffsetColumn | None
    streams: bool
    """Whether the table is read in batches."""
    mixed: list[Column]
    """Features and target with values that are not numbers, if the column is read as numbers or looks numeric."""
    dates: dict[str, DateColumn]
    """Features that are dates or times."""
    numbers: dict[str, tuple[str, ...]]
    """Text columns that are numbers, with the values that are not and count as missing."""
    identifiers: dict[str, str]
    """Maps columns that are left out because they identify the row to the reason."""
    unit: UnitValues | None
    """The groups or times of the rows."""

    def hold_out(self, rows: NDArray[np.intp], share: float, seed: int) -> Fold:
        """Split rows at random, or by groups or time; return the remaining rows and those that are held out."""
        remaining, held_out = self.task.hold_out(self.y[rows], share, seed, self._keyed(rows))
        return rows[remaining], rows[held_out]

    def folds(self, rows: NDArray[np.intp], n_folds: int, seed: int) -> list[Fold]:
        """The training and test rows of each fold of a cross-validation."""
        found = self.task.folds(self.y[rows], n_folds, seed, self._keyed(rows))
        return [(rows[train], rows[test]) for train, test in found]

    def _keyed(self, rows: NDArray[np.intp]) -> KeyedUnit | None:
        return None if self.unit is None else self.unit.keyed(rows)

    def fit(self, model: Model, rows: NDArray[np.intp]) -> Model:
        """Fit a model to some rows; the result is the same whether or not the table is in memory."""
        unit = {} if self.unit is None else self.unit.argument(rows)
        if self.streams:
            return model.fit(Batches(lambda: self._batches(rows)), **unit)
        weight = None if self.weight is None else self.weight[rows]
        self.task.fit(model, self.table(rows), self.y[rows], weight, of_rows(self.offset, rows), **unit)
        return model

    def table(self, rows: NDArray[np.intp]) -> Any:
        """Return the features of some rows; these must fit into memory even if the whole table does not."""
        if self.streams:
            return pyarrow().concat_tables([piece for piece, _ in self._pieces(rows)])
        return take(self._all, rows)

    def split(self, parts: Parts) -> Split:
        """The training, validation and test rows."""
        pieces = [(self.table(part), self.y[part]) for part in parts]
        return Split(*pieces[0], *pieces[1], *pieces[2])

    def whole(self, parts: Parts) -> Whole:
        """The training and validation rows together."""
        rows = np.sort(np.concatenate([parts.train, parts.validation]))
        unit = {} if self.unit is None else self.unit.argument(rows)
        return Whole(self.table(rows), self.y[rows], self._keyed(rows), unit)

    def evaluate(self, models: Sequence[tuple[Model, NDArray[np.intp]]]) -> list[Metric]:
        """Evaluate each model on its rows and return metrics over all of these rows together."""
        rows = np.concatenate([part for _, part in models])
        found = np.concatenate([self._predict(model, part) for model, part in models])
        return task_of(models[0][0]).evaluate(self.y[rows], found)[0]

    @property
    def mixed_columns(self) -> list[dict[str, Any]]:
        """`mixed` as values for JSON."""
        return [
            {
                "column": column.name,
                "read_as": "number" if column.name in self.numbers else column.kind,
                **vars(column.mixed),
            }
            for column in self.mixed
            if column.mixed is not None
        ]

    def _predict(self, model: Model, rows: NDArray[np.intp]) -> Array:
        """Return class probabilities, or what else the task predicts."""
        task, pieces = task_of(model), self._pieces(rows) if self.streams else [(self.table(rows), rows)]
        return np.concatenate([task.predict(model, X, of_rows(self.offset, part)) for X, part in pieces])

    def _batches(self, rows: NDArray[np.intp]) -> Iterator[tuple[Any, ...]]:
        for piece, numbers in self._pieces(rows):
            vectors = (self.y, self.weight, self.offset)
            yield piece, *(None if vector is None else vector[numbers] for vector in vectors)

    def _pieces(self, rows: NDArray[np.intp]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        return rows_of(self.file.pieces(self.features), rows)

    @cached_property
    def _all(self) -> Any:
        return self.file.table(self.features)


def take(table: Piece, rows: NDArray[np.intp]) -> Piece:
    """Return some rows of an arrow table or of a sparse matrix."""
    return table.take(rows) if hasattr(table, "take") else table[rows]


def rows_of(pieces: Iterable[Any], rows: NDArray[np.intp]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
    """Yield batches with only the given rows, which must be in ascending order, and the indices of these rows."""
    begin = 0
    for piece in pieces:
        end = begin + piece.shape[0]
        numbers = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)]
        if len(numbers):
            yield take(piece, numbers - begin), numbers
        begin = end


def ask(arguments: argparse.Namespace, streams: bool = False) -> Question:
    """Return the learning task that the arguments describe.

    The table is read in batches if `streams` is true or if it may not fit into memory.
    """
    if not 0 <= arguments.seed < 2**32:
        raise ValueError(f"--seed must be between 0 and {2**32 - 1}; got {arguments.seed}.")
    if arguments.jobs == 0:
        raise ValueError("--jobs must not be 0; give a number of threads, or omit the option to use all.")
    with status(arguments):
        file = open_table(arguments.data, form_of(arguments), numeric=arguments.numeric)
        check_form(arguments, file.format)
        second = second_column(arguments)
        target = _target(arguments, file)
        kinds = {column.name: column.kind for column in file.columns}
        features, dates, numbers, left_out = _features(arguments, file, target, second)
    mixed = [column for column in file.columns if column.mixed is not None and column.name in {target, *features}]
    settled = {*arguments.categorical, *numbers, *([target] if arguments.task == "classification" else [])}
    for column in mixed:
        if column.kind == "category" and column.name not in settled:
            _warn_of_text(file, column, column.name == target)
    warn_of_missed(file)
    beside, unit = offset_column(arguments), unit_column(arguments)
    if second is None:
        y, absent = file.vector(target)
        y, task, reason = _task(y, absent, kinds.get(target, "number"), arguments.task, target)
    else:
        y, absent = second.labels(file, "--time" if second.kind == "event" else "--target", target)
        task, reason = Ranking() if second.kind == "group" else Survival(), f"{second.kind} {second.name}"
    return Question(
        file=file, target=target, features=features,
        categorical=[
            name
            for name in features
            if name not in {*dates, *numbers} and (kinds[name] == "category" or name in arguments.categorical)
        ],
        task=task, reason=reason, rows=np.flatnonzero(~absent), y=y, second=second,
        weight=None if arguments.weight is None else _weights(file, arguments.weight),
        offset=None if beside is None else beside.scores(file), offset_column=beside,
        streams=streams or file.bytes_in_memory(len(features)) > available_memory() // 2,
        mixed=mixed, dates=dates, numbers=numbers, identifiers=left_out,
        unit=None if unit is None else unit.read(file),
    )  # fmt: skip


def _features(
    arguments: argparse.Namespace, file: DataFile, target: str, second: SecondColumn | None
) -> tuple[list[str], dict[str, DateColumn], dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the features, those that are dates or numbers in text, and the identifiers that are left out."""
    kinds = {column.name: column.kind for column in file.columns}
    for option in (
        "group", "event", "weight", "offset", "exposure", "drop", "categorical", "numeric", "groups", "time-order",
    ):  # fmt: skip
        given = getattr(arguments, option.replace("-", "_"))
        for name in [given] if isinstance(given, str) else given or []:
            if file.format == "svmlight":
                raise ValueError(f"--{option} {name}: svmlight files have no column names; omit this option.")
            check_column(name, f"--{option}", list(kinds))
    if target in arguments.drop:
        raise ValueError(f"--drop {target}: the column is the target; remove it from --drop, or choose another target.")
    beside = offset_column(arguments)
    if beside is not None and beside.name == target:
        raise ValueError(f"{beside}: the column is the target; choose another one.")
    if second is not None and second.name in {target, *arguments.drop}:
        raise ValueError(f"{second}: the column is the target, or dropped; choose another one.")
    beside_features = (arguments.group, arguments.event, arguments.weight, arguments.offset, arguments.exposure)
    kept = {*arguments.categorical, *arguments.numeric}
    not_features = {target, *beside_features, *arguments.drop, *({arguments.groups} - kept)}
    features = [name for name in kinds if name not in not_features]
    useless = [name for name in features if kinds[name] == "other"]
    if useless:
        raise ValueError(f"{file.name!r}: columns {useless} are neither numeric nor text; use --drop to ignore them.")
    if not features:
        raise ValueError(f"{file.name!r} has no features to predict {target!r} from; its columns are {list(kinds)}.")
    free = [name for name in features if name not in kept]
    dates, numbers = _derived(file, [name for name in free if kinds[name] in ("category", "time")])
    found = identifiers(file, [name for name in free if name not in {*dates, *numbers}])
    if len(found) == len(features):
        raise ValueError(
            f"{file.name!r}: all features look like identifiers: {', '.join(found)}. Use --categorical or --numeric to "
            "keep them."
        )
    return [name for name in features if name not in found], dates, numbers, found


def _derived(file: DataFile, names: Sequence[str]) -> tuple[dict[str, DateColumn], dict[str, tuple[str, ...]]]:
    """Return the columns of dates or times, and text columns that are numbers; warn about values that are neither."""
    if not names:
        return {}, {}
    looks = [look(piece) for piece in file.pieces(names)]
    found = Derivation.of(looks)
    for f, unread in found.unread(looks):
        warnings.warn(
            f"{file.name!r}: column {names[f]!r} {unread} Use --categorical {shlex.quote(names[f])} to keep all values "
            "as categories.",
            stacklevel=2,
        )
    return {names[f]: column for f, column in found.dates.items()}, {names[f]: of for f, of in found.numbers.items()}


def _weights(file: DataFile, name: str) -> Array:
    weights = as_numbers(file.vector(name)[0], "--weight", name)
    invalid = int(np.sum(~(np.isfinite(weights) & (weights >= 0.0))))
    if invalid:
        raise ValueError(
            f"--weight {name}: weights must be numbers that are not negative, but {invalid:,} of {len(weights):,} are "
            "missing, negative or infinite."
        )
    return weights


def warn_of_missed(file: DataFile) -> None:
    """Warn about values that are not numbers in columns that are read as numbers."""
    for column in file.columns:
        if column.mixed is not None and column.kind == "number":
            warnings.warn(
                f"{file.name!r}: column {column.name!r}: {_odd_in_words(column.mixed)}. They are treated as missing.",
                stacklevel=2,
            )


def _warn_of_text(file: DataFile, column: Column, is_target: bool) -> None:
    """Warn about a column that is read as text but looks numeric, and name the options that resolve this."""
    assert column.mixed is not None
    name = shlex.quote(column.name)
    otherwise = "--task classification to keep classes" if is_target else f"--categorical {name} to keep categories"
    warnings.warn(
        f"{file.name!r}: column {column.name!r} is read as text with {column.mixed.categories:,} distinct values, but "
        f"looks numeric: {_odd_in_words(column.mixed)}. Use --numeric {name} to read it as numbers (decimal commas are "
        f"supported, other text is treated as missing), or {otherwise}.",
        stacklevel=2,
    )


def _odd_in_words(mixed: Mixed) -> str:
    examples = ", ".join(map(repr, mixed.examples))
    return f"{mixed.not_numbers:,} of its {mixed.values:,} values are not plain numbers, such as {examples}"


def _target(arguments: argparse.Namespace, file: DataFile) -> str:
    if file.format == "svmlight":
        if arguments.target is not None:
            raise ValueError(f"--target {arguments.target}: svmlight files contain their labels; omit this option.")
        return "label"
    names = [column.name for column in file.columns]
    if arguments.time is not None:
        check_column(arguments.time, "--time", names)
        return str(arguments.time)
    if arguments.target is None:
        raise ValueError(f"--target is required: give the column to predict, one of {_shortened(names)}.")
    check_column(arguments.target, "--target", names)
    return str(arguments.target)


def check_column(name: str, option: str, known: Sequence[str]) -> None:
    """Raise ValueError if there is no such column, with a suggestion for a misspelt name."""
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the columns are {_shortened(known)}."
    raise ValueError(f"{option} {name}: no such column; {hint}")


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


def _task(
    y: NDArray[Any], absent: NDArray[np.bool_], kind: str, asked: str | None, target: str
) -> tuple[NDArray[Any], Task, str]:
    """Return the labels for the estimator, the task, and the reason for it."""
    present = y[~absent]
    if not len(y):
        raise ValueError(f"--target {target}: the table has no rows.")
    if not len(present):
        raise ValueError(f"--target {target}: all of its values are missing.")
    if kind in ("time", "other"):
        raise ValueError(f"--target {target}: the column is neither numeric nor text; choose another one.")
    distinct = len(np.unique(present)) if kind != "category" else len(set(present.tolist()))
    whole = kind in ("number", "truth") and _are_whole(np.asarray(present, dtype=np.float64))
    if asked is not None:
        classifies, reason = asked == "classification", "set by --task"
    elif kind in ("category", "truth"):
        classifies, reason = True, "the target is text" if kind == "category" else "the target is boolean"
    else:
        classifies = whole and distinct <= MOST_CLASSES_OF_NUMBERS
        reason = f"the target has {distinct:,} distinct {'integers' if whole else 'values'}"
    if not classifies:
        if kind == "category":
            raise ValueError(f"--task regression: the target {target!r} is text, such as {present[0]!r}.")
        return np.where(absent, np.nan, np.asarray(y, dtype=np.float64)), Regression(), reason
    if distinct > MOST_CLASSES_OF_TEXTS or (kind == "number" and not whole):
        found = f"{distinct:,} distinct values" if whole or kind == "category" else "non-integer values"
        raise ValueError(
            f"--target {target}: the column has {found}; classes must be text, booleans or integers, at most "
            f"{MOST_CLASSES_OF_TEXTS:,} of them. Choose another column, or use --task regression."
        )
    labels = _labels(y, absent, kind, present)
    return labels, Classification(np.unique(labels[~absent])), reason


def _are_whole(values: Array) -> bool:
    """Return whether all values are integers; those beyond 2^53 do not count, since all such floats are integers."""
    return bool(np.all((np.abs(values) <= 2.0**53) & (np.floor(values) == values)))


def _labels(y: NDArray[Any], absent: NDArray[np.bool_], kind: str, present: NDArray[Any]) -> NDArray[Any]:
    """Return the classes as strings, booleans or integers; rows without a label get an arbitrary class."""
    filled = np.where(absent, present[0], y)
    return filled.astype({"category": str, "truth": bool, "number": np.int64}[kind])


def make_model(question: Question, arguments: argparse.Namespace) -> Model:
    """Return the unfitted estimator."""
    parameters: dict[str, Any] = {"random_state": arguments.seed, "n_jobs": arguments.jobs}
    parameters["early_stopping"] = not arguments.no_early_stopping
    model: Model = question.task.estimator(**parameters, scoring=arguments.metric)
    try:
        scorers_of(Settings.of(model))
    except ValueError as error:
        raise ValueError(str(error).replace("scoring=", "--metric ", 1)) from error
    return model.set_params(**given_parameters(question, arguments), **_quantiles(question, model, arguments))


def _quantiles(question: Question, model: Model, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the loss that --quantiles asks for."""
    given = getattr(arguments, "quantiles", None)
    if given is None:
        return {}
    shown = f"--quantiles {' '.join(format(level, 'g') for level in given)}"
    if isinstance(question.task, Classification):
        raise ValueError(f"{shown}: the target is a class; use --task regression if it is a number.")
    if not isinstance(question.task, Regression):
        raise ValueError(f"{shown}: a model for {question.task.name} predicts no quantiles of its target; omit them.")
    if "loss" in given_parameters(question, arguments):
        raise ValueError(f"{shown} cannot be combined with --set loss=...; omit one of them.")
    try:
        return {"loss": Quantile(given)}
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from error


def given_parameters(
    question: Question, arguments: argparse.Namespace, fixed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the parameters of the estimator that the arguments set; raises ValueError for invalid ones.

    `fixed` maps parameters that cannot be set to what to do instead.
    """
    model: Model = question.task.estimator()
    given = _parse(arguments.parameters, model.get_params(deep=False))
    for name in given:
        if fixed is not None and name in fixed:
            raise ValueError(f"--set {name}={given[name]}: {fixed[name]}")
    try:
        model.set_params(**given)._validate_params()
    except ValueError as error:  # scikit-learn's message begins with "The 'name' parameter of ..."
        name = str(error).split("'")[1] if "'" in str(error) else ""
        option = f"--set {name}={given[name]}" if name in given else "--set"
        raise ValueError(f"{option}: {error}") from error
    return ({"categorical_features": arguments.categorical} if arguments.categorical else {}) | given


def _parse(given: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    """Parse NAME=VALUE items; values are JSON, or else text."""
    parsed: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item}: expected NAME=VALUE, such as learning_rate=0.05.")
        try:
            parsed[name] = json.loads(text)
        except ValueError:
            parsed[name] = {"None": None, "True": True, "False": False}.get(text, text)
    method = parsed.get("method", "fading")
    of_method = set(METHODS[method].get_params(deep=False)) - {"learner"} if method in METHODS else set()
    for name in parsed:
        _check_known(name, parsed[name], [*known, *(f"method__{parameter}" for parameter in of_method)], method)
    return parsed


def _check_known(name: str, value: object, known: list[str], method: object) -> None:
    if name in known:
        return
    hint = of_estimator(name, value, known) or f"the parameters are {', '.join(sorted(known))}."
    of_methods = name.removeprefix("method__")
    having = [other for other, of_name in METHODS.items() if of_methods in of_name.get_params(deep=False)]
    if of_methods == "learner":
        hint = "commands train trees only."
    elif having:
        with_method = "" if method in having else f" with method={' or method='.join(having)}"
        hint = f"use method__{of_methods}{with_method}."
    raise ValueError(f"--set {name}: no parameter {name!r}; {hint}")


class Parts(NamedTuple):
    """Training, validation and test rows."""

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]

    def __str__(self) -> str:
        return (
            f"{len(self.train):,} for training, {len(self.validation):,} for early stopping, {len(self.test):,} for "
            "testing"
        )


def divide(question: Question, arguments: argparse.Namespace) -> Parts:
    """Split the rows of the table, or a sample of them."""
    for option in "test_fraction", "validation_fraction":
        if not 0.0 < getattr(arguments, option) < 1.0:
            name, share = option.replace("_", "-"), getattr(arguments, option)
            raise ValueError(f"--{name} must be above 0 and below 1; got {share}.")
    rows = question.rows
    if arguments.rows is not None:
        if arguments.rows < 10:
            raise ValueError(f"--rows must be at least 10; got {arguments.rows}.")
        rows = rows[question.task.sample(question.y[rows], arguments.rows, arguments.seed)]
    elif question.streams:
        raise ValueError(
            f"{question.file.name!r} may not fit into memory; use --rows N to draw a sample of its "
            f"{question.file.n_rows:,} rows."
        )
    rows, test = question.hold_out(rows, arguments.test_fraction, arguments.seed)
    # The same rows that an estimator with this seed holds out in `agbm train`.
    train, validation = question.hold_out(rows, arguments.validation_fraction, seed_of(arguments.seed))
    return Parts(train, validation, test)
