"""Compiled likelihood and gradient of many sides on one minibatch, for dense and for CSR rows.

All sides are held side by side in one array ``parameters`` of shape (n_inputs + 2, n_experts of all sides):
row 0 is ln r_k, row 1 the bias, the rest the coefficients; side s owns columns ``starts[s]:starts[s + 1]``.
Row i is positive for side s when ``codes[i] == positive[s]``; a negative ``positive[s]`` says
``codes[i] != -1 - positive[s]``. Rows are visited in tiles of ``TILE`` and sides in
groups of at most ``BLOCK`` experts, so the cost is linear in both and the working set stays in cache.

``rows`` is ``(X,)`` for dense rows, ``(data, indices, indptr)`` for CSR rows (only non-zeros are touched) and, in
passes without a gradient, ``(addresses, affine)`` for columns x standing for (x - affine[0]) affine[1].
Reductions run in a fixed order: results do not depend on any thread count.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.extending import overload

from pbdn.data.columns import column_sum
from pbdn.numerics.bernoulli_poisson import (
    EXP_FLOOR,
    LOG_LINEAR,
    TINY_RATE,
    bernoulli_poisson,
    softplus_logistic,
    softplus_only,
)
from pbdn.numerics.products import LANES, kernel, number_at, padded_size, product

Function = TypeVar("Function", bound=Callable[..., Any])

BLOCK = 192  # experts of one group of sides
TILE = 128  # rows of a minibatch that are worked on together
COLUMN = TILE + LANES  # length of a buffered column; not a multiple of 512 bytes, which would crowd the cache


class Work(NamedTuple):
    """Memory for one tile of rows and one group of sides; flat arrays are cut to the group's padded width."""

    buffer: Any  # rows with a leading one, (COLUMN, stride): see `row_stride`; or columns, (stride, COLUMN), if flat
    panel: Any  # hyperplanes of a group, or their gradient
    psi: Any
    softplus: Any
    slope: Any
    experts: Any  # (3, width): ln r, r, Σ ∂f/∂λ s
    rate: Any  # (TILE,) of one side
    row_weight: Any
    is_positive: Any


@kernel
def row_stride(n_inputs: int) -> Any:
    """Padded length of a buffered row; not a multiple of 512 bytes, which would crowd the cache."""
    stride = padded_size(n_inputs + 1)
    return stride + 8 if stride % 64 == 0 else stride


@kernel
def workspace(is_dense: bool, n_inputs: int, starts: Any) -> Any:
    """Memory that the kernels need for these sides."""
    width = 1
    for side in range(starts.shape[0] - 1):
        width = max(width, starts[side + 1] - starts[side])
    width = padded_size(max(width, min(BLOCK, starts[-1])))
    stride = row_stride(n_inputs) if is_dense else 1
    buffer = np.zeros((COLUMN, stride))
    buffer[:, 0] = 1.0
    panel = np.zeros(stride * width)
    psi, softplus, slope = np.zeros(TILE * width), np.zeros(TILE * width), np.zeros(TILE * width)
    row, is_positive = np.zeros((2, TILE)), np.zeros(TILE, np.bool_)
    return Work(buffer, panel, psi, softplus, slope, np.zeros((3, width)), row[0], row[1], is_positive)


def gather(rows: Any, index: Any, work: Any) -> None:
    """Copy the rows ``index`` behind the leading ones of the buffer (dense rows only)."""


def checksum(rows: Any, first: int, last: int) -> float:  # type: ignore[empty-body]
    """A sum that is not finite if a value in the rows ``first`` to ``last`` is not; zero for rows checked before."""


def project(rows: Any, index: Any, parameters: Any, k0: Any, k1: Any, work: Any, psi: Any) -> None:
    """ψ_ik = x_i'β_k for the rows ``index`` and the experts k0 <= k < k1; fills the padding with anything."""


def accumulate(rows: Any, index: Any, weight: Any, slope: Any, k0: Any, k1: Any, work: Any, gradient: Any) -> None:
    """Add r_k Σ_i x_i slope_ik to the gradient of the biases and coefficients."""


def specialise(function: Any) -> Callable[[Function], Function]:
    """Register a compiled body chosen by the kind of rows."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    register: Callable[[Function], Function] = overload(function, jit_options=options)
    return register


def _choose(rows: Any, dense: Any, csr: Any, columns: Any) -> Any:
    return (dense, columns, csr)[len(rows) - 1]


@specialise(gather)
def _gather(rows: Any, index: Any, work: Any) -> Any:
    def dense(rows: Any, index: Any, work: Any) -> None:
        table, buffer = rows[0], work.buffer
        for i in range(index.shape[0]):
            row = index[i]
            for d in range(table.shape[1]):
                buffer[i, d + 1] = table[row, d]

    def csr(rows: Any, index: Any, work: Any) -> None:
        pass

    def columns(rows: Any, index: Any, work: Any) -> None:
        addresses, affine = rows
        n, buffer = index.shape[0], work.buffer.reshape(-1)
        first, is_run = index[0], index[n - 1] - index[0] == n - 1
        buffer[:n] = 1.0
        for d in range(addresses.shape[0]):
            start, center, factor = addresses[d], affine[0, d], affine[1, d]
            column = buffer[(d + 1) * COLUMN : (d + 2) * COLUMN]
            if is_run:
                for i in range(n):
                    column[i] = (number_at(start, first + i) - center) * factor
            else:
                for i in range(n):
                    column[i] = (number_at(start, index[i]) - center) * factor

    return _choose(rows, dense, csr, columns)


@specialise(checksum)
def _checksum(rows: Any, first: int, last: int) -> Any:
    def checked(rows: Any, first: int, last: int) -> float:
        return 0.0

    def columns(rows: Any, first: int, last: int) -> float:
        return column_sum(rows[0], first, last)

    return _choose(rows, checked, checked, columns)


@kernel
def fill_panel(depth: int, parameters: Any, k0: Any, k1: Any, width: int, panel: Any) -> None:
    """Hyperplanes k0 <= k < k1 side by side in rows of ``width``."""
    table = panel[: depth * width].reshape((-1, width))
    for d in range(depth):
        for k in range(k1 - k0):
            table[d, k] = parameters[1 + d, k0 + k]


@specialise(project)
def _project(rows: Any, index: Any, parameters: Any, k0: Any, k1: Any, work: Any, psi: Any) -> Any:
    def dense(rows: Any, index: Any, parameters: Any, k0: Any, k1: Any, work: Any, psi: Any) -> None:
        n, depth, stride = index.shape[0], rows[0].shape[1] + 1, work.buffer.shape[1]
        width = psi.shape[1]
        fill_panel(depth, parameters, k0, k1, width, work.panel)
        product(padded_size(n), width, depth, work.buffer, stride, 1, work.panel, width, psi, width)

    def csr(rows: Any, index: Any, parameters: Any, k0: Any, k1: Any, work: Any, psi: Any) -> None:
        data, indices, indptr = rows
        width = k1 - k0
        for i in range(index.shape[0]):
            for k in range(width):
                psi[i, k] = parameters[1, k0 + k]
            j, end = indptr[index[i]], indptr[index[i] + 1]
            while j + 3 < end:
                a0, a1, a2, a3 = data[j], data[j + 1], data[j + 2], data[j + 3]
                d0, d1, d2, d3 = indices[j], indices[j + 1], indices[j + 2], indices[j + 3]
                for k in range(width):
                    psi[i, k] += (
                        a0 * parameters[2 + d0, k0 + k]
                        + a1 * parameters[2 + d1, k0 + k]
                        + a2 * parameters[2 + d2, k0 + k]
                        + a3 * parameters[2 + d3, k0 + k]
                    )
                j += 4
            while j < end:
                a0, d0 = data[j], indices[j]
                for k in range(width):
                    psi[i, k] += a0 * parameters[2 + d0, k0 + k]
                j += 1

    def columns(rows: Any, index: Any, parameters: Any, k0: Any, k1: Any, work: Any, psi: Any) -> None:
        n, depth, width = index.shape[0], rows[0].shape[0] + 1, psi.shape[1]
        fill_panel(depth, parameters, k0, k1, width, work.panel)
        product(padded_size(n), width, depth, work.buffer, 1, COLUMN, work.panel, width, psi, width)

    return _choose(rows, dense, csr, columns)


@specialise(accumulate)
def _accumulate(rows: Any, index: Any, weight: Any, slope: Any, k0: Any, k1: Any, work: Any, gradient: Any) -> Any:
    def dense(rows: Any, index: Any, weight: Any, slope: Any, k0: Any, k1: Any, work: Any, gradient: Any) -> None:
        n, depth, stride = index.shape[0], rows[0].shape[1] + 1, work.buffer.shape[1]
        width = slope.shape[1]
        panel = work.panel[: work.buffer.shape[1] * width].reshape((-1, width))
        product(padded_size(depth), width, n, work.buffer, 1, stride, slope, width, panel, width)
        for d in range(depth):
            for k in range(k1 - k0):
                gradient[1 + d, k0 + k] += weight[k] * panel[d, k]

    def csr(rows: Any, index: Any, weight: Any, slope: Any, k0: Any, k1: Any, work: Any, gradient: Any) -> None:
        data, indices, indptr = rows
        for i in range(index.shape[0]):
            for k in range(k1 - k0):
                slope[i, k] *= weight[k]
                gradient[1, k0 + k] += slope[i, k]
            for j in range(indptr[index[i]], indptr[index[i] + 1]):
                a0, d0 = data[j], indices[j]
                for k in range(k1 - k0):
                    gradient[2 + d0, k0 + k] += a0 * slope[i, k]

    return _choose(rows, dense, csr, None)


@kernel
def log_softplus(psi: float, softplus: float) -> float:
    """ln s(ψ), also where s(ψ) underflows."""
    return psi if psi < LOG_LINEAR else math.log(softplus)


@kernel
def log_rate(log_weight: Any, psi: Any, softplus: Any) -> float:
    """ln λ of one row and the experts of ``log_weight``, by log-sum-exp."""
    highest = -math.inf
    for k in range(log_weight.shape[0]):
        highest = max(highest, log_weight[k] + log_softplus(psi[k], softplus[k]))
    if not math.isfinite(highest):
        return highest
    total = 0.0
    for k in range(log_weight.shape[0]):
        total += math.exp(log_weight[k] + log_softplus(psi[k], softplus[k]) - highest)
    return highest + math.log(total)


@kernel
def row_rate(weight: Any, softplus: Any, i: int, first: Any, last: Any) -> float:
    """λ_i = Σ_k r_k s(ψ_ik) of one side."""
    rate = 0.0
    for k in range(first, last):
        rate += weight[k] * softplus[i, k]
    return rate


@kernel
def link_slopes(n: int, is_positive: Any, row_weight: Any, rate: Any) -> float:
    """Loss of n rows for one side; turns λ in ``rate`` into w ∂f/∂λ.

    ∂f/∂λ = -1/(e^λ - 1) for a positive row, 1 otherwise. Positive rows with λ under TINY_RATE have no share
    in the loss yet and are marked by a NaN.
    """
    loss = 0.0
    for i in range(n):
        value = rate[i]
        log_probability, inverse = bernoulli_poisson(value if value > TINY_RATE else TINY_RATE)
        is_tiny = is_positive[i] and value < TINY_RATE and row_weight[i] > 0.0
        loss_here = row_weight[i] * (-log_probability if is_positive[i] else value)
        loss += 0.0 if is_tiny else loss_here
        rate[i] = math.nan if is_tiny else row_weight[i] * (-inverse if is_positive[i] else 1.0)
    return loss


@kernel
def tiny_rate_slopes(log_weight: Any, psi: Any, softplus: Any, slope: Any) -> float:
    """Replace s and σ of a positive row with a rate under TINY_RATE by s/λ and σ/λ, in log space; returns ln λ.

    There ∂f/∂λ = -1/λ.
    """
    log_total = log_rate(log_weight, psi, softplus)
    for k in range(log_weight.shape[0]):
        log_logistic = psi[k] if psi[k] < LOG_LINEAR else math.log(slope[k])
        softplus[k] = math.exp(min(log_softplus(psi[k], softplus[k]) - log_total, -EXP_FLOOR))
        slope[k] = math.exp(min(log_logistic - log_total, -EXP_FLOOR))
    return log_total


@kernel
def row_slopes(link_slope: float, i: int, first: Any, last: Any, softplus: Any, slope: Any, by_weight: Any) -> None:
    """Turn σ in ``slope`` into ∂f/∂λ σ and add ∂f/∂λ s, for row i and the experts of one side."""
    for k in range(first, last):
        by_weight[k] += link_slope * softplus[i, k]
        slope[i, k] *= link_slope


@kernel
def group_end(starts: Any, side: int) -> int:
    """First side after ``side`` whose experts no longer fit into one block."""
    end = side + 1
    while end < starts.shape[0] - 1 and starts[end + 1] - starts[side] <= BLOCK:
        end += 1
    return end


@kernel
def batch_gradient(
    rows: Any,
    index: Any,
    codes: Any,
    weights: Any,
    scale: float,
    parameters: Any,
    starts: Any,
    positive: Any,
    work: Any,
    gradient: Any,
) -> float:
    """Scaled negative log-likelihood of all sides on the rows ``index``; fills its gradient."""
    gradient[:] = 0.0
    loss = 0.0
    for begin in range(0, index.shape[0], TILE):
        tile = index[begin : min(begin + TILE, index.shape[0])]
        gather(rows, tile, work)
        side = 0
        while side < starts.shape[0] - 1:
            end = group_end(starts, side)
            loss += _group_gradient(
                rows, tile, codes, weights, scale, parameters, starts, positive, side, end, work, gradient
            )
            side = end
    return loss


@kernel
def _group_gradient(
    rows: Any,
    index: Any,
    codes: Any,
    weights: Any,
    scale: float,
    parameters: Any,
    starts: Any,
    positive: Any,
    side: int,
    end: int,
    work: Any,
    gradient: Any,
) -> float:
    """Loss of one tile of rows and the sides ``side`` to ``end``; adds its gradient."""
    n, k0, k1 = index.shape[0], np.uint64(starts[side]), np.uint64(starts[end])
    width = padded_size(starts[end] - starts[side])
    size = padded_size(n) * width
    psi = work.psi[:size].reshape((-1, width))
    softplus = work.softplus[:size].reshape((-1, width))
    slope = work.slope[:size].reshape((-1, width))
    row_weight, log_weight, weight, by_weight = work.row_weight, work.experts[0], work.experts[1], work.experts[2]
    for k in range(k1 - k0):
        log_weight[k] = parameters[0, k0 + k]
        weight[k] = math.exp(log_weight[k])
        by_weight[k] = 0.0
    project(rows, index, parameters, k0, k1, work, psi)
    softplus_logistic(n * width, work.psi, work.softplus, work.slope)
    for i in range(n):
        row_weight[i] = scale * weights[index[i]]
    loss = 0.0
    for s in range(side, end):
        first, last = np.uint64(starts[s]) - k0, np.uint64(starts[s + 1]) - k0
        rate, is_positive = work.rate, work.is_positive
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, first, last)
            code = codes[index[i]]
            is_positive[i] = code == positive[s] if positive[s] >= 0 else code != -1 - positive[s]
        loss += link_slopes(n, is_positive, row_weight, rate)
        for i in range(n):
            if math.isnan(rate[i]):
                own = log_weight[first:last], psi[i, first:last], softplus[i, first:last], slope[i, first:last]
                loss -= row_weight[i] * tiny_rate_slopes(*own)
                rate[i] = -row_weight[i]
            row_slopes(rate[i], i, first, last, softplus, slope, by_weight)
    for k in range(k1 - k0):
        gradient[0, k0 + k] += weight[k] * by_weight[k]
    accumulate(rows, index, weight, slope, k0, k1, work, gradient)
    return loss


@kernel
def side_log_likelihood(
    rows: Any, codes: Any, weights: Any, parameters: Any, starts: Any, positive: Any, work: Any, total: Any
) -> float:
    """Add the log-likelihood of every side over all rows of a block of data to ``total``; returns their `checksum`."""
    log_weight, weight, check = parameters[0], np.exp(parameters[0]), 0.0
    rate, log_probability = work.rate, work.row_weight
    for begin in range(0, codes.shape[0], TILE):
        index = np.arange(begin, min(begin + TILE, codes.shape[0]))
        check += checksum(rows, begin, min(begin + TILE, codes.shape[0]))
        gather(rows, index, work)
        side = 0
        while side < starts.shape[0] - 1:
            end = group_end(starts, side)
            k0, k1 = np.uint64(starts[side]), np.uint64(starts[end])
            width = padded_size(starts[end] - starts[side])
            size = padded_size(index.shape[0]) * width
            psi, softplus = work.psi[:size].reshape((-1, width)), work.softplus[:size].reshape((-1, width))
            project(rows, index, parameters, k0, k1, work, psi)
            softplus_only(index.shape[0] * width, work.psi, work.softplus)
            for s in range(side, end):
                first, last = np.uint64(starts[s]) - k0, np.uint64(starts[s + 1]) - k0
                for i in range(index.shape[0]):
                    rate[i] = row_rate(weight[k0:k1], softplus, i, first, last)
                for i in range(index.shape[0]):
                    log_probability[i] = bernoulli_poisson(rate[i] if rate[i] > TINY_RATE else TINY_RATE)[0]
                for i in range(index.shape[0]):
                    code, row_weight = codes[index[i]], weights[index[i]]
                    if row_weight == 0.0:
                        continue
                    if (code != positive[s]) if positive[s] >= 0 else (code == -1 - positive[s]):
                        total[s] -= row_weight * rate[i]
                    elif rate[i] >= TINY_RATE:
                        total[s] += row_weight * log_probability[i]
                    else:
                        own = log_weight[starts[s] : starts[s + 1]]
                        total[s] += row_weight * log_rate(own, psi[i, first:last], softplus[i, first:last])
            side = end
    return check
