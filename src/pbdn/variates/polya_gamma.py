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

from pbdn.numerics.compiled import internal
from pbdn.variates.gamma import gamma_at_least_one
from pbdn.variates.random_stream import bits, normal, uniform

ENVELOPE_LIMIT = 0.7  # acceptance probability at least e^{-0.7} = 0.497
ONE_GAMMA = 1000.0  # from this b on one shifted gamma stands for the whole sum
SERIES_BELOW = 2.0  # |c| under which closed forms of the tail cumulants cancel

_D1 = 0.5 * np.pi**2  # d_1 at c = 0


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


_TAIL_SERIES = _tail_series()


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
        for j in range(_TAIL_SERIES.shape[1] - 1, -1, -1):
            first = first * c2 + _TAIL_SERIES[0, j]
            second = second * c2 + _TAIL_SERIES[1, j]
            third = third * c2 + _TAIL_SERIES[2, j]
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
