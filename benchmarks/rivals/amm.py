"""Adaptive multi-hyperplane machine, batch version (Wang, Djuric, Crammer, Vucetic, KDD 2011).

Each class has a growing set of hyperplanes and scores by the largest of them; Pegasos steps on
λ/2 |W|² + mean max(0, 1 + max_{other class} w'x - w_z'x), the row's own hyperplane z fixed within an epoch.
A hyperplane is born when no own hyperplane scores above zero, and the lightest are pruned together.
"""

from typing import Any, Self

import numpy as np
from numba import njit

from benchmarks.rivals.base import Rival, cv_error, folds, search_until_worse, with_bias

LAMBDAS = tuple(10.0**k for k in range(-7, -1))
EPOCHS = (5, 10, 20, 50, 100)
MAX_PER_CLASS = 50
PRUNE_EVERY = 10_000
PRUNE_THRESHOLD = 10.0
"""Limit, pruning period and pruning threshold are the defaults of the toolbox the paper used."""


@njit(cache=True, nogil=True)
def _best(sums, n_used, x):
    """Largest score and its hyperplane."""
    best, place = -np.inf, 0
    for j in range(n_used):
        score = 0.0
        for v in range(x.shape[0]):
            score += sums[j, v] * x[v]
        if score > best:
            best, place = score, j
    return best, place


@njit(cache=True, nogil=True)
def _prune(sums, used, threshold):
    """Drop the lightest hyperplanes whose squared norms add up to at most threshold² (in units of 1/(λt)).

    A class keeps at least one. Returns for each class the new place of each old hyperplane, -1 where dropped.
    """
    places = np.full((2, sums.shape[1]), -1)
    total = used[0] + used[1]
    norms = np.empty(total)
    owner = np.empty(total, np.int64)
    index = np.empty(total, np.int64)
    k = 0
    for c in range(2):
        for j in range(used[c]):
            norms[k] = np.sum(sums[c, j] ** 2)
            owner[k], index[k] = c, j
            k += 1
    dropped = np.zeros((2, sums.shape[1]), np.bool_)
    left = used.copy()
    weight = 0.0
    for k in np.argsort(norms):
        weight += norms[k]
        if weight > threshold**2:
            break
        if left[owner[k]] > 1:
            dropped[owner[k], index[k]] = True
            left[owner[k]] -= 1
    for c in range(2):
        new = 0
        for j in range(used[c]):
            if not dropped[c, j]:
                sums[c, new] = sums[c, j]
                places[c, j] = new
                new += 1
        used[c] = new
    return places


@njit(cache=True, nogil=True)
def _train(X, y, orders, regularisation, max_per_class, prune_every, prune_threshold):
    """One online epoch, then batch epochs with fixed assignments; the hyperplanes are sums / (λ t).

    With rate 1/(λt) and shrinkage 1 - 1/t, the Pegasos step on w = sums / (λt) is a plain addition.
    """
    n, width = X.shape
    sums = np.zeros((2, max_per_class, width))
    used = np.ones(2, np.int64)
    assigned = np.full(n, -1)
    t = 0
    for epoch in range(orders.shape[0]):
        for i in orders[epoch]:
            t += 1
            own, other = y[i], 1 - y[i]
            scale = 1.0 / (regularisation * max(t - 1, 1))
            own_best, own_place = _best(sums[own], used[own], X[i])
            other_best, other_place = _best(sums[other], used[other], X[i])
            place, own_score = own_place, own_best
            if epoch > 0 and assigned[i] >= 0:
                place = assigned[i]
                own_score = 0.0
                for v in range(width):
                    own_score += sums[own, place, v] * X[i, v]
            if epoch == 0:
                assigned[i] = own_place
            if 1.0 + scale * (other_best - own_score) > 0.0:
                sums[other, other_place] -= X[i]
                is_new = own_best <= 0.0
                if epoch > 0 or not is_new:
                    sums[own, place] += X[i]
                if is_new and used[own] < max_per_class:
                    sums[own, used[own]] = X[i]
                    if epoch == 0:
                        assigned[i] = used[own]
                    used[own] += 1
            if t % prune_every == 0:
                places = _prune(sums, used, prune_threshold)
                for k in range(n):
                    if assigned[k] >= 0:
                        assigned[k] = places[y[k], assigned[k]]
        if 0 < epoch < orders.shape[0] - 1:
            for k in range(n):
                assigned[k] = _best(sums[y[k]], used[y[k]], X[k])[1]
    scale = 1.0 / (regularisation * t)
    return sums[0, : used[0]] * scale, sums[1, : used[1]] * scale


class Amm(Rival):
    """λ and the number of epochs by three-fold cross-validation, the epochs tried in turn until worse."""

    def __init__(
        self, lambdas: tuple[float, ...] = LAMBDAS, epochs: tuple[int, ...] = EPOCHS, n_folds: int = 3
    ) -> None:
        super().__init__()
        self.lambdas, self.epochs, self.n_folds = lambdas, epochs, n_folds

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        X, y = with_bias(X), np.asarray(y, dtype=np.int64)
        parts = folds(y, self.n_folds, seed)
        trials = []
        for regularisation in self.lambdas:

            def error(epochs: int, regularisation: float = regularisation) -> float:
                def fit_predict(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
                    return (_difference(_model(a, b, regularisation, epochs, seed), c) > 0).astype(int)

                return cv_error(fit_predict, X, y, parts)

            trials.append((*search_until_worse(self.epochs, error), regularisation))
        best_error, epochs, regularisation = min(trials, key=lambda trial: trial[0])
        self.chosen = {"lambda": regularisation, "epochs": epochs, "cv_error": best_error}
        self.model_ = _model(X, y, regularisation, epochs, seed)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return _difference(self.model_, with_bias(X))

    @property
    def complexity(self) -> float:
        """Number of hyperplanes of both classes."""
        return float(len(self.model_[0]) + len(self.model_[1]))


def _model(X: np.ndarray, y: np.ndarray, regularisation: float, epochs: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(len(y)) for _ in range(epochs + 1)])
    return _train(X, y, orders, regularisation, MAX_PER_CLASS, PRUNE_EVERY, PRUNE_THRESHOLD)


def _difference(model: tuple[np.ndarray, np.ndarray], X: np.ndarray) -> np.ndarray:
    return (X @ model[1].T).max(axis=1) - (X @ model[0].T).max(axis=1)
