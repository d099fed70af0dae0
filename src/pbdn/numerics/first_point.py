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
ROUNDING = 1e-9  # far above the rounding errors of probabilities, and far below what matters
LOG_IS_LINEAR = -37.0  # below it ln s(x) = x, and 1 - e^{-e^x} = e^x, to double precision


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


@internal
def log_rate_and_slope(distance, weights, coefs, begin, end, u):
    """ln H(u), and its derivative H'(u) / H(u), of one row; where H itself is nothing in double precision, too."""
    most, total, speed = -math.inf, 0.0, 0.0
    for k in range(begin, end):
        x = distance[k] + coefs[k] * u
        e = exp_negative(-abs(x))
        soft = max(x, 0.0) + math.log1p(e)
        slope = 1.0 if x < LOG_IS_LINEAR else (1.0 if x >= 0.0 else e) / ((1.0 + e) * soft)
        part = math.log(weights[k]) + (x if x < LOG_IS_LINEAR else math.log(soft))
        if part > most:  # sums are in units of the largest part so far
            shrink = math.exp(most - part)
            total, speed, most = total * shrink, speed * shrink, part
        share = math.exp(part - most)
        total += share
        speed += share * coefs[k] * slope
    return most + math.log(total), speed / total


@internal
def log_mean_rate_and_slope(side, i, u):
    """ln of -ln of the average of e^{-H_g(u)} over the draws of a side, and its derivative, for row i."""
    distance, weights, coefs, starts = side[0][i], side[1], side[2], side[3]
    log_rate, slope = log_rate_and_slope(distance, weights, coefs, starts[0], starts[1], u)
    n_draws = starts.shape[0] - 1
    if n_draws == 1:
        return log_rate, slope
    least, most = log_rate, log_rate
    for g in range(1, n_draws):
        log_rate, _ = log_rate_and_slope(distance, weights, coefs, starts[g], starts[g + 1], u)
        least, most = min(least, log_rate), max(most, log_rate)
    total, speed = 0.0, 0.0
    if most < LOG_IS_LINEAR:  # the average of e^{-H} is 1 less that of H
        for g in range(n_draws):
            log_rate, slope = log_rate_and_slope(distance, weights, coefs, starts[g], starts[g + 1], u)
            total += math.exp(log_rate - most)
            speed += math.exp(log_rate - most) * slope
        return most + math.log(total / n_draws), speed / total
    share, lowest = 0.0, math.exp(least)
    for g in range(n_draws):
        log_rate, slope = log_rate_and_slope(distance, weights, coefs, starts[g], starts[g + 1], u)
        rate = math.exp(log_rate)
        total += math.expm1(lowest - rate)
        share += math.exp(lowest - rate)
        speed += math.exp(lowest - rate) * rate * slope
    rate = lowest - math.log1p(total / n_draws)
    return math.log(rate), speed / (share * rate)


@internal
def gap_and_slope(first, second, i, u, q):
    """What is 0 at the quantile and rises with u, and its derivative.

    At the median both processes have the same rate. F may be ½ to double precision far around it, where they disagree.
    """
    if q == 0.5:
        log_rate, slope = log_mean_rate_and_slope(first, i, u)
        other, own = log_mean_rate_and_slope(second, i, -u)
        return log_rate - other, slope + own
    value, density = pair_cdf_and_density(first, second, i, u)
    return value - q, density


@kernel
def fill_quantiles(first, second, probability, out):
    """u with F(u) = probability, strictly between 0 and 1, for every row.

    Newton's method inside a bracket that shrinks, halved where steps do not become half as long.
    """
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            q, low, high = probability[i, j], -1.0, 1.0
            for _ in range(MOST_DOUBLINGS):
                if gap_and_slope(first, second, i, low, q)[0] <= 0.0:
                    break
                low *= 2.0
            for _ in range(MOST_DOUBLINGS):
                if gap_and_slope(first, second, i, high, q)[0] >= 0.0:
                    break
                high *= 2.0
            u, last = 0.5 * (low + high), high - low
            for _ in range(MOST_STEPS):
                gap, slope = gap_and_slope(first, second, i, u, q)
                if gap < 0.0:
                    low = u
                else:
                    high = u
                if high - low <= CLOSE * (1.0 + abs(u)):
                    break
                step = gap / slope if slope > 0.0 else math.inf
                new = u - step
                if not low < new < high or 2.0 * abs(step) > last:  # or it may go to and fro
                    new = 0.5 * (low + high)
                elif abs(step) <= CLOSE * (1.0 + abs(u)):
                    u = new
                    break
                u, last = new, abs(new - u)
            out[i, j] = u


def just_below(q):
    """The level of which the quantile is taken where q itself may be that of a gap.

    Where both sides of a network disagree, F is ½ to the last digit over a whole gap. Together with other networks that may be
    so at any level, and rounding would choose the quantile. A little below, it is where the gap begins.
    """
    return q - ROUNDING * q * (1.0 - q)
