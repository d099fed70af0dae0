"""A long fit, run as a process of its own so that Ctrl-C can be sent to it: interrupted_fit.py INFERENCE N_JOBS FOLDER."""

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


def press_ctrl_c():
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()


def reaches_the_caller(work):
    press_ctrl_c()
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


if __name__ == "__main__":
    inference, n_jobs, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore SIGINT
    X, y = blobs(np.random.default_rng(5), n=300)
    fast = {"gibbs_config": GibbsConfig(n_sweeps=30), "map_config": MapConfig(n_minibatches=20)}
    warnings.simplefilter("ignore")
    PBDNClassifier(inference=inference, **fast).fit(X, y)  # loads the compiled code

    endless = {"gibbs_config": GibbsConfig(n_sweeps=1_000_000, n_burn_in=10)}
    endless["map_config"] = MapConfig(n_minibatches=100_000_000)
    model = PBDNClassifier(inference=inference, n_jobs=n_jobs, random_state=0, **endless)
    print("fit:", reaches_the_caller(lambda: model.fit(X, y)), hasattr(model, "network_"))
    print("scores:", reaches_the_caller(lambda: cross_val_score(model, X, y, cv=2)))
    print("handler restored:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    model.set_params(checkpoint=folder / "c.pbdn")
    print("with checkpoint:", reaches_the_caller(lambda: model.fit(X, y)))
    if inference != "map":
        _, arrays = read_container(folder / "c.pbdn", kind="checkpoint")
        print("sweeps kept:", all(int(arrays[f"1.{side}.0.0/done"]) > 1 for side in range(n_jobs)))
