"""Time to predict the probabilities of one row, and of 100 rows, on one thread: agbm and other libraries.

Like is compared with like. First the estimator classes, which accept tables of many kinds and check them; then the
functions that take only arrays, or that check less: `predictor()` of agbm, `Booster.predict` of LightGBM and
`Booster.inplace_predict` of XGBoost. CatBoost and Perpetual have one interface, which both comparisons use. Each model
is fitted to a table of the kind that it predicts, and has 100 trees of depth 6 (Perpetual: its own trees).

Prints tables, and inserts them into a document with --document.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from threadpoolctl import threadpool_limits

from benchmarks.libraries import (
    MIN_ROWS_IN_LEAF,
    RATE,
    CatBoost,
    HistGradientBoosting,
    Library,
    LightGBM,
    Ours,
    Perpetual,
    XGBoost,
)
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import Result, clocked, compare, machine, take_turns
from benchmarks.speed.report import number

FEATURES, TRAINING_ROWS, TREES, DEPTH = 28, 5_000, 100, 6
ROWS = (1, 100)
NAMES = [f"x{feature}" for feature in range(FEATURES)]
TABLES: dict[str, Callable[[np.ndarray], Any]] = {
    "NumPy": lambda X: X,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}
SETTINGS: dict[type[Library], dict[str, Any]] = {
    Ours: {
        "method": "gbm", "method__second_order": True, "max_iter": TREES, "max_depth": DEPTH, "learning_rate": RATE,
        "min_samples_leaf": MIN_ROWS_IN_LEAF, "early_stopping": False, "n_jobs": 1,
    },
    LightGBM: {
        "n_estimators": TREES, "max_depth": DEPTH, "num_leaves": 2**DEPTH, "learning_rate": RATE, "n_jobs": 1,
        "min_child_samples": MIN_ROWS_IN_LEAF, "verbose": -1,
    },
    XGBoost: {"n_estimators": TREES, "max_depth": DEPTH, "learning_rate": RATE, "n_jobs": 1},
    CatBoost: {
        "iterations": TREES, "depth": DEPTH, "learning_rate": RATE, "thread_count": 1, "verbose": False,
        "allow_writing_files": False,
    },
    HistGradientBoosting: {
        "max_iter": TREES, "max_depth": DEPTH, "max_leaf_nodes": 2**DEPTH, "learning_rate": RATE,
        "min_samples_leaf": MIN_ROWS_IN_LEAF, "early_stopping": False,
    },
    Perpetual: {
        "objective": "LogLoss", "budget": 1.0, "iteration_limit": TREES, "num_threads": 1, "memory_limit": 1.0,
    },
}  # fmt: skip
# Library -> the function of a fitted model that checks least; a library without one is not in that comparison.
BARE: dict[str, Callable[[Any], Callable[[np.ndarray], Any]]] = {
    "agbm": lambda model: model.predictor("predict_proba"),
    "LightGBM": lambda model: partial(model.booster_.predict, num_threads=1),
    "XGBoost": lambda model: model.get_booster().inplace_predict,
    "CatBoost": lambda model: partial(model.predict_proba, thread_count=1),
    "Perpetual": lambda model: model.predict_proba,
}
HEADS = ["interface", "table", "rows", "agbm"]


def fitted(X: Any, y: np.ndarray) -> dict[str, Any]:
    """A model of each library that is installed and accepts the table."""
    models = {}
    for library, settings in SETTINGS.items():
        try:
            model = library().estimator("classes", **settings).fit(X, y)
            model.predict_proba(X[:1])
            models[library.name] = model
        except Exception as error:
            print(f"{library.name} is left out for {type(X).__module__}: {type(error).__name__}: {str(error)[:100]}")
    return models


def measured(functions: Mapping[str, Callable[[Any], Any]], rows: Any, rounds: int) -> list[Result]:
    """The times of the functions on the same rows, in microseconds."""
    turns = {name: clocked(partial(of, rows)) for name, of in functions.items()}
    with threadpool_limits(1):  # only here, since it limits the libraries that are loaded by now
        seconds = take_turns(turns, rounds)
    return compare("latency", "", "agbm", seconds, {}, {}, "µs")


def line(where: Sequence[str], results: Sequence[Result], libraries: Sequence[str]) -> list[str]:
    """A line of the table: agbm's time, then for each library its time and the ratio."""
    found = {result.against: f"{number(result.reference)} ({result.ratio:.2f})" for result in results}
    return [*where, number(results[0].value), *(found.get(name, "") for name in libraries)]


def main() -> None:
    """Measure all interfaces, tables and numbers of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--document", type=Path, help="a document with a place for the figures of latency")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((TRAINING_ROWS, FEATURES))
    y = (X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] + rng.standard_normal(TRAINING_ROWS) > 0).astype(int)
    libraries, lines = [library.name for library in SETTINGS if library is not Ours], []
    for kind, as_table in TABLES.items():
        models = fitted(as_table(X), y)
        comparisons = {"class": {name: model.predict_proba for name, model in models.items()}}
        if kind == "NumPy":
            comparisons["without checks"] = {name: of(models[name]) for name, of in BARE.items() if name in models}
        for interface, functions in comparisons.items():
            for n_rows in ROWS:
                results = measured(functions, as_table(X[:n_rows].copy()), asked.rounds)
                lines.append(line([interface, kind, str(n_rows)], results, libraries))
                print(*lines[-1], sep=" | ", flush=True)
    versions = ", ".join(f"{library.name} {library().version}" for library in SETTINGS if library.name in models)
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    text = [*table([*HEADS, *libraries], lines, 2), "", f"Machine: {facts}. Versions: {versions}."]
    print("\n".join(text))
    if asked.document:
        fill_in(asked.document, {"latency": text})


if __name__ == "__main__":
    main()
