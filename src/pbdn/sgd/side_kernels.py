"""Compiled passes over rows for all sides of a layer: the gradient of a minibatch, log-likelihoods, and who is inactive.

Reductions run in a fixed order: results do not depend on any thread count.

Given the parameters, expert k is inactive on a positive row with probability (e^{-a} - e^{-λ})/(1 - e^{-λ}), where
a = r_k s(ψ_ik) and λ is the rate of its side; rows are independent and negative rows say nothing.
"""

import math
from typing import Any

import numpy as np

from pbdn.numerics.compiled import inlined, internal, summing, summing_kernel
from pbdn.numerics.softplus import log_event_probability_and_slope, log_softplus, softplus_logistic, softplus_only
from pbdn.sgd.kernel_arguments import (
    TILE,
    TINY_RATE,
    Group,
    LabelledRows,
    SideColumns,
    Work,
    group_of,
    next_group,
    tile_of,
)
from pbdn.sgd.link_function import (
    fill_log_probability,
    is_yes,
    link_slopes,
    log_rate,
    row_rate,
    row_slopes,
    tiny_rate_slopes,
)
from pbdn.sgd.row_formats import accumulate, checksum, gather, project


@inlined
def batch_gradient(
    data: LabelledRows, index: Any, scale: float, parameters: Any, sides: SideColumns, work: Work, gradient: Any
) -> float:
    """Scaled negative log-likelihood of all sides on the rows ``index``; fills its gradient."""
    gradient[:] = 0.0
    loss = 0.0
    for begin in range(0, index.shape[0], TILE):
        tile = index[begin : begin + TILE]
        gather(data.rows, tile, work)
        side = 0
        while side < sides.starts.shape[0] - 1:
            group = next_group(sides.starts, side)
            loss += _group_gradient(data, tile, scale, parameters, sides, group, work, gradient)
            side = group.end
    return loss


@summing
def _group_gradient(
    data: LabelledRows,
    index: Any,
    scale: float,
    parameters: Any,
    sides: SideColumns,
    group: Group,
    work: Work,
    gradient: Any,
) -> float:
    """Loss of one tile of rows and one group of sides; adds its gradient."""
    n, k0, k1 = index.shape[0], group.k0, group.k1
    psi, softplus, slope = tile_of(work.psi, n, group), tile_of(work.softplus, n, group), tile_of(work.slope, n, group)
    row_weight, log_weight, weight, by_weight = work.row_weight, work.experts[0], work.experts[1], work.experts[2]
    for k in range(k1 - k0):
        log_weight[k] = parameters[0, k0 + k]
        weight[k] = math.exp(log_weight[k])
        by_weight[k] = 0.0
    project(data.rows, index, parameters, group, work)
    softplus_logistic(n * group.width, work.psi, work.softplus, work.slope)
    for i in range(n):
        row_weight[i] = scale * data.weights[index[i]]
    loss = 0.0
    for s in range(group.side, group.end):
        first, last = np.uint64(sides.starts[s]) - k0, np.uint64(sides.starts[s + 1]) - k0
        rate, is_positive = work.rate, work.is_positive
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, first, last)
            is_positive[i] = is_yes(data.codes[index[i]], sides.positive[s])
        loss += link_slopes(n, is_positive, row_weight, rate)
        for i in range(n):
            if math.isnan(rate[i]):
                own = log_weight[first:last], psi[i, first:last], softplus[i, first:last], slope[i, first:last]
                loss -= row_weight[i] * tiny_rate_slopes(*own)
                rate[i] = -row_weight[i]
            row_slopes(rate[i], i, first, last, softplus, slope, by_weight)
    for k in range(k1 - k0):
        gradient[0, k0 + k] += weight[k] * by_weight[k]
    accumulate(data.rows, index, group, work, gradient)
    return loss


@summing_kernel
def side_log_likelihood(data: LabelledRows, parameters: Any, sides: SideColumns, work: Work, total: Any) -> float:
    """Add the log-likelihood of every side to ``total``; returns the `checksum` of the rows."""
    check, n_rows = 0.0, data.codes.shape[0]
    for begin in range(0, n_rows, TILE):
        end = begin + TILE if begin + TILE < n_rows else n_rows
        index = np.arange(begin, end)
        check += checksum(data.rows, begin, end)
        gather(data.rows, index, work)
        side = 0
        while side < sides.starts.shape[0] - 1:
            group = next_group(sides.starts, side)
            project(data.rows, index, parameters, group, work)
            softplus_only(index.shape[0] * group.width, work.psi, work.softplus)
            _add_group(data, index, parameters[0], sides, group, work, total)
            side = group.end
    return check


@inlined
def _add_group(
    data: LabelledRows, index: Any, log_weight: Any, sides: SideColumns, group: Group, work: Work, total: Any
) -> None:
    """The same for one tile of rows and one group of sides, with ψ and s(ψ) in the workspace."""
    n, starts, rate, log_probability = index.shape[0], sides.starts, work.rate, work.row_weight
    psi, softplus = tile_of(work.psi, n, group), tile_of(work.softplus, n, group)
    weight, codes, weights, positive = work.experts[1], data.codes, data.weights, sides.positive
    for k in range(group.k1 - group.k0):
        weight[k] = math.exp(log_weight[group.k0 + k])
    for s in range(group.side, group.end):
        first, last = np.uint64(starts[s]) - group.k0, np.uint64(starts[s + 1]) - group.k0
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, first, last)
        fill_log_probability(n, rate, log_probability)
        for i in range(n):
            row_weight = weights[index[i]]
            if row_weight == 0.0:
                continue
            if not is_yes(codes[index[i]], positive[s]):
                total[s] -= row_weight * rate[i]
            elif rate[i] >= TINY_RATE:
                total[s] += row_weight * log_probability[i]
            else:
                own = log_weight[starts[s] : starts[s + 1]]
                total[s] += row_weight * log_rate(own, psi[i, first:last], softplus[i, first:last])


@summing
def _undecided(log_inactive: Any, first: Any, last: Any, floor: float, found: Any) -> int:
    """How many experts of a side could still turn out to be inactive, and which (counted from ``first``)."""
    n = 0
    for k in range(first, last):
        if log_inactive[k] > floor:
            found[n] = k - first
            n += 1
    return n


@internal
def _sort_by_code(codes: Any, first: int, last: int, order: Any, run_starts: Any) -> None:
    """Rows ``first`` to ``last`` in order of their codes; those of code c are order[run_starts[c] : run_starts[c + 1]]."""
    run_starts[:] = 0
    for i in range(first, last):
        run_starts[codes[i] + 1] += 1
    for c in range(1, run_starts.shape[0]):
        run_starts[c] += run_starts[c - 1]
    place = run_starts.copy()
    for i in range(first, last):
        order[place[codes[i]]] = i
        place[codes[i]] += 1


@summing
def _rows_of_others(codes: Any, code: int, first: int, last: int, order: Any) -> int:
    """Rows ``first`` to ``last`` whose code is another, in ``order``; returns their number."""
    n = 0
    for i in range(first, last):
        if codes[i] != code:
            order[n] = i
            n += 1
    return n


@summing_kernel
def add_log_inactivity(
    data: LabelledRows, parameters: Any, sides: SideColumns, floor: float, window: int, work: Work, log_inactive: Any
) -> float:
    """Add Σ_i w_i ln P(b_ik = 0 | y_i = 1) over a block, ``window`` rows at a time.

    Experts that have fallen below ``floor`` are left where they are: every term is negative. Returns the rows'
    `checksum`.
    """
    total, codes, starts = 0.0, data.codes, sides.starts
    n_rows = codes.shape[0]
    by_code, others = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    run_starts = np.empty(starts.shape[0] + 2, np.int64)  # a single side has two codes
    found = np.empty(parameters.shape[1], np.int64)
    for first in range(0, n_rows, window):
        last = first + window if first + window < n_rows else n_rows
        total += checksum(data.rows, first, last)
        _sort_by_code(codes, first, last, by_code, run_starts)
        for side in range(starts.shape[0] - 1):
            code = sides.positive[side]
            if code >= 0:
                index = by_code[run_starts[code] : run_starts[code + 1]]
            elif _undecided(log_inactive, starts[side], starts[side + 1], floor, found) == 0:
                continue
            else:
                index = others[: _rows_of_others(codes, -1 - code, first, last, others)]
            _add_side(data, index, parameters, group_of(starts, side, side + 1), floor, work, found, log_inactive)
    return total


@inlined
def _add_side(
    data: LabelledRows,
    order: Any,
    parameters: Any,
    group: Group,
    floor: float,
    work: Work,
    found: Any,
    log_inactive: Any,
) -> None:
    """The same for the positive rows ``order`` of one side."""
    row_weight, rate, log_any, own = work.row_weight, work.rate, work.slope[:TILE], work.slope[TILE:]
    weights = data.weights  # looked up once: a kernel counts references, which takes time in a loop
    k0, first, last = group.k0, np.int64(group.k0), np.int64(group.k1)
    log_weight, weight = work.experts[0, : last - first], work.experts[1]
    for k in range(last - first):
        log_weight[k] = parameters[0, first + k]
        weight[k] = math.exp(log_weight[k])
    for begin in range(0, order.shape[0], TILE):
        n_open = _undecided(log_inactive, first, last, floor, found)
        if n_open == 0:
            return
        index = order[begin : begin + TILE]
        n = index.shape[0]
        psi, softplus = tile_of(work.psi, n, group), tile_of(work.softplus, n, group)
        gather(data.rows, index, work)
        project(data.rows, index, parameters, group, work)
        softplus_only(n * group.width, work.psi, work.softplus)
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, np.uint64(0), group.k1 - k0)
            row_weight[i] = weights[index[i]]
            if rate[i] < TINY_RATE:
                _add_in_log_space(row_weight[i], log_weight, psi[i], softplus[i], found[:n_open], k0, log_inactive)
                row_weight[i] = 0.0
        fill_log_probability(n, rate, log_any)
        for j in range(n_open):
            k = found[j]
            total = 0.0
            for i in range(n):
                own[i] = weight[k] * softplus[i, k]
            for i in range(n):
                others = rate[i] - own[i] if rate[i] - own[i] > TINY_RATE else TINY_RATE
                total += row_weight[i] * (log_event_probability_and_slope(others)[0] - own[i] - log_any[i])
            log_inactive[first + k] += total


@summing
def _add_in_log_space(
    row_weight: float, log_weight: Any, psi: Any, softplus: Any, experts: Any, k0: Any, log_inactive: Any
) -> None:
    """The same for a row whose rate underflows: ln(1 - a/λ)."""
    if row_weight == 0.0:
        return
    log_total = log_rate(log_weight, psi, softplus)
    for k in experts:
        share = math.exp(log_weight[k] + log_softplus(psi[k], softplus[k]) - log_total)
        log_inactive[k0 + np.uint64(k)] += row_weight * (math.log1p(-share) if share < 1.0 else -math.inf)
