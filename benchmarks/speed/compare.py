"""Speed and memory of agbm compared with other libraries, in one run.

All libraries get the same data, 255 bins, depth, number of threads, learning rate and minimum number of rows per leaf,
as far as they support them. They take turns, each once per round. A ratio is the median over the rounds of
agbm's time divided by the other library's time in the same round; below 1 means agbm is faster. Some ratios have a
target, the ratio that agbm should not exceed.

Writes speed.json and a plot to the folder --out and prints tables; report.py fills in docs/benchmarks.md from the
file. The cases `paper` and `sparse` need --data, a folder with the files a1a, w1a, diabetes, german.numer, housing,
sonar and a9a in svmlight format (plain or .gz).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from agbm.methods import AGBM
from benchmarks.libraries import Library, Ours, Setting, installed_peers, named
from benchmarks.shared.measure import Result, Turn, clocked, compare, machine, take_turns
from benchmarks.speed.report import draw, print_table

ONE_STRUCTURE = "agbm, AGBM with shared structure"
# Data set -> file, number of features (the last ones may not occur in the file), whether it stays a sparse matrix.
PAPER_SETS = {
    "a1a": ("a1a", 123, True), "w1a": ("w1a", 300, True), "diabetes": ("diabetes", 8, False),
    "german": ("german.numer", 24, False), "housing": ("housing", 13, False), "sonar": ("sonar", 60, False),
}  # fmt: skip
SPARSE_SETS = {"a9a": ("a9a", 123, True), "w1a": ("w1a", 300, True)}


@dataclass(frozen=True)
class Run:
    """The options of a run, and its libraries."""

    threads: int
    rounds: int
    quick: bool
    data: Path | None
    ours: Ours
    peers: list[Library]

    @property
    def libraries(self) -> list[Library]:
        """All libraries, agbm first."""
        return [self.ours, *self.peers]

    @property
    def remarks(self) -> dict[str, str]:
        """The remark on each peer, by name."""
        return {peer.name: peer.remark for peer in self.peers}

    def peer(self, name: str) -> list[Library]:
        """A list with one peer, empty if it is not installed."""
        return [peer for peer in self.peers if peer.name == name]

    def setting(self, **asked: Any) -> Setting:
        """The settings for every library."""
        return Setting(self.threads, **asked)

    def rows(self, n: int) -> int:
        """The number of rows of a case; a fraction of it with --quick."""
        return max(200, n // 200) if self.quick else n

    def same_target(self, target: float) -> dict[str, float]:
        """The same target for every peer, and thus for the fastest of them."""
        return {peer.name: target for peer in self.peers if peer.same_trees}


def table_of(n_rows: int, n_features: int, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, and a target that depends on four of them, with noise."""
    rng = np.random.default_rng(0)
    X: np.ndarray = rng.standard_normal((n_rows, n_features), dtype=np.float32).astype(dtype, copy=False)
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] + rng.standard_normal(n_rows)
    return X, y.astype(np.float64)


def dimensions(X: Any) -> str:
    return f"{X.shape[0]:,}×{X.shape[1]:,} {X.dtype}"


def one_tree(library: Library, X: np.ndarray, y: np.ndarray, setting: Setting) -> Turn:
    """A turn that measures one tree, by adding trees to a model if the library supports this."""
    grow = library.grower(X, y, setting)
    return tree_by_difference(library, X, y, setting) if grow is None else clocked(grow, least=6)


def tree_by_difference(library: Library, X: np.ndarray, y: np.ndarray, setting: Setting) -> Turn:
    """A turn that measures the time that one more tree adds to a complete fit."""
    few, many = replace(setting, trees=2), replace(setting, trees=22)
    first = clocked(lambda: library.fit(X, y, few), seconds=0.0)
    second = clocked(lambda: library.fit(X, y, many), seconds=0.0)
    # On very small tables the difference may be lost in noise, but a time must be positive.
    return lambda: max(second() - first(), 1e-6) / (many.trees - few.trees)


def tree(run: Run) -> list[Result]:
    """Time of one iteration of boosting."""
    X, y = table_of(run.rows(500_000), 28)
    losses: dict[str, tuple[np.ndarray, Setting, dict[str, float]]] = {
        "squared error": (y, run.setting(), {"LightGBM": 0.5, "LightGBM quantised": 0.7, "XGBoost": 0.45}),
        "logistic, Newton": ((y > 0).astype(np.float64), run.setting(logistic=True), {"LightGBM": 0.65}),
    }
    results = []
    for loss, (target, setting, goals) in losses.items():
        turns = {library.name: one_tree(library, X, target, setting) for library in run.libraries}
        seconds = take_turns(turns, run.rounds)
        results += compare("tree", f"{loss}, {dimensions(X)}, depth 6", "agbm", seconds, goals, run.remarks)
    return results


def acceleration(run: Run) -> list[Result]:
    """Time of one accelerated iteration, compared with a plain iteration of agbm."""
    X, y = table_of(run.rows(500_000), 28)
    goals = {"shared": 1.3, "separate": 1.6}
    names = {"shared": "shared structure", "separate": "two trees"}
    results = []
    for mode, target, logistic in (("gradient", y, False), ("Newton", (y > 0).astype(np.float64), True)):
        setting = run.setting(logistic=logistic)
        turns = {kind: clocked(run.ours.grower(X, target, setting, kind), least=6) for kind in ("gbm", *goals)}
        seconds = take_turns(turns, run.rounds)
        for kind, goal in goals.items():
            pair = {names[kind]: seconds[kind], "a plain tree": seconds["gbm"]}
            results += compare("acceleration", mode, names[kind], pair, {"a plain tree": goal}, {})
    return results


def binning(run: Run) -> list[Result]:
    """Time to convert values to bin codes."""
    results = []
    for dtype in (np.float32, np.float64):
        X, y = table_of(run.rows(500_000), 28, dtype)
        work = {library.name: library.binner(X, y, run.setting()) for library in run.libraries}
        seconds = take_turns({name: clocked(bins) for name, bins in work.items() if bins is not None}, run.rounds)
        results += compare("binning", dimensions(X), "agbm", seconds, {"LightGBM": 0.5}, {})
    return results


def fits(
    run: Run, case: str, label: str, data: Mapping[str, tuple[Any, np.ndarray]], setting: Setting, target: float
) -> list[Result]:
    """Complete fits, as milliseconds per tree. `data` has X and y by library, since not all accept every form."""
    libraries = {library.name: library for library in run.libraries}
    turns = {name: fit_turn(libraries[name], *data[name], setting) for name in data}
    if case == "paper":  # for information: AGBM with one tree for both residuals
        shared_tree = AGBM(momentum=0.02, correction=0.5, shared_structure=True)
        shared: dict[str, Any] = {"method": shared_tree, "learning_rate": 0.3}
        turns[ONE_STRUCTURE] = clocked(lambda: run.ours.fit(*data["agbm"], setting, **shared))
    seconds = {name: times / setting.trees for name, times in take_turns(turns, run.rounds).items()}
    sparse_for = [name for name, (X, _) in data.items() if isinstance(X, csr_matrix)]
    note = f"As CSR for {', '.join(sparse_for)}; dense for the others." if sparse_for else ""
    results = compare(case, label, "agbm", seconds, run.same_target(target), run.remarks)
    return [replace(result, note=note) for result in results]


def fit_turn(library: Library, X: Any, y: np.ndarray, setting: Setting) -> Turn:
    return clocked(lambda: library.fit(X, y, setting))


def small(run: Run) -> list[Result]:
    """Complete fits of small tables, including the binning."""
    results = []
    for n_rows in (200, 1_000) if run.quick else (200, 1_000, 10_000, 100_000):
        X, y = table_of(n_rows, 20, np.float64)
        data = {library.name: (X, y) for library in run.libraries}
        for depth in (3, 6):
            label = f"{dimensions(X)}, depth {depth}"
            results += fits(run, "small", label, data, run.setting(depth=depth), 0.8)
    return results


def read_set(run: Run, file: str, n_features: int, keep_sparse: bool) -> tuple[Any, np.ndarray, bool] | None:
    """X (CSR or dense), labels (0 and 1, or numbers), and whether these are classes."""
    found = [path for path in ((run.data or Path()) / name for name in (file, f"{file}.gz")) if path.exists()]
    if run.data is None or not found:
        print(f"{file} is skipped: the file is not in --data")
        return None
    X, y = load_svmlight_file(str(found[0]), n_features=n_features)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # not all libraries accept int64
    classifies = len(np.unique(y)) == 2
    return X if keep_sparse else X.toarray(), (y > 0).astype(np.float64) if classifies else y, classifies


def fastest_form(library: Library, X: Any, y: np.ndarray, setting: Setting) -> Any:
    """A sparse X, sparse or dense, whichever the library fits faster; a dense X unchanged."""
    if not isinstance(X, csr_matrix):
        return X
    if not library.takes_sparse:
        return X.toarray()
    return min([X, X.toarray()], key=lambda form: fit_turn(library, form, y, setting)())


def paper(run: Run) -> list[Result]:
    """Complete fits of the paper's data sets; sparse ones in the form that is fastest for each library."""
    results = []
    for name, source in PAPER_SETS.items():
        if (found := read_set(run, *source)) is None:
            continue
        X, y, classifies = found
        setting = run.setting(logistic=classifies, depth=3)
        data = {library.name: (fastest_form(library, X, y, setting), y) for library in run.libraries}
        label = f"{name} ({'logistic' if classifies else 'squared error'}, {X.shape[0]:,}×{X.shape[1]}), depth 3"
        results += fits(run, "paper", label, data, setting, 1.0)
    return results


def wide(run: Run) -> list[Result]:
    """Complete fits with as many features as rows."""
    n = 500 if run.quick else 5_000
    X, y = table_of(n, n)
    data = {library.name: (X, y) for library in run.libraries}
    return fits(run, "wide", f"{dimensions(X)}, depth 6, 20 trees", data, run.setting(trees=20), 0.8)


def sparse(run: Run) -> list[Result]:
    """Complete fits of sparse matrices, which are made dense only for libraries that need it."""
    results = []
    for name, source in SPARSE_SETS.items():
        if (found := read_set(run, *source)) is None:
            continue
        X, y, _ = found
        data = {library.name: (X if library.takes_sparse else X.toarray(), y) for library in run.libraries}
        label = f"{name} (CSR, {X.shape[0]:,}×{X.shape[1]}), depth 6"
        results += fits(run, "sparse", label, data, run.setting(logistic=True), 0.8)
    return results


def predict(run: Run) -> list[Result]:
    """Prediction of many rows at once."""
    X, y = table_of(run.rows(1_000_000), 28)
    n_train = run.rows(100_000)
    models = {library.name: library.fit(X[:n_train], y[:n_train], run.setting()) for library in run.libraries}

    def turn(library: Library) -> Turn:
        return clocked(lambda: library.predict(models[library.name], X, run.threads))

    seconds = take_turns({library.name: turn(library) for library in run.libraries}, run.rounds)
    goals = {"XGBoost": 0.4, "LightGBM": 0.15, "CatBoost": 1.0}
    peers = {name: times for name, times in seconds.items() if name != "LightGBM quantised"}  # the same trees
    return compare("predict", f"{dimensions(X)}, depth 6", "agbm", peers, goals, run.remarks)


def peak_of_fit(name: str, n_rows: int, dtype: str, threads: int) -> float:
    """Peak of resident memory during a fit, in bytes, minus the memory before it. It must run in its own process."""
    library, setting = named(name), Setting(threads, trees=10)
    X, y = table_of(n_rows, 28, np.dtype(dtype).type)
    with threadpool_limits(threads):
        library.fit(X[:500], y[:500], setting)  # imports modules that are loaded lazily and starts threads
        ctypes.CDLL(None).malloc_trim(0)  # otherwise the fit could reuse freed memory without being counted
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = resident("VmRSS")
        library.fit(X, y, setting)
    return resident("VmHWM") - before


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def memory(run: Run) -> list[Result]:
    """Peak memory of a fit in addition to its input, each library in a new process."""
    results = []
    for n_rows, dtype in ((run.rows(1_000_000), "float32"), (run.rows(500_000), "float64")):
        peaks = {}
        for library in run.libraries:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                future = process.submit(peak_of_fit, library.name, n_rows, dtype, run.threads)
                peaks[library.name] = future.result() / 1e6
        limit = "2.2 bytes per value + 64 bytes per row"
        peaks[limit] = (2.2 * n_rows * 28 + 64 * n_rows) / 1e6
        ours = peaks.pop("agbm")
        for other, peak in peaks.items():
            results.append(
                Result(
                    "memory", f"{n_rows:,}×28 {dtype}, 10 trees", "agbm", other, ours, peak, "MB", ours / peak,
                    1.0 if other == limit else None, run.remarks.get(other, ""),
                )
            )  # fmt: skip
    return results


def growth(run: Run) -> list[Result]:
    """Time per row and tree by number of rows, relative to the best one; then two threads compared with one."""
    sizes = [run.rows(10**k) for k in (4, 5, 6, 7)]
    X, y = table_of(sizes[-1], 28)
    results = []
    for library in [run.ours, *run.peer("LightGBM")]:
        turns = {f"{n:,} rows": one_tree(library, X[:n], y[:n], run.setting()) for n in sizes}
        seconds = take_turns(turns, run.rounds)
        per_row = {name: times / n for (name, times), n in zip(seconds.items(), sizes, strict=True)}
        least = min(per_row, key=lambda name: float(np.median(per_row[name])))
        for name in per_row:
            if name != least:
                goal = {least: 1.3} if library is run.ours else {}
                pair = {name: per_row[name], least: per_row[least]}
                results += compare("growth", library.name, name, pair, goal, {}, "ns")
    n = sizes[2]
    for library in [run.ours, *run.peer("LightGBM")]:
        # All of LightGBM's models in a process use the number of threads of the one that was created last.
        turn = one_tree if library is run.ours else tree_by_difference
        turns = {name: turn(library, X[:n], y[:n], Setting(k)) for k, name in ((1, "1 thread"), (2, "2 threads"))}
        goal = {"1 thread": 1 / 1.8} if library is run.ours else {}
        seconds = take_turns(turns, run.rounds)
        results += compare("growth", f"{library.name}, {n:,} rows", "2 threads", seconds, goal, {})
    return results


CASES: dict[str, Callable[[Run], list[Result]]] = {
    case.__name__: case for case in (tree, acceleration, binning, small, paper, wide, sparse, predict, memory, growth)
}

# Cases whose rounds take more than a minute.
MOST_ROUNDS = {"wide": 3, "growth": 3}


def facts_of(run: Run, cases: list[str]) -> dict[str, Any]:
    """The facts needed to interpret or reproduce the results."""
    command = ["python -m benchmarks.speed.compare", *([] if cases == list(CASES) else cases)]
    command += [f"--rounds {run.rounds}", f"--threads {run.threads}"]
    command += ["--quick"] * run.quick + ["--data FOLDER"] * (run.data is not None)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(command),
        "machine": machine(),
        "versions": {library.name: library.version for library in run.libraries} | {"NumPy": np.__version__},
    }


def main() -> None:
    """Run the cases; print and store the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=None, help="turns of every library in a case (5; 1 with --quick)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="small tables only, to check that everything runs")
    parser.add_argument("--data", type=Path, help="folder with data sets in svmlight format")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    cases = args.cases or list(CASES)
    if unknown := set(cases) - set(CASES):
        sys.exit(f"unknown case: {', '.join(sorted(unknown))}; choose from {', '.join(CASES)}")
    warnings.simplefilter("ignore")
    rounds = args.rounds or (1 if args.quick else 5)
    run = Run(args.threads, rounds, args.quick, args.data, Ours(), installed_peers())
    X, y = table_of(500, 4)
    for library in run.libraries:
        library.fit(X, y, run.setting(trees=2))  # imports modules that are loaded lazily and starts threads
    args.out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {**facts_of(run, cases), "seconds": {}, "results": []}
    with threadpool_limits(args.threads):
        for case in cases:
            began = time.perf_counter()
            results = CASES[case](replace(run, rounds=min(rounds, MOST_ROUNDS.get(case, rounds))))
            report["seconds"][case] = round(time.perf_counter() - began, 1)
            report["results"] += [asdict(result) for result in results]
            print_table(results)
            (args.out / "speed.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    draw(report, args.out / "speed.png")
    print(f"\nwrote {args.out / 'speed.json'} and {args.out / 'speed.png'}")


if __name__ == "__main__":
    main()
