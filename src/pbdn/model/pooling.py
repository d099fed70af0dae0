"""From the sides' own probabilities to class probabilities that sum to one."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MAX_NODES = 48  # Gauss-Legendre nodes; exact for up to 96 sides (see pool_sides)


def pool_sides(side_probability: FloatArray) -> FloatArray:
    """Random-order stick-breaking: ask the sides in random order, take the first "yes".

    With p_s the probability of side s (last axis), averaged over all orders of S sides,

        π_s = p_s ∫₀¹ ∏_{j≠s} (1 - t p_j) dt + (1/S) ∏_j (1 - p_j).

    One side is a plain Bernoulli (two classes: "no", "yes"); two sides give the paper's average
    (p_1 + 1 - p_2)/2. The integrand is a polynomial of degree S - 1, so ⌈S/2⌉ Gauss-Legendre nodes are
    exact; more than ``2 * MAX_NODES`` sides use MAX_NODES nodes and are renormalised.
    """
    p = np.asarray(side_probability, dtype=float)
    n_sides = p.shape[-1]
    if n_sides == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    if n_sides == 2:
        second = 0.5 * (p[..., 1:] + (1.0 - p[..., :1]))
        return np.concatenate([1.0 - second, second], axis=-1)
    nodes, weights = np.polynomial.legendre.leggauss(min((n_sides + 1) // 2, MAX_NODES))
    total = np.zeros_like(p)
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        keep = 1.0 - node * p  # positive: 0 < node < 1
        total += weight * np.exp(np.log(keep).sum(axis=-1, keepdims=True)) / keep
    pooled = p * total + np.prod(1.0 - p, axis=-1, keepdims=True) / n_sides
    return np.asarray(pooled / pooled.sum(axis=-1, keepdims=True))
