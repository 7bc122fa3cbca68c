"""Time of a fit beside other work: with one and two threads, next to busy processes or under a CPU quota.

python benchmarks/busy.py [--loads 0 2 4 8] [--rows 10000] [--repeats 5]

Every load is a number of processes that do nothing but use a core. To measure a quota, run the script in a control
group that has one, such as that of a container (`docker run --cpus 1.5`) or of `systemd-run --scope -p CPUQuota=150%`,
with --loads 0. Medians of the repeats; the ratio is that of two threads to the better of one and two threads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import lightgbm
import numpy as np

from agbm import AGBMClassifier
from document import table

BUSY = "while True: pass"


def contestants(rows: int) -> dict[str, Callable[[int], object]]:
    """Fits that take a number of threads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.logistic(size=rows) > 0).astype(int)
    return {
        "agbm, one member": lambda n: AGBMClassifier(n_members=1, max_iter=100, early_stopping=False, n_jobs=n).fit(
            X, y
        ),
        "agbm, the default": lambda n: AGBMClassifier(n_jobs=n).fit(X, y),
        "LightGBM": lambda n: lightgbm.LGBMClassifier(n_jobs=n, verbose=-1).fit(X, y),
    }


@contextmanager
def busy(n: int) -> Iterator[None]:
    """Keep n processes busy."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def seconds(fit: Callable[[int], object], threads: int) -> float:
    """The time of one fit."""
    began = time.perf_counter()
    fit(threads)
    return time.perf_counter() - began


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 2, 4, 8])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    fits = contestants(args.rows)
    rows = []
    for load in args.loads:
        with busy(load):
            times = [{(name, n): seconds(fit, n) for name, fit in fits.items() for n in (1, 2)}
                     for _ in range(args.repeats)]  # fmt: skip
        for name in fits:
            one, two = (float(np.median([of[name, n] for of in times])) for n in (1, 2))
            rows.append([str(load), name, f"{one:.2f}", f"{two:.2f}", f"{two / min(one, two):.2f}"])
    print("\n".join(table(["busy processes", "", "one thread", "two threads", "ratio"], rows, left=2)))


if __name__ == "__main__":
    main()
