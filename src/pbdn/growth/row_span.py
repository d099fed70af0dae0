"""Fewer rows than features: a network is trained in the space that the rows span, so that time is linear in features.

With a penalty on the squares of coefficients, the best hyperplanes lie in the span of the rows: anything beside it costs
penalty and changes no row. Coordinates in that space are as many as rows. Distances, and so penalties, are the same there.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.model.network import Layer, Side
from pbdn.model.wiring import sees_features
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.joint_training import neighbour_distance

NEGLIGIBLE = 1e-10  # squared length along an axis, relative to the longest, that is rounding


@dataclass(frozen=True)
class RowSpan:
    """An orthonormal basis of the span of rows X, held as Xᵀ W.

    Attributes
    ----------
    inputs : dense array or CSR matrix (n_rows, n_features)
        X.
    coordinates : array (n_rows, n_axes)
        X in the basis.
    mixture : array (n_rows, n_axes)
        W.
    """

    inputs: Any
    coordinates: FloatArray
    mixture: FloatArray

    @classmethod
    def of(cls, inputs: Any) -> "RowSpan":
        """The span of these rows; its axes are those of falling variance about the origin."""
        products = inputs @ inputs.T
        products = products.toarray() if sp.issparse(products) else products
        values, vectors = np.linalg.eigh(products)
        keep = np.flatnonzero(values > NEGLIGIBLE * max(values[-1], 1e-300))[::-1]
        length, vectors = np.sqrt(values[keep]), vectors[:, keep]
        if not keep.size:  # all rows are the origin
            return cls(inputs, np.zeros((inputs.shape[0], 1)), np.zeros((inputs.shape[0], 1)))
        sign = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(keep.size)])
        vectors = vectors * sign
        return cls(inputs, np.ascontiguousarray(vectors * length), vectors / length)

    def noise(self, weights: FloatArray | None, rng: np.random.Generator) -> FloatArray:
        """Standard deviation along every axis of the noise of `pbdn.sgd.joint_training.neighbour_noise` on the features."""
        some = np.arange(self.inputs.shape[0]) if weights is None else np.flatnonzero(weights > 0)
        inputs = self.inputs[some]
        mean = np.asarray(inputs.mean(axis=0)).ravel()
        squares = inputs.multiply(inputs) if sp.issparse(inputs) else inputs * inputs
        variance = np.maximum(np.asarray(squares.mean(axis=0)).ravel() - mean * mean, 0.0)
        total = float(variance.sum())
        if len(some) < 2 or total == 0.0:
            return np.zeros(self.coordinates.shape[1])
        scaled = self.inputs @ sp.diags_array(variance) if sp.issparse(self.inputs) else self.inputs * variance
        products = scaled @ self.inputs.T
        products = products.toarray() if sp.issparse(products) else products
        along = np.einsum("ij,ij->j", self.mixture, products @ self.mixture)
        distance = neighbour_distance(self.coordinates[some], rng)
        return np.asarray(distance * np.sqrt(np.maximum(along, 0.0) / (2.0 * total)))

    def unfold(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """Layers on features that act on these rows as the given ones do on their coordinates."""
        n_axes = self.coordinates.shape[1]

        def unfold(side: Side) -> Side:
            planes = side.hyperplanes
            on_features = (self.inputs.T @ (self.mixture @ planes[:, 1 : n_axes + 1].T)).T
            return replace(side, hyperplanes=np.column_stack([planes[:, 0], on_features, planes[:, n_axes + 1 :]]))

        return tuple(
            Layer(tuple(unfold(side) for side in layer.sides)) if sees_features(t) else layer
            for t, layer in enumerate(layers, 1)
        )
