"""`agbm train`: train a model on a table in a file and evaluate it on a test set."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .. import _auto
from .._core.methods import method_of
from .._storage.checkpoint import Checkpoint
from .._study.evaluation import Metric
from ._data import (
    Model,
    Question,
    add_parameters,
    add_question,
    add_test_fraction,
    add_weight,
    ask,
    check_column,
    make_model,
)
from ._describe import describe, describe_columns, notes_of, title
from ._files import open_table
from ._model import evaluate, important, shares_in_words, training_in_words
from ._output import add_command, add_output, plain, show, show_json, speaks
from ._paths import check_files, saving, written
from .report import write_page

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]

EXAMPLES = """
  agbm train adult.csv --target income --out adult.agbm
  agbm train houses.parquet --target price --out houses.agbm --folds 5 --report houses.html
  agbm train a1a.svmlight --out a1a.agbm --set method=agbm learning_rate=0.05 max_iter=500
  agbm train clicks/ --target clicked --out clicks.agbm --test later/ --checkpoint clicks.checkpoint"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm train DATA --target COLUMN --out MODEL [options]",
        help="train a model on a table in a file",
        description="Train a model on a table in a file. The types of the columns and the task (classification or "
        "regression) are inferred and printed. By default 20 % of the rows are held out as a test set, and 10 % of the "
        "remaining rows are used for early stopping. A table that does not fit into memory is read in batches.",
        examples=EXAMPLES,
    )
    add_question(parser)
    add_weight(parser)
    parser.add_argument("--out", metavar="MODEL", type=Path, required=True, help="output file, such as m.agbm")
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test", metavar="FILE", help="evaluate the model on the rows of another file")
    add_test_fraction(test)
    test.add_argument(
        "--folds",
        type=int,
        metavar="K",
        help="evaluate by K-fold cross-validation; the saved model is trained on all rows",
    )
    add_parameters(parser, "parameters of the model, such as method=agbm learning_rate=0.05 max_iter=500")
    parser.add_argument("--no-early-stopping", action="store_true", help="train for max_iter iterations (default: 100)")
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        help="save checkpoints during training; the same command resumes from this file",
    )
    parser.add_argument("--stream", action="store_true", help="read in batches even if the table fits into memory")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write an HTML report, such as m.html")
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Train, evaluate and save the model, and print the results."""
    _check(arguments)
    shows = speaks(arguments)
    question = ask(arguments, streams=arguments.stream)
    if arguments.test is not None:
        _check_test(question, arguments)
    parts = _parts(question, arguments)
    folds = [] if arguments.folds is None else _folds(question, arguments)
    model = make_model(question, arguments)
    if shows:
        print(title(question))
        show(describe(question) | _rows_in_words(parts, model, arguments))
    model.set_params(verbose=int(shows))
    if arguments.checkpoint is not None:
        model.set_params(callbacks=[Checkpoint(arguments.checkpoint)])
    began = time.perf_counter()
    question.fit(model, parts[0])
    seconds = time.perf_counter() - began
    model.set_params(verbose=0, callbacks=None)
    rows = f"{len(parts[0])} for training, {len(parts[1])} for testing, {question.file.n_rows} in the file"
    model.notes_.update(notes_of(question, rows, arguments.command_line))
    with saving(model, arguments.out):
        metrics = _evaluate(question, model, parts[1], folds, arguments)
        model.notes_["metrics"] = json.dumps(plain(list(metrics)), ensure_ascii=False)
    if arguments.report is not None:
        write_page(arguments.report, model, metrics, seconds, describe_columns(question))
    _say(arguments, question, model, metrics, seconds)


def _check(arguments: argparse.Namespace) -> None:
    """Raise errors that would otherwise occur after the training."""
    if not 0.0 <= arguments.test_fraction < 1.0:
        raise ValueError(f"--test-fraction must be at least 0 and below 1; got {arguments.test_fraction}.")
    if arguments.folds is not None and arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2; got {arguments.folds}.")
    check_files(
        reads={"DATA": arguments.data, "--test": arguments.test},
        writes={"--out": arguments.out, "--report": arguments.report},
        resumes={"--checkpoint": arguments.checkpoint},
    )


def _check_test(question: Question, arguments: argparse.Namespace) -> None:
    """Raise ValueError if the test file lacks the target or a feature."""
    test = open_table(
        arguments.test, arguments.format, header=not arguments.no_header, n_features=len(question.features)
    )
    if "svmlight" not in (test.format, question.file.format):
        for name in [*question.features, question.target]:
            check_column(name, f"--test {arguments.test}", [column.name for column in test.columns])


def _parts(question: Question, arguments: argparse.Namespace) -> Fold:
    """Return the training and test rows."""
    share = 0.0 if arguments.test is not None or arguments.folds is not None else arguments.test_fraction
    return question.hold_out(question.rows, share, arguments.seed)


def _rows_in_words(parts: Fold, model: Model, arguments: argparse.Namespace) -> dict[str, str]:
    train = f"{len(parts[0]):,} for training"
    if model.early_stopping and model.validation_fraction is not None:
        n_members = _auto.n_members(model.n_members, method_of(model.method), uses_trees=True)
        share = f"{100 * model.validation_fraction:g} %"
        train += f" ({share} held out by each member)" if n_members > 1 else f" ({share} for early stopping)"
    test = arguments.test if arguments.test is not None else f"{len(parts[1]):,}"
    if arguments.folds is not None:
        test = f"{arguments.folds}-fold cross-validation"
    lines = {"rows": f"{train}; {test} for testing"}
    if arguments.weight is not None:
        lines["weights"] = f"{arguments.weight}: for training only; test metrics are unweighted"
    return lines


def _evaluate(
    question: Question, model: Model, test: NDArray[np.intp], folds: Sequence[Fold], arguments: argparse.Namespace
) -> Sequence[Metric]:
    if arguments.test is not None:
        return evaluate(model, arguments.test, question.target, arguments.format, header=not arguments.no_header)
    if folds:
        verbose = clone(model).set_params(verbose=int(speaks(arguments)))
        return _cross_validate(question, verbose, folds)
    return question.evaluate([(model, test)]) if len(test) else []


def _folds(question: Question, arguments: argparse.Namespace) -> list[Fold]:
    """Return the training and test rows of each fold. Classes with a single row are in all training sets."""
    from sklearn.model_selection import KFold, StratifiedKFold

    rows, alone = question.rows, question.rows[:0]
    if question.classifies:
        _, codes, counts = np.unique(question.y[rows], return_inverse=True, return_counts=True)
        rows, alone = rows[counts[codes] > 1], rows[counts[codes] == 1]
    kind: Any = StratifiedKFold if question.classifies else KFold
    splitter = kind(arguments.folds, shuffle=True, random_state=arguments.seed)
    try:
        folds = list(splitter.split(rows, question.y[rows]))
    except ValueError as error:
        raise ValueError(f"--folds {arguments.folds}: {error}") from error
    return [(np.sort(np.concatenate([rows[train], alone])), rows[test]) for train, test in folds]


def _cross_validate(question: Question, model: Model, folds: Sequence[Fold]) -> Sequence[Metric]:
    """Evaluate each row with the model whose training set does not contain it."""
    return question.evaluate([(question.fit(clone(model), train), test) for train, test in folds])


def _say(
    arguments: argparse.Namespace, question: Question, model: Model, metrics: Sequence[Metric], seconds: float
) -> None:
    if arguments.json:
        found = {
            "model": str(arguments.out),
            "task": question.task,
            "target": question.target,
            "features": question.features,
            "categories": question.categorical,
            "mixed_columns": question.mixed_columns,
            "trees": model.n_trees_,
            "iterations": model.n_iter_,
            "best_iteration": model.best_iteration_,
            "seconds": seconds,
            "metrics": list(metrics),
            "importances": important(model),
            "command": arguments.command_line,
        }
        show_json(found)
        return
    facts = {"model": training_in_words(model, seconds)}
    if metrics:
        label = f"{arguments.folds} folds" if arguments.folds is not None else "test"
        facts[label] = "; ".join(f"{metric.name} {metric}" for metric in metrics)
    facts["importance"] = shares_in_words(important(model))
    facts["saved to"] = written(arguments.out)
    if arguments.report is not None:
        facts["report"] = written(arguments.report)
    show(facts)
