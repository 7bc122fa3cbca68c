"""Rankings of agbm and its peers on tables of queries with documents.

The folder `--data` contains `suite/` with an index.json; the tables are those with the task `ranking`. The LETOR tables
have five official folds: three for training, one for validation and one for testing, in all five rotations, so that
every query is tested once. lightgbm_rank has training and test queries; 20 % of the training queries are held out for
validation. benchmarks/ranking_contestants.py describes the contestants.

The scores are NDCG at 1, 5 and 10 (gains 2^relevance - 1) and mean average precision (relevances above 0). Queries
without a relevant document are left out of the means for all contestants. Intervals are bootstrap intervals over
queries, those of differences over the paired differences per query.

Seconds per tree are measured in fits of their own: TREES trees with 31 leaves each, with the same number of threads.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from document import table
from ranking_contestants import of_quality, of_speed
from ranking_scores import CUTS, by_query
from ranking_tables import Problem, trials_of
from records import read
from trials import Array, Record, Trial, chosen, current, measure, parsed, parser_of
from trials_report import Results, Shown, section
from trials_statistics import over_queries

SCORES = (*(Shown(f"NDCG@{cut}", True, 4) for cut in CUTS), Shown("MAP", True, 4))
TREES = 100
SPLITS_OF_SPEED = 3


def score(predicted: Array, problem: Problem) -> dict[str, list[float]]:
    """The scores of the test queries."""
    return by_query(problem.test.y, predicted, problem.test.sizes)


def speed_table(records: list[Record]) -> Iterator[str]:
    """A table of the seconds per tree as ratios to LightGBM: the lowest of each contestant and table."""
    results = Results(records, over_queries)
    rows = []
    for task in results.tasks:
        lowest = {
            who: min(((r.seconds or 0.0) / max(r.trees or 0, 1) for r in results.of(who, task)), default=float("nan"))
            for who in results.contestants
        }
        base = lowest.get("LightGBM", float("nan"))
        rows.append([task, f"{1000.0 * base:.2f}", *(f"{value / base:.2f}" for value in lowest.values())])
    if rows:
        yield from ("## Seconds per tree relative to LightGBM", "")
        yield f"{TREES} trees with 31 leaves; the lowest of up to {SPLITS_OF_SPEED} fits on different training queries."
        yield from ("", *table(["table", "LightGBM, ms per tree", *results.contestants], rows), "")


def page(records: list[Record], speed: list[Record], args: Any, limits: str) -> str:
    """The page, in Markdown."""
    results = Results(current(records, limits), over_queries)
    return "\n".join(
        [
            "# Rankings", "",
            f"At most {args.iterations:,} iterations with early stopping by NDCG@10 on validation queries; "
            "benchmarks/ranking.py describes the rest. The best peer is the one with the highest mean on the test "
            "queries of a table, for each score. Seconds of training are rough: other processes may have run.", "",
            *section(results, SCORES, "LightGBM"), *speed_table(speed),
        ]
    )  # fmt: skip


def measure_speed(path: Path, trials: list[Trial[Problem]], args: argparse.Namespace, limits: str) -> None:
    """Measure the seconds of fits with a fixed number of trees."""
    fixed = argparse.Namespace(**{**vars(args), "iterations": TREES})
    few = [Trial(trial.name, min(trial.n_splits, SPLITS_OF_SPEED), trial.split) for trial in trials]
    measure(path, few, of_speed(), lambda predicted, problem: {"test rows": [float(np.size(predicted))]}, fixed, limits)


def main() -> None:
    """Measure what is missing and write the page."""
    args = parsed(parser_of(__doc__, "out/ranking"))
    warnings.simplefilter("ignore")
    limits, of_speeds = f"iterations {args.iterations}", f"trees {TREES}"
    path, speed = Path(args.out) / "results.jsonl", Path(args.out) / "speed.jsonl"
    if not args.report:
        trials = chosen(trials_of(args.data), args.only)
        measure(path, trials, of_quality(args.ours), score, args, limits)
        measure_speed(speed, trials, args, of_speeds)
    written = path.with_name("ranking.md")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(page(read(path, Record), current(read(speed, Record), of_speeds), args, limits))
    print(f"wrote {written}")


if __name__ == "__main__":
    main()
