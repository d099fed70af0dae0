"""The seam between what is predicted and everything else.

A response says which labelled rows each side of a layer sees, how the sides' answers become a prediction, and how unlikely
a row is under it. No other module asks what kind of labels there are. There are three responses, all of them classes: one
side (`OneSide`), the paper's pair (`TwoClasses`), and a pair of sides for each of several classes (`SeveralClasses`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.model.labelling import SECOND_CLASS, Labelling, for_and_against_each_class, for_each_class
from pbdn.model.pooling import pool_one, pool_pairs, pool_two
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray

SMALLEST_PROBABILITY = 1e-12  # of a row's own class, so that one row cannot decide everything


class SideRates(Protocol):
    """A layer, as far as a response needs to know it."""

    def side_rate(self, inputs: Inputs) -> FloatArray:
        """λ of every side, shape (n, n_sides)."""


class Response(Protocol):
    """What the labels of a fit are.

    Attributes
    ----------
    kind : str
        Its name in model files.
    labelling : Labelling
        Which rows are "yes" for each side.
    n_outputs : int
        Columns of a prediction.
    timed : bool
        Whether rows say where on a line their value lies (`pbdn.model.labelling`), not of which class they are.
    """

    @property
    def timed(self) -> bool:
        """Whether rows have values on a line."""

    @property
    def kind(self) -> str:
        """Its name in model files."""

    @property
    def labelling(self) -> Labelling:
        """Which rows are "yes" for each side."""

    @property
    def n_outputs(self) -> int:
        """Columns of a prediction."""

    def prediction(self, layer: Any, inputs: Inputs) -> FloatArray:
        """What a top layer predicts on its inputs, shape (n, n_outputs)."""

    def losses(self, layer: Any, inputs: Inputs, targets: Any) -> FloatArray:
        """Minus twice the log-likelihood of what every row says, by a top layer on its inputs."""

    def strata(self, targets: Any) -> NDArray[np.int64]:
        """Groups of similar rows, which folds share evenly."""


@dataclass(frozen=True)
class Classes:
    """Class probabilities from the rates of the sides."""

    kind: ClassVar[str]
    timed: ClassVar[bool] = False
    most_outputs: ClassVar[int | None] = None
    n_outputs: int = 2

    def __post_init__(self) -> None:
        """Refuse a number of classes that the response cannot have."""
        if self.n_outputs < 2 or (self.most_outputs is not None and self.n_outputs > self.most_outputs):
            raise InvalidInputError(f"{type(self).__name__} cannot tell {self.n_outputs} classes apart.")

    @property
    def labelling(self) -> Labelling:
        """The labels and their flip."""
        return for_each_class(self.n_outputs)

    @staticmethod
    def pool(side_rate: FloatArray) -> FloatArray:
        """Class probabilities from the rates λ of the sides (last axis)."""
        return pool_two(side_rate)

    def prediction(self, layer: SideRates, inputs: Inputs) -> FloatArray:
        """Class probabilities, shape (n, n_classes)."""
        return self.pool(layer.side_rate(inputs))

    def deviance(self, prediction: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
        """-2 ln P(the row's own class)."""
        chosen = prediction[np.arange(codes.size), codes]
        return np.asarray(-2.0 * np.log(np.maximum(chosen, SMALLEST_PROBABILITY)))

    def losses(self, layer: SideRates, inputs: Inputs, targets: NDArray[np.int64]) -> FloatArray:
        """-2 ln P(the row's own class) of every row."""
        return self.deviance(self.prediction(layer, inputs), targets)

    @staticmethod
    def strata(targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The classes."""
        return targets


class TwoClasses(Classes):
    """The paper's pair: a side for each of two classes; P(second class) = (p_2 + 1 - p_1)/2."""

    kind = "two_classes"
    most_outputs = 2


class OneSide(Classes):
    """A lone side: P(second class) = 1 - e^{-λ}."""

    kind = "one_side"
    most_outputs = 2

    @property
    def labelling(self) -> Labelling:
        """The second class is "yes"."""
        return SECOND_CLASS

    @staticmethod
    def pool(side_rate: FloatArray) -> FloatArray:
        """[e^{-λ}, 1 - e^{-λ}]."""
        return pool_one(side_rate)


class SeveralClasses(Classes):
    """Three or more classes: a side for and a side against each. With two, the side for one is that against the other."""

    kind = "several_classes"

    @property
    def labelling(self) -> Labelling:
        """All the sides for the classes, then those against them."""
        return for_and_against_each_class(self.n_outputs)

    @staticmethod
    def pool(side_rate: FloatArray) -> FloatArray:
        """One factor on the odds of all pairs makes their answers sum to one."""
        return pool_pairs(side_rate)


def response_for_classes(n_classes: int) -> Response:
    """The response of a classifier."""
    return TwoClasses() if n_classes <= 2 else SeveralClasses(n_classes)


RESPONSES: dict[str, Callable[[int], Response]] = {one.kind: one for one in (OneSide, TwoClasses, SeveralClasses)}


def response_of_kind(kind: Any, n_outputs: int) -> Response:
    """The response with this name in a model file."""
    if not isinstance(kind, str) or kind not in RESPONSES:
        raise InvalidInputError(f"response {kind!r} is not one of {', '.join(RESPONSES)}.")
    return RESPONSES[kind](n_outputs)
