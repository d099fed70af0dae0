"""Speed of MAP, one thread: training beside eager PyTorch and scikit-learn's MLP, small products beside BLAS, many classes.

    python -m benchmarks.map_speed [--repeats 3] [--minibatches 4000]
    python -m benchmarks.map_speed products
    python -m benchmarks.map_speed classes

Training: all three process the same number of minibatches of 100 on the same training rows of image (1300 x 18), a9a
(4884 x 123) and ijcnn1 (14169 x 22). Ours is `PBDNClassifier(inference="map", max_depth=1)` as a user runs it, with pruning off
(the same work) and on. PyTorch runs the library's objective by autograd and its own Adam, float64, pruning off. Times are
the best of the repeats; compilation and reading are excluded. Needs torch.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from benchmarks import record, speed_tables
from benchmarks.data_and_methods import rows
from benchmarks.rivals.base import dense
from pbdn import PBDNClassifier
from pbdn.config import MapConfig
from pbdn.model.pooling import pool_pairs
from pbdn.numerics.products import product

SIZES = ((104, 3, 40), (104, 19, 24), (104, 19, 40), (104, 123, 40))
REPEATS, CALLS = 5, 4000
N_ROWS, N_FEATURES, STEPS = 4000, 10, 100
BATCH = 100
SEED = 0
WIDTH = 20
RATE = 0.01
MASS, INV_SCALE, COEF_POWER, COEF_RATE = 1.0, 1.0, 1e-6, 1e-6
"""Experts per side, Adam's step in the first layer and the prior of two classes: the library's defaults, for PyTorch."""


# The blocked product of `pbdn.numerics.products` beside BLAS, at the sizes of MAP minibatches, one thread.
#
# Both are called from compiled loops. Processor times are the best of five, in microseconds for one product (rows x depth) (depth x columns).


@njit
def _ours(n_calls: int, n_rows: int, depth: int, n_columns: int, a: Any, b: Any, c: Any) -> None:
    for _ in range(n_calls):
        product(n_rows, n_columns, depth, a, depth, 1, b, n_columns, c, n_columns)


@njit
def _blas(n_calls: int, a: Any, b: Any, c: Any) -> None:
    for _ in range(n_calls):
        np.dot(a, b, c)


def seconds_of_a_product(function: Any, *arguments: Any) -> float:
    """Best time of one call among the repeats, compilation excluded."""
    function(1, *arguments)
    best = np.inf
    for _ in range(REPEATS):
        began = time.process_time()
        function(CALLS, *arguments)
        best = min(best, time.process_time() - began)
    return best / CALLS


def small_products() -> None:
    """Measure products beside BLAS, record, print."""
    rng = np.random.default_rng(0)
    results = []
    with threadpool_limits(1):
        for n_rows, depth, n_columns in SIZES:
            a, b, c = (
                rng.normal(size=(n_rows, depth)),
                rng.normal(size=(depth, n_columns)),
                np.empty((n_rows, n_columns)),
            )
            ours = seconds_of_a_product(_ours, n_rows, depth, n_columns, a.ravel(), b.ravel(), c.ravel())
            blas = seconds_of_a_product(_blas, a, b, c)
            sizes = {"rows": n_rows, "depth": depth, "columns": n_columns}
            results.append({**sizes, "ours_us": 1e6 * ours, "blas_us": 1e6 * blas})
    config = {"repeats": REPEATS, "calls": CALLS}
    record.append("speed", {"method": "small_products", "seed": 0, "config": config, "results": results})
    print(speed_tables.small_products())


# How the cost of MAP and of prediction grows with the number of classes, rows and features fixed.
#
# Processor seconds per 100 minibatches of 100 rows (20 experts per side): of one layer, and of all that the default growth
# tries, with the depth it reaches. Per 1000 rows predicted by one layer: all of it, and the pooling of the sides alone, which is
# a function of the library.


def processor_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure_classes(n_classes: int) -> dict[str, float]:
    """Costs for one number of classes."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(N_ROWS) % n_classes
    X = rng.normal(scale=5.0, size=(n_classes, N_FEATURES))[y] + rng.normal(size=(N_ROWS, N_FEATURES))
    config = MapConfig(n_minibatches=STEPS)
    model = PBDNClassifier(inference="map", map_config=config, max_depth=1, criterion="aic_inputs", random_state=0)
    grown = PBDNClassifier(inference="map", map_config=config, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = processor_seconds(lambda: model.fit(X, y))
        growth = processor_seconds(lambda: grown.fit(X, y))
    predict = processor_seconds(lambda: model.predict_proba(X[:1000]))
    rate = rng.gamma(0.1, size=(1000, 2 * n_classes))
    pairs = processor_seconds(lambda: pool_pairs(rate))
    reached = {"growth": growth, "tried": len(grown.criterion_path_), "depth": grown.depth_}
    return {"classes": n_classes, "fit": fit, **reached, "predict": predict, "pool_pairs": pairs}


def many_classes() -> None:
    """Measure how costs grow with the classes, record, print."""
    measure_classes(3)  # compile
    results = [measure_classes(n) for n in (10, 100, 1000)]
    config = {"rows": N_ROWS, "features": N_FEATURES, "steps": STEPS}
    record.append("speed", {"method": "many_classes", "seed": 0, "config": config, "results": results})
    print(speed_tables.many_classes())


# Training.


def our_training(inputs: np.ndarray, codes: np.ndarray, n_minibatches: int, pruning: str) -> Callable[[], None]:
    """One layer by the estimator."""
    config = MapConfig(n_minibatches=n_minibatches, batch_size=BATCH, pruning=pruning)
    model = PBDNClassifier(
        inference="map", max_depth=1, max_experts=WIDTH, map_config=config, standardize=False, random_state=SEED
    )

    def train() -> None:
        model.fit(inputs, codes)

    return train


def torch_training(inputs: np.ndarray, codes: np.ndarray, n_minibatches: int) -> Callable[[], None]:
    """The same objective for both sides at once, the usual way: autograd and torch.optim.Adam."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.tensor(inputs), torch.tensor(codes)
    n, width = len(codes), WIDTH

    def train() -> None:
        generator = torch.Generator().manual_seed(SEED)
        planes = (0.1 * torch.randn(inputs.shape[1], 2 * width, generator=generator, dtype=x.dtype)).requires_grad_()
        bias = (0.1 * torch.randn(2 * width, generator=generator, dtype=x.dtype)).requires_grad_()
        log_weight = torch.full((2 * width,), -float(np.log(width)), dtype=x.dtype, requires_grad=True)
        optimiser = torch.optim.Adam([planes, bias, log_weight], lr=RATE)
        order = torch.randperm(n, generator=generator)
        at = 0
        for _ in range(n_minibatches):
            if at + BATCH > n:
                order, at = torch.randperm(n, generator=generator), 0
            index = order[at : at + BATCH]
            at += BATCH
            weight = log_weight.exp()
            units = torch.nn.functional.softplus(x[index] @ planes + bias) * weight
            rate = units.view(-1, 2, width).sum(2)
            own = torch.stack([y[index] == 0, y[index] == 1], 1)
            likelihood = torch.where(own, -torch.log(-torch.expm1(-rate)), rate).sum() * (n / BATCH)
            prior = ((1.0 - MASS / width) * log_weight + INV_SCALE * weight).sum()
            shrink = torch.log1p(planes**2 / (2 * COEF_RATE)).sum()
            shrink = shrink + torch.log1p(bias**2 / (2 * COEF_RATE)).sum()
            objective = (likelihood + prior + COEF_POWER * shrink) / n
            optimiser.zero_grad()
            objective.backward()
            optimiser.step()

    return train


def mlp_training(inputs: np.ndarray, codes: np.ndarray, n_minibatches: int) -> Callable[[], None]:
    """MLPClassifier(128, 64), stopped after the epochs that make as many minibatches (rounded up)."""
    epochs = -(-n_minibatches // -(-len(codes) // BATCH))

    def train() -> None:
        model = MLPClassifier(
            (128, 64),
            batch_size=BATCH,
            max_iter=epochs,
            tol=0.0,
            n_iter_no_change=epochs + 1,
            random_state=SEED,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(inputs, codes)

    return train


def best_time(train: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        train()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(name: str, n_minibatches: int, repeats: int) -> dict[str, float | int | str]:
    inputs, codes = rows(name, 0)[:2]
    inputs, codes = dense(inputs), np.asarray(codes).astype(np.int64)
    our_training(inputs, codes, 2, "exact")()  # compile
    times = {
        "kernel_s": best_time(our_training(inputs, codes, n_minibatches, "none"), repeats),
        "kernel_pruning_s": best_time(our_training(inputs, codes, n_minibatches, "exact"), repeats),
        "torch_s": best_time(torch_training(inputs, codes, n_minibatches), repeats),
        "mlp_s": best_time(mlp_training(inputs, codes, n_minibatches), repeats),
    }
    return {
        "data": name,
        "rows": len(codes),
        "features": inputs.shape[1],
        "density": round(float(np.count_nonzero(inputs) / inputs.size), 3),
        **times,
        "torch_over_kernel": times["torch_s"] / times["kernel_s"],
        "mlp_over_kernel": times["mlp_s"] / times["kernel_s"],
    }


def training(n_minibatches: int, repeats: int) -> None:
    """Measure training beside PyTorch and an MLP, record, print."""
    with threadpool_limits(1):
        results = [measure(name, n_minibatches, repeats) for name in ("image", "a9a", "ijcnn1")]
    config = {"n_minibatches": n_minibatches, "batch_size": BATCH, "repeats": repeats, "threads": 1}
    record.append("speed", {"method": "map_speed", "seed": SEED, "config": config, "results": results})
    print(speed_tables.map_speed())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("training", "products", "classes"), nargs="?", default="training")
    parser.add_argument("--minibatches", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.what == "products":
        small_products()
    elif options.what == "classes":
        many_classes()
    else:
        training(options.minibatches, options.repeats)


if __name__ == "__main__":
    main()
