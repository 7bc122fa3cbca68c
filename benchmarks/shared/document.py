"""Inserts results of benchmarks into documents, between two markers; the rest of a document is written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def fill_in(path: Path, parts: Mapping[str, Sequence[str]]) -> None:
    """Replace the lines between `<!-- figures: name -->` and the next `<!-- end -->`."""
    text = path.read_text()
    for name, lines in parts.items():
        mark = f"<!-- figures: {name} -->"
        if mark not in text:
            raise ValueError(f"{path} has no marker {mark}")
        written = "\n".join([mark, "", *lines, "", "<!-- end -->"])
        text = re.sub(rf"{mark}.*?<!-- end -->", lambda _, written=written: written, text, count=1, flags=re.DOTALL)  # type: ignore[misc]
    path.write_text(text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A Markdown table: the first `left` columns are aligned left (text), the others right (numbers)."""
    ruler = "|" + "---|" * left + "---:|" * (len(heads) - left)
    return [f"| {' | '.join(heads)} |", ruler, *(f"| {' | '.join(row)} |" for row in rows)]
