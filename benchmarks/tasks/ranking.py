"""Rankings of agbm and its peers on tables of queries with documents.

The folder `--data` contains `suite/` with an index.json; the tables are those with the task `ranking`. The LETOR tables
have five official folds: three for training, one for validation and one for testing, in all five rotations, so that
every query is tested once. lightgbm_rank has training and test queries; 20 % of the training queries are held out for
validation.

The scores are NDCG at 1, 5 and 10 (gains 2^relevance - 1) and mean average precision (relevances above 0). Queries
without a relevant document are left out of the means for all contestants. Intervals are bootstrap intervals over
queries, those of differences over the paired differences per query.

Seconds per tree are measured in fits of their own: TREES trees with 31 leaves each, with the same number of threads.

For quality, all libraries grow at most `--iterations` trees and stop early by NDCG@10 on the validation queries, with
the same patience. The learning rate of the peers is 0.1; everything else is their default. `agbm, own members` gets
training and validation queries together, of which each member holds out its own part; the other contestants of agbm get
the validation queries as such.

For speed, all libraries grow a fixed number of trees with LEAVES leaves (XGBoost and CatBoost leaf by leaf as well),
without validation queries.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.libraries import Array, CatBoost, Effort, Library, LightGBM, Ours, Rows, XGBoost
from benchmarks.shared.document import table
from benchmarks.shared.records import OURS, read
from benchmarks.tasks.trials import (
    Contestant,
    Fitted,
    Record,
    Results,
    Shown,
    Trial,
    chosen,
    current,
    measure,
    over_queries,
    parsed,
    parser_of,
    section,
    settings_of,
)

TRAIN, TEST = "train", "test"
VALIDATION_SHARE = 0.2
"""Share of the training queries that are held out where a table has no validation queries."""


@dataclass(frozen=True)
class Problem:
    """One table, split once."""

    train: Rows
    validation: Rows
    test: Rows

    @property
    def both(self) -> Rows:
        """Training and validation queries together."""
        parts = self.train, self.validation
        X, y, qid = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "qid"))
        return Rows(X, y, qid=qid)


def _read(path: Path, entry: dict[str, Any]) -> tuple[Rows, Array]:
    """The documents of a table, sorted by query, and the folds of these."""
    frame = pd.read_csv(path).sort_values(entry["group"], kind="stable")
    features = frame.drop(columns=[*entry["drop"], entry["target"]]).to_numpy(np.float64)
    qid = np.unique(frame[entry["group"]], return_inverse=True)[1]
    return Rows(features, frame[entry["target"]].to_numpy(np.int64), qid=qid), frame[entry["fold"]].to_numpy()


def rotated(queries: Rows, fold: Array, split: int) -> Problem:
    """The official rotation of numbered folds: of five, three for training, the next for validation, one for testing.

    Split 0 trains on folds 1, 2 and 3, validates on 4 and tests on 5; every further split moves all by one.
    """
    names = np.roll(np.unique(fold), -split)
    parts = [np.isin(fold, names[:-2]), fold == names[-2], fold == names[-1]]
    return Problem(*(queries[part] for part in parts))


def held_out(queries: Rows, fold: Array, split: int) -> Problem:
    """Given training and test queries; validation queries are drawn at random from the training queries."""
    assert queries.qid is not None
    training = np.unique(queries.qid[fold == TRAIN])
    drawn = np.random.default_rng(split).permutation(training)[: round(VALIDATION_SHARE * len(training))]
    validation = np.isin(queries.qid, drawn)
    return Problem(queries[(fold == TRAIN) & ~validation], queries[validation], queries[fold == TEST])


def _trial_of(folder: Path, entry: dict[str, Any]) -> Trial[Problem]:
    """The trial of a table, which is read with its first split."""
    kept: list[tuple[Rows, Array]] = []
    is_rotated = "lightgbm_rank" not in entry["file"]

    def make(split: int) -> Problem:
        if not kept:
            kept.append(_read(folder / entry["file"], entry))
        return (rotated if is_rotated else held_out)(*kept[0], split)

    name = Path(entry["file"]).name.removesuffix(".csv.xz")
    return Trial(name, 5 if is_rotated else 1, make)


def trials_of(folder: Path) -> list[Trial[Problem]]:
    """The trials of a data folder."""
    index = json.loads((folder / "suite" / "index.json").read_text())
    return [_trial_of(folder / "suite", entry) for entry in index if entry["task"] == "ranking"]


CUTS = (1, 5, 10)


def ndcg(relevance: Array, predicted: Array, cut: int) -> float:
    """NDCG of one query with the gains 2^relevance - 1, for the first `cut` documents.

    Documents with equal predictions get their mean gain, which is the expectation over all orders of them.
    """
    gains = np.exp2(relevance.astype(np.float64)) - 1.0
    discounts = 1.0 / np.log2(np.arange(2, len(gains) + 2))
    discounts[cut:] = 0.0
    _, tied, counts = np.unique(-predicted, return_inverse=True, return_counts=True)
    mean_gains = np.bincount(tied, gains) / counts
    best = float(np.sort(gains)[::-1] @ discounts)
    return float(np.repeat(mean_gains, counts) @ discounts) / best


def average_precision(relevance: Array, predicted: Array) -> float:
    """Average precision of one query; documents with a relevance above 0 are relevant.

    Ties are broken by a random order that depends on the number of documents alone, so it is the same for all.
    """
    shuffled = np.random.default_rng(len(relevance)).permutation(len(relevance))
    order = shuffled[np.argsort(-predicted[shuffled], kind="stable")]
    relevant = relevance[order] > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(np.mean(precision[relevant]))


def by_query(relevance: Array, predicted: Array, sizes: Array) -> dict[str, list[float]]:
    """All scores of every query with a relevant document; `sizes` has the numbers of documents of the queries."""
    predicted = np.asarray(predicted, np.float64)
    ends = np.cumsum(sizes)
    queries = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    queries = [rows for rows in queries if np.any(relevance[rows] > 0)]
    found = {f"NDCG@{cut}": [ndcg(relevance[rows], predicted[rows], cut) for rows in queries] for cut in CUTS}
    return {**found, "MAP": [average_precision(relevance[rows], predicted[rows]) for rows in queries]}


RATE = 0.1
LEAVES = 31
SAME_SIZE: dict[type[Library], dict[str, Any]] = {
    LightGBM: {"num_leaves": LEAVES},
    XGBoost: {"grow_policy": "lossguide", "max_leaves": LEAVES, "max_depth": 0},
    CatBoost: {"grow_policy": "Lossguide", "max_leaves": LEAVES, "max_depth": 16},
}
"""Parameters of trees with LEAVES leaves."""


def fit_ours(
    problem: Problem, effort: Effort, own_members: bool = False, fixed: bool = False, **parameters: Any
) -> Fitted:
    """Fit agbm; `own_members`: without the validation queries as such, `fixed`: exactly the given number of trees."""
    rows, held_out = problem.train, problem.validation
    if fixed:
        own: dict[str, Any] = {"n_members": 1, "early_stopping": False, "max_leaf_nodes": LEAVES}
        model = Ours().train("ranking", rows, None, effort, **parameters, **own)
    elif own_members:
        model = Ours().train("ranking", problem.both, None, effort, **parameters, early_stopping=True)
    else:
        model = Ours().train("ranking", rows, held_out, effort, **parameters)
    return Fitted(model(problem.test.X), model.seconds, model.trees)


def fit_peer(
    library: type[Library], problem: Problem, effort: Effort, fixed: bool = False, **parameters: Any
) -> Fitted:
    """Fit a library; `fixed`: exactly the given number of trees."""
    more = {**parameters, "learning_rate": RATE, **(SAME_SIZE[library] if fixed else {})}
    model = library().train("ranking", problem.train, None if fixed else problem.validation, effort, **more)
    return Fitted(model(problem.test.X), model.seconds, model.trees)


def ours(name: str, parameters: dict[str, Any], **how: Any) -> Contestant[Problem]:
    """A contestant of agbm."""
    from agbm import AGBMRanker

    return Contestant(name, partial(fit_ours, **how, **parameters), (OURS,), settings_of(AGBMRanker(), parameters))


def of_quality(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """The contestants for quality; `more` are names and parameters of further ones of agbm."""
    yield ours(OURS, {})
    yield ours(f"{OURS}, own members", {}, own_members=True)
    yield ours(f"{OURS}, one model", {"n_members": 1})
    yield from (ours(name, parameters) for name, parameters in more)
    for library in SAME_SIZE:
        yield Contestant(library.name, partial(fit_peer, library), (library.package,))
    of_xendcg = partial(fit_peer, LightGBM, objective="rank_xendcg")
    yield Contestant("LightGBM, XE-NDCG", of_xendcg, (LightGBM.package,))


def of_speed() -> Iterator[Contestant[Problem]]:
    """The contestants for speed."""
    yield ours(OURS, {}, fixed=True)
    for library in SAME_SIZE:
        yield Contestant(library.name, partial(fit_peer, library, fixed=True), (library.package,))


SCORES = (*(Shown(f"NDCG@{cut}", True, 4) for cut in CUTS), Shown("MAP", True, 4))
TREES = 100
SPLITS_OF_SPEED = 3


def score(predicted: Array, problem: Problem) -> dict[str, list[float]]:
    """The scores of the test queries."""
    sizes = problem.test.sizes
    assert sizes is not None
    return by_query(problem.test.y, predicted, sizes)


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
            "benchmarks/tasks/ranking.py describes the rest. The best peer is the one with the highest mean on the "
            "test queries of a table, for each score. Seconds of training are rough: other processes may have run.", "",
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
