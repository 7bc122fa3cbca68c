"""Time per tree with bins in memory, in mapped files, and in mapped files that do not fit into memory.

The memory limit is that of a control group, which must exist and be writable (version 1: memory.limit_in_bytes;
version 2: memory.max), since no other limit includes the pages of mapped files:

    mkdir /sys/fs/cgroup/memory/bins
    python -m benchmarks.scale.bins_in_files --group /sys/fs/cgroup/memory/bins --limits 400 250
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from agbm._base import _native

ROWS_AT_ONCE = 50_000


def seconds_per_tree(rows: int, columns: int, folder: str, group: Path | None, limit: int) -> list[float]:
    """Time for each of three trees of depth 6 on random codes, in this process."""
    if group is not None:
        name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        (group / name).write_text(str(limit))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    rng = np.random.default_rng(0)
    matrix = _native.BinnedMatrix(rows, [255] * columns, [0] * columns, folder)
    for first in range(0, rows, ROWS_AT_ONCE):
        matrix.put(rng.integers(0, 255, (columns, min(ROWS_AT_ONCE, rows - first)), dtype=np.uint8), first)
    grower = _native.Grower(
        matrix, np.tile(np.arange(254.0) + 0.5, columns), max_depth=6, max_leaf_nodes=0, min_samples_leaf=10,
        min_split_gain=0.0, monotone=[], interactions=[], n_threads=os.cpu_count() or 1,
    )  # fmt: skip
    residual = rng.normal(size=rows)
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        grower.grow(
            residuals=[residual], hessians=None, repeats=None, rows=None, features=None, node_share=1.0, seed=0,
            min_hessian_leaf=0.0, l2_regularization=[1.0],
        )  # fmt: skip
        taken.append(time.perf_counter() - began)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=250)
    parser.add_argument("--group", type=Path, help="folder of a control group for memory")
    parser.add_argument("--limits", type=int, nargs="*", default=[], help="memory limits of the group, in MB")
    asked = parser.parse_args()
    files = tempfile.gettempdir()
    runs: list[tuple[str, str, Path | None, int]] = [("memory", "", None, 0), ("files", files, None, 0)]
    runs += [(f"files, {limit} MB", files, asked.group, limit << 20) for limit in asked.limits]
    print(f"{asked.rows:,} rows x {asked.columns}: {2 * asked.rows * asked.columns / 2**20:.0f} MB of bins")
    for name, folder, group, limit in runs:  # each in its own process, which leaves the group when it ends
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            taken = pool.apply(seconds_per_tree, (asked.rows, asked.columns, folder, group, limit))
        print(f"bins in {name:16s} {'  '.join(f'{seconds:.2f}' for seconds in taken)} s per tree")


if __name__ == "__main__":
    main()
