"""Coverage and size of intervals and sets of classes: CV+ by the rows that fit holds out, and split conformal sets.

    python -m benchmarks.tasks.coverage FOLDER [TABLE ...]

FOLDER has the tables of the suite. In each of five random splits, 30 % of a table (at most 10,000 rows) are
test rows. CV+ uses all other rows (at most 10,000) for fit; split conformal prediction uses 80 % of them for fit and
20 % for calibrate. Coverage is the share of test rows whose label is covered, for a wanted coverage of 0.9; size is the
mean width of intervals, in standard deviations of the labels, or the mean number of classes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agbm import AGBMClassifier, AGBMRegressor

TABLES = ("california_housing", "bike_sharing_hour", "telco_churn")
MOST, SPLITS = 10_000, 5


def main() -> None:
    """Measure the tables and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder suite/ of the data")
    parser.add_argument("tables", nargs="*", default=TABLES, help="names of tables (default: %(default)s)")
    args = parser.parse_args()
    folder = args.folder
    known = {entry["file"].split(".")[0]: entry for entry in json.loads((folder / "index.json").read_text())}
    print("| table | coverage, CV+ | coverage, split | size, CV+ | size, split |\n|---|---:|---:|---:|---:|")
    for name in args.tables:
        results = np.array([measured(*read(folder, known[name]), seed) for seed in range(SPLITS)])
        mean, spread = results.mean(axis=0), results[:, :2].std(axis=0, ddof=1)
        shares = [f"{share:.3f} ± {of:.3f}" for share, of in zip(mean[:2], spread, strict=True)]
        print(f"| {name} | {' | '.join(shares)} | {mean[2]:.3f} | {mean[3]:.3f} |", flush=True)


def read(folder: Path, entry: dict[str, Any]) -> tuple[pd.DataFrame, pd.Series, str]:
    """Return features, labels and task of a table."""
    table = pd.read_csv(folder / entry["file"])
    X = table.drop(columns=[entry["target"], *entry["drop"]])
    texts = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
    return X.astype(dict.fromkeys({*texts, *entry["categorical"]}, "category")), table[entry["target"]], entry["task"]


def measured(X: pd.DataFrame, y: pd.Series, task: str, seed: int) -> list[float]:
    """Return the coverage of both ways, and then their sizes."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, rest = order[: min(MOST, int(0.3 * len(X)))], order[int(0.3 * len(X)) :][:MOST]
    fit, other = rest[len(rest) // 5 :], rest[: len(rest) // 5]
    kind = AGBMRegressor if task in ("regression", "count") else AGBMClassifier
    models = [kind(random_state=seed).fit(X.iloc[rows], y.iloc[rows]) for rows in (rest, fit)]
    models[1].calibrate(X.iloc[other], y.iloc[other])
    found = [covered(model, X.iloc[test], y.iloc[test].to_numpy()) for model in models]
    unit = float(y.std()) if kind is AGBMRegressor else 1.0
    return [*(float(inside.mean()) for inside, _ in found), *(float(size.mean()) / unit for _, size in found)]


def covered(model: AGBMClassifier | AGBMRegressor, X: pd.DataFrame, y: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return whether each row is covered, and the size of its interval or set."""
    if isinstance(model, AGBMClassifier):
        sets = model.predict_set(X)
        return sets[np.arange(len(y)), np.searchsorted(model.classes_, y)], sets.sum(axis=1)
    lower, upper = model.predict_interval(X).T
    return (lower <= y) & (y <= upper), upper - lower


if __name__ == "__main__":
    main()
