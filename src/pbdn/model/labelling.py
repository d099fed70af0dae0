"""What the sides of a layer stand for.

A side says "yes" to the rows of one class, or to the rows of every class but one. This is the only place where a class
becomes a yes or a no; compiled code takes `Labelling.positive`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.numerics.arrays import IntArray


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
