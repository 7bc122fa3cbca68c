"""Tables on which methods are compared: the paper's data sets, and tables of a folder with an index.

`suite/index.json` in the folder lists files (CSV, compressed with xz) with `task`, `target`, `categorical` and `drop`;
tables for binary classification and regression are read. Categories become codes in the order of their names.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ...._base.sums import Array
from ...._base.types import AnyArray
from .. import data_sets
from ..printed import SETS

KINDS = ("binary", "regression")
MOST_ROWS = (5000, 5000, 10_000)
"""Maximum numbers of training, validation and test rows."""
SHARES = (0.6, 0.2)
"""The shares of the training and validation rows; the others are test rows."""
LOGARITHMIC = ("fremtpl2_sev",)
"""Tables with amounts as target, whose logarithm is predicted."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table of numbers, with labels 0 and 1 if its kind is "binary"."""

    name: str
    kind: str
    X: Array
    y: Array

    @property
    def classifies(self) -> bool:
        """Whether the labels are two classes."""
        return self.kind == "binary"

    @property
    def checksum(self) -> str:
        """Checksum of the values."""
        return hashlib.sha256(self.X.tobytes() + self.y.tobytes()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of a split: training rows, then validation rows, then test rows."""

    X: Array
    y: Array
    n_train: int
    n_validation: int

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return len(self.y) - self.n_train - self.n_validation


def split(table: Table, number: int) -> Split:
    """Split the rows at random; the same number gives the same rows."""
    n = len(table.y)
    order = np.random.default_rng(number).permutation(n)
    ends = np.floor(np.cumsum(SHARES) * n).astype(int)
    parts = [part[:most] for part, most in zip(np.split(order, ends), MOST_ROWS, strict=True)]
    rows = np.concatenate(parts)
    return Split(np.ascontiguousarray(table.X[rows]), table.y[rows], len(parts[0]), len(parts[1]))


def halves(kinds: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The tables on which rates are chosen, and those on which they are evaluated, from the kind of each table.

    Tables of a kind alternate in the order of their names.
    """
    by_kind = [sorted(name for name in kinds if kinds[name] == kind) for kind in KINDS]
    return [name for names in by_kind for name in names[::2]], [name for names in by_kind for name in names[1::2]]


def load(folder: Path | None) -> list[Table]:
    """The paper's data sets (see data_sets.py), and the tables of the folder's index if there is one.

    None is the folder of the environment variable that data_sets.py reads, too.
    """
    given = folder or os.environ.get(data_sets.VARIABLE)
    return [*of_paper(folder), *(of_suite(Path(given)) if given else [])]


def of_paper(folder: Path | None) -> list[Table]:
    """The paper's data sets."""
    return [_of_data_set(data_sets.load(name, folder)) for name in SETS]


def _of_data_set(data: data_sets.DataSet) -> Table:
    X = data.X.toarray() if issparse(data.X) else data.X
    y = (data.y > 0) if data.classifies else data.y
    kind = "binary" if data.classifies else "regression"
    return Table(data.name, kind, np.ascontiguousarray(X, dtype=np.float64), y.astype(np.float64))


def of_suite(folder: Path) -> list[Table]:
    """The tables of the index in a folder; none if there is no index."""
    index = folder / "suite" / "index.json"
    if not index.is_file():
        return []
    entries = json.loads(index.read_text(encoding="utf-8"))
    return [_of_file(index.parent, entry) for entry in entries if entry["task"] in KINDS]


def _of_file(folder: Path, entry: Mapping[str, Any]) -> Table:
    pandas = _pandas()
    name = str(entry["file"]).removesuffix(".csv.xz")
    # Texts such as "None" are values; only empty cells are missing.
    frame = pandas.read_csv(folder / entry["file"], keep_default_na=False, na_values=[""], low_memory=False)
    frame = frame[frame[entry["target"]].notna()]
    if name == "metro_traffic":  # its volume depends mostly on the time
        when = pandas.to_datetime(frame["date_time"]).dt
        frame = frame.assign(hour=when.hour, weekday=when.weekday, month=when.month)
    frame = frame.drop(columns=entry["drop"])
    y = frame.pop(entry["target"]).to_numpy()
    columns = [_numbers(frame[column], column in entry["categorical"]) for column in frame.columns]
    return Table(name, entry["task"], np.column_stack(columns), _labels(name, y, entry["task"]))


def _numbers(column: Any, is_category: bool) -> Array:
    """A column as numbers; categories and texts as codes, NaN where they are missing."""
    if not is_category and column.dtype.kind in "iufb":
        return np.asarray(column, dtype=np.float64)
    codes = np.asarray(column.astype("category").cat.codes, dtype=np.float64)
    return np.where(codes < 0, np.nan, codes)


def _labels(name: str, y: AnyArray, kind: str) -> Array:
    if kind == "binary":
        return np.unique(y, return_inverse=True)[1].astype(np.float64)
    return np.log(y.astype(np.float64)) if name in LOGARITHMIC else y.astype(np.float64)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"Tables of a folder are read with pandas ({error}): pip install 'agbm[paper]'") from error
    return pandas
