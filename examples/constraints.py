"""Monotone and interaction constraints, which hold for the whole model.

python examples/constraints.py
"""

from __future__ import annotations

import numpy as np

from agbm import AGBMRegressor

INCOME, DEBT, AGE = range(3)


def main() -> None:
    """Fit with and without constraints, and measure how much each model violates them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 3))
    y = X[:, INCOME] - X[:, DEBT] + X[:, DEBT] * X[:, AGE] + rng.normal(0.0, 0.3, len(X))
    unconstrained = AGBMRegressor(max_iter=100, early_stopping=False).fit(X, y)
    constrained = AGBMRegressor(
        max_iter=100, early_stopping=False, monotonic_cst=[1, -1, 0], interaction_cst=[[INCOME], [DEBT, AGE]]
    )
    constrained.fit(X, y)
    for name, model in (("without constraints", unconstrained), ("with constraints", constrained)):
        print(f"{name:20} largest decrease as income rises {largest_decrease(model):.3g},", end=" ")
        print(f"interaction of income and debt {interaction(model):.2g}")


def largest_decrease(model: AGBMRegressor) -> float:
    """Return the largest decrease of a prediction between two neighbouring incomes."""
    incomes = np.linspace(0.0, 1.0, 200)
    rows = np.random.default_rng(1).uniform(size=(100, 1, 3)).repeat(len(incomes), axis=1)
    rows[:, :, INCOME] = incomes
    predictions = model.predict(rows.reshape(-1, 3)).reshape(rows.shape[:2])
    return float(max(0.0, -np.diff(predictions, axis=1).min()))


def interaction(model: AGBMRegressor) -> float:
    """Return how much the effect of income depends on debt: 0 up to rounding if the two do not interact."""

    def at(income: float, debt: float) -> np.ndarray:
        rows = np.random.default_rng(2).uniform(size=(100, 3))
        rows[:, [INCOME, DEBT]] = income, debt
        return model.predict(rows)

    return float(np.abs(at(0.9, 0.9) - at(0.1, 0.9) - at(0.9, 0.1) + at(0.1, 0.1)).max())


if __name__ == "__main__":
    main()
