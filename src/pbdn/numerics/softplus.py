"""s(x) = ln(1 + e^x), of one number and of whole blocks."""

import numpy as np

from pbdn.numerics.compiled import internal, vectorised
from pbdn.numerics.elementary import atanh_ratio, exp_negative


@internal
def softplus(x):
    """s(x) = ln(1 + e^x) of one number."""
    small = np.log1p(np.exp(-abs(x)))
    return x + small if x > 0.0 else small


@vectorised
def softplus_block(distance, n, out):
    """out[:n] = s(distance[:n]), within 4e-16 relative of `softplus` (1e-304 at least)."""
    size = n * distance.shape[1]
    x, y = distance.reshape(-1)[:size], out.reshape(-1)[:size]
    for j in range(size):
        e = exp_negative(-abs(x[j]))
        z = e / (2.0 + e)
        y[j] = max(x[j], 0.0) + 2.0 * z * atanh_ratio(z * z)
