"""A long fit, run as a process of its own so that Ctrl-C can be sent to it: interrupted_fit.py INFERENCE N_JOBS."""

import os
import signal
import sys
import threading
import warnings

import numpy as np

from estimators.small import blobs
from pbdn import GibbsConfig, MapConfig, PBDNClassifier

if __name__ == "__main__":
    inference, n_jobs = sys.argv[1], int(sys.argv[2])
    X, y = blobs(np.random.default_rng(5), n=300)
    fast = {"gibbs_config": GibbsConfig(n_sweeps=30), "map_config": MapConfig(n_minibatches=20)}
    warnings.simplefilter("ignore")
    PBDNClassifier(inference=inference, **fast).fit(X, y)  # loads the compiled code

    model = PBDNClassifier(
        inference=inference,
        gibbs_config=GibbsConfig(n_sweeps=1_000_000, n_burn_in=10),
        map_config=MapConfig(n_minibatches=100_000_000),
        n_jobs=n_jobs,
        random_state=0,
    )
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    print("interrupted:", any("Interrupted" in str(one.message) for one in seen))
    print("valid:", bool(np.isfinite(model.predict_proba(X)).all()), "depth:", model.depth_)
    print("handler restored:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
