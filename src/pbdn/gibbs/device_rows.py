"""Rows of a sweep on one torch device: both phases in plain torch, float64. They depend on no other device, nor on CUDA."""

from typing import Any, NamedTuple

import numpy as np
import torch

from pbdn.gibbs.device_draws import Streams, first_events, polya_gamma
from pbdn.gibbs.kernel_arguments import Experts
from pbdn.gibbs.rows import NOTHING, Rows
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.softplus import LOG_TINY
from pbdn.variates.random_stream import PG_WEIGHTS, TABLES

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
