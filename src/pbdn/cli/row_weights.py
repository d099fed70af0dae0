"""How much the rows of a table count: by a column, and by their class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.tables import Table, column
from pbdn.tables.table import numbers

BALANCED = "balanced"


@dataclass(frozen=True)
class RowWeights:
    """What ``fit`` is told of weights.

    Attributes
    ----------
    of_rows : array or None
    of_classes : "balanced" or None
        The parameter ``class_weight`` of the estimator.
    measured : array or None
        How much rows count when the model is measured: the weights of rows without those of classes.
    """

    of_rows: NDArray[np.float64] | None = None
    of_classes: str | None = None
    measured: NDArray[np.float64] | None = None

    def take(self, which: NDArray[Any]) -> "RowWeights":
        """Those of some rows."""
        of_rows, measured = (None if one is None else one[which] for one in (self.of_rows, self.measured))
        return RowWeights(of_rows, self.of_classes, measured)


def row_weights(
    table: Table, known: NDArray[np.bool_], labels: NDArray[Any], name: str | None, of_classes: Sequence[str]
) -> RowWeights:
    """Weights of the rows with a label by ``--weight`` and ``--class-weight``; those of single classes become those of rows.

    ``known`` marks the rows of the table that have a label, ``labels`` are theirs.
    """
    weights = None if name is None else _weights_in(column(table, name, "weight column"), known, name)
    if not of_classes or tuple(of_classes) == (BALANCED,):
        return RowWeights(weights, BALANCED if of_classes else None, weights)
    by_class = np.ones(len(labels))
    texts = np.array([str(label) for label in labels.tolist()], dtype=object)
    for text in of_classes:
        label, _, number = text.rpartition("=")
        there = texts == label
        if not there.any():
            classes = ", ".join(dict.fromkeys(sorted(texts)))
            raise InvalidInputError(
                f"--class-weight {text}: give 'balanced' alone, or CLASS=WEIGHT where CLASS is one of {classes}."
            )
        by_class[there] = _positive(number, text)
    return RowWeights(by_class if weights is None else weights * by_class, None, weights)


def _weights_in(values: NDArray[Any], known: NDArray[np.bool_], name: str) -> NDArray[np.float64]:
    """Finite numbers that are not negative, or a sentence."""
    readings = [numbers(values, style) for style in (".", ",")]
    weights = min(readings, key=lambda reading: len(reading[1]))[0]
    wrong = np.flatnonzero(known & ~(weights >= 0.0))
    if wrong.size:
        raise InvalidInputError(
            f"--weight {name}: row {wrong[0] + 1} has {str(values[wrong[0]])!r}; weights are numbers of at least 0, one for "
            "each row."
        )
    return weights[known]


def _positive(number: str, text: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = np.nan
    if not 0.0 < weight < np.inf:
        raise InvalidInputError(f"--class-weight {text}: the weight must be a number above 0.")
    return weight
