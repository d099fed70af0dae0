"""What every rival offers, and the cross-validation they share.

A rival has ``fit(X, y, seed)`` for labels 0 and 1, ``predict``, ``decision_function`` (positive for class 1),
``predict_proba`` where the method has probabilities, ``complexity`` (equivalent number of hyperplanes or
vectors, None where that makes no sense) and ``chosen`` (the tuned settings).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold


class Rival:
    """Base of the rivals: subclasses give ``fit`` and ``decision_function``."""

    has_probabilities = False
    """Whether the score is the log odds of class 1."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Class 0 or 1."""
        return (self.decision_function(X) > 0).astype(np.int64)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Columns: probability of class 0 and of class 1."""
        if not self.has_probabilities:
            raise AttributeError(f"{type(self).__name__} gives no probabilities")
        p = expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    @property
    def complexity(self) -> float | None:
        """Equivalent number of support hyperplanes or vectors."""
        return None


def dense(X: Any) -> np.ndarray:
    """Contiguous float64 rows."""
    return np.ascontiguousarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def with_bias(X: Any) -> np.ndarray:
    """Rows with a last column of ones."""
    X = dense(X)
    return np.column_stack([X, np.ones(len(X))])


def folds(y: np.ndarray, n_folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified shuffled folds, the same for every candidate; fewer if a class has fewer rows."""
    n_folds = max(2, min(n_folds, int(np.bincount(y, minlength=2).min())))
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def cv_error(
    fit_predict: Callable[[Any, np.ndarray, Any], np.ndarray],
    X: Any,
    y: np.ndarray,
    parts: Iterable[tuple[np.ndarray, np.ndarray]],
) -> float:
    """Share of wrong held-out rows over the folds; ``fit_predict(X_train, y_train, X_test)`` classifies."""
    wrong = total = 0
    for train, test in parts:
        wrong += int(np.sum(fit_predict(X[train], y[train], X[test]) != y[test]))
        total += len(test)
    return wrong / total


def search_until_worse(candidates: Sequence[Any], error: Callable[[Any], float]) -> tuple[float, Any]:
    """Try candidates in order and stop once the error rises; return the least error and its candidate."""
    best_error, best = error(candidates[0]), candidates[0]
    for candidate in candidates[1:]:
        now = error(candidate)
        if now > best_error:
            break
        if now < best_error:
            best_error, best = now, candidate
    return best_error, best


def coarse_to_fine(values: Sequence[float], error: Callable[[float], float], step: int) -> float:
    """Every ``step``-th value first, then the neighbours of the best; ``step`` 1 is the whole grid."""
    errors: dict[int, float] = {}

    def visit(indices: Iterable[int]) -> int:
        for i in indices:
            if 0 <= i < len(values) and i not in errors:
                errors[i] = error(values[i])
        return min(errors, key=lambda i: (errors[i], i))

    best = visit(range(0, len(values), step))
    while step > 1:
        step = max(1, step // 2)
        best = visit((best - step, best + step))
    return values[best]
