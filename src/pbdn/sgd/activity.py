"""Which experts the data need: exact inactivity probabilities, activity draws, and likelihoods over all rows.

Given the parameters, expert k is inactive on a positive row with probability (e^{-a} - e^{-λ})/(1 -
e^{-λ}), where a = r_k s(ψ_ik) and λ is the rate of its side; rows are independent and negative rows say
nothing.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from pbdn.data.columns import Columns
from pbdn.data.source import Block, RowSource
from pbdn.model.labelling import says_yes
from pbdn.model.likelihood import FloatArray
from pbdn.numerics.bernoulli_poisson import TINY_RATE, bernoulli_poisson, softplus_only
from pbdn.numerics.products import kernel, padded_size
from pbdn.sgd.kernels import (
    TILE,
    checksum,
    gather,
    log_rate,
    log_softplus,
    project,
    row_rate,
    side_log_likelihood,
    workspace,
)
from pbdn.sgd.objective import IntArray, as_rows, unpack
from pbdn.sgd.settings import MapSettings

COLUMN_WINDOW = 4096  # rows of columns sorted by class at a time: they stay in cache
_DRAW_ROWS = 4096


@kernel
def _undecided(log_inactive: Any, first: int, last: int, floor: float, found: Any) -> int:
    """How many experts of a side could still turn out to be inactive, and which (counted from ``first``)."""
    n = 0
    for k in range(first, last):
        if log_inactive[k] > floor:
            found[n] = k - first
            n += 1
    return n


@kernel
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


@kernel
def _rows_of_others(codes: Any, code: int, first: int, last: int, order: Any) -> int:
    """Rows ``first`` to ``last`` whose code is another, in ``order``; returns their number."""
    n = 0
    for i in range(first, last):
        if codes[i] != code:
            order[n] = i
            n += 1
    return n


@kernel
def add_log_inactivity(
    rows: Any,
    codes: Any,
    weights: Any,
    parameters: Any,
    starts: Any,
    positive: Any,
    floor: float,
    window: int,
    work: Any,
    log_inactive: Any,
) -> float:
    """Add Σ_i w_i ln P(b_ik = 0 | y_i = 1) over a block, ``window`` rows at a time.

    Experts that have fallen below ``floor`` are left where they are: every term is negative. Returns the rows'
    `checksum`.
    """
    total, n_rows = 0.0, codes.shape[0]
    by_code, others = np.empty(min(window, n_rows), np.int64), np.empty(min(window, n_rows), np.int64)
    run_starts = np.empty(starts.shape[0] + 2, np.int64)  # a single side has two codes
    found = np.empty(parameters.shape[1], np.int64)
    for first in range(0, n_rows, window):
        last = min(first + window, n_rows)
        total += checksum(rows, first, last)
        _sort_by_code(codes, first, last, by_code, run_starts)
        for side in range(starts.shape[0] - 1):
            code = positive[side]
            if code >= 0:
                index = by_code[run_starts[code] : run_starts[code + 1]]
            elif _undecided(log_inactive, starts[side], starts[side + 1], floor, found) == 0:
                continue
            else:
                index = others[: _rows_of_others(codes, -1 - code, first, last, others)]
            _add_side(
                rows, index, weights, parameters, starts[side], starts[side + 1], floor, work, found, log_inactive
            )
    return total


@kernel
def _add_side(
    rows: Any,
    order: Any,
    weights: Any,
    parameters: Any,
    first: int,
    last: int,
    floor: float,
    work: Any,
    found: Any,
    log_inactive: Any,
) -> None:
    """The same for the positive rows ``order`` of the side with experts ``first`` to ``last``."""
    row_weight, rate, log_any, own = work.row_weight, work.rate, work.slope[:TILE], work.slope[TILE:]
    k0, k1 = np.uint64(first), np.uint64(last)
    width = padded_size(last - first)
    log_weight = parameters[0, first:last].copy()
    weight = np.exp(log_weight)
    for begin in range(0, order.shape[0], TILE):
        n_open = _undecided(log_inactive, first, last, floor, found)
        if n_open == 0:
            return
        index = order[begin : min(begin + TILE, order.shape[0])]
        n = index.shape[0]
        psi = work.psi[: padded_size(n) * width].reshape((-1, width))
        softplus = work.softplus[: padded_size(n) * width].reshape((-1, width))
        gather(rows, index, work)
        project(rows, index, parameters, k0, k1, work, psi)
        softplus_only(n * width, work.psi, work.softplus)
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, np.uint64(0), k1 - k0)
            row_weight[i] = weights[index[i]]
            if rate[i] < TINY_RATE:
                _add_in_log_space(row_weight[i], log_weight, psi[i], softplus[i], found[:n_open], k0, log_inactive)
                row_weight[i] = 0.0
        for i in range(n):
            rate[i] = rate[i] if rate[i] > TINY_RATE else TINY_RATE
            log_any[i] = bernoulli_poisson(rate[i])[0]
        for j in range(n_open):
            k = found[j]
            total = 0.0
            for i in range(n):
                own[i] = weight[k] * softplus[i, k]
            for i in range(n):
                others = rate[i] - own[i] if rate[i] - own[i] > TINY_RATE else TINY_RATE
                total += row_weight[i] * (bernoulli_poisson(others)[0] - own[i] - log_any[i])
            log_inactive[first + k] += total


@kernel
def _add_in_log_space(
    row_weight: float, log_weight: Any, psi: Any, softplus: Any, experts: Any, k0: Any, log_inactive: Any
) -> None:
    """The same for a row whose rate underflows: ln(1 - a/λ)."""
    if row_weight == 0.0:
        return
    log_total = log_rate(log_weight, psi, softplus)
    for k in experts:
        share = min(math.exp(log_weight[k] + log_softplus(psi[k], softplus[k]) - log_total), 1.0)
        log_inactive[k0 + np.uint64(k)] += row_weight * (math.log1p(-share) if share < 1.0 else -math.inf)


def log_inactivity(
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    *,
    floor: float = -math.inf,
) -> FloatArray:
    """ln P(expert inactive | all labels) of every expert, in one pass.

    The pass ends as soon as every expert has fallen below ``floor``; values under that are then only upper
    bounds, which is all that a pruning rule with that threshold needs.
    """
    result = np.zeros(parameters.shape[1])

    def of_block(block: Block) -> FloatArray:
        sums = np.where(result > floor, 0.0, result)  # who is decided stays out, whatever the others' sums
        is_columns = isinstance(block.inputs, Columns)
        work = workspace(not sp.issparse(block.inputs), parameters.shape[0] - 2, starts)
        check = add_log_inactivity(
            as_rows(block.inputs), block.codes, block.weights, parameters, starts, positive, floor,
            COLUMN_WINDOW if is_columns else max(len(block), 1), work, sums,
        )  # fmt: skip
        if is_columns:
            block.inputs.refuse_not_finite(check)
        return sums

    for sums in source.each(of_block):
        result += np.where(result > floor, sums, 0.0)
        if not (result > floor).any():
            break
    return result


def log_likelihoods(source: RowSource, parameters: FloatArray, starts: IntArray, positive: IntArray) -> FloatArray:
    """Log-likelihood of every side over all rows."""
    total = np.zeros(len(starts) - 1)

    def of_block(block: Block) -> FloatArray:
        sums = np.zeros_like(total)
        work = workspace(not sp.issparse(block.inputs), parameters.shape[0] - 2, starts)
        rows = as_rows(block.inputs)
        check = side_log_likelihood(rows, block.codes, block.weights, parameters, starts, positive, work, sums)
        if isinstance(block.inputs, Columns):
            block.inputs.refuse_not_finite(check)
        return sums

    for sums in source.each(of_block):
        total += sums
    return total


def _truncated_poisson(rng: Generator, rate: FloatArray) -> IntArray:
    """Poisson given one event or more: the first at t (truncated exponential), then Pois(λ - t)."""
    first = -np.log1p(rng.random(rate.shape) * np.expm1(-rate))
    return 1 + rng.poisson(np.clip(rate - first, 0.0, 1e9))


def _draw_active(rng: Generator, rates: FloatArray, is_positive: Any, published: bool) -> Any:
    """Which experts are active on at least one row, from one draw; rates r_k s(ψ_ik) of one side."""
    if published:
        probability = -np.expm1(-rates)
        drawn = rng.random(rates.shape) < probability
        alone = is_positive & ~drawn.any(axis=1)
        chance = np.cumsum(probability[alone], axis=1)
        place = (rng.random((len(chance), 1)) * chance[:, -1:] > chance).sum(axis=1)
        active: Any = drawn.any(axis=0)
        active[np.minimum(place, rates.shape[1] - 1)] = True
        return active
    shares = np.maximum(rates[is_positive], TINY_RATE)
    total = shares.sum(axis=1)
    counts = rng.multinomial(_truncated_poisson(rng, total), shares / total[:, None])
    return counts.any(axis=0)


def draw_activity(
    rng: Generator,
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    *,
    published: bool,
) -> Any:
    """One draw of the activities of all experts over all rows (rows of weight zero left out)."""
    sides = unpack(parameters, starts)
    active = np.zeros(parameters.shape[1], bool)
    for block in source.blocks():
        for begin in range(0, len(block), _DRAW_ROWS):
            part: Block = block.take(slice(begin, begin + _DRAW_ROWS))
            part = part.take(np.flatnonzero(part.weights > 0))
            for s, side in enumerate(sides):
                is_positive = says_yes(part.codes, int(positive[s]))
                if published or is_positive.any():
                    rates = side.units(part.inputs) * side.expert_weights
                    active[starts[s] : starts[s + 1]] |= _draw_active(rng, rates, is_positive, published)
    return active


def surviving(
    rng: Generator,
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    config: MapSettings,
) -> tuple[Any, FloatArray]:
    """Which experts to keep, and how much each is needed (for sides that would lose all)."""
    if config.pruning == "none":
        return np.ones(parameters.shape[1], bool), parameters[0].copy()
    if config.pruning == "exact":
        threshold = math.log(config.prune_above)
        log_inactive = log_inactivity(source, parameters, starts, positive, floor=threshold)
        return log_inactive <= threshold, -log_inactive
    published = config.pruning == "published_draw"
    return draw_activity(rng, source, parameters, starts, positive, published=published), parameters[0].copy()
