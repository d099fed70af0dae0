"""What each layer sees: the paper's skip wiring, written once, and the squares that a curved first layer sees besides.

Layer t + 1 sees [x̃^(t-1), x̃^(t)]: the units of the last two layers below it, where x̃^(0) are the features.

A curved first layer has hyperplanes on the features and the squares of their distances from a centre. A hyperplane on
[x, ((x - c)/s)²] is an axis-parallel quadric in the space of the features: one expert can enclose a ball.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.numerics.arrays import FloatArray, IntArray

Inputs = Any  # dense float array or SciPy CSR matrix of shape (n, d), without the constant column
FEATURES = 0  # as a source of a layer's inputs
TWO_VALUES = 2  # the square of a feature with so many values says nothing new


def sources_of(layer: int) -> tuple[int, ...]:
    """What layer t = 1, 2, … sees, side by side: `FEATURES`, or s for the units of layer s = 1, 2, …"""
    return (FEATURES,) if layer == 1 else (layer - 2, layer - 1)


def sees_features(layer: int) -> bool:
    """Whether the features are among the inputs of layer t = 1, 2, …; they come first."""
    return FEATURES in sources_of(layer)


def width_of_inputs(layer: int, widths: Sequence[int]) -> int:
    """How many inputs layer t has, without the constant; ``widths`` are those of the sources 0, 1, …"""
    return sum(widths[source] for source in sources_of(layer))


def inputs_of(layer: int, seen: Sequence[Inputs]) -> Inputs:
    """Inputs of layer t from ``seen``, the features and the units of layer 1, 2, …; sparse if the features are and it sees them."""
    parts = [seen[source] for source in sources_of(layer)]
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.hstack([parts[0], *(sp.csr_array(part) for part in parts[1:])], format="csr")
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Curve:
    """Which features are squared, and the centres and scales that they are measured by.

    Attributes
    ----------
    columns : array of int
        The features that are squared, in rising order.
    centers : array (n_columns,)
        Zero where the network was fitted on sparse features, so that zeros stay zero.
    scales : array (n_columns,)
        The units of the distances, so that squares neither over- nor underflow: those of the features.
    """

    columns: IntArray
    centers: FloatArray
    scales: FloatArray

    @property
    def n_squares(self) -> int:
        """Number of squares."""
        return int(self.columns.size)

    def without(self, columns: IntArray) -> "Curve | None":
        """The same without the squares of some features; None where none is left."""
        keep = ~np.isin(self.columns, columns)
        return Curve(self.columns[keep], self.centers[keep], self.scales[keep]) if keep.any() else None

    def expand(self, features: Inputs) -> Inputs:
        """The features and, after them, the squares: (n, n_features + n_squares)."""
        some = features[:, self.columns]
        if sp.issparse(features):
            if self.centers.any():  # rows given sparse to a network that was fitted on dense ones
                squares = sp.csr_array(self._squares(some.toarray()))
            else:
                squares = sp.csr_array(some)
                squares.data = (squares.data / self.scales[squares.indices]) ** 2
            return sp.hstack([features, squares], format="csr")
        return np.concatenate([features, self._squares(some)], axis=1)

    def _squares(self, some: FloatArray) -> FloatArray:
        return np.asarray(((some - self.centers) / self.scales) ** 2)


def curve_of(features: Inputs) -> Curve | None:
    """The squares of scaled features that have more than two values; None where there is no such feature."""
    if sp.issparse(features):
        columns = np.array([j for j in range(features.shape[1]) if np.unique(features[:, [j]].data).size > 1], np.int64)
    else:
        low, high = features.min(axis=0), features.max(axis=0)
        columns = np.flatnonzero(((features != low) & (features != high)).any(axis=0)).astype(np.int64)
    return Curve(columns, np.zeros(columns.size), np.ones(columns.size)) if columns.size else None
