"""A small cluster for tests: how many workers it has, and fits whose numbers are compared."""

import os
import time

import numpy as np
import pytest

from pbdn import GibbsConfig, MapConfig

MARKS = [
    pytest.mark.filterwarnings("ignore:The chains of layer"),
    pytest.mark.filterwarnings("ignore:The criterion was still falling"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of workers that were killed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SHORT = GibbsConfig(n_sweeps=6, prediction="posterior", n_draws=3)
GIBBS = {"inference": "gibbs", "max_depth": 2, "max_experts": 4, "gibbs_config": SHORT, "random_state": 3}
STEPS = MapConfig(n_minibatches=12, prune_every=6, batch_size=200)
MAP = {
    "inference": "map",
    "criterion": "aic_inputs",
    "max_depth": 2,
    "max_experts": 4,
    "map_config": STEPS,
    "random_state": 3,
}


def scale(local_cluster, client, n_workers):
    local_cluster.scale(n_workers)
    processes(client, n_workers)


def processes(client, n_workers=2):
    """Numbers of the workers' processes, once all of them answer."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            found = list(client.run(os.getpid, on_error="return").values())
        except OSError:  # one that the scheduler does not know to be dead
            found = []
        if len(found) == n_workers and all(isinstance(pid, int) for pid in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {n_workers} workers after a minute")


def numbers_of(model):
    """All numbers of the networks of a model."""
    for network in (model.network_, *model.paths_):
        for layer in network.layers:
            for side in (*layer.sides, *(side for draw in layer.draws for side in draw)):
                yield from (side.hyperplanes, side.expert_weights)


def assert_same(model, other):
    assert model.n_experts_ == other.n_experts_
    for one, two in zip(numbers_of(model), numbers_of(other), strict=True):
        np.testing.assert_array_equal(one, two)
    assert [step["log_likelihood"] for step in model.criterion_path_] == [
        step["log_likelihood"] for step in other.criterion_path_
    ]
    np.testing.assert_array_equal(model.feature_importances_, other.feature_importances_)


def in_chunks(X, y, size):
    import dask.array as da  # where there is none, tests that ask for it are skipped

    return da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)
