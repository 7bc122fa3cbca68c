"""Tables as they come: text columns, categories and holes of a pandas data frame, without any preparation.

python examples/categories_and_missing.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from agbm import AGBMRegressor


def make_flats(n: int, seed: int) -> pd.DataFrame:
    """Flats and their rents; the area of some is unknown, and that of these flats is small."""
    rng = np.random.default_rng(seed)
    flats = pd.DataFrame({
        "district": rng.choice(["harbour", "hill", "old town", "station"], n),
        "heating": pd.Categorical(rng.choice(["gas", "heat pump", "oil"], n)),
        "area": rng.uniform(20, 120, n),
    })  # fmt: skip
    of_district = flats["district"].map({"harbour": 300.0, "hill": 450.0, "old town": 380.0, "station": 150.0})
    flats["rent"] = 9.0 * flats["area"] + of_district + rng.normal(0, 20, n)
    flats.loc[(flats["area"] < 40) & (rng.random(n) < 0.8), "area"] = np.nan
    return flats


def main() -> None:
    """Fit to the frame, and predict for flats with a hole and with a district that training has not seen."""
    train, test = make_flats(3000, seed=0), make_flats(1000, seed=1)
    features = ["district", "heating", "area"]
    model = AGBMRegressor().fit(train[features], train["rent"])
    print(f"R2 on new flats: {model.score(test[features], test['rent']):.3f}")
    print(f"R2 on those without an area: {model.score(*_without_area(test, features)):.3f}")

    asked = pd.DataFrame({
        "district": ["hill", "hill", "station", "airport"], "heating": ["gas"] * 4, "area": [60.0, np.nan, 60.0, 60.0],
    })  # fmt: skip
    asked["predicted rent"] = model.predict(asked).round()
    print(asked.to_string(index=False), "\n(nobody has seen the airport: it counts as a missing district)")


def _without_area(flats: pd.DataFrame, features: list[str]) -> tuple[pd.DataFrame, pd.Series]:
    holes = flats[flats["area"].isna()]
    return holes[features], holes["rent"]


if __name__ == "__main__":
    main()
