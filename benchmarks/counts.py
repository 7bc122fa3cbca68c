"""Counts with exposure: Poisson models of agbm and its peers on the motor insurance tables of suite.py.

The folder `--data` is that of suite.py; the tables are those with the task `count`. Every table is split once per seed
into 60 % training, 15 % validation and 25 % test rows; at most `--rows` training rows and a quarter as many validation
rows are used, and all test rows. The score is the mean Poisson deviance of the test rows per unit of exposure: the
deviance of the claims of a row given its exposure, summed and divided by the total exposure. This equals the mean
deviance of claims per year, weighted by the exposure.

All libraries but two get the claims, and the logarithm of the exposure as offset. benchmarks/counts_contestants.py
describes the contestants.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from counts_contestants import Claims, Problem, contestants, deviance_per_exposure
from records import read
from suite_tables import Task, all_tasks
from trials import Array, Record, Trial, chosen, current, measure, parsed, parser_of
from trials_report import Results, Shown, section
from trials_statistics import over_splits

SCORES = (Shown("deviance per exposure", higher_is_better=False, decimals=5),)


def claims_of(task: Task) -> Claims:
    """A table of the suite, which has rates with exposures as weights, as counts with exposures."""
    rows = task.load()
    assert rows.weight is not None
    return Claims(rows.X, np.round(rows.y * rows.weight), rows.weight)


def split(claims: Claims, seed: int, most_rows: int) -> Problem:
    """Training, validation and test rows."""
    order = np.random.default_rng(seed).permutation(len(claims.y))
    train, validation, test = np.split(order, [int(0.6 * len(order)), int(0.75 * len(order))])
    return Problem(claims[train[:most_rows]], claims[validation[: most_rows // 4]], claims[test])


def trial_of(task: Task, n_splits: int, most_rows: int) -> Trial[Problem]:
    """The trial of a table, which is read with its first split."""
    kept: list[Claims] = []

    def make(seed: int) -> Problem:
        if not kept:
            kept.append(claims_of(task))
        return split(kept[0], seed, most_rows)

    return Trial(task.name, n_splits, make)


def score(predicted: Array, problem: Problem) -> dict[str, list[float]]:
    """The score of expected counts for the test rows."""
    return {SCORES[0].name: [deviance_per_exposure(problem.test.y, predicted, problem.test.exposure)]}


def page(records: list[Record], args: Any, limits: str) -> str:
    """The page, in Markdown."""
    results = Results(current(records, limits), over_splits)
    return "\n".join(
        [
            "# Counts with exposure", "",
            f"Mean Poisson deviance per unit of exposure of held-out rows. At most {args.rows:,} training rows and "
            f"{args.iterations:,} iterations; benchmarks/counts.py describes the rest. Intervals are for the mean over "
            "random splits (Nadeau and Bengio), those of differences for paired differences. The best peer is the one "
            "with the lowest mean on the test rows. Seconds are rough: other processes may have run.", "",
            *section(results, SCORES, "LightGBM"),
        ]
    )  # fmt: skip


def main() -> None:
    """Measure what is missing and write the page."""
    parser = parser_of(__doc__, "out/counts")
    parser.add_argument("--rows", type=int, default=60_000, help="maximum number of training rows")
    parser.add_argument("--splits", type=int, default=5, help="number of splits")
    args = parsed(parser)
    warnings.simplefilter("ignore")
    limits, path = f"rows {args.rows}, iterations {args.iterations}", Path(args.out) / "results.jsonl"
    if not args.report:
        tasks = [task for task in all_tasks(args.data).values() if task.kind == "count"]
        trials = chosen([trial_of(task, args.splits, args.rows) for task in tasks], args.only)
        measure(path, trials, contestants(args.ours), score, args, limits)
    written = path.with_name("counts.md")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(page(read(path, Record), args, limits))
    print(f"wrote {written}")


if __name__ == "__main__":
    main()
