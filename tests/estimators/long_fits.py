"""Long fits, run as processes of their own: long_fits.py killed FOLDER INFERENCE, long_fits.py interrupted FOLDER INFERENCE N_JOBS."""

import os
import pathlib
import signal
import sys
import threading
import warnings

import numpy as np
from sklearn.model_selection import cross_val_score

from estimators.small import blobs
from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.files import read_container
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


def with_checkpoint(folder, inference):
    """A fit that is killed, started again, and saves its model at the end."""
    checkpoint.LEAST_SECONDS = 0.02  # look often, so that a short test sees many states
    checkpoint.COST_SHARE = 1.0
    warnings.simplefilter("ignore")
    short = {"map_config": MapConfig(n_minibatches=10), "gibbs_config": GibbsConfig(n_sweeps=4)}
    make(inference, None, max_depth=2, **short).fit(*data())  # loads the compiled code
    print("started", flush=True)
    make(inference, folder / "checkpoint.pbdn").fit(*data()).save(folder / "model.pbdn")
    print("finished", flush=True)


def press_ctrl_c():
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()


def reaches_the_caller(work):
    press_ctrl_c()
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


def interrupted(folder, inference, n_jobs):
    """Fits without end that press Ctrl-C on themselves, and what came of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore SIGINT
    X, y = blobs(np.random.default_rng(5), n=300)
    fast = {"gibbs_config": GibbsConfig(n_sweeps=30), "map_config": MapConfig(n_minibatches=20)}
    warnings.simplefilter("ignore")
    PBDNClassifier(inference=inference, **fast).fit(X, y)  # loads the compiled code

    endless = {"gibbs_config": GibbsConfig(n_sweeps=1_000_000, n_burn_in=10)}
    endless["map_config"] = MapConfig(n_minibatches=1_000_000)
    model = PBDNClassifier(inference=inference, n_jobs=n_jobs, random_state=0, **endless)
    print("fit:", reaches_the_caller(lambda: model.fit(X, y)), hasattr(model, "network_"))
    print("scores:", reaches_the_caller(lambda: cross_val_score(model, X, y, cv=2)))
    print("handler restored:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    model.set_params(checkpoint=folder / "c.pbdn")
    print("with checkpoint:", reaches_the_caller(lambda: model.fit(X, y)))
    if inference != "map":
        _, arrays = read_container(folder / "c.pbdn", kind="checkpoint")
        print("sweeps kept:", all(int(arrays[f"1.{side}.0.0/done"]) > 1 for side in range(n_jobs)))


if __name__ == "__main__":
    what, folder, inference, *n_jobs = sys.argv[1:]
    if what == "killed":
        with_checkpoint(pathlib.Path(folder), inference)
    else:
        interrupted(pathlib.Path(folder), inference, int(n_jobs[0]))
