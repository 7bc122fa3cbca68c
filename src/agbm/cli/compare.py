"""`agbm compare`: which method and which library suit a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison import METHODS, compare
from ..evaluation import Split, Tried, reached, split_rows
from ..files import available_memory
from ..peers import PEERS, installed_peers
from ..progress import counting
from ._data import Question, add_output, add_question, ask, given_parameters
from ._output import add_command, show, show_json, show_table, size
from .report import write_findings
from .train import check_folders, describe, describe_columns, in_short

EXAMPLES = """
  agbm compare adult.csv --target income --report adult.html
  agbm compare houses.parquet --target price --methods fading gbm --peers LightGBM
  agbm compare clicks/ --target clicked --rows 200000 --peers"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its arguments."""
    parser = add_command(
        commands,
        "agbm compare DATA --target COLUMN [options]",
        help="all methods, and installed other libraries, on your data",
        description="Train all methods, and other boosting libraries that are installed, on the same rows of a table. "
        "All stop early by the same validation rows, with the same patience, and are judged by the same test rows; "
        "everything else is the default of each.",
        examples=EXAMPLES,
    )
    add_question(parser)
    parser.add_argument(
        "--methods", nargs="*", choices=METHODS, default=METHODS, metavar="METHOD", help=f"ours: {', '.join(METHODS)}"
    )
    parser.add_argument(
        "--peers", nargs="*", choices=list(PEERS), metavar="LIBRARY",
        help=f"other libraries: {', '.join(PEERS)} (default: those that are installed)",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", default=[], dest="parameters", help="parameters of our methods"
    )
    add_shares(parser)
    parser.add_argument("--max-iter", type=int, default=1000, help="iterations at most (%(default)s)")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write a page to look at, such as m.html")
    add_output(parser)
    parser.set_defaults(run=run)


def add_shares(parser: argparse.ArgumentParser) -> None:
    """How rows are divided."""
    parser.add_argument("--test-fraction", type=float, default=0.2, metavar="SHARE", help="to judge by (%(default)s)")
    parser.add_argument(
        "--validation-fraction", type=float, default=0.1, metavar="SHARE", help="to stop early by (%(default)s)"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="use so many rows only, drawn at random")


def run(arguments: argparse.Namespace) -> None:
    """Compare, and say what was found."""
    check_folders(arguments.report)
    speaks = not (arguments.json or arguments.quiet)
    question = ask(arguments, streams=None)
    split = divide(question, arguments)
    if speaks:
        print(f"{question.file.name}: {question.file.n_rows:,} rows, {len(question.file.columns):,} columns")
        show(describe(question) | {"rows": rows_in_words(split)})
    peers = installed_peers() if arguments.peers is None else arguments.peers
    tried = _run(split, question, [*arguments.methods, *peers], arguments)
    tried = sorted(tried, key=lambda t: _main(t))
    if arguments.report is not None:
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
    if arguments.json:
        show_json({"command": arguments.command_line, "contenders": [_plain(t) for t in tried]})
    else:
        _show(tried)
        if arguments.report is not None:
            print(f"{arguments.report} ({size(arguments.report.stat().st_size)})")
    if all(t.failure for t in tried):
        raise ValueError(f"no contender has come to a model; {tried[0].name}: {tried[0].failure}")


def divide(question: Question, arguments: argparse.Namespace) -> Split:
    """Rows to train on, to stop early by, to judge by, of all rows or of some."""
    rows = question.rows
    if arguments.rows is not None:
        if arguments.rows < 10:
            raise ValueError(f"--rows {arguments.rows}: must be at least 10.")
        rng = np.random.default_rng(arguments.seed)
        rows = np.sort(rng.choice(rows, min(arguments.rows, len(rows)), replace=False))
    elif question.file.bytes_in_memory(len(question.features)) > available_memory():
        raise ValueError(
            f"{question.file.name!r} does not fit into memory; give --rows N to draw so many of its "
            f"{question.file.n_rows:,} rows."
        )
    shares = arguments.validation_fraction, arguments.test_fraction
    if min(shares) <= 0.0 or sum(shares) >= 1.0:
        raise ValueError(
            f"--validation-fraction {shares[0]} and --test-fraction {shares[1]} must be above 0, and below 1 together."
        )
    classes = question.y[rows] if question.classifies else None
    parts = [rows[part] for part in split_rows(len(rows), shares, classes, arguments.seed)]
    pieces = [(question.table(part), question.y[part]) for part in parts]
    return Split(*pieces[0], *pieces[1], *pieces[2])


def rows_in_words(split: Split) -> str:
    """How many rows serve what."""
    return f"{len(split.y):,} to train on, {len(split.y_val):,} to stop early by, {len(split.y_test):,} to judge by"


def _run(split: Split, question: Question, contenders: Sequence[str], arguments: argparse.Namespace) -> list[Tried]:
    runs = compare(
        split, question.classifies, contenders,
        seed=arguments.seed, threads=arguments.jobs, max_iter=arguments.max_iter,
        parameters=given_parameters(question, arguments),
    )  # fmt: skip
    if arguments.json or arguments.quiet:
        return list(runs)
    tried: list[Tried] = []
    with counting("compare") as update:
        for name in contenders:
            update(len(tried), len(contenders), name)
            tried.append(next(runs))
        update(len(contenders), len(contenders))
    return tried


def _main(tried: Tried) -> float:
    """What the contenders are ranked by: the first metric, a loss."""
    return tried.metrics[0].value if tried.metrics else np.inf


def _plain(tried: Tried) -> dict[str, Any]:
    found = {name: value for name, value in vars(tried).items() if name not in ("model", "curve")}
    return found | {"curve": dict(tried.curve)}


def _show(tried: Sequence[Tried]) -> None:
    """A table, the best first, with what our default needs for the validation loss of each."""
    default = next((t for t in tried if t.name == METHODS[0] and not t.failure), None)
    done = [t for t in tried if not t.failure]
    if done:
        names = [metric.name for metric in done[0].metrics]
        header = ["", *names, "trees", "seconds", *([f"{METHODS[0]} is there after"] if default else [])]
        show_table(header, [_row(t, default) for t in done])
    for t in tried:
        if t.failure:
            print(f"  {t.name}: {t.failure}")


def _row(tried: Tried, default: Tried | None) -> list[str]:
    row = [tried.name, *map(str, tried.metrics), f"{tried.trees:,}", f"{tried.seconds:.3g}"]
    if default is None:
        return row
    there = reached(default, min(tried.curve["validation_loss"]))
    return [*row, "never" if there is None else f"{there[0]:,} trees, {there[1]:.3g} s"]
