"""Rows of a sweep on one torch device: both phases in plain torch, float64; and predictions there. They depend on no other device, nor on CUDA."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pbdn.gibbs.device_draws import Streams, first_events, polya_gamma
from pbdn.gibbs.kernel_arguments import Experts
from pbdn.gibbs.rows import NOTHING, Rows
from pbdn.model.pooling import NEWTON_STEPS, SMALLEST_CHANCE
from pbdn.model.response import OneSide, TwoClasses
from pbdn.model.wiring import sources_of
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.softplus import LOG_TINY
from pbdn.variates.random_stream import PG_WEIGHTS, TABLES

if TYPE_CHECKING:
    from pbdn.model.network import Network

MOST_SLICES = 128
SLICE_ROWS, COARSE_ROWS = 1024, 4096  # rows of a slice are a multiple of one of these


def slice_rows(n_rows: int) -> int:
    """Rows of a slice, which depend on the number of all rows alone."""
    size = -(-n_rows // MOST_SLICES)
    unit = SLICE_ROWS if size <= SLICE_ROWS else COARSE_ROWS
    return -(-size // unit) * unit


class Drawn(NamedTuple):
    """What phase A leaves to phase B."""

    distance: Any  # ψ of the process cut at the event, (n, K)
    watched: Any  # log-time up to which the row was watched
    winner: Any  # expert of the event, -1 without


class RowsOnDevice:
    """Some of the rows, on one device, as plain tensors.

    Parameters
    ----------
    rows : Rows
    device : torch.device
    first, last : int
        Which rows.
    size : int
        Rows of a slice.
    """

    def __init__(self, rows: Rows, device: Any, first: int, last: int, size: int) -> None:
        arrays = rows.arrays
        self.device, self.size, self.first = device, size, first
        self.row = torch.arange(first, last, device=device)
        self.exposure, self.offset = self.upload(arrays.exposure[first:last]), self.upload(arrays.offset[first:last])
        self.event = torch.as_tensor(arrays.kind[first:last] != NOTHING).to(device)
        self.most_exposure = float(arrays.exposure[first:last].max())
        self.hold(arrays.dense[first:last])
        self.drawn: list[Drawn] = []

    def upload(self, array: Any) -> Any:
        """A float64 tensor on the device."""
        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64).to(self.device)

    def hold(self, inputs: FloatArray) -> None:
        """Keep the inputs."""
        self.inputs = self.upload(inputs)

    def slice_inputs(self, part: slice) -> Any:
        """Inputs of a slice in float64."""
        return self.inputs[part]

    def slices(self) -> list[slice]:
        """The rows of every slice."""
        return [slice(low, low + self.size) for low in range(0, len(self.row), self.size)]

    def draw_events(self, experts: Experts, key: int, index: int) -> tuple[Any, Any, Any]:
        """Phase A: l_k, S_k and the log-likelihood of every slice, as (slices, K), (slices, K) and (slices,)."""
        planes, log_weights = self.upload(experts.planes), self.upload(experts.log_weights)
        in_likelihood = log_weights.exp() * self.upload(experts.active)
        self.drawn, sums = [], []
        for part in self.slices():
            event, exposure, offset = self.event[part], self.exposure[part], self.offset[part]
            psi = self.inputs[part] @ planes.T + offset[:, None]
            log_likelihood = self._log_likelihood(self._rate(psi, in_likelihood, part), part)
            streams = Streams(key, index, int(TABLES))
            winner, earlier = first_events(streams, self.row[part], psi, log_weights, exposure, event)
            cut = psi + earlier[:, None]
            n_tables = torch.bincount(winner[event], minlength=len(log_weights)).double()
            sums.append((n_tables, exposure @ torch.nn.functional.softplus(cut, threshold=40.0), log_likelihood))
            self.drawn.append(Drawn(cut, earlier + offset, winner))
        n_tables, exposed, log_likelihoods = (torch.stack(values) for values in zip(*sums, strict=True))
        return n_tables, exposed, log_likelihoods

    def log_likelihoods(self, planes: FloatArray, weights: FloatArray) -> list[float]:
        """Log-likelihood of every slice."""
        on_device, planes_there = self.upload(weights), self.upload(planes)
        values = []
        for part in self.slices():
            rate = self._rate(self.slice_inputs(part) @ planes_there.T + self.offset[part][:, None], on_device, part)
            values.append(self._log_likelihood(rate, part))
        return [float(value) for value in values]

    def _rate(self, psi: Any, weights: Any, part: slice) -> Any:
        return self.exposure[part] * (torch.nn.functional.softplus(psi, threshold=40.0) @ weights)

    def _log_likelihood(self, rate: Any, part: slice) -> Any:
        log_probability = torch.log(-torch.expm1(-rate)).clamp_min(float(LOG_TINY))
        return torch.where(self.event[part], log_probability, -rate).sum()

    def sum_statistics(self, weights: FloatArray, key: int, index: int) -> tuple[Any, Any]:
        """Phase B: A_k and h_k of every slice, as (slices, K, D, D) and (slices, D, K)."""
        on_device, expert = self.upload(weights), torch.arange(len(weights), device=self.device)
        grams, moments = [], []
        for part, (distance, watched, winner) in zip(self.slices(), self.drawn, strict=True):
            won = (winner[:, None] == expert).double()
            shape = self.exposure[part][:, None] * on_device + won
            streams = Streams(key, index, int(PG_WEIGHTS))
            omega = polya_gamma(streams, self.row[part][:, None], expert, shape, distance)
            inputs = self.inputs[part]
            grams.append(torch.stack([inputs.T @ (column[:, None] * inputs) for column in omega.T]))
            moments.append(inputs.T @ (won - 0.5 * shape - omega * watched[:, None]))
        return torch.stack(grams), torch.stack(moments)


# predictions

SMALLEST_CHANCE_SINGLE = 1e-15  # in place of `SMALLEST_CHANCE` in single precision


def pool(kind: str, rate: Any) -> Any:
    """Class probabilities from the rates λ of the sides (last axis), as `pbdn.model.pooling` defines them."""
    if kind == OneSide.kind:
        return torch.cat([torch.exp(-rate), -torch.expm1(-rate)], -1)
    if kind == TwoClasses.kind:
        no, yes = torch.exp(-rate), -torch.expm1(-rate)
        return 0.5 * torch.cat([yes[..., :1] + no[..., 1:], yes[..., 1:] + no[..., :1]], -1)
    own, against = rate.chunk(2, -1)
    least = SMALLEST_CHANCE if rate.dtype == torch.float64 else SMALLEST_CHANCE_SINGLE
    yes = (torch.exp(-against) - torch.expm1(-own)).clamp_min(least)
    no = (torch.exp(-own) - torch.expm1(-against)).clamp_min(least)
    odds = yes / no
    best = odds.argmax(-1, keepdim=True)
    ratio = odds / odds.gather(-1, best)
    is_best = torch.arange(odds.shape[-1], device=odds.device) == best
    odds = _common_factor(torch.where(is_best, 0.0, ratio), least**2) * ratio
    pooled = odds / (1.0 + odds)
    return pooled / pooled.sum(-1, keepdim=True)


def _common_factor(others: Any, least: float) -> Any:
    """Odds of the likeliest class (`pbdn.model.pooling.common_factor`)."""
    total = others.sum(-1, keepdim=True).clamp_min(least)
    w = 2.0 / (total + torch.sqrt(total * (total + 4.0)))
    for _ in range(NEWTON_STEPS):
        part = others / (1.0 + w * others)
        value = w * (1.0 + w) * part.sum(-1, keepdim=True)
        slope = (part * (1.0 + w * (2.0 + w * others)) / (1.0 + w * others)).sum(-1, keepdim=True)
        w = w - (value - 1.0) / slope.clamp_min(least)
    return w


class DrawsOnDevice:
    """The draws of a network's top layer on one device, in float64: predictions of rows.

    Parameters
    ----------
    network : Network
        Of classes.
    draws : sequence of sequence of Side
        ``draws[g][s]``.
    device : torch.device
    """

    def __init__(self, network: "Network", draws: Any, device: Any) -> None:
        self.kind, self.device = network.response.kind, device
        self.lower = [
            self._upload(np.concatenate([side.hyperplanes for side in layer.sides])) for layer in network.layers[:-1]
        ]
        sides = [side for draw in draws for side in draw]
        width = max(side.n_experts for side in sides)  # sides of fewer experts are filled up with some of no weight
        planes, weights = np.zeros((len(sides), width, network.n_inputs[-1])), np.zeros((len(sides), width))
        for own, weight, side in zip(planes, weights, sides, strict=True):
            own[: side.n_experts], weight[: side.n_experts] = side.hyperplanes, side.expert_weights
        self.planes, self.weights = self._upload(planes.reshape(-1, planes.shape[2])), self._upload(weights)
        self.shape = len(draws), len(draws[0])

    def _upload(self, array: Any) -> Any:
        return torch.as_tensor(array, dtype=torch.float64).to(self.device)

    def predict(self, features: FloatArray) -> Any:
        """Class probabilities of dense rows by every draw, (n, n_draws, n_classes)."""
        seen = [self._upload(np.ascontiguousarray(features))]
        for t, planes in enumerate(self.lower, 1):
            seen.append(_softplus(_distances(seen, t, planes)))
        rates = _softplus(_distances(seen, len(seen), self.planes)).view(-1, *self.weights.shape)
        return pool(self.kind, (rates * self.weights).sum(-1).view(-1, *self.shape))


def _distances(seen: list[Any], layer: int, planes: Any) -> Any:
    """From the hyperplanes of layer t = 1, 2, … on what it sees."""
    inputs = torch.cat([seen[source] for source in sources_of(layer)], 1)
    return torch.addmm(planes[:, 0], inputs, planes[:, 1:].T)


def _softplus(distances: Any) -> Any:
    return torch.logaddexp(distances, distances.new_zeros(()))
