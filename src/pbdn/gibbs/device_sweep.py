"""Phases A and B of a sweep on a torch device: `pbdn.gibbs.sweep` draws the globals, this module the rows.

Rows are cut into slices that depend on their number alone. Every slice has its own sums, and sums of slices are added in order, so a
result does not depend on how many devices share the slices. On CUDA the work is done by the kernels of
`pbdn.gibbs.device_kernels`, from inputs held as two bfloat16 parts (16 bits of every input are kept); elsewhere by plain torch in
float64 (`pbdn.gibbs.device_rows`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.gibbs.kernel_arguments import BlockSums, Experts, Statistics
from pbdn.gibbs.rows import Rows
from pbdn.numerics.arrays import FloatArray

try:
    import torch

    from pbdn.gibbs.device_rows import DrawsOnDevice, RowsOnDevice, slice_rows
except ImportError as error:
    raise MissingExtraError("A torch device needs PyTorch", "torch") from error

if TYPE_CHECKING:
    from pbdn.model.network import Network

PREDICTED_NUMBERS = 1 << 26  # distances of rows from hyperplanes of all draws that a device holds at a time


class DeviceRows:
    """Rows of one side on one or several torch devices (`pbdn.gibbs.rows.RowsElsewhere`).

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
        self.n_rows, self.n_inputs = rows.n_rows, rows.n_inputs
        places = [open_device(name) for name in devices.split(",")]
        size = slice_rows(rows.n_rows)
        n_slices = -(-rows.n_rows // size)
        cuts = np.linspace(0, n_slices, len(places) + 1).astype(int) * size
        cuts = np.minimum(cuts, rows.n_rows).tolist()
        self.parts = [
            part_on(place)(rows, place, first, last, size)
            for place, first, last in zip(places, cuts[:-1], cuts[1:], strict=True)
            if last > first
        ]

    def holder(self, sampler: str, planes: FloatArray, key: np.uint64, index: int) -> "DeviceStep":
        """The local steps of one sweep."""
        if sampler != "first_events":
            raise InvalidInputError(
                f"sampler={sampler!r} has no device; use sampler='first_events', or leave device out."
            )
        return DeviceStep(self.parts, int(key), index)

    def log_likelihood_parts(self, planes: FloatArray, weights: FloatArray) -> list[float]:
        """Log-likelihood of every slice."""
        return [value for part in self.parts for value in part.log_likelihoods(planes, weights)]


class DeviceStep:
    """The local steps of one sweep (`pbdn.gibbs.rows.Holder`)."""

    def __init__(self, parts: list[RowsOnDevice], key: int, index: int) -> None:
        self.parts, self.key, self.index = parts, key, index

    def _together(self, values: list[tuple[Any, ...]]) -> list[Any]:
        """Sums of all slices on the first device."""
        home = self.parts[0].device
        return [torch.cat([value.to(home) for value in of_part]) for of_part in zip(*values, strict=True)]

    def draw_events(self, experts: Experts) -> BlockSums:
        """Phase A of all rows; a line for each slice."""
        sums = self._together([part.draw_events(experts, self.key, self.index) for part in self.parts])
        return BlockSums(*(value.cpu().numpy() for value in sums))

    def sum_statistics(self, weights: FloatArray) -> Statistics:
        """Phase B of all rows, summed."""
        gram, moment = self._together([part.sum_statistics(weights, self.key, self.index) for part in self.parts])
        total = gram.sum(dim=0)
        total = 0.5 * (total + total.mT)
        v, w = torch.triu_indices(*total.shape[1:], device=total.device)
        pairs = total[:, v, w].T.contiguous()
        return Statistics(pairs.cpu().numpy()[None], moment.sum(dim=0).cpu().numpy()[None], 1)


def draws_on(network: "Network", devices: str) -> list[DrawsOnDevice]:
    """The draws of a network's top layer on every device."""
    return [DrawsOnDevice(network, network.top.draws, open_device(name)) for name in devices.split(",")]


def predictions(places: list[DrawsOnDevice], features: FloatArray) -> Iterator[tuple[slice, Any]]:
    """Some rows at a time, and class probabilities of them by every draw of the top layer, (n, n_draws, n_classes).

    Devices take turns at parts of the rows that do not depend on their number, and so neither does the result.
    """
    size = max(1, PREDICTED_NUMBERS // len(places[0].planes))
    parts = [slice(low, low + size) for low in range(0, len(features), size)]
    for begin in range(0, len(parts), len(places)):  # devices work at the same time, and are waited for in order
        some = parts[begin : begin + len(places)]
        begun = [place.predict(features[part]) for place, part in zip(places, some, strict=False)]
        yield from zip(some, begun, strict=True)


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
            from pbdn.gibbs.device_cuda import RowsOnCuda
        except ImportError:
            return RowsOnDevice
        return RowsOnCuda
    return RowsOnDevice
