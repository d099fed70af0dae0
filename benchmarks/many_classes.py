"""How the cost of MAP and of prediction grows with the number of classes, rows and features fixed.

    python -m benchmarks.many_classes

Processor seconds per 100 minibatches of 100 rows (20 experts per side): of one layer, and of all that the default growth
tries, with the depth it reaches. Per 1000 rows predicted by one layer: all of it, and the pooling of the sides alone, which is
a function of the library.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks import record, speed_tables
from pbdn import PBDNClassifier
from pbdn.config import MapConfig
from pbdn.model.pooling import pool_pairs

N_ROWS, N_FEATURES, STEPS = 4000, 10, 100


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(n_classes: int) -> dict[str, float]:
    """Costs for one number of classes."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(N_ROWS) % n_classes
    X = rng.normal(scale=5.0, size=(n_classes, N_FEATURES))[y] + rng.normal(size=(N_ROWS, N_FEATURES))
    config = MapConfig(n_minibatches=STEPS)
    model = PBDNClassifier(inference="map", map_config=config, max_depth=1, criterion="aic_inputs", random_state=0)
    grown = PBDNClassifier(inference="map", map_config=config, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = seconds(lambda: model.fit(X, y))
        growth = seconds(lambda: grown.fit(X, y))
    predict = seconds(lambda: model.predict_proba(X[:1000]))
    rate = rng.gamma(0.1, size=(1000, 2 * n_classes))
    pairs = seconds(lambda: pool_pairs(rate))
    reached = {"growth": growth, "tried": len(grown.criterion_path_), "depth": grown.depth_}
    return {"classes": n_classes, "fit": fit, **reached, "predict": predict, "pool_pairs": pairs}


def main() -> None:
    """Measure, record, print."""
    measure(3)  # compile
    results = [measure(n) for n in (10, 100, 1000)]
    config = {"rows": N_ROWS, "features": N_FEATURES, "steps": STEPS}
    record.append("speed", {"method": "many_classes", "seed": 0, "config": config, "results": results})
    print(speed_tables.many_classes())


if __name__ == "__main__":
    main()
