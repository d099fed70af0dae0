"""Kernels of a sweep for CUDA, in Triton; what they draw is said in `pbdn.gibbs.device_draws`, from the same random words.

Inputs are held as x = high + low, two bfloat16 numbers of together 16 bits, so that every product runs on the matrix units and the
same x is seen by all steps. A product of two such numbers drops low × low (2⁻¹⁷ of the whole at most). Sums of products are float32
for a few thousand rows, then float64. Positions of first events, where rates of very different size meet, are float64.
Row numbers, sweep and key come in a tensor, so that kernels are compiled once.
"""

import triton
import triton.language as tl

from pbdn.gibbs.device_draws import MOST_PIECES, ROW, SERIES_END, SERIES_TERMS
from pbdn.numerics.softplus import LOG_TINY

_ROW = tl.constexpr(ROW)
_TERMS, _END, _MOST = tl.constexpr(SERIES_TERMS), tl.constexpr(SERIES_END), tl.constexpr(MOST_PIECES)
_LOG_TINY = tl.constexpr(float(LOG_TINY))


@triton.jit
def _softplus(x):
    """ln(1 + e^x) to float32 precision; ln(1 + t) for 0 ≤ t ≤ 1 by a fitted polynomial."""
    t = tl.exp(-tl.abs(x))
    p = 0.005105825803670806 * t - 0.02899195640630694
    p = (p * t + 0.07738073840605719) * t - 0.13590600237786898
    p = (p * t + 0.19071309584506568) * t - 0.2483394545714135
    p = (p * t + 0.3331793432202687) * t - 0.49999435690456273
    return tl.maximum(x, 0.0) + (p * t + 0.9999999651599145) * t


@triton.jit
def _words(names, row, column):
    """Four random words for every row and column = 65536 attempt + expert; ``names`` are key, sweep, purpose, first row."""
    low = (row & 0xFFFFFFFF).to(tl.uint32)
    far = (tl.load(names + 2) + 16 * (row >> 32)).to(tl.uint32)
    sweep = (tl.load(names + 1) + 0 * row).to(tl.uint32)
    return tl.philox(tl.load(names), low, column.to(tl.uint32), sweep, far)


@triton.jit
def _fine_uniform(first, second):
    """Uniform(0, 1) of 53 bits."""
    bits = (first.to(tl.uint64) << 21) ^ (second >> 11).to(tl.uint64)
    return (bits.to(tl.float64) + 0.5) * 1.1102230246251565e-16


@triton.jit
def _uniform(word):
    """Uniform(0, 1) of one word, in float32."""
    return (word.to(tl.float32) + 0.5) * 2.3283064365386963e-10


@triton.jit
def draw_events(
    high, low, planes, log_weights, in_likelihood, exposure, offset, event, names,
    distance, watched, winner, n_tables, exposed, log_likelihood, n_rows, n_experts, stride,
    ROWS: tl.constexpr, TILE: tl.constexpr, INPUTS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Phase A of ROWS rows: first events, and their sums."""
    program = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, EXPERTS)
    d = tl.arange(0, INPUTS)
    real = k < n_experts
    log_weight = tl.load(log_weights + k, mask=real, other=-1e30)[None, :]
    counted = tl.load(in_likelihood + k, mask=real, other=0.0)[None, :]
    sum_tables = tl.zeros([EXPERTS], tl.float64)
    sum_exposed = tl.zeros([EXPERTS], tl.float64)
    sum_log = tl.zeros([TILE], tl.float64)
    for start in range(0, ROWS, TILE):
        i = program * ROWS + start + tl.arange(0, TILE)
        psi = tl.zeros([TILE, EXPERTS], tl.float32)
        for begin in range(0, stride, INPUTS):
            inside = begin + d < stride
            at = i[:, None] * stride + (begin + d)[None, :]
            x_high = tl.load(high + at, mask=inside[None, :], other=0.0)
            x_low = tl.load(low + at, mask=inside[None, :], other=0.0)
            place = planes + k[None, :] * stride + (begin + d)[:, None]
            one = tl.load(place, mask=inside[:, None], other=0.0)
            two = tl.load(place + EXPERTS * stride, mask=inside[:, None], other=0.0)
            three = tl.load(place + 2 * EXPERTS * stride, mask=inside[:, None], other=0.0)
            psi = tl.dot(x_high, one, psi)
            psi = tl.dot(x_high, two, psi)
            psi = tl.dot(x_low, one, psi)
            psi = tl.dot(x_high, three, psi)
            psi = tl.dot(x_low, two, psi)
        e = tl.load(exposure + i)
        o = tl.load(offset + i)
        has_event = tl.load(event + i) != 0
        psi += o[:, None]
        soft = _softplus(psi)
        rate = e.to(tl.float64) * tl.sum(soft * counted, axis=1).to(tl.float64)
        miss = tl.where(rate < 1e-6, rate * (1.0 - 0.5 * rate), 1.0 - tl.exp(-rate))
        sum_log += tl.where(has_event, tl.maximum(tl.log(miss), _LOG_TINY), -rate)
        # masses of the experts relative to the largest, laid end to end
        row = tl.load(names + 3) + i
        log_soft = tl.where(psi < -15.0, psi, tl.log(soft))
        log_mass = log_weight + log_soft
        most = tl.max(log_mass, axis=1)
        mass = tl.exp(log_mass - most[:, None]).to(tl.float64)
        ends = tl.cumsum(mass, axis=1)
        begins = ends - mass
        length = tl.sum(mass, axis=1)
        reach = e.to(tl.float64) * tl.exp(most.to(tl.float64)) * length
        w0, w1, w2, w3 = _words(names, row, tl.full([TILE], _ROW, tl.int32))
        position = _fine_uniform(w0, w2)
        before = position * tl.where(reach < 1e-6, reach * (1.0 - 0.5 * reach), 1.0 - tl.exp(-reach))
        first = tl.where(before < 1e-6, before * (1.0 + 0.5 * before), -tl.log(1.0 - before))
        first = tl.where(reach < 1e-12, position, first / reach) * length
        missed = (first >= length)[:, None]
        hit = tl.where(missed, log_mass >= most[:, None], (first[:, None] >= begins) & (first[:, None] < ends))
        inside_mass = tl.where(missed, mass, first[:, None] - begins)
        # experts behind the first one have points of their own
        v0, v1, v2, v3 = _words(names, row[:, None] + 0 * k[None, :], k[None, :] + 0 * row[:, None])
        v = _fine_uniform(v0, v2).to(tl.float32)
        own = tl.where(v < 1e-3, v * (1.0 + v * (0.5 + v * 0.333333)), -tl.log(1.0 - tl.minimum(v, 0.99999994)))
        own = tl.maximum(own, 1e-37)
        behind = (begins > first[:, None]) & (own < e[:, None] * tl.exp(log_mass))
        log_place = (
            tl.where(
                hit,
                tl.log(tl.maximum(inside_mass.to(tl.float32), 1e-37)) + most[:, None],
                tl.log(own) - tl.log(e)[:, None],
            )
            - log_weight
        )
        a = tl.exp(tl.minimum(log_place, 80.0))
        small = log_place + a * (0.5 + a * (1.0 / 24.0 - a * a * (1.0 / 2880.0)))
        large = tl.where(a > 17.0, a, tl.log(tl.exp(tl.minimum(a, 20.0)) - 1.0))
        delta = tl.minimum(tl.where(a < 0.5, small, large) - psi, 0.0)
        delta = tl.where((hit | behind) & real[None, :], delta, float("inf"))
        which = tl.argmin(delta, axis=1)
        earlier = tl.where(has_event, tl.min(delta, axis=1), 0.0)
        which = tl.where(has_event, which, -1)
        cut = psi + earlier[:, None]
        sum_exposed += tl.sum((e[:, None] * _softplus(cut)).to(tl.float64), axis=0)
        sum_tables += tl.sum((which[:, None] == k[None, :]).to(tl.float64), axis=0)
        tl.store(watched + i, earlier + o)
        tl.store(winner + i, which)
        tl.store(distance + k[None, :].to(tl.int64) * n_rows + i[:, None], cut, mask=real[None, :])
    tl.store(n_tables + program * EXPERTS + k, sum_tables)
    tl.store(exposed + program * EXPERTS + k, sum_exposed)
    tl.store(log_likelihood + program, tl.sum(sum_log, axis=0))


@triton.jit
def _envelope_ratio(b, x):
    """a(x) of `pbdn.variates.polya_gamma`, b ≤ 1, in float64."""
    b = b.to(tl.float64)
    inverse = 1.0 / tl.minimum(tl.maximum(x.to(tl.float64), 1e-30), _END)
    ratio = tl.exp(-0.5 * (1.0 + b) * inverse)
    shrink = tl.exp(-inverse)
    term = ratio
    total = 1.0 - (2.0 + b) * term
    sign = 1.0
    for j in range(2, _TERMS + 1):
        ratio = ratio * shrink
        term = term * ratio * ((j - 1.0 + b) / j)
        total += sign * (2.0 * j + b) * term
        sign = -sign
    return total


@triton.jit
def draw_polya_gamma(distance, winner, exposure, weights, names, omega, n_rows, CELLS: tl.constexpr):
    """ω_ik ~ PG(e_i r_k + [k won], ψ_ik) of one expert and CELLS rows; zero where b > MOST_PIECES."""
    k = tl.program_id(1)
    i = tl.program_id(0).to(tl.int64) * CELLS + tl.arange(0, CELLS)
    row = tl.load(names + 3) + i
    c = tl.abs(tl.load(distance + k.to(tl.int64) * n_rows + i))
    b = tl.load(exposure + i) * tl.load(weights + k) + tl.where(tl.load(winner + i) == k, 1.0, 0.0)
    can = (b > 0.0) & (b <= _MOST) & (c < 1e30)
    left = tl.where(can, tl.ceil(b), 0.0)
    piece = b / tl.maximum(left, 1.0)
    half = 0.5 * piece
    bc = piece * c
    total = tl.where(c == c, 0.0, float("nan")) + tl.zeros([CELLS], tl.float32)
    column = tl.zeros([CELLS], tl.int32) + k
    while tl.max(left, axis=0) > 0.0:
        w0, w1, w2, w3 = _words(names, row, column)
        sine = tl.sin(1.5707963267948966 * _uniform(w2))
        y = tl.maximum(-2.0 * tl.log(_uniform(w0)) * sine * sine, 1e-30)
        small = half * piece / (bc + y + tl.sqrt(y * (y + 2.0 * bc)))
        is_large = _uniform(w1) * (half + c * small) > half
        x = tl.where(is_large, half * half / tl.maximum(c * c * small, 1e-37), small)
        test = _uniform(w3)
        inverse = 1.0 / tl.maximum(x, 1e-37)
        lower = 1.0 - (2.0 + piece) * tl.exp(-0.5 * (1.0 + piece) * inverse)
        upper = lower + 0.5 * (4.0 + piece) * (1.0 + piece) * tl.exp(-(2.0 + piece) * inverse)
        near = x < 0.8
        accepted = near & (test < lower - 1e-6)
        refused = tl.where(near, test >= upper + 1e-6, x >= _END)
        undecided = (left > 0.0) & ~(accepted | refused)
        if tl.max(undecided.to(tl.int32), axis=0) > 0:
            accepted = accepted | (undecided & (test.to(tl.float64) < _envelope_ratio(piece, x)))
        accepted = accepted & (left > 0.0)
        total += tl.where(accepted, x, 0.0)
        left -= tl.where(accepted, 1.0, 0.0)
        column += 65536
    tl.store(omega + k.to(tl.int64) * n_rows + i, total)


@triton.jit
def sum_moments(
    high, low, omega, watched, winner, exposure, weights, out, n_rows, n_experts, stride,
    ROWS: tl.constexpr, TILE: tl.constexpr, INPUTS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """h_k of ROWS rows and INPUTS inputs, all experts."""
    program = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, EXPERTS)
    d = tl.program_id(1) * INPUTS + tl.arange(0, INPUTS)
    real = (k < n_experts)[None, :]
    weight = tl.load(weights + k, mask=k < n_experts, other=0.0)[None, :]
    total = tl.zeros([INPUTS, EXPERTS], tl.float32)
    for start in range(0, ROWS, TILE):
        i = program * ROWS + start + tl.arange(0, TILE)
        at = i[:, None] * stride + d[None, :]
        x_high = tl.load(high + at, mask=(d < stride)[None, :], other=0.0)
        x_low = tl.load(low + at, mask=(d < stride)[None, :], other=0.0)
        pg = tl.load(omega + k[None, :].to(tl.int64) * n_rows + i[:, None], mask=real, other=0.0)
        won = tl.where(tl.load(winner + i)[:, None] == k[None, :], 0.5, 0.0)
        linear = won - 0.5 * tl.load(exposure + i)[:, None] * weight - pg * tl.load(watched + i)[:, None]
        one = linear.to(tl.bfloat16)
        two = (linear - one.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(tl.trans(x_high), one, total)
        total = tl.dot(tl.trans(x_high), two, total)
        total = tl.dot(tl.trans(x_low), one, total)
    tl.store(out + (program * stride + d[:, None]) * EXPERTS + k[None, :], total, mask=(d < stride)[:, None])


@triton.jit
def sum_grams(
    high, low, omega, out, n_rows, stride, n_blocks, part_rows,
    TILE: tl.constexpr, INPUTS: tl.constexpr, ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """A_k of ``part_rows`` rows, one expert and one block of inputs.

    Matrix units cut off what does not fit into a float32 sum; so every tile has a sum of its own, and these are added by rounding.
    """
    k = tl.program_id(0)
    n_experts = tl.num_programs(0)
    part = tl.program_id(1).to(tl.int64)
    v = (tl.program_id(2) // n_blocks) * INPUTS + tl.arange(0, INPUTS)
    w = (tl.program_id(2) % n_blocks) * INPUTS + tl.arange(0, INPUTS)
    total = tl.zeros([INPUTS, INPUTS], tl.float32)
    for start in range(0, part_rows, TILE):
        i = part * part_rows + start + tl.arange(0, TILE)
        at = i[:, None] * stride + v[None, :]
        x_high = tl.load(high + at, mask=(v < stride)[None, :], other=0.0)
        x_low = tl.load(low + at, mask=(v < stride)[None, :], other=0.0)
        if ONE_BLOCK:
            x = x_high.to(tl.float32) + x_low.to(tl.float32)
        else:
            at = i[:, None] * stride + w[None, :]
            x = tl.load(high + at, mask=(w < stride)[None, :], other=0.0).to(tl.float32)
            x += tl.load(low + at, mask=(w < stride)[None, :], other=0.0).to(tl.float32)
        weighted = tl.load(omega + k.to(tl.int64) * n_rows + i)[:, None] * x
        one = weighted.to(tl.bfloat16)
        two = (weighted - one.to(tl.float32)).to(tl.bfloat16)
        of_tile = tl.dot(tl.trans(x_low), one)
        of_tile = tl.dot(tl.trans(x_high), two, of_tile)
        total += tl.dot(tl.trans(x_high), one, of_tile)
    place = out + ((part * n_experts + k) * stride + v[:, None]) * stride + w[None, :]
    tl.store(place, total, mask=(v < stride)[:, None] & (w < stride)[None, :])
