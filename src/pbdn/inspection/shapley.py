"""What each column adds to the prediction of a row: interventional Shapley values.

A coalition of columns is worth the mean prediction when those columns are as in the row and the others as in background
rows. With few columns all coalitions are counted, and the values are exact. With many, columns are let in one by one in
random orders, each order and its reverse, and the standard error is stated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows, predictions
from pbdn.inspection.columns import column_groups
from pbdn.inspection.effects import some_rows
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_choice, check_integer

MOST_EXACT = 10  # columns up to which all coalitions are counted
MAX_BACKGROUND = 100
N_ORDERS = 100
CHUNK = 50_000  # rows predicted at a time
SMALLEST = 1e-9  # probabilities are kept off 0 and 1 by so much before log-odds are taken

Predict = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of some rows, named as the `shap` package names them.

    Attributes
    ----------
    values : array (n_rows, n_columns, n_classes)
        They sum, over columns, to the prediction of the row less ``base_values``.
    base_values : array (n_classes,)
        Mean prediction of the background rows.
    standard_error : array like values, or None
        None where the values are exact.
    feature_names : list of str
        The columns.
    """

    values: FloatArray
    base_values: FloatArray
    standard_error: FloatArray | None
    feature_names: list[str]

    @property
    def exact(self) -> bool:
        """Whether all coalitions were counted."""
        return self.standard_error is None


def shapley_values(
    estimator: Any,
    X: Any,
    background: Any,
    *,
    output: str = "probability",
    method: str = "auto",
    n_orders: int = N_ORDERS,
    random_state: int = 0,
) -> ShapleyValues:
    """Interventional Shapley values of class probabilities or log-odds, or of predicted numbers.

    Parameters
    ----------
    estimator : fitted estimator
    X : rows to explain
    background : rows to compare with
        Best a sample of the training rows; at most 100 of them are used.
    output : "probability" or "log_odds"
        What is split among the columns; log-odds are those of a class against all others.
    method : "auto", "exact" or "orders"
        "auto" counts all coalitions of up to 10 columns, and samples orders of more.
    n_orders : int
        Random orders, each with its reverse; rounded up so that every background row has equally many, at least two.
    random_state : int
        Seed of the orders.
    """
    check_choice("output", output, ("probability", "log_odds"))
    check_choice("method", method, ("auto", "exact", "orders"))
    check_integer("n_orders", n_orders, 1)
    rows, behind = dense_rows(estimator, X), dense_rows(estimator, background)
    if behind.shape[0] < 1:
        raise InvalidInputError("background has no rows; give at least one, best some of the training rows.")
    behind = behind[some_rows(behind, MAX_BACKGROUND)]
    chosen = column_groups(estimator)
    members = np.zeros((len(chosen), rows.shape[1]))  # which features each column has
    for g, group in enumerate(chosen):
        members[g, list(group.features)] = 1.0

    def predict(part: FloatArray) -> FloatArray:
        p = predictions(estimator, part)
        if output == "probability" or not estimator._has_classes:
            return p
        p = np.clip(p, SMALLEST, 1.0 - SMALLEST)
        return np.asarray(np.log(p / (1.0 - p)))

    if method == "exact" and len(chosen) > 2 * MOST_EXACT:
        raise InvalidInputError(
            f"method='exact' would count 2**{len(chosen)} coalitions; use 'orders' for more than {2 * MOST_EXACT} columns."
        )
    names = [group.name for group in chosen]
    base = predict(behind).mean(axis=0)
    if method == "exact" or (method == "auto" and len(chosen) <= MOST_EXACT):
        return ShapleyValues(np.stack([_exact(predict, row, behind, members) for row in rows]), base, None, names)
    rng = np.random.default_rng(random_state)
    rounds = max(2, -(-n_orders // len(behind)))
    found = [_orders(predict, row, behind, members, rounds, rng) for row in rows]
    return ShapleyValues(np.stack([one[0] for one in found]), base, np.stack([one[1] for one in found]), names)


def _exact(predict: Predict, row: FloatArray, behind: FloatArray, members: FloatArray) -> FloatArray:
    """All coalitions: φ_j = Σ_S |S|! (M - |S| - 1)! / M! [v(S ∪ j) - v(S)]."""
    n = members.shape[0]
    coalitions = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    inside = (coalitions @ members) > 0  # (coalitions, features)
    at_once = max(1, CHUNK // len(behind))
    worth = []
    for low in range(0, len(inside), at_once):
        mask = inside[low : low + at_once, None, :]
        mixed = np.where(mask, row, behind[None])
        worth.append(predict(mixed.reshape(-1, row.size)).reshape(*mixed.shape[:2], -1).mean(axis=1))
    value = np.concatenate(worth)
    size = coalitions.sum(axis=1)
    weight = np.array([factorial(s) * factorial(n - s - 1) / factorial(n) if s < n else 0.0 for s in range(n + 1)])
    out = np.empty((n, value.shape[1]))
    for j in range(n):
        without = np.flatnonzero(coalitions[:, j] == 0)
        out[j] = weight[size[without]] @ (value[without + (1 << j)] - value[without])
    return out


def _orders(
    predict: Predict, row: FloatArray, behind: FloatArray, members: FloatArray, rounds: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means and standard errors over random orders, each averaged with its reverse: ``rounds`` for each background row."""
    n, n_orders = members.shape[0], rounds * len(behind)
    steps = np.tri(n + 1, n, -1, dtype=bool)  # after s steps the first s columns of the order are in
    at_once = max(1, CHUNK // (2 * (n + 1)))
    gains = []
    for low in range(0, n_orders, at_once):
        number = np.arange(low, min(low + at_once, n_orders))
        orders = rng.permuted(np.tile(np.arange(n), (number.size, 1)), axis=1)
        place = np.argsort(np.concatenate([orders, orders[:, ::-1]]), axis=1)
        joined = steps[:, place].transpose(1, 0, 2)  # (orders, steps, columns)
        inside = (joined.astype(np.float64) @ members) > 0
        other = behind[np.tile(number % len(behind), 2)]
        mixed = np.where(inside, row, other[:, None, :])
        value = predict(mixed.reshape(-1, row.size)).reshape(*mixed.shape[:2], -1)
        gain = np.take_along_axis(np.diff(value, axis=1), place[:, :, None], axis=1)
        gains.append(0.5 * (gain[: number.size] + gain[number.size :]))
    every = np.concatenate(gains).reshape(rounds, len(behind), n, -1)
    spread = every.var(axis=0, ddof=1).mean(axis=0)  # within a background row: all of them are always used
    return every.mean(axis=(0, 1)), np.sqrt(spread / n_orders)
