"""Counts: Poisson, zero-truncated Poisson, binomial, multinomial and Bessel, and the tables of a Chinese restaurant."""

import math

import numpy as np

from pbdn.numerics.compiled import internal
from pbdn.numerics.softplus import inverse_softplus
from pbdn.variates.random_stream import normal, uniform

SEARCH_BELOW = 10.0  # means under which the table is searched from the bottom
NORMAL_ABOVE = 1e12  # lgamma loses the differences that count; the normal (or Poisson) law is within 1e-6
ONE_BY_ONE = 64.0  # customers seated one at a time before gaps between new tables are drawn whole


@internal
def poisson_above_ten(stream, mean):
    """N ~ Poisson(mean) for mean ≥ 10: transformed rejection (Hörmann 1993, PTRS); exact up to NORMAL_ABOVE."""
    if mean > NORMAL_ABOVE:
        return np.floor(mean + np.sqrt(mean) * normal(stream) + 0.5)
    spread = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * spread
    inv_alpha = 1.1239 + 1.1328 / (spread - 3.4)
    squeeze = 0.9277 - 3.6224 / (spread - 2.0)
    while True:
        u = uniform(stream) - 0.5
        v = uniform(stream)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + spread) * u + mean + 0.43)
        if us >= 0.07 and v <= squeeze:
            return k
        if k < 0.0 or (us < 0.013 and v > us):
            continue
        if np.log(v * inv_alpha / (a / (us * us) + spread)) <= k * np.log(mean) - mean - math.lgamma(k + 1.0):
            return k


@internal
def positive_poisson(stream, mean):
    """N ~ Poisson(mean) given N ≥ 1, mean > 0; as mean → 0 the draw tends to 1.

    Under SEARCH_BELOW the law P(N = n) = mean^n / (n! (e^mean - 1)) is searched from n = 1.
    """
    if mean >= SEARCH_BELOW:
        while True:
            count = poisson_above_ten(stream, mean)
            if count > 0.0:
                return count
    if mean < 1e-300:
        return 1.0
    u = uniform(stream)
    count = 1.0
    mass = mean / np.expm1(mean)
    while u > mass:
        u -= mass
        count += 1.0
        mass *= mean / count
        if mass < 1e-18:  # all mass spent but for rounding
            return count
    return count


@internal
def poisson(stream, mean):
    """N ~ Poisson(mean), mean ≥ 0; exact up to NORMAL_ABOVE."""
    if mean >= SEARCH_BELOW:
        return poisson_above_ten(stream, mean)
    return 0.0 if uniform(stream) <= np.exp(-mean) else positive_poisson(stream, mean)


@internal
def binomial(stream, n, p):
    """N ~ Binomial(n, p), n a whole number held in a double; exact (normal law above NORMAL_ABOVE)."""
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    if p > 0.5:
        return n - binomial_lower(stream, n, 1.0 - p)
    return binomial_lower(stream, n, p)


@internal
def binomial_lower(stream, n, p):
    """N ~ Binomial(n, p) for p ≤ ½: search for n p < 10, else transformed rejection (Hörmann 1993, BTRS)."""
    mean = n * p
    odds = p / (1.0 - p)
    if mean < SEARCH_BELOW:
        u = uniform(stream)
        mass = np.exp(n * np.log1p(-p))
        k = 0.0
        while u > mass and k < n:
            u -= mass
            k += 1.0
            mass *= (n - k + 1.0) / k * odds
            if mass < 1e-18 and k > mean:
                break
        return k
    spread = np.sqrt(mean * (1.0 - p))
    if n > NORMAL_ABOVE:
        if mean < 1e6:
            return poisson_above_ten(stream, mean)
        return min(n, max(0.0, np.floor(mean + spread * normal(stream) + 0.5)))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = mean + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b
    mode = np.floor((n + 1.0) * p)
    log_odds = np.log(odds)
    top = math.lgamma(mode + 1.0) + math.lgamma(n - mode + 1.0)
    while True:
        u = uniform(stream) - 0.5
        v = uniform(stream)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + center)
        if k < 0.0 or k > n:
            continue
        if us >= 0.07 and v <= squeeze:
            return k
        v *= alpha / (a / (us * us) + b)
        if np.log(v) <= top - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0) + (k - mode) * log_odds:
            return k


@internal
def multinomial_split(stream, total, mass, counts):
    """Counts ~ Multinomial(total, mass / Σ mass), written into ``counts``.

    Customer by customer while the total is small, expert by expert (conditional binomials) when it is large.
    """
    n_parts = mass.shape[0]
    whole = 0.0
    for k in range(n_parts):
        counts[k] = 0.0
        whole += mass[k]
    if total < 2.0 * n_parts:
        for _ in range(int(total)):
            counts[choose(stream, mass, whole)] += 1.0
        return
    left = total
    for k in range(n_parts - 1):
        if left <= 0.0 or whole <= 0.0:
            break
        counts[k] = binomial(stream, left, min(1.0, mass[k] / whole))
        left -= counts[k]
        whole -= mass[k]
    counts[n_parts - 1] += left


@internal
def choose(stream, mass, whole):
    """K with P(K = k) = mass_k / whole, where whole = Σ mass > 0; never an index of zero mass."""
    left = uniform(stream) * whole
    last = 0
    for k in range(mass.shape[0]):
        if mass[k] > 0.0:
            last = k
            left -= mass[k]
            if left < 0.0:
                return k
    return last


@internal
def bessel_count(stream, z):
    """N ≥ 1 with P(N = n) = zⁿ / (n! (n-1)!) / c(z): how many gamma variates add up to a known sum (Bessel law of order one).

    With N ~ Poisson(λ) and Y | N ~ Gamma(N, ς) this is the law of N given Y = y > 0, at z = ς y λ. Weights are summed from the
    mode outward until they are below 1e-18 of the largest, then searched; the cost grows as the fourth root of z.
    """
    if z < 1e-30:
        return 1.0
    mode = max(1.0, np.floor(0.5 + np.sqrt(z + 0.25)))
    whole = 1.0
    mass, n = 1.0, mode
    while mass > 1e-18:
        n += 1.0
        mass *= z / (n * (n - 1.0))
        whole += mass
    mass, n = 1.0, mode
    while n > 1.0 and mass > 1e-18:
        mass *= n * (n - 1.0) / z
        n -= 1.0
        whole += mass
    left = uniform(stream) * whole - 1.0
    mass, n = 1.0, mode
    while left >= 0.0 and mass > 1e-18:
        n += 1.0
        mass *= z / (n * (n - 1.0))
        left -= mass
    if left < 0.0:
        return n
    mass, n = 1.0, mode
    while left >= 0.0 and n > 1.0:
        mass *= n * (n - 1.0) / z
        n -= 1.0
        left -= mass
    return n


@internal
def log_rising_ratio(t, a):
    """ln Γ(t + a) - ln Γ(t); for large t the difference of two Stirling series, which does not cancel."""
    if t < 1e3:
        return math.lgamma(t + a) - math.lgamma(t)
    return (t - 0.5) * np.log1p(a / t) - a + a * np.log(t + a) - a / (12.0 * t * (t + a))


@internal
def crt(stream, customers, concentration):
    """L ~ CRT(n, a) = Σ_{j=1..n} Bernoulli(a / (a + j - 1)): tables taken by n customers at concentration a.

    n = 0 gives 0, n ≥ 1 at least 1 (as a → 0 exactly 1). Beyond ONE_BY_ONE customers the next new table
    is found by inversion, P(none among customers i+1..t) = Γ(t) Γ(a+i) / (Γ(i) Γ(a+t)), so the cost is the
    number of tables, about a ln(n/a), not the number of customers. Exact up to rounding of lgamma.
    """
    if customers <= 0.0:
        return 0.0
    tables = 1.0
    seated = 1.0
    first = min(customers, ONE_BY_ONE)
    while seated < first:
        if uniform(stream) * (concentration + seated) < concentration:
            tables += 1.0
        seated += 1.0
    while seated < customers:
        # R(t) = Γ(t+a)/Γ(t): the next new table is the first t with R(seated) / R(t) ≤ U
        goal = log_rising_ratio(seated, concentration) - np.log(uniform(stream))
        if log_rising_ratio(customers, concentration) < goal:
            return tables
        low, high = seated, customers
        guess = np.floor(np.exp(min(goal / concentration, 700.0)) - 0.5 * (concentration - 1.0))
        if low < guess < high:  # Γ(t+a)/Γ(t) ≈ (t + (a-1)/2)^a: bracket closely where that is inside
            width = np.floor(2.0 + 1e-3 * guess)
            if log_rising_ratio(max(low, guess - width), concentration) < goal:
                low = max(low, guess - width)
            if log_rising_ratio(min(high, guess + width), concentration) >= goal:
                high = min(high, guess + width)
        while high - low > 1.0:
            middle = np.floor(0.5 * (low + high))
            if middle <= low or middle >= high:
                break
            if log_rising_ratio(middle, concentration) >= goal:
                high = middle
            else:
                low = middle
        tables += 1.0
        seated = high
    return tables


@internal
def table_distance(stream, low, high):
    """η with density σ(η) / (high - low) where s(η) lies in (low, high): η = ln(e^{low + U (high - low)} - 1).

    The signed distance at which a table of a row opened; low = 0, high = s(ψ) for "some time before now".
    Its log-time is δ = η - x'β, held fixed while β is drawn.
    """
    return inverse_softplus(low + uniform(stream) * (high - low))
