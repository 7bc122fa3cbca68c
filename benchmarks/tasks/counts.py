"""Counts with exposure: Poisson models of agbm and its peers on the motor insurance tables of suite.py.

The folder `--data` is that of suite.py; the tables are those with the task `count`. Every table is split once per seed
into 60 % training, 15 % validation and 25 % test rows; at most `--rows` training rows and a quarter as many validation
rows are used, and all test rows. The score is the mean Poisson deviance of the test rows per unit of exposure: the
deviance of the claims of a row given its exposure, summed and divided by the total exposure. This equals the mean
deviance of claims per year, weighted by the exposure.

Boosting libraries get the same validation rows for early stopping, with the same patience and the same maximum number
of iterations; everything else is their default, except that XGBoost's learning rate is 0.1 instead of 0.3.

* agbm: `offset=log(exposure)`. Its default has several members, each of which holds out its own part of training and
  validation rows together. `agbm, one model` gets the validation rows as such.
* LightGBM (`init_score`), XGBoost (`base_margin`) and CatBoost (`baseline`) do not estimate a start where they get
  offsets. The offset is the logarithm of the exposure plus that of the mean rate of the training rows.
* HistGradientBoosting has no offsets: it gets rates, weighted by exposure, which is the same Poisson model. Iterations
  after the best one are removed, as the others do.
* The Poisson GLM of scikit-learn also gets weighted rates. Numbers become cubic splines with 6 knots at quantiles,
  categories are one-hot encoded (those with fewer than 50 rows together), and the l2 penalty with the lowest validation
  deviance of ALPHAS is used. Seconds are those of all these fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.libraries import (
    Array,
    CatBoost,
    Effort,
    HistGradientBoosting,
    Library,
    LightGBM,
    Ours,
    Rows,
    XGBoost,
    timed,
)
from benchmarks.shared.records import OURS, read
from benchmarks.shared.tables import Task, all_tasks
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
    over_splits,
    parsed,
    parser_of,
    section,
    settings_of,
)

ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
TOLERANCE = 1e-8
"""Of the gradient of the GLM: rates are small, so the default of 1e-4 stops after three steps."""
SMALLEST = 1e-15
"""Expected counts are clipped below at this value."""


@dataclass(frozen=True)
class Claims:
    """Features, counts, and exposures."""

    X: pd.DataFrame
    y: Array
    exposure: Array

    def __getitem__(self, rows: Array) -> Claims:
        """The chosen rows, given by position."""
        return Claims(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.exposure[rows])

    def rows(self, start: float = 0.0) -> Rows:
        """Rows whose offset is the logarithm of the exposure, plus a start."""
        return Rows(self.X, self.y, offset=np.asarray(np.log(self.exposure)) + start)

    @property
    def rate(self) -> Array:
        """Counts per unit of exposure."""
        return np.asarray(self.y / self.exposure)


@dataclass(frozen=True)
class Problem:
    """One table, split once."""

    train: Claims
    validation: Claims
    test: Claims

    @property
    def both(self) -> Claims:
        """Training and validation rows together."""
        parts = self.train, self.validation
        X = pd.concat([part.X for part in parts], ignore_index=True)
        return Claims(X, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "exposure")))

    @property
    def start(self) -> float:
        """The logarithm of the mean rate of the training rows."""
        return float(np.log(self.train.y.sum() / self.train.exposure.sum()))


def deviance_per_exposure(y: Array, expected: Array, exposure: Array) -> float:
    """The total Poisson deviance of counts, given their expectations, per unit of exposure."""
    expected = np.maximum(np.asarray(expected, np.float64), SMALLEST)
    deviance = 2.0 * (y * np.log(np.where(y > 0, y, 1.0) / expected) - y + expected)
    return float(np.sum(deviance) / np.sum(exposure))


def fit_ours(problem: Problem, effort: Effort, **parameters: Any) -> Fitted:
    """Fit agbm with its members, or with the validation rows if there is only one."""
    library = Ours()
    if parameters.get("n_members") == 1:
        model = library.train("counts", problem.train.rows(), problem.validation.rows(), effort, **parameters)
    else:
        model = library.train("counts", problem.both.rows(), None, effort, **parameters, early_stopping=True)
    return Fitted(library.expected_counts(model, problem.test.rows()), model.seconds, model.trees)


def fit_peer(kind: type[Library], problem: Problem, effort: Effort) -> Fitted:
    """Fit a library that does not estimate a start where it gets offsets."""
    library = kind()
    train, held_out, test = (part.rows(problem.start) for part in (problem.train, problem.validation, problem.test))
    model = library.train("counts", train, held_out, effort)
    return Fitted(library.expected_counts(model, test), model.seconds, model.trees)


def fit_sklearn(problem: Problem, effort: Effort) -> Fitted:
    """Fit scikit-learn's HistGradientBoosting to weighted rates."""
    train, held_out = (Rows(part.X, part.rate, part.exposure) for part in (problem.train, problem.validation))
    model = HistGradientBoosting().train("counts", train, held_out, effort)
    return Fitted(problem.test.exposure * model(problem.test.X), model.seconds, model.trees)


def glm(X: pd.DataFrame, alpha: float) -> Any:
    """A Poisson GLM with splines and one-hot encodings."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    categorical = list(X.select_dtypes("category"))
    numeric = [name for name in X if name not in categorical]
    encoder = make_column_transformer(
        (SplineTransformer(n_knots=6, knots="quantile", extrapolation="constant"), numeric),
        (OneHotEncoder(min_frequency=50, handle_unknown="infrequent_if_exist"), categorical),
    )
    return make_pipeline(encoder, PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=TOLERANCE, max_iter=100))


def fit_glm(problem: Problem, effort: Effort) -> Fitted:
    """Fit a Poisson GLM to weighted rates, with the best of several penalties."""
    train, held_out, seconds = problem.train, problem.validation, 0.0
    found = []
    for alpha in ALPHAS:
        model = glm(train.X, alpha)
        seconds += timed(model.fit, train.X, train.rate, poissonregressor__sample_weight=train.exposure)
        expected = held_out.exposure * model.predict(held_out.X)
        found.append((deviance_per_exposure(held_out.y, expected, held_out.exposure), model))
    best = min(found, key=lambda pair: pair[0])[1]
    return Fitted(problem.test.exposure * best.predict(problem.test.X), seconds)


def contestants(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """All contestants; `more` are names and parameters of further ones of agbm."""
    from agbm import AGBMRegressor

    for name, parameters in [(OURS, {}), (f"{OURS}, one model", {"n_members": 1}), *more]:
        settings = settings_of(AGBMRegressor(), parameters)
        yield Contestant(name, partial(fit_ours, **parameters), (OURS,), settings)
    for library in (LightGBM, XGBoost, CatBoost):
        yield Contestant(library.name, partial(fit_peer, library), (library.package,))
    yield Contestant(HistGradientBoosting.name, fit_sklearn, (HistGradientBoosting.package,))
    yield Contestant("Poisson GLM", fit_glm, ("scikit-learn",), f"alphas {ALPHAS}, tolerance {TOLERANCE}")


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
            f"{args.iterations:,} iterations; benchmarks/tasks/counts.py describes the rest. Intervals are for the "
            "mean over random splits (Nadeau and Bengio), those of differences for paired ones. The best peer is "
            "the one with the lowest mean on the test rows. Seconds are rough: other processes may have run.", "",
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
