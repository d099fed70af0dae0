"""From the rates of the sides to class probabilities that sum to one.

Those of many rows and three or more classes are computed in one compiled pass, which differs from NumPy by rounding only.
"""

from typing import Any

import numpy as np

from pbdn.model.likelihood import probability
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import kernel, vectorised
from pbdn.numerics.elementary import exp_negative, one_minus_exp
from pbdn.numerics.softplus import FEWEST_NUMBERS

NEWTON_STEPS = 4  # bring `common_factor` to double precision (the test has the worst case)
SMALLEST_CHANCE = 1e-80  # of a yes or a no to "is it class s?": odds stay finite, and exports may round e^-200 to 0
TILE = 64  # rows that are worked on together


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
    if side_rate.size >= FEWEST_NUMBERS:
        of_rows = np.ascontiguousarray(side_rate).reshape(-1, 2 * n_classes)
        pooled = np.empty((of_rows.shape[0], n_classes))
        _pool_in_tiles(of_rows, np.empty((2 * n_classes, TILE)), np.empty((5, TILE)), pooled)
        return pooled.reshape(*side_rate.shape[:-1], n_classes)
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


@kernel
def _pool_in_tiles(side_rate: Any, odds: Any, of_rows: Any, pooled: Any) -> None:
    """`pool_pairs` of many rows; ``odds`` and ``of_rows`` are memory."""
    for begin in range(0, pooled.shape[0], TILE):
        _pool_tile(side_rate[begin : begin + TILE], odds, of_rows, pooled[begin : begin + TILE])


@vectorised
def _pool_tile(side_rate: Any, odds: Any, of_rows: Any, pooled: Any) -> None:
    """The formulas of `pool_pairs` and `common_factor`, with the rows of a tile side by side."""
    n, n_classes = pooled.shape
    best, place, w, total, slope = of_rows[0], of_rows[1], of_rows[2], of_rows[3], of_rows[4]
    for i in range(n):
        for s in range(2 * n_classes):
            odds[s, i] = side_rate[i, s]
    for s in range(n_classes):
        for i in range(n):
            own, against = odds[s, i], odds[n_classes + s, i]
            yes = exp_negative(-against) + one_minus_exp(own)
            no = exp_negative(-own) + one_minus_exp(against)
            yes = SMALLEST_CHANCE if yes < SMALLEST_CHANCE else yes
            no = SMALLEST_CHANCE if no < SMALLEST_CHANCE else no
            odds[s, i] = yes / no
    best[:] = 0.0
    for s in range(n_classes):
        for i in range(n):
            place[i] = s if odds[s, i] > best[i] else place[i]
            best[i] = odds[s, i] if odds[s, i] > best[i] else best[i]
    total[:] = 0.0
    for s in range(n_classes):
        for i in range(n):
            odds[s, i] /= best[i]
            odds[n_classes + s, i] = 0.0 if place[i] == s else odds[s, i]  # those of the others
            total[i] += odds[n_classes + s, i]
    least = SMALLEST_CHANCE**2
    for i in range(n):
        total[i] = least if total[i] < least else total[i]
        w[i] = 2.0 / (total[i] + np.sqrt(total[i] * (total[i] + 4.0)))
    for _ in range(NEWTON_STEPS):
        total[:] = 0.0
        slope[:] = 0.0
        for s in range(n_classes, 2 * n_classes):
            for i in range(n):
                share = 1.0 / (1.0 + w[i] * odds[s, i])
                part = odds[s, i] * share
                total[i] += part
                slope[i] += part * share * (1.0 + w[i] * (2.0 + w[i] * odds[s, i]))
        for i in range(n):
            below = least if slope[i] < least else slope[i]
            w[i] -= (w[i] * (1.0 + w[i]) * total[i] - 1.0) / below
    total[:] = 0.0
    for s in range(n_classes):
        for i in range(n):
            own = w[i] * odds[s, i]
            odds[s, i] = own / (1.0 + own)
            total[i] += odds[s, i]
    for i in range(n):
        for s in range(n_classes):
            pooled[i, s] = odds[s, i] / total[i]
