"""Seconds per Gibbs sweep on a CUDA device, beside the CPU threads of the same machine, and what bounds it.

python -m benchmarks.gpu_gibbs [--quick] [--threads 16] [--root FOLDER]

Rows are made on the device and stay there, as ``GibbsConfig(device="cuda")`` holds them. A sweep is all of it: both phases over the
rows, the transfers, and the draws of the globals on the CPU. Its kernels are timed apart by torch's profiler. The share of the
peak counts the products of the Gram sums that have to be made, 2 N K D² operations, against a bfloat16 product of large matrices
timed in the same run; the library makes three such products, of padded width, for the precision of float32. Sweeps are timed one
by one, which the estimator does not show, hence the internal modules. The CPU's rows are the same, in float64.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import record
from benchmarks.gpu_map import copy_bandwidth, wait
from pbdn.gibbs.device_sweep import DeviceRows
from pbdn.gibbs.rows import RowArrays, Rows
from pbdn.gibbs.state import initial_state, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread, sweep
from pbdn.model.priors import GIBBS_PRIORS
from pbdn.variates.random_stream import stream_key

SEED = 0
CASES = [
    (100_000, 20, 20),
    (1_000_000, 20, 20),
    (1_000_000, 50, 20),
    (1_000_000, 50, 5),
    (1_000_000, 100, 20),
    (1_000_000, 200, 20),
    (10_000_000, 20, 20),
    (10_000_000, 100, 20),
]
QUICK = [(1_000_000, 50, 20)]
BESIDE_CPU = [(100_000, 20, 20), (1_000_000, 50, 20)]
KERNELS = ("draw_events", "draw_polya_gamma", "sum_moments", "sum_grams")
WARM_UP, TIMED = 5, 15


def make_rows_on(device: str, n: int, d: int) -> Rows:
    """Two overlapping classes that need a few hyperplanes; inputs in float32 on the device."""
    generator = torch.Generator(device=device).manual_seed(SEED)
    inputs = torch.ones(n, d + 1, device=device)
    for low in range(0, n, 1 << 20):
        inputs[low : low + (1 << 20), 1:].normal_(generator=generator)
    noise = torch.randn(n, generator=generator, device=device)
    target = (inputs[:, 1].abs() + inputs[:, 2:].sum(1) / d**0.5 - 0.8 + 0.3 * noise > 0).cpu().numpy()
    ones = np.ones(n)
    arrays = RowArrays(
        inputs, None, ones, np.zeros(n), target.astype(np.int64), target.astype(float), ones, np.full(n, -np.inf)
    )
    return Rows(arrays, d + 1)


def time_sweeps(rows: Any, n_experts: int, n_threads: int, warm_up: int, timed: int) -> tuple[float, list[float]]:
    """Median seconds per sweep, and all of them."""
    state, active = initial_state(n_experts, rows.n_inputs), np.ones(n_experts, bool)
    priors, key, workers, seconds = prior_values(GIBBS_PRIORS), stream_key(SEED), Workers(n_threads), []
    with single_blas_thread():
        for index in range(warm_up + timed):
            began = time.perf_counter()
            state, _, _ = sweep("first_events", rows, state, None, active, priors, key, index, workers)
            seconds.append(time.perf_counter() - began)
    workers.close()
    return float(np.median(seconds[warm_up:])), seconds[warm_up:]


def kernel_seconds(rows: Any, n_experts: int) -> dict[str, float]:
    """Seconds of every kernel in one sweep."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
        time_sweeps(rows, n_experts, 1, 0, 4)
    found = {event.key: event.self_device_time_total / 4e6 for event in profile.key_averages()}
    return {name: found.get(name, 0.0) for name in KERNELS}


def matrix_peak(device: str, size: int = 8192) -> float:
    """Operations per second of a bfloat16 matrix product."""
    left, right = torch.randn(2, size, size, device=device, dtype=torch.bfloat16)
    for _ in range(3):
        left @ right
    wait(device)
    began = time.perf_counter()
    for _ in range(20):
        left @ right
    wait(device)
    return 20 * 2.0 * size**3 / (time.perf_counter() - began)


def bound_of(kernels: dict[str, float], seconds: float) -> str:
    """What takes most of a sweep."""
    parts = {**kernels, "globals, transfers and launches": max(seconds - sum(kernels.values()), 0.0)}
    return max(parts, key=lambda name: parts[name])


def measure(n: int, d: int, k: int, options: argparse.Namespace, peak: float) -> dict[str, Any]:
    rows = make_rows_on(options.device, n, d)
    placed = DeviceRows(rows, options.device)
    seconds, every = time_sweeps(placed, k, 1, WARM_UP, TIMED)
    kernels = kernel_seconds(placed, k)
    result: dict[str, Any] = {
        "rows": n,
        "features": d,
        "experts": k,
        "seconds": seconds,
        "spread": [min(every), max(every)],
    }
    result |= {"kernels": kernels, "bound": bound_of(kernels, seconds)}
    result["gram_share_of_peak"] = 2.0 * n * k * (d + 1) ** 2 / max(kernels["sum_grams"], 1e-12) / peak
    text = ", ".join(f"{name} {1e3 * value:.2f}" for name, value in kernels.items())
    print(
        f"{n} x {d} x {k}: {1e3 * seconds:.2f} ms ({text}), Gram at {result['gram_share_of_peak']:.1%} of peak",
        flush=True,
    )
    if (n, d, k) in BESIDE_CPU and options.threads:
        arrays = rows.arrays._replace(dense=rows.arrays.dense.double().cpu().numpy())
        del placed
        on_cpu, _ = time_sweeps(Rows(arrays, d + 1), k, options.threads, 2, 3)
        result |= {"cpu_threads": options.threads, "cpu_seconds": on_cpu, "ratio": on_cpu / seconds}
        print(
            f"    {options.threads} CPU threads: {1e3 * on_cpu:.1f} ms, {on_cpu / seconds:.1f} times as long",
            flush=True,
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one case")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=16, help="of the CPU beside it; 0: none")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    on_cuda = torch.device(options.device).type == "cuda"
    name = torch.cuda.get_device_name() if on_cuda else "cpu"
    peak = matrix_peak(options.device, 8192 if on_cuda else 256)
    bandwidth = copy_bandwidth(options.device, 1 << 31 if on_cuda else 1 << 26)
    print(
        f"{name}, torch {torch.__version__}: {peak / 1e12:.0f} Tflop/s in bfloat16, copy at {bandwidth / 1e9:.0f} GB/s"
    )
    results = []
    for case in QUICK if options.quick else CASES:
        results.append(measure(*case, options, peak))
        torch.cuda.empty_cache()
    line = {
        "method": "gpu_gibbs",
        "case": name,
        "seed": SEED,
        "config": {"quick": options.quick, "threads": options.threads},
        "device": name,
        "matrix_flops": peak,
        "copy_bytes_per_s": bandwidth,
        "results": results,
    }
    record.append("speed", line, options.root)


if __name__ == "__main__":
    main()
