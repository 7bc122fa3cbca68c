"""Time to predict with a model as C and as JavaScript, beside `predictor()` and tl2cgen; sizes and times to compile.

The model is that of latency.py: 28 features, trees of depth 6, probabilities of two classes, one thread. The C file is
compiled by gcc -O2 and called by ctypes, once per row, and in a loop of C over all rows; the module is called in a loop
in node. tl2cgen compiles the same model with the options of its manual and predicts by its Python interface. Without
gcc, node or tl2cgen the lines that need it are left out. All times are processor times.

Prints tables, and inserts them into a document with --document.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from agbm import AGBMClassifier
from agbm.export import to_c, to_js, to_treelite
from agbm.methods import GBM
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import Turn, machine, take_turns
from benchmarks.speed.report import number

FEATURES, TRAINING_ROWS, DEPTH = 28, 5_000, 6
TREES = (100, 1_000)
ROWS = (1, 100)
# Rows of a measured loop.
AT_ONCE = 200
LOOPED = "C, in a loop of C"
LOOP = """
#include "model.c"
void loop(const double *rows, int n, double *out) {
  for (int i = 0; i < n; ++i) agbm_predict_proba(rows + i * AGBM_N_FEATURES, out + i * AGBM_N_PREDICTIONS);
}
"""
NODE = """
import { predictProba } from "./model.mjs";
import { readFileSync } from "node:fs";
const rows = JSON.parse(readFileSync("rows.json")).map((row) => Float64Array.from(row));
const times = [];
while (times.length < 50) {
  const start = process.cpuUsage().user;
  for (let k = 0; k < REPEATS; ++k) for (const row of rows) predictProba(row);
  times.push((process.cpuUsage().user - start) / REPEATS);
}
times.sort((a, b) => a - b);
console.log(times[Math.floor(times.length / 2)] / 1e6);
"""


def in_processor_time(work: Callable[[], object], calls: int = 1) -> Turn:
    """A turn that measures the median processor time of a call, which other processes prolong least."""

    def turn() -> float:
        times: list[float] = []
        for _ in range(50):
            began = time.thread_time()
            for _ in range(calls):
                work()
            times.append((time.thread_time() - began) / calls)
        return float(np.median(times[1:]))

    return turn


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((TRAINING_ROWS, FEATURES))
    noise = rng.standard_normal(TRAINING_ROWS)
    return X, (X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] + noise > 0).astype(int)


def fitted(trees: int) -> AGBMClassifier:
    X, y = data()
    return AGBMClassifier(
        method=GBM(second_order=True), max_iter=trees, max_depth=DEPTH, max_leaf_nodes=None, min_samples_leaf=5,
        early_stopping=False, n_members=1, n_jobs=1,
    ).fit(X, y)  # fmt: skip


def c_functions(model: AGBMClassifier, folder: Path) -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    """The C file, called for every row and for all rows."""
    if shutil.which("gcc") is None:
        return
    (folder / "model.c").write_text(to_c(model))
    (folder / "loop.c").write_text(LOOP)
    command = ["gcc", "-O2", "-shared", "-fPIC", "loop.c", "-o", "model.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "model.so"))

    def each(rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), 2))
        row, result = rows.ctypes.data, out.ctypes.data
        for k in range(len(rows)):
            library.agbm_predict_proba(ctypes.c_void_p(row + 8 * FEATURES * k), ctypes.c_void_p(result + 16 * k))
        return out

    def loop(rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), 2))
        library.loop(ctypes.c_void_p(rows.ctypes.data), len(rows), ctypes.c_void_p(out.ctypes.data))
        return out

    yield "C, a call by ctypes per row", each
    yield LOOPED, loop


def tl2cgen_function(model: AGBMClassifier, folder: Path) -> Iterator[tuple[str, Callable[[np.ndarray], Any]]]:
    try:
        tl2cgen = import_module("tl2cgen")
    except ImportError:
        print("tl2cgen is not installed and left out")
        return
    library = str(folder / "tl2cgen.so")
    tl2cgen.export_lib(to_treelite(model), toolchain="gcc", libpath=library, params={"parallel_comp": 8})
    predictor = tl2cgen.Predictor(library, nthread=1)
    yield "tl2cgen", lambda rows: predictor.predict(tl2cgen.DMatrix(rows, dtype="float64"))


def node_seconds(model: AGBMClassifier, rows: np.ndarray, folder: Path) -> float:
    (folder / "model.mjs").write_text(to_js(model))
    (folder / "rows.json").write_text(json.dumps(rows.tolist()))
    (folder / "time.mjs").write_text(NODE.replace("REPEATS", str(AT_ONCE // len(rows))))
    return float(subprocess.run(["node", "time.mjs"], cwd=folder, check=True, capture_output=True, text=True).stdout)


def c_loop_seconds(model: AGBMClassifier, rows: np.ndarray, folder: Path) -> float:
    """Seconds for all rows in a loop of C, which is long enough for the call to take no part of it."""
    loop = dict(c_functions(model, folder))[LOOPED]
    many = np.tile(rows, (AT_ONCE // len(rows), 1))
    return in_processor_time(partial(loop, many))() * len(rows) / len(many)


def latencies(model: AGBMClassifier, rounds: int, folder: Path) -> list[list[str]]:
    """Lines of the table: microseconds for each number of rows."""
    X = data()[0]
    functions: dict[str, Callable[[np.ndarray], Any]] = {"predictor()": model.predictor("predict_proba")}
    functions |= dict(c_functions(model, folder)) | dict(tl2cgen_function(model, folder))
    times: dict[str, list[float]] = {}
    for n_rows in ROWS:
        rows = X[:n_rows].copy()
        seconds = take_turns(
            {name: in_processor_time(partial(of, rows), AT_ONCE // n_rows) for name, of in functions.items()}, rounds
        )
        if shutil.which("gcc"):
            seconds[LOOPED] = np.array([c_loop_seconds(model, rows, folder) for _ in range(rounds)])
        if shutil.which("node"):
            seconds["JavaScript, in a loop in node"] = np.array(
                [node_seconds(model, rows, folder) for _ in range(rounds)]
            )
        for name, values in seconds.items():
            times.setdefault(name, []).append(1e6 * float(np.median(values)))
    return [[name, str(model.n_trees_), *map(number, values)] for name, values in times.items()]


def sizes(model: AGBMClassifier, folder: Path) -> list[str]:
    """A line of the table: nodes, megabytes of both languages, and seconds to compile."""
    source = folder / "size.c"
    source.write_text(to_c(model))
    seconds = [f"{_compiling(program, folder):.1f}" for program in ("gcc", "clang")]
    compiled = (folder / "size.o").stat().st_size if (folder / "size.o").exists() else 0
    megabytes = [source.stat().st_size, compiled, len(to_js(model)), len(to_js(model, contributions=True))]
    nodes = f"{len(model.model_.folded.nodes):,}"  # type: ignore[attr-defined]
    return [f"{model.n_trees_:,}", nodes, *(f"{size / 1e6:.2f}" for size in megabytes), *seconds]


def _compiling(name: str, folder: Path) -> float:
    program = next(filter(None, map(shutil.which, [name, *(f"{name}-{n}" for n in range(22, 10, -1))])), None)
    if program is None:
        return float("nan")
    began = os.times().children_user
    subprocess.run([program, "-O2", "-c", "size.c", "-o", "size.o"], cwd=folder, check=True)
    return os.times().children_user - began


def main() -> None:
    """Measure both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--document", type=Path, help="a document with places for the figures of programs")
    asked = parser.parse_args()
    lines, sizes_of = [], []
    with tempfile.TemporaryDirectory() as name:
        for trees in TREES:
            folder = Path(name) / str(trees)
            folder.mkdir()
            model = fitted(trees)
            lines += latencies(model, asked.rounds, folder)
            sizes_of.append(sizes(model, folder))
            print(*lines, sizes_of[-1], sep="\n", flush=True)
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    heads = ["way", "trees", *(f"{n} row{'s' * (n > 1)}, µs" for n in ROWS)]
    columns = [
        "trees",
        "nodes",
        "C, MB",
        "compiled, MB",
        "JavaScript, MB",
        "with contributions, MB",
        "gcc, s",
        "clang, s",
    ]
    text = [
        *table(heads, lines),
        "",
        *table(columns, sizes_of, 0),
        "",
        f"Machine: {facts}.",
    ]
    print("\n".join(text))
    if asked.document:
        fill_in(asked.document, {"programs": text})


if __name__ == "__main__":
    main()
