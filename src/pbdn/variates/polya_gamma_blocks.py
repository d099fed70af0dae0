"""Polya-Gamma variates of a whole block at once: the exact rejection of `polyagamma`, tried on all pending draws together.

A round proposes from the inverse Gaussian for every pending draw in loops that the compiler vectorises, and accepts those whose
first terms of the alternating series decide; the few others are decided one by one, and those refused go to the next round. Draws
with b ≤ 2, or b < 4 and |c| > 2, are made this way and are exact; the rest are those of `polyagamma.polya_gamma`.
"""

import numpy as np

from pbdn.numerics.compiled import internal, vectorised
from pbdn.numerics.elementary import ONE_BITS, as_float, exp_negative, log_positive, sine_quarter, unit_interval
from pbdn.variates.polya_gamma import envelope_ratio, polya_gamma, polya_gamma_envelope
from pbdn.variates.random_stream import fill_bits, uniform

ONE_BY_ONE = 8  # pending draws from which on rounds no longer pay
_TICKS = np.uint64(4095)  # the low 12 bits of a word, which `unit_interval` leaves unused


@internal
def block_work(size):
    """Scratch for blocks of up to ``size`` draws: places, random words, numbers."""
    return np.empty(size, np.int64), np.empty(2 * size + 4, np.uint64), np.empty((5, size + 1))


@vectorised
def squared_normals(words, n, out):
    """z² of n standard normals (Box & Muller 1958) in ``out``, from the first n or n + 1 words."""
    half = (n + 1) // 2
    first, second = out[:half], out[half : 2 * half]
    for j in range(half):
        radius = -2.0 * log_positive(unit_interval(words[j]))
        v = unit_interval(words[half + j])
        sine, cosine = sine_quarter(v), sine_quarter(1.0 - v)
        first[j] = radius * (sine * sine)
        second[j] = radius * (cosine * cosine)


@vectorised
def propose(b, c, n, words, normal2, x, verdict):
    """x ~ IG(b/2c, b²/4) as in `polya_gamma_envelope`, and what the first terms of a(x) say of it: 1 accept, -1 refuse, 0 open.

    For x < 0.8 and b < 4 the terms t_j of a(x) fall from j = 1 on, so 1 - t_1 ≤ a(x) ≤ 1 - t_1 + t_2.
    """
    for j in range(n):
        bc = b[j] * c[j]
        half = 0.5 * b[j]
        y = normal2[j]
        small = half * b[j] / (bc + y + np.sqrt(y * (y + 2.0 * bc)))
        u = unit_interval(words[j])
        large = half * half / (c[j] * c[j] * small)
        value = large if u * (half + c[j] * small) > half else small
        x[j] = value
        inverse = 1.0 / value
        lower = 1.0 - (2.0 + b[j]) * exp_negative(-0.5 * (1.0 + b[j]) * inverse)
        upper = lower + 0.5 * (4.0 + b[j]) * (1.0 + b[j]) * exp_negative(-(2.0 + b[j]) * inverse)
        tick = (as_float(np.int64(words[j] & _TICKS) | ONE_BITS) - 1.0) * 2.0**40  # U lies in [tick, tick + 1/4096)
        decided = 1.0 if tick + 1.0 / 4096.0 <= lower else (-1.0 if tick >= upper else 0.0)
        verdict[j] = decided if value < 0.8 else 0.0


@internal
def polya_gamma_block(stream, shape, distance, n, work, out):
    """out_j ~ PG(shape_j, distance_j) for j < n, independent; ``work`` from `block_work`."""
    place, words, numbers = work
    b, c, normal2, x, verdict = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    pending = np.int64(0)
    for j in range(n):
        size, tilt = shape[j], abs(distance[j])
        often = (0.0 < size <= 2.0 and tilt >= 0.0) or (2.0 < size < 4.0 and tilt > 2.0)
        if often:  # accepted once in four tries or more
            place[pending], b[pending], c[pending] = j, size, tilt
            pending += 1
        else:
            out[j] = polya_gamma(stream, size, tilt)
    while pending > ONE_BY_ONE:
        even = pending + pending % 2
        fill_bits(stream, words, 2 * even)
        squared_normals(words, pending, normal2)
        propose(b, c, pending, words[even:], normal2, x, verdict)
        left = np.int64(0)
        for j in range(pending):
            accepted = verdict[j] > 0.0
            if verdict[j] == 0.0 and x[j] < 9.0 + 2.0 * b[j]:
                u = (np.float64(words[even + j] & _TICKS) + uniform(stream)) * (1.0 / 4096.0)
                accepted = u < envelope_ratio(b[j], x[j])
            if accepted:
                out[place[j]] = x[j]
            else:
                place[left], b[left], c[left] = place[j], b[j], c[j]
                left += 1
        pending = left
    for j in range(pending):
        out[place[j]] = polya_gamma_envelope(stream, b[j], c[j])
