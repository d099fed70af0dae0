"""Phase A, row by row: all tables of the rows that had events (`event_times`), or the first one only (`first_events`).

Serves every kind of row, merged rows too; where all are binary and alone, `pbdn.gibbs.first_events` does the same faster.

*First events.* Given the process with cumulative rate H_i(u), y_i = 1 says that its first point lies before o_i. Keeping only
that point (expert k, log-time δ) the row's likelihood is r_k σ(x'β_k + δ) e^{-H_i(δ)}: one table, and the base watched up to
δ instead of o_i. The tables of `event_times` refine this augmentation, so with fewer latent variables the same posterior is
reached in fewer sweeps, and the Polya-Gamma variable of the event is drawn together with that of the base
(`pbdn.gibbs.polya_gamma_weights`).
"""

import numpy as np

from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts, Tables
from pbdn.gibbs.log_likelihood import row_log_likelihood
from pbdn.gibbs.matrices import block_distances, transposed
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, EXACT, INTERVAL, NOTHING, RowArrays
from pbdn.numerics.compiled import inlined, internal, kernel
from pbdn.numerics.softplus import inverse_softplus, log_softplus, softplus, softplus_block
from pbdn.variates.counts import choose, positive_poisson, table_distance
from pbdn.variates.polya_gamma import polya_gamma
from pbdn.variates.random_stream import TABLES, SweepStreams, exponential, stream_at, uniform

FAINT = 1e-290  # rates under which experts are chosen by logarithms
_FIRST_CAPACITY = 1024  # tables, before their arrays grow


# One row and every expert, as a small table with these rows. A table and not a tuple of arrays: inside loops over rows, every
# array that a function is given costs two atomic counts of its references.
PSI, SOFT, MASS, LOW_SOFT, WEIGHT, LOG_WEIGHT = range(6)


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
def first_event(stream, row, unit, whole):
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
    for k in range(row.shape[1]):
        end = begin + unit * row[MASS, k]
        if position < end:
            eta = inverse_softplus(row[LOW_SOFT, k] + (position - begin) / (unit * row[WEIGHT, k]))
            if eta - row[PSI, k] < best_delta:
                best, best_eta, best_delta = k, eta, eta - row[PSI, k]
            position = end + exponential(stream)
        begin = end
    if best < 0:  # the position was rounded up to the whole length: the event is at the offset itself
        best = int(np.argmax(row[MASS]))
        return best, row[PSI, best]
    return best, min(best_eta, row[PSI, best])


@inlined
def fill_masses(kind, offset, start, active, row):
    """The rates by which the experts cause the event of a row, in its MASS; returns their sum, and sums over active experts.

    That is r_k s(ψ_k) for an event before the offset, r_k (s(ψ_k) - s(ψ_k - offset + start)) for one in an interval, and the
    hazard r_k σ(ψ_k) for one at the offset itself. The active experts' sums are those of the log-likelihood: of the rate, of
    the rate at the start and of the hazard.
    """
    whole, active_rate, active_start, active_hazard = 0.0, 0.0, 0.0, 0.0
    for k in range(row.shape[1]):
        weight, soft = row[WEIGHT, k], row[SOFT, k]
        low_soft, mass = 0.0, weight * soft
        active_rate += mass * active[k]
        if kind == INTERVAL:
            low_soft = softplus(row[PSI, k] - offset + start)
            active_start += weight * low_soft * active[k]
            mass = weight * (soft - low_soft)
        elif kind == EXACT:
            mass = weight * np.exp(row[PSI, k] - soft)
            active_hazard += mass * active[k]
        row[LOW_SOFT, k], row[MASS, k] = low_soft, mass
        whole += mass
    return whole, active_rate, active_start, active_hazard


@inlined
def number_of_tables(stream, kind, all_copies, mean):
    """How many tables a row has: n ~ Pois₊(mean) for every copy that says "an event"; those counted or timed have one each.

    The fractional part of the copies is one more with that probability.
    """
    copies = np.floor(all_copies)
    if all_copies > copies and uniform(stream) < all_copies - copies:
        copies += 1.0
    if kind not in (BEFORE, INTERVAL):
        return copies
    count = 0.0
    for _ in range(int(copies)):
        count += positive_poisson(stream, mean)
    return count


@inlined
def draw_table(stream, kind, alone, unit, row, whole, length):
    """Expert and signed distance η of one table of a row, or of its first one if the row is ``alone``.

    ``length`` is that of the interval, ∞ for rows of another kind.
    """
    if whole < FAINT:
        k = choose_in_logs(stream, row[LOG_WEIGHT], row[PSI])
        eta = row[PSI, k]
        if kind == INTERVAL:  # s(η) = e^η there
            eta += np.log1p(uniform(stream) * np.expm1(-length))
        elif kind != EXACT:
            eta -= exponential(stream)
    elif alone:
        k, eta = first_event(stream, row, unit, whole)
    else:
        k = choose(stream, row[MASS], whole)
        eta = row[PSI, k]
        if kind != EXACT:
            eta = min(eta, table_distance(stream, row[LOW_SOFT, k], row[SOFT, k]))
    return k, eta


@inlined
def stands_alone(kind, exposure, copies, unit):
    """Whether a row says that something happened by some time, for one copy of itself: then its first event is enough."""
    return kind in (BEFORE, INTERVAL) and copies == 1.0 and exposure == unit


@internal
def longer(array, capacity):
    """A longer array with the same beginning."""
    out = np.empty(capacity, array.dtype)
    for j in range(array.shape[0]):
        out[j] = array[j]
    return out


@inlined
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
    planes_t, active = transposed(experts.planes), experts.active
    distance, soft = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    row = np.empty((6, n_experts))
    for k in range(n_experts):
        row[LOG_WEIGHT, k], row[WEIGHT, k] = experts.log_weights[k], np.exp(experts.log_weights[k])
    cut_rows = np.empty(BLOCK_ROWS, np.int64)
    size, capacity = 0, _FIRST_CAPACITY
    table_row, table_expert = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    table_weight, table_linear = np.empty(capacity), np.empty(capacity)
    ends = np.empty(blocks.last - blocks.first, np.int64)
    for block in range(blocks.first, blocks.last):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        stream = stream_at(streams, block, TABLES)
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        softplus_block(distance, high - low, soft)
        n_tables, exposure_sum, block_log_lik = sums.n_tables[block], sums.exposure[block], 0.0
        n_tables[:] = 0.0
        exposure_sum[:] = 0.0
        n_cut = np.int64(0)
        for i in range(low, high):
            kind, offset, exposure = rows.kind[i], rows.offset[i], rows.exposure[i]
            copies, unit = rows.copies[i], rows.unit[i]
            watched[i] = offset
            for k in range(n_experts):
                row[PSI, k], row[SOFT, k] = distance[i - low, k], soft[i - low, k]
            whole, rate, start_rate, hazard = fill_masses(kind, offset, rows.start[i], active, row)
            block_log_lik += row_log_likelihood(kind, exposure, copies, unit, rate, start_rate, hazard)
            alone = first_only and stands_alone(kind, exposure, copies, unit)
            count = 1.0
            if kind == NOTHING:
                count = 0.0
            elif not alone:
                count = number_of_tables(stream, kind, copies, unit * whole)
            if size + count > capacity:
                capacity = int(2 * (size + count))
                table_row, table_expert = longer(table_row, capacity), longer(table_expert, capacity)
                table_weight, table_linear = longer(table_weight, capacity), longer(table_linear, capacity)
            for _ in range(int(count)):
                k, eta = draw_table(stream, kind, alone, unit, row, whole, offset - rows.start[i])
                omega = polya_gamma(stream, 1.0, eta)
                delta = eta - row[PSI, k] + offset
                n_tables[k] += 1.0
                table_row[size], table_expert[size] = i, k
                table_weight[size], table_linear[size] = omega, 0.5 - omega * delta
                size += 1
                if alone:
                    watched[i] = delta
            if alone:
                cut_rows[n_cut] = i
                for k in range(n_experts):  # the rows so far are done with: their place takes the cut rows
                    distance[n_cut, k] = row[PSI, k] + watched[i] - offset
                n_cut += 1
            else:
                for k in range(n_experts):
                    exposure_sum[k] += exposure * row[SOFT, k]
        softplus_block(distance, n_cut, soft)
        for at in range(n_cut):
            for k in range(n_experts):
                exposure_sum[k] += rows.exposure[cut_rows[at]] * soft[at, k]
        ends[block - blocks.first] = size
        sums.log_lik[block] = block_log_lik
    return Tables(table_row[:size], table_expert[:size], table_weight[:size], table_linear[:size], ends, blocks.first)
