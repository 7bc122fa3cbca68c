"""Audit a credit model: check a model file against its training data, and find what was manipulated.

A bank trains a model that decides on loans, and files it with its data. An auditor gets both, repeats the training,
or checks a random part of it, and learns which tree, row or parameter does not belong to the model.

python examples/audit_a_credit_model.py
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import agbm
from agbm import AGBMClassifier

Labels = NDArray[np.bool_]


def loans(n: int = 4000) -> tuple[pd.DataFrame, Labels]:
    """Simulated applicants, and whether they defaulted."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "income": rng.lognormal(10.3, 0.5, n).round(),
            "debt": rng.lognormal(8.5, 1.0, n).round(),
            "years_employed": rng.integers(0, 30, n),
        }
    )
    risk = 2.0 * table["debt"] / table["income"] - 0.05 * table["years_employed"] - 1.0
    return table, rng.random(n) < 1.0 / (1.0 + np.exp(-risk.to_numpy()))


def with_another_leaf(model: AGBMClassifier) -> AGBMClassifier:
    """Make one leaf of iteration 20 more lenient, and everything else in the file match."""
    forest: Any = model.model_.ensembles[0].models[19]
    forest.value = forest.value.copy()
    forest.value[-1] -= 0.3
    model.model_ = replace(model.model_, folded=model.model_.at_iteration(model.best_iteration_).folded)
    return model


def with_another_parameter(model: AGBMClassifier) -> AGBMClassifier:
    """Claim that leaves had at least 50 rows."""
    model.model_ = replace(model.model_, parameters={**model.model_.parameters, "min_samples_leaf": 50})
    return model


def audit(title: str, model: AGBMClassifier, X: pd.DataFrame, y: Labels, iterations: str | int | list[int]) -> bool:
    """Verify a model, and print the result."""
    found = model.verify(X, y, iterations=iterations)
    print(f"{title}: {'verified' if found else 'NOT VERIFIED'}")
    for difference in found.differences:
        print(f"    {difference.part}, {difference.where}")
        print(f"    in the file: {difference.values[0]}, from the data: {difference.values[1]}")
    return bool(found)


def main() -> None:
    """File a model, then audit it as it is and after manipulations."""
    X, y = loans()
    AGBMClassifier(n_members=1, early_stopping=False, max_iter=60).fit(X, y).save("filed.agbm")
    print("fingerprint:", agbm.load("filed.agbm").fingerprint_)
    audit("all iterations", agbm.load("filed.agbm"), X, y, "all")
    audit("iterations 5, 20 and 41", agbm.load("filed.agbm"), X, y, [5, 20, 41])

    with_another_leaf(agbm.load("filed.agbm")).save("lenient.agbm")
    audit("a changed leaf", agbm.load("lenient.agbm"), X, y, 20)

    with_another_parameter(agbm.load("filed.agbm")).save("claimed.agbm")
    audit("a changed parameter", agbm.load("claimed.agbm"), X, y, 1)

    other = X.copy()
    other.loc[1234, "income"] += 1.0
    audit("a changed row", agbm.load("filed.agbm"), other, y, "all")


if __name__ == "__main__":
    main()
