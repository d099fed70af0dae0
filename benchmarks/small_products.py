"""The blocked product of `pbdn.numerics.products` beside BLAS, at the sizes of MAP minibatches, one thread.

    python -m benchmarks.small_products

Both are called from compiled loops. Processor times are the best of five, in microseconds for one product (rows x depth) (depth x columns).
"""

import time
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks import record, speed_tables
from pbdn.numerics.products import product

SIZES = ((104, 3, 40), (104, 19, 24), (104, 19, 40), (104, 123, 40))
REPEATS, CALLS = 5, 4000


@njit
def _ours(n_calls: int, n_rows: int, depth: int, n_columns: int, a: Any, b: Any, c: Any) -> None:
    for _ in range(n_calls):
        product(n_rows, n_columns, depth, a, depth, 1, b, n_columns, c, n_columns)


@njit
def _blas(n_calls: int, a: Any, b: Any, c: Any) -> None:
    for _ in range(n_calls):
        np.dot(a, b, c)


def seconds(function: Any, *arguments: Any) -> float:
    """Best time of one call among the repeats, compilation excluded."""
    function(1, *arguments)
    best = np.inf
    for _ in range(REPEATS):
        began = time.process_time()
        function(CALLS, *arguments)
        best = min(best, time.process_time() - began)
    return best / CALLS


def main() -> None:
    """Measure, record, print."""
    rng = np.random.default_rng(0)
    results = []
    with threadpool_limits(1):
        for n_rows, depth, n_columns in SIZES:
            a, b, c = (
                rng.normal(size=(n_rows, depth)),
                rng.normal(size=(depth, n_columns)),
                np.empty((n_rows, n_columns)),
            )
            ours = seconds(_ours, n_rows, depth, n_columns, a.ravel(), b.ravel(), c.ravel())
            blas = seconds(_blas, a, b, c)
            sizes = {"rows": n_rows, "depth": depth, "columns": n_columns}
            results.append({**sizes, "ours_us": 1e6 * ours, "blas_us": 1e6 * blas})
    config = {"repeats": REPEATS, "calls": CALLS}
    record.append("speed", {"method": "small_products", "seed": 0, "config": config, "results": results})
    print(speed_tables.small_products())


if __name__ == "__main__":
    main()
