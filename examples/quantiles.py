"""Prediction intervals from two quantiles, and their coverage of test rows.

python examples/quantiles.py
"""

from __future__ import annotations

import numpy as np

from agbm import AGBMRegressor
from agbm.losses import Quantile


def main() -> None:
    """Fit both quantiles to data whose noise grows with x."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(12_000, 1))
    y = X[:, 0] + rng.normal(0.0, 0.2 + 0.3 * X[:, 0])
    train, test = slice(0, 6000), slice(6000, None)
    low, high = (
        AGBMRegressor(loss=Quantile(quantile), early_stopping=True).fit(X[train], y[train]).predict(X[test])
        for quantile in (0.05, 0.95)
    )

    inside = (low <= y[test]) & (y[test] <= high)
    print(f"90 % intervals contain {inside.mean():.1%} of the test rows")
    for least in (0, 5, 9):
        rows = (X[test, 0] >= least) & (X[test, 0] < least + 1)
        width = np.mean(high[rows] - low[rows])
        print(f"x from {least} to {least + 1}: {inside[rows].mean():.0%} inside, mean width {width:.2f}")


if __name__ == "__main__":
    main()
