"""A fit with a checkpoint, run as a process of its own so that it can be killed: killed_fit.py FOLDER INFERENCE."""

import pathlib
import sys
import warnings

import numpy as np

from estimators.small import blobs
from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.growth import checkpoint


def make(inference, path, **more):
    """The estimator of this test: long enough to be killed several times."""
    settings = {
        "gibbs": {"gibbs_config": GibbsConfig(n_sweeps=400, n_draws=30, n_chains=2)},
        "map": {"map_config": MapConfig(n_minibatches=500)},
    }[inference]
    return PBDNClassifier(
        inference=inference, random_state=1, checkpoint=path, **{"max_experts": 8, "max_depth": 3, **settings, **more}
    )


def data():
    return blobs(np.random.default_rng(5), n=300)


if __name__ == "__main__":
    folder, inference = pathlib.Path(sys.argv[1]), sys.argv[2]
    checkpoint.LEAST_SECONDS = 0.02  # look often, so that a short test sees many states
    checkpoint.COST_SHARE = 1.0
    warnings.simplefilter("ignore")
    short = {"map_config": MapConfig(n_minibatches=10), "gibbs_config": GibbsConfig(n_sweeps=4)}
    make(inference, None, max_depth=2, **short).fit(*data())  # loads the compiled code
    print("started", flush=True)
    make(inference, folder / "checkpoint.pbdn").fit(*data()).save(folder / "model.pbdn")
    print("finished", flush=True)
