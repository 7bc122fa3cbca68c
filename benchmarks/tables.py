"""Real data sets for the benchmarks: CSV files (xz) with a header, read from a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

Target = Callable[[pd.Series], pd.Series]

# Columns that are known only after departure or landing, or are the same for all rows.
_AFTER_THE_FLIGHT = ("dep_time", "dep_delay", "arr_time", "air_time", "time_hour", "year")


@dataclass(frozen=True)
class Table:
    """The file of a task, and how to prepare it."""

    file: str
    target: str
    unused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    change: Target | None = None
    """A transformation of the target."""
    time: tuple[str, ...] = ()
    """Columns with the time of a row, if rows must be split by time."""


TABLES: dict[str, Table] = {
    "adult": Table("adult", "income", ("fold",), ("?",)),
    "higgs (sample)": Table("higgs_sample", "label", ("fold",), (), lambda label: label.map("class {}".format)),
    "flights (delayed)": Table(
        "nycflights13", "arr_delay", _AFTER_THE_FLIGHT, ("NA",),
        lambda delay: (delay > 15).map({True: "late", False: "on time"}),
    ),
    "diabetes-130": Table("diabetes130", "readmitted", ("encounter_id", "patient_nbr"), ("?",)),
    "covertype": Table("covertype", "Cover_Type", change=lambda kind: kind.map("type {}".format)),
    "covertype (2 or not)": Table(
        "covertype", "Cover_Type", change=lambda kind: (kind == 2).map({True: "type 2", False: "other"})
    ),
    "shuttle": Table("shuttle", "Class"),
    "kddcup99": Table("kddcup99_10pct", "label"),
    "diamonds (log)": Table("diamonds", "price", change=np.log),
    "Beijing air (log)": Table(
        "beijing_air_quality", "PM2.5", ("No",), ("NA",), np.log, ("year", "month", "day", "hour")
    ),
}  # fmt: skip


def read(folder: Path, name: str) -> tuple[pd.DataFrame, np.ndarray] | None:
    """Features with categorical columns, and the target; None if the file does not exist.

    Classes with at most 20 rows are removed, because they might be missing from a part of a split.
    """
    table = TABLES[name]
    path = folder / f"{table.file}.csv.xz"
    if not path.exists():
        return None
    rows = pd.read_csv(path, na_values=list(table.missing), keep_default_na=False, low_memory=False)
    rows = rows[rows[table.target].notna()].drop(columns=list(table.unused))
    labels = rows.pop(table.target)
    labels = labels if table.change is None else table.change(labels)
    if classifies(labels):
        frequent = labels.map(labels.value_counts()) > 20
        rows, labels = rows[frequent], labels[frequent]
    for column in rows.columns[[dtype.kind not in "ifb" for dtype in rows.dtypes]]:
        rows[column] = rows[column].astype("category")
    return rows.reset_index(drop=True), labels.to_numpy()


def classifies(labels: pd.Series | np.ndarray) -> bool:
    """Whether labels are classes."""
    return labels.dtype.kind not in "if"
