"""Time per tree against the number of threads and of rows, with LightGBM and XGBoost in the same run.

Trees of depth 6 on 28 features of random numbers, logistic loss, 255 bins. Every library bins the rows once with all
threads; then trees are grown with 1, 2, 4, ... threads, and the time is the median over trees after the first ones.
Speedups are relative to one thread of the same library. Writes cores.json to --out and a table to standard output.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import LightGBM, Ours, Setting, Work, XGBoost
from benchmarks.shared.document import table
from benchmarks.shared.measure import machine

WARM_UP = 2


def make_rows(n: int, p: int = 28) -> tuple[Any, Any]:
    """Features and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] - 0.5 * np.abs(X[:, 3]) + rng.standard_normal(n, dtype=np.float32)
    return X, (score > 0).astype(np.float64)


def growers(X: Any, y: Any, most_threads: int) -> Iterator[tuple[str, Callable[[int], Work]]]:
    """For each library, a function that returns one which grows a tree per call with a number of threads."""
    setting = Setting(most_threads, logistic=True)
    yield "agbm", lambda threads: Ours().grower(X, y, replace(setting, threads=threads))
    lightgbm = LightGBM()
    parameters = lightgbm.parameters(setting)
    data = lightgbm.api.Dataset(X, y, params=parameters).construct()

    def of_lightgbm(threads: int) -> Work:
        booster = lightgbm.api.Booster(parameters | {"num_threads": threads}, data)
        return lambda: booster.update()

    yield "LightGBM", of_lightgbm
    xgboost = XGBoost()
    matrix = xgboost.matrix(X, y, setting)

    def of_xgboost(threads: int) -> Work:
        booster = xgboost.api.Booster(xgboost.parameters(replace(setting, threads=threads)), [matrix])
        return lambda: booster.update(matrix, booster.num_boosted_rounds())

    yield "XGBoost", of_xgboost


def seconds_per_tree(grow: Work, trees: int) -> float:
    """The median time of trees."""
    times = []
    for _ in range(WARM_UP + trees):
        began = time.perf_counter()
        grow()
        times.append(time.perf_counter() - began)
    return float(np.median(times[WARM_UP:]))


def measured(n_rows: int, threads: list[int], trees: int) -> Iterator[dict[str, Any]]:
    """Seconds per tree of every library and number of threads."""
    X, y = make_rows(n_rows)
    for name, grower in growers(X, y, max(threads)):
        for n in threads:
            seconds = seconds_per_tree(grower(n), trees)
            yield {"rows": n_rows, "library": name, "threads": n, "seconds": seconds}


def lines(results: list[dict[str, Any]]) -> list[str]:
    """A table: milliseconds per tree, speedup over one thread, and the ratio of agbm to the others."""
    of = {(r["rows"], r["library"], r["threads"]): r["seconds"] for r in results}
    rows = []
    for (n_rows, library, n), seconds in of.items():
        one, ours = of.get((n_rows, library, 1)), of[n_rows, "agbm", n]
        speedup = "" if one is None else f"{one / seconds:.1f}"
        rows.append(
            [f"{n_rows:,}", library, str(n), f"{seconds * 1e3:.1f}", speedup,
             f"{seconds / n_rows * 1e9:.1f}", f"{ours / seconds:.2f}"]
        )  # fmt: skip
    heads = ["rows", "library", "threads", "ms per tree", "speedup", "ns per row", "agbm relative to it"]
    return table(heads, rows, left=2)


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/cores"))
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--trees", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    print(machine())
    results: list[dict[str, Any]] = []
    for n_rows in args.rows:
        for found in measured(n_rows, args.threads, args.trees):
            results.append(found)
            print(json.dumps(found), flush=True)
            (args.out / "cores.json").write_text(json.dumps(results, indent=1))
    print("\n".join(lines(results)))


if __name__ == "__main__":
    main()
