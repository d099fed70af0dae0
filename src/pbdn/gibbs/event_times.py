"""Phase A, row by row: all tables of the rows that had events (`event_times`), or the first one only (`first_events`).

Serves every kind of row, merged rows too; where all are binary and alone, `pbdn.gibbs.first_events` does the same faster.

*First events.* Given the process with cumulative rate H_i(u), y_i = 1 says that its first point lies before o_i. Keeping only
that point (expert k, log-time δ) the row's likelihood is r_k σ(x'β_k + δ) e^{-H_i(δ)}: one table, and the base watched up to
δ instead of o_i. The tables of `event_times` refine this augmentation, so with fewer latent variables the same posterior is
reached in fewer sweeps, and the Polya-Gamma variable of the event is drawn together with that of the base
(`pbdn.gibbs.polya_gamma_weights`).
"""

from typing import NamedTuple

import numpy as np

from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts, Tables
from pbdn.gibbs.log_likelihood import row_log_likelihood
from pbdn.gibbs.matrices import transposed
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, EXACT, INTERVAL, NOTHING, RowArrays
from pbdn.gibbs.signed_distances import block_distances
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import inlined, internal, kernel
from pbdn.numerics.softplus import inverse_softplus, log_softplus, softplus, softplus_block
from pbdn.variates.crt import table_distance
from pbdn.variates.poisson import choose, positive_poisson
from pbdn.variates.polya_gamma import polya_gamma
from pbdn.variates.random_stream import TABLES, SweepStreams, exponential, stream_at, uniform

FAINT = 1e-290  # rates under which experts are chosen by logarithms
_FIRST_CAPACITY = 1024  # tables, before their arrays grow


class RowRates(NamedTuple):
    """One row and every expert, in memory that the next row takes over."""

    psi: FloatArray  # signed distance
    soft: FloatArray  # s(ψ)
    mass: FloatArray  # rate of the row's event
    low_soft: FloatArray  # s where the row's interval begins, 0 if it has none


@internal
def choose_in_logs(stream, log_weights, distance):
    """Expert with probability ∝ r_k s(ψ_k) where those underflow."""
    n_experts = distance.shape[0]
    level = np.empty(n_experts)
    top = -np.inf
    for k in range(n_experts):
        level[k] = log_weights[k] + log_softplus(distance[k], softplus(distance[k]))
        top = max(top, level[k])
    if top == -np.inf:
        return int(uniform(stream) * n_experts)
    whole = 0.0
    for k in range(n_experts):
        level[k] = np.exp(level[k] - top)
        whole += level[k]
    return choose(stream, level, whole)


@internal
def first_event(stream, mass, low_soft, weights, unit, psi, whole):
    """The first point of the row's process before its offset, given that there is one: (expert, η).

    Expert j's first point is at s(η_j) = low_soft_j + E_j / (e r_j), E_j ~ Exp(1), and lies before the offset if
    E_j < e mass_j, with e the exposure ``unit`` and ``whole`` = Σ_j mass_j.
    Laying the experts' masses end to end, the first E below its mass is a truncated exponential on the whole
    length, later ones follow without memory; only experts with a point cost anything. The earliest δ_j = η_j - ψ_j wins.
    """
    reach = unit * whole
    if reach > 0.01:  # E given E < e whole; the plain functions are twice as fast and accurate enough here
        position = -np.log(1.0 - uniform(stream) * (1.0 - np.exp(-reach)))
    else:
        position = -np.log1p(uniform(stream) * np.expm1(-reach))
    best, best_eta, best_delta = -1, 0.0, np.inf
    begin = 0.0
    for k in range(mass.shape[0]):
        end = begin + unit * mass[k]
        if position < end:
            eta = inverse_softplus(low_soft[k] + (position - begin) / (unit * weights[k]))
            if eta - psi[k] < best_delta:
                best, best_eta, best_delta = k, eta, eta - psi[k]
            position = end + exponential(stream)
        begin = end
    if best < 0:  # the position was rounded up to the whole length: the event is at the offset itself
        best = int(np.argmax(mass))
        return best, psi[best]
    return best, min(best_eta, psi[best])


@inlined
def fill_masses(rows: RowArrays, i, weights, active, row: RowRates):
    """The rates by which the experts cause the event of row i, in ``row.mass``; returns their sum, and ln p of the row.

    That is r_k s(ψ_k) for an event before the offset, r_k (s(ψ_k) - s(ψ_k - offset + start)) for one in an interval, and the
    hazard r_k σ(ψ_k) for one at the offset itself. The log-likelihood is that of the active experts.
    """
    kind, offset = rows.kind[i], rows.offset[i]
    psi, soft, mass, low_soft = row
    whole, active_rate, active_start, active_hazard = 0.0, 0.0, 0.0, 0.0
    for k in range(weights.shape[0]):
        low_soft[k], mass[k] = 0.0, weights[k] * soft[k]
        active_rate += mass[k] * active[k]
        if kind == INTERVAL:
            low_soft[k] = softplus(psi[k] - offset + rows.start[i])
            active_start += weights[k] * low_soft[k] * active[k]
            mass[k] = weights[k] * (soft[k] - low_soft[k])
        elif kind == EXACT:
            mass[k] = weights[k] * np.exp(psi[k] - soft[k])
            active_hazard += mass[k] * active[k]
        whole += mass[k]
    value = row_log_likelihood(
        kind, rows.exposure[i], rows.copies[i], rows.unit[i], active_rate, active_start, active_hazard
    )
    return whole, value


@inlined
def number_of_tables(stream, rows: RowArrays, i, whole):
    """How many tables row i has: n ~ Pois₊(e λ) for every copy that says "an event"; those counted or timed have one each.

    The fractional part of a weight is a copy with that probability.
    """
    copies = np.floor(rows.copies[i])
    if rows.copies[i] > copies and uniform(stream) < rows.copies[i] - copies:
        copies += 1.0
    if rows.kind[i] not in (BEFORE, INTERVAL):
        return copies
    count = 0.0
    for _ in range(int(copies)):
        count += positive_poisson(stream, rows.unit[i] * whole)
    return count


@inlined
def draw_table(stream, rows: RowArrays, i, alone, log_weights, weights, row: RowRates, whole):
    """Expert and signed distance η of one table of row i, or of its first one if the row is ``alone``."""
    kind = rows.kind[i]
    if whole < FAINT:
        k = choose_in_logs(stream, log_weights, row.psi)
        eta = row.psi[k]
        if kind in (BEFORE, INTERVAL):
            eta -= exponential(stream)  # s(η) = e^η there
    elif alone:
        k, eta = first_event(stream, row.mass, row.low_soft, weights, rows.unit[i], row.psi, whole)
    else:
        k = choose(stream, row.mass, whole)
        eta = row.psi[k]
        if kind != EXACT:
            eta = min(eta, table_distance(stream, row.low_soft[k], row.soft[k]))
    return k, eta


@internal
def stands_alone(rows: RowArrays, i):
    """Whether row i says that one thing happened by some time, for one copy of itself: its first event is enough."""
    return rows.kind[i] in (BEFORE, INTERVAL) and rows.copies[i] == 1.0 and rows.exposure[i] == rows.unit[i]


@internal
def empty_tables(first, n_blocks, capacity):
    """Memory for tables."""
    row, expert = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    return Tables(row, expert, np.empty(capacity), np.empty(capacity), np.empty(n_blocks, np.int64), first)


@internal
def longer(tables: Tables, size, capacity):
    """The first ``size`` tables in more memory."""
    more = empty_tables(tables.first, 0, capacity)
    more.row[:size], more.expert[:size] = tables.row[:size], tables.expert[:size]
    more.pg_weight[:size], more.linear[:size] = tables.pg_weight[:size], tables.linear[:size]
    return Tables(more.row, more.expert, more.pg_weight, more.linear, tables.ends, tables.first)


@internal
def add_exposure(exposure, soft, out):
    """out_k += e s(ψ_k)."""
    for k in range(out.shape[0]):
        out[k] += exposure * soft[k]


@kernel
def draw_events(
    first_only, rows: RowArrays, experts: Experts, streams: SweepStreams, blocks: Blocks, watched, sums: BlockSums
):
    """Phase A of `event_times` (all tables) and `first_events` on some blocks.

    For each row with an event: n ~ Pois₊(λ_i) tables, each picking expert k ∝ r_k s(ψ_ik) and a distance
    η = ln(e^{U s(ψ)} - 1); or the first of them alone. The log-time δ = η - x'β is fixed from here on, ω ~ PG(1, η)
    is drawn at once.

    Writes per row: ``watched``, the log-time o_i up to which the row's base process counts. Per block: ``sums``. Returns the
    `Tables`.
    """
    n_experts = experts.planes.shape[0]
    log_weights, active = experts.log_weights, experts.active
    planes_t, weights = transposed(experts.planes), np.exp(log_weights)
    distance, soft_block = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    mass, low_soft = np.empty(n_experts), np.empty(n_experts)
    cut_rows = np.empty(BLOCK_ROWS, np.int64)
    size, capacity = 0, _FIRST_CAPACITY
    tables = empty_tables(blocks.first, blocks.last - blocks.first, capacity)
    for block in range(blocks.first, blocks.last):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        stream = stream_at(streams, block, TABLES)
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        softplus_block(distance, high - low, soft_block)
        n_tables, exposure_sum, block_log_lik = sums.n_tables[block], sums.exposure[block], 0.0
        n_tables[:] = 0.0
        exposure_sum[:] = 0.0
        n_cut = np.int64(0)
        for i in range(low, high):
            psi, offset = distance[i - low], rows.offset[i]
            row = RowRates(psi, soft_block[i - low], mass, low_soft)
            whole, value = fill_masses(rows, i, weights, active, row)
            block_log_lik += value
            watched[i] = offset
            if rows.kind[i] == NOTHING:
                add_exposure(rows.exposure[i], row.soft, exposure_sum)
                continue
            alone = first_only and stands_alone(rows, i)
            count = 1.0 if alone else number_of_tables(stream, rows, i, whole)
            if size + count > capacity:
                capacity = int(2 * (size + count))
                tables = longer(tables, size, capacity)
            for _ in range(int(count)):
                k, eta = draw_table(stream, rows, i, alone, log_weights, weights, row, whole)
                omega = polya_gamma(stream, 1.0, eta)
                delta = eta - psi[k] + offset
                n_tables[k] += 1.0
                tables.row[size], tables.expert[size] = i, k
                tables.pg_weight[size], tables.linear[size] = omega, 0.5 - omega * delta
                size += 1
                if alone:
                    watched[i] = delta
                    for j in range(n_experts):  # the rows so far are done with: their place takes the cut rows
                        distance[n_cut, j] = psi[j] + delta - offset
                    cut_rows[n_cut] = i
                    n_cut += 1
            if not alone:
                add_exposure(rows.exposure[i], row.soft, exposure_sum)
        softplus_block(distance, n_cut, soft_block)
        for at in range(n_cut):
            add_exposure(rows.exposure[cut_rows[at]], soft_block[at], exposure_sum)
        tables.ends[block - blocks.first] = size
        sums.log_lik[block] = block_log_lik
    return Tables(
        tables.row[:size],
        tables.expert[:size],
        tables.pg_weight[:size],
        tables.linear[:size],
        tables.ends,
        blocks.first,
    )
