"""`agbm tune`: search for better parameters than the defaults, and measure the gain on a test set."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ...._fit.progress import counting, readable
from ...evaluation.tasks import Regression
from ...evaluation.tuning import Trial, Tuned, tune
from ...evaluation.tuning.space import SET_BY_SEARCH
from ..describe import describe, notes_of, title
from ..output import plain, show, show_json, show_table, speaks
from ..paths import check_files, save, written
from ..reading.data import Question, ask, divide, given_parameters

FIXED = dict.fromkeys(SET_BY_SEARCH, "the search sets this parameter itself; omit it.") | {
    "random_state": "use --seed instead.",
    "n_jobs": "use --jobs instead.",
}
"""Parameters that --set cannot set."""


def run(arguments: argparse.Namespace) -> None:
    """Search, evaluate and save the best model, and print the results."""
    for name in ("seconds", "trials"):
        given = getattr(arguments, name)
        if given is not None and not given > 0:
            raise ValueError(f"--{name} must be above 0; got {given}.")
    study = arguments.study or arguments.out.with_name(f"{arguments.out.name}.study")
    check_files(reads={"DATA": arguments.data}, writes={"--out": arguments.out}, resumes={"--study": study})
    shows = speaks(arguments)
    question = ask(arguments)
    parameters = given_parameters(question, arguments, FIXED)
    parts = divide(question, arguments)
    split = question.split(parts)
    if shows:
        print(title(question))
        show(describe(question) | {"rows": str(parts), "study": str(study)})
    seconds = 300.0 if arguments.seconds is None and arguments.trials is None else arguments.seconds
    with ExitStack() as stack:
        on_trial = _progress(stack, question, seconds, arguments.trials) if shows else None
        tuned = tune(
            split, question.task,
            study_path=study, seed=arguments.seed, threads=arguments.jobs, seconds=seconds, trials=arguments.trials,
            parameters=parameters, on_trial=on_trial,
        )  # fmt: skip
    tuned.model.notes_.update(
        notes_of(question, str(parts), arguments.command_line),
        metrics=json.dumps(plain(tuned.metrics), ensure_ascii=False),
        gain=tuned.verdict,
    )
    save(tuned.model, arguments.out)
    _say(tuned, question, arguments)
    if tuned.interrupted:
        raise KeyboardInterrupt


def _progress(
    stack: ExitStack, question: Question, seconds: float | None, trials: int | None
) -> Callable[[Trial], None]:
    """Return a function that shows progress as trials, or as seconds if only the time is limited."""
    update = stack.enter_context(counting("tune"))
    count = 0

    def on_trial(trial: Trial) -> None:
        nonlocal count
        count += 1
        text = f"trial {trial.number}, lowest validation {_loss_name(question)} {_loss(question, trial.best_loss)}"
        if trials is not None:
            update(count, trials, text)
        elif seconds is not None:
            update(min(round(trial.seconds), round(seconds)), round(seconds), text)

    return on_trial


def _loss_name(question: Question) -> str:
    return "RMSE" if isinstance(question.task, Regression) else "loss"


def _loss(question: Question, loss: float) -> str:
    """Return a log loss, or the root of a mean squared error, which has the unit of the labels."""
    return readable(math.sqrt(loss) if isinstance(question.task, Regression) else loss, 5)


def _say(tuned: Tuned, question: Question, arguments: argparse.Namespace) -> None:
    if arguments.json:
        names = ("parameters", "is_default", "validation_loss", "default_validation_loss", "metrics", "default_metrics")
        found: dict[str, Any] = {name: getattr(tuned, name) for name in (*names, "gain", "verdict", "complete")}
        found |= {"pruned": tuned.pruned, "seconds": tuned.seconds, "model": str(arguments.out)}
        show_json(found | {"identifiers": list(question.identifiers), "mixed_columns": question.mixed_columns})
        return
    header = ["", f"validation {_loss_name(question)}", *(metric.name for metric in tuned.metrics)]
    rows = [
        ["default", _loss(question, tuned.default_validation_loss), *map(str, tuned.default_metrics)],
        ["best", _loss(question, tuned.validation_loss), *map(str, tuned.metrics)],
    ]
    show_table(header, rows)
    seconds = readable(tuned.seconds, 3)
    settings = [f"{name}={json.dumps(plain(value))}" for name, value in tuned.parameters.items()]
    show(
        {
            "gain": tuned.verdict,
            "trials": f"{tuned.complete:,} completed, {tuned.pruned:,} pruned; {seconds} s in this run",
            "parameters": f"--set {shlex.join(settings)}",
            "saved to": written(arguments.out),
        }
    )
