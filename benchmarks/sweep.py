"""Speed of a Gibbs sweep, in units of one NumPy gamma draw, beside a plain NumPy version, and how it scales.

    python -m benchmarks.sweep [--quick]

All timings of one line are taken in the same process, one thread unless said; the unit is one draw of
``Generator.standard_gamma(2.0)``. First-call (compilation) time is measured in fresh processes and reported apart. Sweeps are
timed one by one, which the estimator does not show, hence the internal modules.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks import record, speed_tables
from pbdn.gibbs.chain import ChainSettings, run_chain
from pbdn.gibbs.rows import make_rows
from pbdn.gibbs.state import initial_state, prior_values
from pbdn.gibbs.sweep import Workers, initial_latent, single_blas_thread, sweep
from pbdn.model.priors import GIBBS_PRIORS
from pbdn.variates.polya_gamma import block_work, polya_gamma, polya_gamma_block
from pbdn.variates.random_stream import open_stream, stream_buffer, stream_key

SIZES = [(400, 2, 5), (1300, 18, 6), (1300, 18, 20), (5000, 50, 20), (4884, 123, 20), (100_000, 20, 20)]


def gamma_unit(n: int = 200_000, repeats: int = 10) -> float:
    """Seconds per standard_gamma(2.0) draw, the best of several runs, as the sweeps are timed."""
    rng = np.random.default_rng(0)
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        rng.standard_gamma(2.0, n)
        best = min(best, time.perf_counter() - began)
    return best / n


def blas_peak(size: int = 1024) -> float:
    """Flops per second of a square double matrix product, one thread."""
    a = np.random.default_rng(0).standard_normal((size, size))
    with single_blas_thread():
        a @ a
        began = time.perf_counter()
        for _ in range(3):
            a @ a
        return 3 * 2 * size**3 / (time.perf_counter() - began)


@njit
def _one_by_one(buffer: Any, key: Any, b: Any, c: Any, out: Any, work: Any) -> None:
    stream = open_stream(buffer, key, 0, 0, 0)
    for j in range(out.size):
        out[j] = polya_gamma(stream, b[j], c[j])


@njit
def _in_blocks(buffer: Any, key: Any, b: Any, c: Any, out: Any, work: Any) -> None:
    polya_gamma_block(open_stream(buffer, key, 0, 0, 0), b, c, out.size, work, out)


@njit
def _work(size: int) -> Any:
    return block_work(size)


def draw_costs(n: int = 1536) -> list[dict[str, float]]:
    """Nanoseconds per Polya-Gamma draw, one by one and in blocks, the best of many runs."""
    lines = []
    work, out = _work(n), np.empty(n)
    for shape, distance in ((0.01, 1.0), (0.3, 1.0), (1.0, 0.0), (1.0, 1.0), (1.0, 4.0), (1.5, 1.0), (10.0, 1.0)):
        b, c = np.full(n, shape), np.full(n, distance)
        took = {}
        for name, draw in (("one by one", _one_by_one), ("in blocks", _in_blocks)):
            best = np.inf
            for _ in range(200):
                began = time.perf_counter()
                draw(stream_buffer(), stream_key(0), b, c, out, work)
                best = min(best, time.perf_counter() - began)
            took[name] = 1e9 * best / n
        lines.append({"b": shape, "c": distance, **took})
    return lines


def problem(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of two overlapping classes that need a few hyperplanes; d = 123 is sparse like a9a (14 non-zeros of a row)."""
    rng = np.random.default_rng(seed)
    if d == 123:
        columns = np.concatenate([rng.permuted(np.tile(np.arange(123), (n, 1)), axis=1)[:, :14]])
        X = sp.csr_array((np.ones(n * 14), columns.ravel(), np.arange(n + 1) * 14), shape=(n, 123))
        score = X @ rng.standard_normal(123)
    else:
        X = rng.standard_normal((n, d))
        score = np.abs(X[:, 0]) + X[:, 1:].sum(1) / np.sqrt(d) - 0.8
    return X, score + rng.logistic(size=n) * 0.3 > 0


def time_sweeps(X: Any, y: Any, n_experts: int, sampler: str, n_threads: int = 1, seconds: float = 2.0) -> float:
    """Seconds per sweep after 100 sweeps of warm-up (all experts kept)."""
    rows = make_rows(X, y, single_events=sampler != "event_times", merge=False)
    state, active = initial_state(n_experts, rows.n_inputs), np.ones(n_experts, bool)
    latent = initial_latent(sampler, rows, n_experts)
    priors, key, workers = prior_values(GIBBS_PRIORS), stream_key(0), Workers(n_threads)
    index = 0
    with single_blas_thread():
        for _ in range(100 if X.shape[0] <= 5000 else 5):
            state, latent, _ = sweep(sampler, rows, state, latent, active, priors, key, index, workers)
            index += 1
        best, spent = np.inf, 0.0
        while spent < seconds:
            began = time.perf_counter()
            repeats = 20 if X.shape[0] <= 5000 else 1
            for _ in range(repeats):
                state, latent, _ = sweep(sampler, rows, state, latent, active, priors, key, index, workers)
                index += 1
            took = time.perf_counter() - began
            best, spent = min(best, took / repeats), spent + took
    workers.close()
    return float(best)


def gram_flops(X: Any, n_experts: int) -> float:
    """Multiply-adds (two flops each) of the Gram step per row and expert."""
    if sp.issparse(X):
        q = X.nnz / X.shape[0] + 1
        return q * (q + 1)
    d = X.shape[1] + 1
    return d * (d + 1)


def cost_table(seconds: float) -> list[dict[str, Any]]:
    peak = blas_peak()
    lines = []
    for n, d, k in SIZES:
        X, y = problem(n, d)
        for sampler in ("first_events", "event_times", "counts"):
            unit = gamma_unit()
            took = time_sweeps(X, y, k, sampler, seconds=seconds)
            unit = min(unit, gamma_unit())
            per_cell = took / (n * k)
            floor = gram_flops(X, k) / peak
            lines.append(
                {
                    "rows": n,
                    "features": d,
                    "experts": k,
                    "sampler": sampler,
                    "ms": 1e3 * took,
                    "ns_per_row_expert": 1e9 * per_cell,
                    "gammas": per_cell / unit,
                    "gram_at_blas_peak_ns": 1e9 * floor,
                }
            )
            print(f"{n} x {d} x {k}, {sampler}: {1e3 * took:.3f} ms, {per_cell / unit:.2f} gamma draws", flush=True)
    return lines


def against_numpy(seconds: float) -> dict[str, float]:
    """The same sweep written in vectorised NumPy / SciPy, at (1300, 18, 6)."""
    from benchmarks import numpy_sweep

    X, y = problem(1300, 18)
    ours = time_sweeps(X, y, 6, "first_events", seconds=seconds)
    theirs = numpy_sweep.time_sweep(X, y, 6, n_sweeps=20)
    return {"ours_ms": 1e3 * ours, "numpy_ms": 1e3 * theirs, "ratio": theirs / ours}


def long_chains() -> dict[str, float]:
    """5000 sweeps of one side, pruning on, as a user runs them; the best of three runs."""
    out = {}
    for name, n, d in (("image-sized (1300 x 18)", 1300, 18), ("banana-sized (400 x 2)", 400, 2)):
        X, y = problem(n, d)
        took = []
        for _ in range(3):
            began = time.perf_counter()
            run_chain(make_rows(X, y, single_events=True), ChainSettings(n_sweeps=5000, n_burn_in=2500), 0)
            took.append(time.perf_counter() - began)
        out[name] = min(took)
    return out


def start_up() -> dict[str, float]:
    """Seconds from process start to the end of the first sweep: nothing compiled, and from the cache."""
    code = (
        "import numpy as np, time\n"
        "from pbdn.gibbs.chain import ChainSettings, run_chain\nfrom pbdn.gibbs.rows import make_rows\n"
        "X = np.random.default_rng(0).standard_normal((300, 4))\n"
        "run_chain(make_rows(X, X[:, 0] > 0, single_events=True), ChainSettings(n_sweeps=1, n_burn_in=0), 0)\n"
    )
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for name in ("first process", "second process"):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            out[name] = time.perf_counter() - began
    return out


def scaling(seconds: float, quick: bool) -> list[dict[str, float]]:
    """Cost per row and expert as rows, features, experts and threads grow."""
    base = {"rows": 10_000, "features": 10, "experts": 10, "threads": 1}
    grids = {
        "rows": [1_000, 10_000, 100_000] + ([] if quick else [1_000_000]),
        "features": [2, 10, 20, 50, 100, 200],
        "experts": [1, 5, 10, 20, 40],
        "threads": [1, 2],
    }
    lines = []
    for axis, values in grids.items():
        for value in values:
            case = {**base, axis: value}
            X, y = problem(case["rows"], case["features"] if case["features"] != 123 else 124)
            took = time_sweeps(X, y, case["experts"], "first_events", case["threads"], seconds)
            per_cell = 1e9 * took / (case["rows"] * case["experts"])
            lines.append({**case, "ms": 1e3 * took, "ns_per_row_expert": per_cell})
            print(f"{axis} = {value}: {1e3 * took:.2f} ms", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = 0.5 if options.quick else 2.0
    line = {
        "method": "sweep",
        "seed": 0,
        "config": {"quick": options.quick, "unit": "standard_gamma(2.0)"},
        "costs": cost_table(seconds),
        "draws_ns": draw_costs(),
        "scaling": scaling(seconds / 2, options.quick),
        "against_numpy": against_numpy(seconds),
        "chains_5000": long_chains(),
        "start_up": start_up(),
        "blas_peak_gflops": blas_peak() / 1e9,
    }
    record.append("speed", line)
    for table in (speed_tables.sweep, speed_tables.draws, speed_tables.scaling, speed_tables.whole_chains):
        print(table())


if __name__ == "__main__":
    main()
