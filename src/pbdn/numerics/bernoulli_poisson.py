"""Softplus, logistic and the Bernoulli-Poisson terms for compiled loops.

``softplus_logistic`` is written so that the compiler turns the loop into vector instructions: a branch-free
exponential (range reduction by powers of two, Taylor polynomial) and ln(1 + e) = 2 artanh(e / (2 + e)).
Relative error below 2e-15, also where s(ψ) ≈ e^ψ is tiny; checked in tests/sgd/test_elementary.py.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

from pbdn.numerics.elementary import as_bits, as_float
from pbdn.sgd.constants import TINY_RATE as TINY_RATE

Function = TypeVar("Function", bound=Callable[..., Any])

EXP_FLOOR = -708.0  # e^-708 is the last normal double; below it log-space formulas take over
LOG_LINEAR = -37.0  # ln s(ψ) = ψ to double precision below this

_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer kept in the low mantissa bits
_ROUND_BITS = 0x4338000000000000  # the same number as an integer
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# artanh(z) / z as a polynomial in z² on [0, 1/9]: interpolation at ten Chebyshev nodes, relative error 1e-16
_A0, _A1, _A2, _A3, _A4 = (
    1.0,
    0.33333333333341286,
    0.19999999997643111,
    0.14285714555926696,
    0.1111109542517742,
)
_A5, _A6, _A7, _A8, _A9 = (
    0.09091430061792541,
    0.07681835414020503,
    0.06795678830141709,
    0.049402605192742394,
    0.08890666523141126,
)
# 1/n!
_E2, _E3, _E4, _E5, _E6, _E7 = (1 / math.factorial(n) for n in range(2, 8))
_E8, _E9, _E10, _E11, _E12, _E13 = (1 / math.factorial(n) for n in range(8, 14))


_loop: Callable[[Function], Function] = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
_branch_free: Callable[[Function], Function] = njit(cache=True, nogil=True, inline="always")


@_branch_free
def _exp_parts(x: float) -> tuple[float, float]:
    """2^n and e^t - 1 with x = n ln 2 + t, |t| <= ln(2)/2, for -708 <= x <= 708."""
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    t = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _E12 + t * _E13
    p = _E10 + t * (_E11 + t * p)
    p = _E8 + t * (_E9 + t * p)
    p = _E6 + t * (_E7 + t * p)
    p = _E4 + t * (_E5 + t * p)
    p = _E2 + t * (_E3 + t * p)
    return as_float((as_bits(shifted) + 1023) << 52), t * (1.0 + t * p)


@_branch_free
def _artanh_ratio(u: float) -> float:
    """2 artanh(z)/z at u = z² <= 1/9."""
    p = _A8 + u * _A9
    p = _A6 + u * (_A7 + u * p)
    p = _A4 + u * (_A5 + u * p)
    p = _A2 + u * (_A3 + u * p)
    return 2.0 * (_A0 + u * (_A1 + u * p))


@_branch_free
def _log(v: float) -> Any:
    """ln v for normal v > 0 (absolute accuracy near 1)."""
    bits = as_bits(v)
    exponent = as_float((bits >> 52) - 1023 + _ROUND_BITS) - _ROUND
    mantissa = as_float((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
    high = mantissa > 1.4142135623730951
    mantissa = 0.5 * mantissa if high else mantissa
    exponent = exponent + 1.0 if high else exponent
    z = (mantissa - 1.0) / (mantissa + 1.0)
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + z * _artanh_ratio(z * z))


@_loop
def softplus_logistic(n: int, distance: Any, softplus: Any, logistic: Any) -> None:
    """Fill s(ψ) and σ(ψ) for the first n signed distances."""
    for i in range(n):
        psi = distance[i]
        power, rest = _exp_parts(EXP_FLOOR if abs(psi) > -EXP_FLOOR else -abs(psi))
        e = power + power * rest
        z = e / (2.0 + e)
        softplus[i] = (psi if psi > 0.0 else 0.0) + z * _artanh_ratio(z * z)
        q = 1.0 / (1.0 + e)
        logistic[i] = q if psi >= 0.0 else e * q


@_loop
def softplus_only(n: int, distance: Any, softplus: Any) -> None:
    """Fill s(ψ) for the first n signed distances, to the same bits as ``softplus_logistic``."""
    for i in range(n):
        psi = distance[i]
        power, rest = _exp_parts(EXP_FLOOR if abs(psi) > -EXP_FLOOR else -abs(psi))
        e = power + power * rest
        z = e / (2.0 + e)
        softplus[i] = (psi if psi > 0.0 else 0.0) + z * _artanh_ratio(z * z)


@_branch_free
def bernoulli_poisson(rate: float) -> tuple[float, float]:
    """ln(1 - e^{-λ}) and 1/(e^λ - 1) for λ >= 1e-300 (λ above 708 is taken as 708)."""
    power, rest = _exp_parts(EXP_FLOOR if rate > -EXP_FLOOR else -rate)
    e = power + power * rest
    complement = (1.0 - power) - power * rest  # 1 - e^{-λ}, without cancellation
    z = e / (2.0 - e)
    far = -z * _artanh_ratio(z * z)  # ln(1 - e) for e <= 1/2
    near = _log(complement)
    return far if e < 0.5 else near, e / complement
