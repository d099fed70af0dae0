"""Weights of the experts, per layer and side."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import network_of, side_names
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import axes, beside, shown


@dataclass
class ExpertWeightsDisplay:
    """Weights r_k of all experts, strongest first: ``weights[layer][side]``; ``experts`` are their numbers, from 1."""

    sides: list[Any]
    weights: list[list[FloatArray]] = field(repr=False)
    experts: list[list[NDArray[np.int64]]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, draw: bool = True) -> "ExpertWeightsDisplay":
        """Read the weights and, unless ``draw`` is False, draw them."""
        layers = network_of(estimator).layers
        order = [[np.argsort(-side.expert_weights, kind="stable") for side in layer.sides] for layer in layers]
        weights = [
            [side.expert_weights[chosen] for side, chosen in zip(layer.sides, line, strict=True)]
            for layer, line in zip(layers, order, strict=True)
        ]
        display = cls(side_names(estimator), weights, [[chosen + 1 for chosen in line] for line in order])
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "ExpertWeightsDisplay":
        """A point per expert on a logarithmic scale, layers from left to right, sides in colours."""
        self.figure_, self.ax_ = axes(ax)
        ticks, at = [], 0.0
        for t, layer in enumerate(self.weights, 1):
            begin = at
            for s, weights in enumerate(layer):
                places = at + np.arange(weights.size)
                label = shown(f"side {self.sides[s]}") if t == 1 else None
                self.ax_.plot(places, weights, "o-", color=f"C{s % 10}", linewidth=0.8, markersize=5, label=label)
                at += weights.size
            ticks.append((begin + at - 1.0) / 2.0)
            at += 1.0
            if t < len(self.weights):
                self.ax_.axvline(at - 1.0, color="gray", linewidth=0.6)
        self.ax_.set(xlabel="experts, strongest of each side first", ylabel="expert weight", yscale="log")
        self.ax_.set_xticks(ticks, [f"layer {t}" for t in range(1, len(self.weights) + 1)])
        beside(self.ax_)
        return self

    def table(self) -> Any:
        """One line per expert."""
        rows = [
            (t, self.sides[s], int(k), float(weight))
            for t, (layer, numbers) in enumerate(zip(self.weights, self.experts, strict=True), 1)
            for s, (weights, which) in enumerate(zip(layer, numbers, strict=True))
            for k, weight in zip(which, weights, strict=True)
        ]
        return as_frame(
            {name: [row[j] for row in rows] for j, name in enumerate(("layer", "side", "expert", "weight"))}
        )
