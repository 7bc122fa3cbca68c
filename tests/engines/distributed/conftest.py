"""Dask clusters for all files: to start processes takes longer than most tests on them."""

import dask
import pytest
from distributed import Client, LocalCluster

from dask_cluster import Cluster


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def connected(processes):
    """The cluster, with a client that no other file sees."""
    with processes.connected():
        yield processes


@pytest.fixture
def cluster(connected):
    """A cluster of processes, with as many workers as the last test has left. Its client is Dask's default one."""
    with connected.client.as_current():
        yield connected


@pytest.fixture
def two_workers(cluster):
    cluster.resize(2)
    return cluster


@pytest.fixture(scope="module")
def threads():
    """A client of two workers in threads of this process."""
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(request):
    """A client, Dask's default one, of two workers: threads of this process, or processes for tests that say so.

    A fit takes a third of the time on threads, and they need not be started. But messages to them are not pickled, and
    they share their memory: for every kind of data that travels to workers there is a test with the parameter
    "processes" as well.
    """
    if getattr(request, "param", "threads") == "processes":
        yield request.getfixturevalue("two_workers").client
        return
    client = request.getfixturevalue("threads")
    with client.as_current():
        yield client
