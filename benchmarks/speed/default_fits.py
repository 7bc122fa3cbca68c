"""Whole fits with default settings, beside LightGBM with early stopping: seconds, and peak memory of the fits.

`fit(X, y)` of agbm, with all members and with one, takes turns with a LightGBM that stops after 20 iterations without
gain on a tenth of the rows, the patience of agbm's default. Rows have 20 normal features; labels have a product of two
of them, a wave, a line and noise. Classes are those of the largest of several such sums. Memory is what a process of
its own needs more than before the fit.
"""

from __future__ import annotations

import argparse
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from agbm import AGBMClassifier, AGBMRegressor
from benchmarks.libraries import LightGBM
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import clocked, machine, take_turns

PATIENCE = 20
"""Of agbm's default."""
PEER = "LightGBM"
Members = int | Literal["auto"]
MEMBERS: dict[str, Members] = {"agbm": "auto", "agbm, one member": 1}


class Case(NamedTuple):
    """The size of a table, and the number of classes of its labels; 0 for numbers."""

    n: int
    n_classes: int = 0

    @property
    def name(self) -> str:
        """As in the results."""
        return f"{self.n:,}, {self.n_classes} classes" if self.n_classes else f"{self.n:,}"

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.n, 20))
        if not self.n_classes:
            return X, X[:, 0] * X[:, 1] + np.sin(3.0 * X[:, 2]) + X[:, 3] + rng.normal(size=self.n)
        slopes = rng.normal(size=(20, self.n_classes))
        waves = np.sin(3.0 * X[:, np.arange(self.n_classes) % 20])
        scores = X @ slopes + 2.0 * waves + X[:, :1] * X[:, 1:2] * slopes[0]
        return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def fits(case: Case, threads: int) -> dict[str, Callable[[], Any]]:
    """For each contestant, a function that fits it to the rows of a case."""
    X, y = case.rows()
    cut, library = case.n * 9 // 10, LightGBM()
    lightgbm = library.api.LGBMClassifier if case.n_classes else library.api.LGBMRegressor
    agbm = AGBMClassifier if case.n_classes else AGBMRegressor

    def peer() -> Any:
        model = lightgbm(n_estimators=1000, n_jobs=threads, verbose=-1)
        stop = library.api.early_stopping(PATIENCE, verbose=False)
        return model.fit(X[:cut], y[:cut], eval_X=X[cut:], eval_y=y[cut:], callbacks=[stop])

    def ours(n_members: Members) -> Any:
        return agbm(n_members=n_members, n_jobs=threads).fit(X, y)

    return {PEER: peer, **{name: lambda k=k: ours(k) for name, k in MEMBERS.items()}}  # type: ignore[misc]


def resident() -> float:
    """Megabytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def peak(name: str, case: Case, threads: int) -> float:
    """The growth of memory during a fit, after small ones have loaded all libraries."""
    for small in fits(case._replace(n=3_000), threads).values():
        small()
    fit, before, highest, done = fits(case, threads)[name], resident(), [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.003):
            highest[0] = max(highest[0], resident())

    thread = threading.Thread(target=look)
    thread.start()
    fit()
    done.set()
    thread.join()
    return highest[0] - before


def line(case: Case, threads: int, rounds: int) -> list[str]:
    """Seconds and ratios of a case."""
    turns = {name: clocked(fit, least=1, seconds=0.2) for name, fit in fits(case, threads).items()}
    seconds = take_turns(turns, rounds)
    ratios = [f"{float(np.median(seconds[name] / seconds[PEER])):.2f}" for name in MEMBERS]
    return [case.name, f"{float(np.median(seconds[PEER])):.3g}", *ratios]


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--classes", type=int, nargs="*", default=[8], help="numbers of classes of 10,000 rows")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--document", type=Path, help="page with a marker that the results are inserted into")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [*map(Case, args.sizes), *(Case(10_000, n_classes) for n_classes in args.classes)]
    for case in cases:
        for fit in fits(case._replace(n=2_000), args.threads).values():
            fit()
    lines = [line(case, args.threads, args.rounds) for case in cases]
    for values, case in zip(lines, cases, strict=True):
        of_peer, *ours = (
            ProcessPoolExecutor(1, get_context("spawn")).submit(peak, name, case, args.threads).result()
            for name in (PEER, *MEMBERS)
        )
        values += [f"{of_peer:.0f}", *(f"{memory:.0f}" for memory in ours)]
    heads = [
        "rows",
        f"{PEER}, s",
        *(f"{name} / {PEER}" for name in MEMBERS),
        f"{PEER}, MB",
        *(f"{m}, MB" for m in MEMBERS),
    ]
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items())
    text = [*table(heads, lines, left=0), "", f"Machine: {facts}. Threads: {args.threads}."]
    print("\n".join(text))
    if args.document:
        fill_in(args.document, {"default fits": text})


if __name__ == "__main__":
    main()
