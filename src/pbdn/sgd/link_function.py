"""From the rates of rows to their likelihood and its derivative, in compiled loops.

A row of rate λ is positive with probability 1 - e^{-λ}. Rates under ``TINY_RATE`` are worked on as logarithms.
"""

import math
from typing import Any

from pbdn.numerics.compiled import summing
from pbdn.numerics.elementary import LEAST_EXPONENT
from pbdn.numerics.softplus import log_event_probability_and_slope, log_logistic, log_softplus
from pbdn.sgd.kernel_arguments import TINY_RATE

_MOST_EXPONENT = -LEAST_EXPONENT


@summing
def is_yes(code: int, positive: int) -> bool:
    """Whether a row of this class is positive for a side (see `pbdn.sgd.kernel_arguments.SideColumns`)."""
    return code == positive if positive >= 0 else code != -1 - positive


@summing
def row_rate(weight: Any, softplus: Any, i: int, first: Any, last: Any) -> float:
    """λ_i = Σ_k r_k s(ψ_ik) of one side."""
    rate = 0.0
    for k in range(first, last):
        rate += weight[k] * softplus[i, k]
    return rate


@summing
def log_rate(log_weight: Any, psi: Any, softplus: Any) -> float:
    """ln λ of one row and the experts of ``log_weight``, by log-sum-exp."""
    highest = -math.inf
    for k in range(log_weight.shape[0]):
        value = log_weight[k] + log_softplus(psi[k], softplus[k])
        highest = value if value > highest else highest
    if not math.isfinite(highest):
        return highest
    total = 0.0
    for k in range(log_weight.shape[0]):
        total += math.exp(log_weight[k] + log_softplus(psi[k], softplus[k]) - highest)
    return highest + math.log(total)


@summing
def fill_log_probability(n: int, rate: Any, out: Any) -> None:
    """ln(1 - e^{-λ}) of n rates, those under TINY_RATE as if they were TINY_RATE."""
    for i in range(n):
        out[i] = log_event_probability_and_slope(rate[i] if rate[i] > TINY_RATE else TINY_RATE)[0]


@summing
def link_slopes(n: int, is_positive: Any, row_weight: Any, rate: Any) -> float:
    """Loss of n rows for one side; turns λ in ``rate`` into w ∂f/∂λ.

    ∂f/∂λ = -1/(e^λ - 1) for a positive row, 1 otherwise. Positive rows with λ under TINY_RATE have no share
    in the loss yet and are marked by a NaN.
    """
    loss = 0.0
    for i in range(n):
        value = rate[i]
        log_probability, slope = log_event_probability_and_slope(value if value > TINY_RATE else TINY_RATE)
        is_tiny = is_positive[i] and value < TINY_RATE and row_weight[i] > 0.0
        loss_here = row_weight[i] * (-log_probability if is_positive[i] else value)
        loss += 0.0 if is_tiny else loss_here
        rate[i] = math.nan if is_tiny else row_weight[i] * (-slope if is_positive[i] else 1.0)
    return loss


@summing
def tiny_rate_slopes(log_weight: Any, psi: Any, softplus: Any, slope: Any) -> float:
    """Replace s and σ of a positive row with a rate under TINY_RATE by s/λ and σ/λ, in log space; returns ln λ.

    There ∂f/∂λ = -1/λ.
    """
    log_total = log_rate(log_weight, psi, softplus)
    for k in range(log_weight.shape[0]):
        log_slope = log_logistic(psi[k], slope[k]) - log_total
        log_soft = log_softplus(psi[k], softplus[k]) - log_total
        softplus[k] = math.exp(_MOST_EXPONENT if log_soft > _MOST_EXPONENT else log_soft)
        slope[k] = math.exp(_MOST_EXPONENT if log_slope > _MOST_EXPONENT else log_slope)
    return log_total


@summing
def row_slopes(link_slope: float, i: int, first: Any, last: Any, softplus: Any, slope: Any, by_weight: Any) -> None:
    """Turn σ in ``slope`` into ∂f/∂λ σ and add ∂f/∂λ s, for row i and the experts of one side."""
    for k in range(first, last):
        by_weight[k] += link_slope * softplus[i, k]
        slope[i, k] *= link_slope
