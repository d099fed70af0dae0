"""Polya-Gamma variates PG(b, c) for any b > 0 and any c.

PG(b, c) = Σ_{n≥1} g_n / d_n with g_n ~ Gamma(b, 1) and d_n = 2π²(n-½)² + c²/2; its Laplace transform is
(cosh(c/2) / cosh √(c²/4 + t/2))^b.

**Exact part.** Write cosh z = ½ e^z (1 + e^{-2z}). Without the factor (1 + e^{-2z})^b the transform is that of
the inverse Gaussian IG(mean b/2|c|, shape b²/4), and expanding the factor gives the density as

    f(x) = (1 + e^{-|c|})^b · IG(x) · a(x),
    a(x) = Σ_{j≥0} (-1)^j w_j e^{-j(j+b)/2x},   w_j = (2j+b) Γ(j+b) / (j! Γ(b+1)).

*Claim: 0 ≤ a(x) ≤ 1 for every b > 0*, so the inverse Gaussian is a rejection envelope with acceptance probability
(1 + e^{-|c|})^{-b}. Proof: at c = 0 the Lévy density of PG(b, 0) is (b/x) Σ_n e^{-d_n x}, which by Poisson
summation is at most b / (2x √(2πx)), that of the Lévy law L_b with transform e^{-b√(t/2)}. Hence L_b = PG(b, 0) + R
with R ≥ 0 independent, compound Poisson, and P(R = 0) = lim_{t→∞} 2^{-b}(1 + e^{-√(2t)})^b = 2^{-b}: the density
of L_b is at least 2^{-b} times that of PG(b, 0). Tilting both by e^{-c²x/2} gives the general c.
Every draw with b ≤ 1 or b e^{-|c|} ≤ ENVELOPE_LIMIT is made this way, up to rounding of a(x) (1e-13).

**Approximate part** (large b at small |c|). The first term g_1/d_1 is drawn exactly; the rest of the sum is replaced by
a shifted gamma with the same first three cumulants. For b ≥ ONE_GAMMA the whole sum is. The relative error of the
fourth cumulant is below 2e-3, and below 10 % for b ≥ ONE_GAMMA where it no longer shows (docs/decisions.md).
"""

import numpy as np

from pbdn.numerics.compiled import internal, vectorised
from pbdn.numerics.elementary import ONE_BITS, as_float, exp_negative, log_positive, sine_quarter, unit_interval
from pbdn.variates.random_stream import bits, fill_bits, gamma_at_least_one, normal, uniform

ENVELOPE_LIMIT = 0.7  # acceptance probability at least e^{-0.7} = 0.497
ONE_GAMMA = 1000.0  # from this b on one shifted gamma stands for the whole sum
SERIES_BELOW = 2.0  # |c| under which closed forms of the tail cumulants cancel

_D1 = 0.5 * np.pi**2  # d_1 at c = 0
ONE_BY_ONE = 8  # pending draws from which on rounds no longer pay
_TICKS = np.uint64(4095)  # the low 12 bits of a word, which `unit_interval` leaves unused


def _tail_series(n_terms: int = 9) -> np.ndarray:
    """Coefficients in c² of Σ_{n≥2} d_n^{-1}, Σ d_n^{-2}, 2 Σ d_n^{-3} (cumulants 1 to 3 of the tail at b = 1).

    Σ_n (e_n + c²/2)^{-p} = Σ_j (-1)^j binom(p+j-1, j) (c²/2)^j Σ_n e_n^{-p-j} with e_n = 2π²(n-½)²; the sums over n ≥ 2 are
    Hurwitz zeta values.
    """
    from scipy.special import binom, zeta

    rows = []
    for p, factor in ((1, 1.0), (2, 1.0), (3, 2.0)):
        j = np.arange(n_terms)
        power_sum = zeta(2.0 * (p + j), 1.5) / (2.0 * np.pi**2) ** (p + j)
        rows.append(factor * binom(p + j - 1, j) * (-0.5) ** j * power_sum)
    return np.array(rows)


TAIL_SERIES = _tail_series()


@internal
def unit_cumulants(c):
    """Cumulants 1 to 3 of PG(1, c) for |c| ≥ SERIES_BELOW (closed form in h = |c|/2, t = tanh h)."""
    h = 0.5 * abs(c)
    t = np.tanh(h)
    sech2 = (1.0 - t) * (1.0 + t)
    h2 = h * h
    first = 0.25 * t / h
    second = (t - sech2 * h) / (16.0 * h * h2)
    third = (3.0 * (t - sech2 * h) - 2.0 * t * sech2 * h2) / (64.0 * h * h2 * h2)
    return first, second, third


@internal
def tail_cumulants(c, d1):
    """Cumulants 1 to 3 of Σ_{n≥2} g_n / d_n at b = 1."""
    if abs(c) < SERIES_BELOW:
        c2 = c * c
        first, second, third = 0.0, 0.0, 0.0
        for j in range(TAIL_SERIES.shape[1] - 1, -1, -1):
            first = first * c2 + TAIL_SERIES[0, j]
            second = second * c2 + TAIL_SERIES[1, j]
            third = third * c2 + TAIL_SERIES[2, j]
        return first, second, third
    first, second, third = unit_cumulants(c)
    inverse = 1.0 / d1
    return first - inverse, second - inverse * inverse, third - 2.0 * inverse * inverse * inverse


@internal
def shifted_gamma(stream, b, first, second, third):
    """A shifted gamma whose first three cumulants are b times those given."""
    scale = 0.5 * third / second
    shape = b * second / (scale * scale)
    return b * first + scale * (gamma_at_least_one(stream, shape) - shape)


@internal
def envelope_ratio(b, x):
    """a(x) of the module docstring, to about 1e-13 absolute."""
    ratio = np.exp(-0.5 * (1.0 + b) / x)  # e^{-(2j-1+b)/2x}, here j = 1
    shrink = np.exp(-1.0 / x)
    term, weight, total = 1.0, 1.0, 1.0  # weight = Γ(j+b) / (j! Γ(b+1)); the factor (2j+b) is apart
    j = 0
    while True:
        j += 1
        term *= ratio
        ratio *= shrink
        if j > 1:
            weight *= (j - 1.0 + b) / j
        piece = weight * (2.0 * j + b) * term
        total += -piece if j % 2 == 1 else piece
        if piece < 1e-16 and ratio < 0.5:
            return total


@internal
def under_envelope(stream, b, x, tick):
    """True with probability a(x), decided by U = (tick + U') / 2048 with 0 ≤ tick < 2048 random; U' is rarely needed.

    For x < 0.8 and b < 4 the terms of a(x) fall from j = 1 on, so a(x) ≥ 1 - (2+b) e^{-(1+b)/2x}.
    """
    if x * 72.0 < 1.0:  # a(x) = 1 to double precision
        return True
    if x > 9.0 + 2.0 * b:  # a(x) ~ x^{b+1/2} e^{-π²x/2} has vanished
        return False
    bounded = x < 0.8 and b < 4.0
    if bounded and 12.8 * x < 1.0 + b and tick < 2020.0:  # (2+b) e^{-6.4} < 0.01 < 1 - 2021/2048
        return True
    u = (tick + uniform(stream)) * (1.0 / 2048.0)
    if bounded and u < 1.0 - (2.0 + b) * np.exp(-0.5 * (1.0 + b) / x):
        return True
    return u < envelope_ratio(b, x)


@internal
def polya_gamma_envelope(stream, b, c):
    """ω ~ PG(b, c), exact for all b, c > 0; acceptance probability (1 + e^{-c})^{-b}."""
    bc = b * c
    half = 0.5 * b
    while True:
        # IG(b/2c, b²/4): the roots x of c²(x - b/2c)² = z² x, the smaller computed without cancellation
        z = normal(stream)
        y = z * z
        x = half * b / (bc + y + np.sqrt(y * (y + 2.0 * bc)))
        word = bits(stream)
        u = (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53
        if u * (half + c * x) > half:
            x = half * half / (c * c * x)
        if under_envelope(stream, b, x, np.float64(word & np.uint64(2047))):
            return x


@internal
def polya_gamma_sum(stream, b, c):
    """ω ~ PG(b, c) for b > 1 up to the stated errors of the fourth and higher cumulants."""
    d1 = _D1 + 0.5 * c * c
    first, second, third = tail_cumulants(c, d1)
    if b < ONE_GAMMA:
        return gamma_at_least_one(stream, b) / d1 + shifted_gamma(stream, b, first, second, third)
    inverse = 1.0 / d1
    second += inverse * inverse
    third += 2.0 * inverse * inverse * inverse
    return shifted_gamma(stream, b, first + inverse, second, third)


@internal
def polya_gamma(stream, b, c):
    """ω ~ PG(b, c) for b ≥ 0 and any c; b = 0 gives 0, and a NaN gives NaN instead of an endless search."""
    if b <= 0.0:
        return 0.0
    if np.isnan(b + c):
        return np.nan
    c = abs(c)
    if b <= 1.0 or b * np.exp(-c) <= ENVELOPE_LIMIT:
        return polya_gamma_envelope(stream, b, c)
    return polya_gamma_sum(stream, b, c)


# Polya-Gamma variates of a whole block at once: the exact rejection above, tried on all pending draws together.
#
# A round proposes from the inverse Gaussian for every pending draw in loops that the compiler vectorises, and accepts those whose
# first terms of the alternating series decide; the few others are decided one by one, and those refused go to the next round. Draws
# with b ≤ 2, or b < 4 and |c| > 2, are made this way and are exact; the rest are those of `polya_gamma`.


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
