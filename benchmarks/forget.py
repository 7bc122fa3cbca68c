"""Exact unlearning: how much of a training run stays the same if one row is left out.

    python benchmarks/forget.py --data FOLDER

FOLDER has the tables of benchmarks/suite.py. A model that forgets a row has to be, bit for bit, the model of a fit
without the row. Iterations before the first one that differs could be replayed, and all later ones must be trained
again. For each row the script fits with and without it, and prints the iteration that differs first; 0 means that the
start function differs already, before the first tree. Rows are random, or adversarial: those with the largest and the
smallest label, and those whose features are farthest from the mean.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from agbm import AGBMClassifier, AGBMRegressor
from agbm._life.differences import of_iterations

TABLES = ("california_housing", "wine_quality", "taiwan_credit_default", "house_16h")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "no rows held out": {"early_stopping": False, "n_members": 1},
    "subsample=0.1, init='zero', no rows held out": {
        "early_stopping": False, "n_members": 1, "subsample": 0.1, "init": "zero",
    },
}  # fmt: skip
ITERATIONS = 40
MOST_ROWS = 5_000


def main() -> None:
    """Measure all tables and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=8, help="rows of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    print("| table | settings | rows left out | same start | first iteration that differs: median | latest |")
    print("|---|---|---|---:|---:|---:|")
    for name in TABLES:
        X, y = read(arguments.data, name)
        for settings, parameters in SETTINGS.items():
            whole = fitted(X, y, parameters)
            for kind, rows in rows_of(X, y, arguments.rows).items():
                found = [first_difference(whole, fitted(np.delete(X, i, 0), np.delete(y, i), parameters)) for i in rows]
                same = sum(start for start, _ in found)
                firsts = [iteration for _, iteration in found]
                shares = f"{same} of {len(rows)} | {np.median(firsts):g} | {max(firsts)} of {ITERATIONS}"
                print(f"| {name} | {settings} | {len(rows)} {kind}, one at a time | {shares} |", flush=True)


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The numeric columns of a table, and its labels."""
    table = pd.read_csv(folder / "suite" / f"{name}.csv.xz")
    order = np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]
    numbers = table.drop(columns="target").select_dtypes("number").to_numpy(dtype=np.float64)
    return numbers[order], table["target"].to_numpy()[order]


def fitted(X: np.ndarray, y: np.ndarray, parameters: dict[str, Any]) -> Any:
    """A model with a given number of iterations."""
    kind = AGBMClassifier if len(np.unique(y)) == 2 else AGBMRegressor
    return kind(max_iter=ITERATIONS, n_iter_no_change=ITERATIONS, **parameters).fit(X, y).model_


def rows_of(X: np.ndarray, y: np.ndarray, n: int) -> dict[str, list[int]]:
    """Rows to leave out."""
    random = np.random.default_rng(1).choice(len(y), n, replace=False).tolist()
    spread = np.nan_to_num((X - np.nanmean(X, axis=0)) / (np.nanstd(X, axis=0) + 1e-12))
    far, by_label = np.argsort(-np.square(spread).sum(axis=1)), np.argsort(y, kind="stable")
    chosen = np.concatenate([far[: n // 2], by_label[: n // 4], by_label[-(n // 4) :]])
    return {"random": random, "adversarial": list(dict.fromkeys(chosen.tolist()))}


def first_difference(whole: Any, without: Any) -> tuple[bool, int]:
    """Whether two models start from the same function, and the first iteration in which they differ."""
    same = bool(np.array_equal(whole.start, without.start))
    found = of_iterations(whole.ensembles, without.ensembles)
    iteration = (found[0].iteration or 0) if found else ITERATIONS + 1
    return same, iteration if same else 0


if __name__ == "__main__":
    main()
