"""Chinese-restaurant tables: how many there are, and the log-time of each."""

import math

import numpy as np

from pbdn.numerics.compiled import internal
from pbdn.numerics.softplus import inverse_softplus
from pbdn.variates.random_stream import uniform

ONE_BY_ONE = 64.0  # customers seated one at a time before gaps between new tables are drawn whole


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
