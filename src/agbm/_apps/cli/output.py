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

from ..evaluation.metrics import Metric
from .status import printable

WIDEST, USUAL_WIDTH = 110, 80
"""Columns of the widest lines, and of lines that are not written to a terminal."""

# Stands for a space at which a line is not broken.
_GLUE = "\0"


def speaks(arguments: argparse.Namespace) -> bool:
    """Return whether to print progress and what was inferred from the data."""
    return not (arguments.json or arguments.quiet)


def unbroken(text: str) -> str:
    """Return a text in which `show` does not begin a new line."""
    return text.replace(" ", _GLUE)


def show(facts: Mapping[str, str]) -> None:
    """Print names and texts in two columns, with long texts wrapped."""
    width = max(map(len, facts), default=0)
    room = max(20, line_width() - width - 4)
    for name, text in facts.items():
        # Names of files and fingerprints stay whole, so that they can be copied.
        whole = _GLUE.join(map(printable, text.split(_GLUE)))
        lines = textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False) or [""]
        for i, line in enumerate(lines):
            print(f"  {name if i == 0 else '':<{width}}  {line.replace(_GLUE, ' ')}")


def line_width() -> int:
    """Return the number of columns for text, which is hard to read in very long lines."""
    return min(WIDEST, terminal_width())


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size((USUAL_WIDTH, 24)).columns


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column left-aligned and the others right-aligned."""
    widths = _widths(header, rows)
    for row in [header, ["-" * width for width in widths], *rows]:
        first, *others = map(printable, row)
        cells = [f"{first:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(others, widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


def table_width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the number of columns that `show_table` needs."""
    return sum(2 + width for width in _widths(header, rows))


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(printable(row[i])) for row in [header, *rows]) for i in range(len(header))]


def show_json(found: Mapping[str, Any]) -> None:
    """Print one JSON object in ASCII; NaN and infinity, which JSON does not have, become null."""
    print(json.dumps(plain(found), indent=2))


def plain(value: object) -> Any:
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
