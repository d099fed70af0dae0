"""The experts: their weights per layer and side, and the mean of the rows that each one votes for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows, feature_names, network_of, side_names
from pbdn.inspection.subtypes import as_frame, subtype_means
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import axes, beside, check_estimator, not_for, shown


@dataclass
class ExpertWeightsDisplay:
    """Weights r_k of all experts, strongest first: ``weights[layer][side]``; ``experts`` are their numbers, from 1."""

    sides: list[Any]
    weights: list[list[FloatArray]] = field(repr=False)
    experts: list[list[NDArray[np.int64]]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, draw: bool = True) -> "ExpertWeightsDisplay":
        """Read the weights and, unless ``draw`` is False, draw them."""
        check_estimator(estimator, cls)
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


@dataclass
class SubtypesDisplay:
    """Mean of the rows that each expert of one layer votes for (eq. 2 of the paper)."""

    layer: int
    names: list[str] = field(repr=False)
    sides: list[Any] = field(repr=False)
    experts: list[int] = field(repr=False)
    shares: FloatArray = field(repr=False)
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
        check_estimator(estimator, cls)
        network = network_of(estimator)
        if not 1 <= layer <= network.depth:
            raise InvalidInputError(f"layer={layer!r} must lie between 1 and {network.depth}.")
        rows = dense_rows(estimator, X)
        if shape is not None and shape[0] * shape[1] != rows.shape[1]:
            raise InvalidInputError(f"shape={shape!r} has not the {rows.shape[1]} pixels that there are features.")
        inputs = list(network.layer_inputs(rows))[layer - 1]
        sides: list[Any] = []
        experts: list[int] = []
        parts, shares = [], []
        for name, side in zip(side_names(estimator), network.layers[layer - 1].sides, strict=True):
            means, share = subtype_means(side, inputs, rows)
            parts.append(means)
            shares.append(share)
            sides += [name] * side.n_experts
            experts += list(range(1, side.n_experts + 1))
        spread = rows.std(axis=0)
        means = np.concatenate(parts)
        standard = (means - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        display = cls(layer, feature_names(estimator), sides, experts, np.concatenate(shares), means, standard, shape)
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "SubtypesDisplay":
        """A heat map in standard deviations from the mean, or a line of images per side."""
        if self.shape is not None:
            return self._plot_images(ax)
        self.figure_, self.ax_ = axes(ax, figsize=(6.4, max(4.8, 1.5 + 0.22 * len(self.experts))))
        titles = [
            f"{shown(side, 24)}: {k} ({share:.0%})"
            for side, k, share in zip(self.sides, self.experts, self.shares, strict=True)
        ]
        largest = max(float(np.abs(self.standard).max(initial=0.0)), 1e-12)
        image = self.ax_.imshow(self.standard, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        self.figure_.colorbar(image, ax=self.ax_, label="s.d. from the mean of all rows")
        self.ax_.set_yticks(range(len(titles)), titles)
        self.ax_.set(ylabel=f"side: expert of layer {self.layer} (share of votes)", xlabel="feature")
        if len(self.names) <= 40:
            names = [shown(name, 24) for name in self.names]
            self.ax_.set_xticks(range(len(names)), names, rotation=0 if sum(map(len, names)) < 40 else 90)
        return self

    def _plot_images(self, ax: Any) -> "SubtypesDisplay":
        """One line of images per side, its experts from left to right, shares of votes below them."""
        assert self.shape is not None
        height, width = self.shape
        sides = list(dict.fromkeys(self.sides))
        columns = max(self.experts, default=1)
        tall, wide = height + max(2, height // 5), width + 1
        self.figure_, self.ax_ = axes(ax, figsize=(max(4.0, 1.0 + 0.9 * columns), 0.6 + 0.9 * len(sides) * tall / wide))
        canvas = np.full((tall * len(sides), wide * columns - 1), np.nan)
        for side, k, share, mean in zip(self.sides, self.experts, self.shares, self.means, strict=True):
            top, left = tall * sides.index(side), wide * (k - 1)
            canvas[top : top + height, left : left + width] = mean.reshape(height, width)
            middle = (left + (width - 1) / 2, top + height - 0.3)
            self.ax_.text(*middle, f"{share:.0%}", ha="center", va="top", fontsize="x-small")
        self.ax_.imshow(canvas, cmap="gray")
        self.ax_.set_yticks(
            [tall * s + (height - 1) / 2 for s in range(len(sides))], [shown(side, 24) for side in sides]
        )
        self.ax_.set_xticks([wide * k + (width - 1) / 2 for k in range(columns)], range(1, columns + 1))
        self.ax_.set(xlabel=f"expert of layer {self.layer} (below: share of votes)", ylabel="side")
        self.ax_.spines[:].set_visible(False)
        self.ax_.tick_params(length=0)
        return self

    def table(self) -> Any:
        """One line per expert: side, share of votes, mean of every feature."""
        columns: dict[str, Any] = {"side": self.sides, "expert": self.experts, "share": self.shares}
        for j, name in enumerate(self.names):
            columns[name if name not in columns else f"feature {name}"] = self.means[:, j]
        return as_frame(columns)


@dataclass
class ExpertImagesDisplay:
    """What each expert of a classifier of images stands for: the mean of the images it votes for, and those it votes most for.

    ``means`` are (n_experts, height, width) or have channels after that; ``nearest`` are row numbers, (n_experts, n_nearest).
    ``salient`` is (n_experts, n_nearest, height, width) or None: what each pixel of those images adds to the expert's distance.
    """

    layer: int
    sides: list[Any] = field(repr=False)
    experts: list[int] = field(repr=False)
    shares: FloatArray = field(repr=False)
    means: FloatArray = field(repr=False)
    nearest: NDArray[np.int64] = field(repr=False)
    images: FloatArray = field(repr=False)
    salient: FloatArray | None = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        layer: int = 1,
        n_nearest: int = 5,
        saliency: bool = False,
        ax: Any = None,
        draw: bool = True,
    ) -> "ExpertImagesDisplay":
        """Look at the experts of a layer (from 1) of a `pbdn.torch.ConvPBDNClassifier`, of the sides that are for a class.

        ``saliency`` shows beside the images, in the first layer, which pixels make the expert vote for them.
        """
        if not hasattr(estimator, "features"):
            raise not_for(cls, "ConvPBDNClassifier of pbdn.torch", estimator)
        features, model = estimator.features(X), estimator.classifier_
        network, images = network_of(model), np.asarray(X, dtype=np.float64)
        if not 1 <= layer <= network.depth:
            raise InvalidInputError(f"layer={layer!r} must lie between 1 and {network.depth}.")
        if saliency and layer > 1:
            raise InvalidInputError(f"saliency=True needs layer=1; got layer={layer!r}.")
        if images.ndim == 4 and images.shape[3] > images.shape[1]:  # channels first
            images = images.transpose(0, 2, 3, 1)
        inputs = list(network.layer_inputs(features))[layer - 1]
        names, labelling, sides = side_names(model), network.response.labelling, network.layers[layer - 1].sides
        shown_sides = [s for s, stands_for in enumerate(labelling.sides) if stands_for >= 0]
        display = cls.of_sides(
            [sides[s] for s in shown_sides], [names[s] for s in shown_sides], inputs, images, n_nearest
        )
        display.layer = layer
        if saliency:
            own = [(s, k) for s in shown_sides for k in range(sides[s].n_experts)]
            pixels = np.asarray(X)
            display.salient = np.array(
                [estimator.saliency(pixels[rows], s, k) for (s, k), rows in zip(own, display.nearest, strict=True)]
            )
        return display.plot(ax) if draw else display

    @classmethod
    def of_sides(
        cls, sides: Sequence[Side], names: Sequence[Any], inputs: FloatArray, images: FloatArray, n_nearest: int
    ) -> "ExpertImagesDisplay":
        """The experts of some sides on inputs that stand for images."""
        flat = images.reshape(len(images), -1)
        means, shares = zip(*(subtype_means(side, inputs, flat) for side in sides), strict=True)
        nearest = [np.argsort(-side.units(inputs), axis=0, kind="stable")[:n_nearest].T for side in sides]
        return cls(
            1,
            [name for name, side in zip(names, sides, strict=True) for _ in range(side.n_experts)],
            [k for side in sides for k in range(1, side.n_experts + 1)],
            np.concatenate(shares),
            np.concatenate(means).reshape(-1, *images.shape[1:]),
            np.concatenate(nearest),
            images,
        )

    def strips(self) -> list[FloatArray]:
        """A picture per expert, values in [0, 1]: its mean, the images it votes most for, and their salient pixels."""
        low, high = float(self.images.min()), float(self.images.max())
        out = []
        for k, mean in enumerate(self.means):
            parts = [(one - low) / max(high - low, 1e-300) for one in (mean, *self.images[self.nearest[k]])]
            for one in () if self.salient is None else np.maximum(self.salient[k], 0.0):
                bright = one / max(float(one.max()), 1e-300)
                parts.append(bright if mean.ndim == 2 else np.repeat(bright[..., None], mean.shape[2], axis=2))
            gap = np.ones_like(parts[0][:, :1])
            strip = np.concatenate([piece for part in parts for piece in (part, gap)][:-1], axis=1)
            if strip.ndim == 3:
                strip = strip[..., :3] if strip.shape[2] >= 3 else strip[..., 0]
            out.append(strip)
        return out

    def plot(self, ax: Any = None) -> "ExpertImagesDisplay":
        """One line per expert: the mean first, then the images that it votes most for, and their salient pixels."""
        height, width = self.means.shape[1:3]
        strips, n_nearest = self.strips(), self.nearest.shape[1]
        gap = np.ones_like(strips[0][:1])
        canvas = np.concatenate([piece for strip in strips for piece in (strip, gap)][:-1])
        tall, wide = height + 1, width + 1
        size = (1.5 + 0.7 * canvas.shape[1] / wide, 0.6 + 0.7 * len(strips) * tall / wide)
        self.figure_, self.ax_ = axes(ax, figsize=size)
        self.ax_.imshow(canvas, cmap="gray", vmin=0.0, vmax=1.0)
        titles = [
            f"{shown(side, 24)}: {k} ({share:.0%})"
            for side, k, share in zip(self.sides, self.experts, self.shares, strict=True)
        ]
        self.ax_.set_yticks([tall * k + (height - 1) / 2 for k in range(len(titles))], titles)
        places, words = [(width - 1) / 2, wide * (1 + n_nearest / 2)], ["mean", "voted most for"]
        if self.salient is not None:
            places, words = [*places, wide * (1 + 1.5 * n_nearest)], [*words, "which pixels"]
        self.ax_.set_xticks(places, words)
        self.ax_.set(ylabel=f"side: expert of layer {self.layer} (share of votes)")
        self.ax_.spines[:].set_visible(False)
        self.ax_.tick_params(length=0)
        return self

    def table(self) -> Any:
        """One line per expert: side, share of votes, and the rows that it votes most for."""
        rows = {"side": self.sides, "expert": self.experts, "share": self.shares, "nearest": self.nearest.tolist()}
        return as_frame(rows)
