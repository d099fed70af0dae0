"""Rivals that libraries have: logistic regression and the SVM with the paper's tuning, and what one would use today."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.rivals.base import Rival, cv_error, dense, folds

C_GRID = tuple(2.0**k for k in range(-10, 16))
GRID = tuple(2.0**k for k in range(-5, 6))


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


class Wrapped(Rival):
    """A scikit-learn style classifier made by ``make(seed)``."""

    has_probabilities = True

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self.make = make

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        with warnings.catch_warnings(), threadpool_limits(1):  # fits run side by side
            warnings.simplefilter("ignore", ConvergenceWarning)  # a stated iteration limit is part of the rival
            self.model_ = self.make(seed % 2**31).fit(dense(X), y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(dense(X)))

    def decision_function(self, X: Any) -> np.ndarray:
        """Probability of class 1 less one half."""
        return self.predict_proba(X)[:, 1] - 0.5


def hist_gradient_boosting() -> Wrapped:
    """Histogram gradient boosting, scikit-learn's defaults."""
    return Wrapped(lambda seed: HistGradientBoostingClassifier(random_state=seed))


def random_forest() -> Wrapped:
    """500 trees."""
    return Wrapped(lambda seed: RandomForestClassifier(500, random_state=seed))


def mlp_early_stopping() -> Wrapped:
    """Standardised features, 128-64 ReLU units, Adam, a tenth of the rows held out to stop."""

    def make(seed: int) -> Any:
        network = MLPClassifier((128, 64), early_stopping=True, n_iter_no_change=20, max_iter=500, random_state=seed)
        return make_pipeline(StandardScaler(), network)

    return Wrapped(make)


def lightgbm() -> Wrapped:
    """LightGBM's defaults."""
    from lightgbm import LGBMClassifier

    return Wrapped(lambda seed: LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1))


def catboost() -> Wrapped:
    """CatBoost's defaults."""
    from catboost import CatBoostClassifier

    return Wrapped(
        lambda seed: CatBoostClassifier(random_seed=seed, verbose=False, allow_writing_files=False, thread_count=1)
    )


def tabpfn() -> Wrapped:
    """TabPFN's defaults; its weights must already be on this machine."""
    from tabpfn import TabPFNClassifier

    return Wrapped(lambda seed: TabPFNClassifier(random_state=seed))
