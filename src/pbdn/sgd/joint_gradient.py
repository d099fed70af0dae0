"""Compiled loss and gradient of a whole network on one minibatch, and Adam steps on them.

All layers' parameters lie in one flat array, layer after layer, each packed as in `pbdn.sgd.objective`. Rows are visited in
tiles. Reductions run in a fixed order: results do not depend on any thread count, nor on a BLAS.
"""

import math
from typing import Any

import numpy as np

from pbdn.model.wiring import FEATURES
from pbdn.numerics.compiled import chosen_by_type, inlined, summing, summing_kernel
from pbdn.numerics.products import padded_size, product, table
from pbdn.numerics.softplus import softplus_logistic
from pbdn.sgd.adam import Prior, adam_step, add_penalty_gradient, sum_of_log1p
from pbdn.sgd.joint_workspace import TILE, LayerWork, NoisyRows, Stack, joint_workspace, n_seen
from pbdn.sgd.kernel_arguments import TINY_RATE
from pbdn.sgd.link_function import is_yes, link_slopes, row_rate
from pbdn.sgd.timed_sides import add_time_penalty, timed_sides


@summing
def _gather(rows: NoisyRows, index: Any, at: int, stack: Stack, work: LayerWork) -> None:
    """Noisy features of a tile, with a leading one, into the inputs of the first layer."""
    n_plain, stride = rows.scale.shape[0], padded_size(n_seen(0, stack, rows.ramps.shape[1]))
    seen = table(work.inputs, index.shape[0], stride)
    for i in range(index.shape[0]):
        row, noise = rows.inputs[index[i]], rows.pool[rows.offsets[at + i] :]
        seen[i, 0] = 1.0
        for v in range(n_plain):
            seen[i, 1 + v] = row[v] + rows.scale[v] * noise[v]
        for g in range(rows.groups.shape[0] - 1):
            j, last = rows.groups[g], rows.groups[g + 1] - 1
            feature = seen[i, 1 + rows.columns[j]]
            while j < last and feature > rows.ramps[0, j + 1]:
                j += 1
            along = (feature - rows.ramps[0, j]) * rows.ramps[1, j]
            work.ramp[i, g], work.along[i, g] = j, min(max(along, 0.0), 1.0)
        for j in range(rows.slopes.shape[1]):
            v = rows.columns[j]
            moved = rows.slopes[index[i], j] * (rows.scale[v] * noise[v])
            seen[i, 1 + n_plain + j] = row[n_plain + j] + moved


@summing
def _see(t: int, n: int, n_ramps: int, stack: Stack, work: LayerWork) -> None:
    """Put together what layer t > 0 (from 0) sees: a one, then the features or units of its two sources."""
    n_features, place = stack.n_inputs[0] - n_ramps, 1
    seen = table(work.inputs[work.input_at[t] :], n, padded_size(n_seen(t, stack, n_ramps)))
    for i in range(n):
        seen[i, 0] = 1.0
    for j in range(2):
        source = stack.sources[t, j]
        if source == FEATURES:
            count, skip = n_features, 1
            below = table(work.inputs, n, padded_size(n_features + 1))
        else:
            count, skip = stack.n_units[source - 1], 0
            below = table(work.units[work.unit_at[source - 1] :], n, padded_size(count))
        own = seen[:, place:]
        for i in range(n):
            for v in range(count):
                own[i, v] = below[i, skip + v]
        place += count


@inlined
def _place(t: int, v: int, rows: NoisyRows, stack: Stack) -> int:
    """Where the coefficients of input v = 0, 1, … of layer t that is no ramp begin among the parameters; 0 is the constant."""
    n_ramps = stack.n_inputs[t] + 1 - n_seen(t, stack, rows.ramps.shape[1])
    behind = n_ramps if v > rows.scale.shape[0] else 0
    return int(stack.first[t] + (1 + v + behind) * stack.n_units[t])


@summing
def _fill_panel(t: int, parameters: Any, rows: NoisyRows, stack: Stack, transposed: bool, panel: Any) -> None:
    """Hyperplanes of a layer without ramps, bias first, padded by zeros: one row per input, or per expert if ``transposed``."""
    count, n_rows = stack.n_units[t], n_seen(t, stack, rows.ramps.shape[1])
    width, stride = padded_size(count), padded_size(n_rows)
    panel[: width * stride] = 0.0
    by_expert, by_input = table(panel, count, stride), table(panel, n_rows, width)
    for v in range(n_rows):
        own = parameters[_place(t, v, rows, stack) :]
        if transposed:
            for k in range(count):
                by_expert[k, v] = own[k]
        else:
            for k in range(count):
                by_input[v, k] = own[k]


@summing
def _forward(t: int, n: int, rows: NoisyRows, parameters: Any, stack: Stack, work: LayerWork) -> None:
    """Units of layer t (from 0) and the slopes of their softplus."""
    width, n_rows = padded_size(stack.n_units[t]), n_seen(t, stack, rows.ramps.shape[1])
    _fill_panel(t, parameters, rows, stack, False, work.panel)
    inputs, units = work.inputs[work.input_at[t] :], work.units[work.unit_at[t] :]
    product(padded_size(n), width, n_rows, inputs, padded_size(n_rows), 1, work.panel, width, work.product, width)
    if n_rows < stack.n_inputs[t] + 1:
        _climb_ramps(t, n, rows, parameters, stack, work)
    softplus_logistic(n * width, work.product, units, work.slopes[work.unit_at[t] :])


@summing
def _climb_ramps(t: int, n: int, rows: NoisyRows, parameters: Any, stack: Stack, work: LayerWork) -> None:
    """Add what ramps do to the distances of layer t: all of those that a row has passed, and its part of the one it is on."""
    count, low, rise = stack.n_units[t], rows.ramps[2], rows.ramps[3]
    width, first = padded_size(count), stack.first[t] + (2 + rows.scale.shape[0]) * count
    passed, own, base = work.on_ramps[0], work.on_ramps[1], work.experts[0]
    base[:count] = 0.0
    for g in range(rows.groups.shape[0] - 1):
        for j in range(rows.groups[g], rows.groups[g + 1]):
            for k in range(count):
                coef = parameters[first + j * count + k]
                base[k] += low[j] * coef
                own[j, k] = rise[j] * coef
                passed[j, k] = 0.0 if j == rows.groups[g] else passed[j - 1, k] + own[j - 1, k]
    distances = table(work.product, n, width)
    for i in range(n):
        for k in range(count):
            distances[i, k] += base[k]
        for g in range(rows.groups.shape[0] - 1):
            j, along = work.ramp[i, g], work.along[i, g]
            before, here = passed[j], own[j]
            for k in range(width):
                distances[i, k] += before[k] + along * here[k]


@summing
def _descend_ramps(
    t: int, n: int, rows: NoisyRows, by_distance: Any, stack: Stack, work: LayerWork, gradient: Any
) -> None:
    """Add ∂/∂coefficients of the ramps of layer t, of which ∂/∂distances summed over rows stand in ``work.product``."""
    count, low, rise = stack.n_units[t], rows.ramps[2], rows.ramps[3]
    width, first = padded_size(count), stack.first[t] + (2 + rows.scale.shape[0]) * count
    whole, part, beyond = work.on_ramps[0], work.on_ramps[1], work.experts[0]
    slopes = table(by_distance, n, width)
    work.on_ramps[:] = 0.0
    for i in range(n):
        for g in range(rows.groups.shape[0] - 1):
            j, along = work.ramp[i, g], work.along[i, g]
            all_of, part_of = whole[j], part[j]
            for k in range(width):
                all_of[k] += slopes[i, k]
                part_of[k] += along * slopes[i, k]
    for g in range(rows.groups.shape[0] - 1):
        beyond[:count] = 0.0
        for j in range(rows.groups[g + 1] - 1, rows.groups[g] - 1, -1):
            for k in range(count):
                gradient[first + j * count + k] += low[j] * work.product[k] + rise[j] * (beyond[k] + part[j, k])
                beyond[k] += whole[j, k]


@summing
def _class_sides(
    t: int, rows: NoisyRows, index: Any, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
) -> float:
    """Loss of the sides of layer t on its units; adds ∂/∂ln r, and for the top layer sets ∂/∂units."""
    n, count, is_top = index.shape[0], stack.n_units[t], t == stack.n_units.shape[0] - 1
    width, first, loss = padded_size(count), stack.first[t], 0.0
    for i in range(n):
        work.row_weight[i] = scale * rows.weights[index[i]]
    weights, by_weight = work.experts[0], work.experts[1]
    for k in range(count):
        weights[k] = math.exp(parameters[first + k])
        by_weight[k] = 0.0
    units, by_units = table(work.units[work.unit_at[t] :], n, width), table(work.by_units[work.unit_at[t] :], n, width)
    for s in range(stack.positive.shape[0]):
        a, b = np.uint64(stack.starts[t, s]), np.uint64(stack.starts[t, s + 1])
        for i in range(n):
            rate = row_rate(weights, units, i, a, b)
            work.rate[i] = TINY_RATE if rate < TINY_RATE else rate
            work.is_positive[i] = is_yes(rows.targets[index[i]], stack.positive[s])
        loss += link_slopes(n, work.is_positive, work.row_weight, work.rate)
        for i in range(n):
            slope = work.rate[i]
            for k in range(a, b):
                by_weight[k] += slope * units[i, k]
            if is_top:
                for k in range(a, b):
                    by_units[i, k] = slope * weights[k]
    for k in range(count):
        gradient[first + k] += weights[k] * by_weight[k]
    return loss


def side_losses(*arguments: Any) -> float:  # type: ignore[empty-body]
    """`_class_sides` or, for values on a line, `pbdn.sgd.timed_sides.timed_sides`."""


@chosen_by_type(side_losses)
def _side_losses(
    t: int, rows: Any, index: Any, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
) -> Any:
    def classes(
        t: int, rows: Any, index: Any, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
    ) -> float:
        return _class_sides(t, rows, index, scale, parameters, stack, work, gradient)

    def timed(
        t: int, rows: Any, index: Any, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
    ) -> float:
        return timed_sides(t, rows, index, scale, parameters, stack, work, gradient)

    return classes if rows.types[rows.fields.index("targets")].ndim == 1 else timed


@summing
def _backward(t: int, n: int, rows: NoisyRows, parameters: Any, stack: Stack, work: LayerWork, gradient: Any) -> None:
    """Add ∂/∂hyperplanes of layer t, and hand ∂/∂inputs down to the units that they are."""
    n_ramps = rows.ramps.shape[1]
    count, n_rows = stack.n_units[t], n_seen(t, stack, n_ramps)
    width, stride = padded_size(count), padded_size(n_rows)
    by_distance = work.by_units[work.unit_at[t] : work.unit_at[t] + TILE * width]
    slopes = work.slopes[work.unit_at[t] :]
    for j in range(n * width):
        by_distance[j] *= slopes[j]
    inputs = work.inputs[work.input_at[t] :]
    product(stride, width, n, inputs, 1, stride, by_distance, width, work.product, width)
    found = table(work.product, n_rows, width)
    for v in range(n_rows):
        own = gradient[_place(t, v, rows, stack) :]
        for k in range(count):
            own[k] += found[v, k]
    if n_rows < stack.n_inputs[t] + 1:
        _descend_ramps(t, n, rows, by_distance, stack, work, gradient)
    if t == 0:
        return
    _fill_panel(t, parameters, rows, stack, True, work.panel)
    product(padded_size(n), stride, count, by_distance, width, 1, work.panel, stride, work.product, stride)
    place = 1
    for j in range(2):
        source = stack.sources[t, j]
        if source == FEATURES:
            place += stack.n_inputs[0] - n_ramps
            continue
        below = stack.n_units[source - 1]
        by_units = table(work.by_units[work.unit_at[source - 1] :], n, padded_size(below))
        by_inputs = table(work.product, n, stride)[:, place:]
        for i in range(n):
            for v in range(below):
                by_units[i, v] += by_inputs[i, v]
        place += below


@inlined
def network_gradient(
    rows: NoisyRows, index: Any, at: int, scale: float, parameters: Any, stack: Stack, work: LayerWork, gradient: Any
) -> float:
    """Scaled negative log-likelihood of the top layer on the rows ``index``; fills its gradient.

    The noise of these rows begins at place ``at`` of ``rows.offsets``. The weights ln r of a lower layer get the gradient of that
    layer's own likelihood, and so do its ln τ.
    """
    gradient[:] = 0.0
    n_layers, loss = stack.n_units.shape[0], 0.0
    for begin in range(0, index.shape[0], TILE):
        tile = index[begin : begin + TILE]
        n = tile.shape[0]
        _gather(rows, tile, at + begin, stack, work)
        work.by_units[:] = 0.0
        for t in range(n_layers):
            if t > 0:
                _see(t, n, rows.ramps.shape[1], stack, work)
            _forward(t, n, rows, parameters, stack, work)
            own = side_losses(t, rows, tile, scale, parameters, stack, work, gradient)
            loss += own if t == n_layers - 1 else 0.0
        for t in range(n_layers - 1, -1, -1):
            _backward(t, n, rows, parameters, stack, work, gradient)
    return loss


@summing
def add_network_penalty(parameters: Any, stack: Stack, slopes: Any, prior: Prior, gradient: Any) -> float:
    """Add the gradient of every layer's penalty; returns the penalty: all of the top layer's, the hyperplanes' of the others.

    ``slopes`` are those of ln r, expert after expert over all layers; the slope in ``prior`` is not used.
    """
    total, done = 0.0, 0
    n_layers = stack.n_units.shape[0]
    for t in range(n_layers):
        count, n_rows, a = stack.n_units[t], stack.n_inputs[t] + 2, stack.first[t]
        own = Prior(slopes[done : done + count], prior.inv_scale, prior.coef_power, prior.coef_rate, prior.bias_power)
        here = parameters[a : a + n_rows * count].reshape((n_rows, count))
        add_penalty_gradient(here, own, gradient[a : a + n_rows * count].reshape((n_rows, count)))
        if t == n_layers - 1:
            for k in range(count):
                total += prior.inv_scale * math.exp(here[0, k]) - own.log_weight_slope[k] * here[0, k]
        factor = 1.0 / (2.0 * prior.coef_rate)
        total += prior.bias_power * sum_of_log1p(here[1], factor)
        total += prior.coef_power * sum_of_log1p(here[2:].reshape(-1), factor)
        done += count
    return total + add_time_penalty(parameters[stack.first[n_layers] :], gradient[stack.first[n_layers] :])


@summing_kernel
def objective_gradient(
    rows: NoisyRows, parameters: Any, stack: Stack, slopes: Any, prior: Prior, gradient: Any
) -> float:
    """The objective of the network on all rows; fills its gradient."""
    index = np.arange(rows.targets.shape[0])
    loss = network_gradient(rows, index, 0, 1.0, parameters, stack, joint_workspace(stack, rows), gradient)
    return loss + add_network_penalty(parameters, stack, slopes, prior, gradient)


@summing_kernel
def run_joint_steps(
    rows: NoisyRows,
    order: Any,
    batch_size: int,
    rates: Any,
    done: int,
    n_rows: int,
    total_weight: float,
    stack: Stack,
    parameters: Any,
    first: Any,
    second: Any,
    slopes: Any,
    prior: Prior,
    signs: Any,
    losses: Any,
) -> float:
    """Take one Adam step per minibatch of ``order``; returns the last loss per unit of weight, NaN as soon as one is not finite.

    Fills the loss of every step in ``losses``. The last minibatch may be smaller than the others.

    Where ``signs``, which may be empty, has a sign, a parameter with another one becomes zero.

    ``done`` are the steps taken before; ``n_rows`` and ``total_weight`` are those of all data, of which ``rows`` may be a part;
    ``first`` and ``second`` are Adam's moments, updated in place like the parameters.
    """
    work, gradient = joint_workspace(stack, rows), np.empty_like(parameters)
    loss = 0.0
    for b in range(rates.shape[0]):
        index = order[b * batch_size : (b + 1) * batch_size]
        scale = n_rows / index.shape[0]
        loss = network_gradient(rows, index, b * batch_size, scale, parameters, stack, work, gradient)
        loss += add_network_penalty(parameters, stack, slopes, prior, gradient)
        if not math.isfinite(loss):
            return math.nan
        losses[b] = loss / total_weight
        adam_step(parameters, first, second, gradient, 1.0 / total_weight, rates[b], done + b + 1)
        for j in range(signs.shape[0]):
            if signs[j] * parameters[j] < 0.0:
                parameters[j] = 0.0
    return loss / total_weight
