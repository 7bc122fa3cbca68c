"""Records of measurements in a file, one line of JSON each; interrupted benchmarks resume from it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")


def read(path: Path, kind: type[R]) -> list[R]:
    """The stored records, of a data class; the line of an interrupted write is skipped."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(kind(**json.loads(line)))
        except json.JSONDecodeError:
            continue
    return found


def append(path: Path, record: Any) -> None:
    """Store a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    interrupted = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a") as file:
        file.write(("\n" if interrupted else "") + json.dumps(asdict(record)) + "\n")
