"""L2-penalised logistic regression (LIBLINEAR), C by five-fold cross-validation on 2^-10 ... 2^15."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.rivals.base import Rival, cv_error, folds

C_GRID = tuple(2.0**k for k in range(-10, 16))


class Logistic(Rival):
    """The bias is a constant feature and is penalised, as in LIBLINEAR."""

    has_probabilities = True

    def __init__(self, c_grid: tuple[float, ...] = C_GRID, n_folds: int = 5) -> None:
        super().__init__()
        self.c_grid, self.n_folds = c_grid, n_folds

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        parts = folds(y, self.n_folds, seed)
        errors = [
            cv_error(lambda a, b, c, C=C: self._model(C, seed, a, b).predict(c), X, y, parts) for C in self.c_grid
        ]
        self.chosen = {"C": self.c_grid[int(np.argmin(errors))], "cv_error": min(errors)}
        self.model_ = self._model(self.chosen["C"], seed, X, y)
        return self

    @staticmethod
    def _model(C: float, seed: int, X: Any, y: np.ndarray) -> LogisticRegression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # huge C on separable folds
            return LogisticRegression(C=C, solver="liblinear", random_state=seed % 2**32).fit(X, y)

    def decision_function(self, X: Any) -> np.ndarray:
        return self.model_.decision_function(X)

    @property
    def complexity(self) -> float:
        return 1.0
