"""Log-likelihood of rows, whatever they say of their process."""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.gibbs.matrices import as_vector, block_distances, multiply, transposed
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, COUNT, EXACT, GIVEN_BEFORE, INTERVAL, RowArrays, Rows, RowsElsewhere
from pbdn.model.likelihood import log_probability
from pbdn.model.likelihood import softplus as softplus_of_array
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import internal, kernel
from pbdn.numerics.softplus import LOG_TINY, log_event_probability, softplus_logistic, softplus_only

ROWS_AT_ONCE = 8192  # of the plain log-likelihood


@internal
def row_log_likelihood(kind, exposure, copies, unit, rate, start_rate, hazard):
    """ln p of one (merged) row; rates at unit exposure, cumulative to the offset and to the interval's start.

    A row that says GIVEN_NOTHING has no exposure, and so w H(o) at once.
    """
    value = -(exposure - copies * unit) * rate if kind != COUNT else 0.0
    if kind == BEFORE:
        value += copies * log_event_probability(unit * rate)
    elif kind == INTERVAL:
        value += copies * (log_event_probability(unit * (rate - start_rate)) - unit * start_rate)
    elif kind == EXACT:
        value += copies * (max(np.log(max(unit * hazard, 1e-320)), LOG_TINY) - unit * rate)
    elif kind == COUNT and exposure > 0.0:
        weight = exposure / unit
        value += copies * max(np.log(max(unit * rate, 1e-320)), LOG_TINY) - exposure * rate
        value -= weight * math.lgamma(copies / weight + 1.0)
    elif kind == GIVEN_BEFORE:
        value = -copies * log_event_probability(unit * rate)
    return value


@kernel
def fill_distances(rows: RowArrays, planes, out):
    """ψ⁰_ik = x_i'β_k of all rows, without their offsets."""
    planes_t, none = transposed(planes), np.zeros(out.shape[0])
    for low in range(0, out.shape[0], BLOCK_ROWS):
        high = min(low + BLOCK_ROWS, out.shape[0])
        block_distances(rows.dense, rows.sparse, none, planes_t, low, high, out[low:high])


@kernel
def fill_rates(distances, which, stretch, log_times, weights, with_hazard, rate, hazard):
    """H_i(u) = Σ_k r_k s(c ψ⁰_ik + u_i) of the rows ``which``, and if wanted the hazard H_i'(u) = Σ_k r_k σ(c ψ⁰_ik + u_i)."""
    n_experts = distances.shape[1]
    room = np.empty((3, BLOCK_ROWS, n_experts))
    distance, soft, slope = room[0], room[1], room[2]
    for low in range(0, which.shape[0], BLOCK_ROWS):
        n = min(BLOCK_ROWS, which.shape[0] - low)
        for i in range(n):
            row, time = distances[which[low + i]], log_times[low + i]
            for k in range(n_experts):
                distance[i, k] = stretch * row[k] + time
        if with_hazard:
            softplus_logistic(n * n_experts, as_vector(distance), as_vector(soft), as_vector(slope))
            multiply(slope[:n], weights, hazard[low : low + n])
        else:
            softplus_only(n * n_experts, as_vector(distance), as_vector(soft))
        multiply(soft[:n], weights, rate[low : low + n])


@kernel
def sum_log_likelihood(kind, exposure, copies, unit, rate, start_rate, hazard):
    """Log-likelihood of rows from their rates, summed in blocks."""
    total = 0.0
    for low in range(0, kind.shape[0], BLOCK_ROWS):
        part = 0.0
        for i in range(low, min(low + BLOCK_ROWS, kind.shape[0])):
            part += row_log_likelihood(kind[i], exposure[i], copies[i], unit[i], rate[i], start_rate[i], hazard[i])
        total += part
    return total


def groups_of(rows: Rows) -> list[slice]:
    """The rows of every group of blocks."""
    size = rows.group_blocks * BLOCK_ROWS
    return [slice(low, min(low + size, rows.n_rows)) for low in range(0, rows.n_rows, size)]


def offset_sums(rows: Rows, center: float, power: int) -> FloatArray:
    """Σ (o_i - center)^power of every group of blocks."""
    return np.array([np.sum((rows.arrays.offset[own] - center) ** power) for own in groups_of(rows)])


class SideRates:
    """The rates of all rows under experts that stay as they are, at any log-times.

    Parameters
    ----------
    rows : Rows
    planes, weights : arrays
        β_k and r_k.
    """

    def __init__(self, rows: Rows, planes: FloatArray, weights: FloatArray) -> None:
        self.rows, self.weights = rows, weights
        self.distances = np.empty((rows.n_rows, len(weights)))
        fill_distances(rows.arrays, planes, self.distances)
        kind = rows.arrays.kind
        self.everywhere, self.intervals = np.arange(rows.n_rows), np.flatnonzero(kind == INTERVAL)
        self.has_exact = bool(np.any(kind == EXACT))

    def at(self, log_times: FloatArray, which: IntArray | None = None, stretch: float = 1.0) -> FloatArray:
        """H_i(u_i) of the rows ``which`` (None: of all), with hyperplanes c β, c = ``stretch``."""
        rate, rows = np.empty(len(log_times)), self.everywhere if which is None else which
        fill_rates(self.distances, rows, stretch, log_times, self.weights, False, rate, rate)
        return rate

    def log_likelihood(self, offset: FloatArray, start: FloatArray, stretch: float = 1.0, shrink: float = 1.0) -> float:
        """Log-likelihood of the rows watched up to ``offset``, with hyperplanes c β, c = ``stretch``, and weights r / ``shrink``."""
        return float(sum(self.parts(offset, start, stretch, shrink).tolist()))

    def timed_parts(self, scale: float, stretch: float) -> FloatArray:
        """Log-likelihood of every group of blocks, values y at the scale τ and hyperplanes c β; each exact value adds ln τ."""
        arrays = self.rows.arrays
        parts = self.parts(scale * arrays.offset, scale * arrays.start, stretch)
        return np.asarray(parts + self.n_exact * np.log(scale))

    @cached_property
    def n_exact(self) -> FloatArray:
        """Exact values of every group of blocks."""
        arrays = self.rows.arrays
        return np.array([arrays.copies[own][arrays.kind[own] == EXACT].sum() for own in groups_of(self.rows)])

    def parts(self, offset: FloatArray, start: FloatArray, stretch: float = 1.0, shrink: float = 1.0) -> FloatArray:
        """`log_likelihood` of every group of blocks: any split of the rows between groups has the same."""
        rate, start_rate, hazard = np.zeros((3, self.rows.n_rows))
        weights = self.weights / shrink
        fill_rates(self.distances, self.everywhere, stretch, offset, weights, self.has_exact, rate, hazard)
        if self.intervals.size:
            begun = np.empty(self.intervals.size)
            fill_rates(self.distances, self.intervals, stretch, start[self.intervals], weights, False, begun, begun)
            start_rate[self.intervals] = begun
        arrays = self.rows.arrays
        every = (arrays.kind, arrays.exposure, arrays.copies, arrays.unit, rate, start_rate, hazard)
        return np.array([sum_log_likelihood(*(one[own] for one in every)) for own in groups_of(self.rows)])


def log_likelihood(rows: Rows | RowsElsewhere, planes: FloatArray, weights: FloatArray) -> float:
    """Log-likelihood of the rows under experts with these hyperplanes and weights."""
    if not isinstance(rows, Rows):
        return sum(rows.log_likelihood_parts(planes, weights))
    if np.all(rows.arrays.kind <= BEFORE):  # asked for once in a chain, so that compiling for it would not pay
        return sum(binary_log_likelihood(rows, planes, weights))
    return SideRates(rows, planes, weights).log_likelihood(rows.arrays.offset, rows.arrays.start)


def binary_log_likelihood(rows: Rows, planes: FloatArray, weights: FloatArray) -> Iterator[float]:
    """Log-likelihood of rows that say NOTHING or BEFORE, in parts of many rows that each lie within one group of blocks."""
    arrays, size = rows.arrays, rows.group_blocks * BLOCK_ROWS
    inputs: Any = arrays.dense
    if arrays.sparse is not None:
        pointers, columns, values = arrays.sparse
        inputs = sp.csr_array((values, columns, pointers), shape=(pointers.size - 1, planes.shape[1]))
    lows = [low for group in range(0, rows.n_rows, size) for low in range(group, group + size, ROWS_AT_ONCE)]
    for low, high in pairwise([*(low for low in lows if low < rows.n_rows), rows.n_rows]):
        part = slice(low, high)
        copies, unit = arrays.copies[part], arrays.unit[part]
        rate = softplus_of_array(inputs[part] @ planes.T + arrays.offset[part, None]) @ weights
        event = np.maximum(log_probability(unit * rate), LOG_TINY)
        yield float(np.sum(copies * event - (arrays.exposure[part] - copies * unit) * rate))
