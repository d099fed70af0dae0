"""s(x) = ln(1 + e^x) on whole blocks, in a form that the compiler turns into vector instructions."""

import numpy as np
from numba import njit

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number, kept in the low bits
_SMALLEST = -700.0  # e^x is not taken below this: s(x) = 1e-304 for all smaller x

# e^r = Σ r^j / j! on |r| ≤ ½ ln 2 (error 2e-17), and atanh(z) / z = Σ z^{2j} / (2j+1) on z ≤ ⅓ (error 2e-17)
_EXP = np.array([1.0 / float(np.prod(np.arange(1.0, j + 1.0))) for j in range(14)])
_ATANH = np.array([1.0 / (2 * j + 1) for j in range(17)])


@njit(cache=True, nogil=True, error_model="numpy")
def softplus(x):
    """s(x) = ln(1 + e^x) of one number."""
    small = np.log1p(np.exp(-abs(x)))
    return x + small if x > 0.0 else small


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def softplus_block(distance, n, work, out):
    """out[:n] = s(distance[:n]), within 4e-16 relative of `softplus` (1e-304 at least)."""
    size = n * distance.shape[1]
    x, y = distance.reshape(-1)[:size], out.reshape(-1)[:size]
    part, shifted = work[0, :size], work[1, :size]
    bits = shifted.view(np.int64)
    for j in range(size):
        t = max(-abs(x[j]), _SMALLEST)
        k = t * _LOG2E + _MAGIC
        shifted[j] = k
        k -= _MAGIC
        r = (t - k * _LN2_HIGH) - k * _LN2_LOW
        p = _EXP[13]
        p = p * r + _EXP[12]
        p = p * r + _EXP[11]
        p = p * r + _EXP[10]
        p = p * r + _EXP[9]
        p = p * r + _EXP[8]
        p = p * r + _EXP[7]
        p = p * r + _EXP[6]
        p = p * r + _EXP[5]
        p = p * r + _EXP[4]
        p = p * r + _EXP[3]
        p = p * r + _EXP[2]
        p = p * r + 1.0
        part[j] = p * r + 1.0
    for j in range(size):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(size):
        e = part[j] * shifted[j]
        z = e / (2.0 + e)
        q = z * z
        p = _ATANH[16]
        p = p * q + _ATANH[15]
        p = p * q + _ATANH[14]
        p = p * q + _ATANH[13]
        p = p * q + _ATANH[12]
        p = p * q + _ATANH[11]
        p = p * q + _ATANH[10]
        p = p * q + _ATANH[9]
        p = p * q + _ATANH[8]
        p = p * q + _ATANH[7]
        p = p * q + _ATANH[6]
        p = p * q + _ATANH[5]
        p = p * q + _ATANH[4]
        p = p * q + _ATANH[3]
        p = p * q + _ATANH[2]
        p = p * q + _ATANH[1]
        p = p * q + 1.0
        y[j] = max(x[j], 0.0) + 2.0 * z * p
