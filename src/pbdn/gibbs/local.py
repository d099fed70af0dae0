"""The local step: from a range of row blocks and the current globals to sums over rows.

Given the globals, all row variables are independent across rows, and every global conditional depends on the rows
only through sums; so a sweep may be split over blocks, threads or machines without changing its law. Two phases:

A. events of the rows that had some: all tables of the row (`event_times`) or the first one only (`first_events`);
   hence per expert their number l_k and the exposure S_k = Σ_i e_i s(ψ_ik);
B. Polya-Gamma weights given the *new* expert weights, hence A_k = Σ ω x x' and h_k.

Between the phases only the events are kept (row, expert, ω, linear term; or each row's first one) and the log-time o_i up to
which a row was watched.
Kernels take a range of blocks and write into per-block or per-group slots, so results do not depend on how it was cut.

*First events.* Given the process with cumulative rate H_i(u), y_i = 1 says that its first point lies before o_i. Keeping only
that point (expert k, log-time δ) the row's likelihood is r_k σ(x'β_k + δ) e^{-H_i(δ)}: one table, and the base watched up to
δ instead of o_i. The tables of `event_times` refine this augmentation, so with fewer latent variables the same posterior is
reached in fewer sweeps, and the Polya-Gamma variable of the event is drawn together with that of the base (`draw_pg_weights`).
"""

import numpy as np

from pbdn.gibbs.gram import add_block, as_vector, gram_scratch, multiply, transposed
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, COUNT, EXACT, INTERVAL, NOTHING
from pbdn.numerics.compiled import inlined, internal, kernel
from pbdn.numerics.softplus import softplus, softplus_block
from pbdn.variates.crt import log_expm1, table_distance
from pbdn.variates.poisson import choose, positive_poisson
from pbdn.variates.polyagamma import polya_gamma
from pbdn.variates.polyagamma_block import block_work, polya_gamma_block
from pbdn.variates.stream import PG_WEIGHTS, TABLES, exponential, open_stream, uniform

LOG_TINY = np.log(np.finfo(float).tiny)  # log-likelihoods of single rows are not taken below this


@internal
def block_distances(dense, sparse, offset, planes_t, low, high, out):
    """ψ_ik = x_i'β_k + o_i for rows low ≤ i < high; ``planes_t`` is D × K. ``sparse`` is None where the inputs are dense."""
    n_experts = planes_t.shape[1]
    if sparse is None:
        multiply(dense[low:high], planes_t, out[: high - low])
        for i in range(low, high):
            if offset[i] != 0.0:
                for k in range(n_experts):
                    out[i - low, k] += offset[i]
    else:
        pointers, columns, values = sparse
        for i in range(low, high):
            for k in range(n_experts):
                out[i - low, k] = offset[i]
            for at in range(pointers[i], pointers[i + 1]):
                v, x = columns[at], values[at]
                for k in range(n_experts):
                    out[i - low, k] += x * planes_t[v, k]


@internal
def choose_in_logs(stream, log_weights, distance):
    """Expert with probability ∝ r_k s(ψ_k) where those underflow: ln s(ψ) = ψ there."""
    n_experts = distance.shape[0]
    level = np.empty(n_experts)
    top = -np.inf
    for k in range(n_experts):
        level[k] = log_weights[k] + min(distance[k], np.log(softplus(max(distance[k], -700.0))))
        top = max(top, level[k])
    if top == -np.inf:
        return int(uniform(stream) * n_experts)
    whole = 0.0
    for k in range(n_experts):
        level[k] = np.exp(level[k] - top)
        whole += level[k]
    return choose(stream, level, whole)


@internal
def row_log_likelihood(kind, exposure, copies, unit, rate, start_rate, hazard):
    """ln p of one (merged) row; rates at unit exposure, cumulative to the offset and to the interval's start."""
    value = -(exposure - copies * unit) * rate if kind != COUNT else 0.0
    if kind == BEFORE:
        value += copies * max(log_expm1(unit * rate) - unit * rate, LOG_TINY)
    elif kind == INTERVAL:
        gap = unit * (rate - start_rate)
        value += copies * (max(log_expm1(gap) - gap, LOG_TINY) - unit * start_rate)
    elif kind == EXACT:
        value += copies * (max(np.log(max(unit * hazard, 1e-320)), LOG_TINY) - unit * rate)
    elif kind == COUNT:
        value += copies * max(np.log(max(unit * rate, 1e-320)), LOG_TINY) - exposure * rate
    return value


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
            eta = log_expm1(low_soft[k] + (position - begin) / (unit * weights[k]))
            if eta - psi[k] < best_delta:
                best, best_eta, best_delta = k, eta, eta - psi[k]
            position = end + exponential(stream)
        begin = end
    if best < 0:  # the position was rounded up to the whole length: the event is at the offset itself
        best = int(np.argmax(mass))
        return best, psi[best]
    return best, min(best_eta, psi[best])


@kernel
def draw_events(
    first_only,
    rows,
    planes,
    log_weights,
    active,
    key,
    sweep,
    first,
    last,
    buffer,
    watched,
    n_tables,
    exposure_sum,
    log_lik,
):
    """Phase A of `event_times` (all tables) and `first_events` on blocks first ≤ b < last.

    For each row with an event: n ~ Pois₊(λ_i) tables, each picking expert k ∝ r_k s(ψ_ik) and a distance
    η = ln(e^{U s(ψ)} - 1); or the first of them alone. The log-time δ = η - x'β is fixed from here on, ω ~ PG(1, η)
    is drawn at once.

    Writes per row: ``watched``, the log-time o_i up to which the row's base process counts. Per block: l_k, S_k and the
    log-likelihood of the current globals with the active experts only. Returns the events: rows, experts, ω, ½ - ω δ,
    and where each block's events end.
    """
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    weights = np.exp(log_weights)
    distance, soft_block = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    mass, low_soft = np.empty(n_experts), np.zeros(n_experts)
    size, capacity = 0, 1024
    table_row, table_expert = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    table_weight, table_linear = np.empty(capacity), np.empty(capacity)
    ends = np.empty(last - first, np.int64)
    cut_rows = np.empty(BLOCK_ROWS, np.int64)
    for block in range(first, last):
        low = block * BLOCK_ROWS
        high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
        stream = open_stream(buffer, key, sweep, block, TABLES)
        block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, high, distance)
        softplus_block(distance, high - low, soft_block)
        for k in range(n_experts):
            n_tables[block, k] = 0.0
            exposure_sum[block, k] = 0.0
        block_log_lik = 0.0
        n_cut = np.int64(0)
        for i in range(low, high):
            psi, soft = distance[i - low], soft_block[i - low]
            kind, offset = rows.kind[i], rows.offset[i]
            watched[i] = offset
            rate, active_rate = 0.0, 0.0
            for k in range(n_experts):
                mass[k] = weights[k] * soft[k]
                rate += mass[k]
                active_rate += mass[k] * active[k]
            active_start, active_hazard = 0.0, 0.0
            if kind == INTERVAL:
                rate = 0.0
                for k in range(n_experts):
                    low_soft[k] = softplus(psi[k] - offset + rows.start[i])
                    active_start += weights[k] * low_soft[k] * active[k]
                    mass[k] = weights[k] * (soft[k] - low_soft[k])
                    rate += mass[k]
            elif kind == EXACT:
                rate = 0.0
                for k in range(n_experts):
                    mass[k] = weights[k] * np.exp(psi[k] - soft[k])
                    rate += mass[k]
                    active_hazard += mass[k] * active[k]
            block_log_lik += row_log_likelihood(
                kind, rows.exposure[i], rows.copies[i], rows.unit[i], active_rate, active_start, active_hazard
            )
            if kind == NOTHING:
                for k in range(n_experts):
                    exposure_sum[block, k] += rows.exposure[i] * soft[k]
                continue
            copies = np.floor(rows.copies[i])
            if rows.copies[i] > copies and uniform(stream) < rows.copies[i] - copies:
                copies += 1.0
            waiting = kind in (BEFORE, INTERVAL)
            only = first_only and waiting and rows.copies[i] == 1.0 and rows.exposure[i] == rows.unit[i]  # not merged
            count = 1.0 if only else copies
            if waiting and not only:
                count = 0.0
                for _ in range(int(copies)):
                    count += positive_poisson(stream, rows.unit[i] * rate)
            if size + count > capacity:
                capacity = int(2 * (size + count))
                table_row, table_expert = grow(table_row, capacity), grow(table_expert, capacity)
                table_weight, table_linear = grow(table_weight, capacity), grow(table_linear, capacity)
            if kind == BEFORE:
                for k in range(n_experts):
                    low_soft[k] = 0.0
            for _ in range(int(count)):
                if rate < 1e-290:
                    k = choose_in_logs(stream, log_weights, psi)
                    eta = psi[k] - exponential(stream) if waiting else psi[k]  # s(η) = e^η there
                elif only:
                    k, eta = first_event(stream, mass, low_soft, weights, rows.unit[i], psi, rate)
                else:
                    k = choose(stream, mass, rate)
                    eta = psi[k]
                    if kind != EXACT:
                        eta = min(eta, table_distance(stream, low_soft[k], soft[k]))
                omega = polya_gamma(stream, 1.0, eta)
                delta = eta - psi[k] + offset
                n_tables[block, k] += 1.0
                table_row[size], table_expert[size] = i, k
                table_weight[size], table_linear[size] = omega, 0.5 - omega * delta
                size += 1
                if only:
                    watched[i] = delta
                    for j in range(n_experts):  # the rows so far are done with: their place takes the cut rows
                        distance[n_cut, j] = psi[j] + delta - offset
                    cut_rows[n_cut] = i
                    n_cut += 1
            if not only:
                for k in range(n_experts):
                    exposure_sum[block, k] += rows.exposure[i] * soft[k]
        if n_cut > 0:
            softplus_block(distance, n_cut, soft_block)
            for at in range(n_cut):
                for k in range(n_experts):
                    exposure_sum[block, k] += rows.exposure[cut_rows[at]] * soft_block[at, k]
        ends[block - first] = size
        log_lik[block] = block_log_lik
    return table_row[:size], table_expert[:size], table_weight[:size], table_linear[:size], ends


@internal
def grow(array, capacity):
    """A longer array with the same beginning."""
    longer = np.empty(capacity, array.dtype)
    for j in range(array.shape[0]):
        longer[j] = array[j]
    return longer


@inlined
def draw_pg_weights(
    rows,
    watched,
    winner,
    planes_t,
    weights,
    tables,
    first,
    block,
    key,
    sweep,
    buffer,
    distance,
    work,
    pg_weights,
    linear,
):
    """Phase B of one block up to the sums: ω and linear terms of its rows, with those of its events. Returns first row and number.

    The base draws ω_ik ~ PG(e_i r_k, ψ_ik), linear -(e_i r_k / 2 + ω_ik o_i). Where the base was watched up to the row's only
    event, of expert k = ``winner`` (-1: none), that event has the same ψ_ik, and by additivity one draw PG(1 + e_i r_k, ψ_ik)
    is both, with ½ more in the linear term. ``winner`` or ``tables`` (events that have ω and linear terms) is None.
    """
    n_experts = weights.shape[0]
    low = block * BLOCK_ROWS
    n = min(BLOCK_ROWS, watched.shape[0] - low)
    stream = open_stream(buffer, key, sweep, block, PG_WEIGHTS)
    block_distances(rows.dense, rows.sparse, watched, planes_t, low, low + n, distance)
    for i in range(n):
        exposure = rows.exposure[low + i]
        for k in range(n_experts):
            linear[i, k] = exposure * weights[k]
    if winner is not None:
        for i in range(n):
            if winner[low + i] >= 0:
                linear[i, winner[low + i]] += 1.0
    polya_gamma_block(stream, as_vector(linear), as_vector(distance), n * n_experts, work, as_vector(pg_weights))
    for i in range(n):
        offset = watched[low + i]
        for k in range(n_experts):
            linear[i, k] = -0.5 * linear[i, k] - pg_weights[i, k] * offset
    if winner is not None:
        for i in range(n):
            if winner[low + i] >= 0:
                linear[i, winner[low + i]] += 1.0  # -½(1 + e r) + 1 = ½ - ½ e r
    if tables is not None:
        table_row, table_expert, table_weight, table_linear, ends = tables
        begin = 0 if block == first else ends[block - first - 1]
        for j in range(begin, ends[block - first]):
            i, k = table_row[j] - low, table_expert[j]
            pg_weights[i, k] += table_weight[j]
            linear[i, k] += table_linear[j]
    return low, n


@kernel
def sum_statistics(
    rows, watched, planes, weights, winner, tables, key, sweep, first, last, group_blocks, buffer, gram, moment
):
    """Phase B of `event_times` and `first_events` on blocks first ≤ b < last: add to gram[group] and moment[group]."""
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    distance = np.empty((BLOCK_ROWS, n_experts))
    pg_weights, linear = np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts))
    work = block_work(BLOCK_ROWS * n_experts)
    scratch, result = gram_scratch(planes.shape[1], n_experts)
    for block in range(first, last):
        low, n = draw_pg_weights(
            rows,
            watched,
            winner,
            planes_t,
            weights,
            tables,
            first,
            block,
            key,
            sweep,
            buffer,
            distance,
            work,
            pg_weights,
            linear,
        )
        group = block // group_blocks
        add_block(rows.dense, rows.sparse, low, n, pg_weights, linear, scratch, result, gram[group], moment[group])


@kernel
def row_statistics(rows, watched, planes, weights, winner, tables, key, sweep, buffer, pg_weights, linear):
    """Phase B where there are fewer rows than inputs: ω and the linear terms of every row, unsummed."""
    planes_t = transposed(planes)
    distance = np.empty((BLOCK_ROWS, planes.shape[0]))
    work = block_work(BLOCK_ROWS * planes.shape[0])
    for block in range((rows.exposure.shape[0] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        low = block * BLOCK_ROWS
        draw_pg_weights(
            rows,
            watched,
            winner,
            planes_t,
            weights,
            tables,
            0,
            block,
            key,
            sweep,
            buffer,
            distance,
            work,
            pg_weights[low:],
            linear[low:],
        )


@kernel
def total_log_likelihood(rows, planes, weights, log_lik):
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
