"""What a network predicts when a few features of known rows change: the cost of a few features, not of all."""

from typing import Any

import numpy as np

from pbdn.model.likelihood import softplus
from pbdn.model.network import Network
from pbdn.model.wiring import FEATURES, Inputs, sources_of
from pbdn.numerics.arrays import FloatArray


class _Rates:
    """A top layer whose rates are already known."""

    def __init__(self, rates: FloatArray) -> None:
        self.rates = rates

    def side_rate(self, inputs: Inputs) -> FloatArray:
        """λ of every side."""
        return self.rates


class ChangedColumns:
    """The recorded point of a network on fixed rows, of which some columns change."""

    def __init__(self, network: Network, rows: FloatArray) -> None:
        """Compute once, for every layer, what the features and the bias add to its distances."""
        self.network, self.rows = network, rows
        self._planes = [np.concatenate([side.hyperplanes for side in layer.sides]) for layer in network.layers]
        self._weights = np.concatenate([side.expert_weights for side in network.top.sides])
        self._first = np.cumsum([0, *(side.n_experts for side in network.top.sides)])
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
        old, curve = self.rows[:, chosen], self.network.curve
        if curve is None:
            return chosen, values - old
        squares = [j for j, column in enumerate(curve.columns.tolist()) if column in chosen]
        place = [chosen.index(int(curve.columns[j])) for j in squares]
        centers = curve.centers[squares]
        bent = (values[:, place] - centers) ** 2 - (old[:, place] - centers) ** 2
        return chosen + [self.network.n_features + j for j in squares], np.column_stack([values - old, bent])

    def predict(self, features: tuple[int, ...], values: FloatArray) -> FloatArray:
        """The prediction of all rows with other values (n, n_chosen) of the chosen features."""
        chosen, change = self._expanded_change(list(features), values)
        units: list[FloatArray] = []
        for parts, planes, still in zip(self._parts, self._planes, self._still, strict=True):
            distance = planes[:, 0] + still + self._features_add(change, parts, chosen)
            for source, coefficients in parts:
                if source != FEATURES:
                    distance = distance + units[source - 1] @ coefficients.T
            units.append(softplus(distance))
        rate = units[-1] * self._weights
        ends = zip(self._first[:-1], self._first[1:], strict=True)
        rates = np.column_stack([rate[:, low:high].sum(axis=1) for low, high in ends])
        return self.network.response.prediction(_Rates(rates), self.rows)
