"""`agbm tune`: search for better parameters than the defaults, and measure the gain on a test set."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .._progress import counting
from .._study.tuning import Trial, Tuned, tune
from ._data import Question, add_parameters, add_question, add_shares, ask, divide, given_parameters, rows_in_words
from ._describe import describe, notes_of, title
from ._output import add_command, add_output, plain, show, show_json, show_table, speaks
from ._paths import check_files, save, written

EXAMPLES = """
  agbm tune adult.csv --target income --seconds 600 --out adult.agbm
  agbm tune adult.csv --target income --seconds 600 --out adult.agbm    (again: resumes the search)
  agbm tune houses.parquet --target price --trials 50 --set max_depth=4 --out houses.agbm"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm tune DATA --target COLUMN --out MODEL [options]",
        help="search for better parameters than the defaults",
        description="Search for better parameters than the defaults with Optuna, for a time limit or a number of "
        "trials. The defaults are the first trial. All trials are stored in a file, so that the same command resumes "
        "the search. At the end the best parameters and the defaults are evaluated on a test set that the search has "
        "not used.",
        examples=EXAMPLES,
    )
    add_question(parser)
    parser.add_argument("--out", metavar="MODEL", type=Path, required=True, help="output file for the best model")
    parser.add_argument(
        "--seconds", type=float, help="time limit of the search (default: 300 if --trials is not given)"
    )
    parser.add_argument("--trials", type=int, help="maximum number of trials")
    parser.add_argument("--study", metavar="FILE", type=Path, help="file that stores the trials (default: MODEL.study)")
    add_parameters(parser, "fixed parameters, which are not searched")
    add_shares(parser)
    add_output(parser)
    parser.set_defaults(run=run)


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
    split = divide(question, arguments)
    if shows:
        print(title(question))
        show(describe(question) | {"rows": rows_in_words(split), "study": str(study)})
    seconds = 300.0 if arguments.seconds is None and arguments.trials is None else arguments.seconds
    with ExitStack() as stack:
        on_trial = _progress(stack, seconds, arguments.trials) if shows else None
        tuned = tune(
            split, question.classifies,
            study_path=study, seed=arguments.seed, threads=arguments.jobs, seconds=seconds, trials=arguments.trials,
            parameters=given_parameters(question, arguments), on_trial=on_trial,
        )  # fmt: skip
    tuned.model.notes_.update(
        notes_of(question, rows_in_words(split), arguments.command_line),
        metrics=json.dumps(plain(tuned.metrics), ensure_ascii=False),
        gain=tuned.verdict,
    )
    save(tuned.model, arguments.out)
    _say(tuned, question, arguments)
    if tuned.interrupted:
        raise KeyboardInterrupt


def _progress(stack: ExitStack, seconds: float | None, trials: int | None) -> Callable[[Trial], None]:
    """Return a function that shows progress as trials, or as seconds if only the time is limited."""
    update = stack.enter_context(counting("tune"))
    count = 0

    def on_trial(trial: Trial) -> None:
        nonlocal count
        count += 1
        text = f"trial {trial.number}, lowest validation loss {trial.best_loss:.5g}"
        if trials is not None:
            update(count, trials, text)
        elif seconds is not None:
            update(min(round(trial.seconds), round(seconds)), round(seconds), text)

    return on_trial


def _say(tuned: Tuned, question: Question, arguments: argparse.Namespace) -> None:
    if arguments.json:
        names = ("parameters", "is_default", "validation_loss", "default_validation_loss", "metrics", "default_metrics")
        found: dict[str, Any] = {name: getattr(tuned, name) for name in (*names, "gain", "verdict", "complete")}
        found |= {"pruned": tuned.pruned, "seconds": tuned.seconds, "model": str(arguments.out)}
        show_json(found | {"mixed_columns": question.mixed_columns})
        return
    header = ["", "validation loss", *(metric.name for metric in tuned.metrics)]
    rows = [
        ["default", f"{tuned.default_validation_loss:.5g}", *map(str, tuned.default_metrics)],
        ["best", f"{tuned.validation_loss:.5g}", *map(str, tuned.metrics)],
    ]
    show_table(header, rows)
    settings = [f"{name}={json.dumps(plain(value))}" for name, value in tuned.parameters.items()]
    show(
        {
            "gain": tuned.verdict,
            "trials": f"{tuned.complete:,} completed, {tuned.pruned:,} pruned; {tuned.seconds:.3g} s in this run",
            "parameters": f"--set {shlex.join(settings)}",
            "saved to": written(arguments.out),
        }
    )
