"""Train on a Parquet data set that is several times larger than the memory limit of the process.

    python -m benchmarks.scale.larger_than_memory --rows 20000000 --columns 240

writes the data set to a temporary folder, batch by batch, and trains on it in a separate process: once with bins in
memory, once with bins in mapped files. The limit is RLIMIT_DATA, which counts all memory that a process allocates, used
or not, but no mapped files. Peak memory is the largest resident set, including mapped files. The data set is removed at
the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BYTES_PER_VALUE = 8  # float64
ROWS_PER_GROUP = 20_000
GROUPS_PER_FILE = 25
LEVELS = 1000  # number of distinct values per column


def main() -> None:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--columns", type=int, default=240)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--times", type=float, default=3.0, help="ratio of the raw size to the memory limit")
    parser.add_argument(
        "--folder", type=Path, default=None, help="folder for the data set and the mapped files (default: temporary)"
    )
    parser.add_argument("--train", type=json.loads, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        print(json.dumps(train(**options.train)))
        return
    folder = Path(tempfile.mkdtemp(prefix="agbm-rows-", dir=options.folder))
    try:
        compare(folder, options.rows, options.columns, options.trees, options.times)
    finally:
        shutil.rmtree(folder)


def compare(folder: Path, n_rows: int, n_columns: int, n_trees: int, times: float) -> None:
    raw = n_rows * (n_columns + 1) * BYTES_PER_VALUE
    limit = int(raw / times)
    began = time.perf_counter()
    write(folder, n_rows, n_columns)
    on_disk = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{n_rows:,} rows, {n_columns} columns of float64 and a label: {raw / 1e9:.2f} GB in memory, ", end="")
    print(f"{on_disk / 1e9:.2f} GB on disk, written in {time.perf_counter() - began:.0f} s")
    print(f"limit: {limit / 1e9:.2f} GB, {raw / limit:.1f} times less")
    for bins in ("memory", "mmap"):
        task = {"folder": str(folder), "bins": bins, "n_trees": n_trees, "limit": limit}
        command = [sys.executable, __file__, "--train", json.dumps(task)]
        print(f"bins={bins!r}: ", end="", flush=True)
        # Arrow's own allocator reserves memory that it does not use.
        surroundings = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        done = subprocess.run(command, capture_output=True, text=True, env=surroundings)
        if done.returncode != 0:
            print(f"failed: {done.stderr.strip()[-500:]}")
            continue
        figures = json.loads(done.stdout)
        print(", ".join(f"{name} {value:.2f}" for name, value in figures.items()), flush=True)


def write(folder: Path, n_rows: int, n_columns: int) -> None:
    """Write the data set: files with several row groups, with at most one group in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    values = np.round(64.0 * random.normal(size=LEVELS)) / 64.0  # few digits, so that the files stay small
    names = [f"x{f}" for f in range(n_columns)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "label"]])
    for first in range(0, n_rows, ROWS_PER_GROUP * GROUPS_PER_FILE):
        path = folder / f"{first:012d}.parquet"
        with pq.ParquetWriter(
            path, schema, use_dictionary=False, use_byte_stream_split=True, compression="lz4"
        ) as file:
            for begin in range(first, min(n_rows, first + ROWS_PER_GROUP * GROUPS_PER_FILE), ROWS_PER_GROUP):
                n = min(ROWS_PER_GROUP, n_rows - begin)
                X = values[random.integers(0, LEVELS, size=(n_columns, n), dtype=np.uint16)]
                label = X[0] + np.sin(2.0 * X[1]) + X[2] * X[3] + random.normal(size=n)
                file.write_table(pa.table([*X, label], schema=schema))


def train(folder: str, bins: str, n_trees: int, limit: int) -> dict[str, float]:
    """Time before training and per tree, and peak memory."""
    import pyarrow.dataset

    from agbm import AGBMRegressor, Batches

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    model = AGBMRegressor(n_members=1, max_depth=6, max_iter=n_trees, n_iter_no_change=n_trees)
    files = folder if bins == "mmap" else None
    began = time.perf_counter()
    model.fit(Batches(pyarrow.dataset.dataset(folder), bins=bins, folder=files), "label")
    seconds, of_trees = time.perf_counter() - began, float(np.ptp(model.history_["seconds"]))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open("/proc/self/status") as status:
        reserved = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in status if line.startswith("VmData")}
    return {
        "passes before training (s)": seconds - of_trees,
        "s per tree": of_trees / n_trees,
        "peak memory (GB)": most / 1e9,
        "allocated at the end (GB)": reserved["VmData"] / 1e9,
        "last validation loss": float(model.history_["validation_loss"][-1]),
    }


if __name__ == "__main__":
    main()
