"""One step of MAP on CUDA as two kernels, in Triton: from rows to partial gradients, and from these to the next parameters.

Rows are read once by every side, by their numbers; nothing of size (rows, experts) leaves the chip. Inputs are held as
x = high + low, two float16 numbers of together 22 bits, side by side in a row. A step takes the high parts: 11 bits, as products in
TF32 do, whose rounding is unbiased and small beside the choice of the batch. Likelihoods and pruning take both. Used for
``precision="single"`` where the layer fits (`fits`) and the rows do (`holds`).
"""

import math
from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl

from pbdn.sgd.kernel_arguments import BETA1, BETA2, EPSILON
from pbdn.sgd.torch_window import StepWindow

MOST_WIDTH, MOST_EXPERTS, MOST_INPUTS = 64, 1024, 127
LARGEST = 6e4  # that float16 holds, and a little less
TILE, PROGRAMS_PER_PROCESSOR = 64, 2  # rows at a time, and programs at once, which need all registers
ADDED_PARTIALS, ADDED_EXPERTS = 512, 8  # partial gradients, and their experts, that a program adds at a time
UPLOAD_ROWS = 1 << 20
_BETA1, _BETA2, _EPSILON = tl.constexpr(BETA1), tl.constexpr(BETA2), tl.constexpr(EPSILON)
_LARGEST, _LN2 = tl.constexpr(LARGEST), tl.constexpr(math.log(2.0))


def fits(n_inputs: int, starts: Any) -> bool:
    """Whether the kernels serve a layer; ``starts`` says where the experts of every side begin and end."""
    widths = [last - first for first, last in pairwise(starts)]
    return n_inputs <= MOST_INPUTS and max(widths) <= MOST_WIDTH and sum(widths) <= MOST_EXPERTS


def holds(inputs: Any, weights: Any) -> bool:
    """Whether float16 holds the inputs, and the weights beside their mean."""
    return bool(max(inputs.max(), -inputs.min()) < LARGEST and weights.max() < LARGEST * weights.mean())


def split(inputs: Any, device: Any) -> Any:
    """Inputs and a constant as (n, 2 × padded) float16 numbers: high parts, then low parts; each filled up with zeros."""
    n, n_inputs = inputs.shape
    padded = -(-(n_inputs + 1) // 16) * 16
    out = torch.zeros(n, 2, padded, dtype=torch.float16, device=device)
    for begin in range(0, n, UPLOAD_ROWS):
        part = torch.as_tensor(inputs[begin : begin + UPLOAD_ROWS]).to(device)
        high = part.to(torch.float16)
        out[begin : begin + len(part), 0, :n_inputs] = high
        out[begin : begin + len(part), 0, n_inputs] = 1.0
        out[begin : begin + len(part), 1, :n_inputs] = (part - high.to(part.dtype)).to(torch.float16)
    return out.view(n, 2 * padded)


def joined(inputs: Any, n_inputs: int) -> Any:
    """The inputs back, in float64."""
    padded = inputs.shape[1] // 2
    return inputs[:, :n_inputs].double() + inputs[:, padded : padded + n_inputs].double()


@triton.jit
def _exp2(x):
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _log2(x):
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _inverse(x):
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _side(
    side,
    starts,
    positive,
    against,
    parameters,
    n_inputs,
    n_experts,
    n_sides,
    INPUTS: tl.constexpr,
    EXPERTS: tl.constexpr,
):
    """r_k ln 2 and β_k / ln 2 of a side's experts, and which code it says yes to; behind the last side is one without experts."""
    there = side < n_sides
    k = tl.load(starts + side, mask=there, other=0) + tl.arange(0, EXPERTS)
    d = tl.arange(0, INPUTS)
    real = k < tl.load(starts + side + 1, mask=there, other=0)
    weight = tl.exp(tl.load(parameters + k, mask=real, other=-1e30))[None, :] * _LN2
    line = tl.where(d < n_inputs, d + 2, 1)  # the input behind the last one is the constant
    known = (d <= n_inputs)[:, None] & real[None, :]
    coefs = tl.load(parameters + line[:, None] * n_experts + k[None, :], mask=known, other=0.0) / _LN2
    code_yes = tl.load(positive + side, mask=there, other=0)
    return weight, coefs.to(tl.float16), code_yes, tl.load(against + side, mask=there, other=0) != 0


@triton.jit
def _slopes(psi, weight, signed):
    """By ln r and by the distances of some rows, and what the rows lose; ``signed`` weights are positive where a row says yes.

    Distances ψ are in units of ln 2, so that softplus is ln 2 (max(ψ, 0) + log2(1 + 2^-|ψ|)); ``weight`` is r ln 2.
    """
    tail = _exp2(-tl.abs(psi))
    more = tl.where(tail < 2e-3, tail * (1.0 / _LN2 - 0.5 / _LN2 * tail), _log2(1.0 + tail))
    rates = (tl.maximum(psi, 0.0) + more) * weight
    rate = tl.sum(rates, axis=1)
    safe = tl.maximum(rate, 1e-30)
    gone = _exp2(safe * (-1.0 / _LN2))
    event = tl.where(safe < 1e-3, safe * (1.0 - 0.5 * safe), 1.0 - gone)
    loss = -signed * tl.where(signed > 0.0, _LN2 * _log2(event), rate)
    slope = -signed * tl.where(signed > 0.0, gone * _inverse(event), 1.0)
    by_distance = (slope / _LN2)[:, None] * weight * (tl.where(psi >= 0.0, 1.0, tail) * _inverse(1.0 + tail))
    return slope[:, None] * rates, tl.minimum(by_distance, _LARGEST).to(tl.float16), loss


@triton.jit
def _partial_gradients(
    inputs, codes, weights, index, parameters, starts, positive, against, totals, out, losses,
    n_batch, n_inputs, n_experts, n_sides, padded, stride, n_tiles,
    TILE: tl.constexpr, INPUTS: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Weighted loss of some rows of a batch for two sides, and its gradient, as lines coefficients, bias, ..., ln r of ``out``.

    A slope of a distance is at most the weight of its row, where the row says yes, and r_k times it, where it says no. Weights are
    taken relative to their mean, so that float16 holds the slopes.
    """
    pair, program = tl.program_id(0), tl.program_id(1)
    weight_0, coefs_0, yes_0, against_0 = _side(
        2 * pair, starts, positive, against, parameters, n_inputs, n_experts, n_sides, INPUTS, EXPERTS
    )
    weight_1, coefs_1, yes_1, against_1 = _side(
        2 * pair + 1, starts, positive, against, parameters, n_inputs, n_experts, n_sides, INPUTS, EXPERTS
    )
    mean_weight = tl.load(totals + 1) / tl.load(totals)
    total_0 = tl.zeros([INPUTS, EXPERTS], tl.float32)
    total_1 = tl.zeros([INPUTS, EXPERTS], tl.float32)
    of_weights_0 = tl.zeros([TILE, EXPERTS], tl.float32)
    of_weights_1 = tl.zeros([TILE, EXPERTS], tl.float32)
    loss = tl.zeros([TILE], tl.float32)
    d, own = tl.arange(0, INPUTS), tl.arange(0, EXPERTS)
    for tile in tl.range(0, n_tiles, num_stages=3):
        j = (program * n_tiles + tile) * TILE + tl.arange(0, TILE)
        inside = j < n_batch
        row = tl.load(index + j, mask=inside, other=0)
        x = tl.load(inputs + row[:, None] * stride + d[None, :], mask=(d < padded)[None, :], other=0.0)
        row_weight = tl.where(inside, tl.load(weights + row), 0.0) / mean_weight
        code = tl.load(codes + row)
        signed_0 = tl.where((code == yes_0) != against_0, row_weight, -row_weight)
        by_weight, by_distance, lost = _slopes(tl.dot(x, coefs_0), weight_0, signed_0)
        of_weights_0 += by_weight
        loss += lost
        total_0 = tl.dot(tl.trans(x), by_distance, total_0)
        signed_1 = tl.where((code == yes_1) != against_1, row_weight, -row_weight)
        by_weight, by_distance, lost = _slopes(tl.dot(x, coefs_1), weight_1, signed_1)
        of_weights_1 += by_weight
        loss += tl.where(2 * pair + 1 < n_sides, lost, 0.0)
        total_1 = tl.dot(tl.trans(x), by_distance, total_1)
    scale = tl.load(totals + 1) / n_batch
    program = program * tl.num_programs(0) + pair
    place = out + program * 2 * (INPUTS + 1) * EXPERTS
    tl.store(place + d[:, None] * EXPERTS + own[None, :], total_0 * scale)
    tl.store(place + INPUTS * EXPERTS + own, tl.sum(of_weights_0, axis=0) * scale)
    place += (INPUTS + 1) * EXPERTS
    tl.store(place + d[:, None] * EXPERTS + own[None, :], total_1 * scale)
    tl.store(place + INPUTS * EXPERTS + own, tl.sum(of_weights_1, axis=0) * scale)
    tl.store(losses + program, tl.sum(loss, axis=0) * scale)


@triton.jit
def _adam_step(
    partials, places, losses, parameters, first, second, healthy, slope, totals, size, correction, loss_out,
    n_partials, n_losses, n_inputs, n_experts, n_numbers, inv_scale, bias_power, coef_power, coef_rate,
    PARTIALS: tl.constexpr, INPUTS: tl.constexpr, WIDTH: tl.constexpr, EXPERTS: tl.constexpr,
):  # fmt: skip
    """Add the partial gradients of some experts in one row of the parameters, and those of the penalty, and take Adam's step.

    ``n_numbers`` are those of one partial gradient, ``places`` where an expert's stand in it.
    """
    line = tl.program_id(0)
    k = tl.program_id(1) * EXPERTS + tl.arange(0, EXPERTS)
    real = k < n_experts
    here = line * n_experts + k
    value = tl.load(parameters + here, mask=real, other=0.0)
    one, two = tl.load(first + here, mask=real, other=0.0), tl.load(second + here, mask=real, other=0.0)
    log_weight_slope = tl.load(slope + k, mask=real, other=0.0)
    total_weight, rate, root = tl.load(totals + 1), tl.load(size), tl.load(correction)
    p = tl.arange(0, PARTIALS)
    gradients = tl.zeros([PARTIALS, EXPERTS], tl.float32)
    source = tl.where(line == 0, INPUTS, tl.where(line == 1, n_inputs, line - 2))
    place = source * WIDTH + tl.load(places + k, mask=real, other=0)
    for begin in range(0, n_partials, PARTIALS):
        inside = begin + p < n_partials
        at = (begin + p)[:, None] * n_numbers + place[None, :]
        gradients += tl.load(partials + at, mask=inside[:, None] & real[None, :], other=0.0)
    of_weight = inv_scale * tl.exp(value) - log_weight_slope
    of_coef = tl.where(line == 1, bias_power, coef_power) * 2.0 * value / (2.0 * coef_rate + value * value)
    gradient = tl.sum(gradients, axis=0) + tl.where(line == 0, of_weight, of_coef)
    check = tl.sum(tl.where(real, gradient * gradient, 0.0), axis=0)
    if line + tl.program_id(1) == 0:
        loss = tl.zeros([PARTIALS], tl.float32)
        for begin in range(0, n_losses, PARTIALS):
            loss += tl.load(losses + begin + p, mask=begin + p < n_losses, other=0.0)
        total_loss = tl.sum(loss, axis=0)
        check += total_loss
        tl.store(loss_out, total_loss / total_weight)
    if (check - check) != 0.0:
        tl.store(healthy, 0)
    gradient = gradient / total_weight
    one = _BETA1 * one + (1.0 - _BETA1) * gradient
    two = _BETA2 * two + (1.0 - _BETA2) * gradient * gradient
    tl.store(first + here, one, mask=real)
    tl.store(second + here, two, mask=real)
    tl.store(parameters + here, value - rate * one / (tl.sqrt(two) / root + _EPSILON), mask=real)


class FusedWindow(StepWindow):
    """`StepWindow` with both kernels; ``rows.inputs`` come from `split`."""

    _starts: Any = None
    _places: Any = None
    _width = _n_processors = 0

    def _prepare(self, device: Any, n_lines: int) -> None:
        """Where every side's experts begin, and where an expert's numbers stand in a partial gradient."""
        side, n_sides = self.layout.side, self.layout.n_sides
        self._starts = torch.searchsorted(side, torch.arange(n_sides + 1, device=device))
        self._width = max(16, triton.next_power_of_2(int(self._starts.diff().max())))
        self._places = side * n_lines * self._width + torch.arange(len(side), device=device) - self._starts[side]
        self._n_processors = torch.cuda.get_device_properties(device).multi_processor_count

    def step(self, index: Any, size: Any, correction: Any) -> Any:
        """One step on the rows ``index``; returns the loss per unit of weight."""
        rows, layout, prior = self.rows, self.layout, self.prior
        parameters, first, second, healthy = self.moving
        n_batch, n_inputs, n_experts, n_sides = len(index), parameters.shape[0] - 2, parameters.shape[1], layout.n_sides
        padded = rows.inputs.shape[1] // 2
        inputs = triton.next_power_of_2(padded)
        if self._starts is None:
            self._prepare(index.device, inputs + 1)
        n_pairs, n_tiles = triton.cdiv(n_sides, 2), triton.cdiv(n_batch, TILE)
        n_tiles = triton.cdiv(n_tiles, max(1, PROGRAMS_PER_PROCESSOR * self._n_processors // n_pairs))
        n_partials, n_numbers = triton.cdiv(n_batch, n_tiles * TILE), 2 * n_pairs * (inputs + 1) * self._width
        partials = parameters.new_empty(n_partials, n_numbers)
        losses, loss = parameters.new_empty(n_partials * n_pairs), parameters.new_empty(())
        scales = [torch.as_tensor(value, dtype=parameters.dtype, device=index.device) for value in (size, correction)]
        with torch.cuda.device(index.device):
            _partial_gradients[(n_pairs, n_partials)](
                rows.inputs, rows.codes, rows.weights, index, parameters,
                self._starts, layout.positive, layout.against.view(torch.uint8), self.totals, partials, losses,
                n_batch, n_inputs, n_experts, n_sides, padded, 2 * padded, n_tiles,
                TILE=TILE, INPUTS=inputs, EXPERTS=self._width, num_warps=4,
            )  # fmt: skip
            _adam_step[(n_inputs + 2, triton.cdiv(n_experts, ADDED_EXPERTS))](
                partials, self._places, losses, parameters, first, second, healthy.view(torch.uint8), self.slope,
                self.totals, *scales, loss, n_partials, n_partials * n_pairs, n_inputs, n_experts, n_numbers,
                prior.inv_scale, prior.bias_power, prior.coef_power, prior.coef_rate,
                PARTIALS=ADDED_PARTIALS, INPUTS=inputs, WIDTH=self._width, EXPERTS=ADDED_EXPERTS, num_warps=8,
            )  # fmt: skip
        return loss
