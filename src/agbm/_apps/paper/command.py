"""The command `agbm paper`: its arguments and its parts."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import joblib

from ..._fit.progress import counting
from . import curves, proof, results, table
from . import data_sets as data
from .printed import SETS
from .protocol import METHODS, Conventions

THEORY_SETS = ("housing", "diabetes")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its parts to the parser."""
    paper = commands.add_parser(
        "paper",
        help="rerun the experiments of the paper",
        description="Rerun the experiments of Lu, Karimireddy, Ponomareva and Mirrokni (AISTATS 2020) and compare the "
        "results with the printed numbers. Each part writes its numbers as JSON and CSV, its figures, and a page with "
        "all parts in the folder (index.html, index.md).",
        epilog="example: agbm paper table --sets sonar housing --out sonar-and-housing",
    )
    parts = paper.add_subparsers(metavar="part", required=True)
    _add_table(parts)
    for name, run, text in (
        ("figures", run_figures, "losses against the number of trees, on a1a and housing"),
        ("theory", run_theory, "cosines, admissible momentum, bound and potential in each iteration"),
    ):
        part = parts.add_parser(name, help=text, description=text.capitalize() + ".")
        _add_common(part)
        part.set_defaults(run=run)
    every = parts.add_parser("all", help="all parts", description="Table, figures and theory, one after the other.")
    _add_common(every)
    _add_conventions(every)
    every.set_defaults(run=run_all)


def _add_table(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "losses after tuning, next to the printed ones"
    part = parts.add_parser(
        "table",
        help=text,
        description="Losses after tuning, next to the printed ones. An interrupted run is resumed by running the same "
        "command again.",
    )
    _add_common(part)
    _add_conventions(part)
    part.set_defaults(run=run_table)


def _add_common(part: argparse.ArgumentParser) -> None:
    part.add_argument("--out", type=Path, default=Path("agbm-paper"), help="folder for the results (%(default)s)")
    part.add_argument(
        "--data",
        type=Path,
        help=f"folder with LIBSVM's files (default: the environment variable {data.VARIABLE}; if it is not set, the "
        "files are downloaded)",
    )
    part.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="number of processes (%(default)s)")
    part.add_argument("--seed", type=int, default=0, help="seed of the splits and of the search (%(default)s)")


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


def run_table(arguments: argparse.Namespace) -> None:
    """Run `agbm paper table`."""
    methods = [method for method in METHODS if method in {*arguments.methods, table.BASELINE}]
    sets = [data.load(name, arguments.data) for name in SETS if name in arguments.sets]
    units = arguments.out / "units"
    with counting("table") as progress:
        found = table.run(sets, methods, conventions_of(arguments), units, arguments.jobs, progress)
    results.save_table(found, _made(arguments), arguments.out)
    _show_page(arguments)


def run_figures(arguments: argparse.Namespace) -> None:
    """Run `agbm paper figures`."""
    figures = _figures()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sets = {name: data.load(name, arguments.data) for name in {plan.data for plan in curves.PLANS}}
    with counting("figures") as progress:
        found = curves.run(curves.PLANS, sets, arguments.seed, arguments.jobs, progress)
    for plan in curves.PLANS:
        figures.draw_curves(plan, found, arguments.out)
    results.save_curves(found, _made(arguments), arguments.out)
    _show_page(arguments)


def run_theory(arguments: argparse.Namespace) -> None:
    """Run `agbm paper theory`."""
    figures = _figures()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found, spans = [], {}
    with counting("theory") as progress:
        for number, name in enumerate(THEORY_SETS):
            progress(number, len(THEORY_SETS))
            known = proof.known_problem(data.load(name, arguments.data), arguments.jobs)
            tracks = list(proof.tracks(known))
            figures.draw_tracks(tracks, arguments.out)
            found += tracks
            spans[name] = known.spans
        progress(len(THEORY_SETS), len(THEORY_SETS))
    results.save_tracks(found, spans, _made(arguments), arguments.out)
    _show_page(arguments)


def run_all(arguments: argparse.Namespace) -> None:
    """Run `agbm paper all`."""
    _figures()  # if matplotlib is missing, fail before the long computation
    for run in (run_table, run_figures, run_theory):
        run(arguments)


def _figures() -> ModuleType:
    try:
        from . import figures
    except ImportError as error:
        raise ImportError(f"figures need matplotlib ({error}): pip install 'agbm[paper]'") from error
    return figures


def _made(arguments: argparse.Namespace) -> dict[str, str]:
    return results.made_by(arguments.command_line, arguments.seed)


def _show_page(arguments: argparse.Namespace) -> None:
    for path in results.write_page(arguments.out):
        print(path)
