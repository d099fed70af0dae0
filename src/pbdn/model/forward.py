"""Rates of a whole network on dense rows, in one compiled pass.

Rows are worked on in tiles that stay in cache, turned so that the numbers of one input lie side by side:
features, squares, then the units of layer after layer. What a layer sees (`pbdn.model.wiring`) is then a run of neighbouring
inputs. Networks that are averaged are passed one after the other, each without the zeros that stand for the units of the
others. Sums run in a fixed order: the rate of a row depends neither on the rows beside it nor on a BLAS.

Ramps are no inputs here. All that those of a feature add to a distance is a line with bends, so that its height at the last bend and
its slope there are enough, however many ramps there are.

The first pass of a process waits until the kernel is loaded (0.1 s) or compiled (1 s, once on a machine). So few rows take the
way of NumPy, whose rates differ by rounding only.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pbdn.model.tails import pull_in_lanes
from pbdn.model.wiring import FEATURES, Curve, Inputs, sees_features, sources_of
from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray
from pbdn.numerics.compiled import summing, summing_kernel, vectorised
from pbdn.numerics.elementary import LANES, minus_log_one_minus, one_minus_exp
from pbdn.numerics.products import BLOCK_ROWS, add_lines, number_at, padded, padded_size, product_at
from pbdn.numerics.softplus import softplus_lanes

if TYPE_CHECKING:
    from pbdn.model.network import Network

TILE = 64  # rows that are worked on together
FEWEST_ROWS = 1000
MOST_FEATURES = 512  # a BLAS is as fast on wider rows


class Plan(NamedTuple):
    """A network for the compiled pass.

    Attributes
    ----------
    steps : (n_steps, 7)
        One line for each layer of each network that is averaged: where its coefficients and its experts begin, how many
        experts it has, its first input, the number of its inputs, where its units go (-1: it is a top layer), and where its
        experts begin among those that climb ramps (-1: it has none to climb).
    coefficients : (sum of experts, padded, x inputs)
        Without the biases and those of ramps.
    experts : (2, n_experts)
        Biases, and the weights of experts of top layers.
    answers : (n_experts,)
        Which answer an expert of a top layer belongs to: one after the other those of all networks that are averaged, side after
        side.
    tailed : (n_tails,)
        Features whose long tails are pulled in.
    tails : (3, n_tails)
        Centres, scales and powers of these.
    squared : (n_squares,)
        Features that have squares.
    unit : (2, n_squares)
        Centres and scales of these.
    climbed : (2, n_climbed + 1)
        Features that have ramps, and where the bends of each begin; at the end, how many bends there are.
    bends : (n_bends,)
    lines : (2, n_bends + n_climbed, n_climbing, padded)
        What the ramps of a feature add to the distances of all experts that climb them: the heights at bends, and the slopes from there
        on. Before the first bend of a feature, which takes a place here too, both are zero.
    """

    steps: IntArray
    coefficients: FloatArray
    experts: FloatArray
    answers: IntArray
    tailed: IntArray
    tails: FloatArray
    squared: IntArray
    unit: FloatArray
    climbed: IntArray
    bends: FloatArray
    lines: FloatArray


class Tile(NamedTuple):
    """Memory of the rows that are worked on together.

    Attributes
    ----------
    inputs : (n_inputs x TILE,)
    distance : (n_experts, padded, x TILE)
        Of the hyperplanes of one layer.
    passed : (TILE,)
        Bends of a feature that rows have passed.
    line : (TILE, n_climbed)
        On which of the ``lines`` of a `Plan` a row is.
    beyond : (TILE, n_climbed)
        How far behind the last bend.
    climbing : (TILE, n_climbing, padded)
        What ramps add to distances.
    rates : (n_answers, TILE)
    """

    inputs: FloatArray
    distance: FloatArray
    passed: IntArray
    line: IntArray
    beyond: FloatArray
    climbing: FloatArray
    rates: FloatArray


def plan_of(network: "Network") -> Plan:
    """What the compiled pass needs of a network."""
    steps: list[tuple[int, ...]] = []
    coefficients, biases, weights, answers, of_ramps = [], [], [], [], []
    filled = n_experts = n_climbing = 0
    curve, n_features = network.curve, network.n_features
    n_ramps = curve.n_bent if curve is not None and curve.ramps else 0
    owners = np.concatenate(network.owners)
    together = network.depth == 1  # one layer has no units of others to leave out
    for m in range(1 if together else network.n_members):
        chosen = _needed(network, np.ones_like(owners, np.bool_) if together else owners == m)
        place = [0, network.n_expanded - n_ramps]  # where the features begin, and the units of every layer
        for t, layer in enumerate(network.layers, 1):
            planes = np.concatenate([side.hyperplanes for side in layer.sides])[chosen[t]]
            planes = planes[:, np.concatenate([[True], *(chosen[source] for source in sources_of(t))])]
            climbs = n_ramps > 0 and sees_features(t)
            if climbs:
                planes, ramps, units = np.split(planes, [1 + n_features, 1 + n_features + n_ramps], axis=1)
                planes = np.column_stack([planes, units])
                of_ramps.append(ramps)
            count, n_inputs = planes.shape[0], planes.shape[1] - 1
            top = t == network.depth
            target, climbing = -1 if top else place[t], n_climbing if climbs else -1
            steps.append((filled, n_experts, count, place[sources_of(t)[0]], n_inputs, target, climbing))
            n_climbing += count if climbs else 0
            place.append(place[t] + count)
            block = np.zeros((-(-count // BLOCK_ROWS) * BLOCK_ROWS, n_inputs))
            block[:count] = planes[:, 1:]
            coefficients.append(block.ravel())
            biases.append(planes[:, 0])
            weights.append(np.concatenate([side.expert_weights for side in layer.sides])[chosen[t]])
            of_side = np.repeat(np.arange(len(layer.sides)), layer.n_experts)[chosen[t]]
            answers.append(network.n_averaged * of_side + (owners[chosen[t]] % network.n_averaged if top else 0))
            filled, n_experts = filled + block.size, n_experts + count
    tails, squares = network.tails, curve if curve is not None and not n_ramps else None
    return Plan(
        np.array(steps, np.int64),
        np.concatenate(coefficients),
        np.stack([np.concatenate(biases), np.concatenate(weights)]),
        np.concatenate(answers).astype(np.int64),
        np.empty(0, np.int64) if tails is None else tails.columns.astype(np.int64),
        np.zeros((3, 0)) if tails is None else np.stack([tails.centers, tails.scales, tails.powers]),
        np.empty(0, np.int64) if squares is None else squares.columns.astype(np.int64),
        np.zeros((2, 0)) if squares is None else np.stack([squares.centers, squares.scales]),
        *bent_lines(curve if n_ramps else None, np.concatenate([*of_ramps, np.zeros((0, n_ramps))])),
    )


def bent_lines(ramps: Curve | None, coefs: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """``climbed``, ``bends`` and ``lines`` of a `Plan`, for experts with these coefficients of ramps, shape (n_experts, n_ramps)."""
    columns: IntArray = np.empty(0, np.int64) if ramps is None else np.unique(ramps.columns)
    bends, begins, width = [np.empty(0)], [0], padded(len(coefs))
    lines = [np.zeros((2, 0, width))]
    for j in columns:
        assert ramps is not None
        own = np.flatnonzero(ramps.columns == j)
        begin, length = ramps.centers[own], ramps.scales[own]
        end = begin + length
        at = np.unique(np.concatenate([begin, end]))
        height = np.where(at[:, None] >= end, 1.0, ramps.bend(np.tile(at[:, None], own.size), own))
        slope = np.where((begin <= at[:-1, None]) & (at[1:, None] <= end), 1.0 / length, 0.0)
        line = np.zeros((2, at.size + 1, width))
        line[0, 1:, : len(coefs)] = height @ coefs[:, own].T
        line[1, 1:-1, : len(coefs)] = slope @ coefs[:, own].T
        bends.append(at)
        begins.append(begins[-1] + at.size)
        lines.append(line)
    climbed = np.array([[*columns, -1], begins], np.int64)
    return climbed, np.concatenate(bends), np.ascontiguousarray(np.concatenate(lines, axis=1))


def _needed(network: "Network", experts: BoolArray) -> list[BoolArray]:
    """Which features (all), and which units of every layer, some experts of the top layer need."""
    needed = [np.ones(network.n_expanded, np.bool_), *(np.zeros(count, np.bool_) for count in network.n_units)]
    needed[-1] = experts
    for t in range(network.depth, 0, -1):
        planes = np.concatenate([side.hyperplanes for side in network.layers[t - 1].sides])[needed[t]]
        place = 1
        for source in sources_of(t):
            width = needed[source].size
            if source != FEATURES:
                needed[source] |= planes[:, place : place + width].any(axis=0)
            place += width
    return needed


def is_worth_it(features: Inputs) -> bool:
    """Whether rows are dense, and many and narrow enough for the compiled pass."""
    if not isinstance(features, np.ndarray) or not features.flags.c_contiguous or features.dtype != np.float64:
        return False
    return bool(features.shape[0] >= FEWEST_ROWS and features.shape[1] <= MOST_FEATURES)


def side_rates(plan: Plan, n_sides: int, n_members: int, features: FloatArray) -> FloatArray:
    """λ of every side on C-contiguous rows, shape (n, n_sides): of the average of the members' answers."""
    n_rows, n_features = features.shape
    most, n_climbed = plan.steps[:, 2].max(), plan.climbed.shape[1] - 1
    n_inputs = max(n_features + plan.squared.size, (plan.steps[:, 2] + plan.steps[:, 5]).max())
    tile = Tile(
        inputs=np.zeros(n_inputs * TILE),
        distance=np.empty((most + BLOCK_ROWS) * TILE),
        passed=np.empty(TILE, np.int64),
        line=np.empty((TILE, n_climbed), np.int64),
        beyond=np.empty((TILE, n_climbed)),
        climbing=np.empty((TILE, plan.lines.shape[2])),
        rates=np.empty((n_sides * n_members, TILE)),
    )
    out = np.empty((n_sides, n_rows))
    address = features.__array_interface__["data"][0]  # so that rows that cannot be written to need no other kernel
    _add_rates(address, n_rows, n_features, plan, tile, out)
    return out.T


@summing_kernel
def _add_rates(address: int, n_rows: int, n_features: int, plan: Plan, tile: Tile, out: Any) -> None:
    """Add λ, one answer after the other, and average."""
    steps, inputs, distance, rates = plan.steps, tile.inputs, tile.distance, tile.rates
    n_sides, n_members = out.shape[0], rates.shape[0] // out.shape[0]
    climbing, experts, answers = tile.climbing, plan.experts, plan.answers
    at_coefficients, at_inputs, at_distance = plan.coefficients.ctypes.data, inputs.ctypes.data, distance.ctypes.data
    for begin in range(0, n_rows, TILE):
        n = n_rows - begin if n_rows - begin < TILE else TILE
        for v in range(n_features):
            for i in range(n):
                inputs[v * TILE + i] = number_at(address, (begin + i) * n_features + v)
        for q in range(plan.tailed.size):
            seen = at_inputs + 8 * plan.tailed[q] * TILE
            for i in range(0, n, LANES):
                pull_in_lanes(seen + 8 * i, plan.tails[0, q], plan.tails[1, q], plan.tails[2, q])
        for q in range(plan.squared.size):
            center, scale, place = plan.unit[0, q], plan.unit[1, q], plan.squared[q] * TILE
            for i in range(n):
                z = (inputs[place + i] - center) / scale
                inputs[(n_features + q) * TILE + i] = z * z
        _climb(n, plan.climbed, plan.bends, plan.lines, tile)
        rates[:] = 0.0
        for j in range(steps.shape[0]):
            filled, count, source, depth, target = steps[j, 0], steps[j, 2], steps[j, 3], steps[j, 4], steps[j, 5]
            product_at(
                count, padded_size(n), depth, at_coefficients + 8 * filled, depth, 1,
                at_inputs + 8 * source * TILE, TILE, at_distance, TILE,
            )  # fmt: skip
            if steps[j, 6] >= 0:
                for k in range(count):
                    for i in range(n):
                        distance[k * TILE + i] += climbing[i, steps[j, 6] + k]
            for k in range(count):
                expert = steps[j, 1] + k
                to = at_inputs + 8 * (target + k) * TILE if target >= 0 else at_distance + 8 * k * TILE
                for i in range(0, n, LANES):
                    softplus_lanes(at_distance + 8 * (k * TILE + i), experts[0, expert], to + 8 * i)
                if target < 0:
                    answer, weight = answers[expert], experts[1, expert]
                    for i in range(n):
                        rates[answer, i] += weight * distance[k * TILE + i]
        for side in range(n_sides):
            _average(rates[side * n_members : (side + 1) * n_members], n, out[side, begin : begin + n])


@summing
def _climb(n: int, climbed: Any, bends: Any, lines: Any, tile: Tile) -> None:
    """What ramps add to the distances of n rows from the hyperplanes of all experts that climb them."""
    count, width = climbed.shape[1] - 1, lines.shape[2]
    for g in range(count):
        seen, begin = climbed[0, g] * TILE, climbed[1, g]
        tile.passed[:] = 0
        for b in range(begin, climbed[1, g + 1]):
            for i in range(TILE):
                tile.passed[i] += 1 if tile.inputs[seen + i] >= bends[b] else 0
        for i in range(n):
            tile.line[i, g] = begin + g + tile.passed[i]
            tile.beyond[i, g] = tile.inputs[seen + i] - bends[begin + max(tile.passed[i] - 1, 0)]
    heights, slopes, out = lines[0].ctypes.data, lines[1].ctypes.data, tile.climbing.ctypes.data
    at, beyond = tile.line.ctypes.data, tile.beyond.ctypes.data
    for k in range(0, width, LANES):
        for i in range(n):
            add_lines(
                out + 8 * (i * width + k), heights + 8 * k, slopes + 8 * k, width,
                at + 8 * i * count, beyond + 8 * i * count, count,
            )  # fmt: skip


@vectorised
def _average(rates: Any, n: int, out: Any) -> None:
    """The rates of which 1 - e^{-λ} is the average over members (`pbdn.model.likelihood.average_answer`); ``rates`` change."""
    n_members = rates.shape[0]
    for i in range(n):
        out[i] = rates[0, i]
    for m in range(1, n_members):
        for i in range(n):
            out[i] = min(out[i], rates[m, i])
    if n_members > 1:
        for m in range(n_members):
            for i in range(n):
                rates[m, i] = one_minus_exp(rates[m, i] - out[i])
        for m in range(1, n_members):
            for i in range(n):
                rates[0, i] += rates[m, i]
        for i in range(n):
            out[i] += minus_log_one_minus(rates[0, i] / n_members)
