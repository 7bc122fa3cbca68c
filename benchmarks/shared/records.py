"""Records of measurements in a file, one line of JSON each; interrupted benchmarks resume from it."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

OURS = "agbm"


class Installed:
    """What is measured: something of one or several packages."""

    packages: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """Whether it is agbm."""
        return self.packages == (OURS,)

    def version(self) -> str | None:
        """The versions of the packages; None if one is not installed."""
        try:
            return ", ".join(f"{package} {version(package)}" for package in self.packages)
        except PackageNotFoundError:
            return None


class OfContestant:
    """A measurement of a contestant."""

    contestant: str
    version: str
    settings: str

    @property
    def variant(self) -> tuple[str, str, str]:
        """Contestant with its version and settings."""
        return self.contestant, self.version, self.settings


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
