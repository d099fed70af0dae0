"""Compiled loss of the sides of a layer whose rows have values on a line, and its gradient.

A row says that the first point of its process lies in (a, c], or exactly at u (`pbdn.model.labelling`). With
H(u) = Σ_k r_k s(ψ_k + τ_k u) and S(u) = H'(u) = Σ_k r_k τ_k σ(ψ_k + τ_k u) a side loses

    H(a) - ln(1 - e^{-D}), D = H(c) - H(a),   or   H(u) - ln S(u).

An infinite bound adds nothing: H(-∞) = 0, and D = ∞ where there is no upper bound. Where a row has a limit l, a side loses
-H(l) besides or, if it sees the limit above the value, ln(1 - e^{-H(l)}).
"""

import math
from typing import Any

from pbdn.numerics.compiled import summing
from pbdn.numerics.products import padded_size
from pbdn.numerics.softplus import log_event_probability_and_slope, softplus_logistic
from pbdn.sgd.joint_workspace import LayerWork, NoisyRows, Stack
from pbdn.sgd.kernel_arguments import TIME_PRECISION, TINY_RATE


@summing
def add_time_penalty(log_coefs: Any, gradient: Any) -> float:
    """Minus log-prior of the ln τ, up to a constant; adds its gradient."""
    total = 0.0
    for k in range(log_coefs.shape[0]):
        total += 0.5 * TIME_PRECISION * log_coefs[k] * log_coefs[k]
        gradient[k] += TIME_PRECISION * log_coefs[k]
    return total


@summing
def timed_sides(
    t: int, rows: NoisyRows, index: Any, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
) -> float:
    """Loss of the sides of layer t, whose distances are in ``work.product``.

    Adds ∂/∂ln r and ∂/∂ln τ; for the top layer sets ∂/∂distances (with slopes of one, as if they were units).
    """
    n, count, n_layers = index.shape[0], stack.n_units[t], stack.n_units.shape[0]
    width, begin, first = padded_size(count), work.unit_at[t], stack.first[t]
    at_times = stack.first[n_layers]
    for below in range(t):
        at_times += stack.n_units[below]
    weights, coefs = work.experts[0], work.experts[1]
    for k in range(count):
        weights[k] = math.exp(parameters[first + k])
        coefs[k] = math.exp(parameters[at_times + k])
    distance, moved = work.product, work.moved[0]
    soft_high, slope_high, soft_low, slope_low = work.moved[1], work.moved[2], work.moved[3], work.moved[4]
    n_sides, any_low = stack.positive.shape[0], False
    for end in range(1, -1, -1):  # the upper bounds, then the lower ones where any row has another
        if end == 0 and not any_low:
            break
        for s in range(n_sides):
            turned = stack.positive[s] == 1
            for i in range(n):
                row = index[i]
                u = -rows.targets[row, 1 - end] if turned else rows.targets[row, end]
                any_low = any_low or rows.targets[row, 0] != rows.targets[row, 1]
                u = u if math.isfinite(u) else 0.0
                for k in range(stack.starts[t, s], stack.starts[t, s + 1]):
                    moved[i * width + k] = distance[i * width + k] + coefs[k] * u
        for i in range(n):
            for k in range(count, width):
                moved[i * width + k] = 0.0
        softplus_logistic(n * width, moved, soft_high if end else soft_low, slope_high if end else slope_low)
    loss, is_top = 0.0, t == n_layers - 1
    for s in range(n_sides):
        a, b, turned = stack.starts[t, s], stack.starts[t, s + 1], stack.positive[s] == 1
        for i in range(n):
            row, here = index[i], i * width
            row_weight = scale * rows.weights[row]
            low = -rows.targets[row, 1] if turned else rows.targets[row, 0]
            high = -rows.targets[row, 0] if turned else rows.targets[row, 1]
            if low == high:
                rate, hazard = 0.0, 0.0
                for k in range(a, b):
                    rate += weights[k] * soft_high[here + k]
                    hazard += weights[k] * coefs[k] * slope_high[here + k]
                hazard = max(hazard, TINY_RATE)
                loss += row_weight * (rate - math.log(hazard))
                for k in range(a, b):
                    q = slope_high[here + k]
                    share, rest = coefs[k] / hazard, 1.0 - q
                    by_rate = row_weight * weights[k]
                    by_distance = by_rate * q * (1.0 - share * rest)
                    gradient[first + k] += by_rate * (soft_high[here + k] - share * q)
                    gradient[at_times + k] += coefs[k] * high * by_distance - by_rate * share * q
                    if is_top:
                        work.by_units[begin + here + k] = by_distance
                        work.slopes[begin + here + k] = 1.0
                continue
            from_low, to_high = 1.0 if math.isfinite(low) else 0.0, 1.0 if math.isfinite(high) else 0.0
            u_low, u_high = low if math.isfinite(low) else 0.0, high if math.isfinite(high) else 0.0
            before, inside = 0.0, 0.0
            for k in range(a, b):
                start = from_low * soft_low[here + k]
                before += weights[k] * start
                inside += weights[k] * (to_high * soft_high[here + k] - start)
            chance, factor = log_event_probability_and_slope(max(inside, TINY_RATE))
            loss += row_weight * (before - to_high * chance)
            factor *= to_high
            for k in range(a, b):
                by_rate = row_weight * weights[k]
                start, q = from_low * soft_low[here + k], from_low * slope_low[here + k]
                difference = to_high * soft_high[here + k] - start
                q_high = to_high * slope_high[here + k]
                gradient[first + k] += by_rate * (start - factor * difference)
                gradient[at_times + k] += by_rate * coefs[k] * (u_low * q - factor * (u_high * q_high - u_low * q))
                if is_top:
                    work.by_units[begin + here + k] = by_rate * (q - factor * (q_high - q))
                    work.slopes[begin + here + k] = 1.0
    if rows.targets.shape[1] > 2:
        loss += _limits(t, at_times, rows, index, scale, stack, work, gradient)
    return loss


@summing
def _limits(
    t: int, at_times: Any, rows: NoisyRows, index: Any, scale: float, stack: Stack, work: LayerWork, gradient: Any
) -> float:
    """What the limits of rows add to the loss of `timed_sides` and to its gradient; ``work.experts`` has the r and τ."""
    n, count = index.shape[0], stack.n_units[t]
    width, begin, first = padded_size(count), work.unit_at[t], stack.first[t]
    weights, coefs, distance = work.experts[0], work.experts[1], work.product
    moved, soft, slope = work.moved[0], work.moved[1], work.moved[2]
    for s in range(stack.positive.shape[0]):
        sign = -1.0 if stack.positive[s] == 1 else 1.0
        for i in range(n):
            limit = rows.targets[index[i], 2]
            for k in range(stack.starts[t, s], stack.starts[t, s + 1]):
                moved[i * width + k] = distance[i * width + k]
                if math.isfinite(limit):
                    moved[i * width + k] += coefs[k] * sign * limit
    for i in range(n):
        for k in range(count, width):
            moved[i * width + k] = 0.0
    softplus_logistic(n * width, moved, soft, slope)
    loss, is_top = 0.0, t == stack.n_units.shape[0] - 1
    for s in range(stack.positive.shape[0]):
        a, b, turned = stack.starts[t, s], stack.starts[t, s + 1], stack.positive[s] == 1
        for i in range(n):
            limit, here = rows.targets[index[i], 2], i * width
            if not math.isfinite(limit):
                continue
            rate, row_weight = 0.0, scale * rows.weights[index[i]]
            for k in range(a, b):
                rate += weights[k] * soft[here + k]
            if turned:
                chance, by_rate = log_event_probability_and_slope(max(rate, TINY_RATE))
            else:
                chance, by_rate = -rate, -1.0
            loss += row_weight * chance
            for k in range(a, b):
                by_distance = row_weight * by_rate * weights[k] * slope[here + k]
                gradient[first + k] += row_weight * by_rate * weights[k] * soft[here + k]
                gradient[at_times + k] += by_distance * coefs[k] * (-limit if turned else limit)
                if is_top:
                    work.by_units[begin + here + k] += by_distance
    return loss
