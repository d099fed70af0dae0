"""Training time of the compiled MAP kernel, eager PyTorch and scikit-learn's MLP, one thread.

python -m benchmarks.map_speed [--repeats 3] [--minibatches 4000]

All three process the same number of minibatches of 100 on the same training rows of image (1300 x 18), a9a
(4884 x 123) and ijcnn1 (14169 x 22). PyTorch runs the library's objective by autograd and its own Adam,
float64, pruning off. The kernel is timed with pruning off (the same work; "dense" without the sparse
shortcut that inputs of few non-zeros take) and with pruning. Times are the best of the repeats; compilation
and reading are excluded. Needs PBDN_DATA (the folder with the npz files) and torch.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from benchmarks.record import save_result
from pbdn.data.source import ArraySource
from pbdn.sgd.config import MapConfig
from pbdn.sgd.train import fit_map

RESULTS = Path(__file__).parent / "results"
BATCH = 100
SEED = 0


def training_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    folder = Path(os.environ.get("PBDN_DATA", "../shared/data"))
    if name == "image":
        stored = np.load(folder / "ida_image.npz")
        rows = stored["train"][0]
        return stored["X"][rows].astype(np.float64), stored["y"][rows].astype(np.int64)
    stored = np.load(folder / f"{name}.npz")
    inputs = np.concatenate([stored["x_train"], stored["x_test"]])
    codes = np.concatenate([stored["y_train"], stored["y_test"]])
    first = 0 if name == "ijcnn1" else 2  # the paper's subsets: every tenth row; 14169 and 4884 rows
    rows = np.arange(first, len(codes), 10)
    if name == "ijcnn1":
        rows = rows[:14169]
    return inputs[rows].astype(np.float64), codes[rows].astype(np.int64)


def torch_training(inputs: np.ndarray, codes: np.ndarray, config: MapConfig) -> Callable[[], None]:
    """The same objective for both sides at once, the usual way: autograd and torch.optim.Adam."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.tensor(inputs), torch.tensor(codes)
    n, width = len(codes), config.width(len(codes))

    def train() -> None:
        generator = torch.Generator().manual_seed(SEED)
        planes = (0.1 * torch.randn(inputs.shape[1], 2 * width, generator=generator, dtype=x.dtype)).requires_grad_()
        bias = (0.1 * torch.randn(2 * width, generator=generator, dtype=x.dtype)).requires_grad_()
        log_weight = torch.full((2 * width,), -float(np.log(width)), dtype=x.dtype, requires_grad=True)
        optimiser = torch.optim.Adam([planes, bias, log_weight], lr=config.rate_at(1))
        order = torch.randperm(n, generator=generator)
        at = 0
        for _ in range(config.n_minibatches):
            if at + BATCH > n:
                order, at = torch.randperm(n, generator=generator), 0
            index = order[at : at + BATCH]
            at += BATCH
            weight = log_weight.exp()
            units = torch.nn.functional.softplus(x[index] @ planes + bias) * weight
            rate = units.view(-1, 2, width).sum(2)
            own = torch.stack([y[index] == 0, y[index] == 1], 1)
            likelihood = torch.where(own, -torch.log(-torch.expm1(-rate)), rate).sum() * (n / BATCH)
            prior = ((1.0 - config.mass / width) * log_weight + config.inv_scale * weight).sum()
            shrink = torch.log1p(planes**2 / (2 * config.coef_rate)).sum()
            shrink = shrink + torch.log1p(bias**2 / (2 * config.coef_rate)).sum()
            objective = (likelihood + prior + config.coef_power * shrink) / n
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
    inputs, codes = training_rows(name)
    config = MapConfig(n_minibatches=n_minibatches, batch_size=BATCH)
    same_work = MapConfig(n_minibatches=n_minibatches, batch_size=BATCH, pruning="none")
    brief = MapConfig(n_minibatches=2, batch_size=BATCH)
    shipped, dense = ArraySource(inputs, codes), ArraySource(inputs, codes, sparse_below=0.0)
    for source in (shipped, dense):
        fit_map(source, 2, depth=1, config=brief, seed=SEED)  # compile
    row: dict[str, float | int | str] = {"data": name, "rows": len(codes), "features": inputs.shape[1]}
    row["density"] = round(float(np.count_nonzero(inputs) / inputs.size), 3)
    row["kernel_s"] = best_time(lambda: fit_map(shipped, 2, depth=1, config=same_work, seed=SEED), repeats)
    row["kernel_dense_s"] = best_time(lambda: fit_map(dense, 2, depth=1, config=same_work, seed=SEED), repeats)
    row["kernel_pruning_s"] = best_time(lambda: fit_map(shipped, 2, depth=1, config=config, seed=SEED), repeats)
    row["torch_s"] = best_time(torch_training(inputs, codes, same_work), repeats)
    row["mlp_s"] = best_time(mlp_training(inputs, codes, n_minibatches), repeats)
    row["torch_over_kernel"] = row["torch_s"] / row["kernel_s"]
    row["torch_over_dense"] = row["torch_s"] / row["kernel_dense_s"]
    row["mlp_over_kernel"] = row["mlp_s"] / row["kernel_s"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minibatches", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(name, options.minibatches, options.repeats) for name in ("image", "a9a", "ijcnn1")]
    columns = ["kernel_s", "kernel_dense_s", "kernel_pruning_s", "torch_s", "mlp_s", "torch_over_kernel",
               "torch_over_dense", "mlp_over_kernel"]  # fmt: skip
    print(f"{'data':<8}" + "".join(f"{c:>18}" for c in columns))
    for row in rows:
        print(f"{row['data']:<8}" + "".join(f"{row[c]:>18.2f}" for c in columns))
    settings = asdict(MapConfig(n_minibatches=options.minibatches, batch_size=BATCH))
    save_result(
        RESULTS / "map_speed.json",
        {"seed": SEED, "config": settings, "repeats": options.repeats, "threads": 1, "results": rows},
    )


if __name__ == "__main__":
    main()
