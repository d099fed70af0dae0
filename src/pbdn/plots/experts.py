"""Experts: their weights per layer and side, and the data subtypes that they vote for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn import interpret
from pbdn.errors import InvalidInputError
from pbdn.plots.base import FloatArray, axes, dense_rows, frame, shown, side_labels


@dataclass
class ExpertWeightsDisplay:
    """Weights r_k of all experts, strongest first: ``weights[layer][side]``."""

    sides: list[Any]
    weights: list[list[FloatArray]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, draw: bool = True) -> "ExpertWeightsDisplay":
        """Read the weights and, unless ``draw`` is False, draw them."""
        layers = estimator._network().layers
        weights = [[np.sort(side.expert_weights)[::-1] for side in layer.sides] for layer in layers]
        display = cls(side_labels(estimator), weights)
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "ExpertWeightsDisplay":
        """Bars, layers from left to right, sides in colours."""
        self.figure_, self.ax_ = axes(ax)
        ticks, names, at = [], [], 0.0
        for t, layer in enumerate(self.weights, 1):
            for s, weights in enumerate(layer):
                places = at + np.arange(weights.size)
                label = shown(f"side {self.sides[s]}") if t == 1 else None
                self.ax_.bar(places, weights, color=f"C{s}", label=label)
                ticks.append(float(places.mean()))
                names.append(shown(f"{t}: {self.sides[s]}"))
                at += weights.size + 1.0
        self.ax_.set(xticks=ticks, xlabel="layer: side", ylabel="expert weight", yscale="log")
        self.ax_.set_xticklabels(names)
        self.ax_.legend()
        return self

    def table(self) -> Any:
        """One line per expert."""
        rows = [
            (t, self.sides[s], k + 1, float(weight))
            for t, layer in enumerate(self.weights, 1)
            for s, weights in enumerate(layer)
            for k, weight in enumerate(weights)
        ]
        return frame({name: [row[j] for row in rows] for j, name in enumerate(("layer", "side", "expert", "weight"))})


@dataclass
class SubtypesDisplay:
    """Mean of the rows that each expert of one layer votes for (eq. 2 of the paper)."""

    layer: int
    names: list[str]
    sides: list[Any]
    experts: list[int]
    shares: FloatArray
    means: FloatArray = field(repr=False)
    standard: FloatArray = field(repr=False)
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        layer: int = 1,
        shape: tuple[int, int] | None = None,
        ax: Any = None,
        draw: bool = True,
    ) -> "SubtypesDisplay":
        """Compute the subtypes of a layer (from 1); ``shape`` = (height, width) draws each as an image."""
        network = estimator._network()
        if not 1 <= layer <= network.depth:
            raise InvalidInputError(f"layer={layer!r} must lie between 1 and {network.depth}.")
        rows = dense_rows(estimator, X)
        if shape is not None and shape[0] * shape[1] != rows.shape[1]:
            raise InvalidInputError(f"shape={shape!r} has not the {rows.shape[1]} pixels that there are features.")
        inputs = list(network.layer_inputs(rows))[layer - 1]
        sides: list[Any] = []
        experts: list[int] = []
        parts, shares = [], []
        for name, side in zip(side_labels(estimator), network.layers[layer - 1].sides, strict=True):
            means, share = interpret.subtype_means(side, inputs, rows)
            parts.append(means)
            shares.append(share)
            sides += [name] * side.n_experts
            experts += list(range(1, side.n_experts + 1))
        spread = rows.std(axis=0)
        means = np.concatenate(parts)
        standard = (means - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        display = cls(layer, estimator._names(), sides, experts, np.concatenate(shares), means, standard, shape)
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "SubtypesDisplay":
        """A heat map in standard deviations from the mean, or one row of images."""
        self.figure_, self.ax_ = axes(ax)
        titles = [shown(f"{side}: {k}") for side, k in zip(self.sides, self.experts, strict=True)]
        if self.shape is not None:
            height, width = self.shape
            gap = np.full((height, 1), np.nan)
            strip = [part for mean in self.means for part in (mean.reshape(height, width), gap)][:-1]
            self.ax_.imshow(np.concatenate(strip, axis=1), cmap="gray")
            places = (np.arange(len(titles)) * (width + 1) + (width - 1) / 2).tolist()
            self.ax_.set_xticks(places, titles, rotation=90)
            self.ax_.set_yticks([])
            return self
        largest = max(float(np.abs(self.standard).max(initial=0.0)), 1e-12)
        image = self.ax_.imshow(self.standard, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        self.figure_.colorbar(image, ax=self.ax_, label="standard deviations from the mean")
        self.ax_.set_yticks(range(len(titles)), titles)
        self.ax_.set(ylabel=f"side: expert of layer {self.layer}", xlabel="feature")
        if len(self.names) <= 40:
            self.ax_.set_xticks(range(len(self.names)), [shown(name) for name in self.names], rotation=90)
        return self

    def table(self) -> Any:
        """One line per expert: side, share of votes, mean of every feature."""
        columns: dict[str, Any] = {"side": self.sides, "expert": self.experts, "share": self.shares}
        for j, name in enumerate(self.names):
            columns[name if name not in columns else f"feature {name}"] = self.means[:, j]
        return frame(columns)
