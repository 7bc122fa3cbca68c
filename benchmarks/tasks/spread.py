"""The spread over members, or over iterations, as a detector of unfamiliar rows and of errors.

    python -m benchmarks.tasks.spread --data FOLDER [--rows N] [--tables NAME ...]

For each table, one line per kind of unfamiliar rows with the area under the ROC curve of several detectors, which have
to separate these rows from test rows (0.5: chance):

* shuffled: test rows with every column shuffled on its own
* noise: uniform in the range of each column
* beyond: test rows above the 80 % quantile of the most important numeric feature; such rows are not trained on

The detectors are the standard deviation of the raw scores over the members of the model ("members"); that of the model
after 50, 55, ... 100 % of its iterations ("stages"); an IsolationForest of scikit-learn on the features ("forest"); and
the predicted value: its distance from the median prediction, or the entropy of a probability ("value"). The line
"error" has Spearman's correlation with the absolute error (log loss for classes) within 20 bins of the predicted value.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from agbm import AGBMClassifier, AGBMRegressor
from benchmarks.libraries import Array, Rows
from benchmarks.shared.tables import Problem, all_tasks, split

TABLES = (
    "california_housing", "bike_sharing_hour", "kc_house_sales", "wine_quality", "abalone", "cpu_act", "elevators",
    "kin8nm", "house_16h", "pol", "protein_casp", "adult", "taiwan_credit_default", "online_shoppers", "hmeq",
    "telco_churn", "htru2",
)  # fmt: skip
DETECTORS = ("members", "stages", "forest", "value")
QUANTILE = 0.8
N_BINS = 20


class Detectors:
    """The detectors of a table, fitted to its training rows."""

    def __init__(self, rows: Rows, classifies: bool) -> None:
        self.model = (AGBMClassifier if classifies else AGBMRegressor)(n_jobs=1).fit(rows.X, rows.y)
        self._medians = numbers_of(rows.X).median()
        self._forest = IsolationForest(random_state=0).fit(self._filled(rows.X))
        self._classifies = classifies
        self._middle = float(np.median(self._raw(rows.X)))

    def _filled(self, X: pd.DataFrame) -> Array:
        return np.asarray(numbers_of(X).fillna(self._medians).fillna(0.0))

    def _raw(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.model.model_.raw_predict(X, 1)[0])

    def scores(self, X: pd.DataFrame) -> dict[str, Array]:
        """The score of each row by detector; more is less familiar."""
        fitted, raw = self.model.model_, self._raw(X)
        members = [
            replace(fitted, ensembles=[ensemble]).at_iteration(len(ensemble)).raw_predict(X, 1)[0]
            for ensemble in fitted.ensembles
        ]
        chosen = {round(fitted.best_iteration * share) for share in np.linspace(0.5, 1.0, 11)}
        stages = [f[0] for i, f in enumerate(fitted.staged_raw_predict(X, 1), 1) if i in chosen]
        far = -np.abs(raw) if self._classifies else np.abs(raw - self._middle)
        forest = -self._forest.score_samples(self._filled(X))
        spreads = np.std(members, axis=0), np.std(stages, axis=0)
        return dict(zip(DETECTORS, (*spreads, forest, far), strict=True))

    def errors(self, rows: Rows) -> Array:
        """The absolute error of each row, or its log loss."""
        raw = self._raw(rows.X)
        return np.logaddexp(0.0, -np.where(rows.y == 1, raw, -raw)) if self._classifies else np.abs(raw - rows.y)

    def correlations(self, rows: Rows) -> dict[str, float]:
        """Spearman's correlation of each detector with the errors, within bins of the predicted value."""
        errors, parts = self.errors(rows), np.array_split(np.argsort(self._raw(rows.X), kind="stable"), N_BINS)
        return {
            name: float(np.nanmean([_correlation(scores[part], errors[part]) for part in parts]))
            for name, scores in self.scores(rows.X).items()
        }


def _correlation(x: Array, y: Array) -> float:
    return float(spearmanr(x, y).statistic) if np.ptp(x) > 0.0 < np.ptp(y) else 0.0


def numbers_of(X: pd.DataFrame) -> pd.DataFrame:
    """Codes of categories as numbers, the most frequent first."""
    X = X.copy()
    for name in X.select_dtypes("category"):
        order = X[name].value_counts().index
        X[name] = X[name].cat.set_categories(order).cat.codes
    return X.astype(np.float64)


def shuffled(X: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every column in an order of its own."""
    return pd.DataFrame({name: X[name].array[rng.permutation(len(X))] for name in X})


def noise(X: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Uniform numbers in the range of each column, and categories with equal probabilities."""

    def column(values: pd.Series) -> Any:
        if isinstance(values.dtype, pd.CategoricalDtype):
            codes = rng.integers(0, len(values.cat.categories), len(values))
            return pd.Categorical.from_codes(codes, dtype=values.dtype)
        return rng.uniform(values.min(), values.max(), len(values))

    return pd.DataFrame({name: column(X[name]) for name in X})


def areas(detectors: Detectors, familiar: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    """The area under the ROC curve of each detector."""
    known, new = detectors.scores(familiar), detectors.scores(other)
    label = np.repeat([0, 1], [len(familiar), len(other)])
    return {name: float(roc_auc_score(label, np.append(known[name], new[name]))) for name in DETECTORS}


def measure(problem: Problem) -> dict[str, dict[str, float]]:
    """The results of a table by kind of rows."""
    rng, both, test = np.random.default_rng(0), problem.both, problem.test
    detectors = Detectors(both, problem.classifies)
    found = {"shuffled": areas(detectors, test.X, shuffled(test.X, rng))}
    found["noise"] = areas(detectors, test.X, noise(test.X, rng))
    numeric = [i for i, dtype in enumerate(both.X.dtypes) if not isinstance(dtype, pd.CategoricalDtype)]
    feature = max(numeric, key=lambda i: float(detectors.model.feature_importances_[i]))
    limit = both.X.iloc[:, feature].quantile(QUANTILE)
    inside, beyond = (np.flatnonzero(of.X.iloc[:, feature] <= limit) for of in (both, test))
    outside = np.flatnonzero(test.X.iloc[:, feature] > limit)
    if len(outside):
        below = Detectors(both[inside], problem.classifies)
        found["beyond"] = areas(below, test[beyond].X, test[outside].X)
    return {**found, "error": detectors.correlations(test)}


def main() -> None:
    """Measure the tables and print the figures of each, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=6_000, help="training rows (%(default)s)")
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args()
    tasks, results = all_tasks(options.data), {}
    print(f"{'table':24s} {'rows':10s}" + "".join(f"{name:>9s}" for name in DETECTORS))
    for name in options.tables:
        results[name] = measure(split(tasks[name], tasks[name].load(), 0, options.rows))
        for kind, values in results[name].items():
            print(f"{name:24s} {kind:10s}" + "".join(f"{values[of]:9.3f}" for of in DETECTORS), flush=True)
    for kind in ("shuffled", "noise", "beyond", "error"):
        of_kind = [result[kind] for result in results.values() if kind in result]
        means = "".join(f"{np.mean([values[of] for values in of_kind]):9.3f}" for of in DETECTORS)
        wins = sum(values["members"] > values["forest"] for values in of_kind)
        print(f"{'mean':24s} {kind:10s}{means}   members above forest on {wins} of {len(of_kind)}")


if __name__ == "__main__":
    main()
