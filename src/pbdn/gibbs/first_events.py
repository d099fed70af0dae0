"""Phase A of `first_events` where every row is binary and alone: the usual case, done a block at a time in vector loops.

The law is that of `pbdn.gibbs.local.first_event`: expert j's first point lies where s(η_j) = E_j / (e r_j), E_j ~ Exp(1), and before
the offset if E_j < e r_j s(ψ_j). With the experts' masses laid end to end, the first E below its mass is an exponential
truncated to the whole length, later ones follow without memory; the earliest log-time δ_j = η_j - ψ_j wins.
"""

import numpy as np

from pbdn.gibbs.gram import as_matrix, multiply, transposed
from pbdn.gibbs.local import block_distances, choose_in_logs
from pbdn.gibbs.rows import BLOCK_ROWS, NOTHING
from pbdn.numerics.compiled import kernel, vectorised
from pbdn.numerics.elementary import (
    log_exp_minus_one,
    log_positive,
    minus_log_one_minus,
    one_minus_exp,
    unit_interval,
)
from pbdn.numerics.softplus import softplus_block
from pbdn.variates.stream import TABLES, exponential, fill_bits, open_stream

_TINY = np.finfo(float).tiny
_FAINT = 1e-290  # rates under which experts are chosen by logarithms


@vectorised
def truncated_exponentials(words, reach, n, position, spare):
    """position_j ~ Exp(1) given that it is below reach_j, and spare_j ~ Exp(1), from 2n random words."""
    for j in range(n):
        position[j] = minus_log_one_minus(unit_interval(words[j]) * one_minus_exp(reach[j]))
        spare[j] = -log_positive(unit_interval(words[n + j]))


@vectorised
def log_event_probability(reach, n):
    """Σ_j ln(1 - e^{-reach_j}), each term LOG_TINY at least."""
    total = 0.0
    for j in range(n):
        reach[j] = log_positive(max(one_minus_exp(reach[j]), _TINY))
    for j in range(n):
        total += reach[j]
    return total


@vectorised
def event_distances(soft, n):
    """soft_j ← η_j with s(η_j) = soft_j."""
    for j in range(n):
        soft[j] = log_exp_minus_one(max(soft[j], 1e-300))


@kernel
def draw_first_events(
    rows, planes, log_weights, active, key, sweep, first, last, buffer, watched, winner, n_tables, exposure_sum, log_lik
):
    """Phase A of `first_events` on blocks first ≤ b < last; arguments as `pbdn.gibbs.local.draw_events`.

    Writes per row also the expert of its event, ``winner``, -1 if it has none; its log-time is ``watched``.
    """
    exposure, offset, kind = rows.exposure, rows.offset, rows.kind
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    weights = np.empty((n_experts, 2))  # all experts, and the active ones alone
    for k in range(n_experts):
        weights[k, 0] = np.exp(log_weights[k])
        weights[k, 1] = weights[k, 0] * active[k]
    distance, soft = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    rates, sums = np.empty((BLOCK_ROWS, 2)), np.empty((2, n_experts))
    numbers = np.empty((6, BLOCK_ROWS))
    reach, active_reach, position, spare, eta = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    silent = numbers[5]
    words = np.empty(2 * BLOCK_ROWS + 2, np.uint64)
    place, expert = np.empty(BLOCK_ROWS, np.int64), np.empty(BLOCK_ROWS, np.int64)
    hit_event, hit_expert = np.empty(BLOCK_ROWS * n_experts, np.int64), np.empty(BLOCK_ROWS * n_experts, np.int64)
    hit_soft = np.empty(BLOCK_ROWS * n_experts)
    for block in range(first, last):
        low = block * BLOCK_ROWS
        n = min(BLOCK_ROWS, exposure.shape[0] - low)
        stream = open_stream(buffer, key, sweep, block, TABLES)
        block_distances(rows.dense, rows.sparse, offset, planes_t, low, low + n, distance)
        softplus_block(distance, n, soft)
        multiply(soft[:n], weights, rates[:n])
        block_log_lik = 0.0
        n_events = np.int64(0)
        for j in range(n):
            i = low + j
            watched[i], winner[i] = offset[i], -1
            if kind[i] == NOTHING:
                silent[j] = exposure[i]
                block_log_lik -= exposure[i] * rates[j, 1]
            else:
                silent[j] = 0.0
                place[n_events], reach[n_events] = j, exposure[i] * rates[j, 0]
                active_reach[n_events] = exposure[i] * rates[j, 1]
                n_events += 1
        multiply(as_matrix(silent, 1, n), soft[:n], sums[:1])
        block_log_lik += log_event_probability(active_reach, n_events)
        fill_bits(stream, words, 2 * n_events)
        truncated_exponentials(words, reach, n_events, position, spare)
        n_hits = np.int64(0)
        for at in range(n_events):
            j = place[at]
            expert[at], eta[at] = -1, np.inf
            if reach[at] < _FAINT:
                expert[at] = choose_in_logs(stream, log_weights, distance[j])
                eta[at] = distance[j, expert[at]] - exponential(stream)  # s(η) = e^η there
                continue
            begin, here, used = 0.0, position[at], False
            for k in range(n_experts):
                rate = exposure[low + j] * weights[k, 0]
                end = begin + rate * soft[j, k]
                if here < end:
                    hit_event[n_hits], hit_expert[n_hits] = at, k
                    hit_soft[n_hits] = (here - begin) / rate
                    n_hits += 1
                    here = end + (exponential(stream) if used else spare[at])
                    used = True
                begin = end
            if not used:  # the position was rounded up to the whole length: the event is at the offset itself
                most = -1.0
                for k in range(n_experts):
                    if weights[k, 0] * soft[j, k] > most:
                        most, expert[at] = weights[k, 0] * soft[j, k], k
                eta[at] = distance[j, expert[at]]
        event_distances(hit_soft, n_hits)
        for hit in range(n_hits):
            at, k = hit_event[hit], hit_expert[hit]
            psi = distance[place[at]]
            found = min(hit_soft[hit], psi[k])
            if expert[at] < 0 or found - psi[k] < eta[at] - psi[expert[at]]:
                expert[at], eta[at] = k, found
        for k in range(n_experts):
            n_tables[block, k] = 0.0
        for at in range(n_events):
            j, k = place[at], expert[at]
            earlier = eta[at] - distance[j, k]  # δ - o
            n_tables[block, k] += 1.0
            watched[low + j] = earlier + offset[low + j]
            winner[low + j] = k
            silent[at] = exposure[low + j]
            for i in range(n_experts):  # rows before j are done with: their place takes the rows cut short
                distance[at, i] = distance[j, i] + earlier
        softplus_block(distance, n_events, soft)
        multiply(as_matrix(silent, 1, n_events), soft[:n_events], sums[1:])
        for k in range(n_experts):
            exposure_sum[block, k] = sums[0, k] + sums[1, k]
        log_lik[block] = block_log_lik
