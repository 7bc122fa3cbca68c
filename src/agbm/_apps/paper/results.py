"""The files of an output folder: one JSON and one CSV file per part, and a page with all available parts."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import page, sections
from .curves import Curve
from .proof import Track
from .protocol import Conventions, Outcome
from .table import Table, Unit, rows

TITLE = "Accelerating Gradient Boosting Machines: the experiments rerun"


def made_by(command: str, seed: int) -> dict[str, str]:
    """The command, seed and versions that are needed to reproduce the numbers."""
    packages = {name: version(name) for name in ("agbm", "numpy", "scipy", "scikit-learn")}
    return {"command": command, "seed": str(seed), "Python": platform.python_version(), **packages}


def save_table(table: Table, made: Mapping[str, str], folder: Path) -> None:
    """Write table.json and table.csv."""
    outcomes = [{**unit._asdict(), "outcomes": [asdict(o) for o in found]} for unit, found in table.outcomes.items()]
    _save_json(folder / "table.json", {"made": made, "conventions": asdict(table.conventions), "outcomes": outcomes})
    _save_csv(folder / "table.csv", rows(table))


def save_curves(curves: Sequence[Curve], made: Mapping[str, str], folder: Path) -> None:
    """Write figures.json and figures.csv."""
    _save_json(folder / "figures.json", {"made": made, "curves": [asdict(curve) for curve in curves]})
    points = [
        {"figure": c.figure, "step": c.step, "line": c.title, "trees": trees, "train": train, "test": test}
        for c in curves
        for trees, train, test in zip(c.trees, c.train, c.test, strict=True)
    ]
    _save_csv(folder / "figures.csv", points)


def save_tracks(tracks: Sequence[Track], spans: Mapping[str, bool], made: Mapping[str, str], folder: Path) -> None:
    """Write theory.json and theory.csv."""
    _save_json(folder / "theory.json", {"made": made, "spans": spans, "tracks": [asdict(track) for track in tracks]})
    points = [
        {"problem": t.problem, "gamma": t.gamma, "iteration": m + 1, **{name: t.columns[name][m] for name in t.columns}}
        for t in tracks
        for m in range(len(t.columns["gap"]))
    ]
    _save_csv(folder / "theory.csv", points)


def write_page(folder: Path) -> list[Path]:
    """Write the page with all parts that the folder contains."""
    parts: list[page.Section] = []
    made: dict[str, str] = {}
    readers: dict[str, Callable[[Any], list[page.Section]]] = {
        "table": _table_sections,
        "figures": lambda found: sections.of_curves([Curve(**curve) for curve in found["curves"]]),
        "theory": lambda found: [sections.of_tracks([_track(track) for track in found["tracks"]], found["spans"])],
    }
    for name, read in readers.items():
        path = folder / f"{name}.json"
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            parts += read(found)
            made |= {f"{name}: {key}": value for key, value in found["made"].items()}
    return page.write([*parts, sections.of_making(made)], TITLE, folder)


def _table_sections(found: Mapping[str, Any]) -> list[page.Section]:
    outcomes = {
        Unit(entry["data"], entry["split"], entry["method"]): [Outcome(**outcome) for outcome in entry["outcomes"]]
        for entry in found["outcomes"]
    }
    return [sections.of_table(Table(Conventions(**found["conventions"]), outcomes))]


def _save_json(path: Path, content: object) -> None:
    text = json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _finite(content: object) -> object:
    """Replace infinite numbers and NaN, which JSON does not have, by None."""
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _track(found: Mapping[str, Any]) -> Track:
    columns = {name: [math.nan if x is None else x for x in column] for name, column in found["columns"].items()}
    return Track(**{**found, "columns": columns})


def _save_csv(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
