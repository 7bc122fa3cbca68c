"""Milliseconds that `import agbm` adds to `import sklearn`, in fresh processes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

REPEATS = 11
CODE = """
import time
start = time.perf_counter()
import sklearn
between = time.perf_counter()
import agbm
print(between - start, time.perf_counter() - between)
"""


def main() -> None:
    """Print the medians."""
    runs = [
        subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(REPEATS)
    ]
    sklearn, agbm = 1e3 * np.median(np.array(runs, dtype=float), axis=0)
    print(f"import sklearn: {sklearn:.0f} ms; import agbm on top of it: {agbm:.0f} ms (medians of {REPEATS})")


if __name__ == "__main__":
    main()
