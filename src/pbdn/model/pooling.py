"""From the rates of the sides to class probabilities that sum to one."""

import numpy as np

from pbdn.model.likelihood import probability
from pbdn.numerics.arrays import FloatArray

NEWTON_STEPS = 4  # bring `common_factor` to double precision (the test has the worst case)
SMALLEST_CHANCE = 1e-80  # of a yes or a no to "is it class s?": odds stay finite, and exports may round e^-200 to 0


def pool_one(side_rate: FloatArray) -> FloatArray:
    """A lone side (last axis of length one) is a plain Bernoulli: "no", "yes"."""
    p = probability(side_rate)
    return np.concatenate([1.0 - p, p], axis=-1)


def pool_two(side_rate: FloatArray) -> FloatArray:
    """The paper's average of a side and its flip: P(second class) = (p_2 + 1 - p_1)/2; last axis: the two rates."""
    p = probability(side_rate)
    second = 0.5 * (p[..., 1:] + (1.0 - p[..., :1]))
    return np.concatenate([1.0 - second, second], axis=-1)


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
