"""Gamma variates by shape (rate 1), also where the shape is so small that the value underflows."""

import numpy as np

from pbdn.numerics.compiled import internal
from pbdn.variates.random_stream import exponential, normal, uniform


@internal
def gamma_at_least_one(stream, shape):
    """G ~ Gamma(shape, 1) for shape ≥ 1 (Marsaglia & Tsang 2000); exact."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(stream)
        x2 = x * x
        if u < 1.0 - 0.0331 * x2 * x2 or np.log(u) < 0.5 * x2 + d * (1.0 - v + np.log(v)):
            return d * v


@internal
def log_gamma_variate(stream, shape):
    """ln G with G ~ Gamma(shape, 1), any shape > 0: finite where G itself underflows.

    For shape < 1: G = G' U^{1/shape} with G' ~ Gamma(shape + 1, 1).
    """
    if shape >= 1.0:
        return np.log(gamma_at_least_one(stream, shape))
    return np.log(gamma_at_least_one(stream, shape + 1.0)) - exponential(stream) / shape


@internal
def gamma_variate(stream, shape):
    """G ~ Gamma(shape, 1), any shape > 0; a value below the smallest double is 0."""
    if shape >= 1.0:
        return gamma_at_least_one(stream, shape)
    return np.exp(log_gamma_variate(stream, shape))
