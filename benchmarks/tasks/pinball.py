"""Pinball loss of quantile regression on test rows, for this library and its peers.

    python -m benchmarks.tasks.pinball [FILE ...] [--target COLUMN] [--rows N]

Every library fits each quantile with its default parameters on the same training rows. Files are tables in CSV format,
whose numeric columns are used. Two synthetic tables are always included, one with homoscedastic and one with
heteroscedastic noise. Values are means over random splits.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean
from sklearn.metrics import mean_pinball_loss

from benchmarks.libraries import Effort, HistGradientBoosting, Library, LightGBM, Ours, Rows

QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)
MOST_TEST_ROWS = 20_000

Table = tuple[np.ndarray, np.ndarray]


def main() -> None:
    """Measure all tables and quantiles and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--target", default="target", help="column to predict (%(default)s)")
    parser.add_argument("--rows", type=int, default=3_000, help="training rows (%(default)s)")
    parser.add_argument("--splits", type=int, default=3, help="random splits (%(default)s)")
    options = parser.parse_args()
    tables = {name: synthetic(2 * options.rows, unequal=name == "unequal") for name in ("equal", "unequal")}
    tables |= {path.name.split(".")[0]: read(path, options.target) for path in options.files}
    print(f"pinball loss on test rows, {options.rows:,} training rows, mean over {options.splits} random split(s)")
    names = " ".join(f"{library.name:>20s}" for library in LIBRARIES)
    print(f"{'table':24s} {'quantile':>8s} {names}   agbm / best other")
    ratios: dict[float, list[float]] = {q: [] for q in QUANTILES}
    for name, table in tables.items():
        for q in QUANTILES:
            losses = measure(table, q, options.rows, options.splits)
            ratios[q].append(losses["agbm"] / min(loss for other, loss in losses.items() if other != "agbm"))
            shown = " ".join(f"{loss:20.5g}" for loss in losses.values())
            print(f"{name:24s} {q:8g} {shown}   {ratios[q][-1]:.3f}", flush=True)
    for q in QUANTILES:
        print(f"{'geometric mean':24s} {q:8g} {'':{21 * len(LIBRARIES) - 1}s}   {gmean(ratios[q]):.3f}")


def synthetic(n_rows: int, *, unequal: bool) -> Table:
    """A smooth function of two of five features, with noise whose spread may depend on a third one."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 5))
    spread = 0.5 * np.exp(X[:, 2]) if unequal else 0.3
    return X, 2.0 * X[:, 0] + X[:, 1] ** 2 + spread * random.normal(size=n_rows)


def read(path: Path, target: str) -> Table:
    """The numeric columns of a file, and the target."""
    rows = pd.read_csv(path, low_memory=False)
    y = rows.pop(target).to_numpy(float)
    return rows.select_dtypes("number").to_numpy(float), y


def measure(table: Table, q: float, n_train: int, n_splits: int) -> dict[str, float]:
    """The loss of every library."""
    X, y = table
    losses: dict[str, list[float]] = {library.name: [] for library in LIBRARIES}
    effort = Effort(None, 0, len(os.sched_getaffinity(0)))
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n_train], order[n_train:][:MOST_TEST_ROWS]
        for library, parameters in LIBRARIES.items():
            model = library().train("values", Rows(X[train], y[train]), None, effort, **parameters(q))
            losses[library.name].append(mean_pinball_loss(y[test], model(X[test]), alpha=q))
    return {name: float(np.mean(values)) for name, values in losses.items()}


LIBRARIES: dict[type[Library], Callable[[float], dict[str, Any]]] = {
    Ours: lambda q: {"loss": f"quantile:{q}"},
    HistGradientBoosting: lambda q: {"loss": "quantile", "quantile": q},
    LightGBM: lambda q: {"objective": "quantile", "alpha": q},
}
"""How each library names a quantile."""


if __name__ == "__main__":
    main()
