"""The local step: from a range of row blocks and the current globals to sums over rows.

Given the globals, all row variables are independent across rows, and every global conditional depends on the rows
only through sums; so a sweep may be split over blocks, threads or machines without changing its law. Two phases:

A. events of the rows that had some: all tables of the row (`event_times`) or the first one only (`first_events`);
   hence per expert their number l_k and the exposure S_k = Σ_i e_i s(ψ_ik);
B. Polya-Gamma weights given the *new* expert weights, hence A_k = Σ ω x x' and h_k.

Between the phases only the events are kept (row, expert, ω, linear term) and the log-time o_i up to which a row was watched.
Kernels take a range of blocks and write into per-block or per-group slots, so results do not depend on how it was cut.

*First events.* Given the process with cumulative rate H_i(u), y_i = 1 says that its first point lies before o_i. Keeping only
that point (expert k, log-time δ) the row's likelihood is r_k σ(x'β_k + δ) e^{-H_i(δ)}: one table, and the base watched up to
δ instead of o_i. The tables of `event_times` refine this augmentation, so with fewer latent variables the same posterior is
reached in fewer sweeps, at one PG(1) draw per row instead of one per table.
"""

import numpy as np

from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, COUNT, EXACT, INTERVAL, NOTHING
from pbdn.gibbs.softplus import softplus, softplus_block
from pbdn.variates.compiled import internal, kernel
from pbdn.variates.poisson import choose, positive_poisson
from pbdn.variates.polyagamma import polya_gamma
from pbdn.variates.polyagamma_block import block_work, polya_gamma_block
from pbdn.variates.stream import PG_WEIGHTS, TABLES, exponential, open_stream, uniform
from pbdn.variates.tables import log_expm1, table_distance

MOST_PAIRS = 2500  # (70 inputs) up to which products of inputs are made a few rows at a time
SCRATCH_NUMBERS = 50_000  # of doubles (400 kB) that those may take
LOG_TINY = np.log(np.finfo(float).tiny)  # log-likelihoods of single rows are not taken below this


@internal
def block_distances(rows, offset, planes_t, low, high, out):
    """ψ_ik = x_i'β_k + o_i for rows low ≤ i < high; ``planes_t`` is D × K."""
    n_experts = planes_t.shape[1]
    if rows.is_sparse:
        for i in range(low, high):
            for k in range(n_experts):
                out[i - low, k] = offset[i]
            for at in range(rows.pointers[i], rows.pointers[i + 1]):
                v, x = rows.columns[at], rows.values[at]
                for k in range(n_experts):
                    out[i - low, k] += x * planes_t[v, k]
        return
    np.dot(rows.dense[low:high], planes_t, out[: high - low])
    for i in range(low, high):
        if offset[i] != 0.0:
            for k in range(n_experts):
                out[i - low, k] += offset[i]


@internal
def transposed(matrix):
    """A contiguous transpose."""
    out = np.empty((matrix.shape[1], matrix.shape[0]))
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j, i] = matrix[i, j]
    return out


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
        block_distances(rows, rows.offset, planes_t, low, high, distance)
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


@internal
def draw_base_weights(rows, watched, low, high, distance, weights, stream, work, pg_weights, linear):
    """ω_ik ~ PG(e_i r_k, ψ_ik) and the linear terms -(e_i r_k / 2 + ω_ik o_i) of one block."""
    n_experts = weights.shape[0]
    for i in range(low, high):
        for k in range(n_experts):
            linear[i - low, k] = rows.exposure[i] * weights[k]
    size = (high - low) * n_experts
    polya_gamma_block(stream, linear.reshape(-1), distance.reshape(-1), size, work, pg_weights.reshape(-1))
    for i in range(low, high):
        offset = watched[i]
        for k in range(n_experts):
            linear[i - low, k] = -0.5 * linear[i - low, k] - pg_weights[i - low, k] * offset


@internal
def draw_pg_weights(
    rows, watched, planes_t, weights, tables, first, block, key, sweep, buffer, distance, work, pg_weights, linear
):
    """Phase B of one block up to the sums: base weights plus those of the block's tables. Returns its rows."""
    table_row, table_expert, table_weight, table_linear, ends = tables
    low = block * BLOCK_ROWS
    high = min(low + BLOCK_ROWS, rows.exposure.shape[0])
    stream = open_stream(buffer, key, sweep, block, PG_WEIGHTS)
    block_distances(rows, watched, planes_t, low, high, distance)
    draw_base_weights(rows, watched, low, high, distance, weights, stream, work, pg_weights, linear)
    begin = 0 if block == first else ends[block - first - 1]
    for j in range(begin, ends[block - first]):
        pg_weights[table_row[j] - low, table_expert[j]] += table_weight[j]
        linear[table_row[j] - low, table_expert[j]] += table_linear[j]
    return low, high


@internal
def add_sparse_gram(rows, low, high, pg_weights, linear, gram_t, moment):
    """Add Σ_i ω_ik x_i x_i' over the non-zeros to gram_t (pairs × K: experts lie together) and Σ_i linear_ik x_i to moment."""
    n_experts, n_inputs = moment.shape
    for i in range(low, high):
        omega = pg_weights[i - low]
        for a in range(rows.pointers[i], rows.pointers[i + 1]):
            v, x = rows.columns[a], rows.values[a]
            row_start = v * n_inputs - v * (v - 1) // 2 - v
            for k in range(n_experts):
                moment[k, v] += x * linear[i - low, k]
            for b in range(a, rows.pointers[i + 1]):
                product = x * rows.values[b]
                total = gram_t[row_start + rows.columns[b]]
                for k in range(n_experts):
                    total[k] += product * omega[k]


@internal
def add_gram(rows, low, high, pg_weights, linear, scratch, gram, moment):
    """Add Σ_i ω_ik x_i x_i' (packed, v ≤ w) of dense rows to gram (K × pairs) and Σ_i linear_ik x_i to moment (K × D).

    With products x_v x_w, made for a few rows at a time in ``scratch``, this is one matrix product for all experts; with many
    inputs, where those products would not fit a cache, one per expert, X'(ω_k X).
    """
    n_experts, n_inputs = moment.shape
    n = high - low
    add_product(linear[:n].T, rows.dense[low:high], moment)
    if gram.shape[1] <= MOST_PAIRS:
        for start in range(0, n, scratch.shape[1]):
            size = min(scratch.shape[1], n - start)
            products = make_products(rows.dense, low + start, size, scratch.reshape(-1))
            add_product(pg_weights[start : start + size].T, products.T, gram)
        return
    for k in range(n_experts):
        for i in range(n):
            for v in range(n_inputs):
                scratch[i, v] = pg_weights[i, k] * rows.dense[low + i, v]
        square = np.dot(rows.dense[low:high].T, scratch[:n])
        at = 0
        for v in range(n_inputs):
            for w in range(v, n_inputs):
                gram[k, at] += square[v, w]
                at += 1


@internal
def make_products(dense, low, n, scratch):
    """x_v x_w of rows low + i < low + n for pairs v ≤ w, as an array (pairs, n) in ``scratch``; behind it lie the inputs."""
    n_inputs = dense.shape[1]
    n_pairs = n_inputs * (n_inputs + 1) // 2
    products = scratch[: n_pairs * n].reshape(n_pairs, n)
    inputs = scratch[n_pairs * n : (n_pairs + n_inputs) * n].reshape(n_inputs, n)
    for i in range(n):
        for v in range(n_inputs):
            inputs[v, i] = dense[low + i, v]
    at = 0
    for v in range(n_inputs):
        for w in range(v, n_inputs):
            pair, one, two = products[at], inputs[v], inputs[w]
            for i in range(n):
                pair[i] = one[i] * two[i]
            at += 1
    return products


@internal
def add_product(left, right, total):
    """total += left @ right."""
    product = np.dot(left, right)
    for k in range(product.shape[0]):
        for j in range(product.shape[1]):
            total[k, j] += product[k, j]


@internal
def add_block(rows, low, high, pg_weights, linear, scratch, gram_t, last_of_group, gram, moment):
    """Add one block to its group's sums; sparse pairs are gathered in gram_t and moved over at the end of the group."""
    if not rows.is_sparse:
        add_gram(rows, low, high, pg_weights, linear, scratch, gram, moment)
        return
    add_sparse_gram(rows, low, high, pg_weights, linear, gram_t, moment)
    if last_of_group:
        for p in range(gram_t.shape[0]):
            for k in range(gram_t.shape[1]):
                gram[k, p] += gram_t[p, k]
                gram_t[p, k] = 0.0


@internal
def block_scratch(rows, n_experts, n_inputs):
    """Scratch of `add_block`: products of a few rows or scaled inputs where rows are dense, pairs where they are sparse."""
    n_pairs = n_inputs * (n_inputs + 1) // 2
    if rows.is_sparse:
        return np.empty((0, 0)), np.zeros((n_pairs, n_experts))
    if n_pairs > MOST_PAIRS:
        return np.empty((BLOCK_ROWS, n_inputs)), np.zeros((0, 0))
    return np.empty((n_pairs + n_inputs, min(BLOCK_ROWS, max(16, SCRATCH_NUMBERS // n_pairs)))), np.zeros((0, 0))


@kernel
def sum_statistics(rows, watched, planes, weights, tables, key, sweep, first, last, group_blocks, buffer, gram, moment):
    """Phase B of `event_times` on blocks first ≤ b < last: add to gram[group] and moment[group]."""
    n_experts = planes.shape[0]
    planes_t = transposed(planes)
    distance = np.empty((BLOCK_ROWS, n_experts))
    pg_weights = np.empty((BLOCK_ROWS, n_experts))
    linear = np.empty((BLOCK_ROWS, n_experts))
    work = block_work(BLOCK_ROWS * n_experts)
    scratch, gram_t = block_scratch(rows, n_experts, planes.shape[1])
    for block in range(first, last):
        low, high = draw_pg_weights(
            rows,
            watched,
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
        ends = block + 1 == last or (block + 1) % group_blocks == 0
        add_block(rows, low, high, pg_weights, linear, scratch, gram_t, ends, gram[group], moment[group])


@kernel
def row_statistics(rows, watched, planes, weights, tables, key, sweep, buffer, pg_weights, linear):
    """Phase B where there are fewer rows than inputs: ω and the linear terms of every row, unsummed."""
    planes_t = transposed(planes)
    distance = np.empty((BLOCK_ROWS, planes.shape[0]))
    work = block_work(BLOCK_ROWS * planes.shape[0])
    for block in range((rows.exposure.shape[0] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        low = block * BLOCK_ROWS
        draw_pg_weights(
            rows,
            watched,
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
        block_distances(rows, rows.offset, planes_t, low, high, distance)
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
