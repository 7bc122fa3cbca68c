"""The files of an output folder: the results of each part as JSON, tables of numbers as CSV, figures and the page."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .experiments import angles, curves, proof, restarts, rivals, table
from .experiments.angles import Angles
from .experiments.curves import Curve
from .experiments.proof import Track
from .experiments.protocol import Conventions
from .experiments.table import Table

TABLES = ("table", "table_released", "table_unstopped")
"""The table with the protocol of the text, with the conventions of the released scripts, and without early stopping."""
PARTS = (*TABLES, "curves", "theory", "restarts", "angles", "rivals")


@dataclass
class Results:
    """What is known of each part; a part that was not run is empty."""

    table: Table | None = None
    table_released: Table | None = None
    table_unstopped: Table | None = None
    curves: Sequence[Curve] = ()
    theory: Sequence[Track] = ()
    restarts: Sequence[restarts.Run] = ()
    angles: Sequence[Angles] = ()
    rivals: Sequence[rivals.Run] = ()
    made: dict[str, dict[str, str]] = field(default_factory=dict)
    """By part: the command, the seed and the versions."""


def part_of(conventions: Conventions) -> str:
    """The part that a table with these conventions is."""
    if conventions.validation == "none":
        return "table_unstopped"
    return "table" if conventions.keep == "best" and conventions.validation == "held-out" else "table_released"


def made_by(part: str, command: str, seed: int) -> dict[str, str]:
    """The command, seed and versions that are needed to reproduce the numbers."""
    seeded = {"seed": str(seed)} if part in (*TABLES, "curves") else {}
    names = ["agbm", "numpy", "scipy", "scikit-learn"]
    if part == "rivals" and rivals.has_gpboost():
        names.append("gpboost")
    return {
        "command": command,
        **seeded,
        "Python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def save(part: str, found: Any, made: Mapping[str, str], folder: Path) -> None:
    """Write the results of a part."""
    folder.mkdir(parents=True, exist_ok=True)
    content: Mapping[str, Any] = _writers[part](found)
    lines = [f'"{key}": {_lines(value)}' for key, value in {"made": made, **content}.items()]
    (folder / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    if part in TABLES:
        _save_csv(folder / f"{part}.csv", table.rows(found))
    if part == "curves":
        _save_csv(folder / "curves.csv", [point for curve in found for point in curves.points(curve)])


def load(folder: Path) -> Results:
    """Read all parts that a folder has."""
    results = Results()
    for part in PARTS:
        path = folder / f"{part}.json"
        if path.is_file():
            content = json.loads(path.read_text(encoding="utf-8"))
            results.made[part] = content.pop("made")
            setattr(results, part, _readers[part](content))
    return results


def _lines(value: Any) -> str:
    """JSON with one entry of a list per line, so that a changed result is a changed line."""
    dumped = (
        [json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in value] if isinstance(value, list) else []
    )
    return "[\n" + ",\n".join(dumped) + "\n]" if dumped else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _of_table(found: Table) -> dict[str, Any]:
    runs = [{**run._asdict(), "outcomes": list(map(asdict, outcomes))} for run, outcomes in found.outcomes.items()]
    return {"conventions": asdict(found.conventions), "runs": runs}


def _table(content: Mapping[str, Any]) -> Table:
    outcomes = {
        table.Run(run["data"], run["split"], run["method"]): table.from_stored(run["outcomes"])
        for run in content["runs"]
    }
    return Table(Conventions(**content["conventions"]), outcomes)


def _entries(to_stored: Callable[[Any], dict[str, Any]]) -> Callable[[Sequence[Any]], dict[str, Any]]:
    return lambda found: {"entries": [to_stored(one) for one in found]}


def _each(from_stored: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], list[Any]]:
    return lambda content: [from_stored(entry) for entry in content["entries"]]


_writers: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    **dict.fromkeys(TABLES, _of_table),
    "curves": _entries(curves.to_stored),
    "theory": _entries(proof.to_stored),
    "restarts": _entries(restarts.to_stored),
    "angles": _entries(angles.to_stored),
    "rivals": lambda found: rivals.to_json(found),
}
_readers: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    **dict.fromkeys(TABLES, _table),
    "curves": _each(curves.from_stored),
    "theory": _each(proof.from_stored),
    "restarts": _each(restarts.from_stored),
    "angles": _each(angles.from_stored),
    "rivals": lambda content: rivals.from_json(content),
}


def _save_csv(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
