"""Training that dies half-way and goes on from a checkpoint, to the very bits of a run that nothing happened to.

python examples/survive_a_crash.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from agbm import AGBMRegressor, Checkpoint, Record, Watcher


def train(*callbacks: Watcher) -> AGBMRegressor:
    """The run; callbacks look on and change nothing."""
    model = AGBMRegressor(max_iter=100, early_stopping=False, subsample=0.8, callbacks=callbacks)
    return model.fit(*load_diabetes(return_X_y=True))


def die(record: Record) -> None:
    """End the process in iteration 67, without a word to anyone."""
    if record.iteration == 67:
        os._exit(9)


def main() -> None:
    """Run in a process that dies, then here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.checkpoint"
        died = subprocess.run([sys.executable, __file__, path])
        print(f"the first process died with exit code {died.returncode} and left {path.stat().st_size:,} bytes")
        seen: list[Record] = []
        resumed = train(Checkpoint(path), seen.append)
    print(f"the second one did iterations {seen[0].iteration} to {seen[-1].iteration}")
    X, _ = load_diabetes(return_X_y=True)
    print("same bits as an uninterrupted run:", np.array_equal(resumed.predict(X), train().predict(X)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Checkpoint(sys.argv[1], every=10), die)
    else:
        main()
