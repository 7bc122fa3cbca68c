"""The command `agbm`. Each of its commands is thin: arguments in, functions of the library, files or lines out."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from .._paper import command as paper
from . import compare, completion, explain, export, inspect, predict, report, train, tune
from ._output import printable

COMMANDS = (train, predict, compare, tune, inspect, explain, export, report, paper, completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 where it failed, 2 for wrong arguments, 130 after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names in files have letters that not every terminal has
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser()
    parsed = parser.parse_args(given)
    parsed.parser, parsed.command_line = parser, shlex.join(["agbm", *given])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # what is said to users, not to developers
            warnings.showwarning = _show_warning
            parsed.run(parsed)
            if sys.stdout is not None:  # as it is where the caller has closed it
                sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our lines has had enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if parsed.debug:
            raise
        print(f"agbm: {printable(_in_one_line(error))}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    parser = argparse.ArgumentParser(
        prog="agbm",
        description="Accelerated gradient boosting: train models on tables in files, use them, look at them.",
        epilog="A first look: agbm train table.csv --target column --out model.agbm. Every command has its own --help, "
        "with examples. Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"agbm {version('agbm')}")
    debug: dict[str, Any] = {"action": "store_true", "help": "show where in the code an error came from"}
    parser.add_argument("--debug", **debug)
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    for added in commands.choices.values():  # where it is typed when an error has come
        added.add_argument("--debug", default=argparse.SUPPRESS, **debug)
    return parser


def _in_one_line(error: Exception) -> str:
    """What an error says. One that no code of ours has worded needs its kind to mean something."""
    text = " ".join(str(error).split())
    if isinstance(error, (OSError, ValueError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text or 'no details'} (agbm --debug ... shows where)"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"agbm: warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
