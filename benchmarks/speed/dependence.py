"""Seconds of partial dependence by recursion and by brute force.

Run python -m benchmarks.speed.dependence. Models of 500 trees, on an array and on a data frame with categories; 1,000
rows for the averages, one numeric feature, up to 100 points; processor time with the drawing, the smallest of three.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import make_regression

from agbm import AGBMRegressor, plot

mpl.use("Agg")


def seconds(draw: Callable[[], object]) -> float:
    """The smallest processor time of three runs."""
    found = []
    for _ in range(3):
        began = time.process_time()
        draw()
        found.append(time.process_time() - began)
        plt.close("all")
    return min(found)


def compare(name: str, X: Any, y: Any) -> None:
    """Print the seconds of both methods for a table, and their ratio."""
    model = AGBMRegressor(max_iter=100, early_stopping=False).fit(X, y)
    recursion = seconds(lambda: plot.partial_dependence(model, X[:1000], [0], method="recursion"))
    brute = seconds(lambda: plot.partial_dependence(model, X[:1000], [0]))
    print(f"{name}: recursion {recursion:.3f} s, brute force {brute:.3f} s, ratio {brute / recursion:.1f}")


def main() -> None:
    """Compare both methods on two tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    X, y = make_regression(20_000, 10, noise=10.0, random_state=0)
    compare("array", X, y)
    groups = np.random.default_rng(0).integers(0, 30, (len(X), 4)).astype(str)
    frame = pd.DataFrame({**{f"x{f}": X[:, f] for f in range(10)}, **{f"g{f}": groups[:, f] for f in range(4)}})
    compare("data frame", frame, y + 10.0 * groups[:, 0].astype(int))


if __name__ == "__main__":
    main()
