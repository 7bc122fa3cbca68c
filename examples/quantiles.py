"""Two quantiles from one model, and how many of the test rows are between them.

python examples/quantiles.py
"""

from __future__ import annotations

import numpy as np

from agbm import AGBMRegressor
from agbm.losses import Quantile


def main() -> None:
    """Fit both quantiles to data whose noise grows with x; intervals made of them have a guaranteed coverage."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(12_000, 1))
    y = X[:, 0] + rng.normal(0.0, 0.2 + 0.3 * X[:, 0])
    train, test = slice(0, 6000), slice(6000, None)
    model = AGBMRegressor(loss=Quantile([0.05, 0.95])).fit(X[train], y[train])
    low, high = model.predict(X[test]).T

    inside = (low <= y[test]) & (y[test] <= high)
    print(f"{inside.mean():.1%} of the test rows are between the quantiles 0.05 and 0.95")
    lower, upper = model.predict_interval(X[test], coverage=0.9).T
    covered = (lower <= y[test]) & (y[test] <= upper)
    print(f"{covered.mean():.1%} are in intervals with coverage 0.9")
    for least in (0, 5, 9):
        rows = (X[test, 0] >= least) & (X[test, 0] < least + 1)
        width = np.mean(high[rows] - low[rows])
        print(f"x from {least} to {least + 1}: {inside[rows].mean():.0%} inside, mean width {width:.2f}")


if __name__ == "__main__":
    main()
