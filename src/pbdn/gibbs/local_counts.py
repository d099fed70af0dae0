"""The local step of the paper's sampler, with rates θ and counts m kept per row.

θ_ik ~ Gamma(e_i r_k + m_ik, 1 + e^{-ψ_ik}) → m_i ~ Pois₊(θ_i·), split over experts → l_ik ~ CRT(m_ik, r_k) → (globals)
→ ω_ik ~ PG(m_ik + e_i r_k, ψ_ik). Same posterior as `local`; kept to reproduce the paper. Rows carry one copy each.
"""

import numpy as np

from pbdn.gibbs.gram import add_block, as_vector, gram_scratch, transposed
from pbdn.gibbs.local import block_distances, row_log_likelihood
from pbdn.gibbs.rows import BLOCK_ROWS, NOTHING
from pbdn.numerics.compiled import internal, kernel
from pbdn.numerics.softplus import softplus
from pbdn.variates.crt import crt
from pbdn.variates.gamma import log_gamma_variate
from pbdn.variates.poisson import multinomial_split, positive_poisson
from pbdn.variates.polyagamma_block import block_work, polya_gamma_block
from pbdn.variates.stream import PG_WEIGHTS, TABLES, open_stream


@kernel
def draw_counts(
    rows, planes, log_weights, active, key, sweep, first, last, buffer, counts, n_tables, exposure_sum, log_lik
):
    """Phase A of `counts` on blocks first ≤ b < last; updates ``counts`` (n × K) of the rows with an event."""
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    weights = np.exp(log_weights)
    distance = np.empty((BLOCK_ROWS, n_experts))
    log_rates, rates = np.empty(n_experts), np.empty(n_experts)
    for block in range(first, last):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        stream = open_stream(buffer, key, sweep, block, TABLES)
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        for k in range(n_experts):
            n_tables[block, k] = 0.0
            exposure_sum[block, k] = 0.0
        block_log_lik = 0.0
        for i in range(low, high):
            exposure = rows.exposure[i]
            active_rate = 0.0
            for k in range(n_experts):
                soft = softplus(distance[i - low, k])
                exposure_sum[block, k] += exposure * soft
                if active[k]:
                    active_rate += weights[k] * soft
            block_log_lik += row_log_likelihood(
                rows.kind[i], exposure, rows.copies[i], rows.unit[i], active_rate, 0.0, 0.0
            )
            if rows.kind[i] == NOTHING:
                continue
            top = -np.inf
            for k in range(n_experts):  # ln θ_ik; -ln(1 + e^{-ψ}) = ψ - s(ψ)
                psi = distance[i - low, k]
                shape = max(exposure * weights[k] + counts[i, k], 1e-300)
                log_rates[k] = log_gamma_variate(stream, shape) + psi - softplus(psi)
                top = max(top, log_rates[k])
            total = 0.0
            for k in range(n_experts):
                rates[k] = np.exp(log_rates[k] - top)
                total += rates[k]
            m = positive_poisson(stream, total * np.exp(top))
            multinomial_split(stream, m, rates, counts[i])
            for k in range(n_experts):
                if counts[i, k] > 0.0:
                    n_tables[block, k] += crt(stream, counts[i, k], max(exposure * weights[k], 1e-300))
        log_lik[block] = block_log_lik


@internal
def draw_count_weights(rows, planes_t, weights, counts, block, key, sweep, buffer, distance, work, pg_weights, linear):
    """ω_ik ~ PG(m_ik + e_i r_k, ψ_ik) and ½(m_ik - e_i r_k) - ω_ik o_i of one block. Returns first row and number."""
    low = block * BLOCK_ROWS
    n = min(BLOCK_ROWS, rows.exposure.shape[0] - low)
    stream = open_stream(buffer, key, sweep, block, PG_WEIGHTS)
    block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, low + n, distance)
    n_experts = weights.shape[0]
    for i in range(n):
        for k in range(n_experts):
            linear[i, k] = counts[low + i, k] + rows.exposure[low + i] * weights[k]
    polya_gamma_block(stream, as_vector(linear), as_vector(distance), n * n_experts, work, as_vector(pg_weights))
    for i in range(n):
        for k in range(n_experts):
            base = rows.exposure[low + i] * weights[k]
            linear[i, k] = 0.5 * (counts[low + i, k] - base) - pg_weights[i, k] * rows.offset[low + i]
    return low, n


@kernel
def sum_count_statistics(rows, planes, weights, counts, key, sweep, first, last, group_blocks, buffer, gram, moment):
    """Phase B of `counts` on blocks first ≤ b < last: add to gram[group] and moment[group]."""
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    distance, work = np.empty((BLOCK_ROWS, n_experts)), block_work(BLOCK_ROWS * n_experts)
    pg_weights = np.empty((BLOCK_ROWS, n_experts))
    linear = np.empty((BLOCK_ROWS, n_experts))
    scratch, result = gram_scratch(planes.shape[1], n_experts)
    for block in range(first, last):
        low, n = draw_count_weights(
            rows, planes_t, weights, counts, block, key, sweep, buffer, distance, work, pg_weights, linear
        )
        group = block // group_blocks
        add_block(rows.dense, rows.sparse, low, n, pg_weights, linear, scratch, result, gram[group], moment[group])


@kernel
def row_count_statistics(rows, planes, weights, counts, key, sweep, buffer, pg_weights, linear):
    """Phase B where there are fewer rows than inputs."""
    planes_t = transposed(planes)
    distance, work = np.empty((BLOCK_ROWS, planes.shape[0])), block_work(BLOCK_ROWS * planes.shape[0])
    for block in range((rows.exposure.shape[0] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        low = block * BLOCK_ROWS
        draw_count_weights(
            rows, planes_t, weights, counts, block, key, sweep, buffer, distance, work, pg_weights[low:], linear[low:]
        )
