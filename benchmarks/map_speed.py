"""Training time of MAP beside eager PyTorch and scikit-learn's MLP, one thread.

python -m benchmarks.map_speed [--repeats 3] [--minibatches 4000]

All three process the same number of minibatches of 100 on the same training rows of image (1300 x 18), a9a
(4884 x 123) and ijcnn1 (14169 x 22). Ours is `PBDNClassifier(inference="map", max_depth=1)` as a user runs it, with pruning off
(the same work) and on. PyTorch runs the library's objective by autograd and its own Adam, float64, pruning off. Times are
the best of the repeats; compilation and reading are excluded. Needs torch.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from benchmarks import record, speed_tables
from benchmarks.data import rows
from benchmarks.rivals.base import dense
from pbdn import PBDNClassifier
from pbdn.config import MapConfig

BATCH = 100
SEED = 0
WIDTH = 20
RATE = 0.01
MASS, INV_SCALE, COEF_POWER, COEF_RATE = 1.0, 1.0, 1e-6, 1e-6
"""Experts per side, Adam's step in the first layer and the prior of two classes: the library's defaults, for PyTorch."""


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minibatches", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with threadpool_limits(1):
        results = [measure(name, options.minibatches, options.repeats) for name in ("image", "a9a", "ijcnn1")]
    config = {"n_minibatches": options.minibatches, "batch_size": BATCH, "repeats": options.repeats, "threads": 1}
    record.append("speed", {"method": "map_speed", "seed": SEED, "config": config, "results": results})
    print(speed_tables.map_speed())


if __name__ == "__main__":
    main()
