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


def joined_ramps(curve: Curve, coefs: FloatArray, n_rows: FloatArray, charge: float) -> Curve | None:
    """Fewer and longer ramps, on which hyperplanes with these coefficients stay nearly as they are; None where they need no bend.

    What a feature adds to a hyperplane is a line with a bend where one ramp ends and the next begins. Without some of the bends it
    moves. The squares of these moves, summed over rows and hyperplanes, and ``charge`` for every ramp are least in all.

    Parameters
    ----------
    curve : Curve
        Every ramp of a feature begins where the one before it ends.
    coefs : array (n_hyperplanes, n_bent)
        Of the ramps themselves, which go from 0 to 1.
    n_rows : array (n_bent,)
        That lie within each ramp.
    charge : float
    """
    columns, begin, length = [], [], []
    for j in np.unique(curve.columns):
        own = curve.columns == j
        knots = np.append(curve.centers[own], (curve.centers + curve.scales)[own][-1])
        kept = knots[_bends_that_pay(knots, coefs[:, own], n_rows[own], charge)]
        if kept.size > TWO_VALUES:
            columns.append(np.full(kept.size - 1, j, np.int64))
            begin.append(kept[:-1])
            length.append(np.diff(kept))
    if not columns:
        return None
    return Curve(np.concatenate(columns), np.concatenate(begin), np.concatenate(length), ramps=True)


def _bends_that_pay(knots: FloatArray, coefs: FloatArray, n_rows: FloatArray, charge: float) -> list[int]:
    """Which of the knots of a feature the lines keep, both ends among them, by dynamic programming.

    Rows are taken to lie at the knots, half of those of a ramp at each end.
    """
    heights = np.pad(np.cumsum(coefs, axis=1), ((0, 0), (1, 0)))
    products, at = heights.T @ heights, np.pad(n_rows, 1)
    i, p, q = np.ogrid[: knots.size, : knots.size, : knots.size]
    inside = (p < i) & (i < q)
    along = np.where(inside, (knots[i] - knots[p]) / np.where(inside, knots[q] - knots[p], 1.0), 0.0)
    left = 1.0 - along  # the move of knot i, squared, where a line goes straight from p to q
    moves = products[i, i] + left**2 * products[p, p] + along**2 * products[q, q]
    moves += 2.0 * (left * along * products[p, q] - left * products[i, p] - along * products[i, q])
    errors = np.sum(np.where(inside, moves, 0.0) * (0.5 * (at[:-1] + at[1:]))[:, None, None], axis=0)
    least, before = np.zeros(knots.size), np.zeros(knots.size, np.int64)
    for end in range(1, knots.size):
        costs = least[:end] + errors[:end, end] + charge
        before[end] = costs.argmin()
        least[end] = costs[before[end]]
    kept = [knots.size - 1]
    while kept[-1] > 0:
        kept.append(int(before[kept[-1]]))
    return kept[::-1]


def joining(curve: Curve, fewer: Curve | None, n_features: int) -> FloatArray:
    """The matrix that turns hyperplanes on features and ramps, bias first, into those on the ramps of `joined_ramps`.

    A ramp gets the sum of the coefficients of those it is joined from. A feature that has no ramps any more takes them as a slope.
    """
    first, n_fewer = n_features + 1, 0 if fewer is None else fewer.n_bent
    matrix = np.eye(first + curve.n_bent, first + n_fewer)
    matrix[first:] = 0.0
    for j in np.unique(curve.columns):
        own = np.flatnonzero(curve.columns == j)
        begin = curve.centers[own]
        its = np.empty(0, np.int64) if fewer is None else np.flatnonzero(fewer.columns == j)
        if fewer is not None and its.size:
            matrix[first + own, first + its[np.searchsorted(fewer.centers[its], begin, side="right") - 1]] = 1.0
        else:
            length = begin[-1] + curve.scales[own[-1]] - begin[0]
            matrix[first + own, 1 + j], matrix[first + own, 0] = 1.0 / length, -begin[0] / length
    return matrix
