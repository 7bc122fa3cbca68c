"""The command `agbm`. Each of its commands is thin: arguments in, a function of the library, files or lines out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .paper import command as paper


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 where it failed, 2 for wrong arguments, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="agbm", description="Accelerated gradient boosting.")
    parser.add_argument("--debug", action="store_true", help="show where in the code an error came from")
    commands = parser.add_subparsers(metavar="command", required=True)
    paper.add_to(commands)
    parsed = parser.parse_args(given)
    parsed.command_line = given
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, ImportError) as error:
        if parsed.debug:
            raise
        print(f"agbm: {error}", file=sys.stderr)
        return 1
    return 0
