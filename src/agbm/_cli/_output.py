"""Output of commands: help texts, lines for people, or one JSON object for programs."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._study.evaluation import Metric

WIDEST = 110
HELP_WIDTH = 79


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    usage: str,
    *,
    help: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples.

    `usage` lists the positional arguments first: an option that takes several values would consume a file after it.
    """
    return commands.add_parser(
        usage.split()[1],
        usage=usage,
        help=help,
        description=textwrap.fill(description, HELP_WIDTH),
        epilog=f"examples:{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that control what is printed."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def speaks(arguments: argparse.Namespace) -> bool:
    """Return whether to print progress and what was inferred from the data."""
    return not (arguments.json or arguments.quiet)


def show(facts: Mapping[str, str]) -> None:
    """Print names and texts in two columns, with long texts wrapped."""
    width = max(map(len, facts), default=0)
    room = max(20, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns) - width - 4)
    for name, text in facts.items():
        lines = textwrap.wrap(printable(text), room) or [""]
        print(f"  {name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            print(f"  {'':<{width}}  {line}")


def printable(text: str) -> str:
    """Escape control characters, which in text from a file could move the cursor or change colours."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column left-aligned and the others right-aligned."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        first, *others = row
        cells = [f"{first:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(others, widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


def show_json(found: Mapping[str, Any]) -> None:
    """Print one JSON object in ASCII; NaN and infinity, which JSON does not have, become null."""
    print(json.dumps(plain(found), indent=2))


def plain(value: Any) -> Any:
    """Convert a value to types that JSON supports."""
    if isinstance(value, Metric):
        return vars(value)
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


MOST_LISTED = 12


def listed(names: Sequence[str], most: int = MOST_LISTED, n: int | None = None) -> str:
    """Join the first names with commas and count the rest; `n` is the total if `names` holds only the first."""
    shown, n = ", ".join(names[:most]), n or len(names)
    return shown if n <= most else f"{shown} and {n - most} more"


def size(n_bytes: int) -> str:
    """Format a number of bytes with a suitable unit."""
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.3g} {('B', 'kB', 'MB', 'GB')[power]}"
