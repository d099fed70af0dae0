"""Minibatch MAP steps of the torch engine on one device: rows per second and share of its memory bandwidth.

python -m benchmarks.gpu_map [--rows 10000000] [--features 100] [--device cuda] [--root FOLDER]

It times the steps that ``device="cuda"`` takes, which the
estimator does not show, hence the internal modules. The rows are made on the device and stay
there. Two sides of ``--experts`` experts take Adam steps on the library's objective, minibatches of every size of
``--batches`` (100 as in the paper), rows gathered by a shuffled index, which is drawn before the clock starts. Variants:

- eager: step by step;
- captured: windows of 20 steps replayed as a CUDA graph, which is what ``MapConfig(device="cuda")`` runs;
- kernels: the same with two kernels a step, which is what it runs with ``precision="single"`` (float32 alone).

"tf32" lets float32 products round their factors to 10 bits. The share of bandwidth counts every input once per
row (a lower bound of what any method must read) against a copy of 2 GiB timed in the same run, read and write
counted. An input counts four bytes, as the rows come (eight in float64); the kernels read two of them in a step, and all for likelihoods and
pruning. First of all one window is compared with the same steps on the CPU, in float64, and one of the kernels with float64. Last,
a whole fit of one layer from rows in the host's memory is timed: transfer, steps, pruning and likelihood.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import record
from pbdn.config.defaults import batch_for
from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import for_each_class
from pbdn.sgd.kernel_arguments import SNAPSHOT_EVERY
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.torch_steps import Layout, adam_scales
from pbdn.sgd.torch_window import Moving, Rows, StepWindow
from pbdn.sgd.train_layer import fit_map

SEED = 0
RATE = 0.01
VARIANTS = ("eager", "captured", "kernels")


class Penalty(NamedTuple):
    """The default prior of MapConfig for the present width."""

    inv_scale: float = 1.0
    coef_power: float = 1e-6
    coef_rate: float = 1e-6
    bias_power: float = 1e-6


class Training:
    """Rows on a device, parameters and Adam's moments."""

    def __init__(self, options: argparse.Namespace, dtype: torch.dtype, device: str) -> None:
        torch.manual_seed(SEED)
        n, d, width = options.rows, options.features, options.experts
        self.n_rows, self.device = n, device
        inputs = torch.empty(n, d, dtype=dtype, device=device)
        codes = torch.empty(n, dtype=torch.int64, device=device)
        planes = torch.randn(d, 3, dtype=dtype, device=device) / d**0.5
        for begin in range(0, n, 1 << 20):
            rows = inputs[begin : begin + (1 << 20)].normal_()
            codes[begin : begin + (1 << 20)] = ((rows @ planes) > 0.9).any(1)
        self.rows = Rows(inputs, codes, torch.ones(n, dtype=dtype, device=device))
        parameters = 0.1 * torch.randn(d + 2, 2 * width, dtype=dtype, device=device)
        parameters[0] -= float(np.log(width))
        self.moving = Moving.at(parameters, torch.zeros_like(parameters), torch.zeros_like(parameters))
        self.layout = Layout(np.array([0, width, 2 * width]), np.arange(2), device, dtype)
        self.slope = torch.full((2 * width,), 1.0 / width - 1.0, dtype=dtype, device=device)
        self.step = 0

    def window(self, batch: int, fused: bool = False) -> StepWindow:
        rows, kind = self.rows, StepWindow
        if fused:
            from pbdn.sgd.torch_fused import FusedWindow, split  # needs Triton

            rows, kind = rows._replace(inputs=split(rows.inputs, self.device)), FusedWindow
        window = kind(rows, self.moving, self.layout, Penalty(), self.slope, SNAPSHOT_EVERY, batch)
        window.totals.fill_(float(self.n_rows))
        return window

    def scales(self, n_steps: int) -> Any:
        """Adam's scales of the next steps."""
        self.step += n_steps
        values = [adam_scales(RATE, self.step - n_steps + 1 + k) for k in range(n_steps)]
        return torch.tensor(values, dtype=self.slope.dtype, device=self.device)


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


def passes(training: Training, window: StepWindow, n_windows: int, is_captured: bool) -> Callable[[], int]:
    """So many windows of a shuffled pass, and ten at least: then of several passes."""
    n_steps, batch = window.index.shape
    order = torch.randperm(training.n_rows, device=training.device)[: n_windows * n_steps * batch]
    n_rounds = -(-10 // n_windows)

    def work() -> int:
        for index in n_rounds * list(order.view(n_windows, n_steps, batch)):
            scales = training.scales(n_steps)
            if is_captured:
                window.run(index, scales)
            else:
                for k in range(n_steps):
                    window.step(index[k], scales[k, 0], scales[k, 1])
        if not bool(training.moving.healthy):
            raise FloatingPointError("a loss is not finite")
        return n_rounds * n_windows * n_steps * batch

    return work


def largest_difference(options: argparse.Namespace, fused: bool = False) -> float:
    """Largest relative difference between parameters after captured steps and after the same steps on the CPU in float64."""
    few = argparse.Namespace(**{**vars(options), "rows": 5000})
    device = Training(few, torch.float32 if fused else torch.float64, options.device)
    host = Training(few, torch.float64, "cpu")
    for mine, theirs in zip((*device.rows, *device.moving), (*host.rows, *host.moving), strict=True):
        theirs.copy_(mine)
    windows = device.window(100, fused), host.window(100)
    for _ in range(5):
        index, scales = torch.randint(5000, (SNAPSHOT_EVERY, 100)), host.scales(SNAPSHOT_EVERY)
        for window in windows:
            window.run(index.to(window.index.device), scales.to(window.index.device))
    mine, theirs = device.moving.parameters.cpu(), host.moving.parameters
    return float(((mine - theirs).abs() / theirs.abs().clamp_min(1e-3)).max())


def whole_fit(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a layer's fit from rows in the host's memory, as the estimator trains it in single precision."""
    training = Training(options, torch.float32, options.device)
    inputs, codes = training.rows.inputs.cpu().numpy(), training.rows.codes.cpu().numpy()
    del training
    torch.cuda.empty_cache()
    source = ArraySource(inputs, codes, classes=np.arange(2))
    settings = MapSettings(device=options.device, precision="single", max_experts=options.experts)
    settings = replace(settings, batch_size=batch_for(options.rows, settings.n_minibatches))
    began = time.perf_counter()
    result = fit_map(source, for_each_class(2), depth=1, config=settings, seed=SEED)
    seconds = time.perf_counter() - began
    print(
        f"a whole fit of {options.rows} rows, {settings.n_minibatches} steps of {settings.batch_size}: {seconds:.1f} s"
    )
    return {"seconds": seconds, "batch": settings.batch_size, "log_likelihood": result.log_likelihood}


def measure(options: argparse.Namespace, name: str, bandwidth: float) -> list[dict[str, Any]]:
    dtype = torch.float64 if name == "float64" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    training = Training(options, dtype, options.device)
    rows = []
    for batch, variant in ((batch, variant) for batch in options.batches for variant in VARIANTS):
        n_windows = min(options.rows // (SNAPSHOT_EVERY * batch), 50)
        if n_windows == 0 or (variant == "kernels" and name != "float32"):
            continue
        result: dict[str, Any] = {"precision": name, "variant": variant, "batch": batch}
        try:
            work = passes(training, training.window(batch, variant == "kernels"), n_windows, variant != "eager")
            seconds, n_rows = timed(options.device, work, options.seconds)
        except Exception as error:  # a variant that this machine cannot run is reported, not fatal
            result["error"] = f"{type(error).__name__}: {error}"[:300]
        else:
            row_bytes = options.features * training.rows.inputs.element_size()
            result |= {"seconds": seconds, "rows": n_rows, "rows_per_s": n_rows / seconds}
            result["bandwidth_share"] = n_rows / seconds * row_bytes / bandwidth
        print(
            f"{name:<9}{variant:<10}{batch:>8}"
            + (f"{result['rows_per_s']:>14.3g}{result['bandwidth_share']:>9.4f}" if "rows" in result
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
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 8192, 65_536, 500_000])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0, help="least time per measurement")
    parser.add_argument("--precisions", nargs="+", default=["float32", "tf32", "float64"])
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    on_cuda = torch.device(options.device).type == "cuda"
    name = torch.cuda.get_device_name() if on_cuda else "cpu"
    bandwidth = copy_bandwidth(options.device, 1 << 31 if on_cuda else 1 << 26)
    print(f"{name}, torch {torch.__version__}: copy at {bandwidth / 1e9:.0f} GB/s")
    difference = largest_difference(options)
    of_fused = largest_difference(options, fused=True) if on_cuda else difference
    print(
        f"captured steps and the CPU's differ by {difference:.1e} (relative, float64), those of the kernels by {of_fused:.1e}"
    )
    print(f"{'':<19}{'batch':>8}{'rows/s':>14}{'of copy':>9}")
    results = [row for precision in options.precisions for row in measure(options, precision, bandwidth)]
    config = {key: value for key, value in vars(options).items() if key not in ("root", "device")}
    line = {
        "method": "gpu_map",
        "case": name,
        "seed": SEED,
        "config": config,
        "device": name,
        "copy_bytes_per_s": bandwidth,
        "largest_difference": difference,
        "largest_difference_kernels": of_fused,
        "whole_fit": whole_fit(options),
        "results": results,
    }
    record.append("speed", line, options.root)


if __name__ == "__main__":
    main()
