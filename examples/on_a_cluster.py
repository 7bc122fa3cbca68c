"""Train on a Dask cluster, here two local workers; the model is bit for bit that of a fit without a cluster.

python examples/on_a_cluster.py        (needs pip install '.[dask]')
"""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from agbm import AGBMRegressor
from agbm.dask import DaskAGBMRegressor


def main() -> None:
    """Fit on the cluster and locally, and compare the predictions."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(4000, 4)), columns=["a", "b", "c", "d"])
    y = table["a"] + table["b"] * table["c"] + rng.normal(size=len(table))
    # On a real cluster the workers run on other machines; only the client changes: Client("tcp://scheduler:8786").
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        X = dd.from_pandas(table, npartitions=5)
        on_cluster = DaskAGBMRegressor(max_iter=20).fit(X, dd.from_pandas(y, npartitions=5))
        predictions = on_cluster.predict(X).compute()  # predict is lazy; compute evaluates it by partition
    local = AGBMRegressor(max_iter=20).fit(table, y)
    same = predictions.to_numpy().tobytes() == local.predict(table).tobytes()
    trees = f"{on_cluster.resolved_params_['n_members']} members of {on_cluster.best_iteration_} trees"
    print(f"{X.npartitions} partitions, 2 workers, {trees}, R2 {local.score(table, y):.3f}")
    print("same predictions as a fit without a cluster, byte for byte:", same)


if __name__ == "__main__":
    main()
