"""Minibatch MAP steps of the torch engine on one device: rows per second and share of its memory bandwidth.

python -m benchmarks.gpu_map [--rows 10000000] [--features 100] [--device cuda] [--out gpu_map.json]

Needs torch, NumPy and this package's sources alone (PYTHONPATH=src). The rows are made on the device and stay
there. Two sides of ``--experts`` experts take Adam steps on the library's objective: full shuffled passes of
large batches, and batches of 100 as in the paper. Variants:

- eager: the steps as ``MapConfig(device=...)`` takes them, rows gathered by a shuffled index;
- slices: the same on contiguous slices of rows shuffled once, so that nothing is gathered;
- compiled: slices, with the objective fused by ``torch.compile``;
- captured: 50 steps recorded as one CUDA graph, rows gathered by a shuffled index.

"tf32" lets float32 products round their factors to 10 bits. The share of bandwidth counts every input once per
row (a lower bound of what any method must read) against a copy of 2 GiB timed in the same run, read and write
counted. Pruning and likelihoods over all rows, which the library leaves to the CPU, are not included.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.record import save_result
from pbdn.sgd.torch_steps import (
    Layout,
    adam_scales,
    add_penalty_gradient,
    likelihood_and_gradient,
    scaled_adam_step,
)

SEED = 0
RATE = 0.01
CAPTURED_STEPS = 50


class Penalty(NamedTuple):
    """The default prior of MapConfig for the present width."""

    inv_scale: float = 1.0
    coef_power: float = 1e-6
    coef_rate: float = 1e-6


class Training:
    """Rows on a device, parameters and Adam's moments."""

    def __init__(self, options: argparse.Namespace, dtype: torch.dtype) -> None:
        device = options.device
        torch.manual_seed(SEED)
        n, d, width = options.rows, options.features, options.experts
        self.n_rows = n
        self.inputs = torch.empty(n, d, dtype=dtype, device=device)
        self.codes = torch.empty(n, dtype=torch.int64, device=device)
        planes = torch.randn(d, 3, dtype=dtype, device=device) / d**0.5
        for begin in range(0, n, 1 << 20):
            rows = self.inputs[begin : begin + (1 << 20)].normal_()
            self.codes[begin : begin + (1 << 20)] = ((rows @ planes) > 0.9).any(1)
        self.weights = torch.ones(n, dtype=dtype, device=device)
        self.parameters = 0.1 * torch.randn(d + 2, 2 * width, dtype=dtype, device=device)
        self.parameters[0] -= float(np.log(width))
        self.first, self.second = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
        self.layout = Layout(np.array([0, width, 2 * width]), np.arange(2), device, dtype)
        self.slope = torch.full((2 * width,), 1.0 / width - 1.0, dtype=dtype, device=device)
        self.objective: Callable[..., Any] = likelihood_and_gradient
        self.step = 0

    def step_on(self, inputs: Any, codes: Any, weights: Any, size: Any, correction: Any) -> Any:
        """One Adam step on a batch; returns its loss per row."""
        loss, gradient = self.objective(inputs, codes, weights, self.parameters, self.layout)
        gradient *= self.n_rows / inputs.shape[0]
        add_penalty_gradient(self.parameters, Penalty(), self.slope, gradient)
        gradient /= self.n_rows
        scaled_adam_step(self.parameters, self.first, self.second, gradient, size, correction)
        return loss / inputs.shape[0]

    def scales(self) -> tuple[float, float]:
        self.step += 1
        return adam_scales(RATE, self.step)

    def gathered(self, index: Any) -> Any:
        return self.step_on(self.inputs[index], self.codes[index], self.weights[index], *self.scales())

    def sliced(self, begin: int, end: int) -> Any:
        rows = slice(begin, end)
        return self.step_on(self.inputs[rows], self.codes[rows], self.weights[rows], *self.scales())


def wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def timed(device: str, work: Callable[[], int], least_seconds: float) -> tuple[float, int]:
    """Seconds and rows of repeated work, after one untimed round."""
    work()
    wait(device)
    start, rows = time.perf_counter(), 0
    while True:
        rows += work()
        wait(device)
        seconds = time.perf_counter() - start
        if seconds > least_seconds:
            return seconds, rows


def copy_bandwidth(device: str, n_bytes: int) -> float:
    """Bytes read and written per second by a plain copy."""
    source = torch.empty(n_bytes // 4, dtype=torch.float32, device=device).normal_()
    target = torch.empty_like(source)

    def work() -> int:
        for _ in range(10):
            target.copy_(source)
        return 10

    seconds, copies = timed(device, work, 0.5)
    return 2.0 * n_bytes * copies / seconds


def passes(training: Training, device: str, batch: int, n_batches: int, is_sliced: bool) -> Callable[[], int]:
    """So many batches of a shuffled pass."""

    def work() -> int:
        if is_sliced:
            for b in range(n_batches):
                loss = training.sliced(b * batch, (b + 1) * batch)
        else:
            order = torch.randperm(training.n_rows, device=device)
            for b in range(n_batches):
                loss = training.gathered(order[b * batch : (b + 1) * batch])
        if not bool(torch.isfinite(loss)):
            raise FloatingPointError("the loss is not finite")
        return n_batches * batch

    return work


def captured(training: Training, device: str, batch: int, n_replays: int) -> Callable[[], int]:
    """Steps recorded once and replayed; the index and Adam's scales are refilled before every replay."""
    n, dtype = CAPTURED_STEPS, training.inputs.dtype
    index = torch.randint(training.n_rows, (n, batch), device=device)
    scales = torch.ones(n, 2, dtype=dtype, device=device)

    def steps() -> None:
        for k in range(n):
            rows = index[k]
            training.step_on(
                training.inputs[rows],
                training.codes[rows],
                training.weights[rows],
                scales[k, 0],
                scales[k, 1],
            )

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        steps()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()

    def work() -> int:
        order = torch.randperm(training.n_rows, device=device)[: n_replays * n * batch].view(n_replays, n, batch)
        for replay in range(n_replays):
            index.copy_(order[replay])
            scales.copy_(torch.tensor([training.scales() for _ in range(n)], dtype=dtype))
            graph.replay()
        if not bool(torch.isfinite(training.parameters).all()):
            raise FloatingPointError("the parameters are not finite")
        return n_replays * n * batch

    return work


def measure(options: argparse.Namespace, name: str, bandwidth: float) -> list[dict[str, Any]]:
    dtype = torch.float64 if name == "float64" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    training = Training(options, dtype)
    device, large = options.device, min(options.batch, options.rows)
    few = min(1000, options.rows // 100)  # batches of 100
    plans: list[tuple[str, int, Callable[[], Callable[[], int]]]] = [
        ("eager", large, lambda: passes(training, device, large, options.rows // large, False)),
        ("slices", large, lambda: passes(training, device, large, options.rows // large, True)),
        ("eager", 100, lambda: passes(training, device, 100, few, False)),
    ]
    if torch.device(device).type == "cuda":
        replays = max(1, few // CAPTURED_STEPS)
        plans.append(("captured", 100, lambda: captured(training, device, 100, replays)))
    if options.compile:
        plans.append(("compiled", large, lambda: passes(training, device, large, options.rows // large, True)))
    rows = []
    for variant, batch, prepare in plans:
        training.objective = likelihood_and_gradient
        if variant == "compiled":
            training.objective = torch.compile(likelihood_and_gradient, dynamic=False)
        result: dict[str, Any] = {"precision": name, "variant": variant, "batch": batch}
        try:
            seconds, n_rows = timed(device, prepare(), options.seconds)
        except Exception as error:  # a variant that this machine cannot run is reported, not fatal
            result["error"] = f"{type(error).__name__}: {error}"[:300]
        else:
            row_bytes = options.features * training.inputs.element_size()
            result |= {"seconds": seconds, "rows": n_rows, "rows_per_s": n_rows / seconds}
            result["bandwidth_share"] = n_rows / seconds * row_bytes / bandwidth
        print(
            f"{name:<9}{variant:<10}{batch:>7}"
            + (f"{result['rows_per_s']:>14.3g}{result['bandwidth_share']:>9.3f}" if "rows" in result
               else f"  {result['error'][:80]}"),
            flush=True,
        )  # fmt: skip
        rows.append(result)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--experts", type=int, default=20, help="per side")
    parser.add_argument("--batch", type=int, default=65_536, help="rows of a large batch")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time per measurement")
    parser.add_argument("--precisions", nargs="+", default=["float32", "tf32", "float64"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, default=Path("gpu_map.json"))
    options = parser.parse_args()
    on_cuda = torch.device(options.device).type == "cuda"
    name = torch.cuda.get_device_name() if on_cuda else "cpu"
    bandwidth = copy_bandwidth(options.device, 1 << 31 if on_cuda else 1 << 26)
    print(f"{name}, torch {torch.__version__}: copy at {bandwidth / 1e9:.0f} GB/s")
    print(f"{'':<19}{'batch':>7}{'rows/s':>14}{'of copy':>9}")
    results = [row for precision in options.precisions for row in measure(options, precision, bandwidth)]
    config = {key: value for key, value in vars(options).items() if key not in ("out", "device")}
    payload = {
        "seed": SEED,
        "config": config,
        "device": name,
        "copy_bytes_per_s": bandwidth,
        "results": results,
    }
    save_result(options.out, payload)


if __name__ == "__main__":
    main()
