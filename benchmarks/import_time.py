"""Time that `import agbm` adds to `import sklearn`, in new processes, with both compiled to byte code."""

from __future__ import annotations

import os
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
    # An installed package has byte code. If the environment forbids writing it, a checkout is compiled every time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> list[str]:
        command = [sys.executable, "-c", CODE]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    run()  # the first run writes the byte code
    runs = [run() for _ in range(REPEATS)]
    sklearn, agbm = 1e3 * np.median(np.array(runs, dtype=float), axis=0)
    print(f"import sklearn: {sklearn:.0f} ms; import agbm on top of it: {agbm:.0f} ms (medians of {REPEATS})")


if __name__ == "__main__":
    main()
