"""Survival models of agbm and its peers on tables with censored times.

The folder `--data` contains `suite/` with an index.json; the tables are those with the task `survival`, and those that
scikit-survival and lifelines ship. Every table is split at random into 60 % training, 15 % validation and 25 % test
rows: 20 times if it has fewer than 3,000 rows, otherwise 5 times.

The scores are Harrell's C, Uno's C (until the last time of the grid) and the Brier score integrated over a grid of
times, from the 10 % to the 90 % quantile of the event times of training and validation rows, whose censoring
distribution gives the weights.

* agbm gets training and validation rows together, of which each member holds out its own part for early stopping.
* XGBoost stops early by the validation rows, with the learning rate 0.1. `survival:cox` gets a Breslow baseline from
  its training rows. `survival:aft` has a normal distribution with the scale of SCALES that has the lowest validation
  loss; seconds are those of all these fits.
* scikit-survival's gradient boosting: its default (100 trees), and with early stopping (at most 500 trees; it holds out
  20 % of training and validation rows). Its random survival forest has 100 trees with at least 15 rows per leaf.
* lifelines' Cox model has the penalizer 0.01, without which it fails on collinear columns, and the first of STEP_SIZES
  with which it converges: its default diverges on some splits of flchain.

scikit-survival and lifelines get one-hot encoded categories (those with fewer than 20 rows together), medians in place
of missing numbers and a column that marks these. scikit-survival gets at most ROWS_OF_SKSURV training and validation
rows: its exact trees take minutes with twice as many, and its forest keeps a curve per leaf.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.libraries import PATIENCE, RATE, Array, Effort, Ours, Rows, XGBoost, timed
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
    over_splits,
    parsed,
    parser_of,
    section,
    settings_of,
)

N_TIMES = 50
FIRST, LAST = 0.1, 0.9
"""Quantiles of the event times between which the Brier score is integrated."""


def as_outcomes(time: Array, event: Array) -> Array:
    """A structured array as scikit-survival expects it."""
    found = np.empty(len(time), dtype=[("event", bool), ("time", np.float64)])
    found["event"], found["time"] = event, time
    return found


def censored_at(time: Array, event: Array, last: float) -> tuple[Array, Array]:
    """Times and events if nothing was observed after `last`."""
    return np.minimum(time, last), event & (time <= last)


def grid(time: Array, event: Array, test_time: Array) -> Array:
    """Times for curves: quantiles of the event times of training rows, inside the times of the test rows."""
    times = np.unique(np.quantile(time[event], np.linspace(FIRST, LAST, N_TIMES)))
    return np.asarray(times[(times > test_time.min()) & (times < min(test_time.max(), time.max()))])


def steps_at(times: Array, at: Array, values: Array, before: float) -> Array:
    """The values of a right-continuous step function, which jumps `at` times, at other times."""
    position = np.searchsorted(at, times, side="right")
    return np.concatenate([[before], values])[position]


def breslow(time: Array, event: Array, score: Array) -> tuple[Array, Array]:
    """Event times and the cumulative baseline hazard of a Cox model at these, by Breslow's estimator.

    `score` has the logarithms of the relative hazards of the rows.
    """
    order = np.argsort(-time, kind="stable")
    at_risk = np.cumsum(np.exp(score[order]))[np.searchsorted(-time[order], -time, side="right") - 1]
    times, which = np.unique(time[event], return_inverse=True)
    hazards = np.bincount(which, 1.0 / at_risk[event], minlength=len(times))
    return times, np.cumsum(hazards)


def curves_of_cox(time: Array, event: Array, score: Array, test_score: Array, times: Array) -> Array:
    """Survival probabilities (row, time) of a Cox model with the baseline of its training rows."""
    centre = float(np.mean(score))  # cancels; large scores would overflow
    hazard = steps_at(times, *breslow(time, event, score - centre), before=0.0)
    return np.asarray(np.exp(-np.outer(np.exp(test_score - centre), hazard)))


def of_predictions(
    train: tuple[Array, Array], test: tuple[Array, Array], risk: Array, curves: Array, times: Array
) -> dict[str, list[float]]:
    """All scores, of risks (higher: earlier) and of survival probabilities (row, time) at `times`.

    `train` and `test` are times and events. Test rows that live longer than all training rows are censored at the last
    time of these: the weights are not defined later.
    """
    from sksurv import metrics

    known = as_outcomes(*train)
    outcomes = as_outcomes(*censored_at(*test, last=float(train[0].max())))
    return {
        "Harrell's C": [float(metrics.concordance_index_censored(outcomes["event"], outcomes["time"], risk)[0])],
        "Uno's C": [float(metrics.concordance_index_ipcw(known, outcomes, risk, tau=float(times[-1]))[0])],
        "integrated Brier": [float(metrics.integrated_brier_score(known, outcomes, curves, times))],
    }


SPLITS, SPLITS_OF_FEW_ROWS = 5, 20
OF_SKSURV = {
    "veterans_lung_cancer": SPLITS_OF_FEW_ROWS, "whas500": SPLITS_OF_FEW_ROWS, "gbsg2": SPLITS_OF_FEW_ROWS,
    "aids": SPLITS_OF_FEW_ROWS, "flchain": SPLITS,
}  # fmt: skip
"""Tables of scikit-survival, with their numbers of splits."""
TRAINING, FITTING = 0.6, 0.75
"""Shares of rows for training, and for training and validation together."""


@dataclass(frozen=True)
class Lives:
    """Features, times, and whether the event was observed at that time."""

    X: pd.DataFrame
    time: Array
    event: Array

    def __getitem__(self, rows: Array) -> Lives:
        """The chosen rows, given by position."""
        return Lives(self.X.iloc[rows].reset_index(drop=True), self.time[rows], self.event[rows])


@dataclass(frozen=True)
class Problem:
    """One table, split once; `times` are those at which curves are needed."""

    train: Lives
    validation: Lives
    test: Lives
    both: Lives
    """Training and validation rows together."""
    times: Array


def split(lives: Lives, seed: int) -> Problem:
    """60 % of the rows for training, 15 % for validation, 25 % for testing, stratified by event."""
    rng = np.random.default_rng(seed)
    parts: list[list[Array]] = [[], [], []]
    for stratum in (False, True):
        order = rng.permutation(np.flatnonzero(lives.event == stratum))
        cuts = [int(TRAINING * len(order)), int(FITTING * len(order))]
        for part, rows in zip(parts, np.split(order, cuts), strict=True):
            part.append(rows)
    train, validation, test = (rng.permutation(np.concatenate(part)) for part in parts)
    both = lives[np.concatenate([train, validation])]
    times = grid(both.time, both.event, lives.time[test])
    return Problem(lives[train], lives[validation], lives[test], both, times)


def _typed(X: pd.DataFrame, categorical: list[str] | None = None) -> pd.DataFrame:
    """Texts and the named columns as categories, all else as floats."""
    texts = [name for name, dtype in X.dtypes.items() if dtype.kind not in "iufb"]
    names = list(dict.fromkeys([*(categorical or []), *texts]))
    X = X.astype({name: np.float64 for name in X if name not in names}).astype(dict.fromkeys(names, "category"))
    floats = [name for name in names if X[name].cat.categories.dtype.kind == "f"]
    return X.assign(**{name: X[name].cat.rename_categories(np.int64) for name in floats})  # as XGBoost needs them


def _of_index(folder: Path, entry: dict[str, Any]) -> Lives:
    frame = pd.read_csv(folder / entry["file"], keep_default_na=False, na_values=[""], low_memory=False)
    event = frame[entry["event"]].to_numpy() == 1
    time = frame[entry["target"]].to_numpy(np.float64)
    return Lives(_typed(frame.drop(columns=[*entry["drop"], entry["target"]]), entry["categorical"]), time, event)


def _of_sksurv(name: str) -> Lives:
    from sksurv import datasets

    X, outcomes = getattr(datasets, f"load_{name}")()
    event, time = (outcomes[field] for field in outcomes.dtype.names)
    # The cause of death of flchain is known only after the event.
    X = X.drop(columns=[column for column in ("chapter",) if column in X])
    positive = time > 0  # a few rows of flchain have the time 0, which no log of time has
    return Lives(_typed(X), time.astype(np.float64), event.astype(bool))[np.flatnonzero(positive)]


def _of_lifelines(name: str, time: str, event: str) -> Lives:
    from lifelines import datasets

    frame = getattr(datasets, f"load_{name}")()
    return Lives(_typed(frame.drop(columns=[time, event])), frame[time].to_numpy(float), frame[event].to_numpy() == 1)


def _trial_of(name: str, load: Callable[[], Lives], n_splits: int) -> Trial[Problem]:
    """The trial of a table, which is read with its first split."""
    kept: list[Lives] = []

    def make(seed: int) -> Problem:
        if not kept:
            kept.append(load())
        return split(kept[0], seed)

    return Trial(name, n_splits, make)


def trials_of(folder: Path) -> list[Trial[Problem]]:
    """The trials of a data folder, and of the packages."""
    index = json.loads((folder / "suite" / "index.json").read_text())
    found = [_trial_of(name, lambda name=name: _of_sksurv(name), splits) for name, splits in OF_SKSURV.items()]  # type: ignore[misc]
    found.append(_trial_of("rossi", lambda: _of_lifelines("rossi", "week", "arrest"), SPLITS_OF_FEW_ROWS))
    for entry in index:
        if entry["task"] == "survival":
            name = Path(entry["file"]).name.removesuffix(".csv.xz")
            found.append(_trial_of(name, lambda entry=entry: _of_index(folder / "suite", entry), SPLITS))  # type: ignore[misc]
    return found


SCALES = (0.5, 0.75, 1.0, 1.5)
ROWS_OF_SKSURV = 2_500
STEP_SIZES = (0.95, 0.5, 0.1)
"""Of Newton's method in lifelines, whose default is the first."""


@dataclass(frozen=True)
class Predicted:
    """Risks (higher: earlier) and survival probabilities (row, time) of the test rows."""

    risk: Array
    curves: Array


def fit_ours(problem: Problem, effort: Effort, **parameters: Any) -> Fitted:
    """Fit agbm."""
    rows = Rows(problem.both.X, as_outcomes(problem.both.time, problem.both.event))
    model = Ours().train("survival", rows, None, effort, **{"early_stopping": True, **parameters})
    functions = model.fitted.predict_survival_function(problem.test.X)
    curves = np.vstack([function(problem.times) for function in functions])
    return Fitted(Predicted(model(problem.test.X), curves), model.seconds, model.trees)


def fit_xgboost_cox(problem: Problem, effort: Effort) -> Fitted:
    """Fit XGBoost's Cox model."""

    def rows(lives: Lives) -> Rows:
        return Rows(lives.X, np.where(lives.event, lives.time, -lives.time))

    train = problem.train
    model = XGBoost().train("values", rows(train), rows(problem.validation), effort, objective="survival:cox")
    own, risk = (
        model.fitted.predict(lives.X, output_margin=True).astype(np.float64) for lives in (train, problem.test)
    )
    curves = curves_of_cox(train.time, train.event, own, risk, problem.times)
    return Fitted(Predicted(risk, curves), model.seconds, model.iterations)


def _matrix_with_bounds(rows: Lives) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(rows.X, enable_categorical=True)
    matrix.set_float_info("label_lower_bound", rows.time)
    matrix.set_float_info("label_upper_bound", np.where(rows.event, rows.time, np.inf))
    return matrix


def fit_xgboost_aft(problem: Problem, effort: Effort) -> Fitted:
    """Fit XGBoost's AFT model with the best of several scales."""
    import xgboost
    from scipy.stats import norm

    train, held_out = (_matrix_with_bounds(rows) for rows in (problem.train, problem.validation))
    found, seconds = [], 0.0
    for scale in SCALES:
        parameters = {
            "objective": "survival:aft", "eval_metric": "aft-nloglik", "aft_loss_distribution": "normal",
            "aft_loss_distribution_scale": scale, "learning_rate": RATE, "nthread": effort.threads, "seed": effort.seed,
        }  # fmt: skip
        kept: list[Any] = []

        def fit(parameters: dict[str, Any] = parameters, kept: list[Any] = kept) -> None:
            kept.append(
                xgboost.train(
                    parameters, train, effort.iterations, evals=[(held_out, "validation")], verbose_eval=False,
                    early_stopping_rounds=PATIENCE,
                )
            )  # fmt: skip

        seconds += timed(fit)
        found.append((kept[0].best_score, scale, kept[0]))
    _, scale, model = min(found, key=lambda one: one[0])
    matrix = xgboost.DMatrix(problem.test.X, enable_categorical=True)
    time = model.predict(matrix, iteration_range=(0, model.best_iteration + 1)).astype(np.float64)
    location = np.log(time)
    curves = norm.sf((np.log(problem.times)[np.newaxis] - location[:, np.newaxis]) / scale)
    return Fitted(Predicted(-location, curves), seconds, model.best_iteration + 1)


def encoder(X: pd.DataFrame, drop: str | None = None) -> Any:
    """One-hot encodings of categories, and standardised numbers with medians in place of missing ones."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categorical = list(X.select_dtypes("category"))
    numeric = [name for name in X if name not in categorical]
    one_hot = OneHotEncoder(
        min_frequency=20, handle_unknown="infrequent_if_exist", sparse_output=False, drop=drop, dtype=np.float64
    )
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    return make_column_transformer((make_pipeline(imputer, StandardScaler()), numeric), (one_hot, categorical))


def _capped(rows: Lives, most: int) -> Lives:
    """The first rows, whose order is random."""
    return rows[np.arange(min(most, len(rows.time)))]


def _curves_of(functions: Any, times: Array) -> Array:
    """The values of scikit-survival's step functions, which start at 1 before their domain and stay after it."""
    last = functions[0].x[-1]
    inside = np.clip(times, functions[0].x[0], last)
    values = np.vstack([function(inside) for function in functions])
    return np.asarray(np.where(times < functions[0].x[0], 1.0, values))


def fit_sksurv(problem: Problem, effort: Effort, make: Callable[[Effort], Any]) -> Fitted:
    """Fit an estimator of scikit-survival."""
    rows = _capped(problem.both, ROWS_OF_SKSURV)
    encoded = encoder(rows.X).fit(rows.X)
    model = make(effort)
    seconds = timed(model.fit, encoded.transform(rows.X), as_outcomes(rows.time, rows.event))
    X = encoded.transform(problem.test.X)
    curves = _curves_of(model.predict_survival_function(X), problem.times)
    trees = getattr(model, "n_estimators_", model.n_estimators)
    return Fitted(Predicted(model.predict(X), curves), seconds, trees)


def _boosting(effort: Effort, **parameters: Any) -> Any:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    return GradientBoostingSurvivalAnalysis(random_state=effort.seed, **parameters)


def _forest(effort: Effort) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    return RandomSurvivalForest(n_estimators=100, min_samples_leaf=15, n_jobs=effort.threads, random_state=effort.seed)


STOPPING: dict[str, Any] = {"n_estimators": 500, "n_iter_no_change": 20, "validation_fraction": 0.2}


def _fit_converging(model: Any, known: pd.DataFrame) -> None:
    """Fit lifelines' Cox model with a step size that converges; raises ConvergenceWarning if there is none."""
    from lifelines.exceptions import ConvergenceError, ConvergenceWarning

    for step_size in STEP_SIZES:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*failed to converge", category=ConvergenceWarning)
            try:
                model.fit(known, "time", "event", fit_options={"step_size": step_size, "max_steps": 1_000})
                return
            except (ConvergenceWarning, ConvergenceError):
                if step_size == STEP_SIZES[-1]:
                    raise


def fit_lifelines(problem: Problem, effort: Effort) -> Fitted:
    """Fit lifelines' Cox model."""
    from lifelines import CoxPHFitter

    rows = problem.both
    encoded = encoder(rows.X, drop="first").fit(rows.X)

    def frame(X: pd.DataFrame) -> pd.DataFrame:
        values = encoded.transform(X)
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])

    known = frame(rows.X)
    known = known.loc[:, known.std() > 0.0].assign(time=rows.time, event=rows.event.astype(int))
    model = CoxPHFitter(penalizer=0.01)
    seconds = timed(_fit_converging, model, known)
    X = frame(problem.test.X)[[name for name in known if name not in ("time", "event")]]
    curves = model.predict_survival_function(X, times=problem.times).to_numpy().T
    return Fitted(Predicted(model.predict_log_partial_hazard(X).to_numpy(), curves), seconds)


def contestants(more: list[tuple[str, dict[str, Any]]]) -> Iterator[Contestant[Problem]]:
    """All contestants; `more` are names and parameters of further ones of agbm."""
    from agbm import AGBMSurvival

    for name, parameters in [(OURS, {}), *more]:
        settings = settings_of(AGBMSurvival(), parameters)
        yield Contestant(name, partial(fit_ours, **parameters), (OURS,), settings)
    yield Contestant("XGBoost, Cox", fit_xgboost_cox, ("xgboost-cpu",))
    yield Contestant("XGBoost, AFT", fit_xgboost_aft, ("xgboost-cpu",))
    of_sksurv: dict[str, Callable[[Effort], Any]] = {
        "scikit-survival": _boosting,
        "scikit-survival, early stopping": partial(_boosting, **STOPPING),
        "random survival forest": _forest,
    }
    for name, make in of_sksurv.items():
        settings = f"at most {ROWS_OF_SKSURV} rows"
        yield Contestant(name, partial(fit_sksurv, make=make), ("scikit-survival",), settings)
    yield Contestant("lifelines, Cox", fit_lifelines, ("lifelines",), f"step sizes {STEP_SIZES}")


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
            f"{ROWS_OF_SKSURV:,} rows for fitting; benchmarks/tasks/survival.py describes the rest. "
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
