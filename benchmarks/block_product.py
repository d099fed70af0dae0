"""The block product of the MAP engine beside BLAS, both called in compiled code, one thread.

    python -m benchmarks.block_product [--repeats 20]

A step on a minibatch of n rows with D inputs (the constant among them) and K experts takes two products: ψ = X B of
(n x D) (D x K), and the gradient X'S of (D x n) (n x K). The table shows how many times as long BLAS takes
(``np.dot`` in numba, which calls SciPy's BLAS). Times are the best of the repeats.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from pbdn.numerics.products import padded, product

CALLS = 200  # of each product in one timing
SIZES = [
    (100, 3, 10),
    (100, 19, 10),
    (100, 19, 32),
    (100, 23, 48),
    (100, 65, 48),
    (100, 65, 192),
    (100, 124, 40),
    (200, 785, 100),
]


@njit(nogil=True)
def _ours(calls: int, x: Any, b: Any, s: Any, psi: Any, gradient: Any) -> None:
    n, depth = x.shape
    width = b.shape[1]
    for _ in range(calls):
        product(n, width, depth, x, depth, 1, b, width, psi, width)
        product(depth, width, n, x, 1, depth, s, width, gradient, width)


@njit(nogil=True)
def _blas(calls: int, x: Any, b: Any, s: Any, psi: Any, gradient: Any) -> None:
    for _ in range(calls):
        np.dot(x, b, psi)
        np.dot(x.T, s, gradient)


def best_time(run: Callable[..., None], repeats: int, *arguments: Any) -> float:
    """Seconds of processor time of one forward and one backward product."""
    run(1, *arguments)
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        run(CALLS, *arguments)
        best = min(best, time.process_time() - began)
    return best / CALLS


def compare(n: int, depth: int, width: int, repeats: int) -> tuple[float, float]:
    """Seconds of our products (with their padding) and of BLAS (without)."""
    rng = np.random.default_rng(0)

    def matrices(n: int, depth: int, width: int) -> tuple[Any, ...]:
        x, b, s = rng.standard_normal((n, depth)), rng.standard_normal((depth, width)), rng.standard_normal((n, width))
        return x, b, s, np.empty((n, width)), np.empty((depth, width))

    ours = best_time(_ours, repeats, *matrices(padded(n), padded(depth), padded(width)))
    return ours, best_time(_blas, repeats, *matrices(n, depth, width))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    print("| rows | inputs | experts | ours, µs | BLAS, µs | BLAS / ours |\n|---|---|---|---|---|---|")
    with threadpool_limits(1, user_api="blas"):
        for n, depth, width in SIZES:
            ours, blas = compare(n, depth, width, options.repeats)
            print(f"| {n} | {depth} | {width} | {1e6 * ours:.1f} | {1e6 * blas:.1f} | {blas / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
