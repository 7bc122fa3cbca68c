"""The tables of ranking.py: queries with documents, and their official folds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trials import Trial

Array = np.ndarray[Any, Any]

TRAIN, TEST = "train", "test"
VALIDATION_SHARE = 0.2
"""Share of the training queries that are held out where a table has no validation queries."""


@dataclass(frozen=True)
class Queries:
    """Documents with their relevances; those of a query are consecutive."""

    X: Array
    y: Array
    qid: Array

    def __getitem__(self, rows: Array) -> Queries:
        """The chosen documents."""
        return Queries(self.X[rows], self.y[rows], self.qid[rows])

    @property
    def sizes(self) -> Array:
        """The number of documents of every query."""
        starts = np.flatnonzero(np.r_[True, self.qid[1:] != self.qid[:-1]])
        return np.diff(np.r_[starts, len(self.qid)])


@dataclass(frozen=True)
class Problem:
    """One table, split once."""

    train: Queries
    validation: Queries
    test: Queries

    @property
    def both(self) -> Queries:
        """Training and validation queries together."""
        parts = self.train, self.validation
        return Queries(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "qid")))


def _read(path: Path, entry: dict[str, Any]) -> tuple[Queries, Array]:
    """The documents of a table, sorted by query, and the folds of these."""
    frame = pd.read_csv(path).sort_values(entry["group"], kind="stable")
    features = frame.drop(columns=[*entry["drop"], entry["target"]]).to_numpy(np.float64)
    qid = np.unique(frame[entry["group"]], return_inverse=True)[1]
    return Queries(features, frame[entry["target"]].to_numpy(np.int64), qid), frame[entry["fold"]].to_numpy()


def rotated(queries: Queries, fold: Array, split: int) -> Problem:
    """The official rotation of numbered folds: of five, three for training, the next for validation, one for testing.

    Split 0 trains on folds 1, 2 and 3, validates on 4 and tests on 5; every further split moves all by one.
    """
    names = np.roll(np.unique(fold), -split)
    parts = [np.isin(fold, names[:-2]), fold == names[-2], fold == names[-1]]
    return Problem(*(queries[part] for part in parts))


def held_out(queries: Queries, fold: Array, split: int) -> Problem:
    """Given training and test queries; validation queries are drawn at random from the training queries."""
    training = np.unique(queries.qid[fold == TRAIN])
    drawn = np.random.default_rng(split).permutation(training)[: round(VALIDATION_SHARE * len(training))]
    validation = np.isin(queries.qid, drawn)
    return Problem(queries[(fold == TRAIN) & ~validation], queries[validation], queries[fold == TEST])


def _trial_of(folder: Path, entry: dict[str, Any]) -> Trial[Problem]:
    """The trial of a table, which is read with its first split."""
    kept: list[tuple[Queries, Array]] = []
    is_rotated = "lightgbm_rank" not in entry["file"]

    def make(split: int) -> Problem:
        if not kept:
            kept.append(_read(folder / entry["file"], entry))
        return (rotated if is_rotated else held_out)(*kept[0], split)

    name = Path(entry["file"]).name.removesuffix(".csv.xz")
    return Trial(name, 5 if is_rotated else 1, make)


def trials_of(folder: Path) -> list[Trial[Problem]]:
    """The trials of a data folder."""
    index = json.loads((folder / "suite" / "index.json").read_text())
    return [_trial_of(folder / "suite", entry) for entry in index if entry["task"] == "ranking"]
