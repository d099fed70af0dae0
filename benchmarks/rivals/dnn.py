"""Feed-forward network as TensorFlow 1's DNNClassifier trained it by default.

ReLU units, Glorot-uniform weights, zero biases, logistic loss averaged over the batch, Adagrad with rate 0.05
and initial accumulator 0.1, no penalty, no dropout, no early stopping, single precision; 2000 steps on all
rows (the paper's main table) or steps on mini-batches (its MNIST table: 4000 of 100). Known difference from
TensorFlow: the random streams, hence the initial weights.
"""

from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import expit

from benchmarks.rivals.base import Rival, dense

RATE = 0.05
INITIAL_ACCUMULATOR = 0.1


class Dnn(Rival):
    """A network with the given hidden layers.

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
