"""Constraints that hold for the whole model: a prediction that may only rise, and features that may not interact.

python examples/constraints.py
"""

from __future__ import annotations

import numpy as np

from agbm import AGBMRegressor

INCOME, DEBT, AGE = range(3)


def main() -> None:
    """Fit with and without constraints, and measure how far each model breaks them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 3))
    y = X[:, INCOME] - X[:, DEBT] + X[:, DEBT] * X[:, AGE] + rng.normal(0.0, 0.3, len(X))
    free = AGBMRegressor(max_iter=100, early_stopping=False).fit(X, y)
    held = AGBMRegressor(
        max_iter=100, early_stopping=False, monotonic_cst=[1, -1, 0], interaction_cst=[[INCOME], [DEBT, AGE]]
    )
    held.fit(X, y)
    for name, model in (("without constraints", free), ("with constraints", held)):
        print(f"{name:20} deepest fall as income rises {deepest_fall(model):.3g},", end=" ")
        print(f"income and debt interact by {interaction(model):.2g}")


def deepest_fall(model: AGBMRegressor) -> float:
    """How far the prediction of any row falls between two neighbouring incomes."""
    incomes = np.linspace(0.0, 1.0, 200)
    rows = np.random.default_rng(1).uniform(size=(100, 1, 3)).repeat(len(incomes), axis=1)
    rows[:, :, INCOME] = incomes
    predictions = model.predict(rows.reshape(-1, 3)).reshape(rows.shape[:2])
    return float(max(0.0, -np.diff(predictions, axis=1).min()))


def interaction(model: AGBMRegressor) -> float:
    """How much what income adds depends on the debt: 0, but for rounding, where the two do not interact."""

    def at(income: float, debt: float) -> np.ndarray:
        rows = np.random.default_rng(2).uniform(size=(100, 3))
        rows[:, [INCOME, DEBT]] = income, debt
        return model.predict(rows)

    return float(np.abs(at(0.9, 0.9) - at(0.1, 0.9) - at(0.9, 0.1) + at(0.1, 0.1)).max())


if __name__ == "__main__":
    main()
