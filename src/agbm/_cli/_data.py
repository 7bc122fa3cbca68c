"""Data on the command line: the arguments that say what to learn from what, and the rows they mean."""

from __future__ import annotations

import argparse
import json
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.losses import Array
from .._core.methods import METHODS, owners_of
from .._data.batches import Batches
from .._data.hold_out import hold_out, seed_of
from .._estimators import AGBMClassifier, AGBMRegressor
from .._study.evaluation import Metric, Split, judged
from ._files import FORMATS, Column, DataFile, available_memory, open_table, pyarrow
from ._text_numbers import Mixed

Model = AGBMClassifier | AGBMRegressor

# Whole numbers with at most so many different values are taken for classes.
MOST_CLASSES_OF_NUMBERS = 20
# Texts with more different values are taken for a mistake.
MOST_CLASSES_OF_TEXTS = 1_000


def add_file(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    """A file with a table."""
    kinds = "csv, parquet (a file or a folder of them), arrow or svmlight"
    parser.add_argument("data", nargs=None if needed else "?", help=kinds)
    parser.add_argument(
        "--format", choices=list(dict.fromkeys(FORMATS.values())), help="of the file, where its ending does not say so"
    )
    parser.add_argument("--no-header", action="store_true", help="a csv file without names: columns are c0, c1, ...")


def add_question(parser: argparse.ArgumentParser) -> None:
    """What to learn from what."""
    add_file(parser)
    parser.add_argument("--target", metavar="COLUMN", help="what to predict (not for svmlight, which has labels)")
    parser.add_argument(
        "--task", choices=("classification", "regression"), help="default: by what the target looks like, and shown"
    )
    parser.add_argument("--drop", metavar="COLUMN", nargs="+", default=[], help="columns to leave out")
    parser.add_argument(
        "--categorical", metavar="COLUMN", nargs="+", default=[], help="categories that look like numbers"
    )
    parser.add_argument(
        "--numeric", metavar="COLUMN", nargs="+", default=[],
        help="text columns to read as numbers; decimal commas are understood, other text becomes missing",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the split and of the model (%(default)s)")
    parser.add_argument("--jobs", type=int, help="threads (default: all; the model is the same for any number)")
    parser.set_defaults(weight=None)


def add_weight(parser: argparse.ArgumentParser) -> None:
    """Weights, for commands that use them; the others do not know the option."""
    parser.add_argument("--weight", metavar="COLUMN", help="weights of the rows to train on")


def add_parameters(parser: argparse.ArgumentParser, help: str) -> None:
    """Parameters of the estimator."""
    parser.add_argument("--set", metavar="NAME=VALUE", nargs="+", default=[], dest="parameters", help=help)


def add_shares(parser: argparse.ArgumentParser) -> None:
    """How rows are divided."""
    add_test_fraction(parser)
    parser.add_argument(
        "--validation-fraction", type=float, default=0.1, metavar="SHARE",
        help="of the remaining rows, for early stopping (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, metavar="N", help="use so many rows only, drawn at random")


def add_test_fraction(parser: argparse._ActionsContainer) -> None:
    """The share of the rows that is held out to test models."""
    parser.add_argument(
        "--test-fraction", type=float, default=0.2, metavar="SHARE", help="of the rows, for testing (%(default)s)"
    )


@dataclass(frozen=True)
class Question:
    """A table with labels: what to learn from what. Rows go by their numbers in the file."""

    file: DataFile
    target: str
    features: list[str]
    categorical: list[str]
    """Features that are categories, and those that text makes so."""
    classifies: bool
    reason: str
    """Why that task."""
    rows: NDArray[np.intp]
    """Those that have a label."""
    y: NDArray[Any]
    """Of all rows."""
    weight: Array | None
    streams: bool
    """Whether the table is read in pieces, since it may not fit into memory."""
    mixed: list[Column]
    """Features and target with values that are not numbers, if the column is read as numbers or seems to be."""

    def hold_out(self, rows: NDArray[np.intp], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The remaining rows, and a share of some rows that is held out."""
        remaining, held_out = hold_out(len(rows), share, self.y[rows] if self.classifies else None, seed)
        return rows[remaining], rows[held_out]

    def fit(self, model: Model, rows: NDArray[np.intp]) -> Model:
        """Fit a model to some rows; the same bits whether they are in memory or not."""
        if self.streams:
            return model.fit(Batches(lambda: self._batches(rows)))
        weight = None if self.weight is None else self.weight[rows]
        return model.fit(self.table(rows), self.y[rows], sample_weight=weight)

    def table(self, rows: NDArray[np.intp]) -> Any:
        """The features of some rows, which must fit into memory even if all of them do not."""
        if self.streams:
            return pyarrow().concat_tables([piece for piece, _ in self._pieces(rows)])
        return take(self._all, rows)

    def judge(self, models: Sequence[tuple[Model, NDArray[np.intp]]]) -> list[Metric]:
        """Metrics over the rows of all pairs, each predicted by its model."""
        rows = np.concatenate([part for _, part in models])
        found = np.concatenate([self._predict(model, part) for model, part in models])
        return judged(self.y[rows], found, models[0][0].classes_ if self.classifies else None)[0]

    @property
    def task(self) -> str:
        """In a word."""
        return "classification" if self.classifies else "regression"

    @property
    def mixed_columns(self) -> list[dict[str, Any]]:
        """`mixed` for JSON."""
        return [
            {"column": column.name, "read_as": column.kind, **vars(column.mixed)}
            for column in self.mixed
            if column.mixed is not None
        ]

    def _predict(self, model: Model, rows: NDArray[np.intp]) -> Array:
        """Probabilities of classes, or values."""
        predict = model.predict_proba if isinstance(model, AGBMClassifier) else model.predict
        if not self.streams:
            return predict(self.table(rows))
        return np.concatenate([predict(piece) for piece, _ in self._pieces(rows)])

    def _batches(self, rows: NDArray[np.intp]) -> Iterator[tuple[Any, ...]]:
        for piece, numbers in self._pieces(rows):
            vectors = [self.y] if self.weight is None else [self.y, self.weight]
            yield piece, *(vector[numbers] for vector in vectors)

    def _pieces(self, rows: NDArray[np.intp]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Pieces of the file with the wanted rows alone, and the numbers of these; rows ascend."""
        begin = 0
        for piece in self.file.pieces(self.features):
            end = begin + piece.shape[0]
            numbers = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)]
            if len(numbers):
                yield take(piece, numbers - begin), numbers
            begin = end

    @cached_property
    def _all(self) -> Any:
        return self.file.table(self.features)


def take(table: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an arrow table or of a sparse matrix."""
    return table.take(rows) if hasattr(table, "take") else table[rows]


def ask(arguments: argparse.Namespace, streams: bool = False) -> Question:
    """What the arguments mean. A table that may not fit into memory is read in pieces in any case."""
    if not 0 <= arguments.seed < 2**32:
        raise ValueError(f"--seed {arguments.seed}: must be from 0 to {2**32 - 1}.")
    if arguments.jobs == 0:
        raise ValueError("--jobs 0: give a number of threads, or leave it out for all.")
    file = open_table(arguments.data, arguments.format, header=not arguments.no_header, numeric=arguments.numeric)
    target = _target(arguments, file)
    kinds = {column.name: column.kind for column in file.columns}
    for option in ("weight", "drop", "categorical", "numeric"):
        given = getattr(arguments, option)
        for name in [given] if isinstance(given, str) else given or []:
            if file.format == "svmlight":
                raise ValueError(f"--{option} {name}: an svmlight file has no names of columns; leave it out.")
            check_column(name, f"--{option}", list(kinds))
    if target in arguments.drop:
        raise ValueError(f"--drop {target}: it is the target; leave it out of --drop, or choose another --target.")
    left_out = {target, arguments.weight, *arguments.drop}
    features = [name for name in kinds if name not in left_out]
    useless = [name for name in features if kinds[name] == "other"]
    if useless:
        raise ValueError(f"{file.name!r}: columns {useless} are neither numbers nor text; leave them out with --drop.")
    if not features:
        raise ValueError(f"{file.name!r} has no columns but {list(kinds)}; it needs some to predict {target!r} from.")
    mixed = [column for column in file.columns if column.mixed is not None and column.name in {target, *features}]
    settled = {*arguments.categorical, *([target] if arguments.task == "classification" else [])}
    for column in mixed:
        if column.kind == "category" and column.name not in settled:
            _warn_of_text(file, column, column.name == target)
    warn_of_missed(file)
    y, absent = file.vector(target)
    y, classifies, reason = _task(y, absent, kinds.get(target, "number"), arguments.task, target)
    streams = streams or file.bytes_in_memory(len(features)) > available_memory() // 2
    weight = None
    if arguments.weight is not None:
        weight = as_numbers(file.vector(arguments.weight)[0], "--weight", arguments.weight)
    categorical = [name for name in features if kinds[name] == "category" or name in arguments.categorical]
    return Question(
        file, target, features, categorical, classifies, reason, np.flatnonzero(~absent), y, weight, streams, mixed
    )


def warn_of_missed(file: DataFile) -> None:
    """Warn of values that are not numbers in columns that are read as numbers."""
    for column in file.columns:
        if column.mixed is not None and column.kind == "number":
            warnings.warn(
                f"{file.name!r}: column {column.name!r}: {_odd_in_words(column.mixed)}. They count as missing.",
                stacklevel=2,
            )


def _warn_of_text(file: DataFile, column: Column, is_target: bool) -> None:
    """Warn of a column that is read as text but looks like numbers, with what to do about it."""
    assert column.mixed is not None
    name = shlex.quote(column.name)
    otherwise = "--task classification if it has classes" if is_target else f"--categorical {name} if it has categories"
    warnings.warn(
        f"{file.name!r}: column {column.name!r} is read as text with {column.mixed.categories:,} different values, but "
        f"seems to have numbers: {_odd_in_words(column.mixed)}. Use --numeric {name} to read it as numbers (decimal "
        f"commas are understood, other text counts as missing), or {otherwise}.",
        stacklevel=2,
    )


def _odd_in_words(mixed: Mixed) -> str:
    examples = ", ".join(map(repr, mixed.examples))
    return f"{mixed.not_numbers:,} of its {mixed.values:,} values are not plain numbers, such as {examples}"


def _target(arguments: argparse.Namespace, file: DataFile) -> str:
    if file.format == "svmlight":
        if arguments.target is not None:
            raise ValueError(f"--target {arguments.target}: an svmlight file has its labels; leave it out.")
        return "label"
    names = [column.name for column in file.columns]
    if arguments.target is None:
        raise ValueError(f"--target is missing: name the column to predict, one of {_shortened(names)}.")
    check_column(arguments.target, "--target", names)
    return str(arguments.target)


def check_column(name: str, option: str, known: Sequence[str]) -> None:
    """Whether there is such a column; if not, which one may be meant."""
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"columns are {_shortened(known)}."
    raise ValueError(f"{option} {name}: there is no such column; {hint}")


def as_numbers(values: NDArray[Any], option: str, name: str) -> Array:
    """A column that must have numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{option} {name}: the column must have numbers: {error}.") from error


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


def _task(
    y: NDArray[Any], absent: NDArray[np.bool_], kind: str, asked: str | None, target: str
) -> tuple[NDArray[Any], bool, str]:
    """Labels as the estimator should see them, whether they are classes, and why."""
    present = y[~absent]
    if not len(y):
        raise ValueError(f"--target {target}: the table has no rows.")
    if not len(present):
        raise ValueError(f"--target {target}: all of its values are missing.")
    if kind in ("time", "other"):
        raise ValueError(f"--target {target}: it has neither numbers nor text; predict another column.")
    distinct = len(np.unique(present)) if kind != "category" else len(set(present.tolist()))
    whole = kind in ("number", "truth") and _are_whole(np.asarray(present, dtype=np.float64))
    if asked is not None:
        classifies, reason = asked == "classification", "as asked"
    elif kind in ("category", "truth"):
        classifies, reason = True, "the target is text" if kind == "category" else "the target is true or false"
    else:
        classifies = whole and distinct <= MOST_CLASSES_OF_NUMBERS
        reason = f"the target has {distinct:,} different {'whole numbers' if whole else 'numbers'}"
    if not classifies:
        if kind == "category":
            raise ValueError(f"--task regression: the target {target!r} is text, such as {present[0]!r}.")
        return np.where(absent, np.nan, np.asarray(y, dtype=np.float64)), False, reason
    if distinct > MOST_CLASSES_OF_TEXTS or (kind == "number" and not whole):
        what = f"{distinct:,} different values" if whole or kind == "category" else "numbers that are not whole"
        raise ValueError(f"--target {target}: {what} are no classes; predict another column, or --task regression.")
    return _labels(y, absent, kind, present), True, reason


def _are_whole(values: Array) -> bool:
    """Whether all are whole numbers; beyond 2^53 there are no others, which says nothing."""
    return bool(np.all((np.abs(values) <= 2.0**53) & (np.floor(values) == values)))


def _labels(y: NDArray[Any], absent: NDArray[np.bool_], kind: str, present: NDArray[Any]) -> NDArray[Any]:
    """Classes as texts, truth values or whole numbers; those of rows without a label are never used."""
    filled = np.where(absent, present[0], y)
    return filled.astype({"category": str, "truth": bool, "number": np.int64}[kind])


def make_model(question: Question, arguments: argparse.Namespace) -> Model:
    """The estimator, unfitted."""
    parameters: dict[str, Any] = {"random_state": arguments.seed, "n_jobs": arguments.jobs}
    parameters["early_stopping"] = not arguments.no_early_stopping
    return _estimator(question)(**parameters).set_params(**given_parameters(question, arguments))


def given_parameters(question: Question, arguments: argparse.Namespace) -> dict[str, Any]:
    """Parameters of the estimator that the arguments give."""
    given = {"categorical_features": question.categorical} if arguments.categorical else {}
    return given | _parse(arguments.parameters, _estimator(question)().get_params(deep=False))


def _estimator(question: Question) -> type[AGBMClassifier] | type[AGBMRegressor]:
    return AGBMClassifier if question.classifies else AGBMRegressor


def _parse(given: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    """NAME=VALUE, values as JSON or else as text."""
    parsed: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item}: give NAME=VALUE, such as learning_rate=0.05.")
        try:
            parsed[name] = json.loads(text)
        except ValueError:
            parsed[name] = {"None": None, "True": True, "False": False}.get(text, text)
    method = parsed.get("method", "fading")
    of_method = METHODS[method].get_params(deep=False) if method in METHODS else {}
    for name in parsed:
        _check_known(name, [*known, *(f"method__{parameter}" for parameter in of_method)])
    return parsed


def _check_known(name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}."
    owners = [f"{kind.__name__} as method__{name}" for kind in owners_of(name)]
    if owners:
        hint = f"it is a parameter of the method {' and '.join(owners)}."
    raise ValueError(f"--set {name}: there is no parameter {name!r}; {hint}")


def divide(question: Question, arguments: argparse.Namespace) -> Split:
    """Training, validation and test rows, of all rows or of some."""
    for option in "test_fraction", "validation_fraction":
        if not 0.0 < getattr(arguments, option) < 1.0:
            raise ValueError(f"--{option.replace('_', '-')} {getattr(arguments, option)}: must be above 0 and below 1.")
    rows = question.rows
    if arguments.rows is not None:
        if arguments.rows < 10:
            raise ValueError(f"--rows {arguments.rows}: must be at least 10.")
        rng = np.random.default_rng(arguments.seed)
        rows = np.sort(rng.choice(rows, min(arguments.rows, len(rows)), replace=False))
    elif question.streams:
        raise ValueError(
            f"{question.file.name!r} may not fit into memory; give --rows N to draw so many of its "
            f"{question.file.n_rows:,} rows."
        )
    rows, test = question.hold_out(rows, arguments.test_fraction, arguments.seed)
    # The rows that an estimator with this seed would hold out, as in `agbm train`.
    train, validation = question.hold_out(rows, arguments.validation_fraction, seed_of(arguments.seed))
    pieces = [(question.table(part), question.y[part]) for part in (train, validation, test)]
    return Split(*pieces[0], *pieces[1], *pieces[2])


def rows_in_words(split: Split) -> str:
    """How many rows serve what."""
    return f"{len(split.y):,} to train on, {len(split.y_val):,} to stop early by, {len(split.y_test):,} to judge by"
