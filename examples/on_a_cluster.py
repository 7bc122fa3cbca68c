"""Training on a Dask cluster, here one of two workers on this machine: the model of a local fit, bit for bit.

python examples/on_a_cluster.py        (needs pip install '.[dask]')
"""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd

from agbm import AGBMRegressor
from agbm.dask import DaskAGBMRegressor
from distributed import Client, LocalCluster


def main() -> None:
    """Fit on the cluster and here, and compare the models."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(4000, 4)), columns=["a", "b", "c", "d"])
    y = table["a"] + table["b"] * table["c"] + rng.normal(size=len(table))
    # Workers of a real cluster are processes on other machines: Client("tcp://scheduler:8786") is all that changes.
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        X = dd.from_pandas(table, npartitions=5)
        on_cluster = DaskAGBMRegressor(max_iter=20).fit(X, dd.from_pandas(y, npartitions=5))
        predictions = on_cluster.predict(X).compute()  # lazy until here, partition by partition
    local = AGBMRegressor(max_iter=20).fit(table, y)
    same = predictions.to_numpy().tobytes() == local.predict(table).tobytes()
    print(f"{X.npartitions} partitions, 2 workers, {on_cluster.n_trees_} trees, R2 {local.score(table, y):.3f}")
    print("same predictions as a fit without a cluster, byte for byte:", same)


if __name__ == "__main__":
    main()
