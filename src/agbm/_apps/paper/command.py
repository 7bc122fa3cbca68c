"""The command `agbm paper`: its arguments and its parts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib

from ..._fit.progress import counting
from . import data_sets as data
from . import results
from .data_sets import DataSet
from .experiments import angles, curves, proof, restarts, rivals, table, tables
from .experiments.protocol import METHODS, Conventions
from .experiments.units import Progress
from .printed import SETS

_Part = Callable[[argparse.Namespace, Path, Progress], Any]
"""Computes a part: called with the arguments, the folder of its units and a function that shows progress."""


def _table(arguments: argparse.Namespace, folder: Path, progress: Progress) -> table.Table:
    methods = [method for method in METHODS if method in {*arguments.methods, table.BASELINE}]
    sets = [data.load(name, arguments.data) for name in SETS if name in arguments.sets]
    return table.run(sets, methods, conventions_of(arguments), folder, arguments.jobs, progress)


def _curves(arguments: argparse.Namespace, folder: Path, progress: Progress) -> list[curves.Curve]:
    return curves.run(_loaded(SETS, arguments), arguments.seed, folder, arguments.jobs, progress)


def _theory(arguments: argparse.Namespace, folder: Path, progress: Progress) -> list[proof.Track]:
    return proof.run(_loaded(proof.SETS, arguments), folder, arguments.jobs, progress)


def _restarts(arguments: argparse.Namespace, folder: Path, progress: Progress) -> list[restarts.Run]:
    return restarts.run(_loaded(restarts.CONDITIONS, arguments), folder, arguments.jobs, progress)


def _angles(arguments: argparse.Namespace, folder: Path, progress: Progress) -> list[angles.Angles]:
    return angles.run(_loaded(angles.SETS, arguments), folder, arguments.jobs, progress)


def _rivals(arguments: argparse.Namespace, folder: Path, progress: Progress) -> list[rivals.Run]:
    return rivals.run(tables.load(arguments.data), folder, arguments.jobs, progress)


_PARTS: dict[str, tuple[_Part, str]] = {
    "table": (_table, "losses after tuning, next to the printed ones"),
    "curves": (_curves, "losses against the number of trees, for all methods, steps and momenta"),
    "theory": (_theory, "Theorem 4.1: cosines, admissible momentum, bound and potential in each iteration"),
    "restarts": (_restarts, "Theorem 4.2: restarts on strongly convex losses"),
    "angles": (_angles, "cosines between residuals and trees, by depth"),
    "rivals": (_rivals, "other accelerations and regularisations of boosting, on many data sets; not part of `all`"),
}


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its parts to the parser."""
    paper = commands.add_parser(
        "paper",
        help="rerun the experiments of the paper",
        description="Rerun the experiments of Lu, Karimireddy, Ponomareva and Mirrokni (AISTATS 2020), and compare the "
        "results with what the paper says. Each part writes its numbers, its figures, and a page with all parts in the "
        "folder (index.html, index.md). An interrupted run is resumed by running the same command again.",
        epilog="example: agbm paper table --sets sonar housing --out sonar-and-housing",
    )
    parts = paper.add_subparsers(metavar="part", required=True)
    for name, (_, text) in _PARTS.items():
        part = parts.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        _add_common(part)
        if name in ("table", "curves"):
            _add_seed(part)
        if name == "table":
            _add_conventions(part)
        part.set_defaults(run=run_parts, parts=[name])
    text = "all parts of the paper"
    every = parts.add_parser("all", help=text, description=text[0].upper() + text[1:] + ", one after the other.")
    _add_common(every)
    _add_seed(every)
    _add_conventions(every)
    every.set_defaults(run=run_parts, parts=[name for name in _PARTS if name != "rivals"])
    _add_page(parts)


def _add_page(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "only write the page, from the results in the folder"
    page = parts.add_parser("page", help=text, description=text[0].upper() + text[1:] + ".")
    _add_out(page)
    page.add_argument(
        "--document",
        type=Path,
        help="write the Markdown page to this file, and only the figures and the interactive figure to the folder",
    )
    page.set_defaults(run=run_page)


def _add_common(part: argparse.ArgumentParser) -> None:
    _add_out(part)
    part.add_argument(
        "--data",
        type=Path,
        help=f"folder with LIBSVM's files (default: the environment variable {data.VARIABLE}; if it is not set, the "
        "files are downloaded)",
    )
    part.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="number of processes (%(default)s)")
    part.set_defaults(seed=0)


def _add_seed(part: argparse.ArgumentParser) -> None:
    help_text = "seed of the splits and of the search, of the table and the curves (%(default)s)"
    part.add_argument("--seed", type=int, default=0, help=help_text)


def _add_out(part: argparse.ArgumentParser) -> None:
    part.add_argument("--out", type=Path, default=Path("agbm-paper"), help="folder for the results (%(default)s)")


def _add_conventions(part: argparse.ArgumentParser) -> None:
    part.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET", help=", ".join(SETS))
    part.add_argument(
        "--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD", help=", ".join(METHODS)
    )
    part.add_argument("--draws", type=int, help="random search: number of draws per tuned parameter of a method (10)")
    part.add_argument("--levels", type=int, help="levels of splits in a tree (3, as in the paper's text)")
    part.add_argument(
        "--validation",
        choices=("held-out", "test", "none"),
        help="rows for early stopping: held-out training rows, the test rows (as in the released scripts), or none, "
        "which turns early stopping off (held-out)",
    )
    part.add_argument(
        "--keep", choices=("best", "last"), help="model that early stopping keeps (best; the released scripts: last)"
    )
    part.add_argument(
        "--released",
        action="store_true",
        help="use the conventions of the released scripts: --levels 4 --validation test --keep last",
    )


def conventions_of(arguments: argparse.Namespace) -> Conventions:
    """The conventions from the arguments; single options take precedence over --released."""
    base = Conventions.released() if arguments.released else Conventions()
    asked = {name: getattr(arguments, name) for name in ("levels", "validation", "keep", "draws", "seed")}
    return Conventions(**{**vars(base), **{name: value for name, value in asked.items() if value is not None}})


def run_parts(arguments: argparse.Namespace) -> None:
    """Compute one or several parts, and write the page."""
    page = _page()  # if matplotlib is missing, fail before the long computation
    for name in arguments.parts:
        compute, _ = _PARTS[name]
        with counting(name) as progress:
            found = compute(arguments, arguments.out / "units", progress)
        name = results.part_of(found.conventions) if name == "table" else name
        results.save(name, found, results.made_by(name, arguments.command_line, arguments.seed), arguments.out)
    _show(page.write(results.load(arguments.out), arguments.out))


def run_page(arguments: argparse.Namespace) -> None:
    """Write the page from stored results."""
    found = results.load(arguments.out)
    if not found.made:
        raise FileNotFoundError(f"--out={arguments.out}: there are no results in this folder.")
    _show(_page().write(found, arguments.out, arguments.document))


def _page() -> ModuleType:
    try:
        from .page import write
    except ImportError as error:
        raise ImportError(f"the page needs matplotlib ({error}): pip install 'agbm[paper]'") from error
    return write


def _loaded(names: Iterable[str], arguments: argparse.Namespace) -> dict[str, DataSet]:
    return {name: data.load(name, arguments.data) for name in names}


def _show(paths: Iterable[Path]) -> None:
    for path in paths:
        print(path)
