"""Time of one tree against LightGBM's, in one run: 500,000 x 28 float32, 255 bins, depth 6, the same number of threads.

The libraries take turns of a few iterations, so that all see the same state of a machine that may be busy; the first
iteration of a turn is not counted (threads wake up, caches fill). Printed are medians over all turns, and the median of
the ratios within each turn. An iteration is everything that boosting does for one: residuals, growth, new scores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import lightgbm
import numpy as np

from agbm import _threads
from agbm.boosting import agbm, gbm
from agbm.losses import HalfSquaredError, LogLoss
from agbm.problem import Outputs, Problem
from agbm.theory import Momentum
from agbm.tree import TreeLearner

ITERATIONS_A_TURN = 5


def lightgbm_trees(X: np.ndarray, y: np.ndarray, objective: str, threads: int, quantised: bool) -> Iterator[float]:
    """Seconds of one LightGBM iteration after the other."""
    params = {
        "objective": objective, "max_depth": 6, "num_leaves": 64, "max_bin": 255, "learning_rate": 0.1,
        "min_data_in_leaf": 20, "num_threads": threads, "verbose": -1, "use_quantized_grad": quantised,
    }  # fmt: skip
    booster = lightgbm.Booster(params, lightgbm.Dataset(X, y, params=params).construct())
    while True:
        began = time.perf_counter()
        booster.update()
        yield time.perf_counter() - began


def our_trees(X: np.ndarray, y: np.ndarray, threads: int, kind: str) -> Iterator[float]:
    """Seconds of one iteration of ours after the other."""
    logistic = len(np.unique(y)) == 2
    loss = (LogLoss() if logistic else HalfSquaredError()).with_threads(threads)
    start = np.full((1, len(y)), y.mean())
    problem = Problem(Outputs(loss), y[np.newaxis].astype(np.float64), len(y), start, second_order=logistic)
    fitter = TreeLearner(n_threads=threads, shared_structure=kind == "shared").bind(X, len(y), None, start)
    if kind == "gbm":
        steps = gbm(problem, fitter, eta=0.1, max_iter=10**6)
    else:
        steps = agbm(problem, fitter, eta=0.1, momentum=Momentum(0.02), correction=0.5, length=lambda gamma: 10**6)
    while True:
        began = time.perf_counter()
        next(steps)
        yield time.perf_counter() - began


def main() -> None:
    """Print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--threads", type=int, default=_threads.resolve(None))
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(args.rows, 28)).astype(np.float32)
    signal = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3]
    y = signal + rng.normal(size=args.rows)
    labels = (y > 0).astype(np.float64)
    print(f"{args.rows} x 28 float32, 255 bins, depth 6, {args.threads} threads, ", end="")
    print(f"{args.turns} turns of {ITERATIONS_A_TURN} iterations")
    for title, target, objective in (("squared error", y, "regression"), ("logistic, Newton", labels, "binary")):
        runs = {
            "LightGBM": lightgbm_trees(X, target, objective, args.threads, False),
            "LightGBM quantised": lightgbm_trees(X, target, objective, args.threads, True),
            "agbm: gbm": our_trees(X, target, args.threads, "gbm"),
            "agbm: agbm, shared structure": our_trees(X, target, args.threads, "shared"),
            "agbm: agbm, two trees": our_trees(X, target, args.threads, "separate"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(args.turns):
            for name, run in runs.items():
                next(run)
                seconds[name].append(float(np.median([next(run) for _ in range(ITERATIONS_A_TURN)])))
        reference = np.array(seconds["LightGBM"])
        print(f"\n{title:32}{'ms':>8}{'of LightGBM':>14}")
        for name, values in seconds.items():
            print(f"{name:32}{1e3 * np.median(values):8.1f}{np.median(np.array(values) / reference):14.2f}")


if __name__ == "__main__":
    main()
