"""Real tables: how they are read, prepared and split.

A data folder contains `suite/` (CSV files, and an index.json with the task and the categorical columns of each) and
`large/` (the files of LARGE), all compressed with xz.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.libraries import Array, Rows

KINDS = ("binary", "multiclass", "regression", "count")
MIN_ROWS_OF_CLASS = 21
MIN_TRAINING_ROWS_OF_CLASS = 5
MAX_TEST_ROWS = 25_000
SMALLEST = 1e-15
"""Probabilities and rates are clipped below at this value."""

# Columns that are known only after departure or landing, or are the same for all rows.
_AFTER_THE_FLIGHT = ("dep_time", "dep_delay", "arr_time", "air_time", "time_hour", "year")


@dataclass(frozen=True)
class LargeTable:
    """The kind and the file of a task, and how to prepare it."""

    kind: str
    file: str
    target: str
    unused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    change: Callable[[pd.Series], pd.Series] | None = None
    """A transformation of the target."""


LARGE: dict[str, LargeTable] = {
    "adult": LargeTable("binary", "adult", "income", ("fold",), ("?",)),
    "higgs (sample)": LargeTable("binary", "higgs_sample", "label", ("fold",), (), lambda y: y.map("class {}".format)),
    "flights (delayed)": LargeTable(
        "binary", "nycflights13", "arr_delay", _AFTER_THE_FLIGHT, ("NA",),
        lambda delay: (delay > 15).map({True: "late", False: "on time"}),
    ),
    "diabetes-130": LargeTable("multiclass", "diabetes130", "readmitted", ("encounter_id", "patient_nbr"), ("?",)),
    "covertype": LargeTable("multiclass", "covertype", "Cover_Type", change=lambda y: y.map("type {}".format)),
    "shuttle": LargeTable("multiclass", "shuttle", "Class"),
    "kddcup99": LargeTable("multiclass", "kddcup99_10pct", "label"),
    "diamonds (log)": LargeTable("regression", "diamonds", "price", change=np.log),
    "Beijing air (log)": LargeTable("regression", "beijing_air_quality", "PM2.5", ("No",), ("NA",), np.log),
}  # fmt: skip


def _of_large(folder: Path, table: LargeTable) -> Rows:
    """Read and prepare a large table. Classes with at most 20 rows might be missing from a part of a split."""
    rows = pd.read_csv(
        folder / f"{table.file}.csv.xz", na_values=list(table.missing), keep_default_na=False, low_memory=False
    )
    rows = rows[rows[table.target].notna()].drop(columns=list(table.unused))
    labels = rows.pop(table.target)
    labels = labels if table.change is None else table.change(labels)
    if classifies := labels.dtype.kind not in "if":
        frequent = labels.map(labels.value_counts()) > 20
        rows, labels = rows[frequent], labels[frequent]
    for column in rows.columns[[dtype.kind not in "ifb" for dtype in rows.dtypes]]:
        rows[column] = rows[column].astype("category")
    y = labels.to_numpy()
    X = _with_numbers(rows.reset_index(drop=True))
    return Rows(X, np.unique(y, return_inverse=True)[1] if classifies else y)


@dataclass(frozen=True)
class Problem:
    """One task, split once."""

    name: str
    kind: str
    train: Rows
    validation: Rows
    test: Rows
    both: Rows
    """Training and validation rows together."""

    @property
    def classifies(self) -> bool:
        """Whether the target is a class."""
        return self.kind in ("binary", "multiclass")

    @property
    def task(self) -> str:
        """The kind of estimator that a library needs."""
        return {"regression": "values", "count": "counts"}.get(self.kind, "classes")


@dataclass(frozen=True)
class Task:
    """A table that is not read yet."""

    name: str
    kind: str
    load: Callable[[], Rows]


def all_tasks(folder: Path) -> dict[str, Task]:
    """The tasks of a data folder by name."""
    index = json.loads((folder / "suite" / "index.json").read_text())
    found = [
        Task(_name(entry), entry["task"], lambda entry=entry: _of_index(folder / "suite", entry))  # type: ignore[misc]
        for entry in index
        if entry["task"] in KINDS
    ]
    found += [Task(name, of.kind, lambda of=of: _of_large(folder / "large", of)) for name, of in LARGE.items()]  # type: ignore[misc]
    return {task.name: task for task in found}


def _name(entry: dict[str, Any]) -> str:
    return str(entry["file"]).removesuffix(".csv.xz")


def _of_index(folder: Path, entry: dict[str, Any]) -> Rows:
    """Read and prepare a table of the index. Texts such as "None" are values; only empty cells are missing."""
    frame = pd.read_csv(folder / entry["file"], keep_default_na=False, na_values=[""], low_memory=False)
    frame = frame[frame[entry["target"]].notna()].reset_index(drop=True)
    frame = _with_parts_of_time(frame, _name(entry)).drop(columns=entry["drop"])
    y = frame.pop(entry["target"]).to_numpy()
    exposure = frame.pop(entry["exposure"]).to_numpy() if "exposure" in entry else None
    X = _with_numbers(_with_categories(frame, entry["categorical"]))
    if entry["task"] == "count":
        return Rows(X, *_rates(_name(entry), y, exposure))
    if entry["task"] == "regression":
        return Rows(X, np.log(y) if _name(entry) == "fremtpl2_sev" else y.astype(np.float64))
    return _with_frequent_classes(Rows(X, y))


def _with_parts_of_time(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Columns for hour, weekday and month of metro_traffic, whose volume depends mostly on the time."""
    if name != "metro_traffic":
        return frame
    when = pd.to_datetime(frame["date_time"]).dt
    return frame.assign(hour=when.hour, weekday=when.weekday, month=when.month)


def _with_categories(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The named columns, and all others that are not numbers, as categories."""
    texts = [name for name, dtype in frame.dtypes.items() if dtype.kind not in "iufb"]
    frame = frame.astype(dict.fromkeys([*names, *texts], "category"))
    # Whole numbers are read as floats where some are missing; XGBoost accepts no floats as categories.
    floats = [name for name in names if frame[name].cat.categories.dtype.kind == "f"]
    return frame.assign(**{name: frame[name].cat.rename_categories(np.int64) for name in floats})


def _with_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Truth values as numbers, which every library accepts."""
    return X.astype(dict.fromkeys(X.select_dtypes("bool"), np.int8))


def _rates(name: str, counts: Array, exposure: Array | None) -> tuple[Array, Array]:
    """Counts per unit of exposure, with the exposures as weights.

    This is the same model as counts with the offset log(exposure).
    """
    assert exposure is not None, f"{name} has no exposure"
    if name == "fremtpl2_freq":  # the usual clean-up of this table
        counts, exposure = np.minimum(counts, 4), np.minimum(exposure, 1.0)
    return counts / exposure, exposure.astype(np.float64)


def _with_frequent_classes(rows: Rows) -> Rows:
    _, y, counts = np.unique(rows.y, return_inverse=True, return_counts=True)
    frequent = counts >= MIN_ROWS_OF_CLASS
    kept = Rows(rows.X, y)[np.flatnonzero(frequent[y])]
    return Rows(kept.X, np.unique(kept.y, return_inverse=True)[1])


def stratified_order(strata: Array, rng: np.random.Generator) -> Array:
    """A random order of rows in which every run of consecutive rows has about the same share of each stratum.

    Not the one of the library: its splits may change, and then stored results would belong to other rows.
    """
    position = np.empty(len(strata))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        position[members] = (rng.permutation(len(members)) + rng.random()) / len(members)
    return np.argsort(position, kind="stable")


def split(task: Task, rows: Rows, seed: int, most_rows: int) -> Problem:
    """60 % of the rows for training, 15 % for validation, 25 % for testing, stratified by class.

    At most `most_rows` training rows, a quarter as many validation rows, and MAX_TEST_ROWS test rows are used. Classes
    with fewer than MIN_TRAINING_ROWS_OF_CLASS training rows are removed: not every library can be fitted to them.
    """
    classifies = task.kind in ("binary", "multiclass")
    strata = rows.y if classifies else np.zeros(len(rows.y))
    order = stratified_order(strata, np.random.default_rng(seed))
    parts = np.split(order, [int(0.6 * len(order)), int(0.75 * len(order))])
    parts = [part[:most] for part, most in zip(parts, (most_rows, most_rows // 4, MAX_TEST_ROWS), strict=True)]
    if classifies:
        in_training = np.bincount(rows.y[parts[0]], minlength=int(rows.y.max()) + 1)
        kept = in_training >= MIN_TRAINING_ROWS_OF_CLASS
        parts = [part[kept[rows.y[part]]] for part in parts]
        rows = Rows(rows.X, (np.cumsum(kept) - 1)[rows.y])
    train, validation, test = (rows[part] for part in parts)
    return Problem(task.name, task.kind, train, validation, test, rows[np.concatenate(parts[:2])])


def loss(kind: str, predicted: Array, rows: Rows) -> float:
    """Log loss of probabilities (row, class), mean squared error, or mean Poisson deviance weighted by exposure."""
    predicted = predicted.astype(np.float64)
    if kind == "regression":
        return float(np.mean((predicted - rows.y) ** 2))
    predicted = np.maximum(predicted, SMALLEST)
    if kind == "count":
        deviance = 2.0 * (rows.y * np.log(np.where(rows.y > 0, rows.y, 1.0) / predicted) - rows.y + predicted)
        return float(np.average(deviance, weights=rows.weight))
    return float(-np.mean(np.log(predicted[np.arange(len(rows.y)), rows.y])))
