"""Fit a pandas data frame with text columns, categories and missing values, without preprocessing.

python examples/categories_and_missing.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from agbm import AGBMRegressor


def make_flats(n: int, seed: int) -> pd.DataFrame:
    """Generate flats and their rents; most small flats have a missing area."""
    rng = np.random.default_rng(seed)
    flats = pd.DataFrame({
        "district": rng.choice(["harbour", "hill", "old town", "station"], n),
        "heating": pd.Categorical(rng.choice(["gas", "heat pump", "oil"], n)),
        "area": rng.uniform(20, 120, n),
    })  # fmt: skip
    surcharge = flats["district"].map({"harbour": 300.0, "hill": 450.0, "old town": 380.0, "station": 150.0})
    flats["rent"] = 9.0 * flats["area"] + surcharge + rng.normal(0, 20, n)
    flats.loc[(flats["area"] < 40) & (rng.random(n) < 0.8), "area"] = np.nan
    return flats


def main() -> None:
    """Fit the frame, and predict flats with a missing area and with a district that is not in the training data."""
    train, test = make_flats(3000, seed=0), make_flats(1000, seed=1)
    features = ["district", "heating", "area"]
    model = AGBMRegressor().fit(train[features], train["rent"])
    print(f"R2 on new flats: {model.score(test[features], test['rent']):.3f}")
    print(f"R2 on flats with a missing area: {model.score(*_without_area(test, features)):.3f}")

    new = pd.DataFrame({
        "district": ["hill", "hill", "station", "airport"], "heating": ["gas"] * 4, "area": [60.0, np.nan, 60.0, 60.0],
    })  # fmt: skip
    new["predicted rent"] = model.predict(new).round()
    print(new.to_string(index=False), "\n('airport' is not in the training data: it is treated as a missing value)")


def _without_area(flats: pd.DataFrame, features: list[str]) -> tuple[pd.DataFrame, pd.Series]:
    without = flats[flats["area"].isna()]
    return without[features], without["rent"]


if __name__ == "__main__":
    main()
