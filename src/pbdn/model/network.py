"""What a fit leaves behind: sides of experts, layers of sides, and the network that they form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from pbdn.experimental.race import race_probability
from pbdn.model.likelihood import FloatArray, probability, signed_distances, softplus
from pbdn.model.pooling import pool_pairs, pool_sides

Skip = Literal["last_two", "none", "all"]
Head = Literal["sides", "race"]
Inputs = Any  # dense float array or SciPy CSR matrix of shape (n, d), without the constant column


@dataclass(frozen=True)
class Side:
    """One infinite support hyperplane machine: P(y=1 | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})).

    Attributes
    ----------
    hyperplanes : array (n_experts, n_inputs + 1)
        β_k; the first column is the bias.
    expert_weights : array (n_experts,)
        r_k > 0.
    """

    hyperplanes: FloatArray
    expert_weights: FloatArray

    def __post_init__(self) -> None:
        """Check the shapes once, so that later code need not."""
        if self.hyperplanes.ndim != 2 or self.expert_weights.shape != self.hyperplanes.shape[:1]:
            raise ValueError(
                f"hyperplanes {self.hyperplanes.shape} and expert_weights {self.expert_weights.shape} "
                "do not describe the same experts."
            )

    @property
    def n_experts(self) -> int:
        """Number of hyperplanes."""
        return int(self.hyperplanes.shape[0])

    def units(self, inputs: Inputs) -> FloatArray:
        """Hidden units s(x'β_k), shape (n, n_experts)."""
        return softplus(signed_distances(self.hyperplanes, inputs))

    def rate(self, inputs: Inputs) -> FloatArray:
        """λ_i = Σ_k r_k s(x_i'β_k), shape (n,)."""
        return self.units(inputs) @ self.expert_weights

    def strongest_first(self) -> "Side":
        """The same side with experts in order of falling weight."""
        order = np.argsort(-self.expert_weights, kind="stable")
        return Side(self.hyperplanes[order], self.expert_weights[order])


@dataclass(frozen=True)
class Layer:
    """The sides trained on the same inputs (binary: the labels and their flip; see `Network.complements`).

    ``sides`` hold the recorded draw (Gibbs) or the optimum (MAP), active experts only. ``draws`` are the kept
    posterior draws of each side, ``draws[g][s]``; empty where only the point is kept.
    """

    sides: tuple[Side, ...]
    draws: tuple[tuple[Side, ...], ...] = field(default=(), repr=False)

    @property
    def n_experts(self) -> tuple[int, ...]:
        """Experts per side."""
        return tuple(side.n_experts for side in self.sides)

    def units(self, inputs: Inputs) -> FloatArray:
        """Hidden units of all sides, side by side: shape (n, sum of n_experts)."""
        return np.concatenate([side.units(inputs) for side in self.sides], axis=1)

    def side_rate(self, inputs: Inputs) -> FloatArray:
        """λ of every side, shape (n, n_sides)."""
        return np.column_stack([side.rate(inputs) for side in self.sides])

    def side_probability(self, inputs: Inputs) -> FloatArray:
        """P(side s says yes), shape (n, n_sides)."""
        return probability(self.side_rate(inputs))


def race_of_layer(layer: Layer, inputs: Inputs) -> FloatArray:
    """P(class wins the race), shape (n, n_classes)."""
    distance = np.concatenate([signed_distances(side.hyperplanes, inputs) for side in layer.sides], axis=1)
    weights = np.concatenate([side.expert_weights for side in layer.sides])
    return race_probability(distance, weights, layer.n_experts)


def next_inputs(skip: Skip, inputs: Inputs, previous: Inputs | None, newest: FloatArray) -> Inputs:
    """Inputs of layer t+1, given those of layer t and the newest units (the constant is implicit).

    "last_two" is the paper's [x̃^(t), x̃^(t+1)], "none" only the newest units, "all" everything so far.
    ``previous`` is x̃^(t): the features for t = 1, the units of the layer below afterwards.
    """
    kept = {"last_two": previous, "none": None, "all": inputs}[skip]
    if kept is None:
        return newest
    if sp.issparse(kept):
        return sp.hstack([kept, sp.csr_array(newest)], format="csr")
    return np.concatenate([kept, newest], axis=1)


@dataclass(frozen=True)
class Network:
    """A grown network acting on raw features: layers from bottom to top and how they are wired.

    One side is "the second class"; otherwise side s stands for class s. With ``complements`` every class also has a side
    against it, as each of two classes has in the other: the second half of the sides, in the order of the first. With
    ``head="race"`` the sides are the classes of a race (`pbdn.experimental.race`).
    """

    layers: tuple[Layer, ...]
    n_features: int
    skip: Skip = "last_two"
    complements: bool = False
    head: Head = "sides"

    @property
    def depth(self) -> int:
        """Number of layers (T in the paper)."""
        return len(self.layers)

    @property
    def top(self) -> Layer:
        """The layer that predicts."""
        return self.layers[-1]

    def layer_inputs(self, features: Inputs) -> Iterator[Inputs]:
        """Inputs of layer 1, 2, … depth, without the constant column."""
        inputs: Inputs = features
        previous: Inputs | None = features
        for layer in self.layers[:-1]:
            yield inputs
            newest = layer.units(inputs)
            inputs = next_inputs(self.skip, inputs, previous, newest)
            previous = newest
        yield inputs

    def top_inputs(self, features: Inputs) -> Inputs:
        """Inputs of the top layer."""
        return list(self.layer_inputs(features))[-1]

    def side_probability(self, features: Inputs) -> FloatArray:
        """P(side s says yes) from the point of the top layer, shape (n, n_sides)."""
        return self.top.side_probability(self.top_inputs(features))

    def class_probability(self, features: Inputs) -> FloatArray:
        """Pooled class probabilities from the recorded point, shape (n, n_classes)."""
        return self.pool(self.top, self.top_inputs(features))

    def pool(self, layer: Layer, inputs: Inputs) -> FloatArray:
        """Class probabilities of a top layer on its inputs."""
        if self.head == "race":
            return race_of_layer(layer, inputs)
        rate = layer.side_rate(inputs)
        return pool_pairs(rate) if self.complements else pool_sides(probability(rate))

    @property
    def n_classes(self) -> int:
        """Classes that the network tells apart."""
        n_sides = len(self.top.sides)
        return max(2, n_sides // 2 if self.complements else n_sides)

    def class_probability_draws(self, features: Inputs) -> FloatArray:
        """Pooled class probabilities of every kept draw of the top layer, shape (n_draws, n, n_classes)."""
        inputs = self.top_inputs(features)
        return np.stack([self.pool(Layer(sides), inputs) for sides in self.top.draws])

    def mean_class_probability(self, features: Inputs) -> FloatArray:
        """Class probabilities averaged over the draws of the top layer, each draw pooled before averaging."""
        inputs = self.top_inputs(features)
        total: FloatArray | float = 0.0
        for sides in self.top.draws:
            total = total + self.pool(Layer(sides), inputs)
        return np.asarray(total / len(self.top.draws))

    @property
    def n_inputs(self) -> tuple[int, ...]:
        """d_t, the inputs of each layer with the constant: V+1, then K_{t-1}+K_t+1, …"""
        return tuple(int(layer.sides[0].hyperplanes.shape[1]) for layer in self.layers)

    @property
    def n_units(self) -> tuple[int, ...]:
        """K_{t+1}, the units of each layer over all sides."""
        return tuple(sum(layer.n_experts) for layer in self.layers)

    @property
    def n_weights(self) -> int:
        """Numbers that the point prediction needs: all hyperplanes and the top layer's expert weights."""
        return sum(d * k for d, k in zip(self.n_inputs, self.n_units, strict=True)) + self.n_units[-1]

    @property
    def complexity(self) -> float:
        """Cost of a prediction in units of one inner product x'β: Σ_t d_t K_{t+1} / (V+1)."""
        cost = sum(d * k for d, k in zip(self.n_inputs, self.n_units, strict=True))
        return cost / (self.n_features + 1)
