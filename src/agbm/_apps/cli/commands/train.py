"""`agbm train`: train a model on a table in a file and evaluate it on a test set."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ...._core.methods import method_of
from ...._fit import auto
from ...._storage.checkpoint import Checkpoint
from ... import report as report
from ...evaluation.metrics import Metric
from ..describe import describe, describe_columns, notes_of, title
from ..model import evaluate, important, metrics_in_words, open_labelled, shares_in_words, training_in_words
from ..output import plain, show, show_json, speaks
from ..paths import check_files, saving, written
from ..reading.data import Model, Question, ask, check_column, make_model
from ..reading.files import open_table
from ..reading.offsets import of_rows
from ..reading.sources import STANDARD_INPUT
from ..shared_options import form_of
from .report import TestRows, write_page

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def run(arguments: argparse.Namespace) -> None:
    """Train, evaluate and save the model, and print the results."""
    _check(arguments)
    shows = speaks(arguments)
    question = ask(arguments, streams=arguments.stream)
    if arguments.test is not None:
        _check_test(question, arguments)
    parts = parts_of(question, arguments)
    folds = [] if arguments.folds is None else _folds(question, arguments)
    model = make_model(question, arguments)
    if question.offset_column is not None:
        question.offset_column.check_loss(model.loss)
    if shows:
        print(title(question))
        show(describe(question) | _rows_in_words(question, parts, model, arguments))
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

        def findings() -> report.Findings:
            test = _predictions(question, model, parts[1], arguments)
            columns = describe_columns(question)
            return report.findings_about(model, metrics=metrics, seconds=seconds, columns=columns, test=test)

        write_page(arguments, arguments.report, findings)
    _say(arguments, question, model, metrics, seconds)


def _check(arguments: argparse.Namespace) -> None:
    """Raise errors that would otherwise occur after the training."""
    if arguments.test == STANDARD_INPUT:
        raise ValueError("--test -: only DATA can be standard input; use a file for --test.")
    if not 0.0 <= arguments.test_fraction < 1.0:
        raise ValueError(f"--test-fraction must be at least 0 and below 1; got {arguments.test_fraction}.")
    if arguments.folds is not None and arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2; got {arguments.folds}.")
    check_files(
        reads={"DATA": arguments.data, "--test": arguments.test},
        writes={"--out": arguments.out, "--report": arguments.report},
        resumes={"--checkpoint": arguments.checkpoint},
    )
    if arguments.report is not None:
        report.check_matplotlib()


def _check_test(question: Question, arguments: argparse.Namespace) -> None:
    """Raise ValueError if the test file lacks the target or a feature."""
    test = open_table(arguments.test, form_of(arguments), n_features=len(question.features))
    if "svmlight" not in (test.format, question.file.format):
        columns = (question.offset_column, question.second)  # groups and times of test rows are not needed
        beside = [column.name for column in columns if column is not None]
        for name in [*question.features, question.target, *beside]:
            check_column(name, f"--test {arguments.test}", [column.name for column in test.columns])


def parts_of(question: Question, arguments: argparse.Namespace) -> Fold:
    """Return the training and test rows."""
    share = 0.0 if arguments.test is not None or arguments.folds is not None else arguments.test_fraction
    return question.hold_out(question.rows, share, arguments.seed)


def _rows_in_words(question: Question, parts: Fold, model: Model, arguments: argparse.Namespace) -> dict[str, str]:
    train = f"{len(parts[0]):,} for training"
    if model.early_stopping and model.validation_fraction is not None:
        n_members = auto.n_members(model.n_members, method_of(model.method), len(parts[0]))
        share = f"{100 * model.validation_fraction:g} %"
        train += f" ({share} held out by each member)" if n_members > 1 else f" ({share} for early stopping)"
    test = arguments.test if arguments.test is not None else f"{len(parts[1]):,}"
    if arguments.folds is not None:
        test = f"{arguments.folds}-fold cross-validation"
    lines = {"rows": f"{train}; {test} for testing"}
    if question.unit is not None:
        lines[question.unit.column.option] = str(question.unit)
    if arguments.weight is not None:
        lines["weights"] = f"{arguments.weight}: for training only; test metrics are unweighted"
    return lines


def _evaluate(
    question: Question, model: Model, test: NDArray[np.intp], folds: Sequence[Fold], arguments: argparse.Namespace
) -> Sequence[Metric]:
    if arguments.test is not None:
        return evaluate(model, arguments.test, question.target, form_of(arguments))
    if folds:
        verbose = clone(model).set_params(verbose=int(speaks(arguments)))
        return _cross_validate(question, verbose, folds)
    return question.evaluate([(model, test)]) if len(test) else []


def _predictions(
    question: Question, model: Model, test: NDArray[np.intp], arguments: argparse.Namespace
) -> report.Predictions | None:
    """Return the predictions for the test rows; None for folds, whose rows other models predict."""
    if arguments.test is not None:
        file, features = open_labelled(model, arguments.test, question.target, form_of(arguments))
        return report.predictions_of(model, *TestRows.of(model, file, features, question.target))
    if not len(test):
        return None
    unit, groups = question.unit, None
    if unit is not None and unit.column.unit == "groups" and report.has_intervals(model):
        groups = unit.values[test]
    offset = of_rows(question.offset, test)
    return report.predictions_of(model, [question.table(test)], question.y[test], offset, groups)


def _folds(question: Question, arguments: argparse.Namespace) -> list[Fold]:
    """Return the training and test rows of each fold."""
    try:
        return question.folds(question.rows, arguments.folds, arguments.seed)
    except ValueError as error:
        raise ValueError(f"--folds {arguments.folds}: {error}") from error


def _cross_validate(question: Question, model: Model, folds: Sequence[Fold]) -> Sequence[Metric]:
    """Evaluate each row with the model whose training set does not contain it."""
    return question.evaluate([(question.fit(clone(model), train), test) for train, test in folds])


def _say(
    arguments: argparse.Namespace, question: Question, model: Model, metrics: Sequence[Metric], seconds: float
) -> None:
    if arguments.json:
        found = {
            "model": str(arguments.out),
            "task": question.task.name,
            "target": question.target,
            "features": question.features,
            "categories": question.categorical,
            "identifiers": list(question.identifiers),
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
        facts[label] = metrics_in_words(metrics)
    facts["importance"] = shares_in_words(important(model))
    facts["saved to"] = written(arguments.out)
    if arguments.report is not None:
        facts["report"] = written(arguments.report)
    show(facts)
