"""RBF-kernel SVM (LIBSVM), C and gamma by three-fold cross-validation on 2^-5 ... 2^5 each."""

from typing import Any, Self

import numpy as np
from sklearn.svm import SVC

from benchmarks.rivals.base import Rival, cv_error, folds

GRID = tuple(2.0**k for k in range(-5, 6))


class RbfSvm(Rival):
    """Ties go to the larger C, then the larger gamma, as in the MATLAB loop that LIBSVM's authors suggest ("at least as good").

    Parameters
    ----------
    step : int
        1 tries the paper's whole grid; 2 tries every second value of each axis and then the neighbours of the
        best, a quarter of the work.
    cv_rows : int or None
        Most training rows used for the cross-validation (a seeded random subset); None, as in the paper, all.
    """

    def __init__(self, step: int = 1, cv_rows: int | None = None, n_folds: int = 3) -> None:
        super().__init__()
        self.step, self.cv_rows, self.n_folds = step, cv_rows, n_folds

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        rows = np.arange(len(y))
        if self.cv_rows is not None and len(y) > self.cv_rows:
            rows = np.sort(np.random.default_rng(seed).choice(len(y), self.cv_rows, replace=False))
        X_cv, y_cv = X[rows], y[rows]
        parts = folds(y_cv, self.n_folds, seed)
        errors: dict[tuple[int, int], float] = {}

        def visit(cells: Any) -> tuple[int, int]:
            for i, j in cells:
                if (i, j) not in errors and 0 <= i < len(GRID) and 0 <= j < len(GRID):
                    model = self._model(GRID[i], GRID[j])
                    errors[i, j] = cv_error(lambda a, b, c, m=model: m.fit(a, b).predict(c), X_cv, y_cv, parts)
            return min(errors, key=lambda cell: (errors[cell], -cell[0], -cell[1]))

        axis = range(0, len(GRID), self.step)
        best = visit((i, j) for i in axis for j in axis)
        if self.step > 1:
            best = visit((best[0] + a, best[1] + b) for a in (-1, 0, 1) for b in (-1, 0, 1))
        self.chosen = {"C": GRID[best[0]], "gamma": GRID[best[1]], "cv_error": errors[best]}
        self.model_ = self._model(self.chosen["C"], self.chosen["gamma"]).fit(X, y)
        return self

    @staticmethod
    def _model(C: float, gamma: float) -> SVC:
        return SVC(C=C, gamma=gamma, cache_size=500)

    def predict(self, X: Any) -> np.ndarray:
        """Class codes; several classes are told apart in pairs."""
        return np.asarray(self.model_.predict(X))

    def decision_function(self, X: Any) -> np.ndarray:
        return self.model_.decision_function(X)

    @property
    def complexity(self) -> float:
        """Number of support vectors."""
        return float(self.model_.n_support_.sum())
