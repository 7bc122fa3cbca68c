"""`agbm compare`: compare methods and other libraries on a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .._auto import ITERATIONS
from .._progress import counting
from .._study.comparison import METHODS, compare
from .._study.evaluation import Metric, Split, Tried, paired_difference, reached
from .._study.peers import PEERS, installed_peers
from ._data import Question, add_parameters, add_question, add_shares, ask, divide, given_parameters, rows_in_words
from ._describe import describe, describe_columns, in_short, title
from ._output import add_command, add_output, show, show_json, show_table, speaks
from ._paths import check_files, written
from .report import write_findings

EXAMPLES = """
  agbm compare adult.csv --target income --report adult.html
  agbm compare houses.parquet --target price --methods fading gbm --peers LightGBM
  agbm compare clicks/ --target clicked --rows 200000 --peers"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "agbm compare DATA --target COLUMN [options]",
        help="compare methods and other libraries on a table",
        description="Train all methods, and other boosting libraries that are installed, on the same rows of a table. "
        "All use the same validation rows and the same patience for early stopping and are evaluated on the same test "
        "rows; all other settings are the defaults of each library.",
        examples=EXAMPLES,
    )
    add_question(parser)
    parser.add_argument(
        "--methods",
        nargs="*",
        choices=METHODS,
        default=METHODS,
        metavar="METHOD",
        help=f"methods of agbm: {', '.join(METHODS)}",
    )
    parser.add_argument(
        "--peers", nargs="*", choices=list(PEERS), metavar="LIBRARY",
        help=f"other libraries: {', '.join(PEERS)} (default: all that are installed)",
    )  # fmt: skip
    add_parameters(parser, "parameters of the agbm methods")
    add_shares(parser)
    parser.add_argument(
        "--max-iter", type=int, default=ITERATIONS, help="maximum number of iterations (default: %(default)s)"
    )
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write an HTML report, such as m.html")
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the comparison and print the results."""
    check_files(reads={"DATA": arguments.data}, writes={"--report": arguments.report})
    shows = speaks(arguments)
    question = ask(arguments)
    split = divide(question, arguments)
    if shows:
        print(title(question))
        show(describe(question) | {"rows": rows_in_words(split)})
    peers = installed_peers() if arguments.peers is None else arguments.peers
    contenders = [*arguments.methods, *peers]
    tried = sorted(_run(split, question, contenders, arguments), key=_main)
    if arguments.json:
        show_json(
            {
                "command": arguments.command_line,
                "mixed_columns": question.mixed_columns,
                "contenders": [_plain(t, tried[0]) for t in tried],
            }
        )
    else:
        _show(tried)
    if arguments.report is not None:  # last, so that the results are shown even if it cannot be written
        ours = [t for t in tried if t.model is not None]
        write_findings(
            arguments.report,
            title=f"{question.target}: methods and libraries compared",
            command=arguments.command_line,
            data=in_short(question) | {"rows": rows_in_words(split)},
            columns=describe_columns(question),
            tried=tried,
            model=ours[0].model if ours else None,
            seed=str(arguments.seed),
        )
        if not arguments.json:
            print(written(arguments.report))
    if len(tried) < len(contenders):
        raise KeyboardInterrupt
    if all(t.failure for t in tried):
        raise ValueError(f"no model could be trained; {tried[0].name}: {tried[0].failure}")


def _run(split: Split, question: Question, contenders: Sequence[str], arguments: argparse.Namespace) -> list[Tried]:
    """Return the results of the contenders; after an interrupt, of those that were finished."""
    runs = compare(
        split, question.classifies, contenders,
        seed=arguments.seed, threads=arguments.jobs, max_iter=arguments.max_iter,
        parameters=given_parameters(question, arguments),
    )  # fmt: skip
    tried: list[Tried] = []
    with counting("compare") if speaks(arguments) else nullcontext(_silent) as update:
        try:
            for name in contenders:
                update(len(tried), len(contenders), name)
                tried.append(next(runs))
            update(len(contenders), len(contenders))
        except KeyboardInterrupt:
            if not tried:  # otherwise the finished ones are shown
                raise
    return tried


def _silent(done: int, total: int, text: str = "") -> None:
    """Show no progress."""


def _main(tried: Tried) -> float:
    """Return the metric to rank by: the first one, which is a loss."""
    return tried.metrics[0].value if tried.metrics else np.inf


def _plain(tried: Tried, best: Tried) -> dict[str, Any]:
    found = {name: value for name, value in vars(tried).items() if name not in ("model", "losses")}
    return found | {"above_best": None if tried.losses is None else _above(tried, best)}


def _above(tried: Tried, best: Tried) -> Metric:
    """Return the difference to the best model in test loss, with a paired interval."""
    assert tried.losses is not None
    assert best.losses is not None
    return paired_difference("loss above the best", tried.losses, best.losses)


def _show(tried: Sequence[Tried]) -> None:
    """Print a table, best first, with the trees and time the default needs to match each validation loss."""
    default = next((t for t in tried if t.name == METHODS[0] and not t.failure), None)
    done = [t for t in tried if not t.failure]
    if done:
        names = [metric.name for metric in done[0].metrics]
        header = ["", *names, "trees", "seconds", *([f"{METHODS[0]} matches it after"] if default else [])]
        show_table(header, [_row(t, default) for t in done])
        close = [t.name for t in done[1:] if _above(t, done[0]).low <= 0.0]
        if close:
            print(
                f"  No significant difference from {done[0].name} on the test rows (paired, 95 %): {', '.join(close)}."
            )
    for t in tried:
        if t.failure:
            print(f"  {t.name}: {t.failure}")


def _row(tried: Tried, default: Tried | None) -> list[str]:
    row = [tried.name, *map(str, tried.metrics), f"{tried.trees:,}", f"{tried.seconds:.3g}"]
    if default is None:
        return row
    there = reached(default, min(tried.curve["validation_loss"]))
    return [*row, "never" if there is None else f"{there[0]:,} trees, {there[1]:.3g} s"]
