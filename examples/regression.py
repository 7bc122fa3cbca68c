"""Regression on a table with text: error on test rows, prediction intervals, and partial dependence.

python examples/regression.py        (needs pip install '.[plot]' pandas)

Writes partial_dependence.png, the mean prediction against each feature.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from agbm import AGBMRegressor, plot


def make_rides(n: int, seed: int) -> pd.DataFrame:
    """Generate hours of a bicycle hire: rides depend on the hour, the temperature and the weather."""
    rng = np.random.default_rng(seed)
    rides = pd.DataFrame({
        "hour": rng.integers(0, 24, n),
        "temperature": rng.normal(14.0, 8.0, n),
        "weather": rng.choice(["clear", "cloudy", "rain"], n, p=[0.5, 0.3, 0.2]),
    })  # fmt: skip
    rush = np.exp(-((rides["hour"] - 8) ** 2) / 4) + 1.3 * np.exp(-((rides["hour"] - 18) ** 2) / 6)
    warmth = np.clip(rides["temperature"], 0, 28) / 28
    dryness = rides["weather"].map({"clear": 1.0, "cloudy": 0.9, "rain": 0.4})
    rides["rides"] = rng.poisson(20 + 400 * (0.2 + rush) * (0.3 + 0.7 * warmth) * dryness)
    return rides


def main() -> None:
    """Fit the mean and two quantiles, and draw what the mean depends on."""
    train, test = make_rides(2000, seed=0), make_rides(1000, seed=1)
    X_train, y_train = train.drop(columns="rides"), train["rides"]
    X_test, y_test = test.drop(columns="rides"), test["rides"]

    model = AGBMRegressor().fit(X_train, y_train)
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    print(f"R2 {model.score(X_test, y_test):.3f}, RMSE {error:.1f} rides")

    # Quantiles of the training rows tend to be too narrow for new rows; rows that are held out show by how much.
    quantiles = AGBMRegressor(loss="quantile:0.05,0.95").fit(X_train, y_train)
    bounds = {"quantiles": quantiles.predict(X_test), "intervals": quantiles.predict_interval(X_test, coverage=0.9)}
    for name, found in bounds.items():
        lower, upper = found.T
        inside = np.mean((lower <= y_test) & (y_test <= upper))
        print(f"90 %, {name}: {inside:.1%} of the test rows inside, mean width {np.mean(upper - lower):.1f}")

    axes = plot.partial_dependence(model, X_test, ["hour", "temperature", "weather"])
    axes[0].figure.savefig("partial_dependence.png")


if __name__ == "__main__":
    main()
