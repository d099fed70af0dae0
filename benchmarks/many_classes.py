"""How the cost of MAP and of prediction grows with the number of classes, rows and features fixed.

    python -m benchmarks.many_classes

Processor seconds per 100 minibatches of 100 rows (20 experts per side): of one layer, and of all that the default growth
tries, with the depth it reaches. Per 1000 rows predicted by one layer: with pairs of sides (the default), and the pooling
alone for one side per class (random-order stick-breaking).
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.record import save_result
from pbdn import PBDNClassifier
from pbdn.model.pooling import pool_pairs, pool_sides
from pbdn.sgd.config import default_config

N_ROWS, N_FEATURES, STEPS = 4000, 10, 100
RESULT = Path(__file__).parent / "results" / "many_classes.json"


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
    config = replace(default_config(n_classes), n_minibatches=STEPS)
    model = PBDNClassifier(inference="map", map_config=config, max_depth=1, criterion="aic_inputs", random_state=0)
    grown = PBDNClassifier(inference="map", map_config=config, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = seconds(lambda: model.fit(X, y))
        growth = seconds(lambda: grown.fit(X, y))
    predict = seconds(lambda: model.predict_proba(X[:1000]))
    rate = rng.gamma(0.1, size=(1000, 2 * n_classes))
    pairs = seconds(lambda: pool_pairs(rate))
    single = seconds(lambda: pool_sides(-np.expm1(-rate[:, :n_classes])))
    reached = {"growth": growth, "tried": len(grown.criterion_path_), "depth": grown.depth_}
    return {"classes": n_classes, "fit": fit, **reached, "predict": predict, "pool_pairs": pairs, "pool_sides": single}


def main() -> None:
    """Measure, print, record."""
    measure(3)  # compile
    results = [measure(n) for n in (10, 100, 1000)]
    print(
        "| classes | one layer, s | growth, s | layers tried, kept | predict 1000 rows, s | of it pooling, s | pooling of one side "
        "per class, s |\n|---|---|---|---|---|---|---|"
    )
    for one in results:
        print(
            f"| {one['classes']} | {one['fit']:.2f} | {one['growth']:.1f} | {one['tried']}, {one['depth']} | "
            f"{one['predict']:.3f} | {one['pool_pairs']:.4f} | {one['pool_sides']:.3f} |"
        )
    save_result(
        RESULT, {"seed": 0, "config": {"rows": N_ROWS, "features": N_FEATURES, "steps": STEPS}, "results": results}
    )


if __name__ == "__main__":
    main()
