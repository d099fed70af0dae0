"""Compiled likelihood and gradient of many sides on one minibatch, for dense and for CSR rows.

All sides are held side by side in one array ``parameters`` of shape (n_inputs + 2, n_experts of all sides):
row 0 is ln r_k, row 1 the bias, the rest the coefficients; side s owns columns ``starts[s]:starts[s + 1]``.
Row i is positive for side s when ``codes[i] == positive[s]``. Sides are visited in groups of at most
``BLOCK`` experts, so the cost is linear in their number and the working set stays in cache.

``rows`` is ``(X,)`` for dense rows and ``(data, indices, indptr)`` for CSR rows (only non-zeros are touched).
Reductions run in a fixed order: results do not depend on any thread count.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.extending import overload

from pbdn.sgd.elementary import LOG_LINEAR, TINY_RATE, bernoulli_poisson, softplus_logistic

Function = TypeVar("Function", bound=Callable[..., Any])

BLOCK = 192  # experts of one group of sides
TILE = 16  # rows or inputs whose products are formed together (even)

kernel: Callable[[Function], Function] = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"}
)


def project(rows: Any, index: Any, buffer: Any, parameters: Any, k0: Any, k1: Any, psi: Any) -> None:
    """ψ_ik = x_i'β_k for the rows ``index`` and the experts k0 <= k < k1."""


def accumulate(rows: Any, index: Any, buffer: Any, slope: Any, k0: Any, k1: Any, gradient: Any) -> None:
    """Add Σ_i x_i ∂f/∂ψ_ik to the gradient of the coefficients."""


def gather(rows: Any, index: Any, buffer: Any) -> None:
    """Copy the rows ``index`` into the contiguous buffer (dense rows only)."""


def specialise(function: Any) -> Callable[[Function], Function]:
    """Register a compiled body chosen by the kind of rows."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    register: Callable[[Function], Function] = overload(function, jit_options=options)
    return register


def _is_dense(rows: Any) -> bool:
    return len(rows) == 1


@specialise(gather)
def _gather(rows: Any, index: Any, buffer: Any) -> Any:
    def dense(rows: Any, index: Any, buffer: Any) -> None:
        table = rows[0]
        for i in range(index.shape[0]):
            row = index[i]
            for d in range(table.shape[1]):
                buffer[i, d] = table[row, d]

    def csr(rows: Any, index: Any, buffer: Any) -> None:
        pass

    return dense if _is_dense(rows) else csr


@specialise(project)
def _project(rows: Any, index: Any, buffer: Any, parameters: Any, k0: Any, k1: Any, psi: Any) -> Any:
    def dense(rows: Any, index: Any, buffer: Any, parameters: Any, k0: Any, k1: Any, psi: Any) -> None:
        n, n_inputs, width = index.shape[0], rows[0].shape[1], k1 - k0
        for i in range(n):
            for k in range(width):
                psi[i, k] = parameters[1, k0 + k]
        for top in range(0, n, TILE):  # tiles stay in the first-level cache; two rows by four inputs per load
            for d in range(0, n_inputs - 3, 4):
                for i in range(top, min(top + TILE, n) - 1, 2):
                    j = i + 1
                    a0, a1, a2, a3 = buffer[i, d], buffer[i, d + 1], buffer[i, d + 2], buffer[i, d + 3]
                    b0, b1, b2, b3 = buffer[j, d], buffer[j, d + 1], buffer[j, d + 2], buffer[j, d + 3]
                    for k in range(width):
                        p0, p1 = parameters[2 + d, k0 + k], parameters[3 + d, k0 + k]
                        p2, p3 = parameters[4 + d, k0 + k], parameters[5 + d, k0 + k]
                        psi[i, k] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                        psi[j, k] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
        first_left = n - n % 2
        for i in range(n):
            for d in range(n_inputs - n_inputs % 4 if i < first_left else 0, n_inputs):
                a0 = buffer[i, d]
                for k in range(width):
                    psi[i, k] += a0 * parameters[2 + d, k0 + k]

    def csr(rows: Any, index: Any, buffer: Any, parameters: Any, k0: Any, k1: Any, psi: Any) -> None:
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

    return dense if _is_dense(rows) else csr


@specialise(accumulate)
def _accumulate(rows: Any, index: Any, buffer: Any, slope: Any, k0: Any, k1: Any, gradient: Any) -> Any:
    def dense(rows: Any, index: Any, buffer: Any, slope: Any, k0: Any, k1: Any, gradient: Any) -> None:
        n, n_inputs, width = index.shape[0], rows[0].shape[1], k1 - k0
        for top in range(0, n_inputs, TILE):
            for i in range(0, n - 3, 4):
                for d in range(top, min(top + TILE, n_inputs) - 1, 2):
                    e = d + 1
                    a0, a1, a2, a3 = buffer[i, d], buffer[i + 1, d], buffer[i + 2, d], buffer[i + 3, d]
                    b0, b1, b2, b3 = buffer[i, e], buffer[i + 1, e], buffer[i + 2, e], buffer[i + 3, e]
                    for k in range(width):
                        g0, g1, g2, g3 = slope[i, k], slope[i + 1, k], slope[i + 2, k], slope[i + 3, k]
                        gradient[2 + d, k0 + k] += a0 * g0 + a1 * g1 + a2 * g2 + a3 * g3
                        gradient[2 + e, k0 + k] += b0 * g0 + b1 * g1 + b2 * g2 + b3 * g3
        first_left = n_inputs - n_inputs % 2
        for d in range(n_inputs):
            for i in range(n - n % 4 if d < first_left else 0, n):
                a0 = buffer[i, d]
                for k in range(width):
                    gradient[2 + d, k0 + k] += a0 * slope[i, k]

    def csr(rows: Any, index: Any, buffer: Any, slope: Any, k0: Any, k1: Any, gradient: Any) -> None:
        data, indices, indptr = rows
        for i in range(index.shape[0]):
            for j in range(indptr[index[i]], indptr[index[i] + 1]):
                a0, d0 = data[j], indices[j]
                for k in range(k1 - k0):
                    gradient[2 + d0, k0 + k] += a0 * slope[i, k]

    return dense if _is_dense(rows) else csr


@kernel
def log_softplus(psi: float, softplus: float) -> float:
    """ln s(ψ), also where s(ψ) underflows."""
    return psi if psi < LOG_LINEAR else math.log(softplus)


@kernel
def log_rate(log_weight: Any, psi: Any, softplus: Any, i: int, first: Any, last: Any) -> float:
    """ln λ of row i and the side with experts first <= k < last, by log-sum-exp."""
    highest = -math.inf
    for k in range(first, last):
        highest = max(highest, log_weight[k] + log_softplus(psi[i, k], softplus[i, k]))
    if not math.isfinite(highest):
        return highest
    total = 0.0
    for k in range(first, last):
        total += math.exp(log_weight[k] + log_softplus(psi[i, k], softplus[i, k]) - highest)
    return highest + math.log(total)


@kernel
def row_rate(weight: Any, softplus: Any, i: int, first: Any, last: Any) -> float:
    """λ_i = Σ_k r_k s(ψ_ik) of one side."""
    rate = 0.0
    for k in range(first, last):
        rate += weight[k] * softplus[i, k]
    return rate


@kernel
def link_slopes(
    n: int, side: int, end: int, index: Any, codes: Any, weights: Any, scale: float, positive: Any, rate: Any
) -> float:
    """Loss of n rows and the sides ``side`` to ``end``; turns λ in ``rate`` into w ∂f/∂λ.

    ∂f/∂λ = -1/(e^λ - 1) for a positive row, 1 otherwise. Positive rows with λ under TINY_RATE have no share
    in the loss yet and are marked by a NaN.
    """
    loss = 0.0
    for i in range(n):
        code, row_weight = codes[index[i]], scale * weights[index[i]]
        for s in range(end - side):
            value = rate[i, s]
            log_probability, inverse = bernoulli_poisson(value if value > TINY_RATE else TINY_RATE)
            is_positive = code == positive[side + s]
            slope = row_weight * (-inverse if is_positive else 1.0)
            loss_here = row_weight * (-log_probability if is_positive else value)
            is_tiny = is_positive and value < TINY_RATE and row_weight > 0.0
            rate[i, s] = math.nan if is_tiny else slope
            loss += 0.0 if is_tiny else loss_here
    return loss


@kernel
def tiny_rate_slopes(
    row_weight: float,
    log_weight: Any,
    psi: Any,
    softplus: Any,
    slope: Any,
    i: int,
    first: Any,
    last: Any,
    factor: Any,
) -> float:
    """Prepare a positive row with a rate under TINY_RATE for ``row_slopes``, in log space: ∂f/∂λ = -1/λ.

    The products r_k s(ψ_k)/λ and r_k σ(ψ_k)/λ replace s and σ, and the factor becomes minus the row's weight.
    Returns the loss -w ln λ.
    """
    log_total = log_rate(log_weight, psi, softplus, i, first, last)
    for k in range(first, last):
        log_logistic = psi[i, k] if psi[i, k] < LOG_LINEAR else math.log(slope[i, k])
        log_share = log_weight[k] - log_total
        softplus[i, k] = math.exp(log_share + log_softplus(psi[i, k], softplus[i, k]))
        slope[i, k] = math.exp(log_share + log_logistic)
        factor[k] = -row_weight
    return -row_weight * log_total


@kernel
def row_slopes(i: int, factor: Any, softplus: Any, slope: Any, k0: Any, k1: Any, gradient: Any) -> None:
    """Turn σ in ``slope`` into ∂f/∂ψ = factor σ; add ∂f/∂ln r = factor s and the bias term."""
    for k in range(k1 - k0):
        gradient[0, k0 + k] += factor[k] * softplus[i, k]
        slope[i, k] *= factor[k]
        gradient[1, k0 + k] += slope[i, k]


@kernel
def group_end(starts: Any, side: int) -> int:
    """First side after ``side`` whose experts no longer fit into one block."""
    end = side + 1
    while end < starts.shape[0] - 1 and starts[end + 1] - starts[side] <= BLOCK:
        end += 1
    return end


@kernel
def widest_group(starts: Any) -> Any:
    """Width of the workspace that the groups of sides need."""
    width = 1
    for side in range(starts.shape[0] - 1):
        width = max(width, starts[side + 1] - starts[side])
    return max(width, min(BLOCK, starts[-1]))


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
    buffer: Any,
    work: Any,
    gradient: Any,
) -> float:
    """Scaled negative log-likelihood of all sides on the rows ``index``; fills its gradient.

    ``buffer`` takes the gathered rows, ``work`` ψ, s, σ and what belongs to experts alone: shape
    (5, at least 3 and n_rows, widest group).
    """
    n = index.shape[0]
    psi, softplus, slope, rate = work[0], work[1], work[2], work[4]
    weight, factor, log_weight = work[3, 0], work[3, 1], work[3, 2]
    gradient[:] = 0.0
    gather(rows, index, buffer)
    loss = 0.0
    side = 0
    while side < starts.shape[0] - 1:
        end = group_end(starts, side)
        k0, k1 = np.uint64(starts[side]), np.uint64(starts[end])
        for k in range(k1 - k0):
            log_weight[k] = parameters[0, k0 + k]
            weight[k] = math.exp(log_weight[k])
        project(rows, index, buffer, parameters, k0, k1, psi)
        softplus_logistic(n, k1 - k0, psi, softplus, slope)
        for i in range(n):
            for s in range(side, end):
                first, last = np.uint64(starts[s]) - k0, np.uint64(starts[s + 1]) - k0
                rate[i, s - side] = row_rate(weight, softplus, i, first, last)
        loss += link_slopes(n, side, end, index, codes, weights, scale, positive, rate)
        for i in range(n):
            for s in range(side, end):
                first, last = np.uint64(starts[s]) - k0, np.uint64(starts[s + 1]) - k0
                link_slope = rate[i, s - side]
                for k in range(first, last):
                    factor[k] = link_slope * weight[k]
                if math.isnan(link_slope):
                    row_weight = scale * weights[index[i]]
                    loss += tiny_rate_slopes(row_weight, log_weight, psi, softplus, slope, i, first, last, factor)
            row_slopes(i, factor, softplus, slope, k0, k1, gradient)
        accumulate(rows, index, buffer, slope, k0, k1, gradient)
        side = end
    return loss


@kernel
def side_log_likelihood(
    rows: Any, codes: Any, weights: Any, parameters: Any, starts: Any, positive: Any, total: Any
) -> None:
    """Add the log-likelihood of every side over all rows of a block of data to ``total``."""
    batch = 64
    buffer = np.empty((batch, parameters.shape[0] - 2))
    work = np.empty((3, batch, widest_group(starts)))
    psi, softplus, logistic = work[0], work[1], work[2]
    log_weight, weight = parameters[0], np.exp(parameters[0])
    for begin in range(0, codes.shape[0], batch):
        index = np.arange(begin, min(begin + batch, codes.shape[0]))
        gather(rows, index, buffer)
        side = 0
        while side < starts.shape[0] - 1:
            end = group_end(starts, side)
            k0, k1 = np.uint64(starts[side]), np.uint64(starts[end])
            project(rows, index, buffer, parameters, k0, k1, psi)
            softplus_logistic(index.shape[0], k1 - k0, psi, softplus, logistic)
            for i in range(index.shape[0]):
                code, row_weight = codes[index[i]], weights[index[i]]
                for s in range(side, end):
                    first, last = np.uint64(starts[s]) - k0, np.uint64(starts[s + 1]) - k0
                    rate = row_rate(weight[k0:k1], softplus, i, first, last)
                    if row_weight == 0.0:
                        continue
                    if code != positive[s]:
                        total[s] -= row_weight * rate
                    elif rate >= TINY_RATE:
                        total[s] += row_weight * bernoulli_poisson(rate)[0]
                    else:
                        total[s] += row_weight * log_rate(log_weight[k0:k1], psi, softplus, i, first, last)
            side = end
