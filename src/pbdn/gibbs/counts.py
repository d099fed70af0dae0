"""Phase A of the paper's sampler, with rates θ and counts m kept per row.

θ_ik ~ Gamma(e_i r_k + m_ik, 1 + e^{-ψ_ik}) → m_i ~ Pois₊(θ_i·), split over experts → l_ik ~ CRT(m_ik, r_k) → (globals)
→ ω_ik ~ PG(m_ik + e_i r_k, ψ_ik). Same posterior as `event_times`; kept to reproduce the paper. Rows carry one copy each.
"""

import numpy as np

from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts
from pbdn.gibbs.log_likelihood import row_log_likelihood
from pbdn.gibbs.matrices import block_distances, transposed
from pbdn.gibbs.rows import BLOCK_ROWS, NOTHING, RowArrays
from pbdn.numerics.compiled import inlined, kernel
from pbdn.numerics.softplus import softplus
from pbdn.variates.counts import crt, multinomial_split, positive_poisson
from pbdn.variates.random_stream import TABLES, SweepStreams, log_gamma_variate, stream_at


@inlined
def draw_row_counts(stream, exposure, weights, psi, rates, counts):
    """θ given m, then m given θ and that it is not all zero, of one row; ``rates`` is scratch."""
    n_experts = weights.shape[0]
    top = -np.inf
    for k in range(n_experts):  # ln θ_ik; -ln(1 + e^{-ψ}) = ψ - s(ψ)
        shape = max(exposure * weights[k] + counts[k], 1e-300)
        rates[k] = log_gamma_variate(stream, shape) + psi[k] - softplus(psi[k])
        top = max(top, rates[k])
    total = 0.0
    for k in range(n_experts):
        rates[k] = np.exp(rates[k] - top)
        total += rates[k]
    m = positive_poisson(stream, total * np.exp(top))
    multinomial_split(stream, m, rates, counts)


@kernel
def draw_counts(rows: RowArrays, experts: Experts, streams: SweepStreams, blocks: Blocks, counts, sums: BlockSums):
    """Phase A of `counts` on some blocks; updates ``counts`` (n × K) of the rows with an event."""
    n_experts = experts.planes.shape[0]
    planes_t, weights = transposed(experts.planes), np.exp(experts.log_weights)
    distance, rates = np.empty((BLOCK_ROWS, n_experts)), np.empty(n_experts)
    for block in range(blocks.first, blocks.last):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        stream = stream_at(streams, block, TABLES)
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        n_tables, exposure_sum, block_log_lik = sums.n_tables[block], sums.exposure[block], 0.0
        n_tables[:] = 0.0
        exposure_sum[:] = 0.0
        for i in range(low, high):
            exposure, psi = rows.exposure[i], distance[i - low]
            active_rate = 0.0
            for k in range(n_experts):
                soft = softplus(psi[k])
                exposure_sum[k] += exposure * soft
                if experts.active[k]:
                    active_rate += weights[k] * soft
            block_log_lik += row_log_likelihood(
                rows.kind[i], exposure, rows.copies[i], rows.unit[i], active_rate, 0.0, 0.0
            )
            if rows.kind[i] == NOTHING:
                continue
            draw_row_counts(stream, exposure, weights, psi, rates, counts[i])
            for k in range(n_experts):
                if counts[i, k] > 0.0:
                    n_tables[k] += crt(stream, counts[i, k], max(exposure * weights[k], 1e-300))
        sums.log_lik[block] = block_log_lik
