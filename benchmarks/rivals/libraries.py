"""Rivals that libraries have: logistic regression, the SVM and the neural network with the paper's tuning, and what one would use today."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.rivals.base import Rival, cv_error, dense, folds

C_GRID = tuple(2.0**k for k in range(-10, 16))
GRID = tuple(2.0**k for k in range(-5, 6))
RATE = 0.05
INITIAL_ACCUMULATOR = 0.1


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


class Dnn(Rival):
    """Feed-forward network as TensorFlow 1's DNNClassifier trained it by default, with the given hidden layers.

    ReLU units, Glorot-uniform weights, zero biases, logistic loss averaged over the batch, Adagrad with rate 0.05
    and initial accumulator 0.1, no penalty, no dropout, no early stopping, single precision; 2000 steps on all
    rows (the paper's main table) or steps on mini-batches (its MNIST table: 4000 of 100). Known difference from
    TensorFlow: the random streams, hence the initial weights.

    Parameters
    ----------
    hidden : tuple of int
        Units of each hidden layer, for example (8, 4), or the widths that a PBDN inferred.
    n_steps : int
    batch_size : int or None
        Rows per step, drawn afresh; None takes all rows in every step.
    """

    has_probabilities = True

    def __init__(self, hidden: tuple[int, ...], n_steps: int = 2000, batch_size: int | None = None) -> None:
        super().__init__()
        self.hidden, self.n_steps, self.batch_size = tuple(hidden), n_steps, batch_size

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        X, y = dense(X).astype(np.float32), np.asarray(y, dtype=np.float32)
        rng = np.random.default_rng(seed)
        sizes = (X.shape[1], *self.hidden, 1)
        self.layers_ = []
        for fan_in, fan_out in pairwise(sizes):
            limit = np.sqrt(6.0 / (fan_in + fan_out))
            weights = rng.uniform(-limit, limit, (fan_in, fan_out)).astype(np.float32)
            self.layers_.append((weights, np.zeros(fan_out, np.float32)))
        squares = [tuple(np.full_like(p, INITIAL_ACCUMULATOR) for p in layer) for layer in self.layers_]
        for _ in range(self.n_steps):
            rows = slice(None) if self.batch_size is None else rng.integers(len(y), size=self.batch_size)
            gradients = _gradients(self.layers_, X[rows], y[rows])
            for layer, accumulated, gradient in zip(self.layers_, squares, gradients, strict=True):
                for value, square, slope in zip(layer, accumulated, gradient, strict=True):
                    square += slope**2
                    value -= RATE * slope / np.sqrt(square)
        self.chosen = {"hidden": list(self.hidden), "n_steps": self.n_steps, "batch_size": self.batch_size}
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return _forward(self.layers_, dense(X).astype(np.float32))[-1][:, 0].astype(np.float64)

    @property
    def complexity(self) -> float:
        """[(V + 1) K_1 + K_1 K_2 + ...] / (V + 1), the paper's count."""
        width = self.layers_[0][0].shape[0] + 1
        inner = sum(a * b for a, b in pairwise(self.hidden))
        return self.hidden[0] + inner / width


Layers = list[tuple[np.ndarray, np.ndarray]]


def _forward(layers: Layers, X: np.ndarray) -> list[np.ndarray]:
    """Inputs of every layer, and the log odds last."""
    values = [X]
    for weights, bias in layers[:-1]:
        values.append(np.maximum(values[-1] @ weights + bias, 0.0))
    weights, bias = layers[-1]
    values.append(values[-1] @ weights + bias)
    return values


def _gradients(layers: Layers, X: np.ndarray, y: np.ndarray) -> Layers:
    """Gradients of the mean logistic loss."""
    values = _forward(layers, X)
    slope = (expit(values[-1]) - y[:, None]) / np.float32(len(y))
    gradients: Layers = []
    for (weights, _), value in zip(reversed(layers), reversed(values[:-1]), strict=True):
        gradients.append((value.T @ slope, slope.sum(axis=0)))
        slope = (slope @ weights.T) * (value > 0)
    return gradients[::-1]


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


def gaussian_process() -> Wrapped:
    """Standardised features, an RBF kernel and Laplace's approximation; the likelihood chooses height and width of the kernel."""

    def make(seed: int) -> Any:
        process = GaussianProcessClassifier(ConstantKernel(1.0) * RBF(3.0), n_restarts_optimizer=1, random_state=seed)
        return make_pipeline(StandardScaler(), process)

    return Wrapped(make)


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
