"""Rows as the networks of a fit see them while they are trained.

*Views.* Long tails are pulled in, and a curved first layer sees squares or ramps beside the features. One view serves all networks.

*Span.* With a penalty on the squares of coefficients, the best hyperplanes lie in the span of the rows: anything beside it costs
penalty and changes no row. Where rows are fewer than features, and these are many, a network is trained in that space, so that time
is linear in features. Coordinates there are as many as rows. Distances, and so penalties, are the same.

*Stretch.* An input that matters is stretched: its numbers are larger and its coefficients smaller, so that it is penalised less. One
that does not matter is shrunk, and penalised more. Call g_j the root mean square of the coefficients of input j in the first layer,
and ḡ the mean of all g_j. Input j is multiplied by s_j, where s_j² is in proportion to (g_j / ḡ + ε)^ρ. The penalty on the squares of
coefficients is then in proportion to Σ_j g_j² / s_j². The stretch is found anew before every training. With ρ = 1 the penalty pulls at
coefficients as Σ_j g_j does, which is that of the group lasso, but for ε. With ρ = 2 it pulls as Σ_j ln g_j does, and leaves still
less of weak inputs. With ρ = 0 all inputs are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import SeedSequence

from pbdn.config import is_wide
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.holdout import different_rows, losses_on
from pbdn.model.network import Layer, Network, with_other_inputs
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling, scaling_by_most, standard_scaling
from pbdn.model.tails import Tails, tails_of
from pbdn.model.wiring import Curve, curve_of, joining, ramps_of, sees_features
from pbdn.numerics.arrays import FloatArray, spread_rows
from pbdn.sgd.joint_training import Noise, mostly_copies, neighbour_distance, neighbour_noise
from pbdn.sgd.trainer import POLISH

Layers = tuple[Layer, ...]

MOST_STRETCHED = 500  # features, where rows are fewer
NEGLIGIBLE = 1e-10  # squared length along an axis of the span, relative to the longest, that is rounding
LEAST_RELEVANCE = 0.05  # ε, so that an input that no hyperplane uses may come back
USUAL_RELEVANCE, HIGH_RELEVANCE = 1.0, 2.0  # ρ of the group lasso, and the largest that is tried
FEWEST_RAMPED, FEWEST_ALONE = 100, 2000  # rows; who asks for a network alone wants it small
ROWS_OF_RAMP = 10  # for every ramp of a feature
MOST_RAMPS, FEW_RAMPS = 32, 16  # of a feature at the most, and where those of all features would be too many
MOST_BENT, ROWS_OF_ANY_RAMP = 300, 10  # ramps of all features, and rows for each of them
CLEAR_EFFECT = 4.0  # standard errors of chance, above which a feature out of many has ramps
MOST_BENT_NUMBERS = 10_000_000  # rows x ramps: they are dense, and copied
QUANTILE_ROWS = 20_000  # that say where ramps begin


@dataclass(frozen=True)
class RowSpan:
    """An orthonormal basis of the span of rows X, held as Xᵀ W.

    Attributes
    ----------
    inputs : dense array or CSR matrix (n_rows, n_features)
        X.
    coordinates : array (n_rows, n_axes)
        X in the basis.
    mixture : array (n_rows, n_axes)
        W.
    """

    inputs: Any
    coordinates: FloatArray
    mixture: FloatArray

    @classmethod
    def of(cls, inputs: Any) -> "RowSpan":
        """The span of these rows; its axes are those of falling variance about the origin."""
        products = inputs @ inputs.T
        products = products.toarray() if sp.issparse(products) else products
        values, vectors = np.linalg.eigh(products)
        keep = np.flatnonzero(values > NEGLIGIBLE * max(values[-1], 1e-300))[::-1]
        length, vectors = np.sqrt(values[keep]), vectors[:, keep]
        if not keep.size:  # all rows are the origin
            return cls(inputs, np.zeros((inputs.shape[0], 1)), np.zeros((inputs.shape[0], 1)))
        sign = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(keep.size)])
        vectors = vectors * sign
        return cls(inputs, np.ascontiguousarray(vectors * length), vectors / length)

    def noise(self, weights: FloatArray | None, rng: np.random.Generator) -> FloatArray:
        """Standard deviation along every axis of the noise of `pbdn.sgd.joint_training.neighbour_noise` on the features."""
        some = np.arange(self.inputs.shape[0]) if weights is None else np.flatnonzero(weights > 0)
        inputs = self.inputs[some]
        mean = np.asarray(inputs.mean(axis=0)).ravel()
        squares = inputs.multiply(inputs) if sp.issparse(inputs) else inputs * inputs
        variance = np.maximum(np.asarray(squares.mean(axis=0)).ravel() - mean * mean, 0.0)
        total = float(variance.sum())
        if len(some) < 2 or total == 0.0:
            return np.zeros(self.coordinates.shape[1])
        scaled = self.inputs @ sp.diags_array(variance) if sp.issparse(self.inputs) else self.inputs * variance
        products = scaled @ self.inputs.T
        products = products.toarray() if sp.issparse(products) else products
        along = np.einsum("ij,ij->j", self.mixture, products @ self.mixture)
        distance = neighbour_distance(self.coordinates[some], rng)
        return np.asarray(distance * np.sqrt(np.maximum(along, 0.0) / (2.0 * total)))

    def unfold(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """Layers on features that act on these rows as the given ones do on their coordinates."""

        def unfold(planes: FloatArray) -> FloatArray:
            return np.column_stack([planes[:, 0], (self.inputs.T @ (self.mixture @ planes[:, 1:].T)).T])

        return with_other_inputs(layers, self.coordinates.shape[1], unfold)


@dataclass(frozen=True)
class View:
    """All rows as the first layer sees them: long tails pulled in; flat, or with scaled squares or ramps beside the features.

    Attributes
    ----------
    rows : LabelledRows
    n_features : int
    curve : Curve or None
    bent : Scaling or None
        Of the squares or ramps.
    noise : Noise
        Of full size, for all rows.
    span : RowSpan or None
        Where rows are fewer than features: what turns the coordinates that the first layer sees into features.
    tails : Tails or None
    tamed : Scaling or None
        Of the features, once their tails are pulled in.
    copies : bool
        Whether rows look like few different ones, and say different things.
    plain : bool
        Whether every side has one expert in the first layer. It says no with a power of the probability of a
        logistic regression.
    """

    rows: LabelledRows
    n_features: int
    curve: Curve | None
    bent: Scaling | None
    noise: Noise
    span: RowSpan | None = None
    tails: Tails | None = None
    tamed: Scaling | None = None
    copies: bool = False
    plain: bool = False

    @property
    def n_ramps(self) -> int:
        """How many ramps stand beside the features."""
        return self.curve.n_bent if self.curve is not None and self.curve.ramps else 0

    @property
    def shape(self) -> str:
        """In a word."""
        return "plain" if self.plain else "flat" if self.curve is None else "ramps" if self.n_ramps else "curved"

    @property
    def has_relevance(self) -> bool:
        """Whether some inputs may matter more than others: coordinates of a span are no features."""
        return self.span is None and self.rows.n_features > 1

    def network(self, layers: Layers, response: Response) -> Network:
        """The network of these layers on scaled features."""
        layers = layers if self.span is None else self.span.unfold(layers)
        network = Network(layers, self.n_features, response, self.curve)
        network = network if self.bent is None else self.bent.fold_bent(network)
        network = network if self.tamed is None else replace(self.tamed.fold(network), tails=self.tails)
        return without_unused_ramps(network) if self.n_ramps else network

    def with_curve(self, curve: Curve) -> "View":
        """The same rows with other squares or ramps."""
        n = self.n_features
        rows = self.rows.with_inputs(self.rows.inputs[:, :n])
        return _curved(replace(self, rows=rows, noise=Noise(self.noise.scale[:n])), curve)

    def on_joined_ramps(self, layers: Layers, other: "View", response: Response) -> Layers:
        """Layers that see the ramps of another view, which are joined from those of this one, and do nearly the same."""
        assert self.curve is not None
        assert self.bent is not None
        assert other.bent is not None
        matrix = joining(self.curve, other.curve, self.n_features)
        own = self.bent.fold_bent(Network(layers, self.n_features, response, self.curve))
        joined = with_other_inputs(own.layers, own.n_expanded, lambda planes: planes @ matrix)
        return other.bent.inverse.fold_bent(replace(own, layers=joined, curve=other.curve)).layers

    def losses(self, layers: Layers, some: Any, response: Response) -> FloatArray:
        """Minus twice the weighted log-likelihood of each of some rows."""
        return losses_on(self.rows.take(some), response)(layers)


def in_span(n_rows: int, n_features: int) -> bool:
    """Whether networks are trained in the span of the rows, where there are no features."""
    return is_wide(n_rows, n_features) and n_features > MOST_STRETCHED


def make_views(
    rows: LabelledRows, curved: bool | None, seed: int, signs: Sequence[int] | None = None, *, alone: bool = False
) -> list[View]:
    """The flat view, the one with squares and, of many rows, the one with ramps.

    Only the one with squares, or only the flat one, if ``curved`` says so; the flat one if rows are fewer than features. Features with
    a sign have no squares and no ramps. ``alone`` is for one network that is not averaged with others.
    """
    rng = np.random.default_rng(SeedSequence(seed, spawn_key=(POLISH,)))
    wide = not curved and is_wide(rows.n_rows, rows.n_features)
    if not curved and signs is None and in_span(rows.n_rows, rows.n_features):
        span = RowSpan.of(rows.inputs)
        inside = rows.with_inputs(span.coordinates)
        return [View(inside, rows.n_features, None, None, Noise(span.noise(rows.weights, rng)), span)]
    if hasattr(rows.inputs, "toarray"):
        rows = rows.with_inputs(rows.inputs.toarray())
    rows = rows.with_inputs(np.ascontiguousarray(rows.inputs, dtype=np.float64))
    some = slice(None) if rows.weights is None else rows.weights > 0
    tails = tails_of(rows.inputs[some], None if rows.weights is None else rows.weights[some])
    tamed = None if tails is None else scaling_by_most(tails.apply(rows.inputs), rows.weights)
    if tails is not None and tamed is not None:
        rows = rows.with_inputs(np.ascontiguousarray(tamed.apply(tails.apply(rows.inputs))))
    scale = neighbour_noise(rows.inputs[some], rng)
    copies = mostly_copies(rows.inputs[some]) and different_rows(rows) is None
    flat = View(rows, rows.n_features, None, None, Noise(scale), None, tails, tamed, copies)
    if curved is False or wide:
        return [flat]
    known = rows if rows.weights is None else rows.take(some)
    ramped = not curved and known.n_rows >= (FEWEST_ALONE if alone else FEWEST_RAMPED)
    found = [curve_of(rows.inputs), _few_ramps(known) if ramped else None]
    signed = np.flatnonzero([] if signs is None else signs)
    curves = [curve.without(signed) for curve in found if curve is not None]
    bent = [_curved(flat, curve) for curve in curves if curve is not None]
    return bent if curved and bent else [flat, *bent]


def _few_ramps(rows: LabelledRows) -> Curve | None:
    """Ramps of all features, more of them the more rows there are; of many features those that tell most on their own.

    None where there would be hardly any.
    """
    some = rows.inputs[spread_rows(rows.n_rows, QUANTILE_ROWS)]
    limit = min(MOST_BENT, rows.n_rows // ROWS_OF_ANY_RAMP, MOST_BENT_NUMBERS // rows.n_rows)
    most = rows.n_rows // ROWS_OF_RAMP
    curve = ramps_of(some, min(MOST_RAMPS, most))
    if curve is not None and curve.n_bent > limit:
        curve = ramps_of(some, min(FEW_RAMPS, most))
    if curve is None or curve.n_bent <= limit:
        return curve
    telling = marginal_effects(rows, curve)
    order = np.argsort(-telling)
    together = np.cumsum(np.bincount(curve.columns, minlength=rows.n_features)[order])
    return curve.take(np.isin(curve.columns, order[(together <= limit) & (telling[order] > CLEAR_EFFECT)]))


def marginal_effects(rows: LabelledRows, curve: Curve) -> FloatArray:
    """Per feature: how far what rows say differs between the bins that its ramps cut, in standard errors of chance.

    Of classes the largest such number, of values on a line that of the middle of their bounds.
    """
    if rows.targets.ndim == 1:
        said = (rows.targets[:, None] == np.unique(rows.targets)).astype(np.float64)
    else:
        low, high = rows.targets[:, 0], rows.targets[:, 1]
        said = np.where(np.isfinite(low), np.where(np.isfinite(high), 0.5 * (low + high), low), high)[:, None]
    gaps = (said - said.mean(axis=0)) / np.maximum(said.std(axis=0), 1e-300)
    effects = np.full(rows.n_features, -np.inf)
    for j in np.unique(curve.columns):
        cuts = curve.centers[curve.columns == j][1:]
        bins = np.searchsorted(cuts, rows.inputs[:, j])
        sums = np.stack([np.bincount(bins, gap, cuts.size + 1) for gap in gaps.T])
        spread = (sums**2 / np.maximum(np.bincount(bins, minlength=cuts.size + 1), 1)).sum(axis=1)
        effects[j] = (spread.max() - cuts.size) / np.sqrt(2.0 * cuts.size)
    return effects


def _curved(flat: View, curve: Curve) -> View:
    """The same rows with squares or ramps beside the features."""
    inputs, scale = flat.rows.inputs, flat.noise.scale
    bent = curve.bend(inputs[:, curve.columns])
    scaling = standard_scaling(bent, flat.rows.weights)
    if curve.ramps:
        ramps = np.stack([curve.centers, 1.0 / curve.scales, -scaling.center / scaling.scale, 1.0 / scaling.scale])
        noise = Noise(scale, None, curve.columns, ramps)
    else:
        noise = Noise(scale, 2.0 * inputs[:, curve.columns] / scaling.scale, curve.columns)
    inputs = np.ascontiguousarray(np.concatenate([inputs, scaling.apply(bent)], axis=1))
    return replace(flat, rows=flat.rows.with_inputs(inputs), curve=curve, bent=scaling, noise=noise)


def without_unused_ramps(network: Network) -> Network:
    """The same network without ramps that none of its hyperplanes sees."""
    assert network.curve is not None
    n, n_inputs = network.n_features, network.n_expanded
    seeing = [layer for t, layer in enumerate(network.layers, 1) if sees_features(t)]
    of_inputs = [side.hyperplanes[:, 1 : n_inputs + 1] for layer in seeing for side in layer.sides]
    used = np.any(np.concatenate(of_inputs) != 0.0, axis=0)
    kept = np.append(np.ones(n + 1, np.bool_), used[n:])
    fewer = with_other_inputs(network.layers, n_inputs, lambda planes: planes[:, kept])
    return replace(network, layers=fewer, curve=network.curve.take(used[n:]))


def widened(layers: Layers, n_inputs: int, n_more: int) -> Layers:
    """Layers on ``n_more`` inputs beside the ``n_inputs`` that they see; zeros stand for those that they do not."""
    return with_other_inputs(layers, n_inputs, lambda planes: np.pad(planes, ((0, 0), (0, n_more))))


def relevance_stretch(layers: Layers, n_inputs: int, power: float = USUAL_RELEVANCE) -> FloatArray:
    """s_j, by which every input is multiplied while these layers are trained; ``power`` is ρ.

    Experts count by their weight. One number for all inputs leaves the penalty of the layers as it is.
    """
    squares = np.zeros(n_inputs)
    for side in layers[0].sides:
        squares += side.expert_weights @ side.hyperplanes[:, 1:] ** 2 / side.expert_weights.sum()
    sizes = np.sqrt(squares)
    if not sizes.any():
        return np.ones(n_inputs)
    relevance = (sizes / sizes.mean() + LEAST_RELEVANCE) ** power
    return np.asarray(np.sqrt(relevance * (squares / relevance).sum() / squares.sum()))


def stretched(layers: Layers, stretch: FloatArray) -> Layers:
    """Layers that act on inputs multiplied by ``stretch`` as the given ones do on the inputs."""
    return with_other_inputs(layers, stretch.size, lambda planes: planes / np.append(1.0, stretch))
