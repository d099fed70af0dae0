"""What every export needs: the network as stacked layers with named inputs, and checked labels."""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.model.network import Network
from pbdn.model.response import OneSide, SeveralClasses, TwoClasses
from pbdn.model.tails import Tails
from pbdn.model.wiring import Curve, sources_of
from pbdn.numerics.arrays import FloatArray

Label = str | int | float | bool

EXPORTED = (OneSide.kind, TwoClasses.kind, SeveralClasses.kind)
SHORTEST_GAP = 4  # zeros in a row that are not written


@dataclass(frozen=True)
class PlannedLayer:
    """All experts of a layer below each other.

    Attributes
    ----------
    sources : tuple of int
        Where the inputs come from, in order: 0 the features and their squares, t the units of layer t = 1, 2, ….
    hyperplanes : array (n_units, n_inputs + 1)
        Bias first.
    expert_weights : array (n_units,)
    sides : tuple of (first, last + 1)
        The units of each side.
    """

    sources: tuple[int, ...]
    hyperplanes: FloatArray
    expert_weights: FloatArray
    sides: tuple[tuple[int, int], ...]

    @property
    def n_units(self) -> int:
        """Experts over all sides."""
        return len(self.expert_weights)


@dataclass(frozen=True)
class Plan:
    """A network ready to be written down in another language; prediction uses the recorded point.

    ``response`` is the kind of its response (`pbdn.model.response`), which says how the sides are pooled; ``side_names`` are the
    classes that the sides are for. ``curve`` says
    which squares stand after the features, and ``tails`` which features have their tails pulled in before. ``stand_ins``, if
    there are any, take the place of missing features.
    """

    layers: tuple[PlannedLayer, ...]
    n_features: int
    feature_names: tuple[str, ...]
    labels: tuple[Label, ...]
    response: str
    side_names: tuple[str, ...]
    curve: Curve | None = None
    stand_ins: tuple[float, ...] | None = None
    tails: Tails | None = None

    @property
    def n_sides(self) -> int:
        """Sides of the top layer."""
        return len(self.layers[-1].sides)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers per source: features and their squares, units of layer 1, 2, …"""
        return (self.n_features + len(self.squares), *(layer.n_units for layer in self.layers))

    @property
    def squares(self) -> list[tuple[int, float, float]]:
        """(j, c, s) of every square ((x_j - c) / s)²."""
        if self.curve is None:
            return []
        parts = (self.curve.columns, self.curve.centers, self.curve.scales)
        return list(zip(*(part.tolist() for part in parts), strict=True))

    @property
    def long_tails(self) -> list[tuple[int, float, float, float, float]]:
        """(j, c, s, b, a) of every feature with a long tail: centre, scale, power below and above (`pbdn.model.tails`)."""
        if self.tails is None:
            return []
        tails = self.tails
        parts = (tails.columns, tails.centers, tails.scales, 2.0 - tails.powers, tails.powers)
        return list(zip(*(part.tolist() for part in parts), strict=True))


def plan(
    network: Network,
    classes: Sequence[Any],
    feature_names: Sequence[str] | None = None,
    stand_ins: Sequence[float] | None = None,
) -> Plan:
    """Check labels and names against the network and stack its layers."""
    labels = tuple(_plain(label) for label in np.asarray(classes).ravel().tolist())
    if network.response.kind not in EXPORTED:
        raise InvalidInputError(
            f"A network with the response {network.response.kind!r} cannot be exported; those that can are {', '.join(EXPORTED)}."
        )
    if len(labels) != network.response.n_outputs:
        raise InvalidInputError(
            f"classes has {len(labels)} labels, but a network of {len(network.top.sides)} side(s) tells "
            f"{network.response.n_outputs} classes apart: give one label per column of predict_proba."
        )
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(network.n_features)]
    names = tuple(str(name) for name in feature_names)
    if len(names) != network.n_features or len(set(names)) != len(names):
        raise InvalidInputError(
            f"feature_names has {len(names)} names ({len(set(names))} different), but the network has "
            f"{network.n_features} features: give one name per feature, each once."
        )
    fills = None if stand_ins is None else tuple(float(value) for value in stand_ins)
    if fills is not None and (len(fills) != network.n_features or not np.isfinite(fills).all()):
        raise InvalidInputError(
            f"stand_ins has {len(fills)} numbers, but the network has {network.n_features} features: give one finite number per "
            "feature."
        )
    layers = tuple(_layer(network, t) for t in range(1, network.depth + 1))
    sides = tuple(str(side) for side in network.response.labelling.names(labels))
    return Plan(
        layers, network.n_features, names, labels, network.response.kind, sides, network.curve, fills, network.tails
    )


def _layer(network: Network, t: int) -> PlannedLayer:
    layer = network.layers[t - 1]
    ends = np.cumsum([0, *layer.n_experts]).tolist()
    return PlannedLayer(
        sources_of(t),
        np.concatenate([side.hyperplanes for side in layer.sides]),
        np.concatenate([side.expert_weights for side in layer.sides]),
        tuple(pairwise(ends)),
    )


def _plain(label: Any) -> Label:
    """Numbers, booleans and strings as they are; anything else (dates, None) as text."""
    if isinstance(label, float) and not np.isfinite(label):
        return str(label)
    return label if isinstance(label, bool | int | float | str) else str(label)


def stretches(coefficients: FloatArray) -> list[tuple[int, int]]:
    """(first, last + 1) of the parts that are left when zeros in a row are cut out: a committee has many."""
    places = np.flatnonzero(coefficients)
    cuts = np.flatnonzero(np.diff(places) > SHORTEST_GAP)
    firsts, lasts = places[np.r_[0, cuts + 1][: places.size]], places[np.r_[cuts, -1][: places.size]]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def check_name(name: str) -> str:
    """Return ``name`` if C and Python take it as the name of a function."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name) or keyword.iskeyword(name):
        raise InvalidInputError(
            f"name={name!r} cannot name a function: use letters, digits and _, starting with a letter."
        )
    return name


def number(value: float) -> str:
    """A decimal literal that reads back as the same double in C, Python and SQL."""
    text = repr(float(value))
    return text if "e" in text else text + "e0"
