"""Train in batches that are never in memory together; the model is bit for bit that of a fit on all rows at once.

python examples/more_rows_than_memory.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from agbm import AGBMClassifier, Batches

Array = NDArray[np.float64]
FILES = 10


def read(number: int) -> tuple[Array, Array]:
    """Read a file of 5,000 rows; here they are generated instead."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(5000, 8))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=5000) > 0.0).astype(float)


def main() -> None:
    """Fit in batches, and on one table for comparison."""
    passes: list[int] = []

    def batches() -> Iterator[tuple[Array, Array]]:
        passes.append(1)
        for number in range(FILES):
            yield read(number)

    # fit keeps two bytes per value in memory, or in files with Batches(..., bins="mmap"), and with several members as
    # many of each. A pyarrow dataset can be passed without Batches: fit(dataset, "name of the label column").
    model = AGBMClassifier(n_members=1, max_iter=30).fit(Batches(batches))
    X_test, y_test = read(FILES)
    print(f"read {FILES} files {len(passes)} times, one at a time; accuracy {model.score(X_test, y_test):.3f}")

    parts = [read(number) for number in range(FILES)]
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    whole = AGBMClassifier(n_members=1, max_iter=30).fit(X, y)
    same = np.array_equal(model.predict_proba(X_test), whole.predict_proba(X_test))
    print("same bits as a fit on one table:", same)


if __name__ == "__main__":
    main()
