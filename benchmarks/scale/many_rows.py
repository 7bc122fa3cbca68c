"""Training on more rows than one machine usually sees: a table that is never stored, on a Dask cluster of this machine.

The partitions are made by the workers whenever they are read, from the number of the partition. Reported are the time
until the first tree, the time per tree afterwards, the memory of the workers, and what the fit added to the memory of
the driver at its peak, for each number of rows. Memory per row decides how many rows fit: see --features.

Writes many_rows.json to the folder --out; --document fills a page in.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import delayed

from agbm.dask import DaskAGBMRegressor
from benchmarks.scale.cluster import cluster, name_of, reset_peak, resident
from benchmarks.shared.document import fill_in, table
from benchmarks.shared.measure import machine

DEPTH = 6


def make_rows(number: int, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """A partition: uniform features, and a label that depends on three of them and on noise."""
    rng = np.random.default_rng(number)
    X = rng.random((n_rows, n_features), dtype=np.float32)
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n_rows, dtype=np.float32)
    return X, y.astype(np.float64)


def worker_bytes(dask_worker: Any) -> float:
    """Resident memory of a worker."""
    return resident("VmRSS")


def fit(client: Any, n_rows: int, n_features: int, partition_rows: int, trees: int) -> dict[str, Any]:
    """Time and memory of a fit."""
    sizes = [min(partition_rows, n_rows - first) for first in range(0, n_rows, partition_rows)]
    parts = [delayed(make_rows, nout=2)(i, n, n_features) for i, n in enumerate(sizes)]
    times: list[float] = []
    largest: list[float] = []

    def watch(record: Any) -> None:
        times.append(time.perf_counter())
        largest.append(sum(client.run(worker_bytes).values()))

    model = DaskAGBMRegressor(
        method="gbm", max_iter=trees, max_depth=DEPTH, early_stopping=False, n_members=1, callbacks=[watch]
    )
    before = reset_peak()
    begin = time.perf_counter()
    model.fit([part[0] for part in parts], [part[1] for part in parts], client=client)
    return {
        "rows": n_rows,
        "partitions": len(sizes),
        "first_tree_seconds": times[0] - begin,
        "tree_seconds": float(np.median(np.diff(times))),
        "driver_bytes": resident("VmHWM") - before,
        "worker_bytes": max(largest),
        "train_loss": float(model.history_["train_loss"][-1]),
    }


def lines_of(report: dict[str, Any]) -> list[str]:
    """The lines for a document."""
    heads = ["rows", "partitions", "until the first tree, s", "per further tree, s", "driver, MB", "workers, GB"]
    body = [
        [
            f"{found['rows']:,}", f"{found['partitions']:,}", f"{found['first_tree_seconds']:.1f}",
            f"{found['tree_seconds']:.2f}", f"{found['driver_bytes'] / 1e6:.0f}", f"{found['worker_bytes'] / 1e9:.1f}",
        ]
        for found in report["results"]
    ]  # fmt: skip
    intro = (
        f"`{report['command']}`, {report['date']}, {name_of(report['machine'])}: {report['features']} features, trees "
        f"of depth {DEPTH}, {report['workers']} workers with one thread each."
    )
    return [*textwrap.wrap(intro, 120), "", *table(heads, body)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--partition-rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=4)
    parser.add_argument("--out", default="out/many_rows")
    parser.add_argument("--document", help="a page to fill in")
    args = parser.parse_args()
    report: dict[str, Any] = {
        "command": f"python -m benchmarks.scale.many_rows --rows {' '.join(map(str, args.rows))} "
        f"--features {args.features} --workers {args.workers} --partition-rows {args.partition_rows} "
        f"--trees {args.trees}",
        "date": time.strftime("%Y-%m-%d"), "machine": machine(), "features": args.features, "workers": args.workers,
        "results": [],
    }  # fmt: skip
    with cluster(args.workers, direct=True) as client:
        fit(client, 10_000, args.features, 5_000, 2)  # imports what is loaded lazily
        for n_rows in args.rows:
            report["results"].append(fit(client, n_rows, args.features, args.partition_rows, args.trees))
            print(json.dumps(report["results"][-1]), flush=True)
            Path(args.out).mkdir(parents=True, exist_ok=True)
            (Path(args.out) / "many_rows.json").write_text(json.dumps(report, indent=1))
    print("\n".join(lines_of(report)))
    if args.document:
        fill_in(Path(args.document), {"many rows": lines_of(report)})


if __name__ == "__main__":
    main()
