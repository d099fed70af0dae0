"""Phases A and B of a sweep on a torch device: `pbdn.gibbs.sweep` draws the globals, this module the rows.

Rows are cut into slices that depend on their number alone. Every slice has its own sums, and sums of slices are added in order, so a
result does not depend on how many devices share the slices. On CUDA the work is done by the kernels of
`pbdn.gibbs.device_kernels`, from inputs held as two bfloat16 parts (16 bits of every input are kept); elsewhere by plain torch in
float64.
"""

from typing import Any, NamedTuple

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.gibbs.kernel_arguments import BlockSums, Experts, Statistics
from pbdn.gibbs.rows import NOTHING, Rows
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.softplus import LOG_TINY
from pbdn.variates.random_stream import PG_WEIGHTS, TABLES

try:
    import torch

    from pbdn.gibbs.device_draws import Streams, first_events, polya_gamma
except ImportError as error:
    raise MissingExtraError("A torch device needs PyTorch", "torch") from error

MOST_SLICES = 128
SLICE_ROWS = 1024  # rows of a slice are a multiple of this


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
        self.device, self.size = device, size
        self.row = torch.arange(first, last, device=device)
        self.exposure, self.offset = self.upload(arrays.exposure[first:last]), self.upload(arrays.offset[first:last])
        self.event = torch.as_tensor(arrays.kind[first:last] != NOTHING).to(device)
        self.hold(arrays.dense[first:last])
        self.drawn: list[Drawn] = []

    def upload(self, array: Any) -> Any:
        """A float64 tensor on the device."""
        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64).to(self.device)

    def hold(self, inputs: FloatArray) -> None:
        """Keep the inputs."""
        self.inputs = self.upload(inputs)

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
            rate = exposure * (torch.nn.functional.softplus(psi, threshold=40.0) @ in_likelihood)
            log_likelihood = torch.where(event, log_event_probability(rate), -rate).sum()
            streams = Streams(key, index, int(TABLES))
            winner, earlier = first_events(streams, self.row[part], psi, log_weights, exposure, event)
            cut = psi + earlier[:, None]
            n_tables = torch.bincount(winner[event], minlength=len(log_weights)).double()
            sums.append((n_tables, exposure @ torch.nn.functional.softplus(cut, threshold=40.0), log_likelihood))
            self.drawn.append(Drawn(cut, earlier + offset, winner))
        n_tables, exposed, log_likelihoods = (torch.stack(values) for values in zip(*sums, strict=True))
        return n_tables, exposed, log_likelihoods

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


def log_event_probability(rate: Any) -> Any:
    """ln(1 - e^{-λ}), LOG_TINY at least."""
    return torch.log(-torch.expm1(-rate)).clamp_min(float(LOG_TINY))


class DeviceStep:
    """The local step of a sweep (`pbdn.gibbs.sweep.LocalStep`) on one or several torch devices.

    Parameters
    ----------
    rows : Rows
        Dense, every row binary and with one copy of its event at most.
    devices : str
        A torch device, or several with commas between them, which share the rows.
    """

    def __init__(self, rows: Rows, devices: str) -> None:
        if rows.arrays.sparse is not None or not rows.single_events:
            raise InvalidInputError(
                f"device={devices!r} samples dense rows of classes with whole sample weights; leave device out, or give such rows."
            )
        places = [open_device(name) for name in devices.split(",")]
        size = -(-rows.n_rows // MOST_SLICES)
        size = -(-size // SLICE_ROWS) * SLICE_ROWS
        n_slices = -(-rows.n_rows // size)
        cuts = np.linspace(0, n_slices, len(places) + 1).astype(int) * size
        cuts = np.minimum(cuts, rows.n_rows).tolist()
        self.parts = [
            part_on(place)(rows, place, first, last, size)
            for place, first, last in zip(places, cuts[:-1], cuts[1:], strict=True)
            if last > first
        ]

    def _together(self, values: list[tuple[Any, ...]]) -> list[Any]:
        """Sums of all slices on the first device."""
        home = self.parts[0].device
        return [torch.cat([value.to(home) for value in of_part]) for of_part in zip(*values, strict=True)]

    def draw_events(self, experts: Experts, key: np.uint64, index: int) -> BlockSums:
        """Phase A of all rows; a line for each slice."""
        sums = self._together([part.draw_events(experts, int(key), index) for part in self.parts])
        return BlockSums(*(value.cpu().numpy() for value in sums))

    def sum_statistics(self, weights: FloatArray, key: np.uint64, index: int) -> Statistics:
        """Phase B of all rows, summed."""
        gram, moment = self._together([part.sum_statistics(weights, int(key), index) for part in self.parts])
        total = gram.sum(dim=0)
        total = 0.5 * (total + total.mT)
        v, w = torch.triu_indices(*total.shape[1:], device=total.device)
        pairs = total[:, v, w].T.contiguous()
        return Statistics(pairs.cpu().numpy()[None], moment.sum(dim=0).cpu().numpy()[None], 1)


def open_device(name: str) -> Any:
    """The torch device of a name, after a number was put there."""
    try:
        device = torch.device(name.strip())
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInputError(f"device={name!r} cannot be used by torch in float64: {error}") from error
    return device


def part_on(device: Any) -> type[RowsOnDevice]:
    """What holds rows on a device: on CUDA with the kernels of Triton where it is installed."""
    if device.type == "cuda":
        try:
            from pbdn.gibbs.device_kernels import RowsOnCuda
        except ImportError:
            return RowsOnDevice
        return RowsOnCuda
    return RowsOnDevice
