"""What each layer sees: the paper's skip wiring, written once, and what a curved first layer sees besides.

Layer t + 1 sees [x̃^(t-1), x̃^(t)]: the units of the last two layers below it, where x̃^(0) are the features.

A curved first layer has hyperplanes on the features and on functions of single features: squares or ramps. A hyperplane on
[x, ((x - c)/s)²] is an axis-parallel quadric in the space of the features: one expert can enclose a ball. A ramp is 0 up to c, 1 from
c + s on, and rises evenly between them. Ramps that begin where others end let an expert rise and fall along a feature in any way: what
the feature adds to its distance is a line with a bend at every c.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.numerics.arrays import FloatArray, IntArray

Inputs = Any  # dense float array or SciPy CSR matrix of shape (n, d), without the constant column
FEATURES = 0  # as a source of a layer's inputs
TWO_VALUES = 2  # a function of a feature with so many values says nothing new


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
    """Functions of (x_j - c)/s for some features j: squares, or ramps.

    Attributes
    ----------
    columns : array of int
        The features, in rising order: one square of each, several ramps.
    centers : array (n_columns,)
        Zero where the network was fitted on sparse features, so that zeros stay zero.
    scales : array (n_columns,)
        The units of the distances, so that squares neither over- nor underflow: those of the features. Lengths of ramps.
    ramps : bool
    """

    columns: IntArray
    centers: FloatArray
    scales: FloatArray
    ramps: bool = False

    @property
    def n_bent(self) -> int:
        """Number of squares or ramps."""
        return int(self.columns.size)

    def without(self, columns: IntArray) -> "Curve | None":
        """The same without the functions of some features; None where none is left."""
        return self.take(~np.isin(self.columns, columns))

    def take(self, keep: NDArray[np.bool_]) -> "Curve | None":
        """Some of the functions; None where none is left."""
        if not keep.any():
            return None
        return replace(self, columns=self.columns[keep], centers=self.centers[keep], scales=self.scales[keep])

    def expand(self, features: Inputs) -> Inputs:
        """The features and, after them, the squares or ramps: (n, n_features + n_bent)."""
        some = features[:, self.columns]
        if sp.issparse(features):
            if self.ramps or self.centers.any():  # rows given sparse to a network that was fitted on dense ones
                bent = sp.csr_array(self.bend(some.toarray()))
            else:
                bent = sp.csr_array(some)
                bent.data = (bent.data / self.scales[bent.indices]) ** 2
            return sp.hstack([features, bent], format="csr")
        return np.concatenate([features, self.bend(some)], axis=1)

    def bend(self, values: FloatArray, which: Any = slice(None)) -> FloatArray:
        """Squares or ramps of values, of which the last axis runs over these of the columns."""
        distance = (values - self.centers[which]) / self.scales[which]
        return np.clip(distance, 0.0, 1.0) if self.ramps else np.asarray(distance**2)


def curve_of(features: Inputs) -> Curve | None:
    """The squares of scaled features that have more than two values; None where there is no such feature."""
    if sp.issparse(features):
        columns = np.array([j for j in range(features.shape[1]) if np.unique(features[:, [j]].data).size > 1], np.int64)
    else:
        low, high = features.min(axis=0), features.max(axis=0)
        columns = np.flatnonzero(((features != low) & (features != high)).any(axis=0)).astype(np.int64)
    return Curve(columns, np.zeros(columns.size), np.ones(columns.size)) if columns.size else None


def ramps_of(features: FloatArray, most: int) -> Curve | None:
    """Ramps from quantile to quantile of dense features that have more than two values; None where there is no such feature.

    ``most`` is the number of ramps of a feature. One that has few values has its ramps between them.
    """
    columns, knots = [], []
    for j, values in enumerate(features.T):
        found = np.unique(values)
        if found.size > most + 1:
            found = np.unique(np.quantile(values, np.linspace(0.0, 1.0, most + 1)))
        if found.size > TWO_VALUES:
            columns.append(np.full(found.size - 1, j, np.int64))
            knots.append(found)
    if not columns:
        return None
    begin = np.concatenate([found[:-1] for found in knots])
    return Curve(np.concatenate(columns), begin, np.concatenate([np.diff(found) for found in knots]), ramps=True)
