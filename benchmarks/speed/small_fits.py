"""Fits of small tables, compared with LightGBM and XGBoost: time per tree, and of complete fits.

python -m benchmarks.speed.small_fits [--data FOLDER] [--threads 1 2] [--rounds 3] [--out out/bench]

A complete fit has 100 trees and includes checks and binning. The time per tree is the difference to a fit with 10
trees, divided by 90. Both are measured as wall time and as processor time of all threads, which other processes on the
machine affect less. All libraries get the same settings and take turns; a turn is the shortest of a few
fits, and a ratio the median over the rounds of agbm's time divided by the other library's, below 1 if agbm is faster.

The second table compares an iteration with two values per leaf (AGBM with a shared structure) with a plain tree.

--data is a folder with a1a, w1a, german.numer, diabetes and housing in svmlight format. Writes small_fits.json and
small_fits.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.libraries import Library, LightGBM, Ours, Setting, XGBoost
from benchmarks.shared.measure import PAUSE, machine
from benchmarks.speed.compare import PAPER_SETS, Run, fastest_form, read_set, table_of

FEW, MANY = 10, 100
"""Trees of the two fits of a measurement."""
DEPTHS = (3, 6)
SYNTHETIC = (200, 1_000, 10_000)
"""Rows of the synthetic tables."""
TARGET = 0.7
"""The ratio to LightGBM that agbm should not exceed."""
KINDS = ("gbm", "shared")
"""A plain tree, and a tree with two values per leaf."""
TARGET_OF_PAIRS = 1.3
"""The same for two values per leaf, compared with one."""


class Seconds(NamedTuple):
    """Wall time and processor time."""

    wall: float
    processor: float


class Table(NamedTuple):
    """A table with its labels."""

    name: str
    X: Any
    y: np.ndarray
    classifies: bool


def tables(run: Run) -> Iterator[Table]:
    """The synthetic tables, and those of the folder."""
    for n_rows in SYNTHETIC:
        yield Table(f"{n_rows:,} x 20", *table_of(n_rows, 20, np.float64), False)
    for name, source in PAPER_SETS.items():
        if name != "sonar" and (found := read_set(run, *source)) is not None:
            X, y, classifies = found
            yield Table(f"{name} ({X.shape[0]:,} x {X.shape[1]})", X, y, classifies)


def shortest(work: Callable[[], object], seconds: float = 0.3) -> Seconds:
    """The shortest wall time and the shortest processor time of some calls, at least three."""
    times: list[Seconds] = []
    while len(times) < 3 or sum(each.wall for each in times) < seconds:
        wall, processor = time.perf_counter(), time.process_time()
        work()
        times.append(Seconds(time.perf_counter() - wall, time.process_time() - processor))
    return Seconds(min(each.wall for each in times), min(each.processor for each in times))


def fit_times(library: Library, X: Any, y: np.ndarray, setting: Setting) -> dict[str, Seconds]:
    """Seconds per tree, and of a complete fit."""
    few = shortest(lambda: library.fit(X, y, replace(setting, trees=FEW)))
    many = shortest(lambda: library.fit(X, y, replace(setting, trees=MANY)))
    # On a busy machine, the difference of two short times may be lost in noise; such a round does not count.
    per_tree = [(b - a) / (MANY - FEW) if b > a else np.nan for a, b in zip(few, many, strict=True)]
    return {"tree": Seconds(*per_tree), "fit": many}


def fits(run: Run, threads: Sequence[int]) -> Iterator[dict[str, Any]]:
    """One result per table, depth, number of threads and peer."""
    for table in tables(run):
        for depth in DEPTHS:
            for n_threads in threads:
                setting = Setting(n_threads, logistic=table.classifies, depth=depth)
                forms = {library.name: fastest_form(library, table.X, table.y, setting) for library in run.libraries}
                rounds: list[dict[str, dict[str, Seconds]]] = []
                for _ in range(run.rounds):
                    rounds.append({})
                    for library in run.libraries:
                        time.sleep(PAUSE)
                        rounds[-1][library.name] = fit_times(library, forms[library.name], table.y, setting)
                case = {"table": table.name, "depth": depth, "threads": n_threads}
                yield from (case | compared(rounds, peer.name) for peer in run.peers)


def compared(rounds: Sequence[dict[str, dict[str, Seconds]]], peer: str) -> dict[str, Any]:
    """Milliseconds of agbm and of a peer, and the ratios, for trees and fits and both clocks."""
    found: dict[str, Any] = {"peer": peer}
    for what in ("tree", "fit"):
        for clock in Seconds._fields:
            ours = np.array([getattr(each["agbm"][what], clock) for each in rounds])
            theirs = np.array([getattr(each[peer][what], clock) for each in rounds])
            found[f"{what}_{clock}"] = [1e3 * float(np.nanmedian(ours)), 1e3 * float(np.nanmedian(theirs))]
            found[f"{what}_{clock}_ratio"] = float(np.nanmedian(ours / theirs))
    return found


def iteration(run: Run, X: np.ndarray, y: np.ndarray, setting: Setting, kind: str, n: int = 20) -> float:
    """Median processor time of the first iterations: later trees are smaller, in one run earlier than in another."""
    grow = run.ours.grower(X, y, setting, kind)
    grow()  # the first iteration of accelerated boosting fits one residual
    times = []
    for _ in range(n):
        began = time.process_time()
        grow()
        times.append(time.process_time() - began)
    return float(np.median(times))


def pairs(run: Run, rows: Sequence[int], n_threads: int) -> Iterator[dict[str, Any]]:
    """An iteration with two values per leaf, compared with a plain tree."""
    for n_rows in rows:
        X, y = table_of(n_rows, 28 if n_rows > 100_000 else 20)
        for logistic in (False, True):
            setting = Setting(n_threads, logistic=logistic)
            labels = (y > 0).astype(np.float64) if logistic else y
            times = [{kind: iteration(run, X, labels, setting, kind) for kind in KINDS} for _ in range(run.rounds)]
            ratios = [each["shared"] / each["gbm"] for each in times]
            yield (
                {"rows": n_rows, "loss": "logistic" if logistic else "squared error", "threads": n_threads}
                | {kind: 1e3 * float(np.median([each[kind] for each in times])) for kind in KINDS}
                | {"ratio": float(np.median(ratios))}
            )


HEADER = (
    "| table | depth | threads | compared with | tree, ms | theirs | ratio | processor | fit, ms | theirs | ratio | "
    "processor |\n| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def line(result: dict[str, Any]) -> str:
    """A result as a line of the table."""
    cells = [result["table"], str(result["depth"]), str(result["threads"]), result["peer"]]
    for what in ("tree", "fit"):
        cells += [f"{number:.3g}" for number in result[f"{what}_wall"]]
        cells += [f"{result[f'{what}_{clock}_ratio']:.2f}" for clock in Seconds._fields]
    return f"| {' | '.join(cells)} |"


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    ratios = [each["fit_wall_ratio"] for each in report["fits"] if each["peer"] == "LightGBM"]
    met = sum(ratio <= TARGET for ratio in ratios)
    parts = [
        f"Command: `{report['command']}`. {', '.join(f'{name} {fact}' for name, fact in report['machine'].items())}.",
        f"Complete fits take at most {TARGET} of LightGBM's time in {met} of {len(ratios)} cases.",
        "\n".join([HEADER, *map(line, report["fits"])]),
        f"Two values per leaf, depth 6, processor time per iteration (target {TARGET_OF_PAIRS}):",
        "\n".join(
            ["| rows | loss | one value, ms | two values, ms | ratio |", "| ---: | --- | ---: | ---: | ---: |"]
            + [
                f"| {of['rows']:,} | {of['loss']} | {of['gbm']:.3g} | {of['shared']:.3g} | {of['ratio']:.2f} |"
                for of in report["pairs"]
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with data sets in svmlight format")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, nargs="*", default=[1_000, 10_000, 500_000], help="rows, for two values")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run = Run(max(args.threads), args.rounds, False, args.data, Ours(), [LightGBM(), XGBoost()])
    X, y = table_of(500, 4)
    for library in run.libraries:
        library.fit(X, y, run.setting(trees=2))  # imports modules that are loaded lazily and starts threads
    threads = " ".join(map(str, args.threads))
    report: dict[str, Any] = {
        "command": f"python -m benchmarks.speed.small_fits --rounds {args.rounds} --threads {threads}"
        + (" --data FOLDER" if args.data else ""),
        "machine": machine(),
        "versions": {library.name: library.version for library in run.libraries},
    }
    report |= {"fits": [], "pairs": []}
    args.out.mkdir(parents=True, exist_ok=True)
    print(HEADER)
    with threadpool_limits(max(args.threads)):
        for name, results in (("pairs", pairs(run, args.pairs, 1)), ("fits", fits(run, args.threads))):
            for result in results:
                report[name].append(result)
                print(line(result) if name == "fits" else result, flush=True)
                # After each result, so that an interrupted run leaves the results so far.
                (args.out / "small_fits.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
                (args.out / "small_fits.md").write_text(page(report))
    print(f"wrote {args.out / 'small_fits.md'} and {args.out / 'small_fits.json'}")


if __name__ == "__main__":
    main()
