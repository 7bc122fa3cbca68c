"""Milliseconds per tree on a GPU, and of predictions and binning; run on a machine with an NVIDIA GPU.

Rows are random numbers with a logistic label. A tree takes the slope between fits of 10 and 60 iterations: plain
boosting (method="gbm"), logistic loss, 255 bins. The times of XGBoost 3.2 (device="cuda", hist, 256 bins) are those that
it took on an NVIDIA H200, measured in the same way.
"""

from __future__ import annotations

import argparse
import collections
import cProfile
import gc
import json
import pstats
import time
from pathlib import Path

import numpy as np

from agbm import AGBMClassifier, methods
from agbm._device.bins import DeviceBins
from agbm._device.cuda import cuda_device
from agbm._device.forest import DeviceForest
from agbm._tree.bins import Bins

SIZES = [(100_000, 28), (500_000, 28), (1_000_000, 28), (10_000_000, 28), (1_000_000, 200)]
XGBOOST = {  # milliseconds per tree with depth 6 and 8, seconds of predictions of 100 trees
    (100_000, 28): (1.5, 3.4, 0.001),
    (500_000, 28): (1.9, 4.3, 0.0015),
    (1_000_000, 28): (2.5, 5.4, 0.0026),
    (10_000_000, 28): (8.6, 13.7, 0.020),
    (1_000_000, 200): (6.1, 10.1, 0.012),
}


def make_rows(n, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] - 0.5 * np.abs(X[:, 3]) + rng.standard_normal(n, dtype=np.float32)
    return X, (score > 0).astype(np.int64)


def model_of(depth, max_iter, method="gbm"):
    return AGBMClassifier(
        method=method, second_order=True, max_iter=max_iter, max_depth=depth, max_leaf_nodes=None, min_samples_leaf=1,
        l2_regularization=1.0, early_stopping=False, n_members=1, device="cuda",
    )  # fmt: skip


def milliseconds_per_tree(X, y, depth, method="gbm", few=10, many=60):
    seconds = []
    for n in (few, many):
        began = time.perf_counter()
        model = model_of(depth, n, method).fit(X, y)
        seconds.append(time.perf_counter() - began)
    history = model.history_["seconds"]
    in_loop = (history[many] - history[few]) / (many - few) * 1e3
    return (seconds[1] - seconds[0]) / (many - few) * 1e3, in_loop, seconds[0], model


def seconds_of(what, repeats=5):
    cupy = cuda_device()._cupy
    found = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        what()
        cupy.cuda.Device().synchronize()
        found.append(time.perf_counter() - began)
    return min(found)


def profile(args):
    """Seconds of each kernel, waiting for each, in 20 iterations."""
    device, cupy, spent = cuda_device(), cuda_device()._cupy, collections.Counter()
    launch = device.launch

    def timed(kernel, *given, **options):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        launch(kernel, *given, **options)
        cupy.cuda.Device().synchronize()
        spent[kernel] += time.perf_counter() - began
        spent[f"{kernel} launches"] += 1

    for number in args.sizes:
        X, y = make_rows(*SIZES[number])
        for depth in (6, 8):
            device.launch = launch
            model_of(depth, 2).fit(X, y)
            device.launch = timed
            spent.clear()
            history = model_of(depth, 20).fit(X, y).history_["seconds"]
            device.launch = launch
            of_tree = {name: round(of / 20 * 1e3, 3) for name, of in spent.most_common() if "launches" not in name}
            print(SIZES[number], depth, round((history[-1] - history[0]) / 20 * 1e3, 2), of_tree, flush=True)
            began = time.perf_counter()
            cprofile = cProfile.Profile()
            cprofile.runcall(model_of(depth, 20).fit, X, y)
            print(time.perf_counter() - began)
            if number == 0 and depth == 6:
                pstats.Stats(cprofile).sort_stats("tottime").print_stats(25)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/gpu"))
    parser.add_argument("--sizes", type=int, nargs="*", default=range(len(SIZES)), help="numbers of sizes, from 0")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cupy = cuda_device()._cupy
    model_of(3, 2).fit(*make_rows(1000, 5))  # compiles the kernels
    if args.profile:
        return profile(args)
    results = []
    for number in args.sizes:
        n, p = SIZES[number]
        X, y = make_rows(n, p)
        record = {"rows": n, "columns": p}
        for depth, peer in zip((6, 8), XGBOOST[n, p], strict=False):
            slope, in_loop, start, model = milliseconds_per_tree(X, y, depth)
            record |= {f"depth {depth}": slope, f"depth {depth}, loop": in_loop, f"ratio {depth}": slope / peer}
            record[f"first fit {depth}"] = start
            record["device bytes"] = cupy.get_default_memory_pool().total_bytes()
        shared = methods.AGBM(shared_structure=True)
        record["two values, depth 6"] = milliseconds_per_tree(X, y, 6, shared)[0]
        on_device, forest = cupy.asarray(X), DeviceForest(cuda_device(), model_of(6, 100).fit(X, y).model_.folded)
        record["predict"] = seconds_of(lambda: forest.predict(on_device))
        record["ratio of predictions"] = record["predict"] / XGBOOST[n, p][2]
        bins = DeviceBins(cuda_device(), Bins.from_data(X[:200_000], 255))
        record["encode"] = seconds_of(lambda: bins.encode(on_device))
        results.append(record)
        print(json.dumps(record), flush=True)
        (args.out / "gpu.json").write_text(json.dumps(results, indent=1))
        del X, y, on_device, forest, bins, model
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
