"""From the sides' own probabilities to class probabilities that sum to one."""

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

NEWTON_STEPS = 4  # bring `common_factor` to double precision (the test has the worst case)
SMALLEST_CHANCE = 1e-80  # of a yes or a no to "is it class s?": odds stay finite, and exports may round e^-200 to 0


def pool_pairs(side_rate: FloatArray) -> FloatArray:
    """Pairs of sides: π_s / (1 - π_s) = c q_s / (1 - q_s) with q_s = ½[p_s + (1 - p*_s)] and c such that Σ_s π_s = 1.

    The last axis holds the rates λ_s = -ln(1 - p_s), then the λ*_s of the sides against the classes. q_s is the paper's
    average of the two answers to "is it class s?". The S answers need not agree on a sum of one; one factor c on the odds
    of them all, another for every row, makes them. With two classes the side against one is that of the other, the q_s
    sum to one, c is 1, and π is the paper's rule.
    """
    side_rate = np.asarray(side_rate, dtype=float)
    n_classes = side_rate.shape[-1] // 2
    own, against = side_rate[..., :n_classes], side_rate[..., n_classes:]
    yes = np.maximum(np.exp(-against) - np.expm1(-own), SMALLEST_CHANCE)  # 2 q, and 2 (1 - q) without cancellation
    no = np.maximum(np.exp(-own) - np.expm1(-against), SMALLEST_CHANCE)
    odds = yes / no
    best = odds.argmax(axis=-1)[..., None]
    ratio = odds / np.take_along_axis(odds, best, axis=-1)
    others = ratio.copy()
    np.put_along_axis(others, best, 0.0, axis=-1)
    odds = common_factor(others) * ratio
    pooled = odds / (1.0 + odds)
    return np.asarray(pooled / pooled.sum(axis=-1, keepdims=True))


def common_factor(others: FloatArray) -> FloatArray:
    """Odds w of the likeliest class with w/(1 + w) + Σ_s w a_s/(1 + w a_s) = 1, a_s ≤ 1 the odds of the others over its own.

    That is G(w) = Σ_s a_s w (1 + w)/(1 + a_s w) = 1. G rises, is convex and at most A w (1 + w), A = Σ_s a_s: Newton's
    method from the root of that bound steps over the root of G once and then falls to it. Last axis: the others, or 0.
    """
    total = np.maximum(others.sum(axis=-1, keepdims=True), SMALLEST_CHANCE**2)
    w = 2.0 / (total + np.sqrt(total * (total + 4.0)))
    for _ in range(NEWTON_STEPS):
        part = others / (1.0 + w * others)
        value = w * (1.0 + w) * part.sum(axis=-1, keepdims=True)
        slope = (part * (1.0 + w * (2.0 + w * others)) / (1.0 + w * others)).sum(axis=-1, keepdims=True)
        w = w - (value - 1.0) / np.maximum(slope, SMALLEST_CHANCE**2)
    return np.asarray(w)


EXACT_SIDES = 96  # up to so many sides the quadrature has the ⌈S/2⌉ nodes that make it exact


def n_nodes(n_sides: int) -> int:
    """Gauss-Legendre nodes for the integral of `pool_sides`: exact, or within 1e-14 at a cost that grows like √S.

    The integrand is at most (1 + δ)^{S-1} on the ellipse around [0, 1] that reaches δ = sinh²(h/2) beyond its ends, so n nodes
    err by at most (32/15) cosh(h/2)^{2(S-1)} e^{-2nh} / (1 - e^{-2h}) for every h > 0; 2.95 √S nodes bring this below
    1e-14 (the test evaluates it).
    """
    exact = (n_sides + 1) // 2
    return exact if n_sides <= EXACT_SIDES else min(exact, max(EXACT_SIDES // 2, math.ceil(2.95 * math.sqrt(n_sides))))


def pool_sides(side_probability: FloatArray) -> FloatArray:
    """Random-order stick-breaking: ask the sides in random order, take the first "yes".

    With p_s the probability of side s (last axis), averaged over all orders of S sides,

        π_s = p_s ∫₀¹ ∏_{j≠s} (1 - t p_j) dt + (1/S) ∏_j (1 - p_j).

    One side is a plain Bernoulli (two classes: "no", "yes"); two sides give the paper's average
    (p_1 + 1 - p_2)/2. The integrand is a polynomial of degree S - 1, so ⌈S/2⌉ Gauss-Legendre nodes are
    exact; many sides use fewer (`n_nodes`) and are renormalised.
    """
    p = np.asarray(side_probability, dtype=float)
    n_sides = p.shape[-1]
    if n_sides == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    if n_sides == 2:
        second = 0.5 * (p[..., 1:] + (1.0 - p[..., :1]))
        return np.concatenate([1.0 - second, second], axis=-1)
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes(n_sides))
    total = np.zeros_like(p)
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        keep = 1.0 - node * p  # positive: 0 < node < 1
        total += weight * np.exp(np.log(keep).sum(axis=-1, keepdims=True)) / keep
    pooled = p * total + np.prod(1.0 - p, axis=-1, keepdims=True) / n_sides
    return np.asarray(pooled / pooled.sum(axis=-1, keepdims=True))
