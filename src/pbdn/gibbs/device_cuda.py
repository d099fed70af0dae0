"""Rows of a sweep on one CUDA device: both phases by the kernels of `pbdn.gibbs.device_kernels`."""

from typing import Any

import torch
import triton

from pbdn.gibbs import device_kernels as kernels
from pbdn.gibbs.device_draws import MOST_PIECES, Streams, polya_gamma
from pbdn.gibbs.device_rows import COARSE_ROWS, SLICE_ROWS, RowsOnDevice
from pbdn.gibbs.kernel_arguments import Experts
from pbdn.numerics.arrays import FloatArray
from pbdn.variates.random_stream import PG_WEIGHTS, TABLES

TILE = 64  # rows of a tile
CELLS = 32  # Polya-Gamma variates of a program
MOST_GRAM_BYTES = 1 << 33  # of the sums of products of parts of slices
UPLOAD_ROWS = 1 << 20


def parts_of(numbers: Any, n_parts: int) -> list[Any]:
    """A float64 tensor as a sum of so many bfloat16 ones, largest first."""
    parts = []
    for _ in range(n_parts):
        parts.append(numbers.to(torch.bfloat16))
        numbers = numbers - parts[-1].double()
    return parts


class RowsOnCuda(RowsOnDevice):
    """Some of the rows on one CUDA device, for the kernels above.

    Rows are filled up to whole slices with rows of no exposure; inputs with zeros to a multiple of 16.
    """

    def hold(self, inputs: FloatArray) -> None:
        """Keep the inputs as two parts, and what phase B needs of phase A."""
        n, self.n_inputs = inputs.shape
        self.stride = -(-self.n_inputs // 16) * 16
        self.n_rows = -(-n // self.size) * self.size
        self.high = torch.zeros(self.n_rows, self.stride, dtype=torch.bfloat16, device=self.device)
        self.low = torch.zeros_like(self.high)
        for begin in range(0, n, UPLOAD_ROWS):
            part = torch.as_tensor(inputs[begin : begin + UPLOAD_ROWS]).to(self.device).double()
            here = slice(begin, begin + len(part)), slice(0, self.n_inputs)
            self.high[here], self.low[here] = parts_of(part, 2)
        self.event_flag = self._filled(self.event, torch.int8)
        self.exposure32, self.offset32 = self._filled(self.exposure), self._filled(self.offset)
        self.watched = torch.empty(self.n_rows, device=self.device)
        self.winner = torch.empty(self.n_rows, dtype=torch.int32, device=self.device)
        self.distance = self.omega = torch.empty(0, device=self.device)

    def _filled(self, values: Any, kind: Any = torch.float32) -> Any:
        return torch.nn.functional.pad(values.to(kind), (0, self.n_rows - len(values)))

    def slice_inputs(self, part: slice) -> Any:
        """Inputs of a slice in float64."""
        rows = slice(part.start, min(part.stop, len(self.row)))
        return (self.high[rows].double() + self.low[rows].double())[:, : self.n_inputs]

    def _names(self, key: int, index: int, purpose: int) -> Any:
        signed = key - (1 << 64) if key >> 63 else key
        return torch.tensor([signed, index, purpose, int(self.first)], device=self.device)

    def draw_events(self, experts: Experts, key: int, index: int) -> tuple[Any, Any, Any]:
        """Phase A by `pbdn.gibbs.device_kernels.draw_events`."""
        n_experts = len(experts.log_weights)
        padded = max(16, triton.next_power_of_2(n_experts))
        planes = torch.zeros(padded, self.stride, dtype=torch.float64, device=self.device)
        planes[:n_experts, : self.n_inputs] = self.upload(experts.planes)
        log_weights = self.upload(experts.log_weights)
        in_likelihood = (log_weights.exp() * self.upload(experts.active)).float()
        if self.distance.shape[:1] != (n_experts,):
            self.distance, self.omega = torch.empty(2, n_experts, self.n_rows, device=self.device)
        n_programs = self.n_rows // SLICE_ROWS
        sums = torch.empty(2, n_programs, padded, dtype=torch.float64, device=self.device)
        log_likelihood = torch.empty(n_programs, dtype=torch.float64, device=self.device)
        with self.on_device():
            kernels.draw_events[(n_programs,)](
                self.high, self.low, torch.stack(parts_of(planes, 3)), log_weights.float(), in_likelihood,
                self.exposure32, self.offset32, self.event_flag, self._names(key, index, int(TABLES)),
                self.distance, self.watched, self.winner, sums[0], sums[1], log_likelihood,
                self.n_rows, n_experts, self.stride,
                ROWS=SLICE_ROWS, TILE=TILE, INPUTS=self.input_block, EXPERTS=padded, num_warps=4, num_stages=2,
            )  # fmt: skip
        n_tables, exposed = sums.view(2, -1, self.size // SLICE_ROWS, padded).sum(dim=2)[..., :n_experts]
        return n_tables, exposed, log_likelihood.view(-1, self.size // SLICE_ROWS).sum(dim=1)

    def sum_statistics(self, weights: FloatArray, key: int, index: int) -> tuple[Any, Any]:
        """Phase B by the other kernels."""
        n_experts, n_slices = len(weights), self.n_rows // self.size
        padded = max(16, triton.next_power_of_2(n_experts))
        block = self.input_block
        n_blocks = -(-self.stride // block)
        on_device = self.upload(weights).float()
        names = self._names(key, index, int(PG_WEIGHTS))
        gram_bytes = 4 * n_experts * self.stride**2 * (self.n_rows // COARSE_ROWS)
        part_rows = COARSE_ROWS if self.size % COARSE_ROWS == 0 and gram_bytes <= MOST_GRAM_BYTES else self.size
        n_grams = self.n_rows // part_rows
        gram = torch.empty(n_grams, n_experts, self.stride, self.stride, device=self.device)
        n_programs = self.n_rows // SLICE_ROWS
        moment = torch.empty(n_programs, self.stride, padded, device=self.device)
        with self.on_device():
            kernels.draw_polya_gamma[(self.n_rows // CELLS, n_experts)](
                self.distance, self.winner, self.exposure32, on_device, names, self.omega, self.n_rows,
                CELLS=CELLS, num_warps=1,
            )  # fmt: skip
            self._draw_large(weights, key, index)
            kernels.sum_moments[(n_programs, n_blocks)](
                self.high, self.low, self.omega, self.watched, self.winner, self.exposure32, on_device, moment,
                self.n_rows, n_experts, self.stride,
                ROWS=SLICE_ROWS, TILE=TILE, INPUTS=block, EXPERTS=padded, num_warps=4,
            )  # fmt: skip
            kernels.sum_grams[(n_experts, n_grams, n_blocks * n_blocks)](
                self.high, self.low, self.omega, gram, self.n_rows, self.stride, n_blocks, part_rows,
                TILE=TILE, INPUTS=block, ONE_BLOCK=n_blocks == 1, num_warps=4, num_stages=3,
            )  # fmt: skip
        moments = moment.view(n_slices, -1, self.stride, padded).sum(dim=1, dtype=torch.float64)
        d = self.n_inputs
        grams = gram.view(n_slices, -1, n_experts, self.stride, self.stride).sum(dim=1, dtype=torch.float64)
        return grams[:, :, :d, :d], moments[:, :d, :n_experts]

    def _draw_large(self, weights: FloatArray, key: int, index: int) -> None:
        """ω of the cells with b > MOST_PIECES, which are rare, by plain torch."""
        if self.most_exposure * weights.max() + 1.0 <= MOST_PIECES:
            return
        streams = Streams(key, index, int(PG_WEIGHTS))
        for k in range(len(weights)):
            shape = self.exposure * float(weights[k]) + (self.winner[: len(self.row)] == k)
            place = torch.nonzero(shape.float() > MOST_PIECES).view(-1)
            expert = torch.full_like(place, k)
            tilt = self.distance[k, place].double()
            self.omega[k, place] = polya_gamma(streams, self.row[place], expert, shape[place], tilt).float()

    def on_device(self) -> Any:
        """Launch there."""
        return torch.cuda.device(self.device)

    @property
    def input_block(self) -> int:
        """Inputs of a block of a matrix."""
        return int(min(128, triton.next_power_of_2(self.stride)))
