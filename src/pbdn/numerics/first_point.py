"""The first point of a Poisson process on a line, in compiled loops.

The cumulative rate of row i is H_i(u) = Σ_k r_k s(ψ_ik + τ_k u), so P(first point > u) = e^{-H_i(u)}. A pair of processes, the
second one on the line turned round, has the average of their distributions: F(u) = ½[1 - e^{-H¹(u)} + e^{-H²(-u)}]. Posterior
draws of a pair have the average of all their distributions. The experts of all draws stand side by side; draw g has those from
``starts[g]`` to ``starts[g + 1]``.
"""

import math

from pbdn.numerics.compiled import internal, kernel
from pbdn.numerics.elementary import exp_negative

MOST_DOUBLINGS = 200  # of a bracket around a quantile
MOST_STEPS = 100  # of a search inside it
CLOSE = 1e-13  # width of the bracket, relative to its place, at which the search ends


@internal
def rate_and_hazard(distance, weights, coefs, begin, end, u):
    """H(u) and H'(u) of one row, by the experts from ``begin`` to ``end``."""
    rate, hazard = 0.0, 0.0
    for k in range(begin, end):
        x = distance[k] + coefs[k] * u
        e = exp_negative(-abs(x))
        q = 1.0 / (1.0 + e)
        rate += weights[k] * (max(x, 0.0) + math.log1p(e))
        hazard += weights[k] * coefs[k] * (q if x >= 0.0 else e * q)
    return rate, hazard


@kernel
def fill_rates(distance, weights, coefs, begin, end, u, rate, hazard):
    """H and H' at u_ij for every row i, by some experts; ``u``, ``rate`` and ``hazard`` have shape (n_rows, n_points)."""
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            rate[i, j], hazard[i, j] = rate_and_hazard(distance[i], weights, coefs, begin, end, u[i, j])


@internal
def pair_cdf_and_density(first, second, i, u):
    """F and its derivative for row i of a pair, each side (distances, weights, coefs, starts)."""
    value, density, n_draws = 0.0, 0.0, first[3].shape[0] - 1
    for g in range(n_draws):
        rate, hazard = rate_and_hazard(first[0][i], first[1], first[2], first[3][g], first[3][g + 1], u)
        other, own = rate_and_hazard(second[0][i], second[1], second[2], second[3][g], second[3][g + 1], -u)
        survival, beyond = math.exp(-rate), math.exp(-other)
        value += 0.5 * (1.0 - survival + beyond)
        density += 0.5 * (hazard * survival + own * beyond)
    return value / n_draws, density / n_draws


@kernel
def fill_quantiles(first, second, probability, out):
    """u with F(u) = probability, strictly between 0 and 1, for every row: Newton's method inside a bracket that shrinks."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            q, low, high = probability[i, j], -1.0, 1.0
            for _ in range(MOST_DOUBLINGS):
                if pair_cdf_and_density(first, second, i, low)[0] <= q:
                    break
                low *= 2.0
            for _ in range(MOST_DOUBLINGS):
                if pair_cdf_and_density(first, second, i, high)[0] >= q:
                    break
                high *= 2.0
            u = 0.5 * (low + high)
            for _ in range(MOST_STEPS):
                value, density = pair_cdf_and_density(first, second, i, u)
                if value < q:
                    low = u
                else:
                    high = u
                if high - low <= CLOSE * (1.0 + abs(u)):
                    break
                step = (value - q) / density if density > 0.0 else math.inf
                new = u - step
                if not low < new < high:
                    new = 0.5 * (low + high)
                elif abs(step) <= CLOSE * (1.0 + abs(u)):
                    u = new
                    break
                u = new
            out[i, j] = u
