"""What a network predicts when a few features of known rows change: the cost of a few features, not of all."""

from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.model.likelihood import softplus
from pbdn.model.network import Layer, Network
from pbdn.model.wiring import FEATURES, sources_of
from pbdn.numerics.arrays import FloatArray


class ChangedColumns:
    """The recorded point of a network on fixed rows, of which some columns change."""

    def __init__(self, network: Network, rows: FloatArray) -> None:
        """Compute once, for every layer, what the features and the bias add to its distances."""
        self.network, self.rows = network, rows
        self._planes = [np.concatenate([side.hyperplanes for side in layer.sides]) for layer in network.layers]
        self._top = _on_distances(network.top)
        widths = [network.n_expanded, *(len(planes) for planes in self._planes)]
        self._parts = []  # per layer: [(source, its coefficients)]
        for t, planes in enumerate(self._planes, 1):
            ends = np.cumsum([1, *(widths[source] for source in sources_of(t))])
            parts = [(s, planes[:, ends[j] : ends[j + 1]]) for j, s in enumerate(sources_of(t))]
            self._parts.append(parts)
        expanded = network.expand(rows)
        self._still = [self._features_add(expanded, parts, slice(None)) for parts in self._parts]

    @staticmethod
    def _features_add(values: FloatArray, parts: list[tuple[int, FloatArray]], chosen: Any) -> FloatArray | float:
        """What some features add to the distances of a layer."""
        return sum((values @ planes[:, chosen].T for source, planes in parts if source == FEATURES), start=0.0)

    def _expanded_change(self, chosen: list[int], values: FloatArray) -> tuple[list[int], FloatArray]:
        """The columns of `Network.expand` that change with the chosen features, and by how much."""
        old, values, curve = self._tamed(chosen, self.rows[:, chosen]), self._tamed(chosen, values), self.network.curve
        if curve is None:
            return chosen, values - old
        squares = [j for j, column in enumerate(curve.columns.tolist()) if column in chosen]
        place = [chosen.index(int(curve.columns[j])) for j in squares]
        centers, scales = curve.centers[squares], curve.scales[squares]
        bent = ((values[:, place] - centers) / scales) ** 2 - ((old[:, place] - centers) / scales) ** 2
        return chosen + [self.network.n_features + j for j in squares], np.column_stack([values - old, bent])

    def _tamed(self, chosen: list[int], values: FloatArray) -> FloatArray:
        """Values of the chosen features, tails pulled in."""
        tails = self.network.tails
        inside = [] if tails is None else [i for i, column in enumerate(chosen) if column in tails.columns]
        if tails is not None and inside:
            values = values.copy()
            which = np.searchsorted(tails.columns, [chosen[i] for i in inside])
            values[:, inside] = tails.pull_in(values[:, inside], which)
        return values

    def predict(self, features: tuple[int, ...], values: FloatArray) -> FloatArray:
        """The prediction of all rows with other values (n, n_chosen) of the chosen features."""
        chosen, change = self._expanded_change(list(features), values)
        units: list[FloatArray] = []
        for parts, planes, still in zip(self._parts, self._planes, self._still, strict=True):
            distance = planes[:, 0] + still + self._features_add(change, parts, chosen)
            for source, coefficients in parts:
                if source != FEATURES:
                    distance = distance + units[source - 1] @ coefficients.T
            if len(units) + 1 == self.network.depth:
                break
            units.append(softplus(distance))
        return self.network.response.prediction(self._top, distance)


def _on_distances(layer: Layer) -> Layer:
    """A layer that takes the distances from its hyperplanes as inputs, whatever the response asks of it."""
    total, sides, at = sum(layer.n_experts), [], 0
    for side in layer.sides:
        sides.append(replace(side, hyperplanes=np.eye(side.n_experts, total + 1, at + 1)))
        at += side.n_experts
    return Layer(tuple(sides))
