"""Log-likelihood of rows, whatever they say of their process."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.gibbs.matrices import block_distances, transposed
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, COUNT, EXACT, INTERVAL, RowArrays, Rows
from pbdn.model.likelihood import log_probability
from pbdn.model.likelihood import softplus as softplus_of_array
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import internal, kernel
from pbdn.numerics.softplus import LOG_TINY, log_event_probability, softplus

ROWS_AT_ONCE = 8192  # of the plain log-likelihood


@internal
def row_log_likelihood(kind, exposure, copies, unit, rate, start_rate, hazard):
    """ln p of one (merged) row; rates at unit exposure, cumulative to the offset and to the interval's start."""
    value = -(exposure - copies * unit) * rate if kind != COUNT else 0.0
    if kind == BEFORE:
        value += copies * log_event_probability(unit * rate)
    elif kind == INTERVAL:
        value += copies * (log_event_probability(unit * (rate - start_rate)) - unit * start_rate)
    elif kind == EXACT:
        value += copies * (max(np.log(max(unit * hazard, 1e-320)), LOG_TINY) - unit * rate)
    elif kind == COUNT:
        value += copies * max(np.log(max(unit * rate, 1e-320)), LOG_TINY) - exposure * rate
    return value


@kernel
def total_log_likelihood(rows: RowArrays, planes, weights, log_lik):
    """Log-likelihood of the rows, per block: no randomness."""
    planes_t = transposed(planes)
    n_experts = planes.shape[0]
    distance = np.empty((BLOCK_ROWS, n_experts))
    for block in range(log_lik.shape[0]):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        total = 0.0
        for i in range(low, high):
            rate, start_rate, hazard = 0.0, 0.0, 0.0
            for k in range(n_experts):
                psi = distance[i - low, k]
                soft = softplus(psi)
                rate += weights[k] * soft
                if rows.kind[i] == INTERVAL:
                    start_rate += weights[k] * softplus(psi - rows.offset[i] + rows.start[i])
                elif rows.kind[i] == EXACT:
                    hazard += weights[k] * np.exp(psi - soft)
            total += row_log_likelihood(
                rows.kind[i], rows.exposure[i], rows.copies[i], rows.unit[i], rate, start_rate, hazard
            )
        log_lik[block] = total


def log_likelihood(rows: Rows, planes: FloatArray, weights: FloatArray) -> float:
    """Log-likelihood of the rows under experts with these hyperplanes and weights."""
    if np.all(rows.arrays.kind <= BEFORE):  # asked for once in a chain, so that compiling for it would not pay
        return sum(binary_log_likelihood(rows.arrays, planes, weights))
    out = np.empty(rows.n_blocks)
    total_log_likelihood(rows.arrays, planes, weights, out)
    return float(out.sum())


def binary_log_likelihood(arrays: RowArrays, planes: FloatArray, weights: FloatArray) -> Iterator[float]:
    """Log-likelihood of rows that say NOTHING or BEFORE, in parts of many rows."""
    inputs: Any = arrays.dense
    if arrays.sparse is not None:
        pointers, columns, values = arrays.sparse
        inputs = sp.csr_array((values, columns, pointers), shape=(pointers.size - 1, planes.shape[1]))
    for low in range(0, arrays.exposure.shape[0], ROWS_AT_ONCE):
        part = slice(low, low + ROWS_AT_ONCE)
        copies, unit = arrays.copies[part], arrays.unit[part]
        rate = softplus_of_array(inputs[part] @ planes.T + arrays.offset[part, None]) @ weights
        event = np.maximum(log_probability(unit * rate), LOG_TINY)
        yield float(np.sum(copies * event - (arrays.exposure[part] - copies * unit) * rate))
