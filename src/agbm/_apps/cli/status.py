"""A line on the terminal while nothing else is to be seen: modules are being imported, or a file is being read."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def status(arguments: argparse.Namespace) -> Iterator[None]:
    """Show what is being read for a command, and erase it afterwards; only on a terminal, and not with --quiet."""
    text, stream = _text(arguments), sys.stderr
    if not text or stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    # A line that wraps could not be erased.
    print(text[: shutil.get_terminal_size().columns - 1], end="", file=stream, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=stream, flush=True)


def _text(arguments: argparse.Namespace) -> str:
    given = vars(arguments)
    if given.get("quiet") or given.get("json"):
        return ""
    if given.get("data"):
        path = "standard input" if given["data"] == "-" else given["data"]
    else:
        path = given.get("model", "")
    return f"reading {printable(path)} ..." if path else ""


def printable(text: str) -> str:
    """Escape control characters, which in text from a file could move the cursor or change colours."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
