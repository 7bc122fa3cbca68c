"""Survival models of agbm and its peers on tables with censored times.

The folder `--data` contains `suite/` with an index.json; the tables are those with the task `survival`, and those that
scikit-survival and lifelines ship. Every table is split at random into 60 % training, 15 % validation and 25 % test
rows: 20 times if it has fewer than 3,000 rows, otherwise 5 times. benchmarks/survival_contestants.py describes the
contestants.

The scores are Harrell's C, Uno's C (until the last time of the grid) and the Brier score integrated over a grid of
times, from the 10 % to the 90 % quantile of the event times of training and validation rows, whose censoring
distribution gives the weights.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from records import read
from survival_contestants import ROWS_OF_SKSURV, Predicted, contestants
from survival_scores import of_predictions
from survival_tables import Problem, trials_of
from trials import Record, chosen, current, measure, parsed, parser_of
from trials_report import Results, Shown, section
from trials_statistics import over_splits

SCORES = (Shown("Harrell's C", True, 4), Shown("Uno's C", True, 4), Shown("integrated Brier", False, 4))


def score(predicted: Predicted, problem: Problem) -> dict[str, list[float]]:
    """The scores of the test rows."""
    known, test = ((rows.time, rows.event) for rows in (problem.both, problem.test))
    return of_predictions(known, test, predicted.risk, predicted.curves, problem.times)


def page(records: list[Record], args: Any, limits: str) -> str:
    """The page, in Markdown."""
    results = Results(current(records, limits), over_splits)
    return "\n".join(
        [
            "# Survival", "",
            f"At most {args.iterations:,} iterations with early stopping; scikit-survival gets at most "
            f"{ROWS_OF_SKSURV:,} rows for fitting; benchmarks/survival.py describes the rest. "
            "Intervals are for the mean over random splits (Nadeau and Bengio), those of differences for paired "
            "differences. The best peer is the one with the best mean on the test rows of a table, for each score. "
            "Seconds of training are rough: other processes may have run.", "",
            *section(results, SCORES, "XGBoost, Cox"),
        ]
    )  # fmt: skip


def main() -> None:
    """Measure what is missing and write the page."""
    args = parsed(parser_of(__doc__, "out/survival"))
    warnings.simplefilter("ignore")
    limits, path = f"iterations {args.iterations}", Path(args.out) / "results.jsonl"
    if not args.report:
        measure(path, chosen(trials_of(args.data), args.only), contestants(args.ours), score, args, limits)
    written = path.with_name("survival.md")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(page(read(path, Record), args, limits))
    print(f"wrote {written}")


if __name__ == "__main__":
    main()
