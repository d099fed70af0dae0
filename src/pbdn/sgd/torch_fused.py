"""One step of MAP on CUDA as two kernels, in Triton: from rows to partial gradients, and from these to the next parameters.

Rows are read once, by their numbers; nothing of size (rows, experts) leaves the chip. Inputs are held as x = high + low, two
bfloat16 numbers side by side in a row, so that all products run on the matrix units with some 16 bits. Used for
``precision="single"`` and layers of few sides (`fits`).
"""

from typing import Any

import torch
import triton
import triton.language as tl

from pbdn.sgd.constants import BETA1, BETA2, EPSILON
from pbdn.sgd.torch_steps import Layout
from pbdn.sgd.torch_window import Rows, StepWindow

MOST_EXPERTS, MOST_SIDES, MOST_INPUTS = 128, 8, 128
ROWS, TILE = 2048, 64  # rows of a program, and of a tile
PARTIALS = 32  # partial gradients added at a time
UPLOAD_ROWS = 1 << 20
_BETA1, _BETA2, _EPSILON = tl.constexpr(BETA1), tl.constexpr(BETA2), tl.constexpr(EPSILON)


def fits(n_inputs: int, n_experts: int, n_sides: int) -> bool:
    """Whether the kernels serve a layer."""
    return n_inputs <= MOST_INPUTS and n_experts <= MOST_EXPERTS and n_sides <= MOST_SIDES


def split(inputs: Any, device: Any) -> Any:
    """Inputs as (n, 2 × padded) bfloat16 numbers: high parts, then low parts; each filled up with zeros."""
    n, n_inputs = inputs.shape
    padded = -(-n_inputs // 16) * 16
    out = torch.zeros(n, 2, padded, dtype=torch.bfloat16, device=device)
    for begin in range(0, n, UPLOAD_ROWS):
        part = torch.as_tensor(inputs[begin : begin + UPLOAD_ROWS]).to(device)
        high = part.to(torch.bfloat16)
        out[begin : begin + len(part), 0, :n_inputs] = high
        out[begin : begin + len(part), 1, :n_inputs] = (part - high.to(part.dtype)).to(torch.bfloat16)
    return out.view(n, 2 * padded)


def joined(inputs: Any, n_inputs: int) -> Any:
    """The inputs back, in float64."""
    padded = inputs.shape[1] // 2
    return inputs[:, :n_inputs].double() + inputs[:, padded : padded + n_inputs].double()


@triton.jit
def _partial_gradients(
    inputs, codes, weights, index, parameters, side, positive, against, totals, out, losses,
    n_batch, n_inputs, n_experts, padded, stride,
    SIDES: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, INPUTS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Weighted loss of ROWS rows of a batch and its gradient, as rows ln r, bias, coefficients of ``out``."""
    program = tl.program_id(0)
    k = tl.arange(0, EXPERTS)
    d = tl.arange(0, INPUTS)
    real = k < n_experts
    own_side = tl.load(side + k, mask=real, other=-1)[None, :]
    expert_weight = tl.exp(tl.load(parameters + k, mask=real, other=-1e30))[None, :]
    bias = tl.load(parameters + n_experts + k, mask=real, other=0.0)[None, :]
    coefs = tl.load(
        parameters + (d[:, None] + 2) * n_experts + k[None, :], mask=(d < n_inputs)[:, None] & real[None, :], other=0.0
    )
    coef_high = coefs.to(tl.bfloat16)
    coef_low = (coefs - coef_high.to(tl.float32)).to(tl.bfloat16)
    scale = tl.load(totals) / n_batch
    total = tl.zeros([INPUTS, EXPERTS], tl.float32)
    total_weight = tl.zeros([EXPERTS], tl.float32)
    total_bias = tl.zeros([EXPERTS], tl.float32)
    loss = tl.zeros([TILE], tl.float32)
    for start in range(0, ROWS, TILE):
        j = program * ROWS + start + tl.arange(0, TILE)
        inside = j < n_batch
        row = tl.load(index + j, mask=inside, other=0)
        at = row[:, None] * stride + d[None, :]
        wanted = inside[:, None] & (d < padded)[None, :]
        high = tl.load(inputs + at, mask=wanted, other=0.0)
        low = tl.load(inputs + at + padded, mask=wanted, other=0.0)
        code = tl.load(codes + row)
        row_weight = tl.where(inside, tl.load(weights + row), 0.0) * scale
        psi = tl.dot(high, coef_high) + bias
        psi = tl.dot(high, coef_low, psi)
        psi = tl.dot(low, coef_high, psi)
        tail = tl.exp(-tl.abs(psi))
        u = 1.0 + tail
        log_u = tl.where(u == 1.0, tail, tl.log(u) * (tail / (u - 1.0)))
        soft = tl.maximum(psi, 0.0) + log_u
        sigmoid = tl.where(psi >= 0.0, 1.0, tail) / u
        rates = soft * expert_weight
        slope = tl.zeros([TILE, EXPERTS], tl.float32)
        for s in tl.static_range(SIDES):
            mine = own_side == s
            rate = tl.sum(tl.where(mine, rates, 0.0), axis=1)
            yes = (code == tl.load(positive + s)) != (tl.load(against + s) != 0)
            safe = tl.maximum(rate, 1e-30)
            gone = tl.exp(-safe)
            event = tl.where(safe < 1e-3, safe * (1.0 - 0.5 * safe), 1.0 - gone)
            loss += row_weight * tl.where(yes, -tl.log(event), rate)
            own_slope = row_weight * tl.where(yes, -gone / event, 1.0)
            slope += tl.where(mine, own_slope[:, None], 0.0)
        total_weight += tl.sum(slope * rates, axis=0)
        by_distance = slope * expert_weight * sigmoid
        total_bias += tl.sum(by_distance, axis=0)
        one = by_distance.to(tl.bfloat16)
        two = (by_distance - one.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(tl.trans(high), one, total)
        total = tl.dot(tl.trans(low), one, total)
        total = tl.dot(tl.trans(high), two, total)
    place = out + program * (n_inputs + 2) * n_experts
    tl.store(place + k, total_weight, mask=real)
    tl.store(place + n_experts + k, total_bias, mask=real)
    tl.store(place + (d[:, None] + 2) * n_experts + k[None, :], total, mask=(d < n_inputs)[:, None] & real[None, :])
    tl.store(losses + program, tl.sum(loss, axis=0))


@triton.jit
def _adam_step(
    partials, losses, parameters, first, second, healthy, slope, totals, size, correction, loss_out,
    n_partials, n_experts, n_numbers, inv_scale, bias_power, coef_power, coef_rate,
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
        loss += tl.load(losses + begin + p, mask=inside, other=0.0)
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

    def step(self, index: Any, size: Any, correction: Any) -> Any:
        """One step on the rows ``index``; returns the loss per unit of weight."""
        rows: Rows = self.rows
        layout: Layout = self.layout
        parameters, first, second, healthy = self.moving
        n_numbers, n_experts = parameters.numel(), parameters.shape[1]
        padded = rows.inputs.shape[1] // 2
        experts = max(16, triton.next_power_of_2(n_experts))
        n_partials = triton.cdiv(index.shape[0], ROWS)
        partials = parameters.new_empty(n_partials, n_numbers)
        losses, loss = parameters.new_empty(n_partials), parameters.new_empty(())
        size, correction = (
            torch.as_tensor(value, dtype=parameters.dtype, device=index.device) for value in (size, correction)
        )
        prior = self.prior
        with torch.cuda.device(index.device):
            _partial_gradients[(n_partials,)](
                rows.inputs, rows.codes, rows.weights, index, parameters,
                layout.side, layout.positive, layout.against.view(torch.uint8), self.totals, partials, losses,
                index.shape[0], parameters.shape[0] - 2, n_experts, padded, 2 * padded,
                SIDES=layout.n_sides, ROWS=ROWS, TILE=TILE, INPUTS=max(16, triton.next_power_of_2(padded)), EXPERTS=experts,
                num_warps=8, num_stages=3,
            )  # fmt: skip
            _adam_step[(parameters.shape[0],)](
                partials, losses, parameters, first, second, healthy.view(torch.uint8), self.slope, self.totals,
                size, correction, loss, n_partials, n_experts, n_numbers,
                prior.inv_scale, prior.bias_power, prior.coef_power, prior.coef_rate,
                PARTIALS=PARTIALS, EXPERTS=experts, num_warps=4,
            )  # fmt: skip
        return loss
