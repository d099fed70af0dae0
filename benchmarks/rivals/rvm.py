"""Relevance vector machine with an RBF kernel, by sequential maximisation of the marginal likelihood.

Tipping (2001), "Sparse Bayesian learning and the relevance vector machine"; Tipping and Faul (2003), "Fast
marginal likelihood maximisation for sparse Bayesian models". Bernoulli likelihood with the Laplace
approximation. The kernel is exp(-|x - x'|² / width²); a constant basis function is a candidate like the rest.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from scipy.special import expit
from threadpoolctl import threadpool_limits

from benchmarks.rivals.base import Rival, coarse_to_fine, cv_error, dense, folds

WIDTHS = tuple(2.0 ** (k / 2) for k in range(-20, 21))
"""The paper's widths 2^-10, 2^-9.5, ..., 2^10 for the six small sets."""
WIDTHS_LARGE = tuple(2.0 ** (k / 2) for k in range(-10, 11))
"""The paper's widths 2^-5, 2^-4.5, ..., 2^5 for ijcnn1 and a9a."""

LOG_PRECISION_TOLERANCE = 1e-3
"""A re-estimated log precision moving less than this counts as settled."""
ALIGNMENT = 1.0 - 1e-3
"""Unit basis vectors with a larger inner product count as copies: only one of them may be in the model."""
MAX_LOG_PRECISION = 27.6
"""ln 1e12: beyond it a basis function is out of the model in all but name."""


@dataclass(frozen=True)
class SparseFit:
    """Columns in the model, weights and prior precisions for the columns as given, number of steps taken."""

    columns: np.ndarray
    weights: np.ndarray
    precision: np.ndarray
    n_steps: int


def fit_sparse_bernoulli(basis: np.ndarray, y: np.ndarray, max_steps: int = 1000) -> SparseFit:
    """Add, re-estimate or delete one basis function at a time, always the one that gains most evidence.

    With sparsity S, quality Q and the leave-one-out pair s, q (equal to S, Q outside the model), the evidence
    as a function of one precision a has its maximum at a = s² / (q² - s) if q² > s and at infinity otherwise.
    """
    norms = np.linalg.norm(basis, axis=0)
    norms[norms == 0] = 1.0
    phi = basis / norms
    phi_squared = phi**2
    quality = phi.T @ (y - 0.5)
    start = int(np.argmax(np.abs(quality)))
    sparsity = 0.25
    used = [start]
    gain = quality[start] ** 2 - sparsity
    log_precision = np.array([np.log(sparsity**2 / gain) if gain > 0 else 0.0])
    weights = np.zeros(1)
    step = 0
    for step in range(1, max_steps + 1):  # noqa: B007 (its last value is reported)
        active = phi[:, used]
        weights, covariance, curvature, residual = _mode(active, y, np.exp(log_precision), weights)
        cross = phi.T @ (curvature[:, None] * active)
        S = phi_squared.T @ curvature - np.sum((cross @ covariance) * cross, axis=1)
        S = np.maximum(S, 1e-12)
        Q = phi.T @ residual
        move = _best_move(phi, used, log_precision, S, Q)
        if move is None:
            break
        kind, column, value = move
        if kind == "add":
            used.append(column)
            log_precision = np.append(log_precision, value)
            weights = np.append(weights, 0.0)
        else:
            place = used.index(column)
            if kind == "delete":
                used.pop(place)
                log_precision, weights = np.delete(log_precision, place), np.delete(weights, place)
            else:
                log_precision[place] = value
    weights, *_ = _mode(phi[:, used], y, np.exp(log_precision), weights)
    return SparseFit(np.array(used), weights / norms[used], np.exp(log_precision) * norms[used] ** 2, step)


def _best_move(
    phi: np.ndarray, used: list[int], log_precision: np.ndarray, S: np.ndarray, Q: np.ndarray
) -> tuple[str, int, float] | None:
    """The move with the largest gain in log evidence, deletions first; None where nothing is left to gain."""
    inside = np.zeros(len(S), dtype=bool)
    inside[used] = True
    a = np.exp(log_precision)
    S_in, Q_in = S[used], Q[used]
    s = a * S_in / np.maximum(a - S_in, 1e-12 * a)
    q = a * Q_in / np.maximum(a - S_in, 1e-12 * a)
    relevant = q**2 > s
    if len(used) > 1 and not relevant.all():
        ratio = np.minimum(S_in / a, 1.0 - 1e-12)
        gains = np.where(relevant, -np.inf, Q_in**2 / (S_in - a) - np.log1p(-ratio))
        place = int(np.argmax(gains))
        return "delete", used[place], np.inf
    gains = np.full(len(S), -np.inf)
    new_log = np.zeros(len(S))
    target = np.where(relevant, 2 * np.log(s) - np.log(np.where(relevant, q**2 - s, 1.0)), log_precision)
    target = np.minimum(target, MAX_LOG_PRECISION)
    delta = np.exp(-target) - 1.0 / a
    moving = np.abs(target - log_precision) > LOG_PRECISION_TOLERANCE
    change = np.maximum(S_in * delta, -1.0 + 1e-12)
    gains[used] = np.where(moving, Q_in**2 * delta / (1.0 + change) - np.log1p(change), -np.inf)
    new_log[used] = target
    candidates = ~inside & (Q**2 > S * (1.0 + 1e-9))
    ratio = Q[candidates] ** 2 / S[candidates]
    new_log[candidates] = 2 * np.log(S[candidates]) - np.log(Q[candidates] ** 2 - S[candidates])
    gains[candidates] = ratio - 1.0 - np.log(ratio)
    gains[candidates & (new_log > MAX_LOG_PRECISION)] = -np.inf
    while True:
        column = int(np.argmax(gains))
        if not gains[column] > 1e-6:
            return None
        if inside[column]:
            return "re-estimate", column, float(new_log[column])
        if np.abs(phi[:, column] @ phi[:, used]).max() <= ALIGNMENT:
            return "add", column, float(new_log[column])
        gains[column] = -np.inf


def _mode(
    active: np.ndarray, y: np.ndarray, precision: np.ndarray, weights: np.ndarray, max_newton: int = 25
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mode by damped Newton steps; also its covariance, the curvatures and the residuals y - p."""

    def objective(w: np.ndarray, f: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0.0, f) - y * f) + 0.5 * np.sum(precision * w**2))

    score = active @ weights
    value = objective(weights, score)
    for _ in range(max_newton):
        p = expit(score)
        curvature = np.maximum(p * (1.0 - p), 1e-10)
        gradient = active.T @ (y - p) - precision * weights
        factor = cho_factor((active.T * curvature) @ active + np.diag(precision))
        direction = cho_solve(factor, gradient)
        decrement = gradient @ direction
        if decrement < 1e-8:
            break
        rate = 1.0
        while rate > 1e-6:
            trial = weights + rate * direction
            trial_score = active @ trial
            trial_value = objective(trial, trial_score)
            if trial_value <= value:
                break
            rate /= 2
        else:
            break
        weights, score, value = trial, trial_score, trial_value
    p = expit(score)
    curvature = np.maximum(p * (1.0 - p), 1e-10)
    factor = cho_factor((active.T * curvature) @ active + np.diag(precision))
    return weights, cho_solve(factor, np.eye(len(weights))), curvature, y - p


class Rvm(Rival):
    """Width by three-fold cross-validation.

    Parameters
    ----------
    widths : tuple of float
    step : int
        1 tries every width; larger values go from coarse to fine.
    max_basis : int or None
        Most training rows that serve as kernel centres (a seeded random subset); None, as published, all.
    cv_rows : int or None
        Most training rows used for the cross-validation; None, as in the paper, all.
    """

    has_probabilities = True

    def __init__(
        self,
        widths: tuple[float, ...] = WIDTHS,
        step: int = 1,
        max_basis: int | None = None,
        cv_rows: int | None = None,
        n_folds: int = 3,
    ) -> None:
        super().__init__()
        self.widths, self.step, self.max_basis = widths, step, max_basis
        self.cv_rows, self.n_folds = cv_rows, n_folds

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        with threadpool_limits(1):  # the matrices are small: threads only get in each other's way
            return self._fit(dense(X), y, seed)

    def _fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Self:
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(y))[: self.cv_rows])
        parts = folds(y[rows], self.n_folds, seed)
        errors = {}

        def error(width: float) -> float:
            def fit_predict(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
                return (_score(self._model(a, b, width, seed, 300), c, width) > 0).astype(int)

            errors[width] = cv_error(fit_predict, X[rows], y[rows], parts)
            return errors[width]

        width = self.widths[0] if len(self.widths) == 1 else coarse_to_fine(self.widths, error, self.step)
        self.chosen = {"width": width, "cv_error": errors.get(width)}
        self.model_ = self._model(X, y, width, seed, 1000)
        return self

    def _model(
        self, X: np.ndarray, y: np.ndarray, width: float, seed: int, max_steps: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        centres = X
        if self.max_basis is not None and len(X) > self.max_basis:
            centres = X[np.random.default_rng(seed).choice(len(X), self.max_basis, replace=False)]
        basis = np.column_stack([np.ones(len(X)), _kernel(X, centres, width)])
        sparse = fit_sparse_bernoulli(basis, y, max_steps)
        is_bias = sparse.columns == 0
        return (
            centres[sparse.columns[~is_bias] - 1],
            sparse.weights[~is_bias],
            float(sparse.weights[is_bias].sum()),
        )

    def decision_function(self, X: Any) -> np.ndarray:
        return _score(self.model_, dense(X), self.chosen["width"])

    @property
    def complexity(self) -> float:
        """Number of relevance vectors."""
        return float(len(self.model_[1]))


def _kernel(X: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    kernel = np.exp(-cdist(X, centres, "sqeuclidean") / width**2)
    kernel[kernel < 1e-100] = 0.0  # subnormal numbers would slow every product down
    return kernel


def _score(model: tuple[np.ndarray, np.ndarray, float], X: np.ndarray, width: float) -> np.ndarray:
    centres, weights, bias = model
    return _kernel(X, centres, width) @ weights + bias if len(weights) else np.full(len(X), bias)
