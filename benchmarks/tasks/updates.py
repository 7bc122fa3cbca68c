"""The modes of update on tables in the order of time: loss on later rows, relative to the model before the update.

    python -m benchmarks.tasks.updates FOLDER

FOLDER has the tables of the suite. A model is fitted to the first half of a table, updated with the rows that
follow (1, 5 or 20 % of the table), and evaluated on the next 20 %. Columns that count time are left out, since no tree
can split beyond the times that it has seen. The last column is a fit to the old and the new rows together.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agbm import AGBMClassifier, AGBMRegressor

SHARES = (0.01, 0.05, 0.2)
MODES = ("trees", "leaves", "weights", "all")
Model = AGBMClassifier | AGBMRegressor
Table = tuple[pd.DataFrame, pd.Series]


def main() -> None:
    """Measure all tables and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder suite/ of the data")
    folder = parser.parse_args().folder
    print(f"| table | new rows | {' | '.join(MODES)} | fit to both |")
    print(f"|---|---:|{'---:|' * (len(MODES) + 1)}")
    for name, read in TABLES.items():
        X, y = read(folder)
        X, y = X.reset_index(drop=True), y.reset_index(drop=True)
        texts = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
        X = X.astype(dict.fromkeys(texts, "category"))
        half = len(X) // 2
        model = made(y).fit(X[:half], y[:half])
        for share in SHARES:
            new = slice(half, half + int(share * len(X)))
            later = slice(new.stop, new.stop + len(X) // 5)
            before = loss(model, X[later], y[later])
            changed = [copied(model).update(X[new], y[new], mode=mode) for mode in MODES]
            changed.append(made(y).fit(X[: new.stop], y[: new.stop]))
            ratios = [f"{loss(one, X[later], y[later]) / before:.3f}" for one in changed]
            print(f"| {name} | {new.stop - half:,} | {' | '.join(ratios)} |", flush=True)


def made(y: pd.Series) -> Model:
    """An estimator for the labels."""
    return AGBMRegressor() if y.dtype.kind == "f" else AGBMClassifier()


def copied(model: Model) -> Model:
    """A copy of a fitted model."""
    copy: Model = pickle.loads(pickle.dumps(model))
    return copy


def loss(model: Model, X: pd.DataFrame, y: pd.Series) -> float:
    """Log loss, or mean squared error."""
    if isinstance(model, AGBMRegressor):
        return float(np.mean((model.predict(X) - y) ** 2))
    of_label: NDArray[np.float64] = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.mean(np.log(np.maximum(of_label, 1e-15))))


def bike(folder: Path) -> Table:
    """Rentals per hour in two years, of which the second has many more."""
    table = pd.read_csv(folder / "bike_sharing_hour.csv.xz")
    return table.drop(columns=["dteday", "yr", "target"]), np.log1p(table["target"])


def houses(folder: Path) -> Table:
    """Prices in one year, without the date."""
    table = pd.read_csv(folder / "kc_house_sales.csv.xz").sort_values("date", kind="stable")
    return table.drop(columns=["date", "target"]), np.log(table["target"])


def bank(folder: Path) -> Table:
    """Calls during the financial crisis, in their order."""
    table = pd.read_csv(folder / "bank_additional_full.csv.xz")
    return table.drop(columns=["duration", "target"]), table["target"]


def hotel(folder: Path) -> Table:
    """Cancelled bookings by day of arrival, every fifth."""
    table = pd.read_csv(folder / "hotel_bookings.csv.xz", low_memory=False)
    months = pd.to_datetime(table["arrival_date_month"], format="%B").dt.month
    order = np.lexsort((table["arrival_date_day_of_month"], months, table["arrival_date_year"]))
    table = table.iloc[order][::5].astype({"agent": str, "company": str})
    return table.drop(columns=["arrival_date_year", "target"]), table["target"]


def traffic(folder: Path) -> Table:
    """Cars per hour in six years, every second: seasons, but hardly any drift."""
    table = pd.read_csv(folder / "metro_traffic.csv.xz", keep_default_na=False)
    time = pd.to_datetime(table["date_time"])
    table = table.assign(hour=time.dt.hour, weekday=time.dt.day_of_week, month=time.dt.month)
    table = table.iloc[np.argsort(time.to_numpy(), kind="stable")][::2]
    return table.drop(columns=["date_time", "target"]), table["target"] / 1000.0


TABLES: dict[str, Callable[[Path], Table]] = {
    "bike_sharing_hour": bike,
    "kc_house_sales": houses,
    "bank_additional_full": bank,
    "hotel_bookings": hotel,
    "metro_traffic": traffic,
}

if __name__ == "__main__":
    main()
