"""Hyperplanes on patches of pictures (experimental): an event on any patch makes the picture positive.

Expert k reads every patch x_ip of picture i, and the side's rate is λ_i = Σ_k r_k Σ_p e_ip s(x_ip'β_k), where e_ip counts equal
patches of the picture. So P(y_i = 1) = 1 - e^{-λ_i} is a noisy-or over experts and positions.

*Gibbs.* On log-time the patches of a picture have processes of their own, and y_i = 1 says that the first point of them all lies
before 0. Given the globals, that point is drawn: its patch p_i and its log-time u_i. Given those, patch p_i saw an event exactly at
u_i and the other patches of the picture none before it, so an ordinary sweep of `pbdn.gibbs` over rows that are patches does the
rest. All tables of a picture, spread over its patches, would be exact too; the first point needs fewer latent variables.

*MAP.* The objective of `pbdn.sgd.objective` with this rate, by Adam on batches of pictures.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import expit

from pbdn.gibbs.event_times import FAINT, LOG_WEIGHT, LOW_SOFT, MASS, PSI, SOFT, WEIGHT, choose_in_logs, first_event
from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.rows import BLOCK_ROWS, EXACT, NOTHING, Rows, make_rows
from pbdn.gibbs.state import Extras, GlobalState
from pbdn.model.likelihood import log_likelihood, log_probability, signed_distances, softplus
from pbdn.model.network import Side
from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray
from pbdn.numerics.compiled import kernel
from pbdn.numerics.softplus import softplus as softplus_of
from pbdn.sgd.map_settings import MapSettings
from pbdn.variates.random_stream import ROW_RESPONSE, SweepStreams, exponential, stream_at

MOMENTS = (0.9, 0.999)  # of Adam
START_SPREAD = 0.5  # standard deviation of x'β at the start
N_PRUNINGS = 4  # in a fit by MAP
MOST_PATCHES = 1 << 16  # looked at in one go


class Patches(NamedTuple):
    """Distinct patches of pictures, picture by picture.

    Attributes
    ----------
    inputs : (n_patches, d)
        Without the constant.
    exposure : (n_patches,)
        How many positions of the picture show this patch.
    starts : (n_pictures + 1,)
        Where pictures begin.
    """

    inputs: FloatArray
    exposure: FloatArray
    starts: IntArray

    @property
    def n_pictures(self) -> int:
        """Number of pictures."""
        return len(self.starts) - 1

    def take(self, pictures: IntArray) -> "Patches":
        """Some pictures, in this order."""
        sizes = np.diff(self.starts)[pictures]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        index = np.arange(starts[-1]) + np.repeat(self.starts[pictures] - starts[:-1], sizes)
        return Patches(self.inputs[index], self.exposure[index], starts)

    def sum(self, values: FloatArray) -> FloatArray:
        """Σ_p e_ip of values of the patches, shape (n_pictures, …)."""
        return np.add.reduceat(self.exposure[:, None] * values, self.starts[:-1], axis=0)

    def softplus_sums(self, hyperplanes: FloatArray) -> FloatArray:
        """Σ_p e_ip s(x_ip'β_k), shape (n_pictures, n_experts)."""
        step = max(1, MOST_PATCHES * self.n_pictures // max(len(self.inputs), 1))
        parts = []
        for first in range(0, self.n_pictures, step):
            some = self.take(np.arange(first, min(first + step, self.n_pictures)))
            parts.append(some.sum(softplus(signed_distances(hyperplanes, some.inputs))))
        return np.concatenate(parts)


class PatchLayer(NamedTuple):
    """Sides of patch experts, as `pbdn.model.response` asks for a layer."""

    sides: tuple[Side, ...]

    def side_rate(self, patches: Any) -> FloatArray:
        """λ of every side, shape (n_pictures, n_sides)."""
        return np.column_stack([patches.softplus_sums(side.hyperplanes) @ side.expert_weights for side in self.sides])


def windows(images: FloatArray, patch: int, stride: int) -> FloatArray:
    """Patches of pictures (n, height, width, channels) as they are, (n, n_positions, patch, patch, channels)."""
    found = sliding_window_view(images, (patch, patch), axis=(1, 2))[:, ::stride, ::stride]
    return found.transpose(0, 1, 2, 4, 5, 3).reshape(len(images), -1, patch, patch, images.shape[3])


def places(*edges: IntArray) -> FloatArray:
    """Where patches with these upper and left edges lie, from -1 to 1 along each edge of the picture, and the squares of that."""
    scaled = [
        2.0 * one / max(one[-1], 1) - (1.0 if len(one) > 1 else 0.0) for one in edges
    ]  # 0 where there is one alone
    place = np.stack(np.meshgrid(*scaled, indexing="ij")).reshape(len(edges), -1).T
    return np.column_stack([place, place**2])


def distinct_patches(all_patches: FloatArray) -> Patches:
    """Patches (n_pictures, n_positions, d) with equal ones of a picture joined."""
    n, n_positions, d = all_patches.shape
    flat = np.ascontiguousarray(all_patches.reshape(-1, d)) + 0.0  # -0.0 becomes 0.0
    picture = np.repeat(np.arange(n, dtype=float), n_positions)
    signature = np.ascontiguousarray(np.column_stack([picture, flat]))
    as_bytes = signature.view(np.dtype((np.void, signature.dtype.itemsize * (d + 1)))).ravel()
    _, first, counts = np.unique(as_bytes, return_index=True, return_counts=True)
    order = np.argsort(first)
    first, counts = first[order], counts[order]
    starts = np.searchsorted(first, n_positions * np.arange(n + 1))
    return Patches(np.ascontiguousarray(flat[first]), counts.astype(float), starts.astype(np.int64))


# Gibbs sampling


@kernel
def draw_first_points(
    distance: Any,
    log_weights: Any,
    exposure: Any,
    starts: Any,
    target: Any,
    streams: SweepStreams,
    patch: Any,
    log_time: Any,
) -> None:
    """(p_i, u_i): patch and log-time of the first point of each positive picture, given that it lies before 0.

    ``distance`` are x_ip'β_k. Others get patch -1 and log-time 0. Patches and experts together are laid end to end, as the
    experts of one row are in `pbdn.gibbs.event_times.first_event`.
    """
    n_experts = log_weights.shape[0]
    stream = stream_at(streams, 0, ROW_RESPONSE)
    for i in range(target.shape[0]):
        if i % BLOCK_ROWS == 0:
            stream = stream_at(streams, i // BLOCK_ROWS, ROW_RESPONSE)
        patch[i], log_time[i] = -1, 0.0
        if not target[i]:
            continue
        row = np.empty((6, (starts[i + 1] - starts[i]) * n_experts))
        whole, at = 0.0, 0
        for p in range(starts[i], starts[i + 1]):
            log_exposure = np.log(exposure[p])
            for k in range(n_experts):
                psi = distance[p, k]
                soft = softplus_of(psi)
                row[PSI, at], row[SOFT, at], row[LOW_SOFT, at] = psi, soft, 0.0
                row[LOG_WEIGHT, at] = log_weights[k] + log_exposure
                row[WEIGHT, at] = np.exp(row[LOG_WEIGHT, at])
                row[MASS, at] = row[WEIGHT, at] * soft
                whole += row[MASS, at]
                at += 1
        if whole < FAINT:
            at = choose_in_logs(stream, row[LOG_WEIGHT], row[PSI])
            log_time[i] = -exponential(stream)  # s(η) = e^η there
        else:
            at, eta = first_event(stream, row, 1.0, whole)
            log_time[i] = eta - row[PSI, at]
        patch[i] = starts[i] + at // n_experts


@dataclass(frozen=True)
class AnyPatch:
    """What a chain of `pbdn.gibbs.chain` asks of the response: an event on any patch of a picture, or on none.

    Attributes
    ----------
    starts : (n_pictures + 1,)
        Where pictures begin among the rows, which are patches.
    target : (n_pictures,)
    """

    starts: IntArray
    target: BoolArray

    def initial(self, rows: Rows) -> Extras:
        """There are none."""
        return {}

    def log_likelihood(self, rows: Rows, planes: FloatArray, weights: FloatArray, extras: Extras) -> float:
        """Σ_i ln P(y_i)."""
        arrays = rows.arrays
        own = arrays.exposure * (softplus(arrays.dense @ planes.T) @ weights)
        return float(log_likelihood(np.add.reduceat(own, self.starts[:-1]), self.target).sum())

    def draw(
        self, rows: Rows, state: GlobalState, extras: Extras, priors: PriorValues, streams: SweepStreams
    ) -> tuple[Rows, GlobalState, Extras]:
        """Rows for a sweep: the first point of every positive picture, and nothing before it on its other patches."""
        arrays, n = rows.arrays, len(self.target)
        patch, log_time = np.empty(n, np.int64), np.empty(n)
        distance = arrays.dense @ state.hyperplanes.T
        draw_first_points(
            distance, state.log_weights, arrays.exposure, self.starts, self.target, streams, patch, log_time
        )
        kind, copies = np.full(rows.n_rows, NOTHING, np.int64), np.zeros(rows.n_rows)
        kind[patch[self.target]], copies[patch[self.target]] = EXACT, 1.0
        offset = np.repeat(log_time, np.diff(self.starts))
        return Rows(arrays._replace(kind=kind, copies=copies, offset=offset), rows.n_inputs), state, extras


def patch_rows(patches: Patches) -> Rows:
    """Patches as rows of a chain; `AnyPatch` says in every sweep what happened on them."""
    nothing = np.zeros(len(patches.inputs), bool)
    return make_rows(patches.inputs, nothing, exposure=patches.exposure, merge=False)


# MAP


def fit_map(
    patches: Patches, targets: NDArray[np.bool_], settings: MapSettings, rng: np.random.Generator
) -> tuple[Side, ...]:
    """The sides that minimise the objective, without the experts that are likely inactive.

    Parameters
    ----------
    patches : Patches
    targets : bool array (n_pictures, n_sides)
    settings : MapSettings
        Of these count: ``n_minibatches``, ``batch_size``, ``learning_rate``, ``max_experts``, ``prune_above`` and the prior. Steps
        fall to zero along half a cosine.
    rng : Generator
    """
    n_sides, width, d = targets.shape[1], settings.max_experts, patches.inputs.shape[1]
    n, n_positions = patches.n_pictures, patches.exposure.sum() / patches.n_pictures
    scale = START_SPREAD / np.sqrt(np.maximum((patches.inputs**2).sum(axis=1).mean(), 1e-12))
    parameters = np.empty((n_sides * width, d + 2))  # ln r, bias, coefficients
    parameters[:, 0] = -np.log(width * n_positions)
    parameters[:, 1] = START_SPREAD * rng.standard_normal(len(parameters))
    parameters[:, 2:] = scale * rng.standard_normal((len(parameters), d))
    side = np.repeat(np.arange(n_sides), width)
    moments = np.zeros((2, *parameters.shape))
    order: IntArray = np.empty(0, np.int64)
    batch_size = min(settings.batch_size, n)
    for step in range(settings.n_minibatches):
        if order.size < batch_size:
            order = np.concatenate([order, rng.permutation(n)])
        pictures, order = order[:batch_size], order[batch_size:]
        gradient = _gradient(patches.take(pictures), targets[pictures], parameters, side)
        gradient += _prior_gradient(parameters, side, settings) / n
        fall = 0.5 * (1.0 + np.cos(np.pi * step / settings.n_minibatches))
        for moment, decay, value in zip(moments, MOMENTS, (gradient, gradient**2), strict=True):
            moment *= decay
            moment += (1.0 - decay) * value
        mean, square = (moment / (1.0 - decay ** (step + 1)) for moment, decay in zip(moments, MOMENTS, strict=True))
        parameters -= settings.rate_at(1) * fall * mean / (np.sqrt(square) + 1e-8)
        if (step + 1) % -(-settings.n_minibatches // N_PRUNINGS) == 0 or step + 1 == settings.n_minibatches:
            keep = _needed(patches, targets, parameters, side, np.log(settings.prune_above))
            parameters, side, moments = parameters[keep], side[keep], moments[:, keep]
    return tuple(Side(parameters[side == s, 1:], np.exp(parameters[side == s, 0])) for s in range(n_sides))


def objective(
    patches: Patches, targets: NDArray[np.bool_], parameters: FloatArray, side: IntArray, settings: MapSettings
) -> float:
    """What `fit_map` minimises per picture: minus the log-likelihood and the log-prior over the number of pictures."""
    rates = patches.softplus_sums(parameters[:, 1:]) * np.exp(parameters[:, 0])
    rate = np.column_stack([rates[:, side == s].sum(1) for s in range(targets.shape[1])])
    slope = settings.mass / np.bincount(side)[side] - (1.0 if settings.prior_on == "weight" else 0.0)
    prior = settings.inv_scale * np.exp(parameters[:, 0]) - slope * parameters[:, 0]
    coefs = settings.coef_power * np.log1p(parameters[:, 1:] ** 2 / (2.0 * settings.coef_rate))
    return float((prior.sum() + coefs.sum() - log_likelihood(rate, targets).sum()) / patches.n_pictures)


def _gradient(patches: Patches, targets: NDArray[np.bool_], parameters: FloatArray, side: IntArray) -> FloatArray:
    """Of the mean over pictures of -ln P(y_i)."""
    distance = signed_distances(parameters[:, 1:], patches.inputs)
    rates = patches.sum(softplus(distance)) * np.exp(parameters[:, 0])
    rate = np.column_stack([rates[:, side == s].sum(1) for s in range(targets.shape[1])])
    slope = np.where(targets, -1.0 / np.expm1(np.clip(rate, 1e-12, 700.0)), 1.0)[:, side] / patches.n_pictures
    own = np.repeat(slope * np.exp(parameters[:, 0]), np.diff(patches.starts), axis=0)
    own *= expit(distance) * patches.exposure[:, None]
    return np.column_stack([(slope * rates).sum(0), own.sum(0), own.T @ patches.inputs])


def _prior_gradient(parameters: FloatArray, side: IntArray, settings: MapSettings) -> FloatArray:
    """Of minus the log-prior."""
    slope = settings.mass / np.bincount(side)[side] - (1.0 if settings.prior_on == "weight" else 0.0)
    planes = parameters[:, 1:]
    coefs = settings.coef_power * 2.0 * planes / (2.0 * settings.coef_rate + planes**2)
    return np.column_stack([settings.inv_scale * np.exp(parameters[:, 0]) - slope, coefs])


def _needed(
    patches: Patches, targets: NDArray[np.bool_], parameters: FloatArray, side: IntArray, limit: float
) -> BoolArray:
    """Experts to keep: those whose log-probability of being inactive is not above the limit, one a side at least."""
    rates = patches.softplus_sums(parameters[:, 1:]) * np.exp(parameters[:, 0])
    keep = np.zeros(len(side), bool)
    for s in range(targets.shape[1]):
        own = np.flatnonzero(side == s)
        some = np.maximum(rates[np.ix_(targets[:, s], own)], 1e-300)
        whole = some.sum(axis=1, keepdims=True)
        others = np.maximum(whole - some, 1e-300)
        inactive = (log_probability(others) - some - log_probability(whole)).sum(axis=0)
        keep[own] = inactive <= limit
        keep[own[np.argmin(inactive)]] = True
    return keep
