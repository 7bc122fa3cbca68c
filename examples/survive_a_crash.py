"""Resume training from a checkpoint after a crash; the model is bit for bit that of an uninterrupted run.

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
    """Train a model; the callbacks do not change it."""
    model = AGBMRegressor(max_iter=100, early_stopping=False, subsample=0.8, callbacks=callbacks)
    return model.fit(*load_diabetes(return_X_y=True))


def die(record: Record) -> None:
    """Kill the process in iteration 67, without any cleanup."""
    if record.iteration == 67:
        os._exit(9)


def main() -> None:
    """Train in a process that crashes, then resume in this one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.checkpoint"
        died = subprocess.run([sys.executable, __file__, path])
        print(f"the first process died with exit code {died.returncode}, checkpoint: {path.stat().st_size:,} bytes")
        seen: list[Record] = []
        resumed = train(Checkpoint(path), seen.append)
    print(f"the second process ran iterations {seen[0].iteration} to {seen[-1].iteration}")
    X, _ = load_diabetes(return_X_y=True)
    print("same bits as an uninterrupted run:", np.array_equal(resumed.predict(X), train().predict(X)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Checkpoint(sys.argv[1], every=10), die)
    else:
        main()
