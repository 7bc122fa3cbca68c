"""Milliseconds per tree on a GPU, and of predictions and binning; for a machine with an NVIDIA GPU.

Rows are random numbers with a logistic label. A tree takes the slope between the times after iterations 10 and 60 of a
fit: plain boosting (method="gbm"), logistic loss, 255 bins; and with default settings, early stopping and members
apart, on the GPU and on all cores of the machine. If XGBoost is installed, its times are measured in the same run
(device="cuda", hist, 256 bins; the slope between fits of 10 and 60 rounds). Otherwise ratios are to those of XGBoost
3.2 on an NVIDIA H200 in another run.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agbm import AGBMClassifier
from agbm._core.methods import Method
from agbm._engines.device.bins import DeviceBins
from agbm._engines.device.cuda import cuda_device
from agbm._engines.device.forest import DeviceForest
from agbm._engines.device.matrix import matrix_of
from agbm._model.settings import DeviceName
from agbm._tree.bins import Bins
from agbm.methods import AGBM, GBM
from benchmarks.libraries import XGBoost

FEW, MANY = 10, 60
XGBOOST = {  # milliseconds per tree of depth 6 and 8; seconds of predictions of 100 trees of depth 6
    (100_000, 28): (1.5, 3.4, 0.001),
    (500_000, 28): (1.9, 4.3, 0.0015),
    (1_000_000, 28): (2.5, 5.4, 0.0026),
    (10_000_000, 28): (8.6, 13.7, 0.020),
    (1_000_000, 200): (6.1, 10.1, 0.012),
}
SIZES = list(XGBOOST)


def make_rows(n: int, p: int) -> tuple[Any, Any]:
    """Features and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] - 0.5 * np.abs(X[:, 3]) + rng.standard_normal(n, dtype=np.float32)
    return X, (score > 0).astype(np.int64)


def model_of(depth: int, max_iter: int, method: Method | None = None) -> AGBMClassifier:
    """Plain boosting with the settings of the other library."""
    return AGBMClassifier(
        method=method or GBM(second_order=True), max_iter=max_iter, max_depth=depth, max_leaf_nodes=None,
        min_samples_leaf=1, l2_regularization=1.0, early_stopping=False, n_members=1, device="cuda",
    )  # fmt: skip


def milliseconds_per_tree(X: Any, y: Any, depth: int, method: Method | None = None) -> float:
    """The slope of the seconds of a fit."""
    seconds = model_of(depth, MANY, method).fit(X, y).history_["seconds"]
    return float(seconds[MANY] - seconds[FEW]) / (MANY - FEW) * 1e3


def default_milliseconds(X: Any, y: Any, device: DeviceName) -> float:
    """Milliseconds per tree with default settings."""
    model = AGBMClassifier(max_iter=MANY, early_stopping=False, n_members=1, device=device, n_jobs=-1)
    seconds = model.fit(X, y).history_["seconds"]
    return float(seconds[MANY] - seconds[FEW]) / (MANY - FEW) * 1e3


def default_seconds(X: Any, y: Any, device: DeviceName) -> float:
    """Seconds of a whole fit of the default, five members with 99 trees each, without crosses."""
    model = AGBMClassifier(max_iter=99, early_stopping=False, views=None, n_members=5, device=device, n_jobs=-1)
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def of_xgboost(X: Any, y: Any) -> tuple[float, float, float] | None:
    """As XGBOOST, measured now; None if it is not installed."""
    try:
        import cupy

        library = XGBoost()
    except ImportError:
        return None
    on_device = cupy.asarray(X)
    data = library.api.QuantileDMatrix(on_device, cupy.asarray(y), max_bin=256)

    def trained(depth: int, rounds: int) -> Any:
        return library.fit_on_gpu(data, depth, rounds)

    found = []
    for depth in (6, 8):
        few, many = (seconds_of(lambda n=n, d=depth: trained(d, n), 2) for n in (FEW, MANY))  # type: ignore[misc]
        found.append((many - few) / (MANY - FEW) * 1e3)
    booster = trained(6, 100)
    booster.inplace_predict(on_device[:100])
    return found[0], found[1], seconds_of(lambda: booster.inplace_predict(on_device))


def seconds_of(what: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest time of a call, until the GPU is done."""
    import cupy

    wait, found = cupy.cuda.Device().synchronize, []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        what()
        wait()
        found.append(time.perf_counter() - began)
    return min(found)


def measured(X: Any, y: Any) -> dict[str, float]:
    """All times for some rows."""
    import cupy

    found: dict[str, float] = {}
    now = of_xgboost(X, y)
    cupy.get_default_memory_pool().free_all_blocks()
    if now is not None:
        found |= {"XGBoost, depth 6": now[0], "XGBoost, depth 8": now[1], "XGBoost, predict": now[2]}
    per_depth = now or XGBOOST[X.shape]
    for depth, peer in zip((6, 8), per_depth, strict=False):
        found[f"depth {depth}"] = milliseconds_per_tree(X, y, depth)
        found[f"depth {depth}, ratio"] = found[f"depth {depth}"] / peer
        if depth == 6:
            found["bytes per row"] = cupy.get_default_memory_pool().total_bytes() / len(X)
    found["two values per leaf"] = milliseconds_per_tree(X, y, 6, AGBM(second_order=True, shared_structure=True))
    for name in ("cuda", "cpu"):
        found[f"default, {name}"] = default_milliseconds(X, y, name)
        if name == "cuda" or len(X) <= 1_000_000:
            found[f"five members, {name}, seconds"] = default_seconds(X, y, name)
    device = cuda_device()
    on_device = cupy.asarray(X)
    model = model_of(6, 100).fit(on_device, y)
    found["predict_proba"] = seconds_of(lambda: model.predict_proba(on_device))
    found["fit of 60 trees, rows on the GPU"] = seconds_of(lambda: model_of(6, MANY).fit(on_device, y), 1)
    found["fit of 60 trees, rows on the host"] = seconds_of(lambda: model_of(6, MANY).fit(X, y), 1)
    forest = DeviceForest(device, model.model_.folded)  # type: ignore[arg-type]
    found["predict"] = seconds_of(lambda: forest.predict(on_device))
    found["predict, ratio"] = found["predict"] / per_depth[2]
    bins = DeviceBins(device, Bins.from_data(X[:200_000], 255))
    found["encode"] = seconds_of(lambda: bins.encode(matrix_of(device, on_device)))
    return found


def by_kernel(X: Any, y: Any, depth: int, iterations: int = 20) -> dict[str, float]:
    """Milliseconds per tree of each kernel that Python launches, waiting for each, which takes some microseconds."""
    device, spent = cuda_device(), Counter[str]()
    launch = device.launch

    def timed(kernel: str, *args: Any, **options: Any) -> None:
        spent[kernel] += round(1e9 * seconds_of(lambda: launch(kernel, *args, **options), 1))

    device.launch = timed  # type: ignore[method-assign]
    try:
        model_of(depth, iterations).fit(X, y)
    finally:
        device.launch = launch  # type: ignore[method-assign]
    return {kernel: round(of / iterations / 1e6, 3) for kernel, of in spent.most_common()}


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/gpu"))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(range(len(SIZES))), help="numbers of sizes")
    parser.add_argument("--kernels", action="store_true", help="times of kernels")
    args = parser.parse_args()
    import cupy

    args.out.mkdir(parents=True, exist_ok=True)
    model_of(3, 2).fit(*make_rows(1000, 5))  # compiles the kernels
    results = []
    for number in args.sizes:
        X, y = make_rows(*SIZES[number])
        cupy.get_default_memory_pool().free_all_blocks()
        results.append({"rows": X.shape[0], "columns": X.shape[1], **measured(X, y)})
        print(json.dumps(results[-1]), flush=True)
        for depth in (6, 8) if args.kernels else ():
            print(depth, by_kernel(X, y, depth), flush=True)
        (args.out / "gpu.json").write_text(json.dumps(results, indent=1))
        gc.collect()


if __name__ == "__main__":
    main()
