"""A Dask cluster of two workers for each file that needs no more."""

import pytest

from dask_cluster import Cluster


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.resize(2)
        yield cluster
    finally:
        cluster.close()
