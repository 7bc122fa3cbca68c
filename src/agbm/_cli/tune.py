"""`agbm tune`: a search for better parameters than the default, with what it gains on rows that it has not seen."""

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
  agbm tune adult.csv --target income --seconds 600 --out adult.agbm    (again: goes on where the first one ended)
  agbm tune houses.parquet --target price --trials 50 --set max_depth=4 --out houses.agbm"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its arguments."""
    parser = add_command(
        commands,
        "agbm tune DATA --target COLUMN --out MODEL [options]",
        help="search for better parameters than the default",
        description="Search for better parameters than the default with Optuna, for some seconds or some trials. The "
        "default is the first trial. All trials are kept in a file, so that the same command goes on. At the end the "
        "best parameters and the default are judged by rows that the search has not seen.",
        examples=EXAMPLES,
    )
    add_question(parser)
    parser.add_argument("--out", metavar="MODEL", type=Path, required=True, help="file for the best model")
    parser.add_argument("--seconds", type=float, help="to search for (default: 300, where --trials is not given)")
    parser.add_argument("--trials", type=int, help="to make at most")
    parser.add_argument("--study", metavar="FILE", type=Path, help="file for the trials (default: MODEL.study)")
    add_parameters(parser, "parameters not to search")
    add_shares(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Search, judge, save, say what was found."""
    for name in ("seconds", "trials"):
        given = getattr(arguments, name)
        if given is not None and not given > 0:
            raise ValueError(f"--{name} {given}: must be above 0.")
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
    """Trials against their number, or seconds against theirs."""
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
            "trials": f"{tuned.complete:,} to their end, {tuned.pruned:,} given up; {tuned.seconds:.3g} s this time",
            "parameters": f"--set {shlex.join(settings)}",
            "written": written(arguments.out),
        }
    )
