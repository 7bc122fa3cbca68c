"""What digests cost in a fit, and what verification costs, relative to the fit: seconds of one core.

python benchmarks/verification.py --rows 200000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from agbm import AGBMClassifier
from agbm._data.digest import digest_of_table
from agbm._data.rows import Rows

N_FEATURES = 28
SAMPLE = 5


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(arguments.rows, N_FEATURES))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X)) > 0).astype(np.float64)
    rows = Rows(X, y[np.newaxis], None, None)
    model = AGBMClassifier(max_iter=arguments.iterations, n_members=1, early_stopping=False, n_jobs=1)
    fit = seconds(lambda: model.fit(X, y))
    chosen = sorted(rng.choice(np.arange(1, arguments.iterations + 1), SAMPLE, replace=False).tolist())
    middle = arguments.iterations // 2
    found = {
        "fit": fit,
        "digest of the rows (part of the fit)": seconds(lambda: digest_of_table(rows, len(y), len(y), 1, 1)),
        "fingerprint_": seconds(lambda: model.fingerprint_),
        "verify, all": seconds(lambda: checked(model, X, y, "all")),
        f"verify, {SAMPLE} iterations": seconds(lambda: checked(model, X, y, chosen)),
        f"verify, iteration {middle}": seconds(lambda: checked(model, X, y, middle)),
    }
    print(f"{arguments.rows:,} x {N_FEATURES}, {arguments.iterations} iterations, one thread\n")
    print("| | seconds of a core | of the fit |\n|---|---:|---:|")
    for name, took in found.items():
        print(f"| {name} | {took:.3f} | {100 * took / fit:.1f} % |")


def checked(model: AGBMClassifier, X: np.ndarray, y: np.ndarray, iterations: str | int | list[int]) -> None:
    """Verify a model, which must succeed."""
    assert model.verify(X, y, iterations=iterations)


def seconds(work: Callable[[], object]) -> float:
    """The shorter of two runs."""
    found = []
    for _ in range(2):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
