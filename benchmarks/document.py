"""Figures in documents: what is between two marks is written by a benchmark, and the rest by people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def fill_in(path: Path, parts: Mapping[str, Sequence[str]]) -> None:
    """Put lines between `<!-- figures: name -->` and the next `<!-- end -->`."""
    text = path.read_text()
    for name, lines in parts.items():
        mark = f"<!-- figures: {name} -->"
        if mark not in text:
            raise ValueError(f"{path} has no {mark}")
        written = "\n".join([mark, "", *lines, "", "<!-- end -->"])
        text = re.sub(rf"{mark}.*?<!-- end -->", lambda _, written=written: written, text, count=1, flags=re.DOTALL)  # type: ignore[misc]
    path.write_text(text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A table whose first columns are text, and the others numbers."""
    ruler = "|" + "---|" * left + "---:|" * (len(heads) - left)
    return [f"| {' | '.join(heads)} |", ruler, *(f"| {' | '.join(row)} |" for row in rows)]
