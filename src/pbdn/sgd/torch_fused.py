"""One step of MAP on CUDA as two kernels, in Triton: from rows to partial gradients, and from these to the next parameters.

Rows are read once, by their numbers; nothing of size (rows, experts) leaves the chip. Inputs are held as x = high + low, two
bfloat16 numbers side by side in a row, so that all products run on the matrix units with some 16 bits. Used for
``precision="single"`` and sides of few experts (`fits`).
"""

from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl

from pbdn.sgd.kernel_arguments import BETA1, BETA2, EPSILON
from pbdn.sgd.torch_window import StepWindow

MOST_WIDTH, MOST_EXPERTS, MOST_INPUTS = 64, 1024, 127
ROWS, TILE = 2048, 64  # rows of a program, and of a tile
PARTIALS = 32  # partial gradients added at a time
UPLOAD_ROWS = 1 << 20
_BETA1, _BETA2, _EPSILON = tl.constexpr(BETA1), tl.constexpr(BETA2), tl.constexpr(EPSILON)


def fits(n_inputs: int, starts: Any) -> bool:
    """Whether the kernels serve a layer; ``starts`` says where the experts of every side begin and end."""
    widths = [last - first for first, last in pairwise(starts)]
    return n_inputs <= MOST_INPUTS and max(widths) <= MOST_WIDTH and sum(widths) <= MOST_EXPERTS


def split(inputs: Any, device: Any) -> Any:
    """Inputs and a constant as (n, 2 × padded) bfloat16 numbers: high parts, then low parts; each filled up with zeros."""
    n, n_inputs = inputs.shape
    padded = -(-(n_inputs + 1) // 16) * 16
    out = torch.zeros(n, 2, padded, dtype=torch.bfloat16, device=device)
    for begin in range(0, n, UPLOAD_ROWS):
        part = torch.as_tensor(inputs[begin : begin + UPLOAD_ROWS]).to(device)
        high = part.to(torch.bfloat16)
        out[begin : begin + len(part), 0, :n_inputs] = high
        out[begin : begin + len(part), 0, n_inputs] = 1.0
        out[begin : begin + len(part), 1, :n_inputs] = (part - high.to(part.dtype)).to(torch.bfloat16)
    return out.view(n, 2 * padded)


def joined(inputs: Any, n_inputs: int) -> Any:
    """The inputs back, in float64."""
    padded = inputs.shape[1] // 2
    return inputs[:, :n_inputs].double() + inputs[:, padded : padded + n_inputs].double()


@triton.jit
def _log1p(t):
    """ln(1 + t) for 0 ≤ t ≤ 1 to float32 precision, by a fitted polynomial."""
    p = 0.005105825803670806 * t - 0.02899195640630694
    p = (p * t + 0.07738073840605719) * t - 0.13590600237786898
    p = (p * t + 0.19071309584506568) * t - 0.2483394545714135
    p = (p * t + 0.3331793432202687) * t - 0.49999435690456273
    return (p * t + 0.9999999651599145) * t


@triton.jit
def _partial_gradients(
    inputs, codes, weights, index, parameters, starts, positive, against, totals, out, losses,
    n_batch, n_inputs, n_experts, padded, stride,
    ROWS: tl.constexpr, TILE: tl.constexpr, INPUTS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Weighted loss of ROWS rows of a batch for one side, and its gradient, as rows ln r, bias, coefficients of ``out``.

    The gradient takes inputs and slopes to 8 bits each: their rounding is unbiased, and small beside the choice of the batch.
    """
    side = tl.program_id(0)
    program = tl.program_id(1)
    begin = tl.load(starts + side)
    k = begin + tl.arange(0, EXPERTS)
    d = tl.arange(0, INPUTS)
    real = k < tl.load(starts + side + 1)
    expert_weight = tl.exp(tl.load(parameters + k, mask=real, other=-1e30))[None, :]
    line = tl.where(d < n_inputs, d + 2, 1)  # the input behind the last one is the constant
    known = (d <= n_inputs)[:, None] & real[None, :]
    coefs = tl.load(parameters + line[:, None] * n_experts + k[None, :], mask=known, other=0.0)
    coef_high = coefs.to(tl.bfloat16)
    coef_low = (coefs - coef_high.to(tl.float32)).to(tl.bfloat16)
    code_yes, is_against = tl.load(positive + side), tl.load(against + side) != 0
    scale = tl.load(totals) / n_batch
    total = tl.zeros([INPUTS, EXPERTS], tl.float32)
    of_weights = tl.zeros([TILE, EXPERTS], tl.float32)
    loss = tl.zeros([TILE], tl.float32)
    for start in range(0, ROWS, TILE):
        j = program * ROWS + start + tl.arange(0, TILE)
        inside = j < n_batch
        row = tl.load(index + j, mask=inside, other=0)
        at = row[:, None] * stride + d[None, :]
        high = tl.load(inputs + at, mask=(d < padded)[None, :], other=0.0)
        low = tl.load(inputs + at + padded, mask=(d < padded)[None, :], other=0.0)
        row_weight = tl.where(inside, tl.load(weights + row), 0.0) * scale
        signed = tl.where((tl.load(codes + row) == code_yes) != is_against, row_weight, -row_weight)  # > 0: yes
        psi = tl.dot(high, coef_high)
        psi = tl.dot(high, coef_low, psi)
        psi = tl.dot(low, coef_high, psi)
        tail = tl.exp(-tl.abs(psi))
        rates = (tl.maximum(psi, 0.0) + _log1p(tail)) * expert_weight
        rate = tl.sum(rates, axis=1)
        safe = tl.maximum(rate, 1e-30)
        gone = tl.exp(-safe)
        event = tl.where(safe < 1e-3, safe * (1.0 - 0.5 * safe), 1.0 - gone)
        loss -= signed * tl.where(signed > 0.0, tl.log(event), rate)
        slope = (-signed * tl.where(signed > 0.0, gone / event, 1.0))[:, None]
        of_weights += slope * rates
        by_distance = slope * expert_weight * tl.where(psi >= 0.0, 1.0, tail) / (1.0 + tail)
        total = tl.dot(tl.trans(high), by_distance.to(tl.bfloat16), total)
    place = out + program * (n_inputs + 2) * n_experts
    tl.store(place + k, tl.sum(of_weights, axis=0), mask=real)
    tl.store(place + line[:, None] * n_experts + k[None, :], total, mask=known)
    tl.store(losses + program * tl.num_programs(0) + side, tl.sum(loss, axis=0))


@triton.jit
def _adam_step(
    partials, losses, parameters, first, second, healthy, slope, totals, size, correction, loss_out,
    n_partials, n_losses, n_experts, n_numbers, inv_scale, bias_power, coef_power, coef_rate,
    PARTIALS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Add the partial gradients of one row of the parameters and those of the penalty, and take Adam's step."""
    line = tl.program_id(0)
    k = tl.arange(0, EXPERTS)
    real = k < n_experts
    p = tl.arange(0, PARTIALS)
    gradient = tl.zeros([EXPERTS], tl.float32)
    loss = tl.zeros([PARTIALS], tl.float32)
    for begin in range(0, n_partials, PARTIALS):
        inside = begin + p < n_partials
        at = (begin + p)[:, None] * n_numbers + line * n_experts + k[None, :]
        gradient += tl.sum(tl.load(partials + at, mask=inside[:, None] & real[None, :], other=0.0), axis=0)
    for begin in range(0, n_losses, PARTIALS):
        loss += tl.load(losses + begin + p, mask=begin + p < n_losses, other=0.0)
    here = line * n_experts + k
    value = tl.load(parameters + here, mask=real, other=0.0)
    power = tl.where(line == 1, bias_power, coef_power)
    of_weight = inv_scale * tl.exp(value) - tl.load(slope + k, mask=real, other=0.0)
    of_coef = power * 2.0 * value / (2.0 * coef_rate + value * value)
    gradient += tl.where(line == 0, of_weight, of_coef)
    total_weight = tl.load(totals + 1)
    total_loss = tl.sum(loss, axis=0)
    check = tl.sum(tl.where(real, gradient * gradient, 0.0), axis=0) + total_loss
    if (check - check) != 0.0:
        tl.store(healthy, 0)
    if line == 0:
        tl.store(loss_out, total_loss / total_weight)
    gradient = gradient / total_weight
    one = _BETA1 * tl.load(first + here, mask=real, other=0.0) + (1.0 - _BETA1) * gradient
    two = _BETA2 * tl.load(second + here, mask=real, other=0.0) + (1.0 - _BETA2) * gradient * gradient
    tl.store(first + here, one, mask=real)
    tl.store(second + here, two, mask=real)
    move = tl.load(size) * one / (tl.sqrt(two) / tl.load(correction) + _EPSILON)
    tl.store(parameters + here, value - move, mask=real)


class FusedWindow(StepWindow):
    """`StepWindow` with both kernels; ``rows.inputs`` come from `split`."""

    _starts: Any = None
    _width = 0

    def step(self, index: Any, size: Any, correction: Any) -> Any:
        """One step on the rows ``index``; returns the loss per unit of weight."""
        rows, layout, prior = self.rows, self.layout, self.prior
        parameters, first, second, healthy = self.moving
        n_numbers, n_experts, n_sides = parameters.numel(), parameters.shape[1], layout.n_sides
        padded = rows.inputs.shape[1] // 2
        if self._starts is None:
            self._starts = torch.searchsorted(layout.side, torch.arange(n_sides + 1, device=index.device))
            self._width = max(16, triton.next_power_of_2(int(self._starts.diff().max())))
        n_partials = triton.cdiv(index.shape[0], ROWS)
        partials = parameters.new_empty(n_partials, n_numbers)
        losses, loss = parameters.new_empty(n_partials * n_sides), parameters.new_empty(())
        scales = [torch.as_tensor(value, dtype=parameters.dtype, device=index.device) for value in (size, correction)]
        with torch.cuda.device(index.device):
            _partial_gradients[(n_sides, n_partials)](
                rows.inputs, rows.codes, rows.weights, index, parameters,
                self._starts, layout.positive, layout.against.view(torch.uint8), self.totals, partials, losses,
                index.shape[0], parameters.shape[0] - 2, n_experts, padded, 2 * padded,
                ROWS=ROWS, TILE=TILE, INPUTS=triton.next_power_of_2(padded), EXPERTS=self._width, num_warps=4, num_stages=2,
            )  # fmt: skip
            _adam_step[(parameters.shape[0],)](
                partials, losses, parameters, first, second, healthy.view(torch.uint8), self.slope, self.totals,
                *scales, loss, n_partials, n_partials * n_sides, n_experts, n_numbers,
                prior.inv_scale, prior.bias_power, prior.coef_power, prior.coef_rate,
                PARTIALS=PARTIALS, EXPERTS=triton.next_power_of_2(n_experts), num_warps=4,
            )  # fmt: skip
        return loss
