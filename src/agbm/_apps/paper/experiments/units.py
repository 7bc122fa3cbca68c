"""Parts of an experiment whose results are files of their own, so that an interrupted run can be resumed.

Units can be computed in any order by any number of processes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from ...._base import _native

Progress = Callable[[int, int], None]
"""Called with the number of units done and in total."""


@dataclass(frozen=True)
class Unit:
    """One part of an experiment."""

    name: str
    """The beginning of its file name."""
    decides: Any
    """All that the result depends on besides the code, as JSON can write it."""
    compute: Callable[[], Any]
    """Returns the result, as JSON can write it. Other processes must be able to unpickle it: a functools.partial."""

    @property
    def file(self) -> str:
        """The file name; a unit whose result may differ has another one."""
        key = hashlib.sha256(json.dumps([self.decides, _code()], sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.name}-{key}.json"


def run(units: Sequence[Unit], folder: Path, n_jobs: int, progress: Progress) -> list[Any]:
    """The results of the units, in their order. Those that are already in the folder are read."""
    paths = [folder / unit.file for unit in units]
    results = {i: read[0] for i, path in enumerate(paths) if (read := _read(path))}
    progress(len(results), len(units))
    folder.mkdir(parents=True, exist_ok=True)
    left = [i for i in range(len(units)) if i not in results]
    work = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(_computed)(i, units[i]) for i in left)
    for i, result in work:
        _write(paths[i], result)
        results[i] = _read(paths[i])[0]  # as a later run will see it
        progress(len(results), len(units))
    return [results[i] for i in range(len(units))]


def _computed(number: int, unit: Unit) -> tuple[int, Any]:
    return number, unit.compute()


@cache
def _code() -> str:
    """Checksum of the code that results depend on, kernels included, because the version is not that of every edit."""
    here = Path(__file__).parent
    library, apps = here.parents[2], here.parents[1]
    parts = [path for path in sorted(library.rglob("*.py")) if not path.is_relative_to(apps)]
    parts += [*sorted(here.glob("*.py")), Path(_native.__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()


def _read(path: Path) -> tuple[Any, ...]:
    """The stored result; nothing if the file is missing or incomplete."""
    try:
        return (json.loads(path.read_text(encoding="utf-8")),)
    except (OSError, ValueError):
        return ()


def _write(path: Path, result: Any) -> None:
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(result), encoding="utf-8")
    os.replace(fresh, path)
