"""One cluster for all tests of a file."""

import multiprocessing
from multiprocessing import forkserver

import pytest

from on_workers import scale


@pytest.fixture(scope="module")
def local_cluster():
    """One worker to begin with; a server that has imported everything forks more of them quickly."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed", reason="needs Dask (extra `dask`)")
    multiprocessing.set_forkserver_preload(["distributed", "pbdn.dask"])
    forkserver.ensure_running()
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.allowed-failures": 10,
        "distributed.deploy.lost-worker-timeout": "1 hour",  # else a worker that is killed often is given up
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def client(local_cluster):
    with pytest.importorskip("distributed").Client(local_cluster) as connected:
        yield connected


@pytest.fixture
def two_workers(local_cluster, client):
    scale(local_cluster, client, 2)
    return client
