"""A network on a few of its features, the others folded into offsets: what changes when only these change."""

from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.model.network import Layer, Network, Side
from pbdn.model.wiring import sees_features
from pbdn.numerics.arrays import FloatArray


class Offsets:
    """Distances of fixed rows from the hyperplanes that see the features.

    `narrowed` gives a small network with the same predictions, so that changing one of many features costs what one
    feature costs.
    """

    def __init__(self, network: Network, rows: Any) -> None:
        """Compute the distances once; ``rows`` are dense or sparse."""
        self.network, self.rows = network, rows
        n = network.n_features
        self._layers = [t for t in range(1, network.depth + 1) if sees_features(t)]
        planes = [side.hyperplanes[:, 1 : n + 1] for t in self._layers for side in network.layers[t - 1].sides]
        self._planes = np.concatenate(planes)
        self._distances = np.asarray(rows @ self._planes.T)

    def narrowed(self, features: tuple[int, ...]) -> tuple[Network, FloatArray]:
        """The network and the rows on [one offset per hyperplane, the chosen features]."""
        chosen = list(features)
        values = self.rows[:, chosen]
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)
        offsets = self._distances - values @ self._planes[:, chosen].T
        n, total = self.network.n_features, self._planes.shape[0]
        layers, at = [], 0
        for t, layer in enumerate(self.network.layers, 1):
            if t not in self._layers:
                layers.append(layer)
                continue
            sides = []
            for side in layer.sides:
                pick = np.zeros((side.n_experts, total))
                pick[np.arange(side.n_experts), at + np.arange(side.n_experts)] = 1.0
                at += side.n_experts
                old = side.hyperplanes
                planes = np.column_stack([old[:, :1], pick, old[:, 1 : n + 1][:, chosen], old[:, n + 1 :]])
                sides.append(Side(planes, side.expert_weights))
            layers.append(Layer(tuple(sides)))
        small = replace(self.network, layers=tuple(layers), n_features=total + len(chosen))
        return small, np.column_stack([offsets, values])
