"""What every export needs: the network as stacked layers with named inputs, and checked labels."""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.model.distribution import COUNTED
from pbdn.model.network import Layer, Network
from pbdn.model.response import OneSide, SeveralClasses, TwoClasses
from pbdn.model.tails import Tails
from pbdn.model.timed import OnALine
from pbdn.model.wiring import Curve, sources_of
from pbdn.numerics.arrays import FloatArray

Label = str | int | float | bool

EXPORTED = (OneSide.kind, TwoClasses.kind, SeveralClasses.kind, OnALine.kind)
N_HALVINGS = 45  # of the interval that holds a quantile
MEDIAN = 0.5  # the level where the mean of both sides' distributions may be flat
WIDEST = (
    1e-12  # probability outside of an interval that holds any quantile, where the level is another one in every row
)
LEVELS = (0.05, 0.5, 0.95)  # of the quantiles that are written where they cannot be asked for later
LARGEST_EXPONENT = 709.0  # whose exp is a number in double precision
FARTHEST = 1e30  # point of the line that stands for infinity, such as the logarithm of 0
SHORTEST_GAP = 4  # zeros in a row that are not written


@dataclass(frozen=True)
class Several:
    """Networks that predict a number together.

    Attributes
    ----------
    networks : tuple of Network
        Of amounts: whether there is one, and which. Of times: one for each cause.
    causes : tuple of str
        Names of the causes; none of amounts.
    """

    networks: tuple[Network, ...]
    causes: tuple[str, ...] = ()

    @classmethod
    def of_causes(cls, networks: Sequence[Network], causes: Sequence[str]) -> "Several":
        """Times of several causes, all on one line: that of ln t."""
        return cls(tuple(_on_line_of_logarithms(network) for network in networks), tuple(causes))

    @property
    def labels(self) -> list[list[str]]:
        """What the classes of each network are called; numbers have none."""
        return [[] for _ in self.networks] if self.causes else [["0", "above 0"], []]

    @property
    def reach(self) -> float:
        """Of causes: how far a mean counts on the line."""
        return min(network.response.reach for network in self.networks if isinstance(network.response, OnALine))


def _on_line_of_logarithms(network: Network) -> Network:
    """The same network with u = ln t; the second side models -u."""
    line = network.response
    assert isinstance(line, OnALine)
    assert line.log
    sides = []
    for side, sign in zip(network.top.sides, (1.0, -1.0), strict=True):
        assert side.time_coefs is not None
        coefs, planes = side.time_coefs / line.scale, side.hyperplanes.copy()
        planes[:, 0] -= sign * coefs * line.center
        sides.append(replace(side, hyperplanes=planes, time_coefs=coefs))
    response = OnALine(log=True, reach=line.center + line.scale * line.reach)
    return replace(network, layers=(*network.layers[:-1], Layer(tuple(sides))), response=response)


@dataclass(frozen=True)
class PlannedLayer:
    """All experts of a layer below each other.

    Attributes
    ----------
    sources : tuple of int
        Where the inputs come from, in order: 0 the features and their squares or ramps, t the units of layer t = 1, 2, ….
    hyperplanes : array (n_units, n_inputs + 1)
        Bias first.
    expert_weights : array (n_units,)
    sides : tuple of (first, last + 1)
        The units of each side.
    answers : tuple of (first, last + 1)
        In a top layer of classes, the units of each network that is averaged, side after side; elsewhere those of each side.
    time_coefs : array (n_units,) or None
        τ_k of a response on a line.
    """

    sources: tuple[int, ...]
    hyperplanes: FloatArray
    expert_weights: FloatArray
    sides: tuple[tuple[int, int], ...]
    answers: tuple[tuple[int, int], ...]
    time_coefs: FloatArray | None = None

    @property
    def n_units(self) -> int:
        """Experts over all sides."""
        return len(self.expert_weights)

    @property
    def n_averaged(self) -> int:
        """Answers that are averaged for each side."""
        return len(self.answers) // len(self.sides)


@dataclass(frozen=True)
class Plan:
    """A network ready to be written down in another language; prediction uses the recorded point.

    ``response`` is the kind of its response (`pbdn.model.response`), which says how the sides are pooled; ``side_names`` are the
    classes that the sides are for. ``curve`` says
    which squares or ramps stand after the features, and ``tails`` which features have their tails pulled in before. ``stand_ins``, if
    there are any, take the place of missing features.
    ``line`` is a response on a line: of numbers, which have no labels, or of grades, which have. With ``counts``, the numbers are
    those of which a count y says that they lie in (y, y + 1].
    """

    layers: tuple[PlannedLayer, ...]
    n_features: int
    feature_names: tuple[str, ...]
    labels: tuple[Label, ...]
    response: str
    side_names: tuple[str, ...]
    curve: Curve | None = None
    stand_ins: tuple[float, ...] | None = None
    line: OnALine | None = None
    counts: bool = False
    tails: Tails | None = None

    @property
    def gives_numbers(self) -> bool:
        """Whether a distribution of numbers is predicted, not labels."""
        return self.line is not None and not self.labels

    @property
    def counted_points(self) -> list[float]:
        """Of counts: 1, 2, … as points of the line, as many as a mean adds up, and where its integral begins."""
        assert self.line is not None
        points = self.line.to_line(np.append(np.arange(1.0, COUNTED + 1.0), COUNTED + 0.5))
        return [float(point) for point in points]

    @property
    def time_coefs(self) -> FloatArray:
        """τ_k of the units of the top layer: those of the second side, which models -u, with a minus."""
        top = self.layers[-1]
        assert top.time_coefs is not None
        return np.where(np.arange(top.n_units) < top.sides[0][1], top.time_coefs, -top.time_coefs)

    @property
    def n_sides(self) -> int:
        """Sides of the top layer."""
        return len(self.layers[-1].sides)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers per source: features and their squares or ramps, units of layer 1, 2, …"""
        return (self.n_features + len(self.bent), *(layer.n_units for layer in self.layers))

    @property
    def bent(self) -> list[tuple[int, float, float]]:
        """(j, c, s) of every square ((x_j - c) / s)² or ramp from c to c + s."""
        if self.curve is None:
            return []
        parts = (self.curve.columns, self.curve.centers, self.curve.scales)
        return list(zip(*(part.tolist() for part in parts), strict=True))

    @property
    def has_ramps(self) -> bool:
        """Whether ramps stand after the features."""
        return self.curve is not None and self.curve.ramps

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
    counts: bool = False,
) -> Plan:
    """Check labels and names against the network and stack its layers."""
    labels = tuple(_plain(label) for label in np.asarray(classes).ravel().tolist())
    if network.response.kind not in EXPORTED:
        raise InvalidInputError(
            f"A network with the response {network.response.kind!r} cannot be exported; those that can are {', '.join(EXPORTED)}."
        )
    line = network.response if isinstance(network.response, OnALine) else None
    if line is not None:
        _check_line(network, line, len(labels))
    elif len(labels) != network.response.n_outputs:
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
    sides = tuple(str(side) for side in network.response.labelling.names(labels if line is None else line.labels))
    return Plan(
        layers,
        network.n_features,
        names,
        labels,
        network.response.kind,
        sides,
        network.curve,
        fills,
        line,
        counts,
        network.tails,
    )


def _check_line(network: Network, line: OnALine, n_labels: int) -> None:
    """Refuse labels that are not those of the grades, and distributions without an end."""
    if n_labels and n_labels != len(line.cuts) + 1:
        raise InvalidInputError(
            f"classes has {n_labels} labels, but the network has {len(line.cuts) + 1} grade(s): give one label per grade, or "
            "none for numbers."
        )
    if not all(network.top.n_experts):
        raise InvalidInputError("A side of the network has no experts, so that its values have no end; fit again.")


def inverse_softplus(value: Any) -> Any:
    """z with ln(1 + e^z) = value > 0."""
    return value + np.log(-np.expm1(-value))


def bounds_of_quantile(planned: Plan, level: float) -> tuple[FloatArray, FloatArray]:
    """a_k and b_k of the units of the top layer, between which the quantile lies on the line.

    A rate H(u) = Σ_k r_k s(ψ_k + τ_k u) is at least each of its terms, and at most R = Σ_k r_k times the largest s. So where it
    is h, u lies between the smallest (a - ψ_k) / τ_k and the smallest (b_k - ψ_k) / τ_k, where s(a) = h / R and s(b_k) = h / r_k.
    The first side has h = -ln(1 - q) at its own quantile, the second one, on -u, h = -ln q. The quantile of the average lies
    between those of the sides.
    """
    top = planned.layers[-1]
    low, high = np.empty(top.n_units), np.empty(top.n_units)
    for (first, last), rate in zip(top.sides, (-np.log1p(-level), -np.log(level)), strict=True):
        weights = top.expert_weights[first:last]
        low[first:last] = inverse_softplus(rate / weights.sum())
        high[first:last] = inverse_softplus(rate / weights)
    return low, high


def asked(planned: Plan, quantiles: Sequence[float], above: Sequence[float]) -> tuple[list[float], list[float]]:
    """What is asked of a distribution of numbers: levels of quantiles, and values as points of the line."""
    if planned.line is None:
        return [], []
    levels = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise InvalidInputError(f"quantiles={quantiles!r} must lie strictly between 0 and 1, e.g. (0.05, 0.5, 0.95).")
    values = np.atleast_1d(np.asarray(above, dtype=float))
    points = planned.line.to_line(np.floor(values) + 1.0 if planned.counts else values)
    return levels.tolist(), np.clip(points, -FARTHEST, FARTHEST).tolist()


def _layer(network: Network, t: int) -> PlannedLayer:
    layer = network.layers[t - 1]
    averaged = network.n_averaged if t == network.depth else 1
    counts = [np.bincount(own, minlength=averaged) for own in network.owners] if averaged > 1 else [layer.n_experts]
    return PlannedLayer(
        sources_of(t),
        np.concatenate([side.hyperplanes for side in layer.sides]),
        np.concatenate([side.expert_weights for side in layer.sides]),
        _parts(layer.n_experts),
        _parts(np.concatenate(counts)),
        np.concatenate([side.time_coefs for side in layer.sides if side.time_coefs is not None])
        if network.response.timed
        else None,
    )


def _parts(counts: Any) -> tuple[tuple[int, int], ...]:
    """(first, last + 1) of parts of these lengths, one after the other."""
    return tuple(pairwise(np.cumsum([0, *counts]).tolist()))


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
