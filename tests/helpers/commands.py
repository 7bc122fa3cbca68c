"""Helpers for tests of the command line: a table, a run that succeeds, and a run that fails."""

import numpy as np
import pandas as pd

from agbm._apps import cli


def mixed(n=400, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(6)),
            "colour": rng.choice(["red", "green", None], n),
            "code": rng.choice(["12", "7", "x3"], n),
            "day": pd.date_range("2026-01-01", periods=n, freq="h").strftime("%Y-%m-%d %H:%M:%S"),
            "times": rng.integers(1, 4, n),
        }
    )
    score = table["size"].fillna(0.3) + (table["colour"] == "red") + rng.normal(size=n)
    table["price"] = (10 * score).round(6)
    table["sold"] = np.where(score > 0.5, "yes", "no")
    return table


def run(*arguments):
    assert cli.main([str(argument) for argument in arguments]) == 0


def fails(capsys, *arguments):
    """Run a command that fails, and return its error message, which must be one line."""
    assert cli.main([str(argument) for argument in arguments]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("agbm: ")
    return lines[0]


FEW = ["--set", "max_iter=8", "--no-early-stopping"]
ONE = [*FEW, "--set", "n_members=1"]
"""For a model of 8 trees."""
SOLD = ["train", "mixed.csv", "--target", "sold", "--drop", "price", "id", "--out", "sold.agbm"]


def agbm_table():
    X = pd.read_csv("mixed.csv")[["size", "colour", "code", "day", "times"]]
    X["day"] = pd.to_datetime(X["day"])
    return X
