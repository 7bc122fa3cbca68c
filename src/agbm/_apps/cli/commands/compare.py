"""`agbm compare`: compare the default with other libraries, and with the methods of the paper, on a table."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...._fit.auto import ITERATIONS
from ...._fit.progress import counting, readable
from ... import report as report
from ...evaluation.comparison import SHARED, compare
from ...evaluation.contenders import DEFAULT, FIVE, ONE_MODEL, PACKAGES, PAPER, installed_peers
from ...evaluation.metrics import Metric, Split, Tried, paired_difference, reached
from ...evaluation.tasks import Whole
from ..describe import describe, describe_columns, in_short, title
from ..output import line_width, show, show_json, show_table, speaks, table_width, terminal_width
from ..paths import check_files, written
from ..reading.data import Parts, Question, ask, divide, given_parameters
from .report import write_page

FIXED = dict.fromkeys(SHARED, "all contenders have the same value of this parameter; omit it.") | {
    "method": "use --methods instead.",
    "max_iter": "use --max-iter instead.",
    "random_state": "use --seed instead.",
    "n_jobs": "use --jobs instead.",
}
"""Parameters that --set cannot set."""


def run(arguments: argparse.Namespace) -> None:
    """Run the comparison and print the results."""
    check_files(reads={"DATA": arguments.data}, writes={"--report": arguments.report})
    if arguments.report is not None:
        report.check_matplotlib()
    contenders = _contenders(arguments)
    question = ask(arguments)
    parameters = given_parameters(question, arguments, FIXED)
    parts = divide(question, arguments)
    if speaks(arguments):
        print(title(question))
        show(describe(question) | {"rows": str(parts)} | _libraries_in_words(arguments))
    split = question.split(parts)
    tried = sorted(_run(split, question.whole(parts), question, contenders, parameters, arguments), key=_main)
    if arguments.json:
        show_json(
            {
                "command": arguments.command_line,
                "identifiers": list(question.identifiers),
                "mixed_columns": question.mixed_columns,
                "not_installed": _not_installed(arguments),
                "contenders": [_plain(t, tried[0]) for t in tried],
            }
        )
    else:
        _show(tried)
    if arguments.report is not None:  # last, so that the results are shown even if it cannot be written
        write_page(arguments, arguments.report, lambda: _findings(question, parts, split, tried, arguments))
        if not arguments.json:
            print(written(arguments.report))
    if len(tried) < len(contenders):
        raise KeyboardInterrupt
    if all(t.failure for t in tried):
        raise ValueError(f"no model could be trained; {tried[0].name}: {tried[0].failure}")


def _findings(
    question: Question, parts: Parts, split: Split, tried: Sequence[Tried], arguments: argparse.Namespace
) -> report.Findings:
    """Return the findings about the results, and about the best model of agbm."""
    model = next((t.model for t in tried if t.model is not None), None)
    test = None if model is None else report.predictions_of(model, [split.X_test], split.y_test)
    findings = report.Findings(
        title=f"{question.target}: libraries compared",
        command=arguments.command_line,
        data=in_short(question) | {"rows": str(parts)},
        columns=describe_columns(question),
        tried=tried,
        model=model,
        two=report.two_of(tried, DEFAULT, question.task, split.y_test, test),
    )
    findings = report.with_origin(findings, str(arguments.seed))
    return findings if test is None else report.with_test_rows(findings, test)


def _contenders(arguments: argparse.Namespace) -> list[str]:
    """Return the names of what to compare; raises errors before the data are read."""
    if arguments.max_iter is not None and arguments.max_iter < 1:
        raise ValueError(f"--max-iter must be at least 1; got {arguments.max_iter}.")
    installed = installed_peers()
    peers = installed if arguments.peers is None else list(dict.fromkeys(arguments.peers))
    absent = [name for name in peers if name not in installed]
    if absent:
        packages = " ".join(PACKAGES[name][1] for name in absent)
        raise ImportError(f"--peers {' '.join(absent)}: not installed; run: pip install {packages}")
    averages = not (arguments.group or arguments.event or arguments.time_order)
    five = [FIVE] if "LightGBM" in peers and averages else []
    return [DEFAULT, ONE_MODEL, *(PAPER[name] for name in dict.fromkeys(arguments.methods)), *five, *peers]


def _not_installed(arguments: argparse.Namespace) -> list[str]:
    """Return the libraries that would be compared if they were installed."""
    return [name for name in PACKAGES if name not in installed_peers()] if arguments.peers is None else []


def _libraries_in_words(arguments: argparse.Namespace) -> dict[str, str]:
    absent = _not_installed(arguments)
    packages = " ".join(PACKAGES[name][1] for name in absent)
    return {"not installed": f"{', '.join(absent)}: pip install {packages}"} if absent else {}


def _run(
    split: Split,
    whole: Whole,
    question: Question,
    contenders: Sequence[str],
    parameters: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> list[Tried]:
    """Return the results of the contenders; after an interrupt, of those that were finished."""
    runs = compare(
        split, whole, question.task, contenders,
        seed=arguments.seed, threads=arguments.jobs, max_iter=arguments.max_iter or ITERATIONS, parameters=parameters,
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
    """Return the metric to rank by, the first one, such that lower is better."""
    if not tried.metrics:
        return np.inf
    first = tried.metrics[0]
    return first.value if first.lower_is_better else -first.value


def _plain(tried: Tried, best: Tried) -> dict[str, Any]:
    found = {name: value for name, value in vars(tried).items() if name not in ("model", "losses", "predicted")}
    return found | {"above_best": None if tried.losses is None else _above(tried, best)}


def _above(tried: Tried, best: Tried) -> Metric:
    """Return the difference to the best model in test loss, with a paired interval."""
    assert tried.losses is not None
    assert best.losses is not None
    return paired_difference("loss above the best", tried.losses, best.losses)


def _show(tried: Sequence[Tried]) -> None:
    """Print a table, best first, with the trees and time that one model needs to match each validation loss."""
    one = next((t for t in tried if t.name == ONE_MODEL and not t.failure), None)
    done = [t for t in tried if not t.failure]
    if done:
        _show_table(done, one)
        close = [t.name for t in done[1:] if _above(t, done[0]).low <= 0.0]
        if close:
            text = f"No significant difference from {done[0].name} on the test rows (paired, 95 %): {', '.join(close)}."
            print(textwrap.fill(text, line_width(), initial_indent="  ", subsequent_indent="  "))
    for t in tried:
        if t.failure:
            print(f"  {t.name}: {t.failure}")


def _show_table(done: Sequence[Tried], one: Tried | None) -> None:
    """Print the results in one table; in two narrower ones, with fewer intervals, if that does not fit."""
    names = [metric.name for metric in done[0].metrics]
    header, columns = ["", *names, "trees", "seconds"], [[t.name, *map(str, t.metrics), *_effort(t)] for t in done]
    matches = ["one model matches it after"], [[_matched(t, one)] for t in done]
    if one is None:
        matches = [], [[] for _ in done]
    wide = [[*row, *more] for row, more in zip(columns, matches[1], strict=True)]
    if table_width([*header, *matches[0]], wide) <= terminal_width():
        show_table([*header, *matches[0]], wide)
        return
    show_table(header, [[t.name, *_in_short(t.metrics), *_effort(t)] for t in done])
    if one is not None:
        print()
        show_table(["", *matches[0]], [[t.name, *more] for t, more in zip(done, matches[1], strict=True) if any(more)])


def _in_short(metrics: Sequence[Metric]) -> list[str]:
    """Return the metrics, with half the width of the interval of the first one."""
    first, *others = metrics
    return [f"{readable(first.value)} ± {readable((first.high - first.low) / 2, 2)}"] + [
        readable(metric.value) for metric in others
    ]


def _effort(tried: Tried) -> list[str]:
    return [f"{tried.trees:,}", readable(tried.seconds, 3)]


def _matched(tried: Tried, one: Tried | None) -> str:
    """Return the effort of one model to match a validation loss; nothing if the loss is that of other rows."""
    if tried.name in (DEFAULT, FIVE):
        return ""
    there = None if one is None else reached(one, min(tried.curve["validation_loss"]))
    return "never" if there is None else f"{there[0]:,} trees, {readable(there[1], 3)} s"
