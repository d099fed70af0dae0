"""Phase A of `first_events` where every row is binary and alone: the usual case, done a block at a time in vector loops.

The law is that of `pbdn.gibbs.event_times.first_event`: expert j's first point lies where s(η_j) = E_j / (e r_j), E_j ~ Exp(1),
and before the offset if E_j < e r_j s(ψ_j). With the experts' masses laid end to end, the first E below its mass is an
exponential truncated to the whole length, later ones follow without memory; the earliest log-time δ_j = η_j - ψ_j wins.
"""

from typing import NamedTuple

import numpy as np

from pbdn.gibbs.event_times import FAINT, choose_in_logs
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts
from pbdn.gibbs.matrices import as_matrix, block_distances, multiply, transposed
from pbdn.gibbs.rows import BLOCK_ROWS, NOTHING, RowArrays
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import inlined, internal, kernel, vectorised
from pbdn.numerics.elementary import log_positive, minus_log_one_minus, one_minus_exp, unit_interval
from pbdn.numerics.softplus import inverse_softplus_in_loops, log_event_probability_in_loops, softplus_block
from pbdn.variates.random_stream import TABLES, SweepStreams, exponential, fill_bits, stream_at


class EventRows(NamedTuple):
    """The rows of a block that had an event, in order."""

    place: IntArray  # in the block
    reach: FloatArray  # e λ, the length of all experts' masses laid end to end
    active_reach: FloatArray  # the same of the active experts
    position: FloatArray  # where on that length the first point lies
    spare: FloatArray  # an Exp(1) for the second
    expert: IntArray  # of the earliest point, -1 until one is found
    eta: FloatArray  # its signed distance


class Hits(NamedTuple):
    """First points of experts that lie before the offset of their row."""

    event: IntArray  # which of the `EventRows`
    expert: IntArray
    soft: FloatArray  # s(η), then η


@internal
def event_rows(size):
    """Memory for the rows of a block."""
    numbers = np.empty((5, size))
    return EventRows(
        np.empty(size, np.int64), numbers[0], numbers[1], numbers[2], numbers[3], np.empty(size, np.int64), numbers[4]
    )


@vectorised
def truncated_exponentials(words, reach, n, position, spare):
    """position_j ~ Exp(1) given that it is below reach_j, and spare_j ~ Exp(1), from 2n random words."""
    for j in range(n):
        position[j] = minus_log_one_minus(unit_interval(words[j]) * one_minus_exp(reach[j]))
        spare[j] = -log_positive(unit_interval(words[n + j]))


@vectorised
def sum_of_log_probabilities(reach, n):
    """Σ_j ln(1 - e^{-reach_j}), each term LOG_TINY at least; takes the memory of ``reach``."""
    total = 0.0
    for j in range(n):
        reach[j] = log_event_probability_in_loops(reach[j])
    for j in range(n):
        total += reach[j]
    return total


@vectorised
def event_distances(soft, n):
    """soft_j ← η_j with s(η_j) = soft_j."""
    for j in range(n):
        soft[j] = inverse_softplus_in_loops(max(soft[j], 1e-300))


@inlined
def find_hits(stream, exposure, weights, log_weights, distance, soft, events: EventRows, n_events, hits: Hits):
    """First points of the experts before the offset, as ``hits``; returns their number.

    An event without a hit has its expert and η at once: where rates underflow, or where rounding put the position at the end.
    """
    place, reach, _, position, spare, expert, eta = events
    hit_event, hit_expert, hit_soft = hits
    n_hits = np.int64(0)
    for at in range(n_events):
        j = place[at]
        expert[at], eta[at] = -1, np.inf
        if reach[at] < FAINT:
            expert[at] = choose_in_logs(stream, log_weights, distance[j])
            eta[at] = distance[j, expert[at]] - exponential(stream)  # s(η) = e^η there
            continue
        begin, here, used = 0.0, position[at], False
        for k in range(weights.shape[0]):
            rate = exposure[j] * weights[k, 0]
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
            for k in range(weights.shape[0]):
                if weights[k, 0] * soft[j, k] > most:
                    most, expert[at] = weights[k, 0] * soft[j, k], k
            eta[at] = distance[j, expert[at]]
    return n_hits


@inlined
def keep_earliest(distance, hits: Hits, n_hits, events: EventRows):
    """Give every event the hit of earliest log-time η - ψ."""
    place, _, _, _, _, expert, eta = events
    hit_event, hit_expert, hit_eta = hits
    for hit in range(n_hits):
        at, k = hit_event[hit], hit_expert[hit]
        psi = distance[place[at]]
        found = min(hit_eta[hit], psi[k])
        if expert[at] < 0 or found - psi[k] < eta[at] - psi[expert[at]]:
            expert[at], eta[at] = k, found


@kernel
def draw_first_events(
    rows: RowArrays, experts: Experts, streams: SweepStreams, blocks: Blocks, watched, winner, sums: BlockSums
):
    """Phase A of `first_events` on some blocks; arguments as `pbdn.gibbs.event_times.draw_events`.

    Writes per row also the expert of its event, ``winner``, -1 if it has none; its log-time is ``watched``.
    """
    offset, kind, log_weights = rows.offset, rows.kind, experts.log_weights
    n_experts = experts.planes.shape[0]
    planes_t = transposed(experts.planes)
    weights = np.empty((n_experts, 2))  # all experts, and the active ones alone
    for k in range(n_experts):
        weights[k, 0] = np.exp(log_weights[k])
        weights[k, 1] = weights[k, 0] * experts.active[k]
    distance, soft = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    rates, exposed = np.empty((BLOCK_ROWS, 2)), np.empty((2, n_experts))
    silent, words = np.empty(BLOCK_ROWS), np.empty(2 * BLOCK_ROWS + 2, np.uint64)
    events, size = event_rows(BLOCK_ROWS), BLOCK_ROWS * n_experts
    hits = Hits(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
    for block in range(blocks.first, blocks.last):
        low = block * BLOCK_ROWS
        n = min(BLOCK_ROWS, rows.exposure.shape[0] - low)
        exposure = rows.exposure[low : low + n]
        stream = stream_at(streams, block, TABLES)
        block_distances(rows.dense, rows.sparse, offset, planes_t, low, low + n, distance)
        softplus_block(distance, n, soft)
        multiply(soft[:n], weights, rates[:n])
        block_log_lik, n_events = 0.0, np.int64(0)
        for j in range(n):
            watched[low + j], winner[low + j] = offset[low + j], -1
            if kind[low + j] == NOTHING:
                silent[j] = exposure[j]
                block_log_lik -= exposure[j] * rates[j, 1]
            else:
                silent[j] = 0.0
                events.place[n_events], events.reach[n_events] = j, exposure[j] * rates[j, 0]
                events.active_reach[n_events] = exposure[j] * rates[j, 1]
                n_events += 1
        multiply(as_matrix(silent, 1, n), soft[:n], exposed[:1])
        sums.log_lik[block] = block_log_lik + sum_of_log_probabilities(events.active_reach, n_events)
        fill_bits(stream, words, 2 * n_events)
        truncated_exponentials(words, events.reach, n_events, events.position, events.spare)
        n_hits = find_hits(stream, exposure, weights, log_weights, distance, soft, events, n_events, hits)
        event_distances(hits.soft, n_hits)
        keep_earliest(distance, hits, n_hits, events)
        n_tables = sums.n_tables[block]
        n_tables[:] = 0.0
        for at in range(n_events):
            j, k = events.place[at], events.expert[at]
            earlier = events.eta[at] - distance[j, k]  # δ - o
            n_tables[k] += 1.0
            watched[low + j] = earlier + offset[low + j]
            winner[low + j] = k
            silent[at] = exposure[j]
            for i in range(n_experts):  # rows before j are done with: their place takes the rows cut short
                distance[at, i] = distance[j, i] + earlier
        softplus_block(distance, n_events, soft)
        multiply(as_matrix(silent, 1, n_events), soft[:n_events], exposed[1:])
        for k in range(n_experts):
            sums.exposure[block, k] = exposed[0, k] + exposed[1, k]
