"""Calibration of class probabilities: what a temperature from held-out rows changes, table by table.

    python -m benchmarks.tasks.class_calibration --data FOLDER [--rows N] [--tables NAME ...] [--out FILE]

A temperature divides the raw scores of a classifier; here it is written as its inverse, the factor of the scores. Every
variant is measured on the same test rows, by the log loss and by the expected calibration error of the most probable
class in 15 bins of equal numbers of rows. A factor minimises the log loss of held-out rows:

* members: those that each member of the model held out for early stopping, scored by that member; one factor for all
* each: the same rows, one factor per member
* trees: as members, but only the trees are multiplied, at most by 2, and the start constants stay: this is
  temperature_scaling=True
* X_val: another model, whose validation rows are given, so that its members share them; `given` is it without a factor
* folds: CalibratedClassifierCV(method="temperature", ensemble=False) of scikit-learn around the model, six fits
* Platt: as members, a factor and a shift, for two classes
* test: the test rows themselves, the limit of what any factor can reach
* Venn-Abers: inductive, from the rows of `members`, for two classes
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression

from agbm import AGBMClassifier
from benchmarks.libraries import Array
from benchmarks.shared.tables import Problem, all_tasks, split

N_BINS = 15
LARGEST_FACTOR = 10.0
N_GRID = 200
"""Venn-Abers probabilities are computed at so many quantiles of the scores, and interpolated."""


class HeldOut:
    """A scorer that keeps the held-out scores of each member at the best iteration, and at the start."""

    def __init__(self, n_members: int) -> None:
        self._n = n_members
        self._pending: list[tuple[Array, Array]] = []
        self._lowest = np.inf
        self.start: list[Array] = []
        self.best: list[tuple[Array, Array]] = []
        """Scores (row, class) and labels per member."""

    def __call__(self, model: Any, X: Any, y: Array) -> float:
        """Minus the log loss, so that training stops as without a scorer."""
        scores = two_columns(model.decision_function(X))
        self._pending.append((scores, y))
        if len(self._pending) == self._n:
            mean = float(np.mean([log_loss(*one) for one in self._pending]))
            self.start = self.start or [scores for scores, _ in self._pending]
            if mean < self._lowest:
                self._lowest, self.best = mean, self._pending
            self._pending = []
        return -log_loss(scores, y)


def two_columns(scores: Array) -> Array:
    """Scores (row, class) whose softmax are the probabilities."""
    return scores if scores.ndim == 2 else np.stack([np.zeros_like(scores), scores], axis=1)


def as_rows(raw: Array) -> Array:
    """Scores (output, row) of a model as scores (row, class)."""
    return two_columns(raw[0] if len(raw) == 1 else raw.T)


def log_loss(scores: Array, y: Array) -> float:
    """Mean log loss of scores (row, class)."""
    return float(-np.mean(log_softmax(scores, axis=1)[np.arange(len(y)), y]))


def calibration_error(probabilities: Array, y: Array) -> float:
    """Expected calibration error of the most probable class, in bins of equal numbers of rows."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    parts = np.array_split(np.argsort(confidence, kind="stable"), N_BINS)
    return float(sum(abs(right[part].mean() - confidence[part].mean()) * len(part) for part in parts) / len(y))


def best_factor(loss_at: Callable[[float], float], largest: float) -> float:
    """The factor between 1 / LARGEST_FACTOR and the largest one that minimises a loss."""
    bounds = -np.log(LARGEST_FACTOR), np.log(largest)
    found = minimize_scalar(lambda x: loss_at(float(np.exp(x))), bounds=bounds, method="bounded")
    return float(np.exp(found.x))


def factor_of(scores: Array, y: Array, start: Array | float = 0.0, largest: float = LARGEST_FACTOR) -> float:
    """The best factor of scores, of which a part, the start, is not multiplied."""
    return best_factor(lambda factor: log_loss(start + factor * (scores - start), y), largest)


def member_scores(model: AGBMClassifier, X: Any) -> list[Array]:
    """The scores (row, class) of each member."""
    fitted, found = model.model_, []
    for ensemble in fitted.ensembles:
        one = replace(fitted, ensembles=[ensemble]).at_iteration(len(ensemble))
        found.append(as_rows(one.raw_predict(X, 1)))
    return found


def platt(scores: Array, y: Array) -> tuple[float, float]:
    """The shift and the factor of log-odds that minimise the log loss."""
    found = minimize(lambda x: log_loss(two_columns(x[0] + x[1] * scores), y), [0.0, 1.0])
    return float(found.x[0]), float(found.x[1])


def venn_abers(scores: Array, y: Array, tested: Array) -> Array:
    """Probabilities (row, class) of an inductive Venn-Abers predictor for two classes."""
    grid = np.unique(np.quantile(tested, np.linspace(0, 1, N_GRID)))
    bounds = []
    for label in (0, 1):
        fits = [IsotonicRegression().fit(np.append(scores, at), np.append(y, label)) for at in grid]
        bounds.append([float(fit.predict([at])[0]) for fit, at in zip(fits, grid, strict=True)])
    low, high = (np.interp(tested, grid, bound) for bound in bounds)
    second = np.clip(high / (1.0 - low + high), 1e-6, 1.0 - 1e-6)
    return np.stack([1.0 - second, second], axis=1)


def measure(problem: Problem, folds: bool) -> dict[str, Any]:
    """The factor, log loss and calibration error of every variant."""
    both, test = problem.both, problem.test
    held_out = HeldOut(5)
    model = AGBMClassifier(scoring=held_out, n_jobs=1).fit(both.X, both.y)
    raw = two_columns(model.decision_function(test.X))
    scores = np.concatenate([scores for scores, _ in held_out.best])
    y, start = np.concatenate([y for _, y in held_out.best]), np.concatenate(held_out.start)
    results: dict[str, Any] = {}

    def note(name: str, factor: float, scores: Array, probabilities: Array | None = None) -> None:
        if probabilities is None:
            loss, probabilities = log_loss(scores, test.y), softmax(scores, axis=1)
        else:
            loss = float(-np.mean(np.log(probabilities[np.arange(len(test.y)), test.y])))
        results[name] = {"factor": factor, "loss": loss, "ece": calibration_error(probabilities, test.y)}

    note("none", 1.0, raw)
    factor = factor_of(scores, y)
    note("members", factor, factor * raw)
    each = [factor_of(*one) for one in held_out.best]
    of_members = member_scores(model, test.X)
    note("each", float(np.mean(each)), np.mean([k * f for k, f in zip(each, of_members, strict=True)], axis=0))
    factor, constants = factor_of(scores, y, start, 2.0), as_rows(model.model_.start[:, np.newaxis])
    note("trees", factor, constants + factor * (raw - constants))
    if problem.kind == "binary":
        shift, factor = platt(scores[:, 1], y)
        note("Platt", factor, two_columns(shift + factor * raw[:, 1]))
    factor = factor_of(raw, test.y)
    note("test", factor, factor * raw)
    if problem.kind == "binary":
        note("Venn-Abers", np.nan, raw, venn_abers(scores[:, 1], y, raw[:, 1]))

    train, validation = problem.train, problem.validation
    given = AGBMClassifier(n_jobs=1).fit(train.X, train.y, X_val=validation.X, y_val=validation.y)
    raw = two_columns(given.decision_function(test.X))
    factor = factor_of(two_columns(given.decision_function(validation.X)), validation.y)
    note("given", 1.0, raw)
    note("X_val", factor, factor * raw)
    if folds:
        wrapped = CalibratedClassifierCV(AGBMClassifier(n_jobs=1), method="temperature", cv=5, ensemble=False)
        wrapped.fit(both.X, both.y)
        # For two classes scikit-learn has the scores -f and f, whose difference is twice the log-odds.
        beta = float(wrapped.calibrated_classifiers_[0].calibrators[0].beta_) * (2 if problem.kind == "binary" else 1)
        note("folds", beta, raw, wrapped.predict_proba(test.X))
    return results


def summary(results: dict[str, Any]) -> str:
    """One line per variant: log losses relative to those without a factor, and calibration errors."""
    lines = []
    for name in dict.fromkeys(name for of in results.values() for name in of):
        base = "given" if name == "X_val" else "none"
        pairs = [(of[name], of[base]) for of in results.values() if name in of]
        ratios = np.array([one["loss"] / other["loss"] for one, other in pairs])
        before, after = (float(np.mean([pair[i]["ece"] for pair in pairs])) for i in (1, 0))
        lower = sum(one["ece"] < other["ece"] for one, other in pairs)
        lines.append(
            f"{name:10s} {len(pairs):2d} tables: log loss x {np.exp(np.mean(np.log(ratios))):.4f} (median "
            f"{np.median(ratios):.4f}, {ratios.min():.4f} to {ratios.max():.4f}), lower on {(ratios < 1).sum()}; "
            f"calibration error {before:.4f} -> {after:.4f}, lower on {lower}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure the tables, print one line for each, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=12_000, help="training rows (%(default)s)")
    parser.add_argument("--kinds", nargs="*", default=["binary", "multiclass"])
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--seed", type=int, default=0, help="of the split into training and test rows (%(default)s)")
    parser.add_argument("--no-folds", action="store_true", help="without CalibratedClassifierCV, which takes six fits")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    tasks = [task for task in all_tasks(options.data).values() if task.kind in options.kinds]
    results = {}
    for task in tasks:
        if options.tables and task.name not in options.tables:
            continue
        problem = split(task, task.load(), options.seed, options.rows)
        results[task.name] = measure(problem, not options.no_folds)
        print(f"{task.name} ({task.kind}): factor, log loss, calibration error")
        for name, found in results[task.name].items():
            print(f"    {name:10s} {found['factor']:7.3f} {found['loss']:9.5f} {found['ece']:8.4f}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(results))
    print(summary(results))


if __name__ == "__main__":
    main()
