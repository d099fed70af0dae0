"""An order of rows that depends on what they hold and not on where they stand.

Random streams belong to blocks of rows. Putting the rows into this order first makes a Gibbs fit the same to the last bit
for any order in which the rows were given, and a row of weight 2 the same as the row given twice.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

CHUNK_NUMBERS = 1 << 22  # entries of a dense table that are mixed at a time


def row_order(X: Any, codes: NDArray[np.int64], weights: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Row numbers sorted by a digest of the row, then by class, then by weight; dense and sparse alike."""
    last = np.zeros(codes.size) if weights is None else weights
    return np.lexsort((last, codes, row_digests(X)))


def row_digests(X: Any) -> NDArray[np.uint64]:
    """Σ_v mix(column v, bits of x_v) over the entries that are not zero, modulo 2^64."""
    n, d = X.shape
    if sp.issparse(X):
        mixed = _mix(X.indices, X.data)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    out = np.empty(n, np.uint64)
    step = max(1, CHUNK_NUMBERS // max(d, 1))
    for low in range(0, n, step):
        out[low : low + step] = _mix(np.arange(d), X[low : low + step]).sum(axis=1, dtype=np.uint64)
    return out


def _mix(columns: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Well-mixed 64 bits of each (column, value); 0 for a value of zero."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    return np.where(values == 0.0, np.uint64(0), _scramble(values.view(np.uint64) ^ _scramble(columns + 1)))


def _scramble(bits: NDArray[Any]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, a bijection of 64-bit words."""
    bits = np.asarray(bits).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
