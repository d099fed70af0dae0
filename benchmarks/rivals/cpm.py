"""Convex polytope machine (Kantchelian, Tschantz, Huang, Bartlett, Joseph, Tygar, NIPS 2014), two-sided.

One side scores by the largest of K hyperplanes: rows of the outer class push their own hyperplane up to
margin 1, rows of the inner class push every hyperplane down to margin -1. Stochastic steps on
|W|²/2 + C Σ_steps loss; an entropy floor keeps the rows of the outer class spread over the hyperplanes.

The PBDN paper speaks of K hyperplanes on each of two sides without saying how the sides are joined. Here the
sides take either class as the outer one, and cross-validation says whether the difference of their scores or
one side alone decides.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numba import njit

from benchmarks.rivals.base import Rival, folds, search_until_worse, with_bias

C_GRID = tuple(10.0**k for k in range(-4, 1))
K_GRID = (1, 3, 5, 10, 20, 40, 60, 80, 100)
CV_STEPS, FINAL_STEPS = 10_000_000, 32_000_000
"""The paper's numbers of stochastic steps; C is per step, so they also set the strength of the penalty."""
RULES = ("difference", "zero outside", "one outside")
COST = 0.5
"""Both classes cost the same."""


@njit(cache=True, nogil=True)
def _entropy(counts, total):
    h = 0.0
    for count in counts:
        if count > 0:
            p = count / total
            h -= p * np.log(p)
    return h


@njit(cache=True, nogil=True)
def _assign(scores, counts, old, floor):
    """Hyperplane for a row of the outer class, and the unconstrained choice.

    The best one, unless that would bring the entropy of the assignments under the floor and not raise it;
    then the best among those less occupied than the present one (or than the average, for a new row).
    """
    best = int(np.argmax(scores))
    total = counts.sum()
    n = counts.shape[0]
    if floor <= 0.0 or total < 5 * n:
        return best, best
    before = _entropy(counts, total)
    counts[best] += 1
    if old >= 0:
        counts[old] -= 1
    after = _entropy(counts, total if old >= 0 else total + 1)
    counts[best] -= 1
    if old >= 0:
        counts[old] += 1
    if after >= floor or after > before:
        return best, best
    limit = counts[old] if old >= 0 else total / n
    chosen, top = -1, -np.inf
    for k in range(n):
        if counts[k] < limit and scores[k] > top:
            chosen, top = k, scores[k]
    return (chosen if chosen >= 0 else best), best


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # lets the inner products be vectorised
def _train_side(X, is_outer, sums, order, n_steps, regularisation, floor):
    """Pegasos steps; the hyperplanes are sums / (λ (t + 1)), so a step is a plain addition to the sums."""
    n, width = X.shape
    n_planes = sums.shape[0]
    assigned = np.full(n, -1)
    counts = np.zeros(n_planes, np.int64)
    scores = np.empty(n_planes)
    for t in range(n_steps):
        i = order[t % n]
        scale = 1.0 / (regularisation * (t + 1))
        for k in range(n_planes):
            score = 0.0
            for v in range(width):
                score += sums[k, v] * X[i, v]
            scores[k] = score * scale
        if is_outer[i]:
            chosen, best = _assign(scores, counts, assigned[i], floor)
            if scores[chosen] < 1.0:
                for v in range(width):
                    sums[chosen, v] += COST * X[i, v]
            if assigned[i] >= 0:
                counts[assigned[i]] -= 1
            counts[best] += 1
            assigned[i] = best
        else:
            for k in range(n_planes):
                if scores[k] > -1.0:
                    for v in range(width):
                        sums[k, v] -= COST * X[i, v]
    return sums / (regularisation * n_steps)


def fit_sides(
    X: np.ndarray, y: np.ndarray, K: int, C: float, floor: float, steps: tuple[int, int], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Hyperplanes with class 0 outside and with class 1 outside, each of shape (K, width).

    ``steps``: the number of steps that define the penalty λ = 1 / (C · steps[0]), and the number taken.
    """
    rng = np.random.default_rng(seed)
    sides = []
    for outer in (0, 1):
        sums = 1e-3 * rng.standard_normal((K, X.shape[1]))
        order = rng.permutation(len(y))
        sides.append(_train_side(X, y == outer, sums, order, steps[1], 1.0 / (C * steps[0]), floor))
    return sides[0], sides[1]


class Cpm(Rival):
    """C and K by three-fold cross-validation at entropy floor 0, K tried in turn until worse, then the floor.

    Parameters
    ----------
    share : float
        Share of the paper's stochastic steps that is taken (the penalty stays that of the full number). 1 is
        the paper's protocol; on sets of a few hundred rows 0.02 is still hundreds of passes.
    """

    def __init__(
        self,
        c_grid: Sequence[float] = C_GRID,
        k_grid: Sequence[int] = K_GRID,
        share: float = 1.0,
        n_folds: int = 3,
    ) -> None:
        super().__init__()
        self.c_grid, self.k_grid, self.share, self.n_folds = c_grid, k_grid, share, n_folds

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        X, y = with_bias(X), np.asarray(y, dtype=np.int64)
        parts = folds(y, self.n_folds, seed)

        rules: dict[tuple[int, float, float], str] = {}

        def error(K: int, C: float, floor: float) -> float:
            wrong = dict.fromkeys(RULES, 0)
            for train, test in parts:
                sides = fit_sides(X[train], y[train], K, C, floor, self._steps(CV_STEPS), seed)
                for rule in RULES:
                    wrong[rule] += int(np.sum((_score(sides, X[test], rule) > 0) != y[test]))
            rules[K, C, floor] = min(RULES, key=lambda rule: wrong[rule])
            return min(wrong.values()) / len(y)

        trials = [(*search_until_worse(self.k_grid, lambda K, C=C: error(K, C, 0.0)), C) for C in self.c_grid]
        best_error, K, C = min(trials, key=lambda trial: trial[0])
        floor = 0.0
        for tenth in range(1, 10):
            candidate = float(np.log(tenth * K / 10))
            if candidate > 0.0:
                now = error(K, C, candidate)
                if now < best_error:
                    best_error, floor = now, candidate
        rule = rules[K, C, floor]
        self.chosen = {"C": C, "K": K, "entropy": floor, "rule": rule, "cv_error": best_error}
        self.sides_ = fit_sides(X, y, K, C, floor, self._steps(FINAL_STEPS), seed)
        return self

    def _steps(self, full: int) -> tuple[int, int]:
        return full, max(1, round(full * self.share))

    def decision_function(self, X: Any) -> np.ndarray:
        return _score(self.sides_, with_bias(X), self.chosen["rule"])

    def hidden(self, X: Any) -> np.ndarray:
        """Softplus of every hyperplane's score: the units a next layer would see."""
        return np.logaddexp(0.0, with_bias(X) @ np.concatenate(self.sides_).T)

    @property
    def complexity(self) -> float:
        """Hyperplanes of both sides, as the paper counts, whichever rule decides."""
        return float(len(self.sides_[0]) + len(self.sides_[1]))


class StackedCpm(Rival):
    """CPMs stacked as iSHM pairs are: layer t sees the units of layers t - 2 and t - 1; layer 0: features."""

    def __init__(self, depth: int, **settings: Any) -> None:
        super().__init__()
        self.depth, self.settings = depth, settings

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        units = [with_bias(X)[:, :-1]]
        self.layers_: list[Cpm] = []
        for t in range(self.depth):
            self.layers_.append(Cpm(**self.settings).fit(np.column_stack(units[-2:]), y, seed + t))
            units.append(self.layers_[-1].hidden(np.column_stack(units[-2:])))
        self.n_features_ = units[0].shape[1]
        self.chosen = {f"layer{t + 1}": layer.chosen for t, layer in enumerate(self.layers_)}
        return self

    def prefix(self, depth: int) -> "StackedCpm":
        """The stack of the lowest layers, as fitting that depth alone with the same seed would give it."""
        stack = StackedCpm(depth, **self.settings)
        stack.layers_, stack.n_features_ = self.layers_[:depth], self.n_features_
        stack.chosen = {f"layer{t + 1}": layer.chosen for t, layer in enumerate(stack.layers_)}
        return stack

    def decision_function(self, X: Any) -> np.ndarray:
        units = [with_bias(X)[:, :-1]]
        for layer in self.layers_[:-1]:
            units.append(layer.hidden(np.column_stack(units[-2:])))
        return self.layers_[-1].decision_function(np.column_stack(units[-2:]))

    @property
    def complexity(self) -> float:
        """Number of weights divided by the length of one hyperplane in the original space."""
        n_weights = sum(side.size for layer in self.layers_ for side in layer.sides_)
        return n_weights / (self.n_features_ + 1)


def _score(sides: tuple[np.ndarray, np.ndarray], X: np.ndarray, rule: str) -> np.ndarray:
    """Positive for class 1."""
    zero, one = ((X @ side.T).max(axis=1) for side in sides)
    return {"difference": one - zero, "zero outside": -zero, "one outside": one}[rule]
