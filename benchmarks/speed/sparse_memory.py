"""Peak memory of fits and predictions on sparse tables with 2^20 columns, the default of HashingVectorizer.

    python -m benchmarks.speed.sparse_memory

Every library fits the same rows with its default parameters and the same number of trees, each in its own process, and
then predicts some of the rows. Peak memory is the largest resident set of that process, including the interpreter, the
library and the table. The tables are:

* text: documents whose words follow Zipf's law, hashed by HashingVectorizer with its defaults;
* random: the same number of values per row, in random columns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, load_npz, save_npz

from benchmarks.libraries import Library, LightGBM, Ours, XGBoost

N_COLUMNS = 2**20
VALUES_PER_ROW = 150
VOCABULARY = 500_000
PREDICTED_ROWS = 4_000

TREES: dict[type[Library], str] = {Ours: "max_iter", LightGBM: "n_estimators", XGBoost: "n_estimators"}
"""The names of the number of trees."""
LIBRARIES = {library.name: library for library in TREES}


def main() -> None:
    """Create the tables, measure every library on each, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--measure", type=json.loads, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(**options.measure)))
        return
    print(f"{options.rows:,} rows x {N_COLUMNS:,} columns, {options.trees} trees; peak memory in MB and seconds:")
    print(f"fit, predict on {PREDICTED_ROWS:,} rows in the same process, load and predict in a new one")
    print(f"{'table':8s} {'target':12s} {'library':10s} {'fit':>15s} {'predict':>15s} {'loaded':>8s}")
    with tempfile.TemporaryDirectory(prefix="agbm-sparse-") as folder:
        for table in options.tables:
            write(Path(folder), TABLES[table](options.rows))
            for target in ("binary", "regression"):
                for library in options.libraries:
                    task = {"folder": folder, "target": target, "library": library, "n_trees": options.trees}
                    print(f"{table:8s} {target:12s} {library:10s} {in_words(task)}", flush=True)


def in_words(task: dict[str, Any]) -> str:
    """Measure a task and format its results."""
    figures = in_a_process(task)
    words = [f"{figures[f'{what} (MB)']:8,.0f} {figures[f'{what} (s)']:6.1f}" for what in ("fit", "predict")]
    if task["library"] == "agbm":
        words.append(f"{in_a_process(task | {'loaded': True})['predict (MB)']:8,.0f}")
    return " ".join(words)


def text(n_rows: int) -> csr_matrix:
    """Documents of words whose frequencies follow Zipf's law."""
    from sklearn.feature_extraction.text import HashingVectorizer

    random = np.random.default_rng(0)
    share = 1.0 / (np.arange(VOCABULARY) + 2.7)
    ends = np.cumsum(share / share.sum())

    def document(length: int) -> str:
        return " ".join(f"word{number}" for number in np.searchsorted(ends, random.random(length)).tolist())

    lengths = random.poisson(VALUES_PER_ROW, size=n_rows) + 1
    return csr_matrix(HashingVectorizer().transform(document(length) for length in lengths))


def scattered(n_rows: int) -> csr_matrix:
    """The same number of values in each row, in random columns."""
    random = np.random.default_rng(0)
    rows = np.repeat(np.arange(n_rows), VALUES_PER_ROW)
    columns = random.integers(0, N_COLUMNS, size=len(rows))
    table = csr_matrix((random.random(len(rows)), (rows, columns)), shape=(n_rows, N_COLUMNS))
    table.sum_duplicates()
    return table


TABLES: dict[str, Callable[[int], csr_matrix]] = {"text": text, "random": scattered}


def write(folder: Path, X: csr_matrix) -> None:
    """Write the table, and labels that depend on its columns."""
    random = np.random.default_rng(1)
    uses = np.maximum(np.bincount(X.indices, minlength=N_COLUMNS), 1)
    score = X @ (random.normal(size=N_COLUMNS) / uses**0.25)
    score = (score - score.mean()) / score.std() + 0.5 * random.normal(size=X.shape[0])
    save_npz(folder / "X.npz", X)
    np.savez(folder / "y.npz", binary=(score > 0).astype(int), regression=score)


def in_a_process(task: dict[str, Any]) -> dict[str, float]:
    """Measure a task in a new process."""
    command = [sys.executable, "-m", "benchmarks.speed.sparse_memory", "--measure", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{task}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(folder: str, target: str, library: str, n_trees: int, loaded: bool = False) -> dict[str, float]:
    """Time and peak memory of a fit and a prediction, or of a prediction with a saved model if `loaded`."""
    X = load_npz(Path(folder) / "X.npz")
    y = np.load(Path(folder) / "y.npz")[target]
    figures: dict[str, float] = {}
    if loaded:
        from agbm import load

        model = load(Path(folder) / "model.agbm")
    else:
        kind = LIBRARIES[library]
        silent = {"verbose": -1} if kind is LightGBM else {}
        task = "classes" if target == "binary" else "values"
        model = kind().estimator(task, **{TREES[kind]: n_trees}, **silent)
        began = time.perf_counter()
        model.fit(X, y)
        figures |= {"fit (s)": time.perf_counter() - began, "fit (MB)": peak()}
        if library == "agbm":
            model.save(Path(folder) / "model.agbm")
    began = time.perf_counter()
    model.predict(X[:PREDICTED_ROWS])
    return figures | {"predict (s)": time.perf_counter() - began, "predict (MB)": peak()}


def peak() -> float:
    """The largest resident set so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    main()
