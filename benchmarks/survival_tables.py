"""The tables of survival.py: times until an event, some of them censored.

Those of the suite are listed in its index.json. The others are shipped with scikit-survival and lifelines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from survival_scores import grid
from trials import Array, Trial

SPLITS, SPLITS_OF_FEW_ROWS = 5, 20
OF_SKSURV = {
    "veterans_lung_cancer": SPLITS_OF_FEW_ROWS, "whas500": SPLITS_OF_FEW_ROWS, "gbsg2": SPLITS_OF_FEW_ROWS,
    "aids": SPLITS_OF_FEW_ROWS, "flchain": SPLITS,
}  # fmt: skip
"""Tables of scikit-survival, with their numbers of splits."""
TRAINING, FITTING = 0.6, 0.75
"""Shares of rows for training, and for training and validation together."""


@dataclass(frozen=True)
class Lives:
    """Features, times, and whether the event was observed at that time."""

    X: pd.DataFrame
    time: Array
    event: Array

    def __getitem__(self, rows: Array) -> Lives:
        """The chosen rows, given by position."""
        return Lives(self.X.iloc[rows].reset_index(drop=True), self.time[rows], self.event[rows])


@dataclass(frozen=True)
class Problem:
    """One table, split once; `times` are those at which curves are needed."""

    train: Lives
    validation: Lives
    test: Lives
    both: Lives
    """Training and validation rows together."""
    times: Array


def split(lives: Lives, seed: int) -> Problem:
    """60 % of the rows for training, 15 % for validation, 25 % for testing, stratified by event."""
    rng = np.random.default_rng(seed)
    parts: list[list[Array]] = [[], [], []]
    for stratum in (False, True):
        order = rng.permutation(np.flatnonzero(lives.event == stratum))
        cuts = [int(TRAINING * len(order)), int(FITTING * len(order))]
        for part, rows in zip(parts, np.split(order, cuts), strict=True):
            part.append(rows)
    train, validation, test = (rng.permutation(np.concatenate(part)) for part in parts)
    both = lives[np.concatenate([train, validation])]
    times = grid(both.time, both.event, lives.time[test])
    return Problem(lives[train], lives[validation], lives[test], both, times)


def _typed(X: pd.DataFrame, categorical: list[str] | None = None) -> pd.DataFrame:
    """Texts and the named columns as categories, all else as floats."""
    texts = [name for name, dtype in X.dtypes.items() if dtype.kind not in "iufb"]
    names = list(dict.fromkeys([*(categorical or []), *texts]))
    X = X.astype({name: np.float64 for name in X if name not in names}).astype(dict.fromkeys(names, "category"))
    floats = [name for name in names if X[name].cat.categories.dtype.kind == "f"]
    return X.assign(**{name: X[name].cat.rename_categories(np.int64) for name in floats})  # as XGBoost needs them


def _of_index(folder: Path, entry: dict[str, Any]) -> Lives:
    frame = pd.read_csv(folder / entry["file"], keep_default_na=False, na_values=[""], low_memory=False)
    event = frame[entry["event"]].to_numpy() == 1
    time = frame[entry["target"]].to_numpy(np.float64)
    return Lives(_typed(frame.drop(columns=[*entry["drop"], entry["target"]]), entry["categorical"]), time, event)


def _of_sksurv(name: str) -> Lives:
    from sksurv import datasets

    X, outcomes = getattr(datasets, f"load_{name}")()
    event, time = (outcomes[field] for field in outcomes.dtype.names)
    # The cause of death of flchain is known only after the event.
    X = X.drop(columns=[column for column in ("chapter",) if column in X])
    positive = time > 0  # a few rows of flchain have the time 0, which no log of time has
    return Lives(_typed(X), time.astype(np.float64), event.astype(bool))[np.flatnonzero(positive)]


def _of_lifelines(name: str, time: str, event: str) -> Lives:
    from lifelines import datasets

    frame = getattr(datasets, f"load_{name}")()
    return Lives(_typed(frame.drop(columns=[time, event])), frame[time].to_numpy(float), frame[event].to_numpy() == 1)


def _trial_of(name: str, load: Callable[[], Lives], n_splits: int) -> Trial[Problem]:
    """The trial of a table, which is read with its first split."""
    kept: list[Lives] = []

    def make(seed: int) -> Problem:
        if not kept:
            kept.append(load())
        return split(kept[0], seed)

    return Trial(name, n_splits, make)


def trials_of(folder: Path) -> list[Trial[Problem]]:
    """The trials of a data folder, and of the packages."""
    index = json.loads((folder / "suite" / "index.json").read_text())
    found = [_trial_of(name, lambda name=name: _of_sksurv(name), splits) for name, splits in OF_SKSURV.items()]  # type: ignore[misc]
    found.append(_trial_of("rossi", lambda: _of_lifelines("rossi", "week", "arrest"), SPLITS_OF_FEW_ROWS))
    for entry in index:
        if entry["task"] == "survival":
            name = Path(entry["file"]).name.removesuffix(".csv.xz")
            found.append(_trial_of(name, lambda entry=entry: _of_index(folder / "suite", entry), SPLITS))  # type: ignore[misc]
    return found
