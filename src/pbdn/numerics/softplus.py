"""The softplus s(x) = ln(1 + e^x), its logarithm, its inverse ln(e^a - 1) and its slope, the logistic function σ(x).
The Bernoulli-Poisson link: an event of rate λ happens with probability 1 - e^{-λ}.

Functions of one number use the C library and stand in branches. Those of whole arrays, and those called ``…_in_loops``, are
straight-line arithmetic of `pbdn.numerics.elementary`, for loops that are vectorised.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from pbdn.numerics.compiled import elementary, internal, kernel, vectorised
from pbdn.numerics.elementary import (
    ATANH_FITTED,
    LANES,
    Lanes,
    atanh_ratio,
    atanh_ratio_fitted,
    exp_negative,
    log_positive,
    one_minus_exp,
)

LOG_LINEAR = -37.0  # ln s(x) = ln σ(x) = x to double precision below this
FEWEST_NUMBERS = 10_000  # of an array, from which on a compiled pass is worth the wait until it is loaded
_TINY = np.finfo(float).tiny
LOG_TINY = np.log(_TINY)  # log-likelihoods of single rows are not taken below this


@internal
def softplus(x):
    """s(x) of one number."""
    small = np.log1p(np.exp(-abs(x)))
    return x + small if x > 0.0 else small


@internal
def logistic(x):
    """σ(x) = 1 / (1 + e^{-x}) of one number."""
    tail = np.exp(-abs(x))
    return 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)


@internal
def log_softplus(x, soft):
    """ln s(x), also where ``soft`` = s(x) underflows."""
    return x if x < LOG_LINEAR else np.log(soft)


@internal
def log_logistic(x, value):
    """ln σ(x), also where ``value`` = σ(x) underflows."""
    return x if x < LOG_LINEAR else np.log(value)


@internal
def inverse_softplus(a):
    """ln(e^a - 1) for a > 0, without overflow or loss for small a."""
    if a > 30.0:
        return a + np.log1p(-np.exp(-a))
    if a > 0.1:
        return np.log(np.exp(a) - 1.0)
    return np.log(np.expm1(max(a, 1e-300)))


@elementary
def inverse_softplus_in_loops(a):
    """ln(e^a - 1) for a ≥ 1e-300."""
    return a + log_positive(one_minus_exp(a))


@vectorised
def softplus_block(distance, n, out):
    """out[:n] = s(distance[:n]), within 4e-16 relative of `softplus` (1e-304 at least)."""
    size = n * distance.shape[1]
    x, y = distance.reshape(-1)[:size], out.reshape(-1)[:size]
    for j in range(size):
        e = exp_negative(-abs(x[j]))
        z = e / (2.0 + e)  # ln(1 + e) = 2 atanh(e / (2 + e))
        y[j] = max(x[j], 0.0) + 2.0 * z * atanh_ratio(z * z)


def _softplus_of_lanes(numbers: Lanes, x: Any) -> tuple[Any, Any, Any]:
    """Instructions for s(x) of a vector; beside it whether x > 0, and e^{-|x|}."""
    builder = numbers.builder
    is_positive = builder.fcmp_ordered(">", x, numbers.constant(0.0))
    e = numbers.exp_negative(builder.select(is_positive, builder.fsub(numbers.constant(-0.0), x), x))
    z = builder.fdiv(e, numbers.add(e, numbers.constant(2.0)))
    small = numbers.multiply(numbers.add(z, z), numbers.polynomial(numbers.multiply(z, z), ATANH_FITTED))
    return numbers.add(builder.select(is_positive, x, numbers.constant(0.0)), small), is_positive, e


@intrinsic
def softplus_lanes(typing_context: Any, source: Any, bias: Any, target: Any) -> Any:
    """Store s(x + bias) of the LANES numbers x at the address ``source`` at ``target``, within 1e-15 relative (1e-304 at least).

    Vectors of eight doubles are several registers on most processors, whose chains of operations run side by side. That is
    1.6 times as fast as a loop that the compiler turns into vector instructions (one core of a Neoverse N1).
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = Lanes(builder)
        x = numbers.add(numbers.load(arguments[0]), numbers.spread(arguments[1]))
        numbers.store(_softplus_of_lanes(numbers, x)[0], arguments[2])
        return context.get_dummy_value()

    return types.void(types.uintp, types.float64, types.uintp), generate


@intrinsic
def _softplus_logistic_lanes(typing_context: Any, source: Any, soft: Any, slope: Any) -> Any:
    """Store s(x) and σ(x) of the LANES numbers x at the address ``source`` at two others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = Lanes(builder)
        soft, is_positive, e = _softplus_of_lanes(numbers, numbers.load(arguments[0]))
        q = builder.fdiv(numbers.constant(1.0), numbers.add(e, numbers.constant(1.0)))
        numbers.store(soft, arguments[1])
        numbers.store(builder.select(is_positive, q, builder.fmul(e, q)), arguments[2])
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp), generate


@vectorised
def softplus_logistic(n, distance, soft, slope):
    """Fill s(x) and σ(x) of the first n numbers (1e-304 at least); NaN stays NaN.

    All arrays have room for the next multiple of LANES, and are filled up to there.
    """
    x, y, z = distance.ctypes.data, soft.ctypes.data, slope.ctypes.data
    for i in range(0, 8 * n, 8 * LANES):
        _softplus_logistic_lanes(types.uintp(x + i), types.uintp(y + i), types.uintp(z + i))


@vectorised
def softplus_only(n, distance, soft):
    """Fill s(x) of the first n numbers, to the same bits as `softplus_logistic` and with as much room."""
    x, y = distance.ctypes.data, soft.ctypes.data
    for i in range(0, 8 * n, 8 * LANES):
        softplus_lanes(types.uintp(x + i), 0.0, types.uintp(y + i))


@kernel
def softplus_in_place(numbers):
    """Put s(x) in the place of every number x of an array with one axis (1e-304 at least); NaN stays NaN."""
    whole = numbers.size // LANES * LANES
    softplus_only(whole, numbers, numbers)
    for i in range(whole, numbers.size):
        numbers[i] = softplus(numbers[i])


@kernel
def shifted_rates(distances, weights, shift, rates):
    """Fill λ_i = Σ_k r_k s(x_ki + δ) from ``distances`` x, shape (n_experts, n); n is a multiple of LANES."""
    n = distances.shape[1]
    soft = np.empty(LANES)
    at, to = distances.ctypes.data, soft.ctypes.data
    rates[:] = 0.0
    for k in range(distances.shape[0]):
        for i in range(0, n, LANES):
            softplus_lanes(types.uintp(at + 8 * (k * n + i)), shift, types.uintp(to))
            for j in range(LANES):
                rates[i + j] += weights[k] * soft[j]


@internal
def log_event_probability(rate):
    """ln(1 - e^{-λ}) of one number, LOG_TINY at least."""
    return max(inverse_softplus(rate) - rate, LOG_TINY)


@elementary
def log_event_probability_in_loops(rate):
    """The same in vectorised loops, to 1e-16 absolute where λ is large."""
    return log_positive(max(one_minus_exp(rate), _TINY))


@elementary
def log_event_probability_and_slope(rate):
    """ln(1 - e^{-λ}) and its derivative 1/(e^λ - 1), both to full relative accuracy for 1e-300 ≤ λ ≤ 700."""
    e = exp_negative(-rate)
    complement = one_minus_exp(rate)
    t = e if e < 0.5 else 0.5
    z = t / (2.0 - t)
    far = -2.0 * z * atanh_ratio_fitted(z * z)  # ln(1 - e) = -2 atanh(e / (2 - e))
    return far if e < 0.5 else log_positive(complement), e / complement
