"""The command-line tool `agbm`. Subcommands only parse arguments, call the library and write or print the results."""

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

from .command_options import add_commands
from .status import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Exit codes are 0 for success, 1 for a failure or for a difference that a comparison has found, and 130 after Ctrl-C.
    Invalid arguments raise SystemExit with code 2.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # column names may contain characters that the terminal cannot encode
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in given if not word.startswith("-")), "")
    parsed = make_parser(command).parse_args(given)
    parsed.command_line = shlex.join(["agbm", *given])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # those meant for users, not for developers
            warnings.filterwarnings("ignore", "X: column .* is read as", UserWarning)  # said once, about the file
            warnings.showwarning = _show_warning
            code = parsed.run(parsed)
            if sys.stdout is not None:  # it is None if the caller has closed it
                sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if parsed.debug:
            raise
        print(f"agbm: {printable(_in_one_line(error))}", file=sys.stderr)
        return 1
    return int(code or 0)


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands; if one is named, only this one has its options, which is much faster."""
    parser = argparse.ArgumentParser(
        prog="agbm",
        description="Accelerated gradient boosting: train, apply and inspect models on tables in files.",
        epilog="Quick start: agbm train table.csv --target column --out model.agbm. Every command has a --help with "
        "examples. Exit codes: 0 success, 1 failure, 2 invalid arguments, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"agbm {version('agbm')}")
    debug: dict[str, Any] = {"action": "store_true", "help": "show the traceback of an error"}
    parser.add_argument("--debug", **debug)
    commands = parser.add_subparsers(metavar="command", required=True)
    add_commands(commands, command)
    for added in commands.choices.values():  # also accepted after the command, where users append it
        added.add_argument("--debug", default=argparse.SUPPRESS, **debug)
    return parser


def _in_one_line(error: Exception) -> str:
    """Return the message of an error, with its type if it is not one that this package raises on purpose."""
    text = " ".join(str(error).split())
    if isinstance(error, (OSError, ValueError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text or 'no details'} (agbm --debug ... shows the traceback)"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"agbm: warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
