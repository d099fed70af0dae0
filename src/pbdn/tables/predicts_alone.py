"""How well one column alone tells the class, so that leaks and lost predictors are called out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.numerics.arrays import FloatArray

MOST_ROWS = 5000
LEAST_ROWS = 40
NEIGHBOURS = 5  # on each side
ALMOST_PERFECT = 0.03  # of the error of guessing
WELL = 0.6


def error_alone(values: FloatArray | Sequence[str | None], labels: NDArray[Any]) -> float:
    """Error of telling a row's class by the rows with the nearest values, as a share of the error of guessing.

    Classes count equally; those of a few rows are left aside. Missing values are a value. 1 is as bad as guessing;
    NaN: too few rows to say.
    """
    rows = np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS]  # equal values come in a random order
    classes, codes, sizes = np.unique(labels[rows], return_inverse=True, return_counts=True)
    rows = rows[sizes[codes] > 2 * NEIGHBOURS]
    if rows.size < LEAST_ROWS:
        return float("nan")
    order = rows[np.argsort(_ranked(values)[rows], kind="stable")]
    classes, codes = np.unique(labels[order], return_inverse=True)
    if classes.size < 2:
        return float("nan")
    hot = np.zeros((codes.size, classes.size))
    hot[np.arange(codes.size), codes] = 1.0
    total = np.vstack([np.zeros(classes.size), np.cumsum(hot, axis=0)])
    at = np.arange(codes.size)
    low, high = np.maximum(at - NEIGHBOURS, 0), np.minimum(at + NEIGHBOURS + 1, codes.size)
    size = np.bincount(codes).astype(np.float64)
    votes = (total[high] - total[low] - hot) / size
    wrong = np.argmax(votes, axis=1) != codes
    error = float(np.mean(np.bincount(codes, weights=wrong) / size))
    return error / (1.0 - 1.0 / classes.size)


def _ranked(values: FloatArray | Sequence[str | None]) -> NDArray[Any]:
    """Numbers as they are, texts by their order; missing ones last."""
    if isinstance(values, np.ndarray):
        return np.where(np.isnan(values), np.inf, values)
    texts = np.array(["\U0010ffff" if value is None else value[:40] for value in values], dtype=str)
    return np.unique(texts, return_inverse=True)[1]
