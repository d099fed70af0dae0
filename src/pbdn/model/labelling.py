"""What rows say, and what the sides of a layer stand for.

A side says "yes" to the rows of one class, or to the rows of every class but one. This is the only place where a class
becomes a yes or a no; compiled code takes `Labelling.positive`.

For every response, a side is a Poisson process on a line with cumulative rate H_i(u); the row's value is its first point. A row
says of that point what two bounds say: "in (low, high]". An infinite bound says nothing, and equal bounds say "exactly here". A
class label is the case of one bound at 0. The second side of a pair sees the line the other way round: its bounds are
(-high, -low).

A row may have a third number, its limit: the row is only there because its value lies beyond the limit, on the side where its
bounds are. What it says is then a probability given that. The limit of a time is the entry into the study, and the value lies
above it; the second side sees it below. An infinite limit says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray

FAR, FAR_AS_LOGARITHM = 50.0, 12.0  # standard deviations from the median
MOST_FAR = 0.01  # of the values, but one at least; more are no mistakes
QUARTILES_OF_A_BELL = 1.349  # standard deviations between the quartiles of a bell curve
FEWEST_VALUES = 20  # from which far can be told

# kinds of statements; COUNT says how many points lie before 0, and the last two divide by the probability of the first two
NOTHING, BEFORE, INTERVAL, EXACT, COUNT, GIVEN_NOTHING, GIVEN_BEFORE = range(7)


@dataclass(frozen=True)
class Labelling:
    """The class that each side stands for or against.

    Attributes
    ----------
    sides : tuple of int
        c for "class c is yes"; -1 - c for "every class but c is yes".
    """

    sides: tuple[int, ...]

    @property
    def n_sides(self) -> int:
        """Number of sides."""
        return len(self.sides)

    @property
    def positive(self) -> IntArray:
        """The sides as an array, for compiled code."""
        return np.array(self.sides, np.int64)

    def targets(self, codes: IntArray) -> NDArray[np.bool_]:
        """Whether each row is "yes" for each side, shape (n_rows, n_sides)."""
        return np.column_stack([says_yes(codes, side) for side in self.sides])

    def names(self, labels: Sequence[Any]) -> list[Any]:
        """What each side stands for, in words: a label, or "not" a label."""
        return [labels[side] if side >= 0 else f"not {labels[-1 - side]}" for side in self.sides]


def says_yes(codes: IntArray, side: int) -> NDArray[np.bool_]:
    """Rows that are "yes" for a side."""
    return np.asarray(codes == side if side >= 0 else codes != -1 - side)


def for_each_class(n_classes: int) -> Labelling:
    """A side for every class; with two classes they are the labels and their flip, as in the paper."""
    return Labelling(tuple(range(n_classes)))


def for_and_against_each_class(n_classes: int) -> Labelling:
    """A side for every class, then a side against every class in the same order."""
    return Labelling((*range(n_classes), *(-1 - c for c in range(n_classes))))


SECOND_CLASS = Labelling((1,))  # a lone side: the second class is "yes"


def kinds_of(bounds: FloatArray) -> IntArray:
    """The kind of every row of ``bounds``, limits aside.

    NOTHING before ``low`` (no upper bound), something BEFORE ``high`` (no lower bound), first point in the INTERVAL, or EXACT.
    A row without any bound says NOTHING before -inf, which holds of every value.
    """
    low, high = bounds[:, 0], bounds[:, 1]
    kinds = np.where(np.isposinf(high), NOTHING, np.where(np.isneginf(low), BEFORE, INTERVAL))
    return np.asarray(np.where(low == high, EXACT, kinds), np.int64)


def without_zeros(bounds: FloatArray) -> FloatArray:
    """Bounds of times whose logarithms are bounds too: an event at 0 is known to lie before the smallest time above 0."""
    zero = bounds[:, 1] <= 0.0
    if not zero.any():
        return bounds
    known = bounds[:, :2][np.isfinite(bounds[:, :2]) & (bounds[:, :2] > 0.0)]
    if not known.size:
        raise InvalidInputError("y has no time above 0; a time of 0 says nothing without later ones. Give more rows.")
    return np.where(zero[:, None], np.array([-np.inf, known.min(), -np.inf])[: bounds.shape[1]], bounds)


def flipped(bounds: FloatArray) -> FloatArray:
    """The same statements about the negative of the value."""
    return np.ascontiguousarray(-bounds[:, [1, 0, 2][: bounds.shape[1]]])


def check_informative(bounds: FloatArray) -> None:
    """Refuse rows that only say "more than" or only "less than": nothing holds the values on the other side."""
    low, high = (bool(np.isfinite(column).any()) for column in bounds.T[:2])
    if low and high:
        return
    what = "an upper bound: all are censored from above" if low else "a lower bound: all are censored from below"
    if not low and not high:
        what = "any bound"
    raise InvalidInputError(f"No row of y has {what}. Give at least one row whose value is known or bounded there.")


def far_values(values: FloatArray, weights: FloatArray | None) -> NDArray[np.bool_]:
    """Which values are so far from all others that they are rather mistakes, or codes such as 999999.

    They are few, and more than `FAR` standard deviations from the median, as the quartiles of a bell curve tell them. Values that
    are never negative may have a long tail, so they must be far as logarithms too.
    """
    far = np.zeros(values.size, dtype=bool)
    if values.size < FEWEST_VALUES:
        return far
    median, spread = _middle(values, weights)
    if spread > 0.0:
        far = np.abs(values - median) > FAR * spread
        if far.any() and values.min() >= 0.0:
            logs = np.log(values + (0.0 if values.min() > 0.0 else spread))
            median, spread = _middle(logs, weights)
            far &= np.abs(logs - median) > FAR_AS_LOGARITHM * spread
    counts = np.ones(values.size) if weights is None else weights
    many = counts[far].sum() > max(1.0, MOST_FAR * counts.sum())
    return np.zeros(values.size, dtype=bool) if many else far


def _middle(values: FloatArray, weights: FloatArray | None) -> tuple[float, float]:
    """The median, and a standard deviation by the quartiles; 0 if half of the values are the same."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75], weights=weights, method="inverted_cdf")
    return float(median), float(high - low) / QUARTILES_OF_A_BELL
