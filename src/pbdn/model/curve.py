"""Curved first layers: hyperplanes on the features and the squares of their distances from a centre.

A hyperplane on [x, (x - c)²] is an axis-parallel quadric in the space of the features: one expert can enclose a ball.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray, IntArray

TWO_VALUES = 2  # the square of a feature with so many values says nothing new


@dataclass(frozen=True)
class Curve:
    """Which features are squared, and the centres that they are measured from.

    Attributes
    ----------
    columns : array of int
        The features that are squared, in rising order.
    centers : array (n_columns,)
        Zero where the network was fitted on sparse features, so that zeros stay zero.
    """

    columns: IntArray
    centers: FloatArray

    @property
    def n_squares(self) -> int:
        """Number of squares."""
        return int(self.columns.size)

    def expand(self, features: Inputs) -> Inputs:
        """The features and, after them, the squares: (n, n_features + n_squares)."""
        some = features[:, self.columns]
        if sp.issparse(features):
            dense = self.centers.any()  # rows given sparse to a network that was fitted on dense ones
            squares = sp.csr_array((some.toarray() - self.centers) ** 2) if dense else some.multiply(some)
            return sp.hstack([features, squares], format="csr")
        return np.concatenate([features, (some - self.centers) ** 2], axis=1)


def curve_of(features: Inputs) -> Curve | None:
    """The squares of scaled features that have more than two values; None where there is no such feature."""
    if sp.issparse(features):
        columns = np.array([j for j in range(features.shape[1]) if np.unique(features[:, [j]].data).size > 1], np.int64)
    else:
        low, high = features.min(axis=0), features.max(axis=0)
        columns = np.flatnonzero(((features != low) & (features != high)).any(axis=0)).astype(np.int64)
    return Curve(columns, np.zeros(columns.size)) if columns.size else None
