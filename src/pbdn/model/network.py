"""What a fit leaves behind: sides of experts, layers of sides, and the network that they form."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.model.forward import Plan, is_worth_it, plan_of, side_rates
from pbdn.model.likelihood import average_answer, probability, signed_distances, softplus
from pbdn.model.response import Classes, Response
from pbdn.model.tails import Tails
from pbdn.model.wiring import Curve, Inputs, inputs_of, sees_features, width_of_inputs
from pbdn.numerics.arrays import FloatArray, IntArray

CLIMB_ROWS = 16_384  # rows whose units are computed at a time
LARGEST_TERM = 1e200  # of a coefficient times a feature; leaves room for the sums and layers above


@dataclass(frozen=True)
class Side:
    """One infinite support hyperplane machine: P(y=1 | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})).

    Attributes
    ----------
    hyperplanes : array (n_experts, n_inputs + 1)
        β_k; the first column is the bias.
    expert_weights : array (n_experts,)
        r_k > 0.
    time_coefs : array (n_experts,) or None
        τ_k > 0 of a response on a line (`pbdn.model.timed`): how fast the signed distance grows with the value u. The side is
        then the machine above for "the value is at most u", with x'β_k + τ_k u in the place of x'β_k. None: labels.
    """

    hyperplanes: FloatArray
    expert_weights: FloatArray
    time_coefs: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check the shapes once, so that later code need not."""
        if self.hyperplanes.ndim != 2 or self.expert_weights.shape != self.hyperplanes.shape[:1]:
            raise ValueError(
                f"hyperplanes {self.hyperplanes.shape} and expert_weights {self.expert_weights.shape} "
                "do not describe the same experts."
            )
        if self.time_coefs is not None and self.time_coefs.shape != self.expert_weights.shape:
            raise ValueError(f"time_coefs {self.time_coefs.shape} are not one number per expert.")

    @property
    def n_experts(self) -> int:
        """Number of hyperplanes."""
        return int(self.hyperplanes.shape[0])

    def units(self, inputs: Inputs, at: float = 0.0) -> FloatArray:
        """Hidden units s(x'β_k) or, on a line, s(x'β_k + τ_k u) at u = ``at``; shape (n, n_experts)."""
        distance = signed_distances(self.hyperplanes, inputs)
        if self.time_coefs is not None:
            distance += self.time_coefs * at
        return softplus(distance)

    def rate(self, inputs: Inputs) -> FloatArray:
        """λ_i = Σ_k r_k s(x_i'β_k), shape (n,)."""
        return self.units(inputs) @ self.expert_weights

    def scaled(self, factor: float) -> "Side":
        """The same side with a factor on its rate."""
        return replace(self, expert_weights=factor * self.expert_weights)

    def strongest_first(self) -> "Side":
        """The same side with experts in order of falling weight."""
        return self.take(np.argsort(-self.expert_weights, kind="stable"))

    def take(self, experts: Any) -> "Side":
        """Some of the experts, by a mask or their numbers."""
        times = None if self.time_coefs is None else self.time_coefs[experts]
        return Side(self.hyperplanes[experts], self.expert_weights[experts], times)


@dataclass(frozen=True)
class Layer:
    """The sides trained on the same inputs (what they stand for: `pbdn.model.labelling`).

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
        return softplus(signed_distances(np.concatenate([side.hyperplanes for side in self.sides]), inputs))

    def side_rate(self, inputs: Inputs) -> FloatArray:
        """λ of every side, shape (n, n_sides)."""
        return self.rate_of_units(self.units(inputs))

    def rate_of_units(self, units: FloatArray) -> FloatArray:
        """`side_rate` from the layer's own units."""
        of_sides = np.split(units, np.cumsum(self.n_experts)[:-1], axis=1)
        return np.column_stack([own @ side.expert_weights for side, own in zip(self.sides, of_sides, strict=True)])


def climb(layers: Sequence[Layer], features: Inputs) -> Iterator[Inputs]:
    """Inputs of layer 1, 2, … of a stack, and at last those of a layer on top of it; without the constant column."""
    seen = [features]
    for t, layer in enumerate(layers, 1):
        inputs = inputs_of(t, seen)
        yield inputs
        seen.append(layer.units(inputs))
    yield inputs_of(len(layers) + 1, seen)


def with_other_inputs(layers: Sequence[Layer], n_inputs: int, change: Callable[..., FloatArray]) -> tuple[Layer, ...]:
    """The layers, with a change of biases and of the coefficients of ``n_inputs`` inputs, side by side, where these are seen."""

    def changed(side: Side) -> Side:
        first, others = np.split(side.hyperplanes, [n_inputs + 1], axis=1)
        return replace(side, hyperplanes=np.hstack([change(first), others]))

    def with_changed(layer: Layer) -> Layer:
        draws = tuple(tuple(changed(side) for side in draw) for draw in layer.draws)
        return Layer(tuple(changed(side) for side in layer.sides), draws)

    return tuple(with_changed(layer) if sees_features(t) else layer for t, layer in enumerate(layers, 1))


def inputs_above(layers: Sequence[Layer], features: Inputs) -> Inputs:
    """Inputs of a layer on top of these; of many dense rows some at a time, so that what lies below takes no memory."""
    n_rows = features.shape[0]
    if not layers or sp.issparse(features) or n_rows <= CLIMB_ROWS:
        return deque(climb(layers, features), maxlen=1)[0]
    widths = [features.shape[1], *(sum(layer.n_experts) for layer in layers)]
    out = np.empty((n_rows, width_of_inputs(len(layers) + 1, widths)))
    for begin in range(0, n_rows, CLIMB_ROWS):
        some = slice(begin, begin + CLIMB_ROWS)
        out[some] = deque(climb(layers, features[some]), maxlen=1)[0]
    return out


@dataclass(frozen=True)
class Network:
    """A grown network acting on raw features: layers from bottom to top, and what the sides of its top layer predict.

    ``curve`` says which squares or ramps stand beside the features; None: hyperplanes are flat. ``members`` says of a network that
    averages several which of them each expert of the top layer belongs to, side by side; empty: it is one network. ``folds``
    is the average of networks of which each was trained without one fold of the rows; None where the members are such
    networks, or where there are none. ``tails`` says which features have long tails that are pulled in before all else.
    ``class_rows`` is how many rows of each class the networks of folds shared; None where there are none, or no classes.
    """

    layers: tuple[Layer, ...]
    n_features: int
    response: Response
    curve: Curve | None = None
    members: tuple[IntArray, ...] = ()
    folds: "Network | None" = None
    tails: Tails | None = None
    class_rows: FloatArray | None = None

    @property
    def n_members(self) -> int:
        """How many networks are averaged."""
        return 1 + max((int(side.max(initial=0)) for side in self.members), default=0)

    @property
    def n_averaged(self) -> int:
        """How many answers are averaged for each side: those of all members; on a line one, since rates are averaged there."""
        return 1 if self.response.timed else self.n_members

    @property
    def owners(self) -> tuple[IntArray, ...]:
        """Which of the networks that are averaged each expert of the top layer belongs to, side by side."""
        return self.members or tuple(np.zeros(count, np.int64) for count in self.top.n_experts)

    @property
    def has_intervals(self) -> bool:
        """Whether it says how sure it is: by posterior draws, or by networks of folds."""
        return bool(self.top.draws) or self.has_folds

    @property
    def has_folds(self) -> bool:
        """Whether there are networks of folds."""
        return (self.folds or self).n_members > 1

    def expand(self, features: Inputs) -> Inputs:
        """What layers that see the features are given: the features, tails pulled in, and in a curved network their squares or ramps."""
        features = self.tamed(features)
        return features if self.curve is None else self.curve.expand(features)

    def tamed(self, features: Inputs) -> Inputs:
        """The features with their long tails pulled in."""
        return features if self.tails is None else self.tails.apply(features)

    @property
    def n_expanded(self) -> int:
        """Columns of `expand`."""
        return self.n_features + (0 if self.curve is None else self.curve.n_bent)

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
        return climb(self.layers[:-1], self.expand(features))

    def top_inputs(self, features: Inputs) -> Inputs:
        """Inputs of the top layer."""
        return inputs_above(self.layers[:-1], self.expand(features))

    def side_probability(self, features: Inputs) -> FloatArray:
        """P(side s says yes) from the point of the top layer, shape (n, n_sides)."""
        return probability(self.side_rate(features))

    def side_rate(self, features: Inputs) -> FloatArray:
        """λ of every side, shape (n, n_sides): its answer is the average of the members'. Many dense rows by the compiled pass."""
        if is_worth_it(features):
            return side_rates(self._plan, len(self.top.sides), self.n_averaged, features)
        return self._rate_above(self.top_inputs(features))

    def _rate_above(self, inputs: Inputs) -> FloatArray:
        """`side_rate` from inputs of the top layer."""
        if self.n_averaged == 1:
            return self.top.side_rate(inputs)
        of_sides = zip(self.top.sides, self.weights_of_members, strict=True)
        return np.column_stack([average_answer(side.units(inputs) @ own, axis=1) for side, own in of_sides])

    @cached_property
    def weights_of_members(self) -> list[FloatArray]:
        """Of each side, the weight that every expert has in every member, shape (n_experts, n_members)."""
        own = np.arange(self.n_members)
        return [
            np.where(owners[:, None] == own, side.expert_weights[:, None], 0.0)
            for side, owners in zip(self.top.sides, self.owners, strict=True)
        ]

    @cached_property
    def _plan(self) -> Plan:
        return plan_of(self)

    def predict(self, features: Inputs) -> FloatArray:
        """The prediction of the recorded point, shape (n, n_outputs)."""
        if isinstance(self.response, Classes):  # which ask for rates only
            return self.response.prediction(self, features)
        return self.predict_above(self.top_inputs(features))

    def predict_above(self, inputs: Inputs) -> FloatArray:
        """The prediction from inputs of the top layer, shape (n, n_outputs)."""
        if isinstance(self.response, Classes):
            return self.response.pool(self._rate_above(inputs))
        return self.response.prediction(self.top, inputs)

    def predict_draws(self, features: Inputs) -> FloatArray:
        """The prediction of every kept draw of the top layer, shape (n_draws, n, n_outputs)."""
        inputs = self.top_inputs(features)
        return np.stack([self.response.prediction(Layer(sides), inputs) for sides in self.top.draws])

    def predict_mean(self, features: Inputs) -> FloatArray:
        """The average of `predict_draws`, one draw in memory at a time."""
        inputs = self.top_inputs(features)
        total = sum(self.response.prediction(Layer(sides), inputs) for sides in self.top.draws)
        return np.asarray(total / len(self.top.draws))

    def predict_folds(self, features: Inputs) -> FloatArray:
        """The prediction of every network of a fold, shape (n_folds, n, n_outputs)."""
        return (self.folds or self).predict_members(features)

    def predict_members(self, features: Inputs) -> FloatArray:
        """The prediction of every network that is averaged, shape (n_members, n, n_outputs)."""
        inputs = self.top_inputs(features)
        return np.stack([self.response.prediction(self.member(m).top, inputs) for m in range(self.n_members)])

    def member(self, m: int) -> "Network":
        """One of the networks that are averaged."""
        if self.n_members == 1:
            return self
        parts = (side.take(own == m) for side, own in zip(self.top.sides, self.members, strict=True))
        return self.with_top(tuple(side.scaled(self.n_members / self.n_averaged) for side in parts))

    def summed(self) -> "Network":
        """One network whose rates are the averages of the members' rates: where sampling and further training begin."""
        return self.with_top(tuple(side.scaled(1.0 / self.n_averaged) for side in self.top.sides))

    def with_top(self, sides: tuple[Side, ...]) -> "Network":
        """One network with these sides in the place of its top layer."""
        return replace(self, layers=(*self.layers[:-1], Layer(sides)), members=(), folds=None)

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
        """Numbers that the point prediction needs: all hyperplanes (without zeros) and the top layer's expert weights."""
        return self._n_coefficients + self.n_units[-1]

    @property
    def complexity(self) -> float:
        """Cost of a prediction in units of one inner product x'β: Σ_t d_t K_{t+1} / (V+1), zeros not counted."""
        return self._n_coefficients / (self.n_features + 1)

    @property
    def _n_coefficients(self) -> int:
        """Coefficients that are not zero, over all hyperplanes."""
        return sum(int(np.count_nonzero(side.hyperplanes)) for layer in self.layers for side in layer.sides)

    @cached_property
    def feature_limits(self) -> FloatArray:
        """Largest absolute value per feature whose product with every coefficient keeps far from overflow."""
        n = self.n_expanded
        largest = np.full(n, LARGEST_TERM / np.finfo(float).max)
        for t, layer in enumerate(self.layers, 1):
            if sees_features(t):
                for side in (*layer.sides, *(side for draw in layer.draws for side in draw)):
                    np.maximum(largest, np.abs(side.hyperplanes[:, 1 : n + 1]).max(axis=0, initial=0.0), out=largest)
        limits = LARGEST_TERM / largest
        if self.curve is not None and not self.curve.ramps:
            squares = np.sqrt(np.minimum(limits[self.n_features :], LARGEST_TERM))
            with np.errstate(over="ignore"):
                squares *= self.curve.scales
            limits[self.curve.columns] = np.minimum(limits[self.curve.columns], squares)
        if self.tails is not None:  # in units of their scales, and of their steeper power
            steepest = np.maximum(self.tails.powers, 2.0 - self.tails.powers)
            tamed = np.minimum(limits[self.tails.columns], LARGEST_TERM) ** (1.0 / steepest)
            with np.errstate(over="ignore"):
                limits[self.tails.columns] = tamed * self.tails.scales
        return np.asarray(limits[: self.n_features])
