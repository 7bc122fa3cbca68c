"""A Dask cluster for all files: to start one takes longer than most tests on it."""

import pytest

from dask_cluster import Cluster


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def cluster(processes):
    """The cluster, with as many workers as the last test has left, and a client that no other file sees."""
    with processes.connected():
        yield processes


@pytest.fixture
def two_workers(cluster):
    cluster.resize(2)
    return cluster
